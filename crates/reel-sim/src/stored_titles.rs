//! The titles of a volume and where they lie.

use crate::content::{self, Unit};
use crate::title::{self, Layout, Title, TitleSpec, Track, TrackPlan};
use reel_cache::Depth;
use reel_code::Code;
use reel_testkit::Rng;
use reel_volume::{Extent, Geometry, UnitAddress, VolumeCounters};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All titles.
pub struct StoredTitles {
    /// The geometry of the volume.
    pub geometry: Geometry,
    /// What all reads are counted in.
    pub counters: Arc<VolumeCounters>,
    titles: Vec<Arc<Title>>,
    /// The tracks of all titles.
    tracks: Vec<Arc<Track>>,
    /// By first slot: the end of the run, the track that has it, and the stripe of the track that
    /// lies first.
    runs: BTreeMap<u64, (u64, usize, u64)>,
    popularity: Vec<u64>,
}

/// Where the volume has put a track.
pub(crate) struct TrackPlacement {
    pub(crate) extents: Vec<Extent>,
    pub(crate) sums: Arc<[u32]>,
    pub(crate) data_offset: u64,
}

impl StoredTitles {
    /// The tracks of so many titles, before they lie anywhere.
    pub(crate) fn plan(spec: &TitleSpec, rng: &mut Rng) -> Vec<Vec<TrackPlan>> {
        (0..spec.titles).map(|number| title::plan(spec, &mut rng.part(number as u64))).collect()
    }

    /// The titles of these plans, whose tracks are at these places, in order; `None` if one is too
    /// long to reserve. Whether their viewers share reads is in `shared`.
    pub(crate) fn new(
        geometry: Geometry,
        (ahead, shared): (Depth, bool),
        plans: Vec<Vec<TrackPlan>>,
        placements: impl IntoIterator<Item = TrackPlacement>,
    ) -> Option<StoredTitles> {
        let counters = Arc::new(VolumeCounters::default());
        let (mut titles, mut tracks, mut runs) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut placements = placements.into_iter();
        for (number, plan) in plans.into_iter().enumerate() {
            let first = tracks.len();
            for (plan, placement) in plan.into_iter().zip(placements.by_ref()) {
                let id = tracks.len();
                let mut stripe = 0;
                for extent in &placement.extents {
                    runs.insert(extent.first_slot, (extent.first_slot + extent.slots, id, stripe));
                    stripe += extent.slots;
                }
                let TrackPlacement { extents, sums, data_offset } = placement;
                let counters = Arc::clone(&counters);
                let layout = Layout { id: id as u64, geometry, extents, sums, data_offset, counters };
                tracks.push(plan.laid_out(format!("title {number}, track {}", id - first), layout));
            }
            titles.push(Arc::new(Title::new(number, ahead, shared, tracks[first..].to_vec())?));
        }
        // Zipf's law with exponent 1, in whole numbers.
        let weights = (1..=titles.len() as u64).map(|rank| (1 << 32) / rank);
        let popularity = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let popularity = popularity.collect();
        Some(StoredTitles { geometry, counters, titles, tracks, runs, popularity })
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

    /// What a unit of a member holds, if a title lies there.
    pub fn unit(&self, member: usize, unit: u64) -> Option<Unit> {
        let (slot, position) = self.geometry.slot_at(UnitAddress { member, unit });
        let (first_slot, &(end, track, first_stripe)) = self.runs.range(..=slot).next_back()?;
        let track = self.tracks.get(track).filter(|_| slot < end)?;
        let stripe = first_stripe + slot - first_slot;
        let content = (track.seed, track.map.bytes());
        Some(content::unit(&self.geometry, Code::Xor, content, stripe, position))
    }

    /// Every unit of titles on a member.
    pub fn units_on(&self, member: usize) -> impl Iterator<Item = u64> {
        let on_member = move |slot: u64| {
            let places = (0..self.geometry.width()).map(move |position| self.geometry.place(slot, position));
            places.filter(move |place| place.member == member).map(|place| place.unit).next()
        };
        let extents = self.tracks.iter().flat_map(|track| track.extents());
        let slots = extents.flat_map(|extent| extent.first_slot..extent.first_slot + extent.slots);
        slots.filter_map(on_member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Library;
    use crate::scale::{OBJECT_SCALE, ROW_BYTES, geometry};

    fn shelf_of(geometry: Geometry, spec: TitleSpec, seed: u64) -> StoredTitles {
        let library = Library::make(geometry, &spec, Depth::of(true), &mut Rng::new(seed)).unwrap();
        Arc::into_inner(library.stored).unwrap()
    }

    fn stored(members: usize, data_rows: usize) -> StoredTitles {
        let spec = TitleSpec {
            titles: 7,
            segments: (20, 60),
            rate_bps: (1_000_000, 8_000_000),
            renditions: 3,
            sound_permille: 500,
            languages: 3,
            shared: true,
        };
        shelf_of(geometry(members, data_rows).unwrap(), spec, 5)
    }

    #[test]
    fn members_hold_what_the_maps_say() {
        for stored in [stored(5, 4), stored(7, 3)] {
            let tracks = || stored.titles().iter().flat_map(|title| title.tracks());
            let first = tracks().next().unwrap();
            let data_offset =
                first.map.unit_at(0, 0).1 - 4096 * stored.geometry.place(first.map.slot(0), 0).unit;
            for track in tracks() {
                for stripe in [0, track.map.stripes() / 2, track.map.stripes() - 1] {
                    for position in 0..stored.geometry.width() {
                        let (member, offset) = track.map.unit_at(stripe, position);
                        let unit = stored.unit(member, (offset - data_offset) / 4096).unwrap();
                        for (matrix, row) in unit.chunks_exact(ROW_BYTES).enumerate() {
                            assert_eq!(reel_code::crc32c(row), track.map.sum(stripe, position, matrix));
                        }
                    }
                }
            }
            let units: u64 = tracks().map(|track| track.map.stripes() * stored.geometry.width() as u64).sum();
            let listed: usize =
                (0..stored.geometry.members()).map(|member| stored.units_on(member).count()).sum();
            assert_eq!(units, listed as u64);
        }
    }

    #[test]
    fn titles_have_languages_and_renditions_of_falling_rates() {
        let stored = stored(5, 4);
        assert!(stored.titles().iter().any(|title| title.sound.len() > 1));
        let ladders: Vec<_> = stored.titles().iter().filter(|title| title.pictures.len() > 1).collect();
        assert!(!ladders.is_empty());
        for title in ladders {
            let bytes: Vec<u64> = title.pictures.iter().map(|track| track.map.bytes()).collect();
            assert!(bytes.windows(2).all(|pair| pair[1] < pair[0] * 2 / 3), "{bytes:?}");
            let rates: Vec<u64> = title.offers.demands.iter().map(|demand| demand.average_bps()).collect();
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
            languages: 1,
            shared: true,
        };
        let stored = shelf_of(geometry(5, 4).unwrap(), spec, 1);
        let bytes: u64 = stored.titles().iter().map(|title| title.best().map.bytes()).sum();
        let mean_bps = bytes * OBJECT_SCALE * 8 / (20 * 500 * 4);
        assert!((4_600_000..5_400_000).contains(&mean_bps), "{mean_bps}");
        let track = stored.titles()[0].best();
        let lengths: Vec<u64> = (0..500).map(|n| track.segment(n).end - track.segment(n).start).collect();
        assert!(lengths.iter().max().unwrap() > &(lengths.iter().min().unwrap() * 3));
    }

    #[test]
    fn the_first_title_is_chosen_most() {
        let (stored, mut rng) = (stored(5, 4), Rng::new(2));
        let mut counts = [0; 7];
        (0..7000).for_each(|_| counts[stored.choose(&mut rng).number] += 1);
        assert!(counts[0] > 3 * counts[4] && counts[6] > 100, "{counts:?}");
    }
}
