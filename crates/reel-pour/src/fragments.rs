//! Where viewers may begin in a stream of fragmented MP4 (ISO/IEC 14496-12: boxes, and `moof` for
//! each fragment). Pure.

use crate::limits::HEAD_BYTES_MAX;
use std::sync::Arc;

/// Reads the heads of boxes, and cuts messages where fragments begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    /// The first bytes of a box whose head has not all come.
    held: Vec<u8>,
    /// Bytes of a box that have not come.
    left: u64,
    stage: Stage,
    /// What has come before the first fragment.
    initial: Vec<u8>,
    /// All of it: each viewer needs it.
    head: Option<Arc<[u8]>>,
    has_moov: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Before the first fragment.
    #[default]
    Initial,
    /// Within a fragment.
    Fragment,
    /// In the boxes of a fragment that come before its `moof`.
    Prelude,
    /// It is no fragmented MP4.
    Other,
}

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Arc<[u8]>,
    /// A viewer may begin with it.
    pub(crate) is_start: bool,
    /// What a viewer that begins with it needs before.
    pub(crate) head: Option<Arc<[u8]>>,
}

/// What begins a fragment, or is a part of one before its `moof`.
const BEGINS: [&[u8; 4]; 5] = [b"moof", b"styp", b"sidx", b"prft", b"emsg"];

/// What begins with a box.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Fragment,
    /// Another stream, with fragments of its own.
    Stream,
}

/// What the next bytes say.
enum Head {
    /// A box of this kind and so many bytes.
    Box([u8; 4], u64),
    Incomplete,
    /// No box.
    Wrong,
}

impl Fragments {
    /// Whether streams of a media type are read for fragments.
    pub(crate) fn are_of(content_type: &str) -> bool {
        matches!(content_type.split(';').next(), Some("video/mp4" | "audio/mp4"))
    }

    /// The next bytes of a stream in pieces. Up to 15 of them may be held until more comes.
    pub(crate) fn cut(&mut self, bytes: &[u8]) -> Vec<Piece> {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let (mut pieces, mut from, mut at, mut is_start) = (Vec::new(), 0, 0, false);
        while self.stage != Stage::Other && at < all.len() {
            if self.left > 0 {
                let skipped = self.left.min((all.len() - at) as u64);
                self.left -= skipped;
                at += skipped as usize;
                continue;
            }
            match head(&all[at..]) {
                Head::Incomplete => {
                    self.held = all.split_off(at);
                    break;
                }
                Head::Wrong => self.stage = Stage::Other,
                Head::Box(kind, bytes) => {
                    if let Some(cut) = self.begins(&kind) {
                        self.piece(&mut pieces, &all[from..at], is_start);
                        (from, is_start) = (at, cut == Cut::Fragment);
                        self.enter(&kind, cut);
                    }
                    self.left = bytes;
                }
            }
        }
        self.piece(&mut pieces, &all[from..], is_start);
        pieces
    }

    /// What is held at the end of a stream.
    pub(crate) fn end(&mut self) -> Option<Piece> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then(|| Piece { bytes: held.into(), is_start: false, head: None })
    }

    fn piece(&mut self, pieces: &mut Vec<Piece>, bytes: &[u8], is_start: bool) {
        if self.stage == Stage::Initial {
            self.initial.extend_from_slice(bytes);
            if self.initial.len() > HEAD_BYTES_MAX {
                self.stage = Stage::Other;
            }
        }
        if bytes.is_empty() {
            return;
        }
        let head = self.head.clone().filter(|_| is_start && self.stage != Stage::Other);
        pieces.push(Piece {
            bytes: Arc::from(bytes),
            is_start: is_start || self.stage == Stage::Other,
            head,
        });
    }

    /// A box of a kind comes. Returns what begins with it.
    fn begins(&mut self, kind: &[u8; 4]) -> Option<Cut> {
        let is_part = BEGINS.contains(&kind);
        match self.stage {
            Stage::Initial if is_part && self.has_moov => Some(Cut::Fragment),
            Stage::Initial => {
                self.has_moov |= kind == b"moov";
                // A plain file, which only its beginning makes playable.
                if is_part || kind == b"mdat" {
                    self.stage = Stage::Other;
                }
                None
            }
            Stage::Fragment if is_part => Some(Cut::Fragment),
            Stage::Fragment if kind == b"ftyp" || kind == b"moov" => Some(Cut::Stream),
            Stage::Prelude => {
                self.stage = if is_part && kind != b"moof" { Stage::Prelude } else { Stage::Fragment };
                None
            }
            Stage::Fragment | Stage::Other => None,
        }
    }

    fn enter(&mut self, kind: &[u8; 4], cut: Cut) {
        match cut {
            _ if self.stage == Stage::Other => {}
            Cut::Fragment => {
                if self.stage == Stage::Initial {
                    self.head = Some(std::mem::take(&mut self.initial).into());
                }
                self.stage = if kind == b"moof" { Stage::Fragment } else { Stage::Prelude };
            }
            Cut::Stream => {
                (self.stage, self.has_moov) = (Stage::Initial, kind == b"moov");
            }
        }
    }
}

fn head(bytes: &[u8]) -> Head {
    let Some((&[a, b, c, d, kind @ ..], rest)) = bytes.split_first_chunk::<8>() else {
        return Head::Incomplete;
    };
    let (size, least) = match u32::from_be_bytes([a, b, c, d]) {
        // Up to the end of the stream.
        0 => (u64::MAX, 0),
        1 => match rest.first_chunk::<8>() {
            Some(size) => (u64::from_be_bytes(*size), 16),
            None => return Head::Incomplete,
        },
        size => (u64::from(size), 8),
    };
    match size >= least && kind.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        true => Head::Box(kind, size),
        false => Head::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a_box(kind: &str, content: usize) -> Vec<u8> {
        let size = (8 + content) as u32;
        [&size.to_be_bytes()[..], kind.as_bytes(), &vec![b'x'; content]].concat()
    }

    fn boxes(kinds: &[(&str, usize)]) -> Vec<u8> {
        kinds.iter().flat_map(|(kind, content)| a_box(kind, *content)).collect()
    }

    /// The positions at which a viewer may begin, with what it needs before, if all comes in parts
    /// of so many bytes.
    fn starts(stream: &[u8], part: usize) -> Vec<(usize, Option<Vec<u8>>)> {
        let mut fragments = Fragments::default();
        let mut pieces: Vec<Piece> = stream.chunks(part).flat_map(|part| fragments.cut(part)).collect();
        pieces.extend(fragments.end());
        let (mut starts, mut all) = (Vec::new(), Vec::new());
        for piece in pieces {
            assert!(!piece.bytes.is_empty());
            if piece.is_start {
                starts.push((all.len(), piece.head.map(|head| head.to_vec())));
            }
            all.extend_from_slice(&piece.bytes);
        }
        assert_eq!(all, stream, "nothing is lost or changed");
        starts
    }

    #[test]
    fn viewers_begin_with_fragments() {
        let initial = boxes(&[("ftyp", 12), ("free", 0), ("moov", 300)]);
        let media = [("moof", 50), ("mdat", 1000)];
        let with_prelude = [("styp", 8), ("prft", 20), ("moof", 50), ("mdat", 1000), ("free", 3)];
        let again = boxes(&[("ftyp", 4), ("moov", 100)]);
        let parts =
            [&initial[..], &boxes(&media), &boxes(&with_prelude), &boxes(&media), &again, &boxes(&media)];
        let ends: Vec<usize> =
            (0..parts.len()).map(|end| parts[..end].iter().map(|part| part.len()).sum()).collect();
        let expected = [
            (ends[1], Some(initial.clone())),
            (ends[2], Some(initial.clone())),
            (ends[3], Some(initial.clone())),
            (ends[5], Some(again.clone())),
        ];
        for part in [1, 7, 8, 9, 100, 5000] {
            assert_eq!(starts(&parts.concat(), part), expected, "{part}");
        }
    }

    #[test]
    fn what_is_no_fragmented_file_is_left_as_it_is() {
        let plain = boxes(&[("ftyp", 12), ("moov", 300), ("mdat", 4000)]);
        assert_eq!(starts(&plain, 100).first(), Some(&(300, None)), "with the message of the box");
        assert_eq!(starts(&boxes(&[("moof", 12)]), 100), [(0, None)], "without a movie box");
        assert_eq!(starts(&[0, 0, 0, 7, b'f', b't', b'y', b'p'], 100), [(0, None)], "a box of seven bytes");
        assert_eq!(starts(&[1; 300], 100), [(0, None), (100, None), (200, None)], "no box at all");
        let large = boxes(&[("ftyp", 8), ("moov", HEAD_BYTES_MAX), ("moof", 8)]);
        assert!(starts(&large, 1000).iter().all(|(_, head)| head.is_none()), "too large a beginning");
        let to_the_end =
            [&boxes(&[("ftyp", 8), ("moov", 8), ("moof", 8)])[..], b"\0\0\0\0mdat", &[1; 90]].concat();
        assert_eq!(starts(&to_the_end, 10).len(), 1);
    }

    #[test]
    fn large_sizes_are_read() {
        let size = |bytes: u64| [&[0, 0, 0, 1][..], b"mdat", &bytes.to_be_bytes()].concat();
        let initial = boxes(&[("ftyp", 8), ("moov", 8)]);
        let large =
            [&initial[..], &boxes(&[("moof", 8)]), &size(20), b"abcd", &boxes(&[("moof", 8)])].concat();
        for part in 1..40 {
            let at: Vec<usize> = starts(&large, part).iter().map(|(at, _)| *at).collect();
            assert_eq!(at, [32, 68], "{part}");
        }
        let wrong = [&initial[..], &boxes(&[("moof", 8)]), &size(15), b"abcd"].concat();
        assert_eq!(starts(&wrong, 100).last(), Some(&(32, None)), "shorter than its head");
    }

    proptest! {
        /// Any bytes in any parts: nothing is lost, and no more than a head is held.
        #[test]
        fn any_bytes_are_passed_on(stream in prop::collection::vec(0..4_u8, 0..300), part in 1..50_usize) {
            let mut fragments = Fragments::default();
            let mut all = Vec::new();
            for part in stream.chunks(part) {
                fragments.cut(part).iter().for_each(|piece| all.extend_from_slice(&piece.bytes));
                prop_assert!(fragments.held.len() < 16);
            }
            all.extend(fragments.end().iter().flat_map(|piece| piece.bytes.to_vec()));
            prop_assert_eq!(all, stream);
        }
    }
}
