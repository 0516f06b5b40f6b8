//! What titles hold: a function of title and place, so that every byte can be checked anywhere.

use crate::rng::mix;
use crate::scale::{ROW_BYTES, UNIT_ROWS};
use reel_code::{Code, crc32c};
use reel_volume::Geometry;
use std::ops::Range;

/// One row of an object.
pub type Row = [u8; ROW_BYTES];

/// The rows of one unit; the rest of its block is spare.
pub type Unit = [u8; ROW_BYTES * UNIT_ROWS];

/// Row `row` of the object that `seed` makes. Rows and words of a row all differ, so a swapped or shifted one is seen.
pub fn row(seed: u64, row: u64) -> Row {
    let base = mix(seed ^ row.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let mut bytes = [0; ROW_BYTES];
    for (word, place) in bytes.chunks_exact_mut(8).enumerate() {
        let spread = (base ^ (word as u64) << 56).wrapping_mul(0x2545_f491_4f6c_dd1d);
        place.copy_from_slice(&(spread ^ spread >> 32).to_le_bytes());
    }
    bytes
}

/// The unit at a position of a stripe, parity included.
pub fn unit(geometry: &Geometry, code: Code, seed: u64, stripe: u64, position: usize) -> Unit {
    let mut unit = [0; ROW_BYTES * UNIT_ROWS];
    for (matrix, place) in unit.chunks_exact_mut(ROW_BYTES).enumerate() {
        if position < geometry.data_rows() {
            place.copy_from_slice(&row(seed, row_number(geometry, stripe, matrix, position)));
        } else {
            let data: Vec<Row> = (0..geometry.data_rows())
                .map(|position| row(seed, row_number(geometry, stripe, matrix, position)))
                .collect();
            let data: Vec<&[u8]> = data.iter().map(|row| &row[..]).collect();
            code.encode(&data, &mut [place]);
        }
    }
    unit
}

/// The checksums of all rows of an object, in the order stripe, position, matrix.
pub fn sums(geometry: &Geometry, code: Code, seed: u64, stripes: u64) -> Vec<u32> {
    let positions =
        (0..stripes).flat_map(|stripe| (0..geometry.width()).map(move |position| (stripe, position)));
    let units = positions.map(|(stripe, position)| unit(geometry, code, seed, stripe, position));
    units.flat_map(|unit| unit.chunks_exact(ROW_BYTES).map(crc32c).collect::<Vec<u32>>()).collect()
}

/// The first byte of `range` at which `bytes` is not what the object holds.
pub fn first_wrong(seed: u64, range: Range<u64>, bytes: &[u8]) -> Option<u64> {
    let mut at = range.start;
    while at < range.end {
        let number = at / ROW_BYTES as u64;
        let end = ((number + 1) * ROW_BYTES as u64).min(range.end);
        // Fits: both lie inside of one row, or of `bytes`.
        let from = (at % ROW_BYTES as u64) as usize;
        let (start, stop) = ((at - range.start) as usize, (end - range.start) as usize);
        let whole = row(seed, number);
        let should = &whole[from..from + (stop - start)];
        let is = &bytes[start.min(bytes.len())..stop.min(bytes.len())];
        if is != should {
            let same = is.iter().zip(should).take_while(|(is, should)| is == should).count();
            return Some(at + same as u64);
        }
        at = end;
    }
    None
}

/// The number of a row in object order (see [`Geometry::locate`]).
fn row_number(geometry: &Geometry, stripe: u64, matrix: usize, position: usize) -> u64 {
    let data_rows = geometry.data_rows() as u64;
    (stripe * geometry.unit_rows() as u64 + matrix as u64) * data_rows + position as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::geometry;

    #[test]
    fn units_hold_the_rows_that_the_geometry_says() {
        let geometry = geometry(5, 4).unwrap();
        for offset in (0..3 * geometry.stripe_bytes() as u64).step_by(37) {
            let at = geometry.locate(offset);
            let unit = unit(&geometry, Code::Xor, 9, at.stripe, at.position);
            let should = row(9, offset / ROW_BYTES as u64)[at.byte];
            assert_eq!(unit[at.matrix * ROW_BYTES + at.byte], should);
        }
    }

    #[test]
    fn a_wrong_byte_is_found_where_it_is() {
        let mut bytes: Vec<u8> = (0..10).flat_map(|number| row(4, number)).collect();
        assert_eq!(first_wrong(4, 70..500, &bytes[70..500]), None);
        bytes[300] ^= 1;
        assert_eq!(first_wrong(4, 70..500, &bytes[70..500]), Some(300));
        assert_eq!(first_wrong(4, 301..500, &bytes[301..500]), None);
        assert_eq!(first_wrong(4, 0..128, &bytes[..100]), Some(100));
    }

    #[test]
    fn sums_are_those_of_the_rows() {
        let geometry = geometry(5, 4).unwrap();
        let sums = sums(&geometry, Code::Xor, 3, 2);
        assert_eq!(sums.len(), 2 * geometry.stripe_rows());
        let index = geometry.sum_index(1, 2, 3) as usize;
        assert_eq!(sums[index], crc32c(&row(3, row_number(&geometry, 1, 3, 2))));
    }
}
