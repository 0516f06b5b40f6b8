//! Limits, tuning and configuration of this crate, each with its reason.

// ---- Limits

/// Alignment of every read and write of a member, and the size of a superblock: the largest logical
/// block of disks in use, so that direct I/O is accepted everywhere.
pub const BLOCK_BYTES: usize = 4096;

/// Members of a volume. Their ids fit the one block of the catalogue header, and the set of those
/// in sync fits a `u128`.
pub const MEMBERS_MAX: usize = 128;

/// Bytes of a symbol: the largest UDP payload is 65,507.
pub const SYMBOL_BYTES_MAX: usize = 65_536;

/// Symbols of a row: far above a useful FEC column height (SMPTE ST 2022-1 allows 20 x 20).
pub const ROW_SYMBOLS_MAX: usize = 4096;

/// Rows of a unit. Together with [`UNIT_BYTES_MAX`] it bounds the work of one read.
pub const UNIT_ROWS_MAX: usize = 1024;

/// Bytes of a row, at least. Its checksum has four bytes, which must be small beside the row so
/// that the checksums of checksums of an object end after a few steps ([`SUMS_DEPTH_MAX`]).
pub const ROW_BYTES_MIN: usize = 64;

/// Bytes of a unit: one arena buffer, read in one request. A larger unit would occupy a disk for
/// longer than a scheduler can compensate.
pub const UNIT_BYTES_MAX: usize = 16 << 20;

/// Rows of an object, data and parity, whose checksums are in its catalogue record: two default
/// stripes. For an object of one stripe they are always there, so that checksums of checksums come
/// to an end.
pub const INLINE_SUMS_MAX: usize = 64;

/// How deep checksums of checksums may nest. At the worst ratio (rows of 64 bytes, 1+1) each step
/// divides the bytes by eight, so twelve steps are enough for 2^40 rows.
pub const SUMS_DEPTH_MAX: usize = 12;

/// Bytes of one object: a title of a day at 1.6 Gbit/s. Bounds the checksums that are kept in
/// memory for it.
pub const OBJECT_BYTES_MAX: u64 = 1 << 44;

/// Runs of slots of one object.
pub const EXTENTS_MAX: usize = 65_536;

/// Objects of a title: tracks of all its renditions, tables, index, artwork.
pub const TITLE_OBJECTS_MAX: usize = 1024;

/// Bytes of a title's id, which is part of URLs.
pub const TITLE_ID_BYTES_MAX: usize = 64;

/// Bytes of a title's name and of its source's file name (255 in Linux file systems; names from
/// Matroska tags may be longer).
pub const NAME_BYTES_MAX: usize = 4096;

/// Titles of a volume. The whole catalogue is kept in memory.
pub const TITLES_MAX: usize = 1_000_000;

/// One catalogue area, at least if a size is given: header and a few titles.
pub const CATALOGUE_BYTES_MIN: u64 = 64 << 10;

/// One catalogue area, at most, also in a superblock: it is read into memory when a volume is
/// opened.
pub const CATALOGUE_BYTES_MAX: u64 = 1 << 30;

/// Bytes of `volume.toml`.
pub const VOLUME_FILE_BYTES_MAX: u64 = 1 << 20;

// ---- Tuning

/// A member that has answered nothing to anyone for so long is read around by readers of the
/// library: as for viewers (`STALL_NS` of reel-cache).
pub const READ_STALL_NS: u64 = 250_000_000;

/// A read for which a person waits is read around after this long, even if its member answers
/// others. A read on a busy hard disk takes half of that.
pub const READ_HEDGE_NS: u64 = 1_000_000_000;

/// Stripes that a reader has in flight: one being consumed, the others with the disks.
pub const STRIPES_IN_FLIGHT: usize = 4;

/// Stripes that a rebuild or scrub works on, of which one runs at a time. A rebuild works on this
/// number of stripes side by side. A scrub works on two, of which one is read and one is verified,
/// computed and read back. Memory for them is reserved before any is reserved for clients;
/// otherwise a volume without a member would stay so as long as clients play.
pub const MAINTENANCE_STRIPES: usize = STRIPES_IN_FLIGHT;

/// Stripes that a writer has in flight: one being filled, the others with the disks. Eight fill the
/// queue of each member's device. The others wait behind them, so that no queue runs dry while
/// answers come back and the next stripe is made. No member has more of a writer's units waiting
/// than that either: otherwise the other members would have written what a slow one has not, and
/// its last write would wait for all of them. With four stripes, an ingest had 0.56 to 0.59 of the
/// rate of a plain write, with twelve 0.61 to 0.62 (bench/results/path.json).
pub const WRITER_STRIPES_IN_FLIGHT: usize = 12;

/// Slots that a writer reserves in one step, at most, so that several writers side by side still
/// get long runs.
pub const RESERVE_SLOTS_MAX: u64 = 256;

/// Deadline of each write of a commit, counted from its submission. A caller that publishes,
/// removes or replaces waits for all steps of the commit, one after another, and nothing else can
/// change meanwhile. Without a deadline each step would wait behind all interactive clients. The
/// value is one round; sessions that are starting have earlier deadlines.
pub const COMMIT_STEP_NS: u64 = 1_000_000_000;

/// How long a member that answers no write at all may leave a write or sync unanswered before it is
/// dropped as failed. The kernel resets a link that does not answer for 30 s; a snapshot freezes a
/// file system for a few seconds. A disk that spins up has `WAKE_MAX_NS` of reel-disk.
pub const WRITE_PATIENCE_NS: u64 = 30_000_000_000;

/// How many times as long a write may stay unanswered if its member answers others meanwhile: then
/// there is a long queue, and after this time the write is lost.
pub const WRITE_PATIENCE_MAX: u64 = 4;

/// How much longer than an answer to a write the first look at a disk may take that is to replace a
/// member: its owner record may have to be watched, and samples of a slow disk take seconds.
pub const REPLACE_LOOK_NS: u64 = WATCH_NS + 10_000_000_000;

/// How often a caller that waits for a write looks, within that time, whether the member is out.
pub const WRITE_LOOKS: u64 = 30;

/// Between two times at which idle members are woken. Clients that come together wake them once.
pub const WAKE_EVERY_NS: u64 = 1_000_000_000;

/// How often a caller that waits for members to wake looks at them: less than a person notices.
pub const WAKE_LOOK_NS: u64 = 50_000_000;

/// A member that has not answered for so long when a volume is opened is named in the log. Disks
/// that spin answer in some tens of milliseconds.
pub const SPIN_UP_SHOWN_NS: u64 = 1_000_000_000;

/// How long a rebuild waits at first for writes of the time before its member failed.
pub const OLD_WRITES_WAIT_NS: u64 = 5_000_000_000;

/// Time between two heartbeats of the owner of a volume. Each reads and writes a block of P + 1
/// members in turn.
pub const BEAT_NS: u64 = 1_000_000_000;

/// The tenure of the owner of a volume: how long it may write after it has found its own record.
/// Four beats may fail before writing pauses.
pub const TENURE_NS: u64 = 5 * BEAT_NS;

/// How long another host watches the records of an owner, and finds no change, before it takes the
/// volume over: twice the tenure.
pub const WATCH_NS: u64 = 2 * TENURE_NS;

/// How long a host that has taken a volume over waits before it writes. A tenure that began before
/// has ended by then.
pub const CONFIRM_NS: u64 = TENURE_NS + BEAT_NS;

/// How old the records that a host has read may be when it has written its own. Less than
/// [`CONFIRM_NS`], so that of two hosts that want a volume at once the later one sees the other.
pub const CLAIM_WITHIN_NS: u64 = 3 * BEAT_NS;

/// How long a write waits for a tenure that has ended to be renewed.
pub const TENURE_WAIT_NS: u64 = 30_000_000_000;

/// How long the end of a session is written at most. Without that record another host waits longer.
pub const LAST_BEAT_NS: u64 = BEAT_NS;

/// How long a writer or reader waits for a free arena buffer before it fails. Long enough for any
/// burst of streams to pass; short enough that a leak shows.
pub const BUFFER_WAIT_MS: u64 = 30_000;

/// Reads of a member that must fail in a row until it is taken out. A bad sector fails alone, and
/// reads of other places succeed in between. Eight in a row, from several clients and places, mean
/// a dead disk or a dead cable.
pub const READ_FAILURES_MAX: u32 = 8;

/// Number of last rows over which wrong ones are counted: some 180 MB of a default volume, a few
/// seconds of a busy member.
pub const WRONG_ROWS_WINDOW: u64 = 4096;

/// Wrong rows among the last [`WRONG_ROWS_WINDOW`] (1.5 %) until a member is taken out. One bad
/// place that is read by many clients yields far fewer, since units are shared. A member that
/// returns wrong data everywhere is out after eleven units.
pub const WRONG_ROWS_MAX: u64 = 64;

/// Time between two attempts to get a free arena buffer: about the time that a disk takes for a
/// unit.
pub const BUFFER_POLL_NS: u64 = 200_000;

/// Time between two attempts to get a lock in a simulation, where its holder waits for disks: a
/// hundredth of a commit on hard disks.
pub const LOCK_POLL_NS: u64 = 1_000_000;

/// Bytes at each end of a disk that are looked at in full before it becomes a member. Signatures of
/// file systems, RAIDs and partition tables lie there.
pub const CONTENT_END_BYTES: u64 = 1 << 20;

/// Places in between that are looked at, and bytes of each: three seconds on a hard disk.
pub const CONTENT_SAMPLES: u64 = 256;
/// Bytes of each place.
pub const CONTENT_SAMPLE_BYTES: u64 = 64 << 10;

// ---- Configuration

/// One catalogue area, at least by default: about 4,000 titles.
pub const CATALOGUE_BYTES_DEFAULT_MIN: u64 = 4 << 20;

/// One catalogue area, at most by default: about 250,000 titles.
pub const CATALOGUE_BYTES_DEFAULT_MAX: u64 = 256 << 20;
