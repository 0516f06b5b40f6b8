//! Any bytes are a film that goes all the way, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::chain(bytes));
