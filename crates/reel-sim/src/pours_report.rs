//! What a run says of poured streams.

use serde::Serialize;
use std::fmt;

/// What programs poured and viewers of it got, in numbers. Bytes are real ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoursReport {
    /// Streams that were begun.
    pub begun: u64,
    /// Streams for whose windows there was no memory.
    pub refused: u64,
    /// Streams for whose rate the processors had no room.
    pub not_admitted: u64,
    /// Streams that their programs ended.
    pub completed: u64,
    /// Streams whose programs died.
    pub died: u64,
    /// Messages that were taken.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Times that a program found its memory full, because it was ahead of its rate.
    pub held_back: u64,
    /// Viewers that were admitted.
    pub viewers: u64,
    /// Viewers for whose rate there was no room.
    pub viewers_refused: u64,
    /// Viewers that left.
    pub left: u64,
    /// Viewers that got the end of a stream.
    pub finished: u64,
    /// Viewers that were cut off because they were too slow.
    pub cut: u64,
    /// Viewers that were cut off because a program died.
    pub broken: u64,
    /// Bytes that viewers got.
    pub sent_bytes: u64,
    /// Bytes that a viewer of a sufficient link got after they were due, before it had caught up
    /// with the stream for the first time.
    pub late_first_bytes: u64,
    /// The same after that. It is a broken promise.
    pub late_bytes: u64,
    /// Memory of all windows, at most.
    pub memory_most_bytes: u64,
}

impl fmt::Display for PoursReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoursReport { begun, refused, not_admitted, completed, died, messages, held_back, .. } = self;
        let PoursReport { viewers, viewers_refused, left, finished, cut, broken, .. } = self;
        let [mb, sent_mb, memory_mb] =
            [self.bytes, self.sent_bytes, self.memory_most_bytes].map(|bytes| bytes as f64 / 1e6);
        write!(
            f,
            "{begun} begun, {refused} refused for memory and {not_admitted} for processors, {completed} completed, {died} died, {messages} messages of {mb:.1} MB, held back {held_back} times; \
             {viewers} viewers, {viewers_refused} refused, {left} left, {finished} finished, {cut} cut, {broken} broken, {sent_mb:.1} MB sent, \
             {} B late at first and {} B after; memory up to {memory_mb:.1} MB",
            self.late_first_bytes, self.late_bytes
        )
    }
}
