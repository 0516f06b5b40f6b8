//! When everything is measured again. Pure.
//!
//! Windows that were disturbed all alike agree with one another. Single requests are measured after
//! them: if they took far less than the price says, or larger requests less than smaller ones, the
//! disturbance has ended meanwhile, and another measurement shows what the disk does.

use crate::limits::PROBE_AGAIN_MAX;
use crate::profile::{Disturbances, Profile, ProfileError};

/// The measurements of one member that came before.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    count: u32,
    /// What was measured in them.
    left_out: Disturbances,
}

impl Repeats {
    /// Whether a measurement with this result is to be repeated.
    pub(super) fn are_wanted(&self, found: &Result<Profile, ProfileError>) -> bool {
        let is_believed = found.as_ref().is_ok_and(|profile| profile.contradiction_permille().is_none());
        self.count < PROBE_AGAIN_MAX && !is_believed
    }

    /// One is over that is repeated.
    pub(super) fn add(&mut self, left_out: Disturbances) {
        self.count += 1;
        self.left_out = self.with(left_out);
    }

    /// What disturbed one measurement and those before.
    pub(super) fn with(&self, found: Disturbances) -> Disturbances {
        Disturbances {
            windows: self.left_out.windows.saturating_add(found.windows),
            left_out: self.left_out.left_out.saturating_add(found.left_out),
            stall_ns: self.left_out.stall_ns.max(found.stall_ns),
            unsettled: found.unsettled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DEVICE_REQUESTS_MAX;
    use crate::profile::Cell;
    use crate::profile::tests::measured;

    /// A member whose windows say 16 ms a read, and whose single requests took so long each, with
    /// as many as possible in the device.
    fn found(single_ns: u64) -> Result<Profile, ProfileError> {
        let mut all = measured();
        for window in &mut all.windows {
            (window.p50_ns, window.p99_ns) = (1_600_000_000, 1_600_000_000);
        }
        let depth = DEVICE_REQUESTS_MAX as u32;
        let p50_ns = single_ns * u64::from(depth);
        all.cells = vec![Cell { depth, p50_ns, p99_ns: p50_ns, ..all.cells[0] }];
        Profile::new(all)
    }

    #[test]
    fn a_price_that_single_requests_contradict_is_measured_again_once() {
        let mut repeats = Repeats::default();
        assert!(!repeats.are_wanted(&found(16_000_000)) && !repeats.are_wanted(&found(6_000_000)));
        assert!(repeats.are_wanted(&found(140_000)));
        assert!(repeats.are_wanted(&Err(ProfileError::Implausible("it is not".to_owned()))));
        repeats.add(Disturbances { windows: 16, left_out: 16, stall_ns: 3_000_000_000, unsettled: 0 });
        assert!(!repeats.are_wanted(&found(140_000)), "then it is said so");
        assert_eq!(found(140_000).unwrap().contradiction_permille(), Some(9));
        let quiet = Disturbances { windows: 16, left_out: 0, stall_ns: 0, unsettled: 1 };
        let both = Disturbances { windows: 32, left_out: 16, stall_ns: 3_000_000_000, unsettled: 1 };
        assert_eq!(repeats.with(quiet), both);
    }
}
