//! Which rows of an object are sent, and where they lie in a stripe. Pure.
//!
//! ```text
//!   a stripe of M matrices:      unit 0   unit 1  ..  unit D-1 | unit D
//!     rows of matrix 0             0        1           D-1    |   0
//!     rows of matrix 1             D       D+1         2D-1    |   1
//!                                data rows, as numbered        | parity rows, as numbered
//! ```
//! Rows of both kinds are numbered matrix by matrix. In a matrix, they lie at consecutive
//! positions of the stripe.

use crate::unit::PositionRows;
use reel_volume::{Geometry, ObjectMap};
use std::ops::Range;

/// The rows of an object that a range of bytes counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// The data rows: the bytes of the object.
    Data,
    /// The parity rows, one for each matrix. A matrix with several has the first of them counted.
    Parity,
}

impl RowKind {
    /// Units of a stripe that hold these rows.
    pub fn units(self, geometry: &Geometry) -> usize {
        match self {
            RowKind::Data => geometry.data_rows(),
            RowKind::Parity => 1,
        }
    }

    /// Bytes of these rows in a matrix.
    pub fn matrix_bytes(self, geometry: &Geometry) -> u64 {
        (self.units(geometry) * geometry.row_bytes()) as u64
    }

    /// Bytes of these rows in a stripe.
    pub fn stripe_bytes(self, geometry: &Geometry) -> u64 {
        self.matrix_bytes(geometry) * geometry.unit_rows() as u64
    }

    /// Bytes of these rows of an object. All parity rows of its last stripe are stored, also those
    /// of matrices behind the last byte of the object.
    pub fn object_bytes(self, map: &ObjectMap) -> u64 {
        match self {
            RowKind::Data => map.bytes(),
            RowKind::Parity => map.stripes() * self.stripe_bytes(map.geometry()),
        }
    }

    /// Where row `index` of a stripe lies: its position, and its row of the unit.
    pub(crate) fn place(self, geometry: &Geometry, index: u64) -> (usize, usize) {
        let units = self.units(geometry) as u64;
        // The casts fit: both are below the small counts of the geometry.
        (self.first_position(geometry) + (index % units) as usize, (index / units) as usize)
    }

    /// The rows at each position that the bytes `range` of a stripe touch.
    pub(crate) fn rows_by_position(self, geometry: &Geometry, range: &Range<u64>) -> Vec<PositionRows> {
        let (units, row_bytes) = (self.units(geometry), geometry.row_bytes() as u64);
        // The casts fit: they are rows of one stripe.
        let first = (range.start / row_bytes) as usize;
        let last = ((range.end - 1) / row_bytes) as usize;
        let mut wanted = Vec::with_capacity(units);
        for unit in 0..units {
            let from = first.saturating_sub(unit).div_ceil(units);
            if unit <= last && from * units + unit <= last {
                let to = (last - unit) / units + 1;
                wanted.push(PositionRows { position: self.first_position(geometry) + unit, rows: from..to });
            }
        }
        wanted
    }

    fn first_position(self, geometry: &Geometry) -> usize {
        match self {
            RowKind::Data => 0,
            RowKind::Parity => geometry.data_rows(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reel_volume::GeometryFields;
    use std::collections::BTreeMap;

    fn geometries() -> impl Strategy<Value = Geometry> {
        let fields = (1_usize..6, 1_usize..5).prop_map(|(data_rows, unit_rows)| GeometryFields {
            symbol_bytes: 7,
            row_symbols: 10,
            unit_rows,
            data_rows,
            parity_rows: 1,
            members: data_rows + 1,
        });
        fields.prop_map(|fields| Geometry::new(fields).expect("these numbers keep the rules"))
    }

    proptest! {
        /// Each byte of the range lies in a wanted row, and each end of the wanted rows holds a
        /// byte of the range.
        #[test]
        fn the_wanted_rows_are_those_that_the_range_touches(
            geometry in geometries(), parity in any::<bool>(), from in any::<u64>(), to in any::<u64>(),
        ) {
            let kind = if parity { RowKind::Parity } else { RowKind::Data };
            let stripe_bytes = kind.stripe_bytes(&geometry);
            let (from, to) = (from % stripe_bytes, to % stripe_bytes);
            let range = from.min(to)..from.max(to) + 1;
            let mut touched: BTreeMap<usize, Range<usize>> = BTreeMap::new();
            for byte in range.clone() {
                let (position, row) = kind.place(&geometry, byte / geometry.row_bytes() as u64);
                prop_assert_eq!(position < geometry.data_rows(), kind == RowKind::Data);
                prop_assert!(position < geometry.width() && row < geometry.unit_rows());
                let rows = touched.entry(position).or_insert(row..row + 1);
                *rows = rows.start.min(row)..rows.end.max(row + 1);
            }
            let wanted = kind.rows_by_position(&geometry, &range);
            let wanted: BTreeMap<usize, Range<usize>> =
                wanted.into_iter().map(|unit| (unit.position, unit.rows)).collect();
            prop_assert_eq!(wanted, touched);
        }
    }
}
