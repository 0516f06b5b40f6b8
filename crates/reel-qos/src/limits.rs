//! Every bound of this room, with its reason.

/// Classes of traffic: as many as Prism names (section 6), and few enough that every counter can be an array.
pub const CLASSES_MAX: usize = 31;

/// Longest name of a class: it is a label of metrics and a part of URLs.
pub const CLASS_NAME_BYTES_MAX: usize = 32;

/// One round of the ledger and one main period of every disk: long enough that a hard disk can order a useful number of requests,
/// short enough that a viewer's reservation follows his film.
pub const ROUND_NS: u64 = 1_000_000_000;

/// One sub-period of a disk: at its start the first interactive request may cut in (Prism, section 3.2). A person does not notice
/// 50 ms.
pub const SUB_PERIOD_NS: u64 = 50_000_000;

/// Rounds of a ledger's timelines at most: a week, which is longer than anything that is watched in one go. One member's
/// timeline takes 8 bytes for each round.
pub const TIMELINE_ROUNDS_MAX: usize = 7 * 86_400;

/// The last round that a clock of nanoseconds in 64 bits reaches: no round after it is ever the present.
pub const CLOCK_ROUNDS_MAX: u64 = u64::MAX / ROUND_NS;

/// Rounds of a demand that are kept: one more than a timeline can have, so what was cut is refused as too long.
pub const DEMAND_ROUNDS_MAX: usize = TIMELINE_ROUNDS_MAX + 1;

/// Reservations of a ledger: more viewers than a machine in reach can send to, and few enough that no sum overflows.
pub const RESERVATIONS_MAX: usize = 1 << 16;

/// The most that one reservation is counted with in one round, in nanoseconds or bytes: 2^46 are 19 hours or 70 TB, which
/// nothing but "unlimited" grants. [`RESERVATIONS_MAX`] of them make less than 2^63, so sums can be added, subtracted and compared
/// without a check at every step.
pub const ROUND_COST_MAX: u64 = (1 << 46) - 1;

/// Cells of timelines that a refusal looks at, at most, to find when it is worth asking again: some hundred microseconds. What
/// is not found by then is answered with the first start that was not ruled out.
pub const RETRY_CELLS_MAX: usize = 500_000;

/// Places that a search for a later start remembers, since where one start failed the next is likely to fail.
pub const RETRY_WATCHES: usize = 16;

/// Longest label of a reservation; longer ones are cut.
pub const LABEL_BYTES_MAX: usize = 96;

/// From this price of a read on a member has an arm: a disk takes 3 ms and more to get anywhere, everything else a tenth of a millisecond.
pub const ARM_REQUEST_NS: u64 = 1_000_000;

/// The most that an arm passes over: half a track of a large disk. Beyond, a drive would rather go there, whatever its price says.
pub const PASSED_BYTES_MAX: u64 = 640 << 10;

/// What nobody waits for is read in runs whose transfer takes so many times as long as the way there. The way is then a twentieth by the price,
/// which is that of sweeps over many places; between few of them it is about twice as far.
pub const RUN_WAYS: u64 = 19;

/// Most of such a run on one member: half a second of a hard disk. A price that asks for more is wrong.
pub const RUN_BYTES_MAX: u64 = 64 << 20;

/// How far ahead of what is shown a leader's client is taken to fetch, in rounds: what it fetched has to stay in memory until the one behind
/// it comes. Players keep 30 s; with slack for two segments.
pub const REACH_ROUNDS: usize = 40;

/// How far the last stream of a chain may be behind the first, in rounds: beyond ten minutes an interval takes as much memory as a
/// hundred readers, for one stream's disk time.
pub const LAG_ROUNDS_MAX: i64 = 600;

/// Of the arena's thousandths so many may hold intervals: what is kept for followers cannot be had by readers, and those that were promised
/// nothing must find some memory, too.
pub const INTERVALS_PERMILLE: u64 = 500;

/// Up to so many streams of a chain are looked at one by one to see what it asks of the disks; of more, all places between the first and the last
/// are, which costs the same for any number and asks little more.
pub const CHAIN_EXACT_STREAMS: usize = 8;
