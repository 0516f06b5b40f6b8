//! Announcements of casts (SAP).
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::sap(bytes));
