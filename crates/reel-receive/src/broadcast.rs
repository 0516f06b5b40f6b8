//! A client of a broadcast: where packets of its channels belong in the title, and when they are
//! played. Pure.

use reel_broadcast::{BroadcastError, Schedule, Visit};
use reel_rtp::sdp::SlotSchedule;
use std::ops::Range;

/// Nanoseconds of a tick of a time stamp (90 kHz), rounded up.
const TICK_NS: u64 = 11_112;

/// Bytes of the payload of a packet: seven transport packets.
pub const SYMBOL_BYTES: usize = 7 * 188;

/// What a client knows of a broadcast.
#[derive(Clone, Debug)]
pub struct Broadcast {
    told: SlotSchedule,
    schedule: Schedule,
}

/// Why a broadcast cannot be received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoBroadcast {
    /// Its scheme is unknown, or cannot have so many segments.
    #[error("the schedule of the description cannot be followed: {0}; a newer reel may know it")]
    Scheme(#[from] BroadcastError),
    /// It does not fit the channels of the description.
    #[error("the schedule of the description needs {needed} channels, and there are {channels}")]
    Channels {
        /// What the scheme needs.
        needed: usize,
        /// What is described.
        channels: usize,
    },
}

impl Broadcast {
    /// The broadcast of a description with so many channels.
    ///
    /// # Errors
    /// [`NoBroadcast`].
    pub fn new(told: SlotSchedule, channels: usize) -> Result<Broadcast, NoBroadcast> {
        let segments = u32::try_from(told.first_matrices.len()).unwrap_or(u32::MAX);
        let schedule = Schedule::new(told.scheme.parse()?, segments)?;
        match schedule.channels().len() {
            needed if needed == channels => Ok(Broadcast { told, schedule }),
            needed => Err(NoBroadcast::Channels { needed, channels }),
        }
    }

    /// The first slot that begins at or after a time of day, in nanoseconds since 1970.
    #[must_use]
    pub fn slot_from(&self, unix_ns: u64) -> u64 {
        unix_ns.saturating_sub(self.told.epoch.to_unix_ns()).div_ceil(self.told.slot_ns)
    }

    /// When a slot begins, as a time of day in nanoseconds since 1970.
    #[must_use]
    pub fn slot_starts_ns(&self, slot: u64) -> u64 {
        self.told.epoch.to_unix_ns().saturating_add(slot.saturating_mul(self.told.slot_ns))
    }

    /// The length of a slot, in nanoseconds.
    #[must_use]
    pub fn slot_ns(&self) -> u64 {
        self.told.slot_ns
    }

    /// What a client does that joins with a slot.
    #[must_use]
    pub fn visit(&self, slot: u64) -> Visit {
        Visit::new(&self.schedule, slot)
    }

    /// Packets of RTP of the title, with the null packets that fill its last matrix.
    #[must_use]
    pub fn symbols(&self) -> u64 {
        self.told.matrices() * self.told.matrix_packets
    }

    /// Bytes of the title's transport stream.
    #[must_use]
    pub fn title_bytes(&self) -> u64 {
        self.told.packets * 188
    }

    /// The packets of RTP of a segment (from 1).
    #[must_use]
    pub fn segment_symbols(&self, segment: u32) -> Option<Range<u64>> {
        let matrices = self.told.segment(segment)?;
        Some(matrices.start * self.told.matrix_packets..matrices.end * self.told.matrix_packets)
    }

    /// Which packet of the title a packet of a channel is, by its time stamp and the time of day
    /// when it arrived. `None` if the schedule has none there.
    #[must_use]
    pub fn symbol_of(&self, channel: usize, time_stamp: u32, unix_ns: u64) -> Option<u64> {
        let since_ns = unix_ns.saturating_sub(self.told.epoch.to_unix_ns());
        // Time stamps begin again after 13 hours: of all times with this one, the nearest is meant.
        let expected = ticks(since_ns);
        let stamp = time_stamp.wrapping_sub(*self.told.time_stamps.get(channel)?);
        let ahead = stamp.wrapping_sub(expected as u32).cast_signed();
        let at = expected.checked_add_signed(ahead.into())?;
        // At the start of a slot, ticks are rounded down.
        let slot = (part(at, 100_000, 9) + TICK_NS) / self.told.slot_ns;
        let within_ns = part(at.saturating_sub(ticks(slot.checked_mul(self.told.slot_ns)?)), 100_000, 9);
        let symbols = self.segment_symbols(self.schedule.segment_at(channel, slot)?)?;
        let count = symbols.end - symbols.start;
        // Its own tick was rounded down, too. Packets are farther apart than a tick.
        let number = part(within_ns + TICK_NS + 1, count + self.told.matrix_packets, self.told.slot_ns);
        (number < count).then_some(symbols.start + number)
    }
}

/// Ticks of 90 kHz in a time.
fn ticks(time_ns: u64) -> u64 {
    part(time_ns, 9, 100_000)
}

fn part(value: u64, to: u64, from: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(to) / u128::from(from)).unwrap_or(u64::MAX)
}

/// The packets of a title that have arrived, and those that are to be played next.
#[derive(Debug)]
pub struct Assembly {
    present: Vec<bool>,
    next: usize,
    /// The first packet of each segment that is played, in order, and the time of day from which on
    /// it is played, in nanoseconds since 1970.
    played: Vec<(usize, u64)>,
    grace_ns: u64,
}

/// What is played next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Played {
    /// These packets, which have arrived.
    Arrived(Range<u64>),
    /// These are given up: null packets take their places.
    Missing(Range<u64>),
    /// Nothing yet.
    Wait,
    /// The title has ended.
    End,
}

impl Assembly {
    /// A title for a client that joins with a slot. What is missing is given up `grace_ns` after
    /// its segment is due. A segment that is complete is played when it is due.
    #[must_use]
    pub fn new(broadcast: &Broadcast, visit: &Visit, grace_ns: u64) -> Assembly {
        let symbols = usize::try_from(broadcast.symbols()).unwrap_or(usize::MAX);
        let played = visit.segments.iter().filter_map(|times| {
            let first = broadcast.segment_symbols(times.segment)?.start;
            Some((usize::try_from(first).ok()?, broadcast.slot_starts_ns(times.played_slot)))
        });
        Assembly { present: vec![false; symbols], next: 0, played: played.collect(), grace_ns }
    }

    /// A packet has arrived. `false` if it was there already, or is not needed any more.
    pub fn arrived(&mut self, symbol: u64) -> bool {
        let at = usize::try_from(symbol).unwrap_or(usize::MAX);
        match self.present.get_mut(at) {
            Some(present) if at >= self.next => !std::mem::replace(present, true),
            _ => false,
        }
    }

    /// What is played next, at most so many packets; it leaves the assembly.
    pub fn next(&mut self, unix_ns: u64, most: usize) -> Played {
        if self.next >= self.present.len() {
            return Played::End;
        }
        if !self.has_begun(unix_ns) {
            return Played::Wait;
        }
        let is_present = self.present[self.next];
        let run = self.present[self.next..].iter().take(most).take_while(|present| **present == is_present);
        let end = self.next + run.count();
        let end = if is_present { end } else { end.min(self.given_up(unix_ns)) };
        if end <= self.next {
            return Played::Wait;
        }
        let range = self.next as u64..end as u64;
        self.next = end;
        if is_present { Played::Arrived(range) } else { Played::Missing(range) }
    }

    /// Whether playing has begun: when the first segment is due and complete. If it is not, what is
    /// missing is waited for, so that playing is not interrupted at once.
    fn has_begun(&self, unix_ns: u64) -> bool {
        let Some((_, from_ns)) = self.played.first() else { return false };
        let second = self.played.get(1).map_or(self.present.len(), |(first, _)| *first);
        let is_complete = || self.present.iter().take(second).all(|present| *present);
        let is_given_up = from_ns.saturating_add(self.grace_ns) <= unix_ns;
        self.next > 0 || is_given_up || (*from_ns <= unix_ns && is_complete())
    }

    /// The end of the segments whose time to wait for missing packets is over: these are given up.
    fn given_up(&self, unix_ns: u64) -> usize {
        let is_over = |from_ns: u64| from_ns.saturating_add(self.grace_ns) <= unix_ns;
        let begun = self.played.iter().take_while(|(_, from_ns)| is_over(*from_ns)).count();
        self.played.get(begun).map_or(self.present.len(), |(first, _)| *first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reel_rtp::NtpTime;

    const MATRIX: u64 = 80;
    const EPOCH_NS: u64 = 1_900_000_000_123_456_789;

    fn broadcast(scheme: &str, segments: u64, slot_ns: u64, stamp: u32) -> Broadcast {
        let channels = Schedule::new(scheme.parse().expect("known"), segments as u32).expect("valid");
        let channels = channels.channels().len();
        let told = SlotSchedule {
            scheme: scheme.to_owned(),
            slot_ns,
            epoch: NtpTime::from_unix_ns(EPOCH_NS),
            matrix_packets: MATRIX,
            packets: segments * 4 * MATRIX * 7 - 5,
            time_stamps: (0..channels as u32).map(|channel| stamp.wrapping_add(channel * 77)).collect(),
            first_matrices: (0..segments).map(|segment| segment * 4).collect(),
        };
        Broadcast::new(told, channels).expect("it can be followed")
    }

    /// The time stamp that the sender writes (`reel-cast`).
    fn stamp(broadcast: &Broadcast, channel: usize, slot: u64, number: u64, sent: u64) -> u32 {
        let within_ns = part(number, broadcast.slot_ns(), sent);
        let at = ticks(slot * broadcast.slot_ns()) + ticks(within_ns);
        broadcast.told.time_stamps[channel].wrapping_add(at as u32)
    }

    proptest! {
        /// Any packet of any slot, also after the time stamps have begun again.
        #[test]
        fn packets_are_known_by_their_time_stamps(
            first_stamp: u32,
            slot_ns in 300_000_000_u64..60_000_000_000,
            slot in 0_u64..200_000,
            part in 0.0..1.0,
            late_ns in 0_u64..3_000_000_000,
        ) {
            let broadcast = broadcast("rfs", 9, slot_ns, first_stamp);
            for channel in 0..3 {
                let Some(segment) = broadcast.schedule.segment_at(channel, slot) else { continue };
                let symbols = broadcast.segment_symbols(segment).expect("one");
                let count = symbols.end - symbols.start;
                let number = (count as f64 * part) as u64;
                let sent = stamp(&broadcast, channel, slot, number, count + MATRIX);
                let arrival_ns = broadcast.slot_starts_ns(slot) + late_ns;
                let found = broadcast.symbol_of(channel, sent, arrival_ns);
                prop_assert_eq!(found, Some(symbols.start + number));
            }
        }

        /// A client that joins at any slot plays the whole title in order, and nothing late.
        #[test]
        fn a_client_has_each_packet_when_it_is_played(slot in 0_u64..100, scheme in 0..3_usize) {
            let scheme = ["rfs", "fast", "skyscraper-12"][scheme];
            let broadcast = broadcast(scheme, 12, 1_000_000_000, 5);
            let visit = broadcast.visit(slot);
            let mut assembly = Assembly::new(&broadcast, &visit, 0);
            let mut played = 0;
            for now in slot..slot + 14 {
                // What arrived in the slot before is there.
                for times in visit.segments.iter().filter(|times| times.received_slot + 1 == now) {
                    let symbols = broadcast.segment_symbols(times.segment).expect("one");
                    symbols.for_each(|symbol| { assembly.arrived(symbol); });
                }
                loop {
                    match assembly.next(broadcast.slot_starts_ns(now), 100) {
                        Played::Arrived(range) => {
                            prop_assert_eq!(range.start, played);
                            played = range.end;
                        }
                        Played::Missing(range) => prop_assert!(false, "{:?} is missing", range),
                        Played::Wait | Played::End => break,
                    }
                }
            }
            prop_assert_eq!(played, broadcast.symbols());
        }
    }

    #[test]
    fn what_does_not_come_is_given_up_when_its_segment_is_played() {
        let broadcast = broadcast("fast", 3, 1_000_000_000, 0);
        let visit = broadcast.visit(0);
        let mut assembly = Assembly::new(&broadcast, &visit, 0);
        let all = broadcast.symbols();
        (0..all).filter(|symbol| *symbol != 7 && *symbol < 400).for_each(|symbol| {
            assert!(assembly.arrived(symbol) && !assembly.arrived(symbol));
        });
        let first_ns = broadcast.slot_starts_ns(visit.segments[0].played_slot);
        assert_eq!(assembly.next(first_ns - 1, 1000), Played::Wait);
        assert_eq!(assembly.next(first_ns, 1000), Played::Arrived(0..7));
        assert_eq!(assembly.next(first_ns, 1000), Played::Missing(7..8));
        assert!(!assembly.arrived(7), "it is not needed any more");
        assert_eq!(assembly.next(first_ns, 1000), Played::Arrived(8..400));
        assert_eq!(assembly.next(first_ns, 1000), Played::Wait, "the second segment");
        let last_ns = broadcast.slot_starts_ns(10);
        assert_eq!(assembly.next(last_ns, 2000), Played::Missing(400..all));
        assert_eq!(assembly.next(last_ns, 1000), Played::End);
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let mut told = broadcast("rfs", 9, 1_000_000_000, 0).told;
        assert!(matches!(Broadcast::new(told.clone(), 2), Err(NoBroadcast::Channels { needed: 3, .. })));
        told.scheme = "unknown".to_owned();
        assert!(matches!(Broadcast::new(told, 3), Err(NoBroadcast::Scheme(_))));
    }
}
