//! The time of day of a cast. Pure.

/// The time of day as the clock of the server counts it on, from the moment at which a cast was
/// added. A clock of the machine that is set meanwhile does not move what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DayClock {
    /// The time of day, in nanoseconds since 1970, when the clock of the server was at 0.
    zero_unix_ns: i128,
}

impl DayClock {
    /// At `now_ns` on the clock of the server, the time of day is `unix_ns`.
    pub(crate) fn new(unix_ns: u64, now_ns: u64) -> DayClock {
        DayClock { zero_unix_ns: i128::from(unix_ns) - i128::from(now_ns) }
    }

    /// The time of day at a moment of the clock of the server.
    pub(crate) fn unix_ns(self, at_ns: u64) -> u64 {
        within_u64(self.zero_unix_ns + i128::from(at_ns))
    }

    /// The first slot that begins at or after a moment of the clock of the server. Slot k begins at
    /// the time of day k times the length of a slot.
    pub(crate) fn slot_from(self, at_ns: u64, slot_ns: u64) -> u64 {
        self.unix_ns(at_ns).div_ceil(slot_ns.max(1))
    }

    /// When a slot begins, on the clock of the server; 0 if that was before it began to count.
    pub(crate) fn slot_starts_ns(self, slot: u64, slot_ns: u64) -> u64 {
        within_u64(i128::from(slot) * i128::from(slot_ns) - self.zero_unix_ns)
    }
}

fn within_u64(ns: i128) -> u64 {
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A server that begins again, with a clock of its own, finds the same slots.
    #[test]
    fn slots_are_a_function_of_the_time_of_day() {
        let slot_ns = 2_083_333_333;
        let before = DayClock::new(1_900_000_000 * S + 7, 5_000 * S);
        let after = DayClock::new(1_900_000_009 * S + 7, 3 * S);
        let slot = before.slot_from(5_010 * S, slot_ns);
        assert_eq!(slot, after.slot_from(4 * S, slot_ns));
        let [one, two] = [before, after].map(|day| day.unix_ns(day.slot_starts_ns(slot, slot_ns)));
        assert_eq!((one, two), (slot * slot_ns, slot * slot_ns));
        assert!((1_900_000_010 * S + 7..1_900_000_013 * S).contains(&one));
        // Exactly at its beginning, it is the slot itself.
        assert_eq!(before.slot_from(before.slot_starts_ns(slot, slot_ns), slot_ns), slot);
    }

    #[test]
    fn a_clock_before_1970_is_at_1970() {
        let day = DayClock::new(3, 10);
        assert_eq!((day.unix_ns(0), day.unix_ns(17), day.slot_starts_ns(0, 5)), (0, 10, 7));
        assert_eq!(DayClock::new(100, 0).slot_starts_ns(1, 5), 0);
    }
}
