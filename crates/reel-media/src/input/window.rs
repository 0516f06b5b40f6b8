//! A buffered view of a source: small reads next to each other become one large read.

use crate::limits::WINDOW_BYTES;
use crate::{MediaError, Source};

/// One window of bytes that moves with the reader through the file.
pub(crate) struct Window {
    source: Box<dyn Source>,
    bytes: u64,
    buffer: Vec<u8>,
    start: u64,
}

impl Window {
    /// Takes the source; an empty one is refused.
    pub(crate) fn new(source: Box<dyn Source>) -> Result<Self, MediaError> {
        let bytes = source.bytes();
        if bytes == 0 {
            return Err(MediaError::Empty);
        }
        Ok(Self { source, bytes, buffer: Vec::new(), start: 0 })
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Up to `count` bytes at `offset`: fewer only where the file ends, never more than a window.
    pub(crate) fn peek(&mut self, offset: u64, count: usize) -> Result<&[u8], MediaError> {
        let left = self.bytes.saturating_sub(offset);
        let count = count.min(WINDOW_BYTES).min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 {
            return Ok(&[]);
        }
        if !self.holds(offset, count) {
            let fill = usize::try_from(left.min(WINDOW_BYTES as u64)).unwrap_or(WINDOW_BYTES);
            self.buffer.resize(fill, 0);
            self.start = offset;
            if let Err(error) = self.source.read_at(offset, &mut self.buffer) {
                self.buffer.clear();
                return Err(error.into());
            }
        }
        // The window holds the range now, so the distance fits.
        let from = usize::try_from(offset - self.start).unwrap_or(0);
        Ok(&self.buffer[from..from + count])
    }

    /// Appends `count` bytes at `offset` to `target`; the caller has checked that the file has
    /// them.
    pub(crate) fn append(
        &mut self,
        offset: u64,
        count: usize,
        target: &mut Vec<u8>,
    ) -> Result<(), MediaError> {
        if count <= WINDOW_BYTES / 2 || self.holds(offset, count) {
            let bytes = self.peek(offset, count)?;
            target.extend_from_slice(bytes);
            return Ok(());
        }
        let from = target.len();
        target.resize(from + count, 0);
        self.source.read_at(offset, &mut target[from..])?;
        Ok(())
    }

    /// Fills `target` from `offset`, past the window.
    pub(crate) fn read(&mut self, offset: u64, target: &mut [u8]) -> Result<(), MediaError> {
        Ok(self.source.read_at(offset, target)?)
    }

    fn holds(&self, offset: u64, count: usize) -> bool {
        let end = offset.saturating_add(count as u64);
        offset >= self.start && end <= self.start + self.buffer.len() as u64
    }
}
