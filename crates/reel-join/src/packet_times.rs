//! When each packet of a transport stream is due. Pure.

use crate::tee::NEVER_NS;
use reel_play::{Playable, PlayableTitle};
use std::fmt;
use std::sync::Arc;

/// Bytes of a packet of a transport stream (ISO/IEC 13818-1, section 2.4.3.2).
pub const PACKET_BYTES: u64 = 188;

const SECOND_NS: u64 = 1_000_000_000;

/// The times of the packets of a transport stream, by the clock of the stream itself.
///
/// A chain says when whole stretches of a title are due: all bytes of one when its first one is.
/// These times say when each packet within it is.
#[derive(Clone)]
pub struct PacketTimes {
    of_packet: Arc<dyn Fn(u64) -> u64 + Send + Sync>,
    stretches: Arc<[(u64, u64)]>,
}

impl PacketTimes {
    /// `of_packet`: when a packet is due after the beginning of the stream, in nanoseconds; it
    /// never falls. `stretches`: where stretches begin and when they are due as a whole, in
    /// ascending order.
    pub fn new(
        of_packet: impl Fn(u64) -> u64 + Send + Sync + 'static,
        stretches: Arc<[(u64, u64)]>,
    ) -> PacketTimes {
        PacketTimes { of_packet: Arc::new(of_packet), stretches }
    }

    /// The time of the packet that has this byte, in nanoseconds after the beginning.
    pub fn media_ns(&self, position: u64) -> u64 {
        (self.of_packet)(position / PACKET_BYTES)
    }

    /// How much later the packet of a byte is due than that of an earlier one.
    pub fn between_ns(&self, from: u64, to: u64) -> u64 {
        self.media_ns(to).saturating_sub(self.media_ns(from))
    }

    /// The most bytes that come in a second, for a stream of so many bytes, over whole stretches.
    pub fn most_bytes_per_s(&self, bytes: u64) -> u64 {
        let last_ns = self.media_ns(bytes.saturating_sub(1));
        let begun = self.stretches.iter().copied().take_while(|(begin, _)| *begin < bytes);
        let places: Vec<(u64, u64)> = begun.chain([(bytes, last_ns)]).collect();
        let (mut most, mut to) = (0, 0);
        for (from, &(begin, begin_ns)) in places.iter().enumerate() {
            to = to.max(from);
            while to + 1 < places.len() && places[to].1 < begin_ns.saturating_add(SECOND_NS) {
                to += 1;
            }
            let took_ns = places[to].1.saturating_sub(begin_ns).max(SECOND_NS);
            let came = u128::from(places[to].0.saturating_sub(begin)) * u128::from(SECOND_NS);
            // The cast fits: no more than the bytes that there are.
            most = most.max(came.div_ceil(u128::from(took_ns)) as u64);
        }
        most
    }

    /// When the packet of a byte is due in a chain whose stretch with this byte is due at
    /// `stretch_due_ns`. What is due at no fixed time stays so.
    pub fn due_ns(&self, position: u64, stretch_due_ns: u64) -> u64 {
        if stretch_due_ns == NEVER_NS {
            return NEVER_NS;
        }
        let after = self.stretches.partition_point(|(start, _)| *start <= position);
        let stretch_ns = after.checked_sub(1).map_or(0, |stretch| self.stretches[stretch].1);
        let into_ns = self.media_ns(position).saturating_sub(stretch_ns);
        stretch_due_ns.saturating_add(into_ns).min(NEVER_NS - 1)
    }
}

/// When the packets of a title are due, if it is played as a transport stream.
pub(crate) fn packet_times(playing: &PlayableTitle) -> Option<PacketTimes> {
    let stream = Arc::clone(playing.transport()?);
    let stretches = Arc::clone(&playing.file()?.times);
    Some(PacketTimes::new(move |packet| stream.index.time_ns(packet), stretches))
}

impl fmt::Debug for PacketTimes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PacketTimes").field("stretches", &self.stretches.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten packets a second, in stretches of 25 packets.
    fn times() -> PacketTimes {
        let stretches = (0..4).map(|number| (number * 25 * PACKET_BYTES, number * 2_500_000_000)).collect();
        PacketTimes::new(|packet| packet * 100_000_000, stretches)
    }

    #[test]
    fn each_packet_is_due_after_its_stretch_by_the_clock_of_the_stream() {
        let times = times();
        let due_ns = |packet: u64, of_stretch_ns| times.due_ns(packet * PACKET_BYTES + 7, of_stretch_ns);
        assert_eq!(due_ns(0, 70), 70, "the first one with its stretch");
        assert_eq!(due_ns(24, 70), 70 + 2_400_000_000);
        assert_eq!(due_ns(25, 2_500_000_070), 2_500_000_070, "the next stretch follows without a gap");
        assert_eq!(due_ns(26, 2_500_000_070), 2_600_000_070);
        assert_eq!(times.between_ns(3 * PACKET_BYTES, 11 * PACKET_BYTES), 800_000_000);
        assert_eq!(times.between_ns(11 * PACKET_BYTES, 3 * PACKET_BYTES), 0);
    }

    #[test]
    fn the_rate_is_that_of_the_fastest_second() {
        let packets = |packets: u64| packets * PACKET_BYTES;
        // The last 25 packets begin within 2.4 seconds.
        assert_eq!(times().most_bytes_per_s(packets(100)), (packets(250)).div_ceil(24));
        assert_eq!(times().most_bytes_per_s(packets(3)), packets(3), "shorter than a second");
        let stretches =
            [(0, 0), (packets(10), 500_000_000), (packets(40), 1_000_000_000), (packets(50), 2_000_000_000)];
        let uneven = PacketTimes::new(|_| 3_000_000_000, stretches.into());
        assert_eq!(uneven.most_bytes_per_s(packets(60)), packets(40), "the first second");
        assert_eq!(PacketTimes::new(|_| 0, Arc::from([])).most_bytes_per_s(0), 0);
    }

    #[test]
    fn what_is_due_at_no_fixed_time_stays_so() {
        assert_eq!(times().due_ns(30 * PACKET_BYTES, NEVER_NS), NEVER_NS);
        assert!(times().due_ns(30 * PACKET_BYTES, NEVER_NS - 1) < NEVER_NS);
    }
}
