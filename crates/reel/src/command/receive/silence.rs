//! How long no packet has arrived: pure.

/// The silence of a cast.
#[derive(Debug)]
pub(super) struct Silence {
    timeout_ns: u64,
    /// When the last packet arrived; at first the beginning.
    last_ns: u64,
    /// Datagrams that found no room, because the output was slow. They were no silence.
    dropped: u64,
}

impl Silence {
    /// Ends after so much time without a packet.
    pub(super) fn new(timeout_ns: u64) -> Silence {
        Silence { timeout_ns, last_ns: 0, dropped: 0 }
    }

    /// A packet of the cast arrived.
    pub(super) fn ends(&mut self, at_ns: u64) {
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// In the time up to now since `from_ns`, nothing was to be sent. It does not count.
    pub(super) fn leaves_out(&mut self, from_ns: u64, now_ns: u64) {
        let left_out_ns = now_ns.saturating_sub(from_ns);
        self.last_ns = self.last_ns.saturating_add(left_out_ns).min(now_ns.max(self.last_ns));
    }

    /// Whether it has lasted too long at this time, by which all arrivals were looked at. `dropped`
    /// datagrams in all found no room.
    pub(super) fn is_too_long(&mut self, at_ns: u64, dropped: u64) -> bool {
        if dropped > self.dropped {
            self.dropped = dropped;
            self.ends(at_ns);
        }
        self.lasts_ns(at_ns) >= self.timeout_ns
    }

    /// How long it has lasted.
    pub(super) fn lasts_ns(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.last_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_ends_with_packets_and_with_those_that_found_no_room() {
        let mut silence = Silence::new(10);
        assert!(!silence.is_too_long(9, 0) && silence.is_too_long(10, 0));
        silence.ends(15);
        silence.ends(12);
        assert!(!silence.is_too_long(24, 0) && silence.is_too_long(25, 0));
        // The output was slow, and meanwhile packets were dropped.
        assert!(!silence.is_too_long(80, 7) && !silence.is_too_long(89, 7));
        assert!(silence.is_too_long(90, 7));
        assert_eq!(silence.lasts_ns(90), 10);
    }

    #[test]
    fn time_in_which_nothing_is_sent_is_left_out() {
        let mut silence = Silence::new(10);
        silence.ends(100);
        silence.leaves_out(104, 107);
        assert!(!silence.is_too_long(112, 0) && silence.is_too_long(113, 0));
        // A packet arrived meanwhile, so no more is left out than has passed.
        silence.ends(119);
        silence.leaves_out(113, 120);
        assert_eq!(silence.lasts_ns(120), 0);
    }
}
