//! Every bound of this crate, with its reason.

/// While no more than so many thousandths of each member are promised, viewers who are alone read
/// units to their ends, so that others can follow them: half of the usual share of the periodic
/// class, since with segments of a few seconds that asks at most twice of what was promised.
pub const ROOM_PERMILLE: u64 = 350;

/// Chains that are looked at in a round for whether they could follow another one: a decision takes
/// some 100 us, and readers wait for it.
pub const MEETINGS_MAX: usize = 32;

/// Rounds that are looked at to see how much of the members is promised: as far ahead as players
/// fetch, and two segments.
pub const ROOM_ROUNDS: u64 = 40;

/// Sessions of one title by one client address, or one network of IPv6 (/64), which a host has for
/// itself; a player that reconnects needs a handful, a house behind one address some hundred at
/// most, a script thousands.
pub const SESSIONS_PER_CLIENT_MAX: usize = 256;

/// One client address may hold no more than one part in so many of all sessions, of whatever
/// titles, where that is more than it may hold of one: there is room for the others. A reverse
/// proxy stands for everybody behind it.
pub const CLIENT_PART: usize = 2;

/// Rounds ahead that can be promised: a day. A longer title is refused.
pub const ROUNDS_MAX: u64 = 86_400;

/// How long before it must be shown a segment is due in memory: it must still be sent, and what its
/// player has of the segment before it covers that.
pub const SEND_LEAD_NS: u64 = 1_000_000_000;

/// How far from where a client began on one strand its first request on another may be and still
/// join it: segments of sound and pictures of one place begin at different times. Long segments are
/// 10 seconds; players that ask ahead on one strand first have begun with two.
pub const JOIN_NS: u64 = 21_000_000_000;

/// How long after a start or seek what must be shown at once still belongs to it: two rounds for
/// its first requests, and their way.
pub const JOINING_NS: u64 = 3_000_000_000;

/// Requests in a row that come equally far ahead until that counts as the reach of the client's
/// buffer. One or two may be chance on a slow link.
pub const STEADY_ASKS: u32 = 3;

/// What is equally far ahead: players look at their buffers several times a second.
pub const STEADY_WITHIN_NS: u64 = 500_000_000;

/// How much farther ahead than its buffer reaches a client may ask: what is more is a jump. As for
/// those who are late, less than two rounds is jitter.
pub const REACH_TOLERATED_NS: u64 = 2_000_000_000;

/// What a player may have buffered though that was never seen, because it was paused as soon as it
/// began: as much as hls.js buffers by default. What lies that far before the last that was asked
/// for may still be shown.
pub const BUFFER_UNSEEN_NS: u64 = 30_000_000_000;

/// How far apart two places of a film that is sent as one file may be if one follows the other:
/// players leave out what they have.
pub const POINT_NS: u64 = 8_000_000_000;

/// How late against its schedule a client may ask before the schedule is moved: less than two
/// rounds is jitter.
pub const LATE_TOLERATED_NS: u64 = 2_000_000_000;

/// How late a client may be that goes on with what it was promised, if it cannot be promised that
/// later: a line that stood still for a while, a clock or a picture that is slower than the film.
/// Where its promise ends before its film does, so much of the film is read without one.
pub const LATE_STAYS_NS: u64 = 60_000_000_000;

/// How long after it has shown all it asked for a client may be silent before what was reserved for
/// it is given to others. Its session stays; its next request is admitted again.
pub const PAUSE_GRACE_NS: u64 = 5_000_000_000;

/// How much media time a session may be sent as promised beyond its schedule: twice what hls.js
/// buffers, or a minute of a hand that searches. As much comes back as time passes.
pub const ALLOWANCE_NS: u64 = 60_000_000_000;

/// What going elsewhere takes of it, whatever is asked for there: it is asked of the ledger, which
/// others wait for meanwhile.
pub const MOVE_COST_NS: u64 = 1_000_000_000;

/// What a piece of a segment takes of it at least. Who winds is shown eight pictures a second, each
/// of them a piece.
pub const PIECE_COST_NS_MIN: u64 = 125_000_000;

/// Segments that a client must have taken of lower renditions before the difference to the reserved
/// one is given back.
pub const BELOW_SEGMENTS: u32 = 4;

/// Sessions of one client, counted in the same way but over all titles, that are reserved for and
/// have not asked for media yet: a player asks within a second; who opens and drops sessions holds
/// little.
pub const UNSTARTED_PER_CLIENT_MAX: usize = 64;

/// The longest that a refused client is told to wait: sessions end before their titles do.
pub const RETRY_AFTER_MAX_S: u64 = 300;

/// Rounds of a stream of steady rate, of which a question for the capacity asks: a film of two
/// hours. Spread evenly, a longer one asks the same.
pub const STEADY_ROUNDS: usize = 7_200;

/// Seconds of it that a segment holds: what ingest aims at.
pub const STEADY_SEGMENT_S: u64 = 4;

/// Stripes of it that are counted, at most, but for two segments: two hours of 100 Mb/s, which take
/// some milliseconds. What is beyond that is more of the same.
pub const STEADY_STRIPES_MAX: u64 = 90_000;
