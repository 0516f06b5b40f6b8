//! What is told of a broadcast: where packets of its channels belong in the title. Pure.

use reel_broadcast::{BroadcastError, Schedule, Visit};
use reel_rtp::sdp::SlotSchedule;
use std::ops::Range;

use crate::limits::PLACE_NS_MAX;

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

/// Why a packet has no place in a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced {
    /// Its time stamp is far from the time at which it arrived.
    Far,
    /// At the time of its time stamp, no packet is sent.
    Nowhere,
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
    /// Its time stamps do not tell its packets apart.
    #[error("the schedule of the description sends packets faster than time stamps can tell them apart")]
    Fast,
}

impl Broadcast {
    /// The broadcast of a description with so many channels.
    ///
    /// # Errors
    /// [`NoBroadcast`].
    pub fn new(told: SlotSchedule, channels: usize) -> Result<Broadcast, NoBroadcast> {
        let segments = u32::try_from(told.first_matrices.len()).unwrap_or(u32::MAX);
        let schedule = Schedule::new(told.scheme.parse()?, segments)?;
        let needed = schedule.channels().len();
        if needed != channels {
            return Err(NoBroadcast::Channels { needed, channels });
        }
        let broadcast = Broadcast { told, schedule };
        let symbols = (1..=segments).filter_map(|segment| broadcast.segment_symbols(segment));
        let most = symbols.map(|symbols| symbols.end - symbols.start).max().unwrap_or(0);
        let sent = most.saturating_add(broadcast.told.matrix_packets);
        match sent.saturating_mul(2 * TICK_NS) <= broadcast.told.slot_ns {
            true => Ok(broadcast),
            false => Err(NoBroadcast::Fast),
        }
    }

    /// The first slot that is sent and begins at or after a time of day, in nanoseconds since 1970.
    #[must_use]
    pub fn slot_from(&self, unix_ns: u64) -> u64 {
        let since_ns = unix_ns.saturating_sub(self.told.epoch.to_unix_ns());
        since_ns.div_ceil(self.told.slot_ns).max(self.told.first_slot)
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

    /// The only source (SSRC) of a channel.
    pub(crate) fn source(&self, channel: usize) -> Option<u32> {
        self.told.sources.get(channel).copied()
    }

    /// When a packet with this time stamp was due, as a time of day of its sender. Time stamps
    /// begin again after 13 hours: of all times with this one, the nearest to `near_unix_ns` is
    /// meant.
    #[must_use]
    pub fn sent_ns(&self, channel: usize, time_stamp: u32, near_unix_ns: u64) -> Option<u64> {
        let at = self.ticks_at(channel, time_stamp, near_unix_ns)?;
        Some(self.told.epoch.to_unix_ns().saturating_add(part(at, 100_000, 9)))
    }

    /// Which packet of the title a packet of a channel is, by its time stamp and the time of day of
    /// its sender when it arrived.
    ///
    /// # Errors
    /// The schedule has none there, or its place is further away than
    /// [`PLACE_NS_MAX`](crate::limits::PLACE_NS_MAX).
    pub fn symbol_of(&self, channel: usize, time_stamp: u32, unix_ns: u64) -> Result<u64, Misplaced> {
        let at = self.ticks_at(channel, time_stamp, unix_ns).ok_or(Misplaced::Nowhere)?;
        let since_ns = unix_ns.saturating_sub(self.told.epoch.to_unix_ns());
        if part(at, 100_000, 9).abs_diff(since_ns) > PLACE_NS_MAX {
            return Err(Misplaced::Far);
        }
        self.symbol_at(channel, at).ok_or(Misplaced::Nowhere)
    }

    /// Whether a channel sends at a time of day: not while FEC of the end of a slot is sent, and
    /// not in slots for which its table has nothing.
    pub(crate) fn sends(&self, channel: usize, unix_ns: u64) -> bool {
        let since_ns = unix_ns.saturating_sub(self.told.epoch.to_unix_ns());
        let slot = since_ns / self.told.slot_ns;
        let segment = self.schedule.segment_at(channel, slot);
        segment.and_then(|segment| self.segment_symbols(segment)).is_some_and(|symbols| {
            let count = symbols.end - symbols.start;
            let sent_ns = part(count, self.told.slot_ns, count + self.told.matrix_packets);
            since_ns - slot * self.told.slot_ns < sent_ns
        })
    }

    /// Ticks from slot 0 to the nearest time with this time stamp.
    fn ticks_at(&self, channel: usize, time_stamp: u32, near_unix_ns: u64) -> Option<u64> {
        let near = ticks(near_unix_ns.saturating_sub(self.told.epoch.to_unix_ns()));
        let stamp = time_stamp.wrapping_sub(*self.told.time_stamps.get(channel)?);
        let ahead = stamp.wrapping_sub(near as u32).cast_signed();
        near.checked_add_signed(ahead.into())
    }

    /// The packet that leaves exactly so many ticks after the beginning of slot 0.
    fn symbol_at(&self, channel: usize, at: u64) -> Option<u64> {
        // At the start of a slot, ticks are rounded down.
        let slot = (part(at, 100_000, 9) + TICK_NS) / self.told.slot_ns;
        let begins = ticks(slot.checked_mul(self.told.slot_ns)?);
        let within_ns = part(at.checked_sub(begins)?, 100_000, 9);
        let symbols = self.segment_symbols(self.schedule.segment_at(channel, slot)?)?;
        let count = symbols.end - symbols.start;
        let sent = count + self.told.matrix_packets;
        // Its own tick was rounded down, too. Packets are farther apart than a tick.
        let number = part(within_ns + TICK_NS + 1, sent, self.told.slot_ns);
        let is_exact = begins + ticks(part(number, self.told.slot_ns, sent)) == at;
        (number < count && is_exact).then_some(symbols.start + number)
    }
}

/// Ticks of 90 kHz in a time.
fn ticks(time_ns: u64) -> u64 {
    part(time_ns, 9, 100_000)
}

fn part(value: u64, to: u64, from: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(to) / u128::from(from)).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use reel_rtp::NtpTime;

    pub(crate) const MATRIX: u64 = 80;
    const EPOCH_NS: u64 = 1_900_000_000_123_456_789;

    pub(crate) fn broadcast(scheme: &str, segments: u64, slot_ns: u64, stamp: u32) -> Broadcast {
        let channels = Schedule::new(scheme.parse().expect("known"), segments as u32).expect("valid");
        let channels = channels.channels().len();
        let told = SlotSchedule {
            scheme: scheme.to_owned(),
            slot_ns,
            epoch: NtpTime::from_unix_ns(EPOCH_NS),
            matrix_packets: MATRIX,
            packets: segments * 4 * MATRIX * 7 - 5,
            sources: (0..channels as u32).collect(),
            time_stamps: (0..channels as u32).map(|channel| stamp.wrapping_add(channel * 77)).collect(),
            first_matrices: (0..segments).map(|segment| segment * 4).collect(),
            first_slot: 0,
        };
        Broadcast::new(told, channels).expect("it can be followed")
    }

    /// The time stamp that the sender writes (`reel-cast`).
    pub(crate) fn stamp(broadcast: &Broadcast, channel: usize, slot: u64, number: u64, sent: u64) -> u32 {
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
                let within_ns = super::part(number, slot_ns, count + MATRIX);
                let arrival_ns = broadcast.slot_starts_ns(slot) + within_ns + late_ns;
                let found = broadcast.symbol_of(channel, sent, arrival_ns);
                prop_assert_eq!(found, Ok(symbols.start + number));
            }
        }
    }

    /// A packet that no sender of this schedule sends, or not now, has no place.
    #[test]
    fn what_is_not_of_the_schedule_has_no_place() {
        let broadcast = broadcast("rfs", 9, 1_000_000_000, 7);
        let slot = 1_900_000_123;
        let arrival_ns = broadcast.slot_starts_ns(slot);
        let sent = stamp(&broadcast, 0, slot, 10, 480);
        assert_eq!(broadcast.symbol_of(0, sent, arrival_ns), Ok(10));
        // Of another channel, and between two packets.
        for (channel, time_stamp) in
            [(1, sent), (0, sent.wrapping_add(1)), (0, sent.wrapping_sub(1)), (9, sent)]
        {
            let found = broadcast.symbol_of(channel, time_stamp, arrival_ns);
            assert_eq!(found, Err(Misplaced::Nowhere), "{channel} {time_stamp}");
        }
        // In the time of the FEC of the last matrix.
        let after = stamp(&broadcast, 0, slot, 410, 480);
        assert_eq!(broadcast.symbol_of(0, after, arrival_ns), Err(Misplaced::Nowhere));
        assert!(broadcast.sends(0, arrival_ns) && !broadcast.sends(0, arrival_ns + 850_000_000));
        let far_ns = PLACE_NS_MAX + 100_000_000;
        for at_ns in [arrival_ns + far_ns, arrival_ns - far_ns, arrival_ns + 3_600_000_000_000] {
            assert_eq!(broadcast.symbol_of(0, sent, at_ns), Err(Misplaced::Far));
        }
        let near_ns = PLACE_NS_MAX - 100_000_000;
        for at_ns in [arrival_ns + near_ns, arrival_ns - near_ns] {
            assert_eq!(broadcast.symbol_of(0, sent, at_ns), Ok(10));
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let mut told = broadcast("rfs", 9, 1_000_000_000, 0).told;
        assert!(matches!(Broadcast::new(told.clone(), 2), Err(NoBroadcast::Channels { needed: 3, .. })));
        // A client that comes before the first slot joins with that.
        let later = SlotSchedule { first_slot: 2_000_000_000, ..told.clone() };
        let later = Broadcast::new(later, 3).expect("it can be followed");
        let begins_ns = later.slot_starts_ns(2_000_000_000);
        assert_eq!(
            [0, begins_ns, begins_ns + 1].map(|at_ns| later.slot_from(at_ns) - 2_000_000_000),
            [0, 0, 1]
        );
        let slot_ns = 400 * TICK_NS;
        let fast = SlotSchedule { slot_ns, ..told.clone() };
        assert_eq!(Broadcast::new(fast, 3).err(), Some(NoBroadcast::Fast));
        told.scheme = "unknown".to_owned();
        assert!(matches!(Broadcast::new(told, 3), Err(NoBroadcast::Scheme(_))));
    }
}
