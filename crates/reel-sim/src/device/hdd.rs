//! A hard disk: one moving head over rotating platters.
//!
//! After Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, March 1994).
//! Seek times grow with the square root of the distance while the head accelerates and brakes, and
//! linearly once it moves at full speed. The platter rotates independently of the head. Outer zones
//! hold more sectors per track. Tracks are skewed so that the head switches to the next one without
//! losing a rotation.

use super::{Device, Tail, Transfer, stretched, transfer_ns};
use reel_testkit::Rng;

/// The make of a hard disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HddSpec {
    /// Bytes of the disk.
    pub bytes: u64,
    /// One turn.
    pub turn_ns: u64,
    /// The media rate of the outermost zone, where offsets begin.
    pub outer_bytes_per_s: u64,
    /// The media rate of the innermost zone.
    pub inner_bytes_per_s: u64,
    /// From one track to the next, and the end of every seek.
    pub settle_ns: u64,
    /// A seek over a third of the disk: the mean distance between two random places.
    pub seek_third_ns: u64,
    /// A seek over the whole disk.
    pub seek_full_ns: u64,
    /// From one head to the next.
    pub head_switch_ns: u64,
    /// The controller, for each request.
    pub overhead_ns: u64,
    /// Reads that take far longer. `None` for a disk that has none.
    pub tail: Option<Tail>,
}

/// A hard disk that takes the request from its own queue that it reaches soonest, but delays none
/// for ever.
#[derive(Debug)]
pub struct Hdd {
    spec: HddSpec,
    zones: [Zone; ZONES],
    queue: Vec<Waiting>,
    busy: Option<(u32, u64)>,
    /// The position of the head: 0 at the outermost track, 1 at the innermost.
    arm: f64,
    /// Where and when the last transfer ended: the disk reads on into its own memory.
    last_end: u64,
    /// The angle of the platter at time 0, as a part of a turn.
    phase: f64,
    slowness_permille: u64,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct Zone {
    first_byte: u64,
    bytes: u64,
    bytes_per_s: u64,
    track_bytes: u64,
}

#[derive(Debug)]
struct Waiting {
    id: u32,
    transfer: Transfer,
    passed_over: u32,
}

const ZONES: usize = 16;

/// A request in the disk's own queue that was passed over so many times goes next.
const PASSED_OVER_MAX: u32 = 16;

impl Default for HddSpec {
    /// A disk of 7200 turns a minute and 4 TB, as data sheets of such disks have it: 8.5 ms for an
    /// average seek, 210 MB/s outside.
    fn default() -> Self {
        HddSpec {
            bytes: 4_000_000_000_000,
            turn_ns: 8_333_333,
            outer_bytes_per_s: 210_000_000,
            inner_bytes_per_s: 105_000_000,
            settle_ns: 1_000_000,
            seek_third_ns: 8_500_000,
            seek_full_ns: 16_000_000,
            head_switch_ns: 800_000,
            overhead_ns: 100_000,
            tail: None,
        }
    }
}

impl Hdd {
    /// A disk at rest.
    pub fn new(spec: HddSpec, mut rng: Rng) -> Hdd {
        let fall = spec.outer_bytes_per_s - spec.inner_bytes_per_s;
        let rate = |zone: usize| spec.outer_bytes_per_s - fall * (2 * zone as u64 + 1) / (2 * ZONES as u64);
        let sum: u64 = (0..ZONES).map(rate).sum();
        let mut zones = [Zone::default(); ZONES];
        let mut first_byte = 0;
        for (number, zone) in zones.iter_mut().enumerate() {
            // Zones are equally wide, so their bytes are as their rates.
            let bytes = (u128::from(spec.bytes) * u128::from(rate(number)) / u128::from(sum)) as u64 + 1;
            let track_bytes = rate(number) * spec.turn_ns / 1_000_000_000;
            *zone = Zone { first_byte, bytes, bytes_per_s: rate(number), track_bytes };
            first_byte += bytes;
        }
        let (arm, phase) = (rng.fraction(), rng.fraction());
        Hdd {
            spec,
            zones,
            queue: Vec::new(),
            busy: None,
            arm,
            last_end: u64::MAX,
            phase,
            slowness_permille: 1000,
            rng,
        }
    }

    /// Takes up the request that can be reached soonest.
    fn start(&mut self, now_ns: u64) {
        let mut best: Option<(usize, u64)> = None;
        for (index, waiting) in self.queue.iter().enumerate() {
            if waiting.passed_over >= PASSED_OVER_MAX {
                best = Some((index, self.reach_ns(waiting.transfer.offset, now_ns)));
                break;
            }
            let reach_ns = self.reach_ns(waiting.transfer.offset, now_ns);
            if best.is_none_or(|(_, other)| reach_ns < other) {
                best = Some((index, reach_ns));
            }
        }
        let Some((index, reach_ns)) = best else { return };
        let Waiting { id, transfer, .. } = self.queue.remove(index);
        self.queue.iter_mut().take(index).for_each(|waiting| waiting.passed_over += 1);
        let tail = self.spec.tail.filter(|_| !transfer.write);
        let more_ns = tail.map_or(0, |tail| tail.draw_ns(&mut self.rng));
        let ns = reach_ns.saturating_add(self.media_ns(transfer)).saturating_add(more_ns);
        let end = transfer.offset + transfer.bytes;
        (self.arm, self.last_end) = (self.place(end).0, end);
        self.busy = Some((id, now_ns + stretched(ns, self.slowness_permille)));
    }

    /// How long until the first byte passes under the head.
    fn reach_ns(&self, offset: u64, now_ns: u64) -> u64 {
        if offset == self.last_end {
            return self.spec.overhead_ns;
        }
        let (arm, angle) = self.place(offset);
        let there_ns = self.spec.overhead_ns + self.seek_ns((arm - self.arm).abs());
        let turn_ns = self.spec.turn_ns as f64;
        let turned = ((now_ns + there_ns) % self.spec.turn_ns) as f64 / turn_ns + self.phase;
        let ahead = angle - turned;
        there_ns + ((ahead - ahead.floor()) * turn_ns) as u64
    }

    fn seek_ns(&self, distance: f64) -> u64 {
        let spec = &self.spec;
        let third = 1.0 / 3.0;
        let move_ns = if distance <= 0.0 {
            0.0
        } else if distance < third {
            (spec.seek_third_ns - spec.settle_ns) as f64 * (distance / third).sqrt()
        } else {
            let more = (spec.seek_full_ns - spec.seek_third_ns) as f64;
            (spec.seek_third_ns - spec.settle_ns) as f64 + more * (distance - third) / (1.0 - third)
        };
        spec.settle_ns + move_ns as u64
    }

    fn media_ns(&self, transfer: Transfer) -> u64 {
        let zone = self.zone(transfer.offset);
        let within = transfer.offset - zone.first_byte;
        let switches = (within + transfer.bytes) / zone.track_bytes - within / zone.track_bytes;
        transfer_ns(transfer.bytes, zone.bytes_per_s) + switches * self.spec.head_switch_ns
    }

    /// The track, 0 to 1 from the outside in, and the angle as a part of a turn.
    fn place(&self, offset: u64) -> (f64, f64) {
        let number = self.zone_number(offset);
        let zone = &self.zones[number];
        let within = offset - zone.first_byte;
        let arm = (number as f64 + within as f64 / zone.bytes as f64) / ZONES as f64;
        let (track, byte) = (within / zone.track_bytes, within % zone.track_bytes);
        let skew = self.spec.head_switch_ns as f64 / self.spec.turn_ns as f64;
        (arm, byte as f64 / zone.track_bytes as f64 + track as f64 * skew)
    }

    fn zone(&self, offset: u64) -> &Zone {
        &self.zones[self.zone_number(offset)]
    }

    fn zone_number(&self, offset: u64) -> usize {
        self.zones.partition_point(|zone| zone.first_byte <= offset).saturating_sub(1)
    }
}

impl Device for Hdd {
    fn push(&mut self, id: u32, transfer: Transfer, now_ns: u64) {
        self.queue.push(Waiting { id, transfer, passed_over: 0 });
        if self.busy.is_none() {
            self.start(now_ns);
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.busy.map(|(_, end_ns)| end_ns)
    }

    fn pop(&mut self, now_ns: u64) -> Option<u32> {
        let (id, _) = self.busy.filter(|(_, end_ns)| *end_ns <= now_ns)?;
        self.busy = None;
        // Later than its end only after a stall.
        self.start(now_ns);
        Some(id)
    }

    fn set_slowness(&mut self, permille: u64) {
        self.slowness_permille = permille;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads one after the other; the mean nanoseconds of each.
    fn mean_ns(offsets: impl Iterator<Item = u64>, bytes: u64) -> u64 {
        let mut disk = Hdd::new(HddSpec::default(), Rng::new(3));
        let (mut now_ns, mut count) = (0, 0);
        for offset in offsets {
            disk.push(0, Transfer { offset, bytes, write: false }, now_ns);
            now_ns = disk.next_ns().unwrap();
            assert_eq!(disk.pop(now_ns), Some(0));
            count += 1;
        }
        now_ns / count
    }

    #[test]
    fn random_small_reads_cost_a_seek_and_half_a_turn() {
        let mut rng = Rng::new(1);
        let bytes = HddSpec::default().bytes;
        let random = mean_ns((0..2000).map(|_| rng.below(bytes - 4096) / 4096 * 4096), 4096);
        assert!((11_000_000..14_500_000).contains(&random), "{random}");
    }

    #[test]
    fn the_outside_is_twice_as_fast_as_the_inside() {
        let mib = 1u64 << 20;
        let rate = |first: u64| mib * 1_000_000_000 / mean_ns((0..500).map(|n| first + n * mib), mib);
        let (outside, inside) = (rate(0), rate(HddSpec::default().bytes - 600 * mib));
        assert!((150_000_000..210_000_000).contains(&outside), "{outside}");
        assert!((80_000_000..105_000_000).contains(&inside), "{inside}");
    }

    #[test]
    fn a_sweep_costs_less_than_chance() {
        let mut rng = Rng::new(5);
        let bytes = HddSpec::default().bytes;
        let mut places: Vec<u64> = (0..400).map(|_| rng.below(bytes - (1 << 20))).collect();
        let chance = mean_ns(places.iter().copied(), 270_336);
        places.sort_unstable();
        let sweep = mean_ns(places.into_iter(), 270_336);
        assert!(sweep * 3 < chance * 2, "{sweep} against {chance}");
    }

    #[test]
    fn no_request_is_delayed_for_ever() {
        let mut disk = Hdd::new(HddSpec::default(), Rng::new(3));
        let far = Transfer { offset: 3_900_000_000_000, bytes: 4096, write: false };
        let near = |n: u64| Transfer { offset: n * 4096, bytes: 4096, write: false };
        disk.push(0, near(0), 0);
        disk.push(1, far, 0);
        let mut served = 0;
        for n in 1..1000 {
            disk.push(2, near(n), disk.next_ns().unwrap());
            if disk.pop(disk.next_ns().unwrap()) == Some(1) {
                return;
            }
            served += 1;
            assert!(served < 30, "the far request starves");
        }
    }
}
