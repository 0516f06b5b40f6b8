//! One body on its way to one port: which packets are due when.
//!
//! ```text
//!   media   | matrix 0 . . . . | matrix 1 . . . . | matrix 2 . . . . |
//!   FEC                        | columns of 0     | columns of 1     | columns of 2
//! ```
//! Media and FEC have a delivery each, of one session, and read the same stripes together.

use crate::limits::{CAST_TOGETHER_NS, CAST_TRAIN_NS};
use crate::numbering::{Numbering, sent_with};
use crate::symbols::{Symbols, whole_symbols};
use reel_play::{DeliveryId, Engine, Playable, Readiness};
use reel_rtp::HEADER_BYTES;
use reel_rtp::fec::{FEC_HEADERS_BYTES, Geometry};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

/// Packets of one port, in order.
pub(crate) struct Piece {
    /// The delivery that reads their payloads.
    pub(crate) delivery: DeliveryId,
    /// The channel of the cast that they belong to.
    pub(crate) channel: usize,
    pub(crate) port: Port,
    numbering: Arc<Numbering>,
    /// What the times of its clock count from.
    start_ns: u64,
    /// The next packet, and the end.
    next: u64,
    end: u64,
}

/// A train that is due, of which these packets are in memory.
pub(crate) struct Due {
    pub(crate) symbols: Symbols,
    pub(crate) packets: Range<u64>,
    /// When the first one was due, and its time stamp.
    pub(crate) due_ns: u64,
    pub(crate) stamp: u32,
}

/// What a port carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Media,
    /// FEC packets of this matrix.
    Fec(Geometry),
}

impl Piece {
    pub(crate) fn new(
        delivery: DeliveryId,
        (channel, port): (usize, Port),
        numbering: Arc<Numbering>,
        start_ns: u64,
        packets: Range<u64>,
    ) -> Piece {
        Piece { delivery, channel, port, numbering, start_ns, next: packets.start, end: packets.end }
    }

    /// Whether all of it was sent.
    pub(crate) fn is_done(&self) -> bool {
        self.next >= self.end
    }

    /// Its next packet.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// It ends after so many packets.
    pub(crate) fn end_at(&mut self, packets: u64) {
        self.end = self.end.min(packets);
    }

    /// These packets have left.
    fn sent(&mut self, packets: u64) {
        self.next += packets;
    }

    /// When its next packet is due; `None` if there is none.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        (!self.is_done()).then(|| self.due_of(self.next))
    }

    /// The packets that go as one train, the first of which is due now or within
    /// [`CAST_TOGETHER_NS`]; at most so many.
    pub(crate) fn train(&self, now_ns: u64, most: NonZeroU64) -> Option<Range<u64>> {
        let due_ns = self.due_ns().filter(|due_ns| *due_ns <= now_ns + CAST_TOGETHER_NS)?;
        let until_ns = due_ns.max(now_ns) + CAST_TRAIN_NS;
        let last = self.end.min(self.next.saturating_add(most.get()));
        let mut end = self.next + 1;
        while end < last && self.due_of(end) < until_ns {
            end += 1;
        }
        Some(self.next..end)
    }

    /// Takes the next train that is due, as far as it is in memory. Also has what follows read.
    pub(crate) fn take_due<T: Playable>(
        &mut self,
        engine: &mut Engine<T>,
        symbol_bytes: usize,
        most: NonZeroU64,
        now_ns: u64,
    ) -> Option<Due> {
        let readiness = engine.fill(self.delivery, now_ns);
        let due = self.train(now_ns, most)?;
        if readiness != Some(Readiness::Ready) {
            return None;
        }
        let chunks = engine.chunks(self.delivery);
        let symbols = whole_symbols(chunks, symbol_bytes, due.end - due.start)?;
        let packets = self.next..self.next + symbols.count;
        engine.taken(self.delivery, symbols.count * symbol_bytes as u64, now_ns);
        let (due_ns, stamp) = self.due_and_stamp(packets.start);
        self.sent(symbols.count);
        Some(Due { symbols, packets, due_ns, stamp })
    }

    /// When a packet is due, and the time stamp of that moment.
    fn due_and_stamp(&self, packet: u64) -> (u64, u32) {
        (self.due_of(packet), self.numbering.stamp(self.symbol_of(packet)))
    }

    /// The headers of some packets, and the bytes of each.
    pub(crate) fn headers(&self, packets: Range<u64>) -> (Arc<[u8]>, usize) {
        match self.port {
            Port::Media => (self.numbering.media_headers(packets), HEADER_BYTES),
            Port::Fec(geometry) => (self.numbering.fec_headers(geometry, packets), FEC_HEADERS_BYTES),
        }
    }

    fn due_of(&self, packet: u64) -> u64 {
        self.start_ns.saturating_add(self.numbering.clock().due_ns(self.symbol_of(packet)))
    }

    /// The symbol with which a packet is sent.
    fn symbol_of(&self, packet: u64) -> u64 {
        match self.port {
            Port::Media => packet,
            Port::Fec(geometry) => sent_with(geometry, packet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbering::{Clock, Numbers, Source};

    const MS: u64 = 1_000_000;

    /// So many packets from `start_ns` on, one each `every_ns`.
    fn piece(start_ns: u64, count: u64, every_ns: u64) -> Piece {
        let clock = Clock::Slot { duration_ns: count * every_ns, symbols: count };
        let numbering = Arc::new(Source::new(1, 0).numbering(clock, 0, Numbers::default(), 0));
        Piece::new(DeliveryId::default(), (0, Port::Media), numbering, start_ns, 0..count)
    }

    fn most(packets: u64) -> NonZeroU64 {
        NonZeroU64::new(packets).expect("more than none")
    }

    #[test]
    fn a_train_is_what_is_due_within_10_ms_and_no_more_than_so_many() {
        let mut slow = piece(50 * MS, 1000, 2 * MS);
        assert_eq!(slow.train(50 * MS, most(40)), Some(0..5));
        slow.sent(5);
        assert_eq!(slow.due_ns(), Some(60 * MS));
        assert_eq!(slow.train(70 * MS, most(40)), Some(5..15), "a late train has what is due now, too");
        let mut fast = piece(50 * MS, 1000, MS / 10);
        assert_eq!(fast.train(50 * MS, most(40)), Some(0..40));
        fast.sent(990);
        assert_eq!(fast.train(200 * MS, most(40)), Some(990..1000), "up to its end");
        fast.sent(10);
        assert_eq!(fast.train(200 * MS, most(40)), None);
    }

    #[test]
    fn what_is_due_within_a_millisecond_leaves_with_what_is_due() {
        let piece = piece(50 * MS, 1000, 2 * MS);
        assert_eq!(piece.train(49 * MS - 1, most(40)), None);
        assert_eq!(piece.train(49 * MS, most(40)), Some(0..5), "10 ms from when it is due");
    }
}
