//! FEC packets of ST 2022-1.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::fec(bytes));
