//! Reads a transport stream packet by packet, and makes its index on the way.

use super::PACKET_BYTES;
use super::index::StreamIndex;
use super::indexer::Indexer;
use crate::input::metered::Metered;
use crate::input::ts::choose_programme;
use crate::input::ts::packet::{Packets, SYNC};
use crate::input::warnings::Warnings;
use crate::input::window::Window;
use crate::{MediaError, Source};

/// A transport stream that is read whole: every packet of every programme.
pub struct StreamReader {
    window: Window,
    packets: Packets,
    indexer: Indexer,
    warnings: Warnings,
}

impl StreamReader {
    /// Opens a stream with packets of 188 bytes, also with the arrival times of discs (192) or
    /// checksums (204) between them, and finds the programme whose clock is followed: the one that
    /// [`crate::open()`] plays.
    ///
    /// # Errors
    /// [`MediaError::NotTransportStream`] if it is none, [`MediaError::Malformed`] if it has no
    /// programme tables near its start, or the error of the source.
    pub fn open(source: Box<dyn Source>) -> Result<StreamReader, MediaError> {
        if source.bytes() == 0 {
            return Err(MediaError::Empty);
        }
        let mut window = Window::new(Box::new(Metered::new(source)))?;
        let packets = Packets::find(&mut window)?.ok_or(MediaError::NotTransportStream)?;
        // What it leaves out is not left out here.
        let (map, map_pid) = choose_programme(&mut window, packets.clone(), &mut Warnings::default())?;
        let mut warnings = Warnings::default();
        let cut = packets.start_cut();
        if cut > 0 {
            warnings.add(format!("the first {cut} bytes are left out: the file begins within a packet"));
        }
        Ok(StreamReader { window, packets, indexer: Indexer::new(map, map_pid), warnings })
    }

    /// Appends up to `packets_max` packets to `target`, and returns how many; 0 at the end.
    ///
    /// # Errors
    /// If the file cannot be read, or exceeds a limit.
    pub fn read(&mut self, packets_max: usize, target: &mut Vec<u8>) -> Result<usize, MediaError> {
        for done in 0..packets_max {
            let at = self.packets.position();
            let Some(bytes) = self.packets.next_bytes(&mut self.window)? else {
                self.note_end(at)?;
                return Ok(done);
            };
            if !self.indexer.push(bytes)? {
                self.warnings.once("packet", || {
                    format!("some packets are damaged and stored as they are, the first at byte {at}")
                });
            }
            target.extend_from_slice(&bytes);
        }
        Ok(packets_max)
    }

    /// How far the reading has come, in bytes of the source.
    pub fn position(&self) -> u64 {
        self.packets.position().min(self.window.bytes())
    }

    /// The index, and warnings for the person who ingests, when all packets have been read.
    ///
    /// # Errors
    /// If the stream has no clock from which its rate follows.
    pub fn finish(mut self) -> Result<(StreamIndex, Vec<String>), MediaError> {
        self.packets.report(None, &mut self.warnings);
        let (index, warnings) = self.indexer.finish(self.packets.position())?;
        warnings.into_iter().for_each(|warning| self.warnings.add(warning));
        Ok((index, self.warnings.all().to_vec()))
    }

    /// The packets end at this byte of the file.
    fn note_end(&mut self, at: u64) -> Result<(), MediaError> {
        let rest = self.window.peek(at, PACKET_BYTES)?;
        let (first, bytes) = (rest.first().copied(), rest.len());
        if first == Some(SYNC) && bytes < PACKET_BYTES {
            self.warnings.once("end", || {
                format!("the last {bytes} bytes are left out: the file ends within a packet")
            });
        }
        Ok(())
    }
}
