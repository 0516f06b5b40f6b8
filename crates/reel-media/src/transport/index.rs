//! The index of a stored transport stream.

use super::{PACKET_BYTES, TICKS_PER_S, binary};
use crate::index::IndexError;
use crate::limits;

/// What senders and lists need to know about a stored transport stream without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamIndex {
    /// Packets of the stream, without the null packets that fill its last stripe.
    pub packets: u64,
    /// The programme whose clock the time line follows.
    pub programme: u16,
    /// The time line: a straight line between each two points. The first point is packet 0 at tick
    /// 0; the last is the end: packet [`StreamIndex::packets`] at the duration.
    pub times: Vec<TimePoint>,
    /// Where receivers may join, in order.
    pub joins: Vec<JoinPoint>,
}

/// When a packet is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimePoint {
    /// The packet, from 0.
    pub packet: u64,
    /// Its time since the beginning, in ticks of 27 MHz.
    pub ticks: u64,
    /// The stream's clock jumps between the point before and this one. The time line continues at
    /// the rate before it.
    pub jump: bool,
}

/// A place where a receiver may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinPoint {
    /// The packet at which a picture begins that can be decoded alone.
    pub packet: u64,
    /// The packet with the programme tables before it: PAT and PMT begin from here on.
    pub tables: u64,
}

/// The time over which the peak rate is taken.
const PEAK_TICKS: u64 = TICKS_PER_S;

/// Longest stream.
const TICKS_MAX: u64 = limits::OUT_SECONDS * TICKS_PER_S;

impl StreamIndex {
    /// The stored form (versioned, checksummed).
    ///
    /// # Errors
    /// If the index exceeds the limits or contradicts itself.
    pub fn encode(&self) -> Result<Vec<u8>, IndexError> {
        self.check()?;
        Ok(binary::encode(self))
    }

    /// Reads the stored form. Any bytes are safe.
    ///
    /// # Errors
    /// If the bytes are damaged, of another version or not such an index, exceed a limit or
    /// contradict themselves.
    pub fn decode(bytes: &[u8]) -> Result<StreamIndex, IndexError> {
        let index = binary::decode(bytes)?;
        index.check()?;
        Ok(index)
    }

    /// Bytes of its packets.
    pub fn bytes(&self) -> u64 {
        self.packets * PACKET_BYTES as u64
    }

    /// The duration in ticks of 27 MHz.
    pub fn duration_ticks(&self) -> u64 {
        self.times.last().map_or(0, |point| point.ticks)
    }

    /// When a packet is due, in ticks of 27 MHz. Behind the end it is the duration.
    pub fn ticks_at(&self, packet: u64) -> u64 {
        let after = self.times.partition_point(|point| point.packet <= packet);
        match (after.checked_sub(1).and_then(|at| self.times.get(at)), self.times.get(after)) {
            (Some(from), Some(to)) => {
                from.ticks + scale(packet - from.packet, to.ticks - from.ticks, to.packet - from.packet)
            }
            _ => self.duration_ticks(),
        }
    }

    /// The last packet that is due at a time, in ticks of 27 MHz.
    pub fn packet_at(&self, ticks: u64) -> u64 {
        let after = self.times.partition_point(|point| point.ticks <= ticks);
        match (after.checked_sub(1).and_then(|at| self.times.get(at)), self.times.get(after)) {
            (Some(from), Some(to)) => {
                // Times are rounded down: all packets before the next tick are due.
                let time = u128::from(to.ticks - from.ticks);
                let packets = u128::from(ticks - from.ticks + 1) * u128::from(to.packet - from.packet);
                let found = u128::from(from.packet) + packets.div_ceil(time) - 1;
                u64::try_from(found).unwrap_or(u64::MAX).min(to.packet - 1)
            }
            _ => self.packets.saturating_sub(1),
        }
    }

    /// The last place to join whose picture is due by then; `None` before the first.
    pub fn join_at(&self, ticks: u64) -> Option<JoinPoint> {
        let until = self.packet_at(ticks);
        let after = self.joins.partition_point(|join| join.packet <= until);
        self.joins.get(after.checked_sub(1)?).copied()
    }

    /// When a packet is due, in nanoseconds since the beginning, rounded down.
    pub fn time_ns(&self, packet: u64) -> u64 {
        nanoseconds(self.ticks_at(packet))
    }

    /// The time of the whole stream in nanoseconds, rounded down.
    pub fn duration_ns(&self) -> u64 {
        nanoseconds(self.duration_ticks())
    }

    /// The pictures at which the stream can be cut, with their times in nanoseconds: one for each
    /// time, all of them before the end.
    pub fn key_frames(&self) -> Vec<(u64, JoinPoint)> {
        let duration_ns = self.duration_ns();
        let mut all: Vec<(u64, JoinPoint)> = Vec::with_capacity(self.joins.len());
        for join in &self.joins {
            let time_ns = nanoseconds(self.ticks_at(join.packet));
            if time_ns < duration_ns && all.last().is_none_or(|(last_ns, _)| *last_ns < time_ns) {
                all.push((time_ns, *join));
            }
        }
        all
    }

    /// Bits per second on average.
    pub fn mean_bps(&self) -> u64 {
        rate_bps(self.packets, self.duration_ticks())
    }

    /// The highest rate over a second or the least longer time between points, in bits per second.
    pub fn peak_bps(&self) -> u64 {
        let mut from = self.times.iter().peekable();
        let mut peak_bps = self.mean_bps();
        for to in &self.times {
            // The latest beginning that is a second before.
            while let Some(first) = from.peek() {
                if to.ticks - first.ticks < PEAK_TICKS {
                    break;
                }
                peak_bps = peak_bps.max(rate_bps(to.packet - first.packet, to.ticks - first.ticks));
                from.next();
            }
        }
        peak_bps
    }

    fn check(&self) -> Result<(), IndexError> {
        within("its number of packets", self.packets, limits::STREAM_PACKETS)?;
        within("its number of points in time", self.times.len() as u64, limits::STREAM_POINTS as u64)?;
        within("its number of places to join", self.joins.len() as u64, limits::STREAM_JOINS as u64)?;
        within("its duration in ticks", self.duration_ticks(), TICKS_MAX)?;
        let wrong = |wrong: bool, what| if wrong { Err(IndexError::Form(what)) } else { Ok(()) };
        let ends = self.times.first().zip(self.times.last());
        let whole = ends.is_some_and(|(first, last)| {
            (first.packet, first.ticks, last.packet) == (0, 0, self.packets) && last.ticks > 0
        });
        wrong(!whole, "its time line does not cover the stream")?;
        let backwards =
            |pair: &[TimePoint]| pair[1].packet <= pair[0].packet || pair[1].ticks < pair[0].ticks;
        wrong(self.times.windows(2).any(backwards), "its time line is not in order")?;
        let unordered = |pair: &[JoinPoint]| pair[1].packet <= pair[0].packet;
        wrong(self.joins.windows(2).any(unordered), "its places to join are not in order")?;
        let outside = |join: &JoinPoint| join.tables > join.packet || join.packet >= self.packets;
        wrong(self.joins.iter().any(outside), "a place to join is outside the stream")
    }
}

/// `value` * `to` / `from`, where `from` may be 0 only with a `value` of 0.
pub(super) fn scale(value: u64, to: u64, from: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(to) / u128::from(from.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn rate_bps(packets: u64, ticks: u64) -> u64 {
    scale(packets * PACKET_BYTES as u64 * 8, TICKS_PER_S, ticks)
}

fn within(what: &'static str, value: u64, limit: u64) -> Result<(), IndexError> {
    if value <= limit { Ok(()) } else { Err(IndexError::Limit { what, value, limit }) }
}

/// Ticks of 27 MHz as nanoseconds, rounded down.
fn nanoseconds(ticks: u64) -> u64 {
    u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(TICKS_PER_S)).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        /// Any valid index.
        pub(in crate::transport) fn any_index()(
            steps in prop::collection::vec((1_u64..3000, 0_u64..9_000_000, any::<bool>()), 1..60),
            joins in prop::collection::btree_set(0_u64..60_000, 0..20),
            back in 0_u64..40,
            programme: u16,
        ) -> StreamIndex {
            let mut times = vec![TimePoint { packet: 0, ticks: 0, jump: false }];
            let (mut packet, mut ticks) = (0, 1);
            for (packets, time, jump) in steps {
                (packet, ticks) = (packet + packets, ticks + time);
                times.push(TimePoint { packet, ticks, jump });
            }
            let joins = joins.into_iter().filter(|at| *at < packet);
            let joins = joins.map(|at| JoinPoint { packet: at, tables: at.saturating_sub(back) }).collect();
            StreamIndex { packets: packet, programme, times, joins }
        }
    }

    proptest! {
        #[test]
        fn times_and_packets_are_inverse(index in any_index(), part in 0.0..1.0) {
            let packet = (index.packets as f64 * part) as u64;
            let ticks = index.ticks_at(packet);
            prop_assert!(ticks <= index.duration_ticks());
            let found = index.packet_at(ticks);
            prop_assert!(index.ticks_at(found) <= ticks, "{found} is not due later");
            prop_assert!(found >= packet.min(index.packets - 1), "{found} for {packet}");
            prop_assert!(index.ticks_at(found + 1) > ticks || found + 1 >= index.packets, "{found} is the last");
            for point in &index.times {
                prop_assert_eq!(index.ticks_at(point.packet), point.ticks);
            }
        }

        #[test]
        fn the_peak_is_not_below_the_mean(index in any_index()) {
            prop_assert!(index.peak_bps() >= index.mean_bps());
        }

        #[test]
        fn joins_are_found(index in any_index(), ticks in 0_u64..200_000_000) {
            match index.join_at(ticks) {
                Some(join) => prop_assert!(index.ticks_at(join.packet) <= ticks),
                None => prop_assert!(index.joins.iter().all(|join| join.packet > index.packet_at(ticks))),
            }
        }
    }

    #[test]
    fn a_burst_shows_in_the_peak() {
        let point = |packet, seconds: u64| TimePoint { packet, ticks: seconds * TICKS_PER_S, jump: false };
        let times = vec![point(0, 0), point(1000, 1), point(4000, 2), point(5000, 3)];
        let index = StreamIndex { packets: 5000, programme: 1, times, joins: Vec::new() };
        assert_eq!(index.peak_bps(), 3000 * 188 * 8);
        assert_eq!(index.mean_bps(), 5000 * 188 * 8 / 3);
    }
}
