//! Supplemental enhancement information of H.264 and HEVC (ITU-T H.264 annex D, H.265 annex D).

use super::h264::take_byte;
use crate::Hdr;

/// Messages of interest are at the start of their unit. Buffering periods and user data are not
/// read further than this.
pub(crate) const SEARCH_BYTES: usize = 4096;
const MASTERING_DISPLAY: usize = 137;
const CONTENT_LIGHT_LEVEL: usize = 144;

/// Types and payloads of the messages of a unit, without its header and emulation prevention bytes.
/// The payload of the last one may be cut off.
pub(crate) fn messages(payload: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        // A message has at least its two bytes; the last byte is the stop bit.
        if rest.len() <= 2 {
            return None;
        }
        let (kind, length) = (number(&mut rest)?, number(&mut rest)?);
        let (message, tail) = rest.split_at(length.min(rest.len()));
        rest = tail;
        Some((kind, message))
    })
}

/// Notes what the messages of a unit state about high dynamic range, unless it is known.
pub(crate) fn read_hdr(payload: &[u8], hdr: &mut Hdr) {
    for (kind, message) in messages(payload) {
        match kind {
            // The same fields in the same order as in the boxes.
            MASTERING_DISPLAY if hdr.mastering.is_none() => {
                hdr.mastering = message.first_chunk().copied();
            }
            CONTENT_LIGHT_LEVEL if hdr.light.is_none() => {
                let word = |two: &[u8]| u16::from_be_bytes([two[0], two[1]]);
                hdr.light = message.first_chunk::<4>().map(|body| (word(body), word(&body[2..])));
            }
            _ => {}
        }
    }
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    loop {
        let byte = take_byte(rest)?;
        number += usize::from(byte);
        if byte != 0xff {
            return Some(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_high_dynamic_range() {
        let mastering: [u8; 24] = std::array::from_fn(|at| at as u8);
        let unit = [&[5, 3, 1, 2, 3, 137, 24][..], &mastering, &[144, 4, 3, 232, 1, 144, 0x80]].concat();
        let mut hdr = Hdr::default();
        read_hdr(&unit, &mut hdr);
        assert_eq!((hdr.mastering, hdr.light), (Some(mastering), Some((1000, 400))));
        // Cut off at every byte; long numbers; nothing.
        for end in 0..unit.len() {
            let mut hdr = Hdr::default();
            read_hdr(&unit[..end], &mut hdr);
            assert_eq!(hdr.mastering.is_some(), end >= 31, "{end}");
        }
        assert_eq!(messages(&[0xff; 4000]).count(), 0);
        assert_eq!(messages(&[0xff, 0, 0xff, 0xff, 7, 9]).next(), Some((255, &[9][..])));
    }
}
