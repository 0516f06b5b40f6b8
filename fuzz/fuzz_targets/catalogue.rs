//! Any bytes are a catalogue or an error, and a catalogue is written as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_volume::fuzz_catalogue(bytes));
