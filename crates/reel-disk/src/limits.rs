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

/// Most device time in the queue of one device, by the member's price: a tenth of a round. What comes now waits at most so long for what
/// can no longer be ordered, and a disk of 12 ms per request still has eight to order by itself.
pub const DEVICE_NS_MAX: u64 = 100_000_000;

/// Most device time that one request is taken to cost, or charged with: a minute is beyond any device, and sums of it do not overflow whatever a
/// price or a clock says.
pub const REQUEST_NS_MAX: u64 = 60_000_000_000;

/// Rounds that are looked ahead when slack is counted: longer than any player runs ahead of its schedule. What is due later is no
/// concern yet.
pub const SLACK_ROUNDS: usize = 64;

/// Rounds whose least slack is shown.
pub const LEAST_SLACK_ROUNDS: usize = 8;

/// A periodic request without a deadline counts as due after so many rounds: nobody said when, so it does not press, but it comes.
pub const NO_DEADLINE_ROUNDS: u64 = 16;

/// Deadlines that lie in the same half of a second are served in one sweep when they are near or past: their order matters less
/// than the seeks that it would cost.
pub const DUE_GROUP_NS: u64 = 500_000_000;

/// The interactive request that slack must still cover after an aperiodic one (Prism, section 3.2): as large as pictures and pages are.
pub const INTERACTIVE_RESERVE_BYTES: u64 = 64 << 10;

/// The leaky bucket of an interactive class holds its share of so many sub-periods: a page with a handful of pictures comes at once, a
/// crowd of them does not.
pub const BUCKET_TOKENS_SUB_PERIODS: i64 = 4;

/// Quanta that a class may save up, beyond the one that any class may, while it waits: enough to make up for a round that was too short for it, not
/// enough to take a whole round from others.
pub const CARRY_ROUNDS: i64 = 1;

/// Rounds in which a class with a claim may be given nothing before it is served out of order. Estimates can be wrong by any factor; a
/// class must not starve for it.
pub const PASSED_OVER_ROUNDS: u32 = 2;

/// The shortest turn of one who asks for what has no deadline, in ways: his transfers are three quarters of what it takes then, however many
/// others wait.
pub const TURN_WAYS: u64 = 4;

/// Turns that one who was given too much misses at most: enough for a run and a price that is wrong by its bounds, and a device that stands still
/// for minutes shuts nobody out.
pub const TURN_DEBTS: i64 = 4;

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
    apart: false,
};

/// Between two looks at a scheduler's view: ten a second are smooth for people, and cost nothing.
pub const VIEW_INTERVAL_NS: u64 = 100_000_000;

/// Requests in a window of price correction: what is under way at its ends must not matter.
pub const CORRECTION_WINDOW_REQUESTS: u32 = 64;

/// Busy time in a window of price correction: a quarter of a round, so that one slow read does not decide.
pub const CORRECTION_WINDOW_NS: u64 = 250_000_000;

/// What a window's ratio moves the factor by: four windows for most of a change, one for little.
pub const CORRECTION_PART: f64 = 0.25;

/// Reads that nobody waited behind, by what they were expected to take, in which half of what was learnt above the given price is forgotten: a minute or two
/// of a device of which a tenth is in use. Against windows of 64 requests of a hard disk, one second: while a third of its reads have
/// others waiting behind them, a price stays above seven tenths of what the device takes, which is what is promised of it.
pub const CORRECTION_FORGET_NS: u64 = 15_000_000_000;

/// The price is corrected down to this part of what was measured: beyond that the measurement is wrong, and wants another.
pub const CORRECTION_MIN: f64 = 0.5;

/// And up to this multiple of it.
pub const CORRECTION_MAX: f64 = 4.0;

/// A change of the price below this part is not told: it costs the scheduler a look at everything that waits.
pub const CORRECTION_SHOWN: f64 = 0.02;

/// The least part of reads in a window, by expected cost: writes into caches and syncs say little about reads.
pub const CORRECTION_READS_PART: f64 = 0.75;

/// Requests and bytes count as counted apart if the window of which that price is farthest above costs less than such a part, in thousandths, of what the
/// window of which a sum is farthest above costs by the sum: more than windows differ by chance. A mistake is an inaccurate price, not a cheap one.
pub const PRICE_APART_PERMILLE: u32 = 980;

/// Bytes of a stored profile. One with every cell and window has 8 KiB.
pub const PROFILE_BYTES_MAX: usize = 1 << 18;

/// Cells and windows of a profile, each: four sizes, two depths, three localities, with and without writes make 48.
pub const PROFILE_ENTRIES_MAX: usize = 256;

/// Bytes of a model or serial number in a profile: sysfs gives at most a line, and it is printed.
pub const PROFILE_NAME_BYTES_MAX: usize = 256;

/// Longest time a profile may claim: no device in use takes ten minutes for a round's worth of requests.
pub const PROFILE_NS_MAX: u64 = 600_000_000_000;

/// Shortest time of one read by itself: a system call and its completion take about as long without any device.
pub const PROFILE_READ_NS_MIN: u64 = 500;

/// Least time of a read of a window, per request: five million requests a second are more than one device of today does.
pub const PROFILE_WINDOW_READ_NS_MIN: u64 = 200;

/// Least time per MiB: 60 GiB/s is what memory moves, and no device.
pub const PROFILE_MIB_NS_MIN: u64 = 16_000;

/// How many times faster the slowest of larger reads may be than half of the smaller ones before a profile is not believed. What
/// others do to the disk in the middle of a measurement stays below it.
pub const PROFILE_INVERSION_MAX: u64 = 8;

/// Fewer requests than this say nothing about larger ones: one disturbance may have met all of them.
pub const PROFILE_COMPARED_REQUESTS_MIN: u32 = 32;

/// Fewer windows than this say nothing about larger ones.
pub const PROFILE_COMPARED_WINDOWS_MIN: u32 = 3;

/// How far in the future a profile may have been measured: clocks are set back by a little, not by days.
pub const PROFILE_FUTURE_S_MAX: u64 = 86_400;

/// Sizes of cells: a block, a row or a few, a unit of the default geometry, a large unit.
pub const PROBE_SIZES: [usize; 4] = [4 << 10, 64 << 10, 264 << 10, 1 << 20];

/// Shortest and longest time of a measured window: a fifth of a round, and the part of it that is promised. Shorter ones would measure
/// single requests, and throttles that look at the clock ten times a second; longer ones are never asked for.
pub const PROBE_WINDOW_NS: [u64; 2] = [200_000_000, 700_000_000];

/// Units of a run that is measured: as many as a viewer's segment has on a member.
pub const PROBE_RUN_UNITS: usize = 4;

/// Reads of mixed sizes after which a mixture begins anew: its average is true to a sixty-fourth, and sizes in whole blocks have a whole average.
pub const PROBE_MIXED_REQUESTS: usize = 64;

/// Mixtures that are measured one after the other, each by what the one before it shows. The first two of a throttle were 6 % and less than 1 % above what either of its
/// budgets takes.
pub const PROBE_MIXTURES: u64 = 2;

/// Windows of each size that a measurement aims at.
pub const PROBE_WINDOWS: u64 = 3;

/// Most requests of a window: the fastest devices do fewer in the longest one.
pub const PROBE_WINDOW_REQUESTS_MAX: usize = 1 << 19;

/// Least written bytes that are worth reading: fewer are all in the drive's own memory.
pub const PROBE_DATA_BYTES_MIN: u64 = 4 << 20;

/// Written ranges of a file that places are chosen from. More do not make them more random.
pub const PROBE_RANGES_MAX: usize = 1 << 16;

/// A device that answers nothing for so long is not measured.
pub const PROBE_STALL_NS: u64 = 30_000_000_000;

/// Size of the file that writes go to: more than a drive takes into its own memory unnoticed in the time of a window, and little
/// beside a film.
pub const PROBE_SCRATCH_BYTES: u64 = 64 << 20;

/// Writes are taken to cost so many times what reads cost when they were not measured. Flash needs about that; the scheduler
/// corrects it when it sees writes.
pub const WRITE_READ_RATIO: u64 = 2;

/// Most requests in the queue of a disk whose arm seeks, in rounds: the one it serves and the next. Drives choose the nearest among what
/// they have and let others wait for up to half a second (measured on the modelled disk: interactive p99 of 520 ms with eight in the queue).
pub const SEEKING_REQUESTS_MAX: usize = 2;

/// Most time of neighbours that are read in one go, before their time: as long as two requests far apart.
pub const RUN_NS_MAX: u64 = 30_000_000;

/// When the disk cannot keep what was promised, neighbours that are due within this time are still read in one go: some two MiB of a film on
/// each member, for shorter runs would make it slower still.
pub const RUN_SOON_NS: u64 = 8_000_000_000;

/// Of all time, such a part may be waited for nothing (one in so many): a fiftieth, or less than the ways cost that are saved where anybody comes.
pub const EXPECTED_PART: u64 = 50;

/// Most of it that is saved up: a few ways of a hard disk, so strangers whom nobody can know to be strangers cost no more at once.
pub const EXPECTED_CREDIT_NS: u64 = 30_000_000;

/// How often a disk thread tells how much processor time it has taken, which is a call of the kernel.
pub const TELL_CPU_EVERY_NS: u64 = 250_000_000;
