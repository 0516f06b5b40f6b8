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
    /// So many bytes of each symbol of the data rows, from its start on. What follows them in a
    /// symbol fills it.
    Payload(u32),
    /// The parity rows, one for each matrix. A matrix with several has the first of them counted.
    Parity,
}

impl RowKind {
    /// Units of a stripe that hold these rows.
    pub fn units(self, geometry: &Geometry) -> usize {
        match self {
            RowKind::Data | RowKind::Payload(_) => geometry.data_rows(),
            RowKind::Parity => 1,
        }
    }

    /// Bytes of a row that count.
    pub fn row_bytes(self, geometry: &Geometry) -> u64 {
        match self {
            RowKind::Data | RowKind::Parity => geometry.row_bytes() as u64,
            RowKind::Payload(bytes) => geometry.row_symbols() as u64 * u64::from(bytes),
        }
    }

    /// Bytes of these rows in a matrix.
    pub fn matrix_bytes(self, geometry: &Geometry) -> u64 {
        self.units(geometry) as u64 * self.row_bytes(geometry)
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
            RowKind::Payload(bytes) => {
                let symbol_bytes = map.geometry().symbol_bytes() as u64;
                let last = (map.bytes() % symbol_bytes).min(bytes.into());
                map.bytes() / symbol_bytes * u64::from(bytes) + last
            }
            RowKind::Parity => map.stripes() * self.stripe_bytes(map.geometry()),
        }
    }

    /// Where a byte of the data rows that count lies in the object.
    pub fn stored_at(self, geometry: &Geometry, at: u64) -> u64 {
        match self {
            RowKind::Data | RowKind::Parity => at,
            RowKind::Payload(bytes) => {
                let bytes = u64::from(bytes);
                at / bytes * geometry.symbol_bytes() as u64 + at % bytes
            }
        }
    }

    /// Which bytes of a row follow each other from byte `at` of those that count, up to its end.
    pub(crate) fn run_of_row(self, geometry: &Geometry, at: u64) -> Range<usize> {
        // The casts fit: all of it lies inside one row.
        let from = self.stored_at(geometry, at) as usize;
        match self {
            RowKind::Data | RowKind::Parity => from..geometry.row_bytes(),
            RowKind::Payload(bytes) => from..from + (bytes - (at % u64::from(bytes)) as u32) as usize,
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
        let (units, row_bytes) = (self.units(geometry), self.row_bytes(geometry));
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
            RowKind::Data | RowKind::Payload(_) => 0,
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

    fn kinds() -> impl Strategy<Value = RowKind> {
        prop_oneof![Just(RowKind::Data), Just(RowKind::Parity), (1_u32..=7).prop_map(RowKind::Payload)]
    }

    proptest! {
        /// Runs are within one symbol, and the bytes of an object that count follow each other.
        #[test]
        fn runs_of_rows_are_the_first_bytes_of_symbols(
            geometry in geometries(), bytes in 1_u32..=7, at in 0_u64..10_000,
        ) {
            let kind = RowKind::Payload(bytes);
            let at = at % kind.row_bytes(&geometry);
            let run = kind.run_of_row(&geometry, at);
            prop_assert!(!run.is_empty() && run.end <= geometry.row_bytes());
            prop_assert_eq!(run.start / 7, (run.end - 1) / 7);
            prop_assert_eq!((run.end - 1) % 7, bytes as usize - 1);
            let next = at + run.len() as u64;
            prop_assert_eq!(kind.stored_at(&geometry, next), (run.start / 7 + 1) as u64 * 7);
        }

        /// Each byte of the range lies in a wanted row, and each end of the wanted rows holds a
        /// byte of the range.
        #[test]
        fn the_wanted_rows_are_those_that_the_range_touches(
            geometry in geometries(), kind in kinds(), from in any::<u64>(), to in any::<u64>(),
        ) {
            let stripe_bytes = kind.stripe_bytes(&geometry);
            let (from, to) = (from % stripe_bytes, to % stripe_bytes);
            let range = from.min(to)..from.max(to) + 1;
            let mut touched: BTreeMap<usize, Range<usize>> = BTreeMap::new();
            for byte in range.clone() {
                let (position, row) = kind.place(&geometry, byte / kind.row_bytes(&geometry));
                prop_assert_eq!(position < geometry.data_rows(), kind != RowKind::Parity);
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
