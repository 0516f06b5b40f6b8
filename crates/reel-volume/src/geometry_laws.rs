//! The laws of the geometry, for any geometry.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use crate::geometry::{Geometry, GeometryFields, Location, UnitAddress};
use crate::limits::BLOCK_BYTES;

/// Any small geometry that is allowed.
pub(crate) fn any_geometry() -> impl Strategy<Value = Geometry> {
    (1usize..300, 1usize..40, 1usize..9, 1usize..9, 0usize..7).prop_filter_map(
        "rows under 64 bytes",
        |(e, l, m, d, more)| {
            Geometry::new(GeometryFields {
                symbol_bytes: e,
                row_symbols: l,
                unit_rows: m,
                data_rows: d,
                parity_rows: 1,
                members: d + 1 + more,
            })
            .ok()
        },
    )
}

proptest! {
    #[test]
    fn every_byte_has_one_position_that_maps_back(geometry in any_geometry(), offset in 0u64..1 << 40, slot in 0u64..1 << 20) {
        let at = geometry.locate(offset);
        prop_assert!(at.position < geometry.data_rows());
        prop_assert!(at.matrix < geometry.unit_rows());
        prop_assert!(at.byte < geometry.row_bytes());
        prop_assert_eq!(geometry.object_offset(at), Some(offset));
        let place = geometry.place(slot, at.position);
        prop_assert_eq!(geometry.slot_at(place), (slot, at.position));
    }

    #[test]
    fn a_stripe_covers_every_data_row_byte_once(geometry in any_geometry()) {
        let stripe = geometry.stripe_bytes() as u64;
        let mut seen = HashSet::new();
        // Row starts are enough: within a row the order is that of the bytes.
        for row in 0..stripe / geometry.row_bytes() as u64 {
            let at = geometry.locate(row * geometry.row_bytes() as u64);
            prop_assert_eq!((at.stripe, at.byte), (0, 0));
            prop_assert!(seen.insert((at.position, at.matrix)));
            let last = geometry.locate((row + 1) * geometry.row_bytes() as u64 - 1);
            prop_assert_eq!(last, Location { byte: geometry.row_bytes() - 1, ..at });
        }
        prop_assert_eq!(seen.len(), geometry.data_rows() * geometry.unit_rows());
    }

    #[test]
    fn units_never_overlap_and_fill_every_member_evenly(geometry in any_geometry(), groups in 1u64..6) {
        let slots = groups * geometry.members() as u64;
        let mut taken: HashMap<UnitAddress, (u64, usize)> = HashMap::new();
        for slot in 0..slots {
            let mut members = HashSet::new();
            for position in 0..geometry.width() {
                let place = geometry.place(slot, position);
                prop_assert!(members.insert(place.member), "one stripe twice on one member");
                prop_assert_eq!(taken.insert(place, (slot, position)), None);
                prop_assert_eq!(geometry.slot_at(place), (slot, position));
            }
        }
        let per_member = groups * geometry.width() as u64;
        for member in 0..geometry.members() {
            for unit in 0..per_member {
                let place = UnitAddress { member, unit };
                prop_assert!(taken.contains_key(&place), "a hole at {:?}", place);
            }
        }
        prop_assert_eq!(taken.len() as u64, per_member * geometry.members() as u64);
        prop_assert_eq!(geometry.slots(per_member), slots);
        prop_assert_eq!(geometry.slots(per_member + geometry.width() as u64 - 1), slots);
    }

    #[test]
    fn every_position_rotates_evenly_and_units_ascend(geometry in any_geometry(), group in 0u64..1 << 30) {
        let first = group * geometry.members() as u64;
        let mut last_unit: HashMap<usize, u64> = HashMap::new();
        let mut per_position: HashMap<(usize, usize), u32> = HashMap::new();
        for slot in first..first + geometry.members() as u64 {
            for position in 0..geometry.width() {
                let place = geometry.place(slot, position);
                *per_position.entry((position, place.member)).or_default() += 1;
            }
            for position in 0..geometry.width() {
                let place = geometry.place(slot, position);
                if let Some(before) = last_unit.insert(place.member, place.unit) {
                    prop_assert!(place.unit > before, "units of later slots come later");
                }
            }
        }
        // Over one group every member holds each position, so also each parity row, exactly once.
        prop_assert!(per_position.values().all(|&times| times == 1));
        prop_assert_eq!(per_position.len(), geometry.width() * geometry.members());
    }

    #[test]
    fn units_are_whole_blocks(geometry in any_geometry()) {
        prop_assert_eq!(geometry.unit_bytes() % BLOCK_BYTES, 0);
        let rows = geometry.row_bytes() * geometry.unit_rows();
        prop_assert!(geometry.unit_bytes() >= rows && geometry.unit_bytes() - rows < BLOCK_BYTES);
    }
}

#[test]
fn the_defaults_have_the_designed_sizes() {
    let cmaf = Geometry::new(GeometryFields::cmaf(5)).unwrap();
    assert_eq!((cmaf.row_bytes(), cmaf.unit_bytes(), cmaf.stripe_bytes()), (45_056, 264 << 10, 24 * 45_056));
    assert_eq!(cmaf.row_bytes() * cmaf.unit_rows(), cmaf.unit_bytes());
    let ts = GeometryFields { symbol_bytes: 1316, row_symbols: 20, unit_rows: 7, ..GeometryFields::cmaf(5) };
    let ts = Geometry::new(ts).unwrap();
    assert_eq!((ts.unit_bytes(), ts.unit_bytes() - 7 * ts.row_bytes()), (180 << 10, 80));
}

#[test]
fn each_broken_rule_is_named() {
    let good = GeometryFields::cmaf(5);
    let cases = [
        (GeometryFields { symbol_bytes: 0, ..good }, "symbol (E)"),
        (GeometryFields { row_symbols: 0, ..good }, "row (L)"),
        (GeometryFields { unit_rows: 0, ..good }, "unit (M)"),
        (GeometryFields { data_rows: 0, ..good }, "(D)"),
        (GeometryFields { parity_rows: 0, ..good }, "parity (P)"),
        (GeometryFields { parity_rows: 2, ..good }, "parity (P)"),
        (GeometryFields { members: 129, ..good }, "at most 128"),
        (GeometryFields { members: 4, ..good }, "N >= D + P"),
        (GeometryFields { symbol_bytes: 63, row_symbols: 1, ..good }, "at least 64"),
        (GeometryFields { symbol_bytes: 65_536, row_symbols: 4096, ..good }, "16 MiB"),
    ];
    for (fields, words) in cases {
        let text = Geometry::new(fields).unwrap_err().to_string();
        assert!(text.contains(words), "{text:?} does not name {words:?}");
    }
}
