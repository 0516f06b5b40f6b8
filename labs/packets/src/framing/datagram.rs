//! The headers of a packet of a cast over IPv4, built for each packet or patched in a template.

use reel_code::{add_partial_checksums, partial_checksum};
use reel_rtp::HeaderTemplate;
use std::net::SocketAddrV4;

const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const RTP_BYTES: usize = 12;

/// IPv4, UDP and RTP.
pub(crate) const HEADERS_BYTES: usize = IP_BYTES + UDP_BYTES + RTP_BYTES;

const UDP: u8 = 17;
/// Where the checksum of UDP is.
const SUM_AT: usize = IP_BYTES + 6;
/// Where the sequence number and the time stamp of RTP are.
const SEQUENCE_AT: usize = IP_BYTES + UDP_BYTES + 2;
const TIME_AT: usize = SEQUENCE_AT + 2;

/// Who sends to whom.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The sender.
    pub from: SocketAddrV4,
    /// The receiver.
    pub to: SocketAddrV4,
}

impl Flow {
    /// All headers of a packet without the checksum of UDP, each field written.
    fn headers(
        &self,
        ssrc: u32,
        sequence: u16,
        time_stamp: u32,
        payload_bytes: usize,
    ) -> [u8; HEADERS_BYTES] {
        let mut headers = [0; HEADERS_BYTES];
        headers[..HEADERS_BYTES - RTP_BYTES].copy_from_slice(&self.ip_and_udp(payload_bytes + RTP_BYTES));
        let mut rtp = [0; RTP_BYTES];
        HeaderTemplate::mp2t(ssrc).write(sequence, time_stamp, false, &mut rtp);
        headers[IP_BYTES + UDP_BYTES..].copy_from_slice(&rtp);
        headers
    }

    /// The headers of IPv4 and UDP without the checksum of UDP.
    fn ip_and_udp(&self, datagram_bytes: usize) -> [u8; IP_BYTES + UDP_BYTES] {
        let mut headers = [0; IP_BYTES + UDP_BYTES];
        let udp_bytes = (datagram_bytes + UDP_BYTES) as u16;
        headers[0] = 0x45;
        headers[2..4].copy_from_slice(&(udp_bytes + IP_BYTES as u16).to_be_bytes());
        // Never fragmented.
        headers[6] = 0x40;
        headers[8] = 16;
        headers[9] = UDP;
        headers[12..16].copy_from_slice(&self.from.ip().octets());
        headers[16..20].copy_from_slice(&self.to.ip().octets());
        let sum = !partial_checksum(&headers[..IP_BYTES]);
        headers[10..12].copy_from_slice(&sum.to_be_bytes());
        headers[20..22].copy_from_slice(&self.from.port().to_be_bytes());
        headers[22..24].copy_from_slice(&self.to.port().to_be_bytes());
        headers[24..26].copy_from_slice(&udp_bytes.to_be_bytes());
        headers
    }

    /// Headers that are built from their fields. `payload_sum` is the partial checksum of the
    /// payload.
    pub fn build(
        &self,
        ssrc: u32,
        (sequence, time_stamp): (u16, u32),
        payload_bytes: usize,
        payload_sum: u16,
    ) -> [u8; HEADERS_BYTES] {
        let mut headers = self.headers(ssrc, sequence, time_stamp, payload_bytes);
        let sum = add_partial_checksums(sum_of(&headers), payload_sum);
        headers[SUM_AT..SUM_AT + 2].copy_from_slice(&sent(sum));
        headers
    }

    /// A whole packet of IPv4 with any UDP payload and the checksum that belongs to it.
    pub fn datagram(&self, payload: &[u8]) -> Vec<u8> {
        let headers = self.ip_and_udp(payload.len());
        let sum = add_partial_checksums(sum_of(&headers), partial_checksum(payload));
        let mut packet = [&headers, payload].concat();
        packet[SUM_AT..SUM_AT + 2].copy_from_slice(&sent(sum));
        packet
    }
}

/// Headers of a flow in which only a few bytes change from packet to packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    headers: [u8; HEADERS_BYTES],
    /// The sum of what does not change.
    sum: u16,
}

impl Template {
    /// The template of payloads of one length.
    pub(crate) fn new(flow: &Flow, ssrc: u32, payload_bytes: usize) -> Self {
        let headers = flow.headers(ssrc, 0, 0, payload_bytes);
        Self { headers, sum: sum_of(&headers) }
    }

    /// The headers of a packet. `payload_sum` is the partial checksum of the payload, or `None` to
    /// send without a checksum.
    pub(crate) fn patch(
        &self,
        sequence: u16,
        time_stamp: u32,
        payload_sum: Option<u16>,
    ) -> [u8; HEADERS_BYTES] {
        let mut headers = self.headers;
        headers[SEQUENCE_AT..TIME_AT].copy_from_slice(&sequence.to_be_bytes());
        headers[TIME_AT..TIME_AT + 4].copy_from_slice(&time_stamp.to_be_bytes());
        if let Some(payload_sum) = payload_sum {
            let parts = [sequence, (time_stamp >> 16) as u16, time_stamp as u16, payload_sum];
            let sum = parts.into_iter().fold(self.sum, add_partial_checksums);
            headers[SUM_AT..SUM_AT + 2].copy_from_slice(&sent(sum));
        }
        headers
    }
}

/// The sum of the pseudo-header of UDP and of all headers behind that of IPv4.
fn sum_of(headers: &[u8]) -> u16 {
    let length = u16::from_be_bytes([headers[IP_BYTES + 4], headers[IP_BYTES + 5]]);
    let parts = [
        partial_checksum(&headers[12..IP_BYTES]),
        u16::from(UDP),
        length,
        partial_checksum(&headers[IP_BYTES..]),
    ];
    parts.into_iter().fold(0, add_partial_checksums)
}

/// A sum as UDP sends it. Zero would mean that there is none (RFC 768).
fn sent(sum: u16) -> [u8; 2] {
    match !sum {
        0 => [0xff; 2],
        sum => sum.to_be_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_testkit::Rng;

    /// The sum that a receiver makes of a correct packet is all ones.
    fn is_accepted(packet: &[u8]) -> bool {
        let (ip, udp) = packet.split_at(IP_BYTES);
        let pseudo = [&ip[12..20], &[0, UDP], &(udp.len() as u16).to_be_bytes()].concat();
        let sum = add_partial_checksums(partial_checksum(&pseudo), partial_checksum(udp));
        sum == 0xffff && partial_checksum(ip) == 0xffff
    }

    #[test]
    fn built_and_patched_headers_are_equal_and_accepted() {
        let address = |text: &str| text.parse().expect("an address");
        let flow = Flow { from: address("10.1.2.3:5000"), to: address("239.7.1.255:50000") };
        let template = Template::new(&flow, 0xdead_beef, 1316);
        let mut rng = Rng::new(2);
        for number in 0..1000_u32 {
            let payload = rng.bytes(1316);
            let (sequence, time_stamp) = (rng.bits() as u16, rng.bits() as u32);
            let sum = partial_checksum(&payload);
            let built = flow.build(0xdead_beef, (sequence, time_stamp), payload.len(), sum);
            assert_eq!(built, template.patch(sequence, time_stamp, Some(sum)), "packet {number}");
            let mut packet = [&built[..], &payload].concat();
            assert!(is_accepted(&packet), "packet {number}");
            assert_eq!(flow.datagram(&packet[IP_BYTES + UDP_BYTES..]), packet);
            let bit = rng.below(packet.len() as u64 * 8) as usize;
            packet[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_accepted(&packet), "packet {number} with bit {bit} flipped");
        }
        let bare = template.patch(1, 2, None);
        assert_eq!(bare[SUM_AT..SUM_AT + 2], [0, 0]);
    }
}
