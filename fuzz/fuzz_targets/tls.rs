//! Any bytes as what a client of a TLS server sends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::tls(bytes));
