//! Transport streams stored as they are (form `ts`): cut for RTP, with an index of their time line
//! and of the places where receivers may join. Nothing in a packet is changed. The multiplexer
//! makes such a stream of a title that came in another container.

mod binary;
mod gaps;
mod index;
mod indexer;
mod joins;
mod mux;
mod playlist;
mod reader;
mod timeline;

pub use index::{JoinPoint, StreamIndex, TimePoint};
pub use mux::{Multiplexer, MuxError, MuxStep, WantedFragment, check_carried};
pub use reader::StreamReader;

/// Bytes of a transport packet.
pub const PACKET_BYTES: usize = crate::input::ts::packet::PACKET_BYTES;

/// Transport packets in a symbol, which is the payload of one RTP packet: the most that fit an
/// Ethernet frame, and what receivers expect.
pub const SYMBOL_PACKETS: usize = 7;

/// Bytes of a symbol that are sent.
pub const SYMBOL_PAYLOAD_BYTES: usize = SYMBOL_PACKETS * PACKET_BYTES;

/// Ticks of the time line in a second: those of the programme clock reference (PCR).
pub const TICKS_PER_S: u64 = 27_000_000;

/// A packet without content (PID 0x1FFF), which receivers discard.
pub const NULL_PACKET: [u8; PACKET_BYTES] = {
    let mut packet = [0xff; PACKET_BYTES];
    packet[0] = crate::input::ts::packet::SYNC;
    packet[1] = 0x1f;
    packet[3] = 0x10;
    packet
};
