//! The titles of a volume and where they lie.

use crate::content::{self, Unit};
use crate::limits::TITLE_RUNS_MAX;
use crate::rng::Rng;
use crate::title::{self, Layout, Title, TitleSpec, Track};
use reel_code::Code;
use reel_volume::{Extent, Geometry, UnitPlace, VolumeCounters};
use std::ops::Range;
use std::sync::Arc;

/// All titles.
pub struct Shelf {
    /// The geometry of the volume.
    pub geometry: Geometry,
    /// What all reads are counted in.
    pub counters: Arc<VolumeCounters>,
    titles: Vec<Arc<Title>>,
    /// The tracks of all titles, in the order of their places.
    tracks: Vec<Arc<Track>>,
    /// Slots of one track's part of the volume; the last part belongs to writers.
    part_slots: u64,
    popularity: Vec<u64>,
}

impl Shelf {
    /// Makes titles and spreads them over members of `member_units` units each; `None` if one is longer than anybody can promise.
    pub fn new(geometry: Geometry, member_units: u64, spec: TitleSpec, rng: &mut Rng) -> Option<Shelf> {
        let counters = Arc::new(VolumeCounters::default());
        let plans: Vec<_> =
            (0..spec.titles).map(|number| title::plan(&spec, &mut rng.part(number as u64))).collect();
        let count: usize = plans.iter().map(Vec::len).sum();
        let part_slots = geometry.slots(member_units) / (count as u64 + 1);
        let (mut titles, mut tracks) = (Vec::new(), Vec::new());
        for (number, plan) in plans.into_iter().enumerate() {
            let first = tracks.len();
            for plan in plan {
                let id = tracks.len() as u64;
                let slots = id * part_slots..(id + 1) * part_slots;
                let extents = scattered(slots, geometry.stripes(plan.bytes()), &mut rng.part(1 << 32 | id));
                let layout = Layout { id, geometry, extents, counters: Arc::clone(&counters) };
                tracks.push(plan.laid_out(format!("title {number}, track {}", id as usize - first), layout));
            }
            titles.push(Arc::new(Title::new(number, tracks[first..].to_vec())?));
        }
        // Zipf's law with exponent 1, in whole numbers.
        let weights = (1..=spec.titles as u64).map(|rank| (1 << 32) / rank);
        let popularity = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let popularity = popularity.collect();
        Some(Shelf { geometry, counters, titles, tracks, part_slots, popularity })
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
        let first = self.tracks.len() as u64 * self.part_slots;
        first..first + self.part_slots
    }

    /// What a unit of a member holds, if a title lies there.
    pub fn unit(&self, member: usize, unit: u64) -> Option<Unit> {
        let (slot, position) = self.geometry.slot_at(UnitPlace { member, unit });
        let track = self.tracks.get((slot / self.part_slots) as usize)?;
        let stripe = track.stripe_of(slot)?;
        Some(content::unit(&self.geometry, Code::Xor, track.seed, stripe, position))
    }

    /// Every unit of titles on a member, in the order of the titles.
    pub fn units_of(&self, member: usize) -> impl Iterator<Item = (Arc<Track>, u64, usize)> {
        let at_member = move |track: &Arc<Track>, stripe: u64| {
            let geometry = track.map.geometry();
            (0..geometry.width())
                .find(|&position| geometry.place(track.map.slot(stripe), position).member == member)
        };
        self.tracks.iter().flat_map(move |track| {
            (0..track.map.stripes())
                .filter_map(move |stripe| Some((Arc::clone(track), stripe, at_member(track, stripe)?)))
        })
    }
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
    use crate::scale::{OBJECT_SCALE, ROW_BYTES, geometry};

    fn shelf(members: usize, data_rows: usize) -> Shelf {
        let spec = TitleSpec {
            titles: 7,
            segments: (20, 60),
            rate_bps: (1_000_000, 8_000_000),
            renditions: 3,
            sound_permille: 500,
        };
        Shelf::new(geometry(members, data_rows).unwrap(), 100_000, spec, &mut Rng::new(5)).unwrap()
    }

    #[test]
    fn members_hold_what_the_maps_say() {
        for shelf in [shelf(5, 4), shelf(7, 3)] {
            let tracks = || shelf.titles().iter().flat_map(|title| title.tracks());
            for track in tracks() {
                for stripe in [0, track.map.stripes() / 2, track.map.stripes() - 1] {
                    for position in 0..shelf.geometry.width() {
                        let (member, offset) = track.map.unit_at(stripe, position);
                        let unit = shelf.unit(member, offset / 4096).unwrap();
                        for (matrix, row) in unit.chunks_exact(ROW_BYTES).enumerate() {
                            assert_eq!(reel_code::crc32c(row), track.map.sum(stripe, position, matrix));
                        }
                    }
                }
            }
            let units: u64 = tracks().map(|track| track.map.stripes() * shelf.geometry.width() as u64).sum();
            let listed: usize =
                (0..shelf.geometry.members()).map(|member| shelf.units_of(member).count()).sum();
            assert_eq!(units, listed as u64);
        }
    }

    #[test]
    fn titles_have_sound_and_renditions_of_falling_rates() {
        let shelf = shelf(5, 4);
        assert!(shelf.titles().iter().any(|title| title.sound.is_some()));
        let ladders: Vec<_> = shelf.titles().iter().filter(|title| title.pictures.len() > 1).collect();
        assert!(!ladders.is_empty());
        for title in ladders {
            let bytes: Vec<u64> = title.pictures.iter().map(|track| track.map.bytes()).collect();
            assert!(bytes.windows(2).all(|pair| pair[1] < pair[0] * 2 / 3), "{bytes:?}");
            let rates: Vec<u64> = title.offers.iter().map(|demand| demand.average_bps()).collect();
            assert!(rates.len() == bytes.len() && rates.is_sorted_by(|one, other| one > other), "{rates:?}");
        }
    }

    #[test]
    fn rates_are_about_what_was_asked_and_vary() {
        let spec = TitleSpec {
            titles: 20,
            segments: (500, 500),
            rate_bps: (5_000_000, 5_000_000),
            renditions: 1,
            sound_permille: 0,
        };
        let shelf = Shelf::new(geometry(5, 4).unwrap(), 1_000_000, spec, &mut Rng::new(1)).unwrap();
        let bytes: u64 = shelf.titles().iter().map(|title| title.best().map.bytes()).sum();
        let mean_bps = bytes * OBJECT_SCALE * 8 / (20 * 500 * 4);
        assert!((4_600_000..5_400_000).contains(&mean_bps), "{mean_bps}");
        let track = shelf.titles()[0].best();
        let lengths: Vec<u64> = (0..500).map(|n| track.segment(n).end - track.segment(n).start).collect();
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
