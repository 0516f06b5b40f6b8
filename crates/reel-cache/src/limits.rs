//! Every bound of this crate, with its reason.

/// Stripes a reader keeps planned ahead of the socket while memory allows: a segment of 4 s at 8
/// Mb/s. They are read in one go, a MiB on each member, which costs an arm as much for the transfer
/// as for the way; more would hold memory that other viewers need.
pub const READER_STRIPES_MAX: usize = 4;

/// Stripes of the smallest window: one is sent while the next one comes.
pub const READER_STRIPES_MIN: usize = 2;

/// Without arms, a stripe that is shown for so many times as long as a read may take is promised
/// memory alone: a client that has nothing in hand waits for the next one for a fifth of the time,
/// and must take it in the rest, a quarter faster than it is shown. Players do: they ask a segment
/// ahead.
pub const STRIPE_ALONE_READS: u64 = 5;

/// Most steps a reader plans ahead; a plain MP4 file is a list of small parts, each a step of its
/// own.
pub const READER_STEPS_MAX: usize = 16;

/// Most chunks handed to one send. The kernel takes 1024 vectors; 64 rows of 44 KiB are 2.8 MiB,
/// more than any socket takes at once.
pub const SEND_CHUNKS_MAX: usize = 64;

/// Most bytes handed to one send, so that one fast client does not hold the core for long.
pub const SEND_BYTES_MAX: usize = 1 << 20;

/// Shards of the table of shared units: enough that cores rarely meet, few enough to walk.
pub const UNIT_SHARDS: usize = 16;

/// Units looked at in search of one to let go: nearly always the first will do. When viewers hold
/// all of them, a search must not keep the other cores from the table.
pub const EVICTION_LOOKS_MAX: usize = 64;

/// Units that were in use when they were looked at, of which each search for one to let go looks at
/// so many again: more than the one that it lets go, so that none of them is forgotten for longer
/// than it takes to let go of as many.
pub const EVICTION_LOOKS_AGAIN: usize = 2;

/// Parts of a body that are looked at to see which objects it is made of: pictures and sound of a
/// film as one file take turns.
pub const AUDIENCE_PARTS_MAX: usize = 16;

/// Bytes of a session key before encoding: 128 bits cannot be guessed.
pub const SESSION_KEY_BYTES: usize = 16;

/// How long after it was shown a segment that was read ahead is held for a client that does not
/// come for it.
pub const PREFETCH_HELD_NS: u64 = 5_000_000_000;

/// The soonest that something can be due after it is asked for. A client that asks later than its
/// schedule, or takes more slowly, is not served sooner than a disk that keeps its rounds can.
pub const READ_TIME_MIN_NS: u64 = 200_000_000;

/// A member that has answered nobody for so long stalls. A healthy hard disk answers something
/// every 20 ms even with a full queue, and an SSD that collects garbage is back after some tens of
/// them; retries within a drive, a bus reset or a hung controller take seconds.
pub const STALL_NS: u64 = 250_000_000;

/// Reads are read around this long before their deadline at the earliest. A scheduler serves a read
/// in the last round that ends before its deadline, if it is busy: before that, no answer means
/// nothing.
pub const AROUND_LEAD_MAX_NS: u64 = 2 * reel_qos::limits::ROUND_NS;

/// Who could not be read around, for want of memory or because another member is, tries again after
/// this time.
pub const AROUND_AGAIN_NS: u64 = 20_000_000;

/// Reads in a row that had to be read around until their member counts as slow, and that missed
/// their deadlines until their member has too much to do: more than a burst, less than a second of
/// many viewers.
pub const SLOW_READS: u32 = 16;

/// How late a member is, is an average over about so many reads.
pub const LATENESS_READS: u32 = 16;

/// How long a slow member is left alone before it is tried again. Each trial costs its reads twice.
pub const SLOW_AWAY_NS: u64 = 30_000_000_000;

/// A member that lets a read with a deadline wait for so long, while no other member lets one wait
/// for a quarter of it, lags. Two rounds: demand is spread so that a member that keeps up is
/// through with it then.
pub const LAG_NS: u64 = 2 * reel_qos::limits::ROUND_NS;

/// Between two looks at whether a member lags.
pub const LAG_LOOK_NS: u64 = 100_000_000;

/// A reader plans again when it has less than so many stripes: one being sent while the next ones
/// come, all of them in one sweep.
pub const READER_REFILL_STRIPES: usize = 2;

/// Stripes that a reader asks for at once when it plans again.
pub const READER_REFILL: usize = READER_STRIPES_MAX - READER_REFILL_STRIPES + 1;

/// The same where no member has an arm: ways cost nothing, memory does.
pub const AHEAD_STRIPES_WITHOUT_ARM: usize = 4;

/// Most stripes of a run, whatever the price of its members says: 128 MiB with four data rows.
pub const RUN_STRIPES_MAX: u64 = 128;

/// How many times longer the next run is if the client waited for the disks: two steps to a usual
/// hard disk's, so that short films have it, too.
pub const RUN_GROWTH: u64 = 4;

/// The next run is asked for when such a part of the last one is left (one in so many): it is sent
/// while the arms are with others, and it is what one member may be ahead of another, a way or two,
/// before it has nothing more to do. A quarter was too little beside readers of a lower class, who
/// then took that arm.
pub const RUN_LEFT_PART: u64 = 2;

/// Long runs together hold at most such a part of what readers may hold (one in so many).
pub const RUNS_MEMORY_PART: u64 = 2;

/// Of what readers may hold, one part in so many is not promised to anybody: readers without a
/// promise always have it. As much as those who read ahead leave free for those who begin.
pub const LEFT_OVER_PART: usize = 16;

/// Of what readers may hold, runs leave such a part free (one in so many) for those who come.
pub const RUNS_FREE_PART: usize = 4;

/// Most steps that a reader with a long run plans ahead: a film with pictures and sound is a list
/// of small parts, several to a stripe.
pub const RUN_STEPS_MAX: usize = 512;
