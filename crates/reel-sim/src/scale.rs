//! How simulated bytes stand for real ones.
//!
//! Titles, stripes and reads are as many as in reality; only rows are short. A row of 45,056 bytes
//! is one of 64 here, so every byte of an object stands for 704. A unit of 264 KiB is one block of
//! 4096 here, most of it spare, so every byte of a member stands for 66. Devices and prices count
//! real bytes; arena, checksums and parity work on the simulated ones.

use reel_qos::DiskPrice;
use reel_volume::{Geometry, GeometryError, GeometryFields};

/// Real bytes of an object for each simulated one.
pub const OBJECT_SCALE: u64 = 704;

/// Real bytes of a member for each simulated one.
pub const MEMBER_SCALE: u64 = 66;

/// Bytes of a simulated row.
pub const ROW_BYTES: usize = 64;

/// Rows of a unit.
pub const UNIT_ROWS: usize = 6;

/// Bytes of a simulated unit: one block.
pub const UNIT_BYTES: usize = 4096;

/// Bytes of the unit that it stands for.
pub const REAL_UNIT_BYTES: u64 = UNIT_BYTES as u64 * MEMBER_SCALE;

/// The default geometry of `cmaf` titles ([`GeometryFields::cmaf`]) with symbols of 2 bytes in
/// place of 1408.
///
/// # Errors
/// The numbers break a rule of [`Geometry::new`]: no data row, fewer than `data_rows + 1` members,
/// or too many of either.
pub fn geometry(members: usize, data_rows: usize) -> Result<Geometry, GeometryError> {
    Geometry::new(GeometryFields {
        symbol_bytes: 2,
        row_symbols: ROW_BYTES / 2,
        unit_rows: UNIT_ROWS,
        data_rows,
        parity_rows: 1,
        members,
    })
}

/// The price of simulated bytes, given that of real ones.
pub fn simulated_price(real: DiskPrice) -> DiskPrice {
    DiskPrice {
        read_mib_ns: real.read_mib_ns * MEMBER_SCALE,
        write_mib_ns: real.write_mib_ns * MEMBER_SCALE,
        ..real
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scales_are_those_of_the_default_geometry() {
        let real = Geometry::new(GeometryFields::cmaf(5)).unwrap();
        let small = geometry(5, 4).unwrap();
        assert_eq!(small.row_bytes() as u64 * OBJECT_SCALE, real.row_bytes() as u64);
        assert_eq!(small.unit_bytes() as u64 * MEMBER_SCALE, real.unit_bytes() as u64);
        assert_eq!(small.stripe_bytes() as u64 * OBJECT_SCALE, real.stripe_bytes() as u64);
        assert_eq!((small.row_bytes(), small.unit_bytes()), (ROW_BYTES, UNIT_BYTES));
        assert_eq!(REAL_UNIT_BYTES, 270_336);
    }

    #[test]
    fn a_simulated_unit_costs_what_the_real_one_costs() {
        let real = DiskPrice {
            read_request_ns: 5_000,
            read_mib_ns: 1 << 20,
            write_request_ns: 1,
            write_mib_ns: 2 << 20,
            independent_limits: false,
        };
        let small = simulated_price(real);
        assert_eq!(small.read_ns(UNIT_BYTES as u64), real.read_ns(REAL_UNIT_BYTES));
        assert_eq!(small.write_ns(UNIT_BYTES as u64), real.write_ns(REAL_UNIT_BYTES));
    }
}
