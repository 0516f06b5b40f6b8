//! An outlet that is a poured stream: a transport stream is played to all that view it.

use super::datagrams::Queue;
use crate::framing::PAYLOAD_BYTES;
use crate::joins::JoinCounters;
use crate::outlet::SharedOutlet;
use crate::pace::Pace;
use crate::tee::Tee;
use reel_pour::PourWriter;
use reel_pour::limits::POUR_MESSAGE_BYTES_MAX;
use reel_ring::Chunk;
use std::sync::Arc;

/// What is written at once, in units of a datagram: no more than a viewer may hold.
const MESSAGE_DATAGRAMS: usize = POUR_MESSAGE_BYTES_MAX / PAYLOAD_BYTES;

/// The writing end, at the pace of the stream.
pub(super) struct LiveSink {
    writer: PourWriter,
    pace: Pace,
}

/// What became of what waits for the outlet.
enum Written {
    /// So many bytes are in the stream.
    Bytes(usize),
    /// Nothing before this time.
    NotBefore(u64),
    /// Nothing waits.
    Nothing,
}

impl LiveSink {
    /// Packets are written so long before they are due.
    pub(super) fn new(writer: PourWriter, ahead_ns: u64) -> LiveSink {
        LiveSink { writer, pace: Pace::new(ahead_ns) }
    }

    /// Writes all that is to leave now, and counts it. Returns when to look again, if more waits.
    pub(super) fn write_all(
        &mut self,
        (tee, number): (&mut Tee, u64),
        (outlet, counters): (&SharedOutlet, &JoinCounters),
        now_ns: u64,
    ) -> Option<u64> {
        loop {
            match self.write((tee, number), now_ns) {
                Written::Bytes(bytes) => {
                    let late_bytes = tee.sent(number, bytes);
                    outlet.sent(bytes as u64, late_bytes, counters);
                }
                Written::NotBefore(at_ns) => break Some(at_ns),
                Written::Nothing => break None,
            }
        }
    }

    /// Writes what is to leave now, as one message of whole packets.
    fn write(&mut self, (tee, number): (&mut Tee, u64), now_ns: u64) -> Written {
        let Some(queue) = Queue::of(tee, number) else { return Written::Nothing };
        let (count, pace) =
            match self.pace.train(queue.datagrams(queue.ready().min(MESSAGE_DATAGRAMS)), now_ns) {
                Ok(train) => train,
                Err(leaves_ns) => {
                    tee.awaits_pace(number);
                    return Written::NotBefore(leaves_ns);
                }
            };
        if count == 0 {
            tee.awaits_pace(number);
            return Written::Nothing;
        }
        self.pace = pace;
        let bytes = queue.bytes_of(count);
        let mut message = Vec::with_capacity(bytes);
        // The only copy, for all viewers: the memory of the chain is for those of the title.
        for chunk in tee.take(number, bytes) {
            match &chunk {
                Chunk::Lease(lease) => message.extend_from_slice(lease),
                Chunk::Bytes(bytes, range) => message.extend_from_slice(&bytes[range.clone()]),
            }
        }
        self.writer.push_paced(Arc::from(message), now_ns);
        self.writer.tell();
        Written::Bytes(bytes)
    }

    /// All of it was written.
    pub(super) fn complete(self) {
        self.writer.complete();
    }
}
