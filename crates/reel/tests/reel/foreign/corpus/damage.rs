//! Changes of the bytes of films. Those of transport streams know the size of a packet: 188 bytes,
//! or 192 with the time of arrival before it.

use reel_testkit::Rng;

/// The first byte of the packet itself in `packet`.
fn lead(packet: usize) -> usize {
    packet - 188
}

fn pid(packet: &[u8]) -> u16 {
    let at = lead(packet.len());
    u16::from_be_bytes([packet[at + 1] & 0x1f, packet[at + 2]])
}

/// The PIDs of ffmpeg's first streams; in files of discs, those that discs have.
fn is_media(packet: &[u8]) -> bool {
    match packet.len() {
        188 => (0x100..0x110).contains(&pid(packet)),
        _ => [0x1011, 0x1100].contains(&pid(packet)),
    }
}

/// As written by encoders that do not count.
pub(crate) fn standing_counters(mut bytes: Vec<u8>, packet: usize) -> Vec<u8> {
    bytes.chunks_exact_mut(packet).for_each(|packet| packet[lead(packet.len()) + 3] &= 0xf0);
    bytes
}

/// Every packet twice, as the standard allows.
pub(crate) fn copied_packets(bytes: Vec<u8>, packet: usize) -> Vec<u8> {
    bytes.chunks_exact(packet).flat_map(|packet| [packet, packet].concat()).collect()
}

/// Bytes of something else between two packets.
pub(crate) fn garbage(mut bytes: Vec<u8>, packet: usize, rng: &mut Rng) -> Vec<u8> {
    let packets = (bytes.len() / packet) as u64;
    let at = rng.range(packets / 3, packets) as usize * packet;
    let length = rng.range(1, 2000) as usize;
    // Without the byte with which packets begin.
    let junk = rng.bytes(length).into_iter().map(|byte| if byte == 0x47 { 0 } else { byte });
    bytes.splice(at..at, junk);
    bytes
}

/// Without three packets of pictures or sound, behind the first third.
pub(crate) fn lost_packets(bytes: Vec<u8>, packet: usize, rng: &mut Rng) -> Vec<u8> {
    let all: Vec<&[u8]> = bytes.chunks_exact(packet).collect();
    let media: Vec<usize> = (all.len() / 3..all.len()).filter(|at| is_media(all[*at])).collect();
    let lost: Vec<usize> = (0..3).map(|_| *rng.pick(&media)).collect();
    let kept = all.iter().enumerate().filter(|(at, _)| !lost.contains(at));
    kept.flat_map(|(_, packet)| packet.to_vec()).collect()
}

/// Without up to a third of its beginning, cut at any byte.
pub(crate) fn without_beginning(bytes: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    bytes[rng.range(1, bytes.len() as u64 / 3) as usize..].to_vec()
}

/// Without up to half of its end, cut at any byte.
pub(crate) fn without_end(mut bytes: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    let length = bytes.len() as u64;
    bytes.truncate(rng.range(length / 2, length) as usize);
    bytes
}
