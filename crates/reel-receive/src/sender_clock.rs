//! The time of day of the sender of a broadcast, as its packets and reports tell it. Pure.

use reel_rtp::rtcp::SenderReport;

use crate::broadcast::Broadcast;
use crate::limits::{CLOCK_AGREES_NS, CLOCK_PACKETS, UNREPORTED_NS_MAX};

/// What is known of the clock of the sender. Differences are those to the clock of this machine, in
/// nanoseconds; above zero, the sender is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderTime {
    /// Too few packets have arrived.
    Unknown,
    /// Packets say so, but by so much that a report of the sender has to say so, too.
    Unreported(i64),
    /// Known.
    Known(i64),
}

/// Learns how far the clock of the sender is ahead of that of this machine.
///
/// The time stamp of a packet is a time of day of its sender, modulo 13 hours. The difference is
/// known when the places of some packets agree. One of more than ten minutes has to be confirmed by
/// a report of the sender (RTCP), which has the whole time of day.
#[derive(Debug, Default)]
pub(crate) struct SenderClock {
    /// How far packets say it is ahead, and how many of them agree.
    ahead_ns: i64,
    packets: u32,
    /// How far a report says it is ahead.
    reported_ns: Option<i64>,
}

impl SenderClock {
    /// What is known.
    pub(crate) fn time(&self) -> SenderTime {
        let is_near = |one: i64, other: i64| one.abs_diff(other) <= CLOCK_AGREES_NS;
        let is_confirmed = match self.reported_ns {
            Some(reported_ns) => is_near(reported_ns, self.ahead_ns),
            None => self.ahead_ns.unsigned_abs() <= UNREPORTED_NS_MAX,
        };
        match self.packets >= CLOCK_PACKETS {
            true if is_confirmed => SenderTime::Known(self.ahead_ns),
            true => SenderTime::Unreported(self.ahead_ns),
            false => SenderTime::Unknown,
        }
    }

    /// A packet of a channel arrived at a time of day of this machine.
    pub(crate) fn packet(&mut self, broadcast: &Broadcast, channel: usize, time_stamp: u32, unix_ns: u64) {
        let near_ns = unix_ns.saturating_add_signed(self.reported_ns.unwrap_or(0));
        let sent_ns = broadcast.sent_ns(channel, time_stamp, near_ns);
        let Some(sent_ns) =
            sent_ns.filter(|sent_ns| broadcast.symbol_of(channel, time_stamp, *sent_ns).is_ok())
        else {
            self.packets = 0;
            return;
        };
        let ahead_ns = difference(sent_ns, unix_ns);
        if self.packets > 0 && ahead_ns.abs_diff(self.ahead_ns) <= CLOCK_AGREES_NS {
            // The packet that took the least time on its way tells most.
            self.ahead_ns = self.ahead_ns.max(ahead_ns);
            self.packets = self.packets.saturating_add(1);
        } else {
            (self.ahead_ns, self.packets) = (ahead_ns, 1);
        }
    }

    /// A report of the sender of a channel arrived at a time of day of this machine. One that
    /// contradicts the time stamps of the description is none of it.
    pub(crate) fn report(
        &mut self,
        broadcast: &Broadcast,
        channel: usize,
        report: &SenderReport,
        unix_ns: u64,
    ) {
        let told_ns = report.time.to_unix_ns();
        let sent_ns = broadcast.sent_ns(channel, report.time_stamp, told_ns);
        if sent_ns.is_some_and(|sent_ns| sent_ns.abs_diff(told_ns) <= CLOCK_AGREES_NS) {
            self.reported_ns = Some(difference(told_ns, unix_ns));
        }
    }
}

fn difference(one: u64, other: u64) -> i64 {
    let difference = i128::from(one) - i128::from(other);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broadcast::tests::{MATRIX, broadcast, stamp};
    use reel_rtp::NtpTime;

    const S: i64 = 1_000_000_000;
    const H: i64 = 3600 * S;
    const SLOT: u64 = 1_900_000_123;

    /// Packets of slot `SLOT` of a channel, to a receiver whose clock differs by so much.
    fn learn(clock: &mut SenderClock, ahead_ns: i64, packets: u64) {
        let broadcast = broadcast("rfs", 9, 1_000_000_000, 5);
        for number in 0..packets {
            let time_stamp = stamp(&broadcast, 0, SLOT, number, 6 * MATRIX);
            let sent_ns = broadcast.sent_ns(0, time_stamp, broadcast.slot_starts_ns(SLOT)).expect("a time");
            clock.packet(&broadcast, 0, time_stamp, (sent_ns + 3_000_000).saturating_add_signed(-ahead_ns));
        }
    }

    fn report(clock: &mut SenderClock, ahead_ns: i64, lie_ns: i64) {
        let broadcast = broadcast("rfs", 9, 1_000_000_000, 5);
        let time_stamp = stamp(&broadcast, 0, SLOT, 0, 6 * MATRIX);
        let sent_ns = broadcast.slot_starts_ns(SLOT);
        let time = NtpTime::from_unix_ns(sent_ns.saturating_add_signed(lie_ns));
        let report = SenderReport { ssrc: 0, time, time_stamp, packets: 1, payload_bytes: 1 };
        clock.report(&broadcast, 0, &report, sent_ns.saturating_add_signed(-ahead_ns));
    }

    #[test]
    fn small_differences_are_known_by_packets_and_large_ones_by_reports() {
        for ahead_ns in [0, 3 * S, -3 * S, 30 * S, -30 * S, 599 * S, -599 * S] {
            let mut clock = SenderClock::default();
            learn(&mut clock, ahead_ns, 15);
            assert_eq!(clock.time(), SenderTime::Unknown);
            learn(&mut clock, ahead_ns, 16);
            let SenderTime::Known(known_ns) = clock.time() else { panic!("{ahead_ns}: {clock:?}") };
            assert!((ahead_ns - 20_000_000..=ahead_ns).contains(&known_ns), "{known_ns}");
        }
        // 8 hours are 5 hours and a quarter in the other direction, as far as time stamps tell.
        for ahead_ns in [H, -H, 6 * H, 8 * H, -8 * H, 14 * H, 400_000 * H] {
            let mut clock = SenderClock::default();
            learn(&mut clock, ahead_ns, 16);
            assert!(matches!(clock.time(), SenderTime::Unreported(_) | SenderTime::Unknown), "{clock:?}");
            // A report that contradicts itself changes nothing.
            report(&mut clock, ahead_ns, 2 * H);
            assert!(!matches!(clock.time(), SenderTime::Known(_)), "{clock:?}");
            report(&mut clock, ahead_ns, 0);
            learn(&mut clock, ahead_ns, 17);
            let SenderTime::Known(known_ns) = clock.time() else { panic!("{ahead_ns}: {clock:?}") };
            assert!(known_ns.abs_diff(ahead_ns) < 20_000_000, "{known_ns} of {ahead_ns}");
        }
    }

    #[test]
    fn packets_without_a_place_tell_nothing() {
        let broadcast = broadcast("rfs", 9, 1_000_000_000, 5);
        let mut clock = SenderClock::default();
        learn(&mut clock, 0, 15);
        let wrong = stamp(&broadcast, 0, SLOT, 3, 6 * MATRIX).wrapping_add(1);
        clock.packet(&broadcast, 0, wrong, broadcast.slot_starts_ns(SLOT));
        learn(&mut clock, 0, 15);
        assert_eq!(clock.time(), SenderTime::Unknown);
        learn(&mut clock, 5 * S, 1);
        assert_eq!(clock.time(), SenderTime::Unknown, "one that disagrees begins again");
    }
}
