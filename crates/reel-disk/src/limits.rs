//! Every bound of this room, with its reason.

use reel_qos::DiskPrice;

/// Offsets and lengths of direct I/O are multiples of this: the logical block of every device in use is 512 or 4096 bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// The smallest unit a disk transfers; a count that is not a multiple of it can only be the end of a file.
pub const SECTOR_BYTES: usize = 512;

/// Between two lines in the log about failures of one member: a dead disk must not fill the disk of the log.
pub const FAILURE_LOG_INTERVAL_NS: u64 = 1_000_000_000;

/// Most requests in the queue of one device. Deep enough that an SSD or a RAID controller stays busy with units of 264 KiB,
/// shallow enough that a request waits at most a few services once it left the scheduler (MARS, table 2: what is in the
/// device's own queue can no longer be ordered).
pub const DEVICE_REQUESTS_MAX: usize = 8;

/// Most bytes in the queue of one device: 4 MiB are a few milliseconds of a fast SSD and 30 of a hard disk.
pub const DEVICE_BYTES_MAX: usize = 4 << 20;

/// Entries of a disk thread's ring: every member it owns may have its bound in flight.
pub const RING_ENTRIES: u32 = 256;

/// Log2 buckets of the service time histogram: from below 1 microsecond to more than 2^30.
pub const SERVICE_BUCKETS: usize = 32;

/// The price of requests to a member of which nothing is known: a slow hard disk's. Whoever has not been measured is promised
/// little, not much.
pub const PRICE_UNKNOWN: DiskPrice = DiskPrice {
    read_request_ns: 15_000_000,
    read_mib_ns: 12_000_000,
    write_request_ns: 15_000_000,
    write_mib_ns: 12_000_000,
};
