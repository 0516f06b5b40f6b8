//! Limits and tuning of this crate, each with its reason.

use reel_qos::limits::{ROUND_NS, START_ROUNDS};
use std::ops::RangeInclusive;

// ---- Limits

/// Sessions of one title by one client address, or by one IPv6 network (/64), since one host can
/// have such a network for itself. A player that reconnects needs a handful. A household behind one
/// address needs about a hundred at most. A script opens thousands.
pub const SESSIONS_PER_CLIENT_MAX: usize = 256;

/// One client address may hold at most one part in this many of all sessions, over all titles. The
/// limit applies where it is larger than the limit for one title. The rest stays free for other
/// clients. A reverse proxy counts as one address for all clients behind it, unless it is
/// configured as a gateway.
pub const CLIENT_PART: usize = 2;

/// Sessions that ended because their clients were silent, and that can be opened again by their
/// keys: about 16 MB. A busy server with 5,000 viewers, who leave after two hours, remembers a day.
pub const FORMER_SESSIONS_MAX: usize = 65_536;

/// Rounds ahead that can be promised: a day. A longer title is refused.
pub const ROUNDS_MAX: u64 = 86_400;

/// How late a client may be that continues with its reservation, if the later rounds cannot be
/// promised to it. Reasons are a link that stood still for a while, or a clock or picture that is
/// slower than the title. Where the reservation ends before the title does, the rest of the title
/// is read without one.
pub const LATE_STAYS_NS: u64 = 60_000_000_000;

/// How long a client may be silent after it has shown all it requested, before its reservation is
/// released for other sessions. Its session stays, and its next request is admitted again.
pub const PAUSE_GRACE_NS: u64 = 5_000_000_000;

/// How much media time a session may be sent as promised beyond its schedule: twice what hls.js
/// buffers, or a minute of a viewer that searches. A second of it comes back with each second.
pub const ALLOWANCE_NS: u64 = 60_000_000_000;

/// What a move to another position costs of the allowance, whatever is requested there. The ledger
/// decides on each move, and other requests wait for the ledger meanwhile.
pub const MOVE_COST_NS: u64 = 1_000_000_000;

/// How often the ledger is asked for a session whose client has jumped to a position for which
/// there was no room. A refusal takes the ledger about half a millisecond, so 5,000 such sessions
/// would take half of its time.
pub const DISPLACED_ASKS_NS: u64 = 5_000_000_000;

/// What a piece of a segment costs of the allowance at least. A viewer that winds is shown eight
/// pictures a second, and each of them is a piece.
pub const PIECE_COST_NS_MIN: u64 = 125_000_000;

/// Sessions of one client that have a reservation and have not requested media yet. They are
/// counted per client in the same way, but over all titles. A player requests within a second. With
/// this limit, a client that opens and drops sessions holds little.
pub const UNSTARTED_PER_CLIENT_MAX: usize = 64;

/// Stripes of a steady stream that are counted, at most; two segments are always counted. These are
/// two hours of 100 Mb/s, which take some milliseconds to count. Further stripes repeat the same
/// demand.
pub const STEADY_STRIPES_MAX: u64 = 90_000;

/// How often a later start is tried for a session for which there is no room now, before it is
/// refused. Another attempt is needed only where other sessions take the room in the meantime.
pub const LATER_STARTS_MAX: usize = 3;

// ---- Configuration

/// The part of an idle machine that one client may hold by default, in thousandths. One client may
/// then hold three times what it leaves free. An attacker at one address leaves a quarter of the
/// machine to others, and attackers at two addresses leave a sixteenth.
pub const CLIENT_SHARE_PERMILLE: u32 = 750;

// ---- Tuning

/// For how many seconds a start or a seek waits for room by default: for as long as two segments.
/// Starts that come together are over by then, and a person who sees the remaining seconds waits so
/// long.
pub const START_WAIT_S: u64 = 8;

/// The first segment after a start or a seek is sent within this time on a link that is promised to
/// its end.
pub const START_BOUND_NS: u64 = START_ROUNDS * ROUND_NS;

/// The rounds for which a segment is shown of a stream whose first segment may be sent as slowly as
/// it is shown, if the network has no room for more. Of shorter segments, more than the first one
/// is sent within [`START_BOUND_NS`]. That is no longer than a start may wait.
pub const SPREAD_ROUNDS: RangeInclusive<u64> = 3..=8;

/// A session that plays alone reads units to their ends, so that other sessions can follow it,
/// while at most this many thousandths of each member's time are promised. This is half of the
/// usual share of the periodic class. With segments of a few seconds, such reading needs at most
/// twice what was promised.
pub const ROOM_PERMILLE: u64 = 350;

/// Groups of sessions with a shared reservation that are checked in one round for whether they can
/// follow another group. One decision takes about 100 us, and readers wait for it.
pub const MEETINGS_MAX: usize = 32;

/// Rounds that are checked to see how much of the members' time is promised: as far ahead as
/// players fetch, plus two segments.
pub const ROOM_ROUNDS: u64 = 40;

/// A segment is due in memory this long before it must be shown. It must still be sent in this
/// time. What the client still has of the segment before it covers the sending.
pub const SEND_LEAD_NS: u64 = 1_000_000_000;

/// A client's first request for a media kind joins the schedule if it is at most this far from
/// where the client began with another media kind. Segments of sound and pictures of one position
/// begin at different times. Long segments have 10 seconds. Players that request ahead in one media
/// kind first have begun with two segments.
pub const JOIN_NS: u64 = 21_000_000_000;

/// How long after a start or seek a request for what must be shown at once still belongs to it: two
/// rounds for its first requests, and their transmission time.
pub const JOINING_NS: u64 = 3_000_000_000;

/// Requests in a row that come equally far ahead until that distance counts as the reach of the
/// client's buffer. One or two may be chance on a slow link.
pub const STEADY_REQUESTS: u32 = 3;

/// Distances that differ by at most this count as equal: players check their buffers several times
/// a second.
pub const STEADY_WITHIN_NS: u64 = 500_000_000;

/// How much farther ahead than its buffer reaches a client may request. A greater distance is a
/// jump. As for clients that are late, less than two rounds is jitter.
pub const REACH_TOLERATED_NS: u64 = 2_000_000_000;

/// What a player may have buffered although the schedule did not see it, because the player was
/// paused as soon as it began: as much as hls.js buffers by default. Media time that is at most
/// this far before the end of the last request may still be shown.
pub const BUFFER_UNSEEN_NS: u64 = 30_000_000_000;

/// How far apart two positions of a title that is sent as one file may be for one to continue the
/// other: players skip what they have.
pub const POINT_NS: u64 = 8_000_000_000;

/// How late against its schedule a client may request before the schedule is moved: less than two
/// rounds is jitter.
pub const LATE_TOLERATED_NS: u64 = 2_000_000_000;

/// Segments that a client requests in parallel, in any order: more than browsers and programs that
/// download have under way.
pub const PARALLEL_SEGMENTS: u64 = 8;

/// Parts of a track, apart from each other, that are remembered as requested. As many as segments
/// that are requested in parallel.
pub(crate) const FETCHED_PARTS_MAX: usize = PARALLEL_SEGMENTS as usize;

/// Segments of lower renditions that a client must have taken before the difference to the reserved
/// rendition is released.
pub const BELOW_SEGMENTS: u32 = 4;

/// The longest time that a refused client is told to wait: sessions end before their titles do.
pub const RETRY_AFTER_MAX_S: u64 = 300;

/// Rounds of a stream of steady rate that a capacity question assumes: a title of two hours. When
/// spread evenly, a longer title has the same demand.
pub const STEADY_ROUNDS: usize = 7_200;

/// Seconds of a steady stream that one segment holds: what ingest aims at.
pub const STEADY_SEGMENT_S: u64 = 4;
