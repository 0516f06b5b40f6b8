//! Matroska and WebM files.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

// Anything else is for the other targets.
fuzz_target!(|bytes: &[u8]| -> Corpus {
    if reel_fuzz::demux_mkv(bytes) { Corpus::Keep } else { Corpus::Reject }
});
