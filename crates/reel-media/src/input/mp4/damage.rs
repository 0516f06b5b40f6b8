//! Where the boxes of a file with fragments begin again after damage: after an `mdat` box that is
//! cut off, or a box whose length is damaged.

use crate::{Source, limits};
use std::io;

/// Boxes at the top level of files with fragments. Others are taken for damage, and what follows
/// them is looked for.
pub(super) const KNOWN: [&[u8; 4]; 16] = [
    b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"uuid", b"styp", b"sidx", b"ssix", b"moof",
    b"mfra", b"emsg", b"prft", b"meta", b"udta",
];
/// A box at the top level, and the box that it begins with.
const BEGINNINGS: [(&[u8; 4], &[u8; 4]); 2] = [(b"moof", b"mfhd"), (b"moov", b"mvhd")];
/// Bytes of two headers.
const MARK_BYTES: usize = 16;
/// Bytes of the `ftyp` box of a film: a few brands.
const HEAD_BYTES: std::ops::RangeInclusive<u32> = 16..=256;

/// Offset of the next fragment or film at or after `from`.
pub(super) fn next_box(source: &mut dyn Source, from: u64) -> io::Result<Option<u64>> {
    let mut at = from;
    let mut bytes = Vec::new();
    // Often it is near.
    let mut most = limits::SMALL_READ_BYTES as u64 / 4;
    loop {
        let left = source.bytes().saturating_sub(at).min(most);
        most = (2 * most).min(limits::WINDOW_BYTES as u64);
        if left < MARK_BYTES as u64 {
            return Ok(None);
        }
        bytes.resize(left as usize, 0);
        source.read_at(at, &mut bytes)?;
        if let Some(found) = bytes.windows(MARK_BYTES).position(is_beginning) {
            return Ok(Some(at + found as u64));
        }
        at += left - MARK_BYTES as u64 + 1;
    }
}

fn is_beginning(mark: &[u8]) -> bool {
    let is_head = || HEAD_BYTES.contains(&u32::from_be_bytes([mark[0], mark[1], mark[2], mark[3]]));
    BEGINNINGS.iter().any(|(outer, inner)| mark[4..8] == **outer && mark[12..16] == **inner)
        || (mark[4..8] == *b"ftyp" && is_head())
}
