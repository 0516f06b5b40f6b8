//! Whose turn it is among transfers, and how much a turn brings. Pure: no clock, no I/O, no threads.
//!
//! The schedule (N, d) of dsplice (1996, note 2), with stripes for its blocks and turns for its pauses: a transfer reads a run of N
//! stripes, then the others have theirs. N is the least for which an arm spends most of its time on bytes; d is not set but follows:
//! as long as the turns of the others take.
//!
//! Who has had the least goes next. Nobody begins a turn who is half a run ahead of one whose run is under way, and who was away
//! begins with those who are there: what he did not take is lost. So those who always want more have the same, give or take a run and a half.

use crate::limits::{
    READER_STRIPES_MAX, RUN_STRIPES_MAX, RUNS_UNDER_WAY_MIN, TRANSFER_RUNS_HELD, TRANSFERS_MEMORY_PART,
};
use reel_qos::DiskPrice;
use std::collections::BTreeMap;

/// How much a turn brings, and how many turns may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Stripes of a turn (N).
    pub stripes: u64,
    /// Bytes of that.
    pub bytes: u64,
    /// Turns under way at once.
    pub under_way_max: usize,
}

/// What a run is chosen from.
#[derive(Clone, Copy, Debug)]
pub struct RunSource {
    /// What reads cost the slowest member, as measured.
    pub price: DiskPrice,
    /// Bytes of a unit: what a stripe is on one member.
    pub unit_bytes: u64,
    /// Units of a stripe that are read.
    pub stripe_units: u64,
    /// Bytes that a stripe brings.
    pub stripe_bytes: u64,
    /// Buffers that all readers may hold together.
    pub buffers: u64,
    /// Transfers that share what transfers may hold.
    pub transfers: u64,
}

/// Names a transfer.
pub(crate) type TransferId = u64;

/// The transfers, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Turns {
    transfers: BTreeMap<TransferId, Standing>,
    next_id: TransferId,
    next_place: u64,
    run: Run,
    under_way: usize,
    /// What the last who was given a turn had had before it: who comes now has had as much.
    floor_bytes: u64,
    /// Turns given, for metrics.
    given: u64,
}

#[derive(Debug, Default)]
struct Standing {
    /// What it was given, or has let pass.
    had_bytes: u64,
    /// Its place in the line while it waits.
    waits: Option<u64>,
    /// A turn that was given and has not begun: what it was charged for.
    given_bytes: Option<u64>,
    /// Its turns under way, those given included.
    under_way: usize,
}

impl Run {
    /// The least run that makes a way worth it, as far as memory goes; never less than a reader without turns holds.
    pub fn of(source: &RunSource) -> Run {
        let least = READER_STRIPES_MAX as u64;
        let worth = source.price.run_bytes().div_ceil(source.unit_bytes.max(1)).clamp(least, RUN_STRIPES_MAX);
        let held = source.stripe_units.max(1) * source.transfers.max(1) * TRANSFER_RUNS_HELD.0;
        let affordable = source.buffers / TRANSFERS_MEMORY_PART * TRANSFER_RUNS_HELD.1 / held;
        let stripes = worth.min(affordable).max(least);
        // Short runs make up for it by being many: then one sweep serves all of them.
        let under_way_max = RUNS_UNDER_WAY_MIN * worth.div_ceil(stripes) as usize;
        Run { stripes, bytes: stripes * source.stripe_bytes, under_way_max }
    }
}

impl Turns {
    pub(crate) fn new() -> Self {
        // Until somebody says what a turn is: a beginning.
        let run = Run { stripes: 1, bytes: 1, under_way_max: RUNS_UNDER_WAY_MIN };
        Self {
            transfers: BTreeMap::new(),
            next_id: 0,
            next_place: 0,
            run,
            under_way: 0,
            floor_bytes: 0,
            given: 0,
        }
    }

    /// A turn is so much from here on.
    pub(crate) fn set_run(&mut self, run: Run) {
        self.run = run;
    }

    /// A turn, as it is now.
    pub(crate) fn run(&self) -> Run {
        self.run
    }

    /// How many transfers there are.
    pub(crate) fn len(&self) -> usize {
        self.transfers.len()
    }

    /// Turns given so far.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// A transfer more.
    pub(crate) fn join(&mut self) -> TransferId {
        let id = self.next_id;
        self.next_id += 1;
        self.transfers.insert(id, Standing { had_bytes: self.floor_bytes, ..Standing::default() });
        id
    }

    /// It is gone, with its turns under way.
    pub(crate) fn leave(&mut self, id: TransferId) {
        if let Some(gone) = self.transfers.remove(&id) {
            self.under_way -= gone.under_way;
        }
    }

    /// It can take a turn. Asking twice is asking once.
    pub(crate) fn ask(&mut self, id: TransferId) {
        let place = self.next_place;
        let Some(transfer) = self.transfers.get_mut(&id) else { return };
        if transfer.waits.is_none() && transfer.given_bytes.is_none() {
            transfer.waits = Some(place);
            transfer.had_bytes = transfer.had_bytes.max(self.floor_bytes);
            self.next_place += 1;
        }
    }

    /// Gives the next turn, if one may begin now.
    pub(crate) fn next(&mut self) -> Option<TransferId> {
        if self.under_way >= self.run.under_way_max {
            return None;
        }
        let waiting = self.transfers.iter().filter_map(|(id, one)| Some((one.had_bytes, one.waits?, *id)));
        let (had_bytes, _, id) = waiting.min()?;
        let others = self.transfers.iter().filter(|(other, one)| **other != id && one.under_way > 0);
        let least_bytes = others.map(|(_, one)| one.had_bytes).min();
        if least_bytes.is_some_and(|least_bytes| had_bytes > least_bytes.saturating_add(self.run.bytes / 2)) {
            return None;
        }
        let given_bytes = self.run.bytes;
        let transfer = self.transfers.get_mut(&id)?;
        transfer.waits = None;
        transfer.given_bytes = Some(given_bytes);
        transfer.had_bytes = had_bytes.saturating_add(given_bytes);
        transfer.under_way += 1;
        self.under_way += 1;
        self.floor_bytes = self.floor_bytes.max(had_bytes);
        self.given += 1;
        Some(id)
    }

    /// Bytes of a turn that was given to it and has not begun.
    pub(crate) fn given_to(&self, id: TransferId) -> Option<u64> {
        self.transfers.get(&id)?.given_bytes
    }

    /// It has asked the members for all of its turn, which was so much: less at the end of a film, or while memory is short.
    pub(crate) fn began(&mut self, id: TransferId, bytes: u64) {
        let Some(transfer) = self.transfers.get_mut(&id) else { return };
        if let Some(given_bytes) = transfer.given_bytes.take() {
            transfer.had_bytes = (transfer.had_bytes - given_bytes).saturating_add(bytes);
        }
    }

    /// All of a turn that began has come.
    pub(crate) fn ended(&mut self, id: TransferId) {
        if let Some(transfer) = self.transfers.get_mut(&id).filter(|transfer| transfer.under_way > 0) {
            transfer.under_way -= 1;
            self.under_way -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STRIPE_BYTES: u64 = 1 << 20;

    fn source() -> RunSource {
        RunSource {
            // 12 ms there, 7 ms for a MiB.
            price: DiskPrice {
                read_request_ns: 12_000_000,
                read_mib_ns: 7_000_000,
                write_request_ns: 0,
                write_mib_ns: 0,
            },
            unit_bytes: STRIPE_BYTES / 4,
            stripe_units: 4,
            stripe_bytes: STRIPE_BYTES,
            buffers: 4_000,
            transfers: 4,
        }
    }

    fn run(stripes: u64, under_way_max: usize) -> Run {
        Run { stripes, bytes: stripes * STRIPE_BYTES, under_way_max }
    }

    #[test]
    fn a_run_is_as_long_as_the_measured_way_asks_for() {
        // 48 ms of transfer are 6.9 MiB, in units of a quarter of a MiB.
        assert_eq!(Run::of(&source()), run(28, 2));
        let near = DiskPrice { read_request_ns: 3_000_000, ..source().price };
        assert_eq!(Run::of(&RunSource { price: near, ..source() }), run(7, 2));
        let flash = DiskPrice { read_request_ns: 100_000, ..source().price };
        assert_eq!(Run::of(&RunSource { price: flash, ..source() }).stripes, READER_STRIPES_MAX as u64);
        let absurd = DiskPrice { read_request_ns: u64::MAX, read_mib_ns: 0, ..source().price };
        let plenty = RunSource { price: absurd, buffers: 1 << 20, ..source() };
        assert_eq!(Run::of(&plenty).stripes, RUN_STRIPES_MAX);
    }

    #[test]
    fn memory_shortens_runs_and_makes_them_more() {
        let many = Run::of(&RunSource { transfers: 16, ..source() });
        assert_eq!(many, run(10, 6));
        let poor = Run::of(&RunSource { buffers: 16, transfers: 1_000, ..source() });
        assert_eq!((poor.stripes, poor.under_way_max), (READER_STRIPES_MAX as u64, 14));
    }

    proptest! {
        #[test]
        fn transfers_hold_no_more_than_their_part(buffers in 0u64..100_000, transfers in 1u64..3_000, stripe_units in 1u64..16) {
            let run = Run::of(&RunSource { buffers, transfers, stripe_units, ..source() });
            let held = run.stripes * stripe_units * transfers * 3 / 2;
            prop_assert!(held <= buffers / TRANSFERS_MEMORY_PART || run.stripes == READER_STRIPES_MAX as u64);
        }

        #[test]
        fn who_always_wants_more_has_the_same(
            ends in prop::collection::vec((0usize..64, 1u64..=28), 200..600), count in 2usize..9, under_way_max in 1usize..5,
        ) {
            let mut turns = Turns::new();
            turns.set_run(run(28, under_way_max));
            let ids: Vec<_> = (0..count).map(|_| turns.join()).collect();
            ids.iter().for_each(|id| turns.ask(*id));
            let (mut had, mut under_way) = (vec![0; count], Vec::new());
            for (which, stripes) in ends {
                while let Some(id) = turns.next() {
                    // Turns are often shorter than they may be: what counts is what they brought.
                    let bytes = stripes * STRIPE_BYTES;
                    turns.began(id, bytes);
                    turns.ask(id);
                    had[id as usize] += bytes;
                    under_way.push(id);
                }
                prop_assert!(!under_way.is_empty(), "somebody waits and nothing is under way");
                prop_assert!(under_way.len() <= under_way_max);
                let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
                prop_assert!(most - least <= 28 * STRIPE_BYTES * 3 / 2, "{had:?}");
                let ended = under_way.swap_remove(which % under_way.len());
                turns.ended(ended);
            }
        }

        #[test]
        fn nothing_is_lost_when_they_come_go_and_dawdle(
            steps in prop::collection::vec((0u8..6, 0usize..16), 1..400), under_way_max in 1usize..4,
        ) {
            let mut turns = Turns::new();
            turns.set_run(run(8, under_way_max));
            let (mut all, mut under_way) = (Vec::new(), Vec::new());
            for (what, which) in steps {
                match what {
                    0 => all.push(turns.join()),
                    1 if !all.is_empty() => {
                        let gone = all.swap_remove(which % all.len());
                        turns.leave(gone);
                        under_way.retain(|id| *id != gone);
                    }
                    2 | 3 if !all.is_empty() => turns.ask(all[which % all.len()]),
                    4 if !under_way.is_empty() => {
                        let id = under_way.swap_remove(which % under_way.len());
                        turns.began(id, STRIPE_BYTES);
                        turns.ended(id);
                    }
                    _ => {}
                }
                while let Some(id) = turns.next() {
                    prop_assert_eq!(turns.given_to(id), Some(8 * STRIPE_BYTES));
                    under_way.push(id);
                }
                prop_assert!(under_way.len() <= under_way_max);
                prop_assert_eq!(turns.len(), all.len());
            }
            // Whoever is left and asks has a turn sooner or later.
            under_way.iter().for_each(|id| { turns.began(*id, 0); turns.ended(*id); });
            all.iter().for_each(|id| turns.ask(*id));
            let mut served = Vec::new();
            while let Some(id) = turns.next() {
                turns.began(id, STRIPE_BYTES);
                turns.ended(id);
                served.push(id);
            }
            served.sort_unstable();
            all.sort_unstable();
            prop_assert_eq!(served, all);
        }
    }

    #[test]
    fn who_was_away_makes_up_for_nothing() {
        let mut turns = Turns::new();
        turns.set_run(run(4, 1));
        let (slow, fast) = (turns.join(), turns.join());
        for _ in 0..100 {
            turns.ask(fast);
            assert_eq!(turns.next(), Some(fast));
            turns.began(fast, 4 * STRIPE_BYTES);
            turns.ended(fast);
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            turns.ask(slow);
            turns.ask(fast);
            let id = turns.next().unwrap();
            turns.began(id, 4 * STRIPE_BYTES);
            turns.ended(id);
            order.push(id);
        }
        assert_eq!(order.iter().filter(|id| **id == slow).count(), 3, "{order:?}");
    }

    #[test]
    fn one_alone_has_the_next_run_behind_the_one_that_is_read() {
        let mut turns = Turns::new();
        turns.set_run(run(4, 2));
        let alone = turns.join();
        for _ in 0..2 {
            turns.ask(alone);
            assert_eq!(turns.next(), Some(alone));
            turns.began(alone, 4 * STRIPE_BYTES);
        }
        turns.ask(alone);
        assert_eq!(turns.next(), None, "two are enough");
        turns.ended(alone);
        assert_eq!(turns.next(), Some(alone));
    }
}
