use std::num::NonZeroU64;

use crate::limits::{UDP_BEHIND_NS_MAX, UDP_HURRY};

/// Computes when the next train may go, so that bytes leave at a steady rate.
///
/// Every byte has its time on a schedule: byte n is due `n / rate` after the start. That is
/// computed from the start each time, so errors do not add up and the rate does not drift. A train
/// goes when its first byte is due. So the bytes that have left are never ahead of the schedule by
/// more than one train.
///
/// A late sender (because of a timer, a stall of the machine, or missing packets) catches up, but
/// only by sending a quarter faster. After any train at most one follows at once, so a burst is
/// never longer than two trains. Beyond [`UDP_BEHIND_NS_MAX`] the schedule waits for the sender
/// instead, and the time is lost. When the clock is set back, the schedule is moved back with it.
///
/// Pure: all times are the caller's, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate_bps: NonZeroU64,
    /// When byte 0 of the schedule was due, and how many of its bytes have been sent.
    start_ns: u64,
    bytes: u64,
    /// Before this, the next train would be too close to the last.
    gap_ends_ns: u64,
    seen_ns: u64,
    counts: PacerCounts,
}

/// What happened to a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacerCounts {
    /// Trains that were sent.
    pub trains: u64,
    /// The most that a train was behind its time, where that was caught up with, in nanoseconds.
    pub behind_ns_max: u64,
    /// How often the schedule waited, because the sender was too far behind it.
    pub waits: u64,
    /// For how long the schedule waited in total, in nanoseconds.
    pub waited_ns: u64,
    /// How often the clock was set back.
    pub clock_set_back: u64,
}

impl Pacer {
    /// A schedule that begins now.
    pub fn new(rate_bps: NonZeroU64, now_ns: u64) -> Pacer {
        Pacer::starting_at(rate_bps, now_ns, now_ns)
    }

    /// A schedule that begins at a time to come.
    pub fn starting_at(rate_bps: NonZeroU64, start_ns: u64, now_ns: u64) -> Pacer {
        let counts = PacerCounts::default();
        Pacer { rate_bps, start_ns, bytes: 0, gap_ends_ns: start_ns, seen_ns: now_ns, counts }
    }

    /// When the next train may go.
    pub fn due_ns(&mut self, now_ns: u64) -> u64 {
        self.look(now_ns);
        self.next_byte_ns().max(self.gap_ends_ns)
    }

    /// A train of so many bytes goes now. To be called no earlier than [`due_ns`](Self::due_ns).
    pub fn sent(&mut self, now_ns: u64, bytes: usize) {
        self.look(now_ns);
        let due_ns = self.next_byte_ns().max(self.gap_ends_ns);
        let behind_ns = now_ns.saturating_sub(self.next_byte_ns());
        let waited_ns = behind_ns.saturating_sub(UDP_BEHIND_NS_MAX);
        if waited_ns > 0 {
            self.start_ns += waited_ns;
            self.counts.waits += 1;
            self.counts.waited_ns += waited_ns;
        }
        self.counts.trains += 1;
        self.counts.behind_ns_max = self.counts.behind_ns_max.max(behind_ns - waited_ns);
        self.bytes += bytes as u64;
        let (numerator, denominator) = UDP_HURRY;
        let own_ns = self.time_ns(bytes as u64);
        // Counted from when the train was due, not from when it went: timers that are always a
        // little late must not reduce the rate. But it is counted from at most one train's duration
        // ago, or a stall would be followed by a flood.
        self.gap_ends_ns = due_ns.max(now_ns.saturating_sub(own_ns)) + own_ns * denominator / numerator;
    }

    /// Continues at another rate. Bytes that were sent ahead of the old schedule, or are behind it,
    /// are so in the new one, too.
    pub fn set_rate(&mut self, now_ns: u64, rate_bps: NonZeroU64) {
        self.look(now_ns);
        let at_ns = self.next_byte_ns();
        let ahead =
            u128::from(at_ns.saturating_sub(now_ns)) * u128::from(self.rate_bps.get()) / 8_000_000_000;
        let behind_ns = now_ns.saturating_sub(at_ns);
        self.rate_bps = rate_bps;
        self.bytes = ahead as u64;
        self.start_ns = now_ns - behind_ns;
        self.gap_ends_ns = self.gap_ends_ns.min(self.next_byte_ns());
    }

    /// The rate, in bits a second.
    pub fn rate_bps(&self) -> NonZeroU64 {
        self.rate_bps
    }

    /// Bytes that are due within a time.
    pub fn bytes_within(&self, time_ns: u64) -> u64 {
        let bytes = u128::from(time_ns) * u128::from(self.rate_bps.get()) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// What happened to the schedule so far.
    pub fn counts(&self) -> PacerCounts {
        self.counts
    }

    fn next_byte_ns(&self) -> u64 {
        self.start_ns + self.time_ns(self.bytes)
    }

    /// How long the schedule takes for so many bytes, rounded up.
    fn time_ns(&self, bytes: u64) -> u64 {
        let time_ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.rate_bps.get()));
        u64::try_from(time_ns).unwrap_or(u64::MAX / 4)
    }

    fn look(&mut self, now_ns: u64) {
        let back_ns = self.seen_ns.saturating_sub(now_ns);
        if back_ns > 0 {
            self.start_ns = self.start_ns.saturating_sub(back_ns);
            self.gap_ends_ns = self.gap_ends_ns.saturating_sub(back_ns);
            self.counts.clock_set_back += 1;
        }
        self.seen_ns = now_ns;
    }
}
