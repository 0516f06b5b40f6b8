//! Limits and tuning of this crate, each with its reason.

// ---- Limits

/// Most stripes of a run, whatever the price of its members says: 128 MiB with four data rows.
pub const RUN_STRIPES_MAX: u64 = 128;

/// All long runs together hold at most such a part of what readers may hold (one in so many).
pub const RUNS_MEMORY_PART: u64 = 2;

/// Of what readers may hold, one part in so many is promised to no session, so that readers without
/// a promise always have it. It is as much as readers that read ahead leave free for readers that
/// start. On modelled disks with too many viewers, 13.1 % of reads were late with an eighth and 8.8
/// % with a sixteenth (bench/results/held.json).
pub const LEFT_OVER_PART: usize = 16;

/// Of what readers may hold, runs leave such a part (one in so many) free for new readers.
pub const RUNS_FREE_PART: usize = 4;

// ---- Tuning

/// Most steps a reader plans ahead. A plain MP4 file is a list of small parts, each a step of its
/// own.
pub const READER_STEPS_MAX: usize = 16;

/// Most steps that a reader with a long run plans ahead. A title with pictures and sound as one
/// file is a list of small parts, several to a stripe.
pub const RUN_STEPS_MAX: usize = 512;

/// Most bytes handed to one send, so that one fast client does not hold the core for long.
pub const SEND_BYTES_MAX: usize = 1 << 20;

/// Stripes that a reader keeps planned ahead of the socket while memory allows: a segment of 4 s at
/// 8 Mb/s. They are read in one go, a MiB on each member. On a rotational disk that costs as much
/// for the transfer as for the seek. More would hold memory that other viewers need.
pub const READER_STRIPES_MAX: usize = 4;

/// Stripes of the smallest window: one is sent while the next one is read.
pub const READER_STRIPES_MIN: usize = 2;

/// On members that are not rotational, memory is promised for one stripe alone if it is shown for
/// at least so many times as long as a read may take. A client that has nothing buffered then waits
/// for the next stripe for a fifth of the time. It must take that stripe in the rest, a quarter
/// faster than it is shown. Players can: they request a segment ahead.
pub const STRIPE_ALONE_READS: u64 = 5;

/// Most chunks handed to one send. The kernel takes 1024 vectors; 64 rows of 44 KiB are 2.8 MiB,
/// more than any socket takes at once.
pub const SEND_CHUNKS_MAX: usize = 64;

/// Shards of the table of shared units: enough that cores rarely contend, few enough to walk.
pub const UNIT_SHARDS: usize = 16;

/// Most units that are examined in search of one to evict. Nearly always the first one will do.
/// When viewers hold all of them, a search must not keep the other cores from the table.
pub const EVICTION_LOOKS_MAX: usize = 64;

/// How many units that were found in use each search for a unit to evict examines again. It is more
/// than the one unit that the search evicts. So no unit in use is left out for longer than it takes
/// to evict as many units.
pub const EVICTION_LOOKS_AGAIN: usize = 2;

/// Parts of a body that are examined to see which objects it is made of: pictures and sound of a
/// title as one file take turns.
pub const AUDIENCE_PARTS_MAX: usize = 16;

/// Bytes of a session key before encoding: 128 bits cannot be guessed.
pub const SESSION_KEY_BYTES: usize = 16;

/// How long a segment that was read ahead is held after it was shown, if the client does not
/// request it.
pub const PREFETCH_HELD_NS: u64 = 5_000_000_000;

/// The soonest that bytes can be due after they are requested. A client that requests later than
/// its schedule, or takes bytes more slowly, is not served sooner than a disk that keeps its rounds
/// can.
pub const READ_TIME_MIN_NS: u64 = 200_000_000;

/// A member that has answered no request for so long has stalled. A healthy hard disk answers a
/// request every 20 ms even with a full queue. An SSD that collects garbage answers again after
/// some tens of ms. Retries within a drive, a bus reset or a hung controller take seconds.
pub const STALL_NS: u64 = 250_000_000;

/// A read is read around this long before its deadline at the earliest. A busy scheduler serves a
/// read in the last round that ends before its deadline. Before that, a missing answer means
/// nothing.
pub const AROUND_LEAD_MAX_NS: u64 = 2 * reel_qos::limits::ROUND_NS;

/// A read that could not be read around, because there is no memory or because another member is
/// read around, is tried again after this time.
pub const AROUND_AGAIN_NS: u64 = 20_000_000;

/// How many reads in a row make their member count as slow if they all had to be read around, and
/// as overloaded if they all missed their deadlines. More than a burst, less than a second of many
/// viewers.
pub const SLOW_READS: u32 = 16;

/// The lateness of a member is an average over about so many reads.
pub const LATENESS_READS: u32 = 16;

/// How long a slow member is left alone before it is tried again. Each trial makes its reads cost
/// twice as much.
pub const SLOW_AWAY_NS: u64 = 30_000_000_000;

/// A member lags if it lets a read with a deadline wait for so long, while no other member lets one
/// wait for a quarter of it. It is two rounds: demand is spread so that a member that keeps up has
/// answered by then.
pub const LAG_NS: u64 = 2 * reel_qos::limits::ROUND_NS;

/// The time between two checks whether a member lags.
pub const LAG_LOOK_NS: u64 = 100_000_000;

/// A reader plans again when it has less than so many stripes: one is sent while the next ones are
/// read, all of them in one sweep.
pub const READER_REFILL_STRIPES: usize = 2;

/// Stripes that a reader requests at once when it plans again.
pub const READER_REFILL: usize = READER_STRIPES_MAX - READER_REFILL_STRIPES + 1;

/// The same on members that are not rotational: there seeks cost nothing, but memory does.
pub const AHEAD_STRIPES_NOT_ROTATIONAL: usize = 4;

/// How many times longer the next run is if the client waited for the disks. Two steps lead to the
/// length of a usual hard disk, so that short titles reach it, too.
pub const RUN_GROWTH: u64 = 4;

/// The next run is requested when such a part of the last one is left (one in so many). That part
/// is sent while the disks serve other requests. It is also how far one member can be ahead of
/// another, a seek or two, before it has nothing more to do. A quarter was too little beside
/// readers of a lower class, which then took that disk's time.
pub const RUN_LEFT_PART: u64 = 2;
