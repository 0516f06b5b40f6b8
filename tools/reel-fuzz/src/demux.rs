//! Demuxers: a source in memory, and what holds for any bytes.

use reel_media::transport::{StreamIndex, StreamReader};
use reel_media::{Cover, Packet, Sample, Source, TrackKind};
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
    store(&stream);
}

/// Reads the bytes as a transport stream that is stored as it is. Its index can be stored, or
/// exceeds a limit.
fn store(bytes: &[u8]) {
    let Ok(mut reader) = StreamReader::open(Box::new(Memory(bytes.to_vec()))) else { return };
    let mut packets = Vec::new();
    while reader.read(7, &mut packets).expect("memory can be read") > 0 {
        assert!(reader.position() <= bytes.len() as u64, "progress stays within the file");
    }
    assert!(packets == bytes, "every packet is kept");
    let Ok((index, _)) = reader.finish() else { return };
    assert_eq!(index.bytes(), bytes.len() as u64);
    if let Ok(encoded) = index.encode() {
        assert_eq!(StreamIndex::decode(&encoded).expect("what was encoded"), index);
        assert!(index.peak_bps() >= index.mean_bps());
        let last = index.packets - 1;
        assert!(index.ticks_at(last) <= index.duration_ticks() && index.packet_at(u64::MAX) == last);
    }
}

/// Opens the bytes and reads them to the end or to an error, watching what is promised on the way.
pub fn demux(bytes: &[u8]) {
    let Ok(mut demux) = reel_media::open(Box::new(Memory(bytes.to_vec()))) else { return };
    assert!(!demux.tracks().is_empty(), "a file without tracks is an error");
    assert!(demux.tracks().iter().all(|track| track.timescale > 0));
    assert!(demux.tracks().iter().all(|track| track.video.is_some() == (track.kind == TrackKind::Video)));
    assert!(demux.tracks().iter().all(|track| track.audio.is_some() == (track.kind == TrackKind::Audio)));
    assert!(demux.chapters().is_sorted_by_key(|chapter| chapter.start_ns), "chapters come by start");
    if let Ok(Some(Cover::Picture { bytes: cover, .. })) = demux.cover() {
        assert!(cover.len() <= bytes.len(), "a cover is part of the file");
    }
    let mut last: Vec<Option<Sample>> = vec![None; demux.tracks().len()];
    let mut data = Vec::new();
    let mut given = 0;
    while let Ok(Some(packet)) = demux.next(&mut data) {
        assert!(demux.position() <= bytes.len() as u64, "progress stays within the file");
        given += data.len();
        assert!(given <= 2 * bytes.len() + (1 << 20), "no file is multiplied");
        let Packet { track, sample, .. } = packet;
        if let Some(before) = last[track].replace(sample) {
            // Cues may lie in the file in any order, and are sorted where they are stored.
            let text = demux.tracks()[track].kind == TrackKind::Subtitle;
            assert!(text || before.dts <= sample.dts, "{sample:?} goes back before {before:?}");
        }
    }
}
