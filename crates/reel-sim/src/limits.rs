//! Tuning of the simulator: each constant with its reason.

// ---- Tuning

/// A segment of pictures: what players ask for at once. Four seconds is what most packagers make.
pub const MOVING_SEGMENT_NS: u64 = 4_000_000_000;

/// Lengths of segments of sound: whole frames of AAC next to four seconds, as long as those of
/// pictures, and the six seconds of Apple's authoring specification.
pub const SOUND_SEGMENTS_NS: [u64; 3] = [3_840_000_000, MOVING_SEGMENT_NS, 6_000_000_000];

/// The most that a player buffers: the default of hls.js.
pub const BUFFER_NS: u64 = 30_000_000_000;

/// The same for a small player: two segments.
pub const BUFFER_LEAST_NS: u64 = 8_000_000_000;

/// The step of a player's button for a short skip.
pub const SKIP_NS: u64 = 10_000_000_000;

/// A request that is served later than this after it came, and after its deadline, was starved.
/// Under full load a queue of 64 bulk reads with 15 % of a hard disk is served in some seconds.
pub const STARVATION_NS: u64 = 60_000_000_000;

/// Entries of the log that is printed when an invariant breaks: what happened in about the last
/// second.
pub const STORY_ENTRIES: usize = 400;

/// Between two looks at whether the ledger is the sum of its reservations: one takes as long as
/// making all of them again.
pub const LEDGER_CHECK_SECONDS: u64 = 60;

/// This many of a thousand leaving viewers close their session. The others vanish, and their
/// reservations must be released without a request.
pub const CLOSES_PERMILLE: u64 = 700;

/// Rounds over which a class must get its share: a request of a hard disk is some hundredths of a
/// round, and schedulers settle what they owe in the next one.
pub const SHARE_ROUNDS: usize = 5;

/// How much of its share a class must get in those rounds, in percent.
pub const SHARE_KEPT_PERCENT: u64 = 85;

/// After a fault, what was late because of it may still come.
pub const RECOVERY_NS: u64 = 10_000_000_000;

/// What a device takes of the time it took when it was measured, at least: discs that were measured
/// beside other work, caches that have warmed.
pub const DRIFT_LEAST_PERMILLE: u64 = 700;

/// And at most: worn flash, a link that fell back. What takes longer is a fault.
pub const DRIFT_MOST_PERMILLE: u64 = 1400;

/// Shares of the periodic class that an operator may set, at least and at most: 700 is the default.
pub const PERIODIC_SHARES_PERMILLE: (u64, u64) = (500, 850);

/// The least share that an operator gives the other classes.
pub const SHARE_LEAST_PERMILLE: u64 = 50;

/// A member whose price is this much too high causes refusals without a reason.
pub const DEAR_PERMILLE: u64 = 1500;

/// Lengths of the reads of a kernel that has mounted the server: those of Linux and of libraries,
/// up to the longest that the server answers.
pub const MOUNTED_READ_BYTES: [u64; 5] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

/// Reads that a kernel keeps ahead of the program that reads, at least and at most: from a library
/// that reads one after another to a kernel that is set to read far ahead.
pub const MOUNTED_READS: (u64, u64) = (1, 8);

/// Reads of one mount that are under way, at most.
pub const MOUNTED_READS_MAX: usize = MOUNTED_READS.1 as usize;

/// Reads of one connection that the server fills at once; further ones wait.
pub const SERVED_READS_MAX: usize = reel_nfs::limits::REPLIES_FILLED_MAX;

/// Connections of one mount, at least and at most: `nconnect` of Linux.
pub const MOUNTED_CONNECTIONS: (u64, u64) = (1, 4);

/// What a player of files buffers, at least and at most: from the memory that players have for any
/// file to the seconds that they keep of one on a network.
pub const FILE_BUFFER_NS: (u64, u64) = (2_500_000_000, 10_000_000_000);

/// Links of clients that mount the server, at least and at most, in bits per second. They are on
/// the server's own network.
pub const MOUNTED_LINK_BPS: (u64, u64) = (400_000_000, 1_000_000_000);

/// Of a thousand segments that a player of a title in several renditions asks for, so many are of a
/// lower one than before, and so many of a higher.
pub const STEPS_PERMILLE: u64 = 30;

/// This many of a thousand segments of sound that a player of a title in several languages requests
/// may be in another language than before: sometimes a viewer tries one.
pub const LANGUAGE_PERMILLE: u64 = 20;

/// A start or seek that takes longer, while no member has a fault and no resource is overloaded,
/// was forgotten. No time is reserved for the first picture, but interactive requests are due in a
/// fifth of a second.
pub const START_MOST_NS: u64 = 10_000_000_000;

/// What a player must have of pictures and sound before it begins to show them: browsers begin when
/// they can continue for a while.
pub const BEGINS_WITH_NS: u64 = 1_000_000_000;

/// What a member takes to make durable what was written: a turn of a disk.
pub const SYNC_NS: u64 = 8_000_000;

/// Units of a member that lie together on its device: 1 GB. The next ones lie as far on as the
/// device is larger than the volume, so that seeks are as long as on a full disk.
pub const CHUNK_UNITS: u64 = 4096;

/// Bytes of a catalogue area: thirty films with all their tracks and some hundred smaller titles.
pub const CATALOGUE_BYTES: u64 = 512 << 10;

/// Slots that are left for what is ingested, at least: some films.
pub const INGEST_SLOTS_MIN: u64 = 2000;

/// Stripes of a title that is ingested, at least and at most: from a clip to a film of 300 MB.
pub const INGEST_STRIPES: (u64, u64) = (5, 300);

/// A title takes no more than this part of the room that the library leaves: checksums and what a
/// writer sets aside want as much again, and one that was removed may still be held.
pub const INGEST_ROOM_PART: u64 = 3;

/// A rebuild or scrub has moved on within this time, whatever else there is: its class has a share
/// of every round, and what it waits for is a second's work of that.
pub const PROGRESS_NS: u64 = 60_000_000_000;

/// Between two moments at which the world might stop, on average.
pub const CRASH_REST_NS: u64 = 120_000_000_000;

/// After a change of the catalogue has begun, the world might stop within this time: a commit takes
/// about as long on hard disks.
pub const CRASH_IN_COMMIT_NS: u64 = 200_000_000;

/// Of a thousand changes of the catalogue, the world might stop in so many.
pub const CRASH_IN_COMMIT_PERMILLE: u64 = 250;

/// Between two scrubs, on average.
pub const SCRUB_REST_NS: u64 = 1_800_000_000_000;

/// Of a thousand titles that are ingested, so many are read back.
pub const READ_BACK_PERMILLE: u64 = 250;

/// Work that failed because there is no memory is tried again after this time.
pub const RETRY_NS: u64 = 5_000_000_000;

/// The time between two reads of an interactive client of a crowd, for example one that scrolls
/// through pictures.
pub const CROWD_BROWSE_NS: u64 = 100_000_000;

/// Rounds that a start may wait beyond the time that earlier starts take. One is for the debt that
/// interactive clients have left, one for a full device queue and a reserved round of it, and one
/// because a scheduler settles a debt in the next round.
pub const BEGINNING_ROUNDS: u64 = 3;
