//! Demuxers: a source in memory, and what holds for any bytes.

use reel_media::{Packet, Source, TrackKind};
use std::io;

/// Bytes of a packet of a transport stream.
const PACKET_BYTES: usize = 188;

/// A file in memory.
pub(crate) struct Memory(pub(crate) Vec<u8>);

impl Source for Memory {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start.checked_add(target.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(self.0.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Reads bytes that begin as Matroska or WebM. Whether they do.
pub fn demux_mkv(bytes: &[u8]) -> bool {
    let is_mkv = bytes.starts_with(b"\x1a\x45\xdf\xa3");
    if is_mkv {
        demux(bytes);
    }
    is_mkv
}

/// Reads bytes that begin as MP4 or QuickTime. Whether they do.
pub fn demux_mp4(bytes: &[u8]) -> bool {
    let boxes = [b"ftyp", b"moov", b"mdat", b"free", b"styp", b"moof", b"wide"];
    let is_mp4 = bytes.get(4..8).is_some_and(|kind| boxes.iter().any(|known| kind == *known));
    if is_mp4 {
        demux(bytes);
    }
    is_mp4
}

/// Reads bytes as the payloads of an MPEG transport stream. They are given the sync bytes: `demux`
/// tests how those are found.
pub fn demux_ts(bytes: &[u8]) {
    let mut stream = Vec::new();
    for packet in bytes.chunks(PACKET_BYTES) {
        let start = stream.len();
        stream.extend_from_slice(packet);
        stream.resize(start + PACKET_BYTES, 0xff);
        stream[start] = 0x47;
    }
    demux(&stream);
}

/// Opens the bytes and reads them to the end or to an error, watching what is promised on the way.
pub fn demux(bytes: &[u8]) {
    let Ok(mut demux) = reel_media::open(Box::new(Memory(bytes.to_vec()))) else { return };
    assert!(!demux.tracks().is_empty(), "a file without tracks is an error");
    assert!(demux.tracks().iter().all(|track| track.timescale > 0));
    assert!(demux.tracks().iter().all(|track| track.video.is_some() == (track.kind == TrackKind::Video)));
    assert!(demux.tracks().iter().all(|track| track.audio.is_some() == (track.kind == TrackKind::Audio)));
    let mut last: Vec<Option<Packet>> = vec![None; demux.tracks().len()];
    let mut data = Vec::new();
    while let Ok(Some(packet)) = demux.next(&mut data) {
        assert!(demux.position() <= bytes.len() as u64, "progress stays within the file");
        if let Some(before) = last[packet.track].replace(packet) {
            // Cues may lie in the file in any order, and are sorted where they are stored.
            let text = demux.tracks()[packet.track].kind == TrackKind::Subtitle;
            assert!(text || before.sample.dts <= packet.sample.dts, "{packet:?} goes back before {before:?}");
        }
    }
}
