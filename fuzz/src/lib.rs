//! Shared parts of the fuzz targets: a source in memory, and the guarantees of every demuxer for
//! any bytes.
#![forbid(unsafe_code)]

mod tls;

pub use tls::tls;

use reel_media::{Packet, Source, TrackKind};
use std::io;

/// A file in memory.
pub struct Memory(pub Vec<u8>);

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

/// Opens the bytes and reads them to the end or to an error, watching what is promised on the way.
pub fn drain(bytes: &[u8]) {
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
