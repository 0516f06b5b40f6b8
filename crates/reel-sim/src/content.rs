//! What titles hold: a function of title and place, so that every byte can be checked anywhere.

use crate::scale::{ROW_BYTES, UNIT_ROWS};
use reel_code::Code;
use reel_testkit::mix;
use reel_volume::Geometry;
use std::ops::Range;

/// One row of an object.
pub type Row = [u8; ROW_BYTES];

/// The rows of one unit; the rest of its block is spare.
pub type Unit = [u8; ROW_BYTES * UNIT_ROWS];

/// Row `row` of the object that `seed` makes. Rows and words of a row all differ, so a swapped or
/// shifted one is seen.
pub fn row(seed: u64, row: u64) -> Row {
    let base = mix(seed ^ row.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let mut bytes = [0; ROW_BYTES];
    for (word, place) in bytes.chunks_exact_mut(8).enumerate() {
        let spread = (base ^ (word as u64) << 56).wrapping_mul(0x2545_f491_4f6c_dd1d);
        place.copy_from_slice(&(spread ^ spread >> 32).to_le_bytes());
    }
    bytes
}

/// Row `number` of an object of so many bytes; zeros follow its end.
pub fn row_of(seed: u64, bytes: u64, number: u64) -> Row {
    let left = bytes.saturating_sub(number * ROW_BYTES as u64);
    if left == 0 {
        return [0; ROW_BYTES];
    }
    let mut row = row(seed, number);
    if left < ROW_BYTES as u64 {
        row[left as usize..].fill(0);
    }
    row
}

/// The unit at a position of a stripe of an object of so many bytes, parity included.
pub fn unit(
    geometry: &Geometry,
    code: Code,
    (seed, bytes): (u64, u64),
    stripe: u64,
    position: usize,
) -> Unit {
    let mut unit = [0; ROW_BYTES * UNIT_ROWS];
    for (matrix, place) in unit.chunks_exact_mut(ROW_BYTES).enumerate() {
        if position < geometry.data_rows() {
            place.copy_from_slice(&row_of(seed, bytes, row_number(geometry, stripe, matrix, position)));
        } else {
            let data: Vec<Row> = (0..geometry.data_rows())
                .map(|position| row_of(seed, bytes, row_number(geometry, stripe, matrix, position)))
                .collect();
            let data: Vec<&[u8]> = data.iter().map(|row| &row[..]).collect();
            code.encode(&data, &mut [place]);
        }
    }
    unit
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
            let unit = unit(&geometry, Code::Xor, (9, u64::MAX), at.stripe, at.position);
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
    fn zeros_follow_the_end_of_an_object() {
        let geometry = geometry(5, 4).unwrap();
        let bytes = 5 * ROW_BYTES as u64 + 7;
        assert_eq!(row_of(3, bytes, 4), row(3, 4));
        assert_eq!(row_of(3, bytes, 5)[..7], row(3, 5)[..7]);
        assert!(row_of(3, bytes, 5)[7..].iter().chain(&row_of(3, bytes, 6)).all(|byte| *byte == 0));
        let last = unit(&geometry, Code::Xor, (3, bytes), 0, 3);
        assert!(last[ROW_BYTES..].iter().all(|byte| *byte == 0));
    }
}
