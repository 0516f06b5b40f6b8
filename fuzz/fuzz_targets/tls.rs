//! Any bytes at all as what a client of a TLS server sends: before, within and after a handshake,
//! in any pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::tls(bytes));
