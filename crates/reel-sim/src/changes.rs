//! What changes while the server runs and is no fault: devices that become slower or quicker than
//! they were measured, and the shares of classes.

use crate::limits::{
    DRIFT_LEAST_PERMILLE, DRIFT_MOST_PERMILLE, PERIODIC_SHARES_PERMILLE, SHARE_LEAST_PERMILLE,
};
use reel_qos::{ClassSpec, ClassTable, Kind};
use reel_testkit::Rng;

/// Something that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// From here on everything takes the member so many thousandths of what it took when it was
    /// measured.
    Drift {
        /// The member.
        member: usize,
        /// Of the measured time.
        permille: u64,
    },
    /// The classes have other shares.
    Classes(ClassTable),
}

/// Changes one after another, with `rest_ns` between two on average, and when each comes.
pub fn draw(members: usize, from_ns: u64, until_ns: u64, rest_ns: u64, rng: &mut Rng) -> Vec<(u64, Change)> {
    let (mut changes, mut at_ns) = (Vec::new(), from_ns);
    loop {
        at_ns += 1 + rng.wait_ns(rest_ns);
        if at_ns >= until_ns {
            return changes;
        }
        let change = match rng.permille(500) {
            true => Change::Drift {
                member: rng.below(members as u64) as usize,
                permille: rng.range(DRIFT_LEAST_PERMILLE, DRIFT_MOST_PERMILLE + 1),
            },
            false => Change::Classes(draw_classes(rng)),
        };
        changes.push((at_ns, change));
    }
}

fn draw_classes(rng: &mut Rng) -> ClassTable {
    let (least, most) = PERIODIC_SHARES_PERMILLE;
    let periodic = rng.range(least, most + 1);
    let interactive = rng.range(SHARE_LEAST_PERMILLE, 1000 - periodic - SHARE_LEAST_PERMILLE + 1);
    let shares = [
        (Kind::Periodic, periodic),
        (Kind::Interactive, interactive),
        (Kind::Aperiodic, 1000 - periodic - interactive),
    ];
    // Fits: at most 1000.
    let specs = shares.map(|(kind, permille)| ClassSpec::new(kind.name(), kind, permille as u32));
    // The shares make 1000 and none is 0.
    ClassTable::new(specs.into()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_shares_change_within_their_bounds() {
        let changes = draw(5, 10, 1_000_000, 1_000, &mut Rng::new(4));
        assert!(changes.len() > 500 && changes.is_sorted_by_key(|(at_ns, _)| *at_ns));
        let mut periodic = Vec::new();
        for (_, change) in &changes {
            match change {
                Change::Drift { member, permille } => {
                    assert!(*member < 5 && (DRIFT_LEAST_PERMILLE..=DRIFT_MOST_PERMILLE).contains(permille));
                }
                Change::Classes(classes) => periodic.push(classes.share_permille(Kind::Periodic)),
            }
        }
        let (least, most) = PERIODIC_SHARES_PERMILLE;
        assert!(periodic.iter().all(|share| (least..=most).contains(&u64::from(*share))));
        assert!(periodic.iter().max() > periodic.iter().min() && periodic.len() < changes.len());
    }
}
