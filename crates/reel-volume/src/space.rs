//! Which slots are free: a map of free runs.

use std::collections::BTreeMap;

use crate::catalogue::Extent;

/// The free runs of slots, by first slot. Neighbouring runs are always merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeMap {
    runs: BTreeMap<u64, u64>,
    free: u64,
}

/// A run of slots that two owners claim, or that is outside the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap(pub(crate) Extent);

impl FreeMap {
    /// All slots 0..`slots`.
    pub(crate) fn all(slots: u64) -> FreeMap {
        let mut map = FreeMap::default();
        if slots > 0 {
            map.runs.insert(0, slots);
            map.free = slots;
        }
        map
    }

    /// Number of free slots.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Takes a given run.
    pub(crate) fn claim(&mut self, extent: Extent) -> Result<(), Overlap> {
        let overlap = Overlap(extent);
        let end = extent.first_slot.checked_add(extent.slots).ok_or(overlap)?;
        let (&first, &slots) = self.runs.range(..=extent.first_slot).next_back().ok_or(overlap)?;
        let run_end = first + slots;
        if extent.slots == 0 || end > run_end {
            return Err(overlap);
        }
        self.runs.remove(&first);
        if extent.first_slot > first {
            self.runs.insert(first, extent.first_slot - first);
        }
        if run_end > end {
            self.runs.insert(end, run_end - end);
        }
        self.free -= extent.slots;
        Ok(())
    }

    /// Takes a run of at most `slots`, at least one: behind `after` if that is free, else the first
    /// run that is long enough, else the longest. `None` when nothing is free.
    pub(crate) fn take(&mut self, slots: u64, after: Option<u64>) -> Option<Extent> {
        let behind = after.and_then(|slot| self.runs.get_key_value(&slot));
        let (&first, &length) = behind
            .or_else(|| self.runs.iter().find(|(_, length)| **length >= slots))
            .or_else(|| self.runs.iter().max_by_key(|(_, length)| **length))?;
        let extent = Extent { first_slot: first, slots: slots.clamp(1, length) };
        self.claim(extent).ok()?;
        Some(extent)
    }

    /// Returns a run. The caller owns it, so it does not overlap a free one.
    pub(crate) fn give_back(&mut self, extent: Extent) {
        if extent.slots == 0 {
            return;
        }
        let (mut first, mut slots) = (extent.first_slot, extent.slots);
        if let Some((&before, &length)) = self.runs.range(..first).next_back() {
            debug_assert!(before + length <= first, "a run is returned twice");
            if before + length == first {
                self.runs.remove(&before);
                first = before;
                slots += length;
            }
        }
        if let Some(length) = self.runs.remove(&(extent.first_slot + extent.slots)) {
            slots += length;
        }
        self.runs.insert(first, slots);
        self.free += extent.slots;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLOTS: u64 = 40;

    #[derive(Clone, Debug)]
    enum Move {
        Take(u64, Option<u64>),
        GiveBack(usize),
        Claim(Extent),
    }

    fn any_move() -> impl Strategy<Value = Move> {
        prop_oneof![
            (1u64..12, proptest::option::of(0u64..SLOTS)).prop_map(|(slots, after)| Move::Take(slots, after)),
            any::<usize>().prop_map(Move::GiveBack),
            (0u64..SLOTS + 4, 0u64..9)
                .prop_map(|(first_slot, slots)| Move::Claim(Extent { first_slot, slots })),
        ]
    }

    proptest! {
        #[test]
        fn no_slot_has_two_owners_and_none_is_lost(moves in proptest::collection::vec(any_move(), 0..60)) {
            let mut map = FreeMap::all(SLOTS);
            let mut held: Vec<Extent> = Vec::new();
            let is_free = |held: &[Extent], slot: u64| slot < SLOTS
                && held.iter().all(|e| slot < e.first_slot || slot >= e.first_slot + e.slots);
            for step in moves {
                match step {
                    Move::Take(slots, after) => match map.take(slots, after) {
                        Some(got) => {
                            prop_assert!(got.slots >= 1 && got.slots <= slots);
                            prop_assert!((got.first_slot..got.first_slot + got.slots).all(|slot| is_free(&held, slot)));
                            held.push(got);
                        }
                        None => prop_assert_eq!(map.free(), 0),
                    },
                    Move::GiveBack(which) if !held.is_empty() => map.give_back(held.swap_remove(which % held.len())),
                    Move::GiveBack(_) => {}
                    Move::Claim(extent) => {
                        let free = extent.slots > 0
                            && (extent.first_slot..extent.first_slot + extent.slots).all(|slot| is_free(&held, slot));
                        prop_assert_eq!(map.claim(extent).is_ok(), free);
                        if free {
                            held.push(extent);
                        }
                    }
                }
                prop_assert_eq!(map.free(), SLOTS - held.iter().map(|e| e.slots).sum::<u64>());
            }
            for extent in held.drain(..) {
                map.give_back(extent);
            }
            prop_assert_eq!(map.runs, FreeMap::all(SLOTS).runs);
        }
    }

    #[test]
    fn the_first_run_that_is_long_enough_is_taken_then_the_longest() {
        let mut map = FreeMap::all(20);
        for first_slot in [3, 9] {
            map.claim(Extent { first_slot, slots: 1 }).unwrap();
        }
        assert_eq!(map.take(5, None), Some(Extent { first_slot: 4, slots: 5 }));
        assert_eq!(map.take(30, None), Some(Extent { first_slot: 10, slots: 10 }));
        assert_eq!(map.take(2, None), Some(Extent { first_slot: 0, slots: 2 }));
        assert_eq!(map.take(9, Some(2)), Some(Extent { first_slot: 2, slots: 1 }));
        assert_eq!(map.take(1, None), None);
    }
}
