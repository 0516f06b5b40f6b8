//! Sources for tests, and a whole file read through the demuxer.

use reel_media::{MediaError, Packet, Source, Track};
use std::io;

/// A file in memory.
#[derive(Clone)]
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

/// Pieces of bytes far apart, with zeros between them. It stands for files that are too large to
/// make.
pub(crate) struct Sparse {
    pub(crate) pieces: Vec<(u64, Vec<u8>)>,
}

impl Source for Sparse {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(at, piece)| at + piece.len() as u64).max().unwrap_or(0)
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let end = offset + target.len() as u64;
        if end > self.bytes() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        target.fill(0);
        for (at, piece) in &self.pieces {
            let (from, to) = (offset.max(*at), end.min(at + piece.len() as u64));
            if from < to {
                let there = &piece[(from - at) as usize..(to - at) as usize];
                target[(from - offset) as usize..(to - offset) as usize].copy_from_slice(there);
            }
        }
        Ok(())
    }
}

/// Everything that a demuxer returned.
pub(crate) struct Read {
    pub(crate) tracks: Vec<Track>,
    pub(crate) chapters: Vec<(u64, String)>,
    pub(crate) warnings: Vec<String>,
    pub(crate) packets: Vec<(Packet, Vec<u8>)>,
}

impl Read {
    /// The packets of one track.
    pub(crate) fn of(&self, track: usize) -> Vec<&(Packet, Vec<u8>)> {
        self.packets.iter().filter(|(packet, _)| packet.track == track).collect()
    }
}

/// Reads everything.
pub(crate) fn read(source: impl Source + 'static) -> Result<Read, MediaError> {
    let bytes = source.bytes();
    let mut demux = reel_media::open(Box::new(source))?;
    let mut packets = Vec::new();
    let mut data = Vec::new();
    let mut position = demux.position();
    while let Some(packet) = demux.next(&mut data)? {
        assert!(
            demux.position() >= position && demux.position() <= bytes,
            "progress only grows, up to the end"
        );
        position = demux.position();
        packets.push((packet, data.clone()));
    }
    assert_eq!(demux.position(), bytes);
    assert!(demux.next(&mut data)?.is_none(), "the end stays the end");
    let chapters = demux.chapters().iter().map(|chapter| (chapter.start_ns, chapter.name.clone()));
    let (tracks, warnings) = (demux.tracks().to_vec(), demux.warnings().to_vec());
    Ok(Read { tracks, chapters: chapters.collect(), warnings, packets })
}
