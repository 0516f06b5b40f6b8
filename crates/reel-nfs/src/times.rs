//! How long a connection may wait for its client: a state machine without a clock.

use crate::limits::{IDLE_TIME_MAX_NS, RECORD_BYTES_PER_S, RECORD_TIME_MAX_NS, STALL_TIME_MAX_NS};

const SECOND_NS: u64 = 1_000_000_000;

/// Since when a connection waits for its client, and what for.
#[derive(Debug)]
pub(crate) struct Times {
    /// When the client last sent or took something.
    since_ns: u64,
    /// A part of a call has arrived.
    part: Option<Part>,
    /// Since when the client takes nothing, if the reply that is sent finds no room.
    blocked_ns: Option<u64>,
}

/// A call of which a part has arrived.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// When it began, or when the last reply was taken: while replies are owed, calls may not be
    /// read, and that is not the client's fault.
    since_ns: u64,
    announced_bytes: u64,
}

impl Times {
    pub(crate) fn new(now_ns: u64) -> Self {
        Self { since_ns: now_ns, part: None, blocked_ns: None }
    }

    /// When the client last sent or took something.
    pub(crate) fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Whether the client takes nothing at the moment.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked_ns.is_some()
    }

    /// Something has arrived.
    pub(crate) fn received(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// Some of what has arrived was read. Behind the last whole call is a part of one that
    /// announces so many bytes, or nothing.
    pub(crate) fn read(&mut self, announced_bytes: Option<u64>, now_ns: u64) {
        let since_ns = self.part.map_or(now_ns, |part| part.since_ns);
        self.part = announced_bytes.map(|announced_bytes| Part { since_ns, announced_bytes });
    }

    /// The client has taken a part of a reply.
    pub(crate) fn taken(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// A reply finds no room.
    pub(crate) fn blocked(&mut self, now_ns: u64) {
        self.blocked_ns = Some(now_ns);
    }

    /// There is room again.
    pub(crate) fn unblocked(&mut self, now_ns: u64) {
        self.blocked_ns = None;
        self.since_ns = now_ns;
    }

    /// All replies were taken.
    pub(crate) fn served(&mut self, now_ns: u64) {
        if let Some(part) = &mut self.part {
            part.since_ns = now_ns;
        }
    }

    /// Whether a time limit is exceeded. `is_quiet` if no reply is owed. While the client waits for
    /// the server, no limit counts.
    pub(crate) fn is_overdue(&self, is_quiet: bool, now_ns: u64) -> bool {
        let (since_ns, limit_ns) = match (is_quiet, self.part, self.blocked_ns) {
            (true, Some(part), _) => {
                let more_ns = part.announced_bytes / RECORD_BYTES_PER_S * SECOND_NS;
                (part.since_ns, RECORD_TIME_MAX_NS + more_ns)
            }
            (true, None, _) => (self.since_ns, IDLE_TIME_MAX_NS),
            (false, _, Some(blocked_ns)) => (blocked_ns, STALL_TIME_MAX_NS),
            (false, _, None) => return false,
        };
        now_ns.saturating_sub(since_ns) > limit_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RECORD_BYTES_MAX;

    const FROM_NS: u64 = 5_000 * SECOND_NS;

    /// When the limit is exceeded, in seconds after `FROM_NS`, if nothing happens any more. It is
    /// looked at each second.
    fn overdue_s(times: &Times, is_quiet: bool) -> Option<u64> {
        (0..100_000).find(|s| times.is_overdue(is_quiet, FROM_NS + s * SECOND_NS + 1))
    }

    #[test]
    fn a_connection_without_a_call_ends_after_900_s() {
        let mut times = Times::new(FROM_NS);
        assert_eq!(overdue_s(&times, true), Some(900));
        assert!(!times.is_overdue(true, FROM_NS + 900 * SECOND_NS));
        times.received(FROM_NS + 5 * SECOND_NS);
        times.read(None, FROM_NS + 5 * SECOND_NS);
        times.taken(FROM_NS + 7 * SECOND_NS);
        times.served(FROM_NS + 7 * SECOND_NS);
        assert_eq!((times.since_ns(), overdue_s(&times, true)), (FROM_NS + 7 * SECOND_NS, Some(907)));
    }

    #[test]
    fn a_client_that_waits_for_the_server_is_never_overdue() {
        let times = Times::new(FROM_NS);
        assert_eq!(overdue_s(&times, false), None);
    }

    /// Also one that sends now and then.
    #[test]
    fn a_client_that_takes_nothing_for_60_s_has_gone() {
        let mut times = Times::new(FROM_NS);
        times.blocked(FROM_NS + 10 * SECOND_NS);
        assert!(times.is_blocked());
        for second in 11..70 {
            times.received(FROM_NS + second * SECOND_NS);
            times.read(Some(100), FROM_NS + second * SECOND_NS);
        }
        assert_eq!(overdue_s(&times, false), Some(70));
        assert!(!times.is_overdue(false, FROM_NS + 70 * SECOND_NS));
        times.unblocked(FROM_NS + 69 * SECOND_NS);
        assert_eq!((times.is_blocked(), overdue_s(&times, false)), (false, None));
        times.blocked(FROM_NS + 80 * SECOND_NS);
        assert_eq!(overdue_s(&times, false), Some(140));
    }

    /// A byte now and then is not enough, but a slow line has time for a long call.
    #[test]
    fn a_call_is_complete_10_s_after_it_began_and_later_if_it_is_long() {
        let after_s = |announced_bytes| {
            let mut times = Times::new(FROM_NS - SECOND_NS);
            for second in 0..9 {
                times.received(FROM_NS + second * SECOND_NS);
                times.read(Some(announced_bytes), FROM_NS + second * SECOND_NS);
            }
            overdue_s(&times, true).expect("a limit")
        };
        assert_eq!((after_s(0), after_s(150)), (10, 10));
        assert_eq!(after_s(1 << 20), 42, "a write, at 256 kbit/s");
        assert!(after_s(RECORD_BYTES_MAX) < 80);
        // The next call has its own time.
        let mut times = Times::new(FROM_NS);
        times.read(Some(150), FROM_NS);
        times.read(None, FROM_NS + 9 * SECOND_NS);
        times.read(Some(150), FROM_NS + 9 * SECOND_NS);
        assert_eq!(overdue_s(&times, true), Some(19));
    }

    /// The server reads no further calls while it owes replies.
    #[test]
    fn a_part_of_a_call_has_its_time_when_the_server_reads_again() {
        let mut times = Times::new(FROM_NS);
        times.read(Some(150), FROM_NS);
        assert_eq!(overdue_s(&times, false), None);
        times.taken(FROM_NS + 50 * SECOND_NS);
        times.served(FROM_NS + 50 * SECOND_NS);
        assert_eq!(overdue_s(&times, true), Some(60));
    }
}
