//! The boxes at the top level of a file: the positions of `moov` and the fragments. Nothing else is
//! read.

use super::atom::{FourCc, malformed};
use super::fragments::Moof;
use crate::{MediaError, Source, limits};
use std::io;

/// Positions in the file.
#[derive(Default)]
pub(super) struct Layout {
    /// Offset and length of the body of the `moov` box.
    pub(super) moov: (u64, u64),
    /// The fragments in file order.
    pub(super) moofs: Vec<Moof>,
    /// Major brand `qt  `, or no `ftyp` box at all as in old QuickTime files.
    pub(super) quicktime: bool,
    /// A warning about bytes after the film.
    pub(super) warning: Option<String>,
    /// Offset of the last box of a file with fragments, if the file ends inside of that box.
    pub(super) cut_at: Option<u64>,
}

/// The head of a box.
pub(super) struct Header {
    pub(super) kind: FourCc,
    start: u64,
    body: u64,
    /// `None`: to the end of the file.
    pub(super) end: Option<u64>,
}

/// A box header with a length of 64 bits (ISO/IEC 14496-12, 4.2.2).
const LONGEST_HEADER_BYTES: u64 = 16;
/// Boxes without which the film is incomplete.
const STRUCTURE: [&[u8; 4]; 3] = [b"moov", b"moof", b"mdat"];

/// A walk over the top level of a file.
#[derive(Default)]
struct TopLevel {
    layout: Layout,
    /// Offset and length of the body of the first `moov` box.
    moov: Option<(u64, u64)>,
    /// The file ends inside of an `mdat` box.
    cut: bool,
}

/// Walks the top level of the file.
pub(super) fn read(source: &mut dyn Source) -> Result<Layout, MediaError> {
    let file_bytes = source.bytes();
    let mut walk = TopLevel::default();
    walk.layout.quicktime = true;
    let mut offset = 0;
    let mut boxes = 0;
    while offset < file_bytes {
        boxes += 1;
        if boxes > limits::MP4_TOP_LEVEL_BOXES {
            let (value, limit) = (boxes as u64, limits::MP4_TOP_LEVEL_BOXES as u64);
            return Err(MediaError::Limit { what: "the number of boxes of the file", value, limit });
        }
        source.work(1)?;
        let Some(header) = header(source, offset)? else {
            walk.end_without_box(offset, file_bytes)?;
            break;
        };
        let end = header.end.unwrap_or(file_bytes);
        if end > file_bytes && walk.end_inside(&header, file_bytes)? {
            break;
        }
        walk.enter(source, &header, end)?;
        offset = end;
    }
    walk.finish(file_bytes)
}

impl TopLevel {
    /// The file continues at `offset`, but no box can begin there.
    fn end_without_box(&mut self, offset: u64, file_bytes: u64) -> Result<(), MediaError> {
        let in_header = file_bytes - offset < LONGEST_HEADER_BYTES;
        if !self.layout.moofs.is_empty() && in_header {
            self.layout.cut_at = Some(offset);
            return Ok(());
        }
        // Padding or another program's bytes may follow a film; before it, they mean damage.
        if self.moov.is_none() {
            return Err(malformed(offset, "no box can begin here"));
        }
        self.layout.warning = Some(format!("the bytes from {offset} on are not MP4 boxes and are skipped"));
        Ok(())
    }

    /// The file ends inside of a box. Returns whether the box is left out.
    fn end_inside(&mut self, header: &Header, file_bytes: u64) -> Result<bool, MediaError> {
        let (offset, kind) = (header.start, header.kind);
        if self.moov.is_some() {
            // The fragments before it are whole or are left out later.
            let fragmented = kind.0 == *b"moof" || !self.layout.moofs.is_empty();
            if fragmented && kind.0 != *b"moov" {
                self.layout.cut_at = Some(offset);
                return Ok(true);
            }
            if !STRUCTURE.contains(&&kind.0) {
                let what = format!("the last box (`{kind}`, at byte {offset}) is cut off");
                self.layout.warning = Some(what);
                return Ok(true);
            }
        }
        if kind.0 != *b"mdat" {
            return Err(MediaError::Truncated { container: "MP4", offset: file_bytes });
        }
        // Missing samples are found when they are looked up.
        self.cut = true;
        Ok(false)
    }

    /// Notes what the box is needed for.
    fn enter(&mut self, source: &mut dyn Source, header: &Header, end: u64) -> Result<(), MediaError> {
        match &header.kind.0 {
            b"ftyp" => self.layout.quicktime = is_quicktime(source, header, end)?,
            b"moov" if self.moov.is_none() => {
                let (value, limit) = (end - header.body, limits::MP4_MOOV_BYTES);
                if value > limit {
                    let what = "the number of bytes of the `moov` box";
                    return Err(MediaError::Limit { what, value, limit });
                }
                self.moov = Some((header.body, value));
            }
            b"moof" => {
                let moof = fragment(header, end, self.layout.moofs.len())?;
                self.layout.moofs.push(moof);
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self, file_bytes: u64) -> Result<Layout, MediaError> {
        match self.moov {
            Some(moov) => self.layout.moov = moov,
            None if self.cut => return Err(MediaError::Truncated { container: "MP4", offset: file_bytes }),
            None => {
                let what = "there is no `moov` box: the recording was never finished, or the end of the file is missing";
                return Err(malformed(file_bytes, what));
            }
        }
        Ok(self.layout)
    }
}

/// The fragment with this header, after `before` others.
fn fragment(header: &Header, end: u64, before: usize) -> Result<Moof, MediaError> {
    let (value, limit) = (end - header.body, limits::MP4_MOOF_BYTES);
    let Some(bytes) = u32::try_from(value).ok().filter(|bytes| u64::from(*bytes) <= limit) else {
        return Err(MediaError::Limit { what: "the number of bytes of a `moof` box", value, limit });
    };
    if before == limits::MP4_FRAGMENTS {
        let limit = limits::MP4_FRAGMENTS as u64;
        return Err(MediaError::Limit { what: "the number of fragments", value: limit + 1, limit });
    }
    Ok(Moof { start: header.start, body: header.body, bytes, tracks: 0 })
}

/// The header of the box at `offset`; `None` if none can begin there.
pub(super) fn header(source: &mut dyn Source, offset: u64) -> Result<Option<Header>, io::Error> {
    let left = source.bytes() - offset;
    let mut head = [0; LONGEST_HEADER_BYTES as usize];
    let length = left.min(LONGEST_HEADER_BYTES) as usize;
    if length < 8 {
        return Ok(None);
    }
    source.read_at(offset, &mut head[..length])?;
    let [s0, s1, s2, s3, k0, k1, k2, k3, large @ ..] = head;
    let kind = FourCc([k0, k1, k2, k3]);
    let (header_bytes, bytes) = match u32::from_be_bytes([s0, s1, s2, s3]) {
        0 if kind.0 == [0; 4] => return Ok(None),
        0 => (8, None),
        1 if length < 16 => return Ok(None),
        1 => (16, Some(u64::from_be_bytes(large))),
        bytes => (8, Some(u64::from(bytes))),
    };
    let end = match bytes {
        Some(bytes) if bytes < header_bytes => return Ok(None),
        Some(bytes) => Some(offset.saturating_add(bytes)),
        None => None,
    };
    Ok(Some(Header { kind, start: offset, body: offset + header_bytes, end }))
}

fn is_quicktime(source: &mut dyn Source, ftyp: &Header, end: u64) -> Result<bool, io::Error> {
    let mut brand = [0; 4];
    if end - ftyp.body < 4 {
        return Ok(false);
    }
    source.read_at(ftyp.body, &mut brand)?;
    Ok(brand == *b"qt  ")
}
