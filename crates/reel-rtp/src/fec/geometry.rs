//! The shape of a FEC matrix.

use crate::error::{PacketError, check_range};
use crate::limits::{
    CONFORMING_COLUMNS_MAX, CONFORMING_PACKETS_MAX, CONFORMING_ROWS_MAX, CONFORMING_ROWS_MIN,
    MATRIX_PACKETS_MAX, MATRIX_SIDE_MAX,
};

/// L columns and D rows of media packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    columns: u8,
    rows: u8,
}

impl Geometry {
    /// L columns and D rows.
    ///
    /// # Errors
    /// [`PacketError::Range`] if one of them is 0 or more than 255, or a matrix has more packets
    /// than a receiver keeps.
    pub fn new(columns: u16, rows: u16) -> Result<Self, PacketError> {
        check_range("the number of FEC columns (L)", columns.into(), 1, MATRIX_SIDE_MAX.into())?;
        check_range("the number of FEC rows (D)", rows.into(), 1, MATRIX_SIDE_MAX.into())?;
        let packets = u64::from(columns) * u64::from(rows);
        check_range("the number of packets of a FEC matrix (L x D)", packets, 1, MATRIX_PACKETS_MAX.into())?;
        Ok(Self { columns: columns as u8, rows: rows as u8 })
    }

    /// L: the distance between two packets of a column.
    #[must_use]
    pub fn columns(self) -> u8 {
        self.columns
    }

    /// D: the number of packets of a column.
    #[must_use]
    pub fn rows(self) -> u8 {
        self.rows
    }

    /// L x D, 1024 at most.
    #[must_use]
    pub fn packets(self) -> u16 {
        u16::from(self.columns) * u16::from(self.rows)
    }

    /// Whether ST 2022-1 allows this matrix, so that strict receivers repair with it.
    #[must_use]
    pub fn conforms(self) -> bool {
        u16::from(self.columns) <= CONFORMING_COLUMNS_MAX
            && (CONFORMING_ROWS_MIN..=CONFORMING_ROWS_MAX).contains(&u16::from(self.rows))
            && self.packets() <= CONFORMING_PACKETS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert!(Geometry::new(20, 4).unwrap().conforms() && Geometry::new(5, 20).unwrap().conforms());
        for (columns, rows) in [(32, 4), (20, 6), (20, 3), (21, 4), (4, 21)] {
            assert!(!Geometry::new(columns, rows).unwrap().conforms(), "{columns} x {rows}");
        }
        for (columns, rows) in [(0, 4), (4, 0), (256, 1), (1, 256), (32, 33)] {
            assert!(Geometry::new(columns, rows).is_err(), "{columns} x {rows}");
        }
    }
}
