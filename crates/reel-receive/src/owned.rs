//! A packet with memory of its own.

use reel_rtp::{MP2T, Packet};

/// A media packet that waits for a decision.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) sequence: u16,
    pub(crate) ssrc: u32,
    time_stamp: u32,
    marker: bool,
    pub(crate) arrival_ns: u64,
    payload: Vec<u8>,
}

impl Owned {
    pub(crate) fn new(packet: &Packet<'_>, arrival_ns: u64) -> Owned {
        Owned {
            sequence: packet.sequence,
            ssrc: packet.ssrc,
            time_stamp: packet.time_stamp,
            marker: packet.marker,
            arrival_ns,
            payload: packet.payload.to_vec(),
        }
    }

    /// The packet as it arrived, without an extension if it had one.
    pub(crate) fn packet(&self) -> Packet<'_> {
        Packet {
            marker: self.marker,
            payload_type: MP2T,
            sequence: self.sequence,
            time_stamp: self.time_stamp,
            ssrc: self.ssrc,
            is_plain: true,
            payload: &self.payload,
        }
    }
}
