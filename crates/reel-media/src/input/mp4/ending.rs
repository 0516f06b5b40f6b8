//! Where the boxes of a file end (ISO/IEC 14496-12, 4.2).

use super::layout::header;
use crate::input::Ending;
use crate::{Source, limits};
use std::io;

/// What was passed on the way.
#[derive(Default)]
struct Passed {
    movie: bool,
    media: bool,
    fragments: bool,
    /// The index of the fragments, which is written at the end.
    fragment_index: bool,
}

/// Walks the top level of the file.
pub(in crate::input) fn ending(source: &mut dyn Source) -> io::Result<Ending> {
    let bytes = source.bytes();
    let mut passed = Passed::default();
    let mut offset = 0;
    for _ in 0..limits::ENDING_PIECES {
        if offset == bytes {
            return Ok(passed.ending());
        }
        // Zeros where a box should begin: what a download has not filled yet, or padding.
        let Some(header) = header(source, offset)? else { return Ok(passed.open_end()) };
        passed.note(&header.kind.0);
        match header.end {
            Some(end) if end > bytes => return Ok(Ending::Cut),
            Some(end) => offset = end,
            // To the end of the file, wherever that is.
            None => return Ok(passed.open_end()),
        }
    }
    Ok(Ending::Unsaid)
}

impl Passed {
    fn note(&mut self, kind: &[u8; 4]) {
        match kind {
            b"moov" => self.movie = true,
            b"mdat" => self.media = true,
            b"moof" => self.fragments = true,
            b"mfra" => self.fragment_index = true,
            _ => {}
        }
    }

    /// The file ends with a box.
    fn ending(&self) -> Ending {
        match self {
            Passed { movie: false, .. } => Ending::Cut,
            // Another fragment may follow.
            Passed { fragments: true, fragment_index: false, .. } | Passed { media: false, .. } => {
                Ending::Unsaid
            }
            _ => Ending::Whole,
        }
    }

    /// Nothing says where the file ends.
    fn open_end(&self) -> Ending {
        if self.movie { Ending::Unsaid } else { Ending::Cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ending;

    struct Bytes(Vec<u8>);

    impl Source for Bytes {
        fn bytes(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
            let from = usize::try_from(offset).unwrap();
            let bytes = self.0.get(from..from + target.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            target.copy_from_slice(bytes);
            Ok(())
        }
    }

    /// Boxes of these kinds, with eight bytes each.
    fn file(kinds: &[&[u8; 4]]) -> Vec<u8> {
        let boxed = |kind: &&[u8; 4]| [&16_u32.to_be_bytes()[..], &kind[..], &[7; 8]].concat();
        kinds.iter().flat_map(boxed).collect()
    }

    fn of(bytes: Vec<u8>) -> Ending {
        ending(&mut Bytes(bytes)).unwrap()
    }

    #[test]
    fn a_film_is_whole_with_its_index_and_its_media() {
        assert_eq!(of(file(&[b"ftyp", b"moov", b"mdat"])), Ending::Whole);
        assert_eq!(of(file(&[b"ftyp", b"free", b"mdat", b"moov"])), Ending::Whole);
        assert_eq!(of(file(&[b"ftyp", b"free", b"mdat"])), Ending::Cut, "the index comes last");
        assert_eq!(of(file(&[b"ftyp", b"moov"])), Ending::Unsaid, "fragments may follow");
    }

    #[test]
    fn fragments_may_follow_until_their_index() {
        assert_eq!(of(file(&[b"ftyp", b"moov", b"moof", b"mdat"])), Ending::Unsaid);
        assert_eq!(of(file(&[b"ftyp", b"moov", b"moof", b"mdat", b"mfra"])), Ending::Whole);
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_not_whole() {
        let whole = file(&[b"ftyp", b"moov", b"mdat"]);
        for bytes in 8..whole.len() {
            assert_ne!(of(whole[..bytes].to_vec()), Ending::Whole, "{bytes}");
        }
        assert_eq!(of(whole[..whole.len() - 1].to_vec()), Ending::Cut);
    }

    #[test]
    fn what_has_no_length_says_nothing() {
        let mut open = file(&[b"ftyp", b"moov", b"mdat"]);
        open[32..36].copy_from_slice(&[0; 4]);
        assert_eq!(of(open), Ending::Unsaid, "up to the end of the file");
        let filled = [file(&[b"ftyp"]), vec![0; 100]].concat();
        assert_eq!(of(filled), Ending::Cut, "a download that took its space first");
        let padded = [file(&[b"ftyp", b"moov", b"mdat"]), vec![0; 100]].concat();
        assert_eq!(of(padded), Ending::Unsaid);
    }
}
