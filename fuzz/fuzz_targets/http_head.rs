//! Any bytes are the beginning of a request, a request, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::http_head(bytes));
