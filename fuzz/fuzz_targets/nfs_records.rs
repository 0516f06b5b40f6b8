//! Records of ONC RPC in a stream.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::nfs_records(bytes));
