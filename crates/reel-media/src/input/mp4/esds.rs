//! Elementary stream descriptors (ISO/IEC 14496-1, 7.2.6).

use super::atom::{Atom, malformed};
use crate::MediaError;

/// objectTypeIndication values (ISO/IEC 14496-1, table 5).
pub(super) const AAC: u8 = 0x40;
/// MPEG-2 AAC Main.
pub(super) const AAC_MAIN: u8 = 0x66;
/// MPEG-2 AAC Low Complexity.
pub(super) const AAC_LC: u8 = 0x67;
/// MPEG-2 AAC Scalable Sampling Rate.
pub(super) const AAC_SSR: u8 = 0x68;
/// MPEG-2 audio, layers I to III at low rates.
pub(super) const MPEG2_AUDIO: u8 = 0x69;
/// MPEG-1 audio, layers I to III.
pub(super) const MPEG1_AUDIO: u8 = 0x6b;

const ES: u8 = 3;
const DECODER_CONFIG: u8 = 4;
const DECODER_SPECIFIC: u8 = 5;

/// The contents of an `esds` box.
pub(super) struct Stream<'a> {
    /// objectTypeIndication.
    pub(super) object_type: u8,
    /// DecoderSpecificInfo; empty if there is none.
    pub(super) config: &'a [u8],
}

/// Reads an `esds` box.
pub(super) fn parse<'a>(esds: &Atom<'a>) -> Result<Stream<'a>, MediaError> {
    let damaged = || malformed(esds.offset, "the `esds` box is damaged");
    let (_, _, fields) = esds.full()?;
    let es = find(fields.rest(), ES).ok_or_else(damaged)?;
    let (decoder, config) = (|| {
        let flags = *es.get(2)?;
        let mut rest = es.get(3..)?;
        if flags & 0x80 != 0 {
            rest = rest.get(2..)?; // dependsOn_ES_ID
        }
        if flags & 0x40 != 0 {
            rest = rest.get(1 + usize::from(*rest.first()?)..)?; // URL
        }
        if flags & 0x20 != 0 {
            rest = rest.get(2..)?; // OCR_ES_ID
        }
        let decoder = find(rest, DECODER_CONFIG)?;
        Some((decoder, find(decoder.get(13..)?, DECODER_SPECIFIC).unwrap_or_default()))
    })()
    .ok_or_else(damaged)?;
    Ok(Stream { object_type: decoder[0], config })
}

/// The body of the first descriptor with that tag; lengths take one to four bytes of seven bits.
fn find(mut bytes: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        let (tag, mut rest) = bytes.split_first()?;
        let mut length = 0;
        for _ in 0..4 {
            let (byte, tail) = rest.split_first()?;
            rest = tail;
            length = length << 7 | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                break;
            }
        }
        if *tag == wanted {
            // Some writers state a length that is larger than what exists.
            return Some(rest.get(..length).unwrap_or(rest));
        }
        bytes = rest.get(length..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::atom::FourCc;
    use super::*;

    #[test]
    fn long_and_short_lengths() {
        let mut decoder = vec![AAC, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        decoder.extend([DECODER_SPECIFIC, 0x80, 0x80, 0x80, 2, 0x12, 0x10]);
        let mut es = vec![0, 1, 0x40, 2, b'u', b'u', DECODER_CONFIG, decoder.len() as u8];
        es.extend(&decoder);
        let mut body = vec![0, 0, 0, 0, ES, 0x80, es.len() as u8];
        body.extend(&es);
        let stream = parse(&Atom { kind: FourCc(*b"esds"), body: &body, offset: 0 }).expect("a sound box");
        assert_eq!((stream.object_type, stream.config), (AAC, &[0x12, 0x10][..]));
        for cut in 0..20 {
            assert!(
                parse(&Atom { kind: FourCc(*b"esds"), body: &body[..cut], offset: 0 }).is_err(),
                "cut at {cut}"
            );
        }
    }
}
