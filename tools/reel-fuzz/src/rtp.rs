//! Any bytes are a packet of a cast or an error, and what is read is written as it was.

use reel_rtp::fec::{FEC_HEADERS_BYTES, FecPacket};
use reel_rtp::rtcp::{Compound, Control};
use reel_rtp::{HEADER_BYTES, HeaderTemplate, Packet};

/// Version 2, without padding, extension and sources.
const PLAIN: u8 = 0x80;

/// Reads the bytes as an RTP packet.
pub fn rtp(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else { return };
    assert!(packet.payload.len() + HEADER_BYTES <= bytes.len() && packet.payload_type < 128);
    if packet.is_plain && packet.payload_type == reel_rtp::MP2T {
        let mut header = [0; HEADER_BYTES];
        let template = HeaderTemplate::mp2t(packet.ssrc);
        template.write(packet.sequence, packet.time_stamp, packet.marker, &mut header);
        assert!([&header[..], packet.payload].concat() == bytes, "a packet is written as it was read");
    }
}

/// Reads the bytes as a compound RTCP packet.
pub fn rtcp(bytes: &[u8]) {
    let Ok(compound) = Compound::parse(bytes) else { return };
    let mut packets = 0;
    for control in compound.packets() {
        packets += 1;
        if let Control::Goodbye(sources) = control {
            assert!(sources.iter().count() <= 31, "five bits count the sources");
        }
    }
    assert!((1..=bytes.len() / 4).contains(&packets), "{packets} packets");
}

/// Reads the bytes as a FEC packet.
pub fn fec(bytes: &[u8]) {
    // The fields with one value: chance would seldom find all of them.
    let mut bytes = bytes.to_vec();
    for (at, value) in [(0, PLAIN), (17, 0), (18, 0), (19, 0), (27, 0)] {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    let Ok(packet) = FecPacket::parse(&bytes) else { return };
    let mut headers = [0; FEC_HEADERS_BYTES];
    packet.header.write(packet.sequence, packet.time_stamp, &mut headers);
    // The source of FEC packets is written as 0, and read from any sender.
    headers[8..HEADER_BYTES].copy_from_slice(&bytes[8..HEADER_BYTES]);
    assert!([&headers[..], packet.parity].concat() == bytes, "a packet is written as it was read");
}
