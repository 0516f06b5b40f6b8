//! The laws of reading a unit, with members that are missing, fail or return wrong data in any
//! combination. The result is either the right bytes or an error that names the members at fault,
//! and which of the two is decided by what is left.

use std::sync::Arc;

use proptest::prelude::*;
use reel_arena::{Arena, ArenaConfig, Buffer};
use reel_code::{Code, crc32c};
use reel_disk::DiskError;

use crate::catalogue::Extent;
use crate::counters::VolumeCounters;
use crate::error::VolumeError;
use crate::geometry::Geometry;
use crate::geometry_laws::any_geometry;
use crate::health::Health;
use crate::hold::Hold;
use crate::object::{ObjectMap, ObjectParts};
use crate::unit_read::{UnitFetch, UnitRead, UnitRows, UnitStep};

const STRIPES: u64 = 3;
const DATA_OFFSET: u64 = 8192;
const FIRST_SLOT: u64 = 2;

/// The fault of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MemberFault {
    Nothing,
    Missing,
    Fails,
    /// One bit of this row of every unit is flipped.
    FlippedBit(usize),
}

struct Memory {
    geometry: Geometry,
    members: Vec<Vec<u8>>,
    map: Arc<ObjectMap>,
    counters: Arc<VolumeCounters>,
    object: Vec<u8>,
}

impl Memory {
    /// An object laid out as the geometry says, with a plain computation of parity.
    fn new(geometry: Geometry, seed: u64) -> Memory {
        let mut state = seed | 1;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as u8
        };
        let object: Vec<u8> = (0..STRIPES * geometry.stripe_bytes() as u64).map(|_| byte()).collect();
        let units = (FIRST_SLOT + STRIPES + geometry.members() as u64) as usize * geometry.width();
        let mut members =
            vec![vec![0; DATA_OFFSET as usize + units * geometry.unit_bytes()]; geometry.members()];
        let mut sums = vec![0; (STRIPES * geometry.stripe_rows() as u64) as usize];
        let row_bytes = geometry.row_bytes();
        for stripe in 0..STRIPES {
            for matrix in 0..geometry.unit_rows() {
                let mut parity = vec![0; row_bytes];
                for position in 0..geometry.width() {
                    let from = stripe as usize * geometry.stripe_bytes()
                        + (matrix * geometry.data_rows() + position) * row_bytes;
                    let row = if position < geometry.data_rows() {
                        object[from..from + row_bytes].to_vec()
                    } else {
                        parity.clone()
                    };
                    parity.iter_mut().zip(&row).for_each(|(parity, byte)| *parity ^= byte);
                    let place = geometry.place(FIRST_SLOT + stripe, position);
                    let at = DATA_OFFSET as usize
                        + place.unit as usize * geometry.unit_bytes()
                        + matrix * row_bytes;
                    members[place.member][at..at + row_bytes].copy_from_slice(&row);
                    sums[geometry.sum_index(stripe, position, matrix) as usize] = crc32c(&row);
                }
            }
        }
        let counters = Arc::new(VolumeCounters::default());
        let map = ObjectMap::new(ObjectParts {
            name: "the object".to_owned(),
            geometry,
            code: Code::Xor,
            bytes: object.len() as u64,
            extents: vec![
                Extent { first_slot: FIRST_SLOT, slots: 1 },
                Extent { first_slot: FIRST_SLOT + 1, slots: STRIPES - 1 },
            ],
            sums,
            data_offset: DATA_OFFSET,
            counters: Arc::clone(&counters),
            hold: Hold::default(),
        });
        Memory { geometry, members, map: Arc::new(map), counters, object }
    }

    fn answer(&self, arena: &Arena, fetch: &UnitFetch, wrong: &MemberFault) -> Result<Buffer, DiskError> {
        if matches!(wrong, MemberFault::Missing | MemberFault::Fails) {
            return Err(DiskError::Absent { member: fetch.member });
        }
        assert_eq!((fetch.offset % 4096, fetch.bytes % 4096), (0, 0));
        let mut buffer = arena.take(fetch.bytes).expect("the arena is large enough for a stripe");
        let from = fetch.offset as usize;
        buffer[..fetch.bytes].copy_from_slice(&self.members[fetch.member][from..from + fetch.bytes]);
        if let MemberFault::FlippedBit(row) = wrong {
            let within = (from - DATA_OFFSET as usize) % self.geometry.unit_bytes();
            let bad = row * self.geometry.row_bytes() + self.geometry.row_bytes() / 2;
            if (within..within + fetch.bytes).contains(&bad) {
                buffer[bad - within] ^= 4;
            }
        }
        Ok(buffer)
    }

    fn row(&self, stripe: u64, position: usize, matrix: usize) -> Vec<u8> {
        let place = self.geometry.place(FIRST_SLOT + stripe, position);
        let at = DATA_OFFSET as usize
            + place.unit as usize * self.geometry.unit_bytes()
            + matrix * self.geometry.row_bytes();
        self.members[place.member][at..at + self.geometry.row_bytes()].to_vec()
    }

    /// Runs a read to its end; `order` decides in which order answers arrive.
    fn run(
        &self,
        arena: &Arena,
        mut read: UnitRead,
        wrong: &[MemberFault],
        mut order: u64,
    ) -> Result<UnitRows, VolumeError> {
        let mut under_way = read.reads();
        while !under_way.is_empty() {
            order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let fetch = under_way.swap_remove((order >> 33) as usize % under_way.len());
            let wrong = &wrong[fetch.member];
            match read.fetched(fetch.index, self.answer(arena, &fetch, wrong)) {
                UnitStep::Wait => {}
                UnitStep::Fetch(fetches) => under_way.extend(fetches),
                UnitStep::Ready(rows) => return Ok(rows),
                UnitStep::Failed(error) => return Err(error),
            }
        }
        panic!("the read neither ended nor requested more");
    }
}

fn any_wrong() -> impl Strategy<Value = MemberFault> {
    prop_oneof![
        6 => Just(MemberFault::Nothing),
        1 => Just(MemberFault::Missing),
        1 => Just(MemberFault::Fails),
        2 => (0usize..8).prop_map(MemberFault::FlippedBit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_right_bytes_or_an_error(
        geometry in any_geometry(), seed in any::<u64>(), stripe in 0..STRIPES, position in any::<usize>(),
        from in any::<usize>(), to in any::<usize>(), wrong in proptest::collection::vec(any_wrong(), 16), order in any::<u64>(),
    ) {
        let memory = Memory::new(geometry, seed);
        let position = position % geometry.width();
        let (from, to) = (from % geometry.unit_rows(), to % geometry.unit_rows());
        let rows = from.min(to)..from.max(to) + 1;
        let arena = Arena::new(ArenaConfig {
            buffer_bytes: geometry.unit_bytes(),
            buffer_count: geometry.width() + 1,
            cells_per_buffer: 1,
            huge_pages: false,
        }).unwrap();
        let readable: Vec<bool> = (0..geometry.members()).map(|member| wrong[member] != MemberFault::Missing).collect();
        let read = UnitRead::new(Arc::clone(&memory.map), &Health::new(&readable), stripe, position, rows.clone());
        let got = memory.run(&arena, read, &wrong, order);

        // The oracle counts which rows are available.
        let state = |position: usize| &wrong[geometry.place(FIRST_SLOT + stripe, position).member];
        let bad = |position: usize, row: usize| *state(position) == MemberFault::FlippedBit(row);
        let gone = |position: usize| matches!(state(position), MemberFault::Missing | MemberFault::Fails);
        let others = || (0..geometry.width()).filter(|other| *other != position);
        let lost: Vec<usize> = rows.clone().filter(|&row| gone(position) || bad(position, row)).collect();
        let possible = lost.is_empty()
            || (!others().any(gone) && lost.iter().all(|&row| !others().any(|other| bad(other, row))));
        match got {
            Ok(got) => {
                prop_assert!(possible);
                prop_assert_eq!(got.decoded(), !lost.is_empty());
                for row in rows.clone() {
                    let expected = memory.row(stripe, position, row);
                    prop_assert_eq!(got.row_bytes(row), &expected[..]);
                    prop_assert_eq!(&got.row(row)[..], &expected[..]);
                    if position < geometry.data_rows() {
                        let at = stripe as usize * geometry.stripe_bytes()
                            + (row * geometry.data_rows() + position) * geometry.row_bytes();
                        prop_assert_eq!(&expected[..], &memory.object[at..at + geometry.row_bytes()]);
                    }
                }
                prop_assert_eq!(memory.counters.rows_decoded.get(), lost.len() as u64);
            }
            Err(error) => {
                prop_assert!(!possible, "{}", error);
                let lost = matches!(error, VolumeError::Lost { .. });
                prop_assert!(lost);
                let text = error.to_string();
                let expected = format!("the object, stripe {stripe}");
                prop_assert!(text.contains(&expected) && text.contains("member"), "{}", text);
                prop_assert_eq!(memory.counters.rows_lost.get(), 1);
            }
        }
        prop_assert_eq!(arena.usage().bytes_taken, 0, "every buffer went back");
    }
}

/// How the other units of a stripe are obtained.
#[derive(Clone, Copy, Debug)]
struct HedgeScenario {
    /// Whether the unit's own member is read before the others. Otherwise it is silent and the
    /// others are read at once.
    own_first: bool,
    /// How many answers have come when the caller has waited long enough.
    patience: usize,
    /// Which of the other units are served from another caller's read, one bit for each position.
    shared: u16,
}

impl Memory {
    /// Verified rows of a unit from another caller's read; `None` if that caller could not read
    /// them.
    fn rows_of(
        &self,
        arena: &Arena,
        stripe: u64,
        fetch: &UnitFetch,
        wrong: &[MemberFault],
    ) -> Option<UnitRows> {
        let all = Health::new(&vec![true; self.geometry.members()]);
        let mut read = UnitRead::new(Arc::clone(&self.map), &all, stripe, fetch.position, fetch.rows.clone());
        let own = read.reads().remove(0);
        match read.fetched(own.index, self.answer(arena, &own, &wrong[own.member])) {
            UnitStep::Ready(rows) => Some(rows),
            _ => None,
        }
    }

    fn run_hedged(
        &self,
        arena: &Arena,
        stripe: u64,
        mut read: UnitRead,
        wrong: &[MemberFault],
        mut order: u64,
        scenario: HedgeScenario,
    ) -> Result<UnitRows, VolumeError> {
        let mut under_way = if scenario.own_first { read.reads() } else { read.hedged_reads() };
        let mut answers = 0;
        loop {
            if scenario.own_first && answers == scenario.patience {
                under_way.extend(read.hedged_reads());
            }
            answers += 1;
            assert!(!under_way.is_empty(), "the read neither ended nor requested more");
            order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let fetch = under_way.swap_remove((order >> 33) as usize % under_way.len());
            let shared = (!fetch.own && scenario.shared >> (fetch.position % 16) & 1 == 1)
                .then(|| self.rows_of(arena, stripe, &fetch, wrong))
                .flatten();
            let step = match shared {
                Some(rows) => {
                    if read.target_bytes() > 0 {
                        read.give_target(arena.take(read.target_bytes()).expect("the arena is large enough"));
                    }
                    read.shared(fetch.index, rows)
                }
                None => read.fetched(fetch.index, self.answer(arena, &fetch, &wrong[fetch.member])),
            };
            match step {
                UnitStep::Wait => {}
                UnitStep::Fetch(fetches) => under_way.extend(fetches),
                UnitStep::Ready(rows) => return Ok(rows),
                UnitStep::Failed(error) => return Err(error),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Hedged or not, shared or not, in any order of answers: exactly the available rows are
    /// returned.
    #[test]
    fn hedged_and_shared_reads_return_the_same_bytes(
        geometry in any_geometry(), seed in any::<u64>(), stripe in 0..STRIPES, position in any::<usize>(),
        from in any::<usize>(), to in any::<usize>(), wrong in proptest::collection::vec(any_wrong(), 16), order in any::<u64>(),
        own_first in any::<bool>(), patience in 0usize..4, shared in any::<u16>(),
    ) {
        let memory = Memory::new(geometry, seed);
        let position = position % geometry.width();
        let (from, to) = (from % geometry.unit_rows(), to % geometry.unit_rows());
        let rows = from.min(to)..from.max(to) + 1;
        let arena = Arena::new(ArenaConfig {
            buffer_bytes: geometry.unit_bytes(),
            buffer_count: geometry.width() * 3 + 2,
            cells_per_buffer: 1,
            huge_pages: false,
        }).unwrap();
        // A missing member fails its reads: none is known to be missing.
        let health = Health::new(&vec![true; geometry.members()]);
        let read = UnitRead::new(Arc::clone(&memory.map), &health, stripe, position, rows.clone());
        let got = memory.run_hedged(&arena, stripe, read, &wrong, order, HedgeScenario { own_first, patience, shared });

        let state = |position: usize| &wrong[geometry.place(FIRST_SLOT + stripe, position).member];
        let bad = |position: usize, row: usize| *state(position) == MemberFault::FlippedBit(row);
        let gone = |position: usize| matches!(state(position), MemberFault::Missing | MemberFault::Fails);
        let others = || (0..geometry.width()).filter(|other| *other != position);
        let lost: Vec<usize> = rows.clone().filter(|&row| gone(position) || bad(position, row)).collect();
        let possible = lost.is_empty()
            || (!others().any(gone) && lost.iter().all(|&row| !others().any(|other| bad(other, row))));
        prop_assert_eq!(got.is_ok(), possible);
        if let Ok(got) = got {
            for row in rows {
                let expected = memory.row(stripe, position, row);
                prop_assert_eq!(got.row_bytes(row), &expected[..]);
            }
        }
        prop_assert_eq!(arena.usage().bytes_taken, 0, "every buffer went back");
    }
}
