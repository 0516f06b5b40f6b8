//! What a response is made of: bytes in memory and ranges of stored objects.

use crate::row_kind::RowKind;
use reel_volume::ObjectMap;
use std::ops::Range;
use std::sync::Arc;

/// One stretch of a body.
#[derive(Clone)]
pub enum Part {
    /// Bytes that the server makes: headers, boxes, playlists.
    Bytes(Arc<[u8]>, Range<usize>),
    /// Bytes of a stored object.
    Object(Arc<ObjectMap>, Range<u64>),
    /// Bytes of a stored object of which so many of each symbol count, from its start on: the range
    /// is of those ([`RowKind::Payload`]).
    Payload(Arc<ObjectMap>, u32, Range<u64>),
    /// Bytes of the parity rows of a stored object, one row for each matrix, in the order of the
    /// matrices: stripe by stripe, and in a stripe matrix by matrix. With M matrices to a stripe,
    /// the row of matrix m of stripe s begins at byte (s * M + m) * [`Geometry::row_bytes`]. All of
    /// them are [`RowKind::object_bytes`] long.
    ///
    /// Parity is not read ahead for clients ([`Prefetcher`](crate::Prefetcher)), and has no front
    /// ([`Audience`](crate::Audience)).
    ///
    /// [`Geometry::row_bytes`]: reel_volume::Geometry::row_bytes
    /// [`RowKind::object_bytes`]: crate::RowKind::object_bytes
    Parity(Arc<ObjectMap>, Range<u64>),
}

/// A whole response body. Clones and slices share its parts: a title of three hours as one file has
/// thousands of them, and a player that seeks requests a new range of it every time.
#[derive(Clone, Default)]
pub struct Body {
    segments: Vec<Segment>,
    bytes: u64,
}

/// A range of a list of parts.
#[derive(Clone)]
struct Segment {
    list: Arc<List>,
    range: Range<u64>,
}

struct List {
    /// The parts in order. None of them is empty.
    parts: Vec<Part>,
    /// Where each part starts.
    starts: Vec<u64>,
}

impl Body {
    /// A body of the given parts, in order.
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Self {
        let mut list = List { parts: Vec::new(), starts: Vec::new() };
        let mut bytes = 0;
        for part in parts.into_iter().filter(|part| part.bytes() > 0) {
            list.starts.push(bytes);
            bytes += part.bytes();
            list.parts.push(part);
        }
        Self::default().with(Segment { list: Arc::new(list), range: 0..bytes })
    }

    /// A body of bytes in memory.
    pub fn text(text: impl Into<Arc<[u8]>>) -> Self {
        let bytes = text.into();
        let whole = 0..bytes.len();
        Self::new([Part::Bytes(bytes, whole)])
    }

    /// This body and `next` after it.
    pub fn then(self, next: Body) -> Body {
        next.segments.into_iter().fold(self, Body::with)
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes `range` of this body as a body of its own. `range` must lie within it.
    pub fn slice(&self, range: Range<u64>) -> Body {
        assert!(range.start <= range.end && range.end <= self.bytes, "the slice is not within its body");
        let mut sliced = Body::default();
        let mut start = 0;
        for segment in &self.segments {
            let end = start + segment.bytes();
            let first = segment.range.start;
            let from = first + (range.start.clamp(start, end) - start);
            let to = first + (range.end.clamp(start, end) - start);
            sliced = sliced.with(Segment { list: Arc::clone(&segment.list), range: from..to });
            start = end;
        }
        sliced
    }

    /// The part that holds byte `offset`, from that byte on; `None` at the end.
    pub fn part_at(&self, offset: u64) -> Option<Part> {
        let mut within = offset;
        for segment in &self.segments {
            if within < segment.bytes() {
                return Some(segment.part_at(within));
            }
            within -= segment.bytes();
        }
        None
    }

    fn with(mut self, segment: Segment) -> Body {
        if segment.bytes() > 0 {
            self.bytes += segment.bytes();
            self.segments.push(segment);
        }
        self
    }
}

impl Segment {
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// `offset` must lie inside the segment.
    fn part_at(&self, offset: u64) -> Part {
        let at = self.range.start + offset;
        let number = self.list.starts.partition_point(|start| *start <= at) - 1;
        let (start, part) = (self.list.starts[number], &self.list.parts[number]);
        part.slice(at - start..part.bytes().min(self.range.end - start))
    }
}

impl Part {
    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Part::Bytes(_, range) => (range.end - range.start) as u64,
            Part::Object(_, range) | Part::Payload(_, _, range) | Part::Parity(_, range) => {
                range.end - range.start
            }
        }
    }

    /// The rows of an object that it is made of, and which of their bytes; `None` if those are in
    /// memory.
    pub fn rows(&self) -> Option<(&Arc<ObjectMap>, RowKind, Range<u64>)> {
        match self {
            Part::Bytes(..) => None,
            Part::Object(map, range) => Some((map, RowKind::Data, range.clone())),
            Part::Payload(map, bytes, range) => Some((map, RowKind::Payload(*bytes), range.clone())),
            Part::Parity(map, range) => Some((map, RowKind::Parity, range.clone())),
        }
    }

    /// The same without parity.
    pub fn data_rows(&self) -> Option<(&Arc<ObjectMap>, RowKind, Range<u64>)> {
        self.rows().filter(|(_, kind, _)| *kind != RowKind::Parity)
    }

    fn slice(&self, within: Range<u64>) -> Part {
        match self {
            Part::Bytes(bytes, range) => {
                // The cast fits: `within` lies inside a range of `usize`.
                let from = range.start + within.start as usize;
                Part::Bytes(Arc::clone(bytes), from..range.start + within.end as usize)
            }
            Part::Object(map, range) => Part::Object(Arc::clone(map), shifted(&within, range.start)),
            Part::Payload(map, bytes, range) => {
                Part::Payload(Arc::clone(map), *bytes, shifted(&within, range.start))
            }
            Part::Parity(map, range) => Part::Parity(Arc::clone(map), shifted(&within, range.start)),
        }
    }
}

fn shifted(range: &Range<u64>, by: u64) -> Range<u64> {
    range.start + by..range.end + by
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &[u8], range: Range<usize>) -> Part {
        Part::Bytes(Arc::from(text), range)
    }

    /// Reads from `offset` on, part by part.
    fn flat(body: &Body, offset: u64) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(part) = body.part_at(offset + all.len() as u64) {
            let Part::Bytes(bytes, range) = part else { unreachable!("these bodies have no objects") };
            assert!(!range.is_empty());
            all.extend_from_slice(&bytes[range]);
        }
        all
    }

    #[test]
    fn a_slice_of_a_body_holds_the_bytes_of_that_range() {
        let first =
            Body::new([part(b"abcdef", 1..5), part(b"", 0..0), part(b"gh", 0..2), part(b"xyz", 2..3)]);
        let body = first.then(Body::default()).then(Body::new([part(b"0123", 1..3), part(b"4", 0..1)]));
        let whole = b"bcdeghz124";
        assert_eq!(body.bytes(), 10);
        for from in 0..=10 {
            assert_eq!(flat(&body, from), &whole[from as usize..]);
            for to in from..=10 {
                let slice = body.slice(from..to);
                assert_eq!(flat(&slice, 0), &whole[from as usize..to as usize]);
                assert_eq!(slice.bytes(), to - from);
                for inner in 0..=to - from {
                    let tail = slice.slice(inner..to - from);
                    assert_eq!(flat(&tail, 0), &whole[(from + inner) as usize..to as usize]);
                }
            }
        }
    }

    #[test]
    fn slices_share_the_parts() {
        let film = Body::new((0..5000).map(|_| part(b"abc", 0..3)));
        let slice = Body::text(&b"head"[..]).then(film.slice(7..14_000));
        assert!(Arc::ptr_eq(&slice.segments[1].list, &film.segments[0].list));
        assert_eq!(slice.segments.len(), 2);
    }
}
