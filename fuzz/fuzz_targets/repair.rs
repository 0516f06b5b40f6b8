//! A decoder of FEC, and a network that loses, changes and invents packets.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::repair(bytes));
