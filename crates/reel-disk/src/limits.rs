//! Limits and tuning of this crate, each with its reason.

use reel_qos::DiskPrice;

// ---- Limits

/// Offsets and lengths of direct I/O are multiples of this. The logical block of every device in
/// use has 512 or 4096 bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// The smallest unit a disk transfers. A count that is not a multiple of it can only be the end of
/// a file.
pub const SECTOR_BYTES: usize = 512;

/// Most device time that one request is estimated to cost, or charged with. No device needs a
/// minute, and sums of minutes do not overflow whatever a price or a clock says.
pub const REQUEST_NS_MAX: u64 = 60_000_000_000;

/// Bytes of a stored profile. One with every cell and window has 8 KiB.
pub const PROFILE_BYTES_MAX: usize = 1 << 18;

/// Most cells and most windows of a profile. Four sizes, two depths, three localities, with and
/// without writes make 48.
pub const PROFILE_ENTRIES_MAX: usize = 256;

/// Bytes of a model or serial number in a profile: sysfs gives at most a line, and it is printed.
pub const PROFILE_NAME_BYTES_MAX: usize = 256;

/// Longest time a profile may contain. No device in use needs ten minutes for the requests of a
/// round.
pub const PROFILE_NS_MAX: u64 = 600_000_000_000;

/// Shortest time of a single read: a system call and its completion take about as long without any
/// device.
pub const PROFILE_READ_NS_MIN: u64 = 500;

/// Least time per request of a window of reads. No device of today does five million requests a
/// second.
pub const PROFILE_WINDOW_READ_NS_MIN: u64 = 200;

/// Least time per MiB: 60 GiB/s is what memory moves, and no device.
pub const PROFILE_MIB_NS_MIN: u64 = 16_000;

/// A profile is rejected if its slowest larger reads are more than this many times faster than half
/// of the smaller ones. Disturbances by other programs during a measurement stay below that.
pub const PROFILE_INVERSION_MAX: u64 = 8;

/// Sizes with fewer requests are not compared with larger ones: one disturbance may have met all of
/// them.
pub const PROFILE_COMPARED_REQUESTS_MIN: u32 = 32;

/// Fewer windows than this say nothing about larger ones.
pub const PROFILE_COMPARED_WINDOWS_MIN: u32 = 3;

/// How far in the future the date of a profile may be. Clocks are set back by a little, not by
/// days.
pub const PROFILE_FUTURE_S_MAX: u64 = 86_400;

/// Most requests of a measured window: the fastest devices do fewer in the longest one.
pub const PROBE_WINDOW_REQUESTS_MAX: usize = 1 << 19;

/// Most written ranges of a file that places are chosen from. More ranges do not make the choice
/// more random.
pub const PROBE_RANGES_MAX: usize = 1 << 16;

/// A device that answers nothing for so long is not measured.
pub const PROBE_STALL_NS: u64 = 30_000_000_000;

// ---- Tuning

/// Time between two lines in the log about failures of one member: a dead disk must not fill the
/// disk that holds the log.
pub const FAILURE_LOG_INTERVAL_NS: u64 = 1_000_000_000;

/// Most requests in the queue of one device. Deep enough to keep an SSD or a RAID controller busy
/// with units of 264 KiB. Shallow enough that a request waits for a few others at most after it has
/// left the scheduler (MARS, table 2: requests in the device's own queue can no longer be ordered).
pub const DEVICE_REQUESTS_MAX: usize = 8;

/// Most bytes in the queue of one device: 4 MiB are a few milliseconds of a fast SSD and 30 ms of a
/// hard disk.
pub const DEVICE_BYTES_MAX: usize = 4 << 20;

/// Most device time in the queue of one device, by the member's price: a tenth of a round. A new
/// request waits at most that long for requests that can no longer be ordered. A disk of 12 ms per
/// request still has eight requests to order by itself.
pub const DEVICE_NS_MAX: u64 = 100_000_000;

/// Rounds ahead that slack is computed for: more than any player reads ahead of its schedule. Work
/// that is due later does not matter yet.
pub const SLACK_ROUNDS: usize = 64;

/// Rounds whose least slack is reported.
pub const LEAST_SLACK_ROUNDS: usize = 8;

/// A periodic request without a deadline counts as due after this many rounds: it is not urgent,
/// but it is served.
pub const NO_DEADLINE_ROUNDS: u64 = 16;

/// Deadlines within the same half second are served in one sweep when they are near or past.
/// Keeping their order would cost more in seeks than it is worth.
pub const DUE_GROUP_NS: u64 = 500_000_000;

/// Size of the interactive request that slack must still cover after an aperiodic one (Prism,
/// section 3.2): that of pictures and pages.
pub const INTERACTIVE_RESERVE_BYTES: u64 = 64 << 10;

/// The leaky bucket of an interactive class holds its share of this many sub-periods. A page with a
/// handful of pictures comes at once, a large number of pages does not.
pub const BUCKET_TOKENS_SUB_PERIODS: i64 = 4;

/// Quanta that a class may save up while it waits, in addition to one. Enough to make up for a
/// round that was too short for it; too little to take a whole round from other classes.
pub const CARRY_ROUNDS: i64 = 1;

/// Rounds in which a class with a claim may get nothing before it is served out of order. Estimates
/// can be wrong by any factor; that must not starve a class.
pub const PASSED_OVER_ROUNDS: u32 = 2;

/// The shortest turn of a requester without deadlines, in seeks. Its transfers then take three
/// quarters of its time, however many others wait.
pub const TURN_SEEKS: u64 = 4;

/// Most turns that a requester misses after it was given too much. Enough for a run and for a price
/// that is wrong by its bounds. A device that stands still for minutes blocks no requester.
pub const TURN_DEBTS: i64 = 4;

/// Entries of a disk thread's ring: every member it owns may have its bound in flight.
pub const RING_ENTRIES: u32 = 256;

/// Log2 buckets of the service time histogram: from below 1 microsecond to more than 2^30.
pub const SERVICE_BUCKETS: usize = 32;

/// The price of requests to a member that was not measured: that of a slow hard disk, so that too
/// little is reserved and not too much.
pub const PRICE_UNKNOWN: DiskPrice = DiskPrice {
    read_request_ns: 15_000_000,
    read_mib_ns: 12_000_000,
    write_request_ns: 15_000_000,
    write_mib_ns: 12_000_000,
    independent_limits: false,
};

/// Time between two updates of a scheduler's view. Ten a second look smooth and cost nothing.
pub const VIEW_INTERVAL_NS: u64 = 100_000_000;

/// Requests in a window of price correction: so many that those in progress at its ends do not
/// matter.
pub const CORRECTION_WINDOW_REQUESTS: u32 = 64;

/// Busy time in a window of price correction: a quarter of a round, so that one slow read does not
/// decide.
pub const CORRECTION_WINDOW_NS: u64 = 250_000_000;

/// What a window's ratio moves the factor by: four windows for most of a change, one for little.
pub const CORRECTION_PART: f64 = 0.25;

/// Half of the correction above the given price is forgotten in this time of reads (by their
/// expected cost) that no other request waited behind. That is a minute or two of a device of which
/// a tenth is in use. A window of 64 requests takes a hard disk one second. So while other requests
/// wait behind a third of its reads, a price stays above seven tenths of the real cost, and seven
/// tenths are what may be reserved.
pub const CORRECTION_FORGET_NS: u64 = 15_000_000_000;

/// How often that time doubles at most, once each time that what was forgotten had to be learnt
/// again. Six times make 16 minutes of reads: hours of a device of which a tenth is in use.
pub const CORRECTION_FORGET_DOUBLINGS_MAX: u32 = 6;

/// Lower limit of the correction of a device whose single requests were not measured, and then only
/// while requests wait.
pub const CORRECTION_MIN: f64 = 0.5;

/// Upper limit of the correction.
pub const CORRECTION_MAX: f64 = 8.0;

/// What one window can say at most, in multiples of the present factor: a device that stood still
/// for a minute is not a device whose requests take a minute.
pub const CORRECTION_RISE_MAX: f64 = 4.0;

/// Between two steps by which a price falls that is too high by the device's busy time. Twenty-four
/// such steps, eight minutes, take a price down to a two-hundredth.
pub const CORRECTION_FALL_NS: u64 = 20_000_000_000;

/// The least factor of such a step. What is promised at the lower price is there before the next
/// step, and a device that cannot do it is full then, which raises the price within seconds.
pub const CORRECTION_FALL: f64 = 0.8;

/// A smaller change of the price is not reported: the scheduler has to reprice everything that
/// waits.
pub const CORRECTION_SHOWN: f64 = 0.02;

/// Least part of reads in a window, by expected cost. Writes go into caches, so they and syncs say
/// little about reads.
pub const CORRECTION_READS_PART: f64 = 0.75;

/// A price counts requests and bytes independently if that fits the measured windows better than a
/// sum. Condition, in thousandths: of the window that it overestimates most, it is off by less than
/// this part of what the sum is off in its worst window. The margin is more than windows differ by
/// chance. A wrong decision gives an inaccurate price, never one that is too low.
pub const PRICE_INDEPENDENT_PERMILLE: u32 = 980;

/// Sizes of cells: a block, a row or a few, a unit of the default geometry, a large unit.
pub const PROBE_SIZES: [usize; 4] = [4 << 10, 64 << 10, 264 << 10, 1 << 20];

/// Shortest and longest time of a measured window: a fifth of a round, and the part of a round that
/// is reserved. Shorter windows would measure single requests, and throttles that check their
/// budget ten times a second. Longer ones do not occur.
pub const PROBE_WINDOW_NS: [u64; 2] = [200_000_000, 700_000_000];

/// Units of a run that is measured: as many as a viewer's segment has on a member.
pub const PROBE_RUN_UNITS: usize = 4;

/// Reads of mixed sizes after which a mixture repeats. Its average size is then exact to a
/// sixty-fourth, and a whole number of blocks.
pub const PROBE_MIXED_REQUESTS: usize = 64;

/// Mixtures that are measured one after the other, each chosen by the result of the one before. On
/// a throttle, the first two were 6 % and less than 1 % above the time of either budget.
pub const PROBE_MIXTURES: u64 = 2;

/// Windows of each size that a measurement aims at.
pub const PROBE_WINDOWS: u64 = 3;

/// How many times as long as it should a measurement may take, when its windows do not agree. In
/// simulation, beside a neighbour that disturbs every third window, two to six rounds suffice.
pub const PROBE_TIMES_MAX: u64 = 10;

/// The same when a server starts, which is not to wait for long.
pub const PROBE_QUICK_TIMES_MAX: u64 = 2;

/// By how much windows of one kind may differ that agree, in thousandths. The price is that of the
/// slowest of them.
pub const PROBE_AGREE_PERMILLE: u64 = 100;

/// Fewer windows than this settle nothing if some others do not agree with them.
pub const PROBE_AGREE_WINDOWS_MIN: usize = 5;

/// How many times the middle one a window may take that counts although the windows do not agree: a
/// device has no windows that differ more.
pub const PROBE_UNSETTLED_MAX: u64 = 3;

/// A price is not believed if half of the single requests of each size took less than this part of
/// it, in thousandths. Without a disturbance that part is two thirds and more, and on throttles
/// nearly all.
pub const PROBE_SINGLES_PERMILLE_MIN: u32 = 333;

/// How often everything is measured again because the result is not believed.
pub const PROBE_AGAIN_MAX: u32 = 1;

/// By how much a window in one zone of a rotational disk may exceed those of the whole disk, in
/// thousandths: the innermost tracks pass half as fast as the outermost, and transfers are a part
/// of the time only.
pub const PROBE_ZONES_PERMILLE: u64 = 500;

/// Least written bytes that are worth reading: fewer are all in the drive's own memory.
pub const PROBE_DATA_BYTES_MIN: u64 = 4 << 20;

/// Size of the file for measured writes: more than a drive takes into its own memory in the time of
/// a window, and little beside a title.
pub const PROBE_SCRATCH_BYTES: u64 = 64 << 20;

/// Cost of writes that were not measured, as a multiple of reads. Flash needs about that; the
/// scheduler corrects it when it sees writes.
pub const WRITE_READ_RATIO: u64 = 2;

/// Most requests in the queue of a rotational disk, in rounds: the one in service and the next.
/// Drives choose the nearest of their requests and let others wait for up to half a second (on the
/// modelled disk: interactive p99 of 520 ms with eight in the queue).
pub const SEEKING_REQUESTS_MAX: usize = 2;

/// Most time of neighbours that are read in one run before they are due: as long as two requests
/// far apart.
pub const RUN_NS_MAX: u64 = 30_000_000;

/// If the disk is too slow for its reservations, neighbours that are due within this time are still
/// read in one run: about two MiB of a title on each member. Shorter runs would make the disk
/// slower still.
pub const RUN_SOON_NS: u64 = 8_000_000_000;

/// The device may be kept idle in vain for one part of this many of all time: a fiftieth. That is
/// less than the seeks that are saved where the expected request comes.
pub const EXPECTED_PART: u64 = 50;

/// Most of that time that is saved up: a few seeks of a hard disk. So readers that do not continue
/// cost no more at once.
pub const EXPECTED_CREDIT_NS: u64 = 30_000_000;

/// A rotational member without a request for so long may sleep. The shortest time after which disks
/// are commonly set to stop spinning is five minutes; some do after half of that.
pub const IDLE_NS: u64 = 120_000_000_000;

/// How long the first answer of a member that was idle may take. Disks spin up in 5 to 20 s, and a
/// shelf lets one begin after the other.
pub const WAKE_MAX_NS: u64 = 30_000_000_000;

/// A member that was idle counts as waking when its first request takes longer than this. A disk
/// that spins answers in some tens of milliseconds. Not longer than a member takes to count as
/// stalled (`STALL_NS` of reel-cache), so that a disk that spins up is not reported as one.
pub const WAKING_SHOWN_NS: u64 = 200_000_000;

/// A member that was in use and has answered nothing for so long is shown as silent. Drives try to
/// read a bad sector for up to seven seconds.
pub const SILENT_NS: u64 = 10_000_000_000;

/// Time between two readings of a disk thread's processor time. A reading is a system call.
pub const CPU_TIME_EVERY_NS: u64 = 250_000_000;

#[cfg(feature = "faults")]
/// How often a request in a device that a test has stalled checks whether the stall is over. A test
/// that clears the stall waits at most so long.
pub const STALL_CHECK_NS: u64 = 1_000_000;
