//! MP4 and QuickTime files.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    // Anything else is for the other targets.
    let boxes = [b"ftyp", b"moov", b"mdat", b"free", b"styp", b"moof", b"wide"];
    if !bytes.get(4..8).is_some_and(|kind| boxes.iter().any(|known| kind == *known)) {
        return Corpus::Reject;
    }
    reel_fuzz::drain(bytes);
    Corpus::Keep
});
