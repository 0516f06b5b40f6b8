//! Matroska and WebM files.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    // Anything else is for the other targets.
    if !bytes.starts_with(b"\x1a\x45\xdf\xa3") {
        return Corpus::Reject;
    }
    reel_fuzz::drain(bytes);
    Corpus::Keep
});
