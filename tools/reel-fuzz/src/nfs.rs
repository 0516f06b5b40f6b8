//! Any bytes are records, calls and handles of NFS or are refused, and none costs much.

use crate::cost::{Cost, within};
use std::sync::Once;

/// An answer of a server with each kind of listing, and one of a port mapper. The longest is a page
/// of 16 KiB without attributes: 460 names, each of which is made and packed.
const CALL: Cost = Cost { bytes: 256 << 10, bytes_each: 4, pieces: 6000, pieces_each_16: 0 };

/// What is kept of a record is in a vector that grows; those of one byte take most.
const RECORDS: Cost = Cost { bytes: 64, bytes_each: 4, pieces: 16, pieces_each_16: 4 };

/// A handle is made a few times, and what was sent is not copied.
const HANDLE: Cost = Cost { bytes: 512, bytes_each: 0, pieces: 16, pieces_each_16: 0 };

/// Answers a call; [`reel_nfs::fuzz::call`] says how the bytes are read.
pub fn nfs_calls(bytes: &[u8]) {
    prepare();
    within(CALL, bytes, reel_nfs::fuzz::call);
}

/// Reads a handle; [`reel_nfs::fuzz::handle`] says how the bytes are read.
pub fn nfs_handles(bytes: &[u8]) {
    prepare();
    within(HANDLE, bytes, reel_nfs::fuzz::handle);
}

/// Cuts a stream into records; [`reel_nfs::fuzz::records`] says how the bytes are read.
pub fn nfs_records(bytes: &[u8]) {
    within(RECORDS, bytes, reel_nfs::fuzz::records);
}

/// Makes what a server knows before it is asked. That is not the price of a call.
fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        reel_nfs::fuzz::call(&[0]);
        reel_nfs::fuzz::handle(&[0, 0]);
    });
}
