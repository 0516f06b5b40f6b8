//! How nearly what is served must be what is decoded from the source.

use crate::{CompareError, Form};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

/// How nearly sound must be that of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Samples that may be missing or added at the beginning.
    pub start_samples: usize,
    /// Samples that may be missing or added at the end.
    pub end_samples: usize,
    /// How early or late sound may be, in microseconds.
    pub sync_us: i64,
}

/// Pictures and sound may be rounded to the clock of a container.
pub(crate) const ROUNDING_US: i64 = 1_000;
/// Pictures that begin later than this after the sound are late: the first is shown from the start
/// of the title.
pub(crate) const LATE_US: i64 = 200_000;
/// How inaccurate that start may be: the sound of decoders begins before it.
pub(crate) const START_US: i64 = 50_000;
/// Where the sound is so much longer than the pictures, a picture is repeated at the end.
pub(crate) const EARLY_END_US: i64 = 5_000_000;
/// Samples of the longest unit of silence that stands in where sound is missing.
pub(crate) const SILENCE_SAMPLES: usize = 4608;
/// Samples of Opus until it does not matter any more where a decoder began: a fifth of a second. A
/// frame states loudness as a difference from the one before.
pub(crate) const CONVERGING_SAMPLES: usize = 9600;
/// Boxes of a file that are looked at for the first fragment.
const BOXES_MAX: usize = 64;

impl Bounds {
    /// Every sample, at its time.
    pub const EXACT: Bounds = Bounds { start_samples: 0, end_samples: 0, sync_us: ROUNDING_US };
    /// Matroska says to a sample where sound ends (DiscardPadding). MP4 says it too, but ffmpeg
    /// decodes the whole of the last packet, of 20 ms for Opus. Matroska rounds the times of
    /// pictures and of sound, each by itself.
    pub const OF_MATROSKA: Bounds = Bounds { end_samples: 960, sync_us: 2 * ROUNDING_US, ..Bounds::EXACT };
    /// ffmpeg knows no edit list of fragments: it shows the warm-up of a decoder with times before
    /// zero, and the whole of the last block. A gap is filled with whole units of silence, so what
    /// is behind it is up to half a unit early or late.
    pub const FRAGMENTS: Bounds = Bounds { start_samples: 4096, end_samples: 4096, sync_us: 40_000 };

    /// For a source as it is served in a form.
    ///
    /// # Errors
    ///
    /// The source cannot be read.
    pub fn of(source: &Path, form: Form) -> Result<Bounds, CompareError> {
        if form != Form::Progressive || is_fragmented(&mut BufReader::new(File::open(source)?))? {
            return Ok(Bounds::FRAGMENTS);
        }
        let is_matroska = source.extension().is_some_and(|it| it == "mkv" || it == "webm");
        Ok(if is_matroska { Bounds::OF_MATROSKA } else { Bounds::EXACT })
    }
}

/// Whether one of the first boxes of a file is a fragment.
fn is_fragmented(file: &mut (impl Read + Seek)) -> std::io::Result<bool> {
    for _ in 0..BOXES_MAX {
        let mut head = [0; 8];
        if file.read_exact(&mut head).is_err() {
            break;
        }
        if &head[4..] == b"moof" {
            return Ok(true);
        }
        let [a, b, c, d, ..] = head;
        // A box of 64 bits or to the end of the file is the last that is looked at.
        let bytes = u32::from_be_bytes([a, b, c, d]);
        if bytes < 8 {
            break;
        }
        file.seek_relative(i64::from(bytes) - 8)?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn fragments_are_found_among_the_first_boxes() {
        let is = |bytes: &[u8]| is_fragmented(&mut Cursor::new(bytes.to_vec())).unwrap();
        let ftyp = b"\0\0\0\x0cftypisom";
        assert!(is(&[&ftyp[..], b"\0\0\0\x08moof"].concat()));
        assert!(!is(&[&ftyp[..], b"\0\0\0\x08mdat"].concat()));
        assert!(!is(b"\x1a\x45\xdf\xa3\x9fB\x86\x81"));
        assert!(!is(b"\0\0\0\0moovmoof") && !is(b""));
    }
}
