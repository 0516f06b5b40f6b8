//! Calls of NFS, MOUNT and the port mapper.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reel_fuzz::nfs_calls(bytes));
