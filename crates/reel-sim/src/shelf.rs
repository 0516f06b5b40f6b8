//! The titles of a volume and where they lie.

use crate::content::{self, Unit};
use crate::limits::{SEGMENT_NS, TITLE_RUNS_MAX};
use crate::rng::Rng;
use crate::scale::{OBJECT_SCALE, ROW_BYTES};
use reel_code::Code;
use reel_volume::{Extent, Geometry, ObjectLayout, ObjectMap, UnitPlace, VolumeCounters};
use std::ops::Range;
use std::sync::Arc;

/// All titles.
pub struct Shelf {
    /// The geometry of the volume.
    pub geometry: Geometry,
    /// What all reads are counted in.
    pub counters: Arc<VolumeCounters>,
    titles: Vec<Arc<Title>>,
    /// Slots of one title's part of the volume; the last part belongs to writers.
    part_slots: u64,
    popularity: Vec<u64>,
}

/// One film in one track.
pub struct Title {
    /// Which it is.
    pub number: usize,
    /// Where it lies.
    pub map: Arc<ObjectMap>,
    /// What makes its bytes.
    pub seed: u64,
    /// Where its segments begin, and its end.
    starts: Vec<u64>,
    extents: Vec<Extent>,
}

/// What titles are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TitleSpec {
    /// How many there are.
    pub titles: usize,
    /// Segments of each, at least and at most.
    pub segments: (u64, u64),
    /// Mean rates, at least and at most, in real bits per second.
    pub rate_bps: (u64, u64),
}

impl Shelf {
    /// Makes titles and spreads them over members of `member_units` units each.
    pub fn new(geometry: Geometry, member_units: u64, spec: TitleSpec, rng: &mut Rng) -> Shelf {
        let counters = Arc::new(VolumeCounters::default());
        let part_slots = geometry.slots(member_units) / (spec.titles as u64 + 1);
        let make = |number: usize| {
            let mut rng = rng.part(number as u64);
            let rate_bps = rng.range(spec.rate_bps.0, spec.rate_bps.1 + 1);
            let segments = rng.range(spec.segments.0, spec.segments.1 + 1);
            let starts = segment_starts(rate_bps, segments, &mut rng);
            let bytes = starts[starts.len() - 1];
            let first_slot = number as u64 * part_slots;
            let stripes = geometry.stripes(bytes);
            let extents = scattered(first_slot..first_slot + part_slots, stripes, &mut rng);
            let seed = rng.bits();
            let map = ObjectMap::simulated(ObjectLayout {
                id: number as u64,
                name: format!("title {number}"),
                geometry,
                code: Code::Xor,
                bytes,
                extents: extents.clone(),
                sums: content::sums(&geometry, Code::Xor, seed, stripes).into(),
                data_offset: 0,
                counters: Arc::clone(&counters),
            });
            Arc::new(Title { number, map: Arc::new(map), seed, starts, extents })
        };
        let titles = (0..spec.titles).map(make).collect();
        // Zipf's law with exponent 1, in whole numbers.
        let weights = (1..=spec.titles as u64).map(|rank| (1 << 32) / rank);
        let popularity = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let popularity = popularity.collect();
        Shelf { geometry, counters, titles, part_slots, popularity }
    }

    /// All titles, the most popular first.
    pub fn titles(&self) -> &[Arc<Title>] {
        &self.titles
    }

    /// A title as viewers choose them.
    pub fn choose(&self, rng: &mut Rng) -> &Arc<Title> {
        let end = self.popularity.last().copied().unwrap_or(1);
        let draw = rng.below(end);
        &self.titles[self.popularity.partition_point(|sum| *sum <= draw).min(self.titles.len() - 1)]
    }

    /// The slots that no title has, for writers.
    pub fn free_slots(&self) -> Range<u64> {
        let first = self.titles.len() as u64 * self.part_slots;
        first..first + self.part_slots
    }

    /// What a unit of a member holds, if a title lies there.
    pub fn unit(&self, member: usize, unit: u64) -> Option<Unit> {
        let (slot, position) = self.geometry.slot_at(UnitPlace { member, unit });
        let title = self.titles.get((slot / self.part_slots) as usize)?;
        let stripe = title.stripe_of(slot)?;
        Some(content::unit(&self.geometry, Code::Xor, title.seed, stripe, position))
    }

    /// Every unit of titles on a member, in the order of the titles.
    pub fn units_of(&self, member: usize) -> impl Iterator<Item = (Arc<Title>, u64, usize)> {
        let at_member = move |title: &Arc<Title>, stripe: u64| {
            let geometry = title.map.geometry();
            (0..geometry.width())
                .find(|&position| geometry.place(title.map.slot(stripe), position).member == member)
        };
        self.titles.iter().flat_map(move |title| {
            (0..title.map.stripes())
                .filter_map(move |stripe| Some((Arc::clone(title), stripe, at_member(title, stripe)?)))
        })
    }
}

impl Title {
    /// Segments.
    pub fn segments(&self) -> usize {
        self.starts.len() - 1
    }

    /// The bytes of a segment.
    pub fn segment(&self, number: usize) -> Range<u64> {
        self.starts[number]..self.starts[number + 1]
    }

    /// How long it plays.
    pub fn duration_ns(&self) -> u64 {
        self.segments() as u64 * SEGMENT_NS
    }

    /// The stripe that lies in a slot.
    fn stripe_of(&self, slot: u64) -> Option<u64> {
        let mut first_stripe = 0;
        for extent in &self.extents {
            if (extent.first_slot..extent.first_slot + extent.slots).contains(&slot) {
                return Some(first_stripe + slot - extent.first_slot)
                    .filter(|stripe| *stripe < self.map.stripes());
            }
            first_stripe += extent.slots;
        }
        None
    }
}

/// Segments of a variable rate: scenes of some segments each, lively ones up to twice the mean, quiet ones down to a third; within a
/// scene a segment varies by a fifth. Real streams: peak to mean of 2 to 3 over seconds.
fn segment_starts(rate_bps: u64, segments: u64, rng: &mut Rng) -> Vec<u64> {
    let mean_bytes = rate_bps / 8 * (SEGMENT_NS / 1_000_000_000) / OBJECT_SCALE;
    let mut starts = vec![0];
    let (mut at, mut scene_permille, mut left) = (0, 1000, 0);
    for _ in 0..segments {
        if left == 0 {
            scene_permille = rng.range(330, 1670) * if rng.permille(150) { 2 } else { 1 } * 870 / 1000;
            left = rng.range(2, 20);
        }
        left -= 1;
        let bytes = mean_bytes * scene_permille / 1000 * rng.range(800, 1200) / 1000;
        at += bytes.max(ROW_BYTES as u64);
        starts.push(at);
    }
    starts
}

/// Places for so many stripes within `slots`: a few runs, in order.
fn scattered(slots: Range<u64>, stripes: u64, rng: &mut Rng) -> Vec<Extent> {
    let room = slots.end - slots.start;
    assert!(
        stripes <= room,
        "{stripes} stripes do not fit into {room} slots; make members larger or titles fewer"
    );
    let runs = rng.range(1, TITLE_RUNS_MAX + 1).min(stripes);
    let (mut extents, mut at, mut left) = (Vec::new(), slots.start, stripes);
    for run in 0..runs {
        let share = left / (runs - run);
        let gap = rng.below(slots.end - at - left + 1) / (runs - run);
        extents.push(Extent { first_slot: at + gap, slots: share });
        at += gap + share;
        left -= share;
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::geometry;

    fn shelf(members: usize, data_rows: usize) -> Shelf {
        let spec = TitleSpec { titles: 7, segments: (20, 60), rate_bps: (1_000_000, 8_000_000) };
        Shelf::new(geometry(members, data_rows).unwrap(), 100_000, spec, &mut Rng::new(5))
    }

    #[test]
    fn members_hold_what_the_maps_say() {
        for shelf in [shelf(5, 4), shelf(7, 3)] {
            for title in shelf.titles() {
                for stripe in [0, title.map.stripes() / 2, title.map.stripes() - 1] {
                    for position in 0..shelf.geometry.width() {
                        let (member, offset) = title.map.unit_at(stripe, position);
                        let unit = shelf.unit(member, offset / 4096).unwrap();
                        for (matrix, row) in unit.chunks_exact(ROW_BYTES).enumerate() {
                            assert_eq!(reel_code::crc32c(row), title.map.sum(stripe, position, matrix));
                        }
                    }
                }
            }
            let units: u64 =
                shelf.titles().iter().map(|title| title.map.stripes() * shelf.geometry.width() as u64).sum();
            let listed: usize =
                (0..shelf.geometry.members()).map(|member| shelf.units_of(member).count()).sum();
            assert_eq!(units, listed as u64);
        }
    }

    #[test]
    fn rates_are_about_what_was_asked_and_vary() {
        let spec = TitleSpec { titles: 20, segments: (500, 500), rate_bps: (5_000_000, 5_000_000) };
        let shelf = Shelf::new(geometry(5, 4).unwrap(), 1_000_000, spec, &mut Rng::new(1));
        let bytes: u64 = shelf.titles().iter().map(|title| title.map.bytes()).sum();
        let mean_bps = bytes * OBJECT_SCALE * 8 / (20 * 500 * 4);
        assert!((4_600_000..5_400_000).contains(&mean_bps), "{mean_bps}");
        let title = &shelf.titles()[0];
        let lengths: Vec<u64> = (0..500).map(|n| title.segment(n).end - title.segment(n).start).collect();
        assert!(lengths.iter().max().unwrap() > &(lengths.iter().min().unwrap() * 3));
    }

    #[test]
    fn the_first_title_is_chosen_most() {
        let (shelf, mut rng) = (shelf(5, 4), Rng::new(2));
        let mut counts = [0; 7];
        (0..7000).for_each(|_| counts[shelf.choose(&mut rng).number] += 1);
        assert!(counts[0] > 3 * counts[4] && counts[6] > 100, "{counts:?}");
    }
}
