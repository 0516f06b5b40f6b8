//! Faults of members, and their times. They are drawn from the seed, never for more members at once
//! than parity covers.

use reel_testkit::{Rng, mix};

/// What is wrong with a member for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Removed and inserted again with its bytes: every request fails at once.
    Pulled,
    /// Removed and replaced by an empty member, which a rebuild has to fill.
    Replaced,
    /// Answers nothing for some time, then continues.
    Stall,
    /// Takes so many thousandths of its time for everything.
    Slow(u64),
    /// So many of a thousand units cannot be read; the disk tries for this long before it says so.
    ReadErrors {
        /// Of a thousand units.
        permille: u64,
        /// How long it tries.
        recovery_ns: u64,
    },
    /// So many of a thousand units come back with a wrong byte and no error.
    Lies(u64),
    /// So many of a thousand units are unreadable, until they are written again.
    Rot(u64),
}

/// A fault of a member from one time to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSpan {
    /// The member.
    pub member: usize,
    /// What.
    pub fault: Fault,
    /// From when on.
    pub from_ns: u64,
    /// Until when.
    pub until_ns: u64,
}

/// Which faults may be drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultKinds {
    /// Members that fail at once: [`Fault::Pulled`].
    pub pulled: bool,
    /// [`Fault::Replaced`].
    pub replaced: bool,
    /// [`Fault::Stall`].
    pub stalls: bool,
    /// [`Fault::Slow`].
    pub slow: bool,
    /// [`Fault::ReadErrors`].
    pub read_errors: bool,
    /// [`Fault::Lies`].
    pub lies: bool,
    /// [`Fault::Rot`].
    pub rot: bool,
}

/// There is no fault of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault `{0}`; choose from pulled, replaced, stalls, slow, read-errors, lies, rot, none")]
pub struct UnknownFault(String);

impl Fault {
    /// A number for journals.
    pub fn code(&self) -> u32 {
        match self {
            Fault::Pulled => 0,
            Fault::Replaced => 1,
            Fault::Stall => 2,
            Fault::Slow(_) => 3,
            Fault::ReadErrors { .. } => 4,
            Fault::Lies(_) => 5,
            Fault::Rot(_) => 6,
        }
    }

    /// Whether the fault meets this unit; the same ones as long as it lasts.
    pub fn meets(&self, span: &FaultSpan, unit: u64) -> bool {
        let permille = match self {
            Fault::ReadErrors { permille, .. } | Fault::Lies(permille) | Fault::Rot(permille) => *permille,
            Fault::Pulled | Fault::Replaced | Fault::Stall | Fault::Slow(_) => return false,
        };
        mix(unit ^ mix(span.from_ns ^ span.member as u64)) % 1000 < permille
    }
}

/// The name of a fault by its code.
pub fn name_of(code: u32) -> &'static str {
    const NAMES: [&str; 7] =
        ["being pulled", "being replaced", "a stall", "slowness", "read errors", "lying", "rotting"];
    NAMES.get(code as usize).copied().unwrap_or("a fault")
}

impl FaultKinds {
    /// Everything.
    pub fn all() -> FaultKinds {
        FaultKinds {
            pulled: true,
            replaced: true,
            stalls: true,
            slow: true,
            read_errors: true,
            lies: true,
            rot: true,
        }
    }

    /// The faults of these names.
    ///
    /// # Errors
    /// A name is neither that of a fault nor `none`; the error holds it.
    pub fn of(names: &[String]) -> Result<FaultKinds, UnknownFault> {
        let mut kinds = FaultKinds::default();
        for name in names {
            let place = match name.as_str() {
                "pulled" => &mut kinds.pulled,
                "replaced" => &mut kinds.replaced,
                "stalls" => &mut kinds.stalls,
                "slow" => &mut kinds.slow,
                "read-errors" => &mut kinds.read_errors,
                "lies" => &mut kinds.lies,
                "rot" => &mut kinds.rot,
                "none" => continue,
                _ => return Err(UnknownFault(name.clone())),
            };
            *place = true;
        }
        Ok(kinds)
    }

    /// Faults one after another with a rest of `rest_ns` between them on average, each of one
    /// member.
    pub fn draw(
        &self,
        members: usize,
        from_ns: u64,
        until_ns: u64,
        rest_ns: u64,
        rng: &mut Rng,
    ) -> Vec<FaultSpan> {
        let kinds: Vec<u32> =
            [self.pulled, self.replaced, self.stalls, self.slow, self.read_errors, self.lies, self.rot]
                .into_iter()
                .enumerate()
                .filter_map(|(code, may)| may.then_some(code as u32))
                .collect();
        let mut spans = Vec::new();
        let mut at_ns = from_ns;
        while !kinds.is_empty() {
            at_ns += SECOND_NS + rng.wait_ns(rest_ns);
            let (fault, seconds) = draw_one(*rng.pick(&kinds), rng);
            let (from_ns, end_ns) = (at_ns, at_ns + seconds * SECOND_NS);
            if end_ns >= until_ns {
                break;
            }
            spans.push(FaultSpan {
                member: rng.below(members as u64) as usize,
                fault,
                from_ns,
                until_ns: end_ns,
            });
            at_ns = end_ns;
        }
        spans
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// A fault of this code, and for how many seconds it lasts.
fn draw_one(code: u32, rng: &mut Rng) -> (Fault, u64) {
    match code {
        0 => (Fault::Pulled, rng.range(5, 300)),
        1 => (Fault::Replaced, rng.range(60, 600)),
        2 => (Fault::Stall, rng.range(1, 6)),
        3 => (Fault::Slow(rng.range(1500, 8000)), rng.range(10, 200)),
        4 => {
            let recovery_ns = rng.range(10, 500) * 1_000_000;
            (Fault::ReadErrors { permille: rng.range(1, 30), recovery_ns }, rng.range(30, 300))
        }
        5 => (Fault::Lies(rng.range(1, 100)), rng.range(30, 300)),
        _ => (Fault::Rot(rng.range(1, 30)), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_two_members_at_once_and_all_kinds_come() {
        let spans = FaultKinds::all().draw(5, 1000, 40_000 * SECOND_NS, 60 * SECOND_NS, &mut Rng::new(3));
        assert!(spans.len() > 50);
        assert!(spans.windows(2).all(|pair| pair[0].until_ns + SECOND_NS <= pair[1].from_ns));
        assert!((0..7).all(|code| spans.iter().any(|span| span.fault.code() == code)));
        let only = FaultKinds { stalls: true, ..FaultKinds::default() };
        let spans = only.draw(5, 0, 10_000 * SECOND_NS, 60 * SECOND_NS, &mut Rng::new(3));
        assert!(!spans.is_empty() && spans.iter().all(|span| span.fault == Fault::Stall));
        assert!(FaultKinds::default().draw(5, 0, u64::MAX, 1, &mut Rng::new(1)).is_empty());
    }

    #[test]
    fn a_fault_meets_the_same_units_as_long_as_it_lasts() {
        let fault = Fault::Lies(100);
        let span = FaultSpan { member: 1, fault, from_ns: 7, until_ns: 9 };
        let met: Vec<u64> = (0..10_000).filter(|unit| fault.meets(&span, *unit)).collect();
        assert!((800..1200).contains(&met.len()), "{}", met.len());
        assert!(met.iter().all(|unit| fault.meets(&span, *unit)));
    }
}
