//! Limits on everything a disk, a configuration or a caller can claim, each with its reason.

/// Alignment of every read and write of a member, and the size of a superblock: the largest logical block
/// of disks in use, so that direct I/O is accepted everywhere.
pub const BLOCK_BYTES: usize = 4096;

/// Members of a volume. Their ids fit the catalogue header's one block, and the set of those in sync one `u128`.
pub const MEMBERS_MAX: usize = 128;

/// Bytes of a symbol: the largest UDP payload is 65,507.
pub const SYMBOL_BYTES_MAX: usize = 65_536;

/// Symbols of a row: far above a useful FEC column height (SMPTE ST 2022-1 allows 20 x 20).
pub const ROW_SYMBOLS_MAX: usize = 4096;

/// Rows of a unit. With [`UNIT_BYTES_MAX`] it bounds the work of one read.
pub const UNIT_ROWS_MAX: usize = 1024;

/// Bytes of a row, at least: its checksum is four bytes, which must stay small beside it so that the sums of
/// sums of an object end after a few steps ([`SUMS_DEPTH_MAX`]).
pub const ROW_BYTES_MIN: usize = 64;

/// Bytes of a unit: one arena buffer, read in one request. A larger one would hold up a disk longer than a
/// scheduler can hide.
pub const UNIT_BYTES_MAX: usize = 16 << 20;

/// Rows of an object, data and parity, whose checksums lie in its catalogue record: two default stripes. An
/// object of one stripe has them there however many they are, so that sums of sums come to an end.
pub const INLINE_SUMS_MAX: usize = 64;

/// How deep sums of sums may go. At the worst ratio (rows of 64 bytes, 1+1) each step divides the bytes by
/// eight, so twelve steps are enough for 2^40 rows.
pub const SUMS_DEPTH_MAX: usize = 12;

/// Bytes of one object: a film of a day at 1.6 Gbit/s. Bounds the sums that are kept in memory for it.
pub const OBJECT_BYTES_MAX: u64 = 1 << 44;

/// Runs of slots one object may be scattered over.
pub const EXTENTS_MAX: usize = 65_536;

/// Objects of a title: tracks of all its renditions, tables, index, artwork.
pub const TITLE_OBJECTS_MAX: usize = 1024;

/// Bytes of a title's id, which is part of URLs.
pub const TITLE_ID_BYTES_MAX: usize = 64;

/// Bytes of a title's name and of its source's file name (255 in Linux file systems; names from Matroska
/// tags may be longer).
pub const NAME_BYTES_MAX: usize = 4096;

/// Titles of a volume. The catalogue is kept in memory whole.
pub const TITLES_MAX: usize = 1_000_000;

/// One catalogue area, at least: about 4,000 titles.
pub const CATALOGUE_BYTES_DEFAULT_MIN: u64 = 4 << 20;

/// One catalogue area, at most, unless asked for: about 250,000 titles.
pub const CATALOGUE_BYTES_DEFAULT_MAX: u64 = 256 << 20;

/// One catalogue area, at least, even when asked for less: header and a few titles.
pub const CATALOGUE_BYTES_MIN: u64 = 64 << 10;

/// One catalogue area, at most, whatever a superblock says: it is read into memory when a volume is opened.
pub const CATALOGUE_BYTES_MAX: u64 = 1 << 30;

/// Bytes of `volume.toml`.
pub const VOLUME_FILE_BYTES_MAX: u64 = 1 << 20;

/// Stripes a reader has in flight: one being used, the others with the disks.
pub const STRIPES_IN_FLIGHT: usize = 4;

/// Stripes that a rebuild or scrub has in hand, of which there is one at a time: a rebuild looks at so many side by side, a scrub at two of which one is read
/// and one is judged, computed and read back. Memory for them is set aside before any is promised to viewers, or a volume without a member would
/// stay so as long as people watch.
pub const UPKEEP_STRIPES: usize = STRIPES_IN_FLIGHT;

/// Stripes a writer has in flight: one being filled, the others with the disks. Eight fill the queue of each member's
/// device; the others wait behind them, so that no queue runs dry while answers come back and the next stripe is made.
/// No member has more of a writer's units waiting than that either: the others would have written what a slow one has not, and its
/// last write would wait for all of them.
pub const WRITER_STRIPES_IN_FLIGHT: usize = 12;

/// Slots a writer reserves in one step, at most, so that several writers side by side still get long runs.
pub const RESERVE_SLOTS_MAX: u64 = 256;

/// What a commit writes is due so long after it is asked for: whoever publishes, removes or replaces waits for all its steps, one after another, and nothing
/// else can change meanwhile. Without a deadline each of them waits behind all who browse. A round: those who begin to watch are due sooner.
pub const COMMIT_STEP_NS: u64 = 1_000_000_000;

/// How long a writer or reader waits for a free arena buffer before it gives up. Long enough for any burst of
/// streams to pass; short enough that a leak shows.
pub const BUFFER_WAIT_MS: u64 = 30_000;

/// Reads of a member that fail one after another until it is taken out. A bad sector fails alone, and the reads of other
/// places succeed in between; eight in a row, from several viewers and places, are a dead disk or a dead cable.
pub const READ_FAILURES_MAX: u32 = 8;

/// Rows read last over which wrong ones are counted: some 180 MB of a default volume, a few seconds of a busy member.
pub const WRONG_ROWS_WINDOW: u64 = 4096;

/// Wrong rows among the last [`WRONG_ROWS_WINDOW`] (1.5 %) until a member is taken out. One bad place read by many is far
/// fewer, since units are shared; a member that lies everywhere is out after eleven units.
pub const WRONG_ROWS_MAX: u64 = 64;

/// Between two looks for a free arena buffer: a disk takes about this long for a unit.
pub const BUFFER_POLL_NS: u64 = 200_000;

/// Between two looks at a lock that somebody holds who waits for disks, where callers take turns: a hundredth of a commit on hard disks.
pub const LOCK_POLL_NS: u64 = 1_000_000;
