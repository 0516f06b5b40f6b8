//! What a response is made of: bytes at hand and ranges of stored objects.

use reel_volume::ObjectMap;
use std::ops::Range;
use std::sync::Arc;

/// One stretch of a body.
#[derive(Clone)]
pub enum Part {
    /// Bytes made by the server: headers, boxes, playlists.
    Bytes(Arc<[u8]>, Range<usize>),
    /// Bytes of a stored object.
    Object(Arc<ObjectMap>, Range<u64>),
}

/// A whole response body, in order. Empty parts are left out.
#[derive(Clone, Default)]
pub struct Body {
    parts: Vec<Part>,
    bytes: u64,
}

impl Body {
    /// A body of the given parts.
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Self {
        let mut body = Self::default();
        for part in parts {
            body.push(part);
        }
        body
    }

    /// A body of bytes at hand.
    pub fn text(text: impl Into<Arc<[u8]>>) -> Self {
        let bytes = text.into();
        let whole = 0..bytes.len();
        Self::new([Part::Bytes(bytes, whole)])
    }

    /// Appends a part.
    pub fn push(&mut self, part: Part) {
        let bytes = part.bytes();
        if bytes > 0 {
            self.bytes += bytes;
            self.parts.push(part);
        }
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The parts in order.
    pub fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// The bytes `range` of this body as a body of its own; `range` must lie within it.
    pub fn slice(&self, range: Range<u64>) -> Body {
        assert!(range.start <= range.end && range.end <= self.bytes, "a slice outside of its body");
        let mut sliced = Body::default();
        let mut start = 0;
        for part in &self.parts {
            let end = start + part.bytes();
            let from = range.start.clamp(start, end) - start;
            let to = range.end.clamp(start, end) - start;
            sliced.push(part.slice(from..to));
            start = end;
        }
        sliced
    }
}

impl Part {
    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Part::Bytes(_, range) => (range.end - range.start) as u64,
            Part::Object(_, range) => range.end - range.start,
        }
    }

    fn slice(&self, within: Range<u64>) -> Part {
        match self {
            Part::Bytes(bytes, range) => {
                // Fits: `within` lies inside a range of `usize`.
                let from = range.start + within.start as usize;
                Part::Bytes(Arc::clone(bytes), from..range.start + within.end as usize)
            }
            Part::Object(map, range) => {
                Part::Object(Arc::clone(map), range.start + within.start..range.start + within.end)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(body: &Body) -> Vec<u8> {
        let mut all = Vec::new();
        for part in &body.parts {
            let Part::Bytes(bytes, range) = part else { unreachable!("these bodies have no objects") };
            all.extend_from_slice(&bytes[range.clone()]);
        }
        all
    }

    #[test]
    fn every_slice_is_the_slice_of_the_whole() {
        let part = |text: &[u8], range| Part::Bytes(Arc::from(text), range);
        let body = Body::new([part(b"abcdef", 1..5), part(b"", 0..0), part(b"gh", 0..2), part(b"xyz", 2..3)]);
        let whole = flat(&body);
        assert_eq!(whole, b"bcdeghz");
        for from in 0..=7 {
            for to in from..=7 {
                let slice = body.slice(from..to);
                assert_eq!(flat(&slice), &whole[from as usize..to as usize]);
                assert_eq!(slice.bytes(), to - from);
            }
        }
    }
}
