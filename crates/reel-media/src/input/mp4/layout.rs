//! The boxes at the top level of a file: the positions of `moov` and the fragments. Nothing else is
//! read.

use super::atom::{FourCc, malformed};
use super::damage;
use super::fragments::Moof;
use crate::{MediaError, Source, limits};
use std::io;

/// Positions in the file.
#[derive(Default)]
pub(super) struct Layout {
    /// The films in the file, at least one with a `moov` box. More than one are films that were
    /// joined byte by byte, or a `moov` box that was written again.
    pub(super) films: Vec<Film>,
    /// The fragments in file order.
    pub(super) moofs: Vec<Moof>,
    /// Offsets at which the boxes of a file with fragments begin again after damage.
    pub(super) resumed: Vec<u64>,
    /// Major brand `qt  `, or no `ftyp` box at all as in old QuickTime files.
    pub(super) quicktime: bool,
    /// A warning about bytes after the film.
    pub(super) warning: Option<String>,
    /// Offset of the last box of a file with fragments, if the file ends inside of that box.
    pub(super) cut_at: Option<u64>,
}

/// Where a film begins in the file.
pub(super) struct Film {
    /// Offset of its first box.
    pub(super) start: u64,
    /// Offset and length of the body of its `moov` box.
    pub(super) moov: Option<(u64, u64)>,
    /// It begins with a `ftyp` box.
    pub(super) has_head: bool,
    /// It has an `mdat` box.
    pub(super) has_media: bool,
}

/// The head of a box.
pub(super) struct Header {
    pub(super) kind: FourCc,
    pub(super) start: u64,
    pub(super) body: u64,
    /// `None`: to the end of the file.
    pub(super) end: Option<u64>,
}

/// A box header with a length of 64 bits (ISO/IEC 14496-12, 4.2.2).
const LONGEST_HEADER_BYTES: u64 = 16;
/// A box header with a length of 32 bits.
const SHORTEST_HEADER_BYTES: u64 = 8;
/// Boxes without which the film is incomplete.
const STRUCTURE: [&[u8; 4]; 3] = [b"moov", b"moof", b"mdat"];

/// A walk over the top level of a file.
#[derive(Default)]
struct TopLevel {
    layout: Layout,
    /// Offset of a `ftyp` box after which no `moov`, `mdat` or `moof` box has come yet.
    head: Option<u64>,
    /// The file ends inside of an `mdat` box.
    cut: bool,
    /// No fragment begins behind what was searched.
    searched: bool,
}

/// Walks the top level of the file.
pub(super) fn read(source: &mut dyn Source) -> Result<Layout, MediaError> {
    let file_bytes = source.bytes();
    let mut walk = TopLevel::default();
    walk.layout.quicktime = true;
    let mut offset = 0;
    let mut boxes = 0;
    // Where the body of the last known box begins, which may state a wrong length.
    let mut known = 0;
    while offset < file_bytes {
        boxes += 1;
        if boxes > limits::MP4_TOP_LEVEL_BOXES {
            let (value, limit) = (boxes as u64, limits::MP4_TOP_LEVEL_BOXES as u64);
            return Err(MediaError::Limit { what: "the number of boxes of the file", value, limit });
        }
        source.work(1)?;
        let found = header(source, offset)?;
        let is_sound = found.as_ref().is_some_and(|header| header.is_sound(file_bytes));
        if !is_sound && let Some(next) = walk.resume(source, known)? {
            let is_known = |header: &Header| damage::KNOWN.contains(&&header.kind.0) && header.body < next;
            if let Some(header) = found.filter(is_known) {
                walk.enter(source, &header, next)?;
            }
            // The box there may be damaged as well, so what follows it is looked for next.
            (offset, known) = (next, next + SHORTEST_HEADER_BYTES);
            continue;
        }
        let Some(header) = found else {
            walk.end_without_box(offset, file_bytes)?;
            break;
        };
        let end = header.end.unwrap_or(file_bytes);
        known = header.body;
        if end > file_bytes && walk.end_inside(&header, file_bytes)? {
            break;
        }
        walk.enter(source, &header, end)?;
        offset = end;
    }
    walk.finish(file_bytes)
}

impl Header {
    /// Whether the box is one that files have, and ends in the file.
    fn is_sound(&self, file_bytes: u64) -> bool {
        damage::KNOWN.contains(&&self.kind.0) && self.end.is_some_and(|end| end <= file_bytes)
    }
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
        if !self.has_moov() {
            return Err(malformed(offset, "no box can begin here"));
        }
        self.layout.warning = Some(format!("the bytes from {offset} on are not MP4 boxes and are skipped"));
        Ok(())
    }

    /// Where the boxes of a file with fragments begin again after damage. It is looked for from the
    /// body of the last box on, whose length may be wrong.
    fn resume(&mut self, source: &mut dyn Source, from: u64) -> Result<Option<u64>, MediaError> {
        let is_full = self.layout.resumed.len() >= limits::MP4_FRAGMENTS;
        if self.layout.moofs.is_empty() || self.searched || is_full {
            return Ok(None);
        }
        let next = damage::next_box(source, from)?;
        self.searched = next.is_none();
        self.layout.resumed.extend(next);
        Ok(next)
    }

    /// The file ends inside of a box. Returns whether the box is left out.
    fn end_inside(&mut self, header: &Header, file_bytes: u64) -> Result<bool, MediaError> {
        let (offset, kind) = (header.start, header.kind);
        if self.has_moov() {
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
            b"ftyp" => {
                if self.layout.films.is_empty() {
                    self.layout.quicktime = is_quicktime(source, header, end)?;
                }
                self.head = self.head.or(Some(header.start));
            }
            b"moov" => self.index(header, end)?,
            b"mdat" => {
                if self.head.is_some() {
                    self.begin_film(header.start);
                }
                if let Some(film) = self.layout.films.last_mut() {
                    film.has_media = true;
                }
            }
            b"moof" => {
                // Segments of a stream may have a `ftyp` box each.
                if self.has_moov() {
                    self.head = None;
                }
                let mut moof = fragment(header, end, self.layout.moofs.len())?;
                // At most as many as the limit on films.
                moof.film = self.layout.films.len().saturating_sub(1) as u16;
                self.layout.moofs.push(moof);
            }
            _ => {}
        }
        Ok(())
    }

    /// A `moov` box: that of the latest film, or of another one.
    fn index(&mut self, header: &Header, end: u64) -> Result<(), MediaError> {
        let (value, limit) = (end - header.body, limits::MP4_MOOV_BYTES);
        if value > limit && !self.has_moov() {
            let what = "the number of bytes of the `moov` box";
            return Err(MediaError::Limit { what, value, limit });
        }
        let is_open = self.layout.films.last().is_some_and(|film| film.moov.is_none());
        if self.head.is_some() || !is_open {
            self.begin_film(header.start);
        }
        if let Some(film) = self.layout.films.last_mut() {
            film.moov = film.moov.or(Some((header.body, value)));
        }
        Ok(())
    }

    /// Begins another film, with the `ftyp` box before `offset` if there is one.
    fn begin_film(&mut self, offset: u64) {
        let head = self.head.take();
        if self.layout.films.len() < limits::MP4_FILMS {
            let start = head.unwrap_or(offset);
            self.layout.films.push(Film { start, moov: None, has_head: head.is_some(), has_media: false });
        }
    }

    /// Whether the film that is read has its index. It is the first one that has.
    fn has_moov(&self) -> bool {
        self.layout.films.iter().any(|film| film.moov.is_some())
    }

    fn finish(self, file_bytes: u64) -> Result<Layout, MediaError> {
        if self.has_moov() {
            return Ok(self.layout);
        }
        if self.cut {
            return Err(MediaError::Truncated { container: "MP4", offset: file_bytes });
        }
        let what =
            "there is no `moov` box: the recording was never finished, or the end of the file is missing";
        Err(malformed(file_bytes, what))
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
    Ok(Moof { start: header.start, body: header.body, bytes, ..Moof::default() })
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
