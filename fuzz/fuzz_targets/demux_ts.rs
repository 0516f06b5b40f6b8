//! MPEG transport streams.
#![no_main]

use libfuzzer_sys::fuzz_target;

const PACKET_BYTES: usize = 188;

fuzz_target!(|bytes: &[u8]| {
    // Whole packets with their sync bytes: what is inside them is of interest, finding them is for
    // `sniff`.
    let mut stream = Vec::new();
    for packet in bytes.chunks(PACKET_BYTES) {
        let start = stream.len();
        stream.extend_from_slice(packet);
        stream.resize(start + PACKET_BYTES, 0xff);
        stream[start] = 0x47;
    }
    reel_fuzz::drain(&stream);
});
