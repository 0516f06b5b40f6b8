//! Limits, tuning and configuration of this crate, each with its reason.

// ---- Limits

/// Most rounds of a ledger's timelines: a week, which is longer than anything that is played in one
/// go. One member's timeline takes 8 bytes per round.
pub const TIMELINE_ROUNDS_MAX: usize = 7 * 86_400;

/// The last round that a clock of nanoseconds in 64 bits reaches: no round after it is ever the
/// present.
pub const CLOCK_ROUNDS_MAX: u64 = u64::MAX / ROUND_NS;

/// Most rounds of a demand that are kept: one more than a timeline can have, so that a demand that
/// was cut is refused as too long.
pub const DEMAND_ROUNDS_MAX: usize = TIMELINE_ROUNDS_MAX + 1;

/// Most reservations of a ledger: more viewers than any machine in sight can send to, and few
/// enough that no sum overflows.
pub const RESERVATIONS_MAX: usize = 1 << 16;

/// The most that one reservation is counted with in one round, in nanoseconds or bytes. 2^46 are 19
/// hours or 70 TB, which only "unlimited" grants. [`RESERVATIONS_MAX`] of them make less than 2^63,
/// so sums can be added, subtracted and compared without a check at every step.
pub const ROUND_COST_MAX: u64 = (1 << 46) - 1;

/// Most cells of timelines that a refusal checks to find when to try again: some hundred
/// microseconds. If that is not enough, the answer is the first start that was not ruled out.
pub const RETRY_CELLS_MAX: usize = 500_000;

/// Longest label of a reservation; longer ones are cut.
pub const LABEL_BYTES_MAX: usize = 96;

/// Most bytes of a run of aperiodic reads on one member: half a second of a hard disk. A price that
/// needs more is wrong.
pub const RUN_BYTES_MAX: u64 = 64 << 20;

/// Rounds in which a stream is sent its first segment, unless that is spread over more.
pub const START_ROUNDS: u64 = 2;

/// The part of the arena that may hold intervals, in thousandths. Memory for intervals is not
/// available to readers, and readers without reservations must find some memory, too.
pub const INTERVALS_PERMILLE: u64 = 500;

/// One part in so many of each resource is only for clients without a stream
/// ([`crate::ClientShare`]): a server for ten viewers then has room for one who is new. Only
/// clients with several streams feel it, and only when the server is that full.
pub const NEWCOMERS_PART: u64 = 10;

// ---- Tuning

/// One round of the ledger and one main period of every disk. Long enough that a hard disk can
/// order a useful number of requests; short enough that a reservation follows the rate of the
/// title.
pub const ROUND_NS: u64 = 1_000_000_000;

/// One sub-period of a disk: at its start the first interactive request may break the order (Prism,
/// section 3.2). 50 ms are not noticeable.
pub const SUB_PERIOD_NS: u64 = 50_000_000;

/// Places that a search for a later start remembers: where one start failed, the next one probably
/// fails too.
pub const RETRY_WATCHES: usize = 16;

/// From this price of a read on a member counts as rotational: a disk needs 3 ms and more for a
/// seek, everything else a tenth of a millisecond.
pub const ROTATIONAL_REQUEST_NS: u64 = 1_000_000;

/// The most that a head passes over without a seek: half a track of a large disk. A drive seeks
/// over more, whatever its price says.
pub const PASSED_BYTES_MAX: u64 = 640 << 10;

/// Aperiodic reads are made in runs whose transfer takes this many times as long as a seek. By the
/// price, a seek is then a twentieth of the time. That price is for sweeps over many places;
/// between few places a seek is about twice as long. Four downloads from modelled disks had 502 to
/// 537 MB/s with such runs, and 275 with four stripes ahead (bench/results/transfers.json).
pub const RUN_SEEKS: u64 = 19;

/// How far ahead of the playing position the client of the first stream is assumed to fetch, in
/// rounds: what it fetched must stay in memory until the next stream comes there. Players keep 30
/// s; the rest is slack for two segments.
pub const REACH_ROUNDS: usize = 40;

/// How far the last stream of a group may be behind the first, in rounds. Beyond ten minutes an
/// interval takes as much memory as a hundred readers, for the disk time of one stream.
pub const LAG_ROUNDS_MAX: i64 = 600;

/// Up to this many streams of a group are examined one by one to find what the group needs of the
/// disks. For more, all places between the first and the last are: that takes equally long for any
/// number, and needs little more.
pub const GROUP_EXACT_STREAMS: usize = 8;

/// Rounds by which a stream may move and still have what it shows: a client that is late by less
/// than two rounds is only a little late.
pub const LATE_ROUNDS: u64 = 2;

// ---- Configuration

/// Classes of traffic: as many as Prism names (section 6), and few enough that every counter can be
/// an array.
pub const CLASSES_MAX: usize = 31;

/// Longest name of a class: it is a label of metrics and a part of URLs.
pub const CLASS_NAME_BYTES_MAX: usize = 32;
