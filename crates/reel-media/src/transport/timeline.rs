//! The time line of a transport stream, from its programme clock references (ISO 13818-1 section
//! 2.4.2.2).
//!
//! Between two references, packets are evenly spread. Where the clock jumps, and before the first
//! and after the last reference, time runs at the rate of the nearest two references.

use super::TICKS_PER_S;
use super::gaps::Gaps;
use super::index::{TimePoint, scale};
use crate::limits;

/// References count 33 bits at 90 kHz, and 300 ticks for each.
const WRAP: u64 = (1 << 33) * 300;
/// A longer step is a jump: the standard wants a reference every tenth of a second.
const STEP_MAX: u64 = TICKS_PER_S;
/// Points are at least so far apart, so that they are a tenth of a second apart at most if there is
/// a reference every 50 ms.
const APART: u64 = TICKS_PER_S / 20;

/// A reference that was read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    packet: u64,
    clock: u64,
    ticks: u64,
}

/// Makes the time line while the packets pass.
#[derive(Debug)]
pub(super) struct Timeline {
    last: Option<Reading>,
    /// Ticks, and the packets that took them.
    rate: Option<(u64, u64)>,
    points: Vec<TimePoint>,
    points_max: usize,
    apart: u64,
    /// Jumps that are marked.
    jumps_max: u64,
    /// Where the clock jumps: how often, and the first time.
    pub(super) jumps: u64,
    pub(super) first_jump: u64,
    /// Times between references.
    pub(super) gaps: Gaps,
}

impl Timeline {
    /// An empty time line of at most `points_max` points.
    pub(super) fn new(points_max: usize) -> Timeline {
        Timeline {
            last: None,
            rate: None,
            points: Vec::new(),
            points_max,
            apart: APART,
            jumps_max: (points_max / 8).min(limits::STREAM_JUMPS) as u64,
            jumps: 0,
            first_jump: 0,
            gaps: Gaps::default(),
        }
    }

    /// The time of a packet near the last reference, at the rate before the reference; `None` if no
    /// rate is known.
    pub(super) fn ticks_at(&self, packet: u64) -> Option<u64> {
        let ((ticks, packets), last) = (self.rate?, self.last?);
        let apart = scale(packet.abs_diff(last.packet), ticks, packets);
        let is_after = packet >= last.packet;
        Some(if is_after { last.ticks.saturating_add(apart) } else { last.ticks.saturating_sub(apart) })
    }

    /// A packet has this reference. `jumps`: it says itself that the clock may jump there.
    pub(super) fn push(&mut self, packet: u64, clock: u64, jumps: bool) {
        let clock = clock % WRAP;
        let Some(last) = self.last else {
            self.last = Some(Reading { packet, clock, ticks: 0 });
            return;
        };
        let step = (clock + WRAP - last.clock) % WRAP;
        if step == 0 && !jumps {
            return;
        }
        let continues = !jumps && step <= STEP_MAX;
        let packets = packet - last.packet;
        let ticks = match (continues, self.rate) {
            (true, None) => self.begin(last, step, packets) + step,
            (true, Some(_)) => last.ticks.saturating_add(step),
            (false, None) => {
                self.last = Some(Reading { packet, clock, ticks: 0 });
                return;
            }
            (false, Some((ticks, of))) => last.ticks.saturating_add(scale(packets, ticks, of)),
        };
        let point = TimePoint { packet, ticks, jump: false };
        if continues {
            self.rate = Some((step, packets));
            self.gaps.add(ticks.saturating_sub(step), ticks);
            self.keep(point, false);
        } else {
            self.jump(last, point);
        }
        self.last = Some(Reading { packet, clock, ticks });
    }

    /// The time line, when all packets have passed; `None` if there is no clock that runs.
    pub(super) fn finish(mut self, packets: u64) -> Option<Vec<TimePoint>> {
        let (end, last) = (self.ticks_at(packets)?, self.last?);
        if last.packet < packets {
            self.keep(TimePoint { packet: last.packet, ticks: last.ticks, jump: false }, true);
            self.keep(TimePoint { packet: packets, ticks: end, jump: false }, true);
        }
        Some(self.points)
    }

    /// The first two references that continue give the rate of what was before. Returns the time of
    /// the first of them.
    fn begin(&mut self, first: Reading, step: u64, packets: u64) -> u64 {
        let lead = scale(first.packet, step, packets);
        self.points.push(TimePoint { packet: 0, ticks: 0, jump: false });
        if first.packet > 0 {
            self.points.push(TimePoint { packet: first.packet, ticks: lead, jump: false });
        }
        lead
    }

    /// The clock jumps between the last reference and a new one.
    fn jump(&mut self, last: Reading, point: TimePoint) {
        if self.jumps == 0 {
            self.first_jump = point.ticks;
        }
        self.jumps += 1;
        let marked = self.jumps <= self.jumps_max;
        self.keep(TimePoint { packet: last.packet, ticks: last.ticks, jump: false }, marked);
        self.keep(TimePoint { jump: marked, ..point }, marked);
    }

    /// Adds a point, unless it is there or `always` is not set and it is too near to the last.
    fn keep(&mut self, point: TimePoint, always: bool) {
        let Some(last) = self.points.last() else { return };
        let is_near = point.ticks.saturating_sub(last.ticks) < self.apart;
        if point.packet <= last.packet || (is_near && !always) {
            return;
        }
        // Two more are added at the end.
        if self.points.len() + 2 >= self.points_max {
            self.thin();
        }
        self.points.push(point);
    }

    /// Drops every second point. From now on they are twice as far apart.
    fn thin(&mut self) {
        self.apart = self.apart.saturating_mul(2);
        let mut number = 0_usize;
        self.points.retain(|point| {
            number += 1;
            number % 2 == 1 || point.jump
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = TICKS_PER_S / 1000;

    fn line(readings: impl IntoIterator<Item = (u64, u64, bool)>, packets: u64) -> Option<Vec<TimePoint>> {
        let mut timeline = Timeline::new(1000);
        readings.into_iter().for_each(|(packet, clock, jumps)| timeline.push(packet, clock, jumps));
        timeline.finish(packets)
    }

    #[test]
    fn lead_and_rest_have_the_rate_beside_them() {
        let points = line([(10, 5, false), (110, 5 + 100 * MS, false)], 150).expect("a clock");
        let at = |packet, ms| TimePoint { packet, ticks: ms * MS, jump: false };
        assert_eq!(points, [at(0, 0), at(10, 10), at(110, 110), at(150, 150)]);
    }

    #[test]
    fn without_a_clock_that_runs_there_is_no_line() {
        assert_eq!(line([], 100), None);
        assert_eq!(line([(5, 7, false)], 100), None);
        assert_eq!(line([(5, 7, false), (6, 7, false), (9, 7 + 2 * TICKS_PER_S, false)], 100), None);
    }

    #[test]
    fn a_jump_is_marked_and_time_continues() {
        let readings = [
            (0, 0, false),
            (100, 100 * MS, false),
            (200, 900_000 * MS, false),
            (300, 900_100 * MS, false),
            (400, 900_200 * MS, true),
        ];
        let points = line(readings, 500).expect("a clock");
        assert_eq!(points.last(), Some(&TimePoint { packet: 500, ticks: 500 * MS, jump: false }));
        let jumps: Vec<u64> = points.iter().filter(|point| point.jump).map(|point| point.packet).collect();
        assert_eq!(jumps, [200, 400]);
    }

    proptest! {
        #[test]
        fn the_line_follows_the_clock_over_its_wrap(start in 0..WRAP, steps in prop::collection::vec((1_u64..500, 1..STEP_MAX), 2..60)) {
            let (mut packet, mut clock, mut readings) = (0, start, vec![(0, start, false)]);
            for (packets, step) in &steps {
                (packet, clock) = (packet + packets, (clock + step) % WRAP);
                readings.push((packet, clock, false));
            }
            let points = line(readings, packet).expect("a clock");
            let ticks: u64 = steps.iter().map(|(_, step)| step).sum();
            let end = points.last().expect("an end");
            // Up to the last reference; it may be nearer than points are.
            prop_assert!(end.ticks <= ticks && end.ticks + APART > ticks, "{end:?}, {ticks}");
            prop_assert!(points.iter().all(|point| !point.jump));
        }

        #[test]
        fn any_clock_gives_a_line_in_order(readings in prop::collection::vec((1_u64..1000, any::<u64>(), any::<bool>()), 0..2000), near: bool) {
            let mut timeline = Timeline::new(100);
            let (mut packet, mut clock) = (0, 0_u64);
            for (packets, random, jumps) in readings {
                packet += packets;
                clock = if near { clock.wrapping_add(random % STEP_MAX) } else { random };
                timeline.push(packet, clock, jumps && !near);
            }
            if let Some(points) = timeline.finish(packet + 1) {
                prop_assert!(points.len() <= 100, "{} points", points.len());
                prop_assert_eq!(points.first(), Some(&TimePoint { packet: 0, ticks: 0, jump: false }));
                prop_assert_eq!(points.last().map(|point| point.packet), Some(packet + 1));
                prop_assert!(points.windows(2).all(|two| two[0].packet < two[1].packet && two[0].ticks <= two[1].ticks));
            }
        }
    }
}
