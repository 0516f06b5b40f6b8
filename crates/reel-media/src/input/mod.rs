//! Input: containers, recognized by their first bytes.

mod blocks;
mod chapters;
mod ending;
mod in_band;
mod joined;
pub(crate) mod metered;
mod mkv;
mod mp4;
mod parameter_sets;
mod sound_headers;
mod spacing;
mod stills;
pub(crate) mod ts;
pub(crate) mod warnings;
pub(crate) mod window;

pub use ending::{Ending, ending};

use crate::{Demux, MediaError, Source};
use metered::{Bounded, Metered};

/// Opens a file, whatever its name: MP4 and MOV, Matroska and WebM, MPEG transport streams.
///
/// # Errors
/// See [`MediaError`]. Damage that the structure of the file shows is reported here, not while
/// reading.
pub fn open(source: Box<dyn Source>) -> Result<Box<dyn Demux>, MediaError> {
    let bytes = source.bytes();
    if bytes == 0 {
        return Err(MediaError::Empty);
    }
    let mut source: Box<dyn Source> = Box::new(Metered::new(source));
    let mut head = vec![0; source.bytes().min(SNIFFED_BYTES) as usize];
    source.read_at(0, &mut head)?;
    let demux = match sniff(&head) {
        Some(Container::Mp4) => mp4::open(source),
        Some(Container::Matroska) => mkv::open(source),
        Some(Container::Ts) => ts::open(source),
        None => Err(MediaError::UnknownContainer(
            hint(&head).map(|is| format!(" (it looks like {is})")).unwrap_or_default(),
        )),
    }?;
    Ok(Box::new(Bounded::new(demux, bytes)))
}

/// The warning of a track that is left out because it is encrypted.
fn encrypted(track: u64, scheme: &str) -> String {
    format!("track {track} is left out: it is encrypted ({scheme})")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Mp4,
    Matroska,
    Ts,
}

/// Enough for a few transport packets, wherever the file begins.
const SNIFFED_BYTES: u64 = 4096;
/// Boxes with which a file of the MP4 family may begin.
const FIRST_BOXES: [&[u8; 4]; 13] = [
    b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"sidx", b"moof", b"junk",
    b"uuid", b"PICT",
];
/// First bytes of files that may be mistaken for films, and what they are.
const OTHERS: [(usize, &[u8], &str); 16] = [
    (8, b"AVI ", "an AVI file"),
    (8, b"WAVE", "a WAV file"),
    (0, b"FLV\x01", "a Flash video"),
    (0, b"OggS", "an Ogg file"),
    (0, b"fLaC", "a FLAC file"),
    (0, b"ID3", "an MP3 file"),
    (0, b"\x30\x26\xb2\x75", "a Windows Media file"),
    (0, b"\0\0\x01\xba", "an MPEG program stream"),
    (0, b"\x06\x0e\x2b\x34", "an MXF file"),
    (0, b".RMF", "a RealMedia file"),
    (0, b"\x89PNG", "a picture"),
    (0, b"\xff\xd8\xff", "a picture"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"Rar!", "a RAR archive"),
    (0, b"%PDF", "a document"),
    (0, b"#EXTM3U", "a playlist: ingest the media file itself"),
];
const SYNC: u8 = 0x47;
/// Transport packets in a row that must begin with the sync byte, if the file is long enough.
const PACKETS_IN_A_ROW: usize = 5;

fn sniff(head: &[u8]) -> Option<Container> {
    if head.get(4..8).is_some_and(|kind| FIRST_BOXES.iter().any(|first| kind == *first)) {
        return Some(Container::Mp4);
    }
    if head.starts_with(b"\x1a\x45\xdf\xa3") {
        return Some(Container::Matroska);
    }
    is_transport_stream(head).then_some(Container::Ts)
}

/// Sync bytes one packet apart: 188 bytes, 192 with a time stamp before each packet, 204 with a
/// checksum after it. Recordings may begin in the middle of a packet.
fn is_transport_stream(head: &[u8]) -> bool {
    [188, 192, 204].into_iter().any(|packet| {
        (0..packet.min(head.len())).any(|start| {
            let mut syncs = head[start..].iter().step_by(packet).take(PACKETS_IN_A_ROW);
            // One sync byte alone may be chance. A short file must at least begin with it and hold
            // whole packets.
            let enough = syncs.len() == PACKETS_IN_A_ROW || (start % packet <= 4 && head.len() >= 2 * packet);
            enough && syncs.all(|byte| *byte == SYNC)
        })
    })
}

fn hint(head: &[u8]) -> Option<&'static str> {
    let found =
        OTHERS.iter().find(|(at, begin, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(begin)));
    if let Some((.., name)) = found {
        return Some(name);
    }
    std::str::from_utf8(head).is_ok_and(|text| !text.contains('\0')).then_some("text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_recognized() {
        assert_eq!(sniff(b"\0\0\0\x18ftypisom"), Some(Container::Mp4));
        assert_eq!(sniff(b"\x1a\x45\xdf\xa3\x01"), Some(Container::Matroska));
        assert_eq!(sniff(b""), None);
        assert_eq!(sniff(&[0; 4096]), None);
        for (packet, lead) in [(188, 0), (192, 4), (188, 100)] {
            let mut bytes = vec![0xff; lead];
            while bytes.len() < 4096 {
                bytes.push(SYNC);
                bytes.resize(bytes.len() + packet - 1, 0x11);
            }
            assert_eq!(sniff(&bytes[..4096]), Some(Container::Ts), "{packet} from {lead}");
            bytes[lead + packet] = 0;
            bytes[lead + 3 * packet] = 0;
            bytes[lead + 7 * packet] = 0;
            assert_ne!(
                sniff(&bytes[..lead + 9 * packet]),
                Some(Container::Ts),
                "{packet} from {lead}, damaged"
            );
        }
    }

    #[test]
    fn others_are_named() {
        assert_eq!(hint(b"RIFF\0\0\0\0AVI LIST"), Some("an AVI file"));
        assert_eq!(hint(b"Dear friend"), Some("text"));
        assert_eq!(hint(&[0xfe; 100]), None);
    }
}
