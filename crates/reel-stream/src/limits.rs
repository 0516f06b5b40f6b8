//! Every bound of this room, with its reason.

/// Stripes a reader keeps planned ahead of the socket while memory allows: a segment of 4 s at 8 Mb/s. They are read in one go, a MiB
/// on each member, which costs an arm as much for the transfer as for the way; more would hold memory that other viewers need.
pub const READER_STRIPES_MAX: usize = 4;

/// Stripes of the smallest window: one is sent while the next one comes.
pub const READER_STRIPES_MIN: usize = 2;

/// Without arms, a stripe that is shown for so many times as long as a read may take is promised memory alone: a client that has nothing in hand
/// waits for the next one for a fifth of the time, and must take it in the rest, a quarter faster than it is shown. Players do: they ask a segment ahead.
pub const STRIPE_ALONE_READS: u64 = 5;

/// Most steps a reader plans ahead; a plain MP4 file is a list of small parts, each a step of its own.
pub const READER_STEPS_MAX: usize = 16;

/// Most chunks handed to one send. The kernel takes 1024 vectors; 64 rows of 44 KiB are 2.8 MiB, more than any socket takes at once.
pub const SEND_CHUNKS_MAX: usize = 64;

/// Most bytes handed to one send, so that one fast client does not hold the core for long.
pub const SEND_BYTES_MAX: usize = 1 << 20;

/// Shards of the table of shared units: enough that cores rarely meet, few enough to walk.
pub const UNIT_SHARDS: usize = 16;

/// Units looked at in search of one to let go: nearly always the first will do. When viewers hold all of them, a search must not
/// keep the other cores from the table.
pub const EVICTION_LOOKS_MAX: usize = 64;

/// Units that were in use when they were looked at, of which each search for one to let go looks at so many again: more than the one that it
/// lets go, so that none of them is forgotten for longer than it takes to let go of as many.
pub const EVICTION_LOOKS_AGAIN: usize = 2;

/// Parts of a body that are looked at to see which objects it is made of: pictures and sound of a film as one file take turns.
pub const AUDIENCE_PARTS_MAX: usize = 16;

/// While no more than so many thousandths of each member are promised, viewers who are alone read units to their ends, so that others can follow
/// them: half of the usual share of the periodic class, since with segments of a few seconds that asks at most twice of what was promised.
pub const ROOM_PERMILLE: u64 = 350;

/// Chains that are looked at in a round for whether they could follow another one: a decision takes some 100 us, and readers wait for it.
pub const MEETINGS_MAX: usize = 32;

/// Rounds that are looked at to see how much of the members is promised: as far ahead as players fetch, and two segments.
pub const ROOM_ROUNDS: u64 = 40;

/// Sessions of one title by one client address, or one network of IPv6 (/64), which a host has for itself; a player that reconnects needs a
/// handful, a house behind one address some hundred at most, a script thousands.
pub const SESSIONS_PER_CLIENT_MAX: usize = 256;

/// One client address may hold no more than one part in so many of all sessions, of whatever titles, where that is more than it may hold of one: there is room
/// for the others. A reverse proxy stands for everybody behind it.
pub const CLIENT_PART: usize = 2;

/// Bytes of a session key before encoding: 128 bits cannot be guessed.
pub const SESSION_KEY_BYTES: usize = 16;

/// Rounds ahead that can be promised: a day. A longer title is refused.
pub const ROUNDS_MAX: u64 = 86_400;

/// How long before it must be shown a segment is due in memory: it must still be sent, and what its player has of the segment before it
/// covers that.
pub const SEND_LEAD_NS: u64 = 1_000_000_000;

/// How long after it was shown a segment that was read ahead is held for a client that does not come for it.
pub const PREFETCH_HELD_NS: u64 = 5_000_000_000;

/// How far from where a client began on one strand its first request on another may be and still join it: segments of sound and pictures
/// of one place begin at different times. Long segments are 10 seconds; players that ask ahead on one strand first have begun with two.
pub const JOIN_NS: u64 = 21_000_000_000;

/// How long after a start or seek what must be shown at once still belongs to it: two rounds for its first requests, and their way.
pub const JOINING_NS: u64 = 3_000_000_000;

/// Requests in a row that come equally far ahead until that counts as the reach of the client's buffer. One or two may be chance on a slow
/// link.
pub const STEADY_ASKS: u32 = 3;

/// What is equally far ahead: players look at their buffers several times a second.
pub const STEADY_WITHIN_NS: u64 = 500_000_000;

/// How much farther ahead than its buffer reaches a client may ask: what is more is a jump. As for those who are late, less than two
/// rounds is jitter.
pub const REACH_TOLERATED_NS: u64 = 2_000_000_000;

/// What a player may have buffered though that was never seen, because it was paused as soon as it began: as much as hls.js buffers by default. What lies that far before the last that
/// was asked for may still be shown.
pub const BUFFER_UNSEEN_NS: u64 = 30_000_000_000;

/// How far apart two places of a film that is sent as one file may be if one follows the other: players leave out what they have.
pub const POINT_NS: u64 = 8_000_000_000;

/// How late against its schedule a client may ask before the schedule is moved: less than two rounds is jitter.
pub const LATE_TOLERATED_NS: u64 = 2_000_000_000;

/// How late a client may be that goes on with what it was promised, if it cannot be promised that later: a line that stood still for a while, a clock or a
/// picture that is slower than the film. Where its promise ends before its film does, so much of the film is read without one.
pub const LATE_STAYS_NS: u64 = 60_000_000_000;

/// How long after it has shown all it asked for a client may be silent before what was reserved for it is given to others. Its session
/// stays; its next request is admitted again.
pub const PAUSE_GRACE_NS: u64 = 5_000_000_000;

/// How much media time a session may be sent as promised beyond its schedule: twice what hls.js buffers, or a minute of a hand that
/// searches. As much comes back as time passes.
pub const ALLOWANCE_NS: u64 = 60_000_000_000;

/// What going elsewhere takes of it, whatever is asked for there: it is asked of the ledger, which others wait for meanwhile.
pub const MOVE_COST_NS: u64 = 1_000_000_000;

/// What a piece of a segment takes of it at least. Who winds is shown eight pictures a second, each of them a piece.
pub const PIECE_COST_NS_MIN: u64 = 125_000_000;

/// Segments that a client must have taken of lower renditions before the difference to the reserved one is given back.
pub const BELOW_SEGMENTS: u32 = 4;

/// Sessions of one client, counted in the same way but over all titles, that are reserved for and have not asked for media yet: a player asks within a second; who opens and
/// drops sessions holds little.
pub const UNSTARTED_PER_CLIENT_MAX: usize = 64;

/// The longest that a refused client is told to wait: sessions end before their titles do.
pub const RETRY_AFTER_MAX_S: u64 = 300;

/// The soonest that something can be due after it is asked for. A client that asks later than its schedule, or takes more slowly, is not
/// served sooner than a disk that keeps its rounds can.
pub const READ_TIME_MIN_NS: u64 = 200_000_000;
/// A member that has answered nobody for so long stalls. A healthy hard disk answers something every 20 ms even with a
/// full queue, and an SSD that collects garbage is back after some tens of them; retries within a drive, a bus reset or a
/// hung controller take seconds.
pub const STALL_NS: u64 = 250_000_000;

/// Reads are read around this long before their deadline at the earliest. A scheduler serves a read in the last round that
/// ends before its deadline, if it is busy: before that, no answer means nothing.
pub const AROUND_LEAD_MAX_NS: u64 = 2 * reel_qos::limits::ROUND_NS;

/// Who could not be read around, for want of memory or because another member is, tries again after this time.
pub const AROUND_AGAIN_NS: u64 = 20_000_000;

/// Reads in a row that had to be read around until their member counts as slow, and that missed their deadlines until their member has too much to do: more than a burst, less than a
/// second of many viewers.
pub const SLOW_READS: u32 = 16;

/// How late a member is, is an average over about so many reads.
pub const LATENESS_READS: u32 = 16;

/// How long a slow member is left alone before it is tried again. Each trial costs its reads twice.
pub const SLOW_AWAY_NS: u64 = 30_000_000_000;

/// A member that lets a read with a deadline wait for so long, while no other member lets one wait for a quarter of it, lags. Two rounds:
/// demand is spread so that a member that keeps up is through with it then.
pub const LAG_NS: u64 = 2 * reel_qos::limits::ROUND_NS;

/// Between two looks at whether a member lags.
pub const LAG_LOOK_NS: u64 = 100_000_000;

/// A reader plans again when it has less than so many stripes: one being sent while the next ones come, all of them in one sweep.
pub const READER_REFILL_STRIPES: usize = 2;

/// Stripes that a reader asks for at once when it plans again.
pub const READER_REFILL: usize = READER_STRIPES_MAX - READER_REFILL_STRIPES + 1;

/// Stripes of a film as one file that are read ahead together for a client that asks for it piece by piece, while memory is plentiful: some
/// 3 MiB on each member, which cost a hard disk 20 ms for the transfer and 7 for the way.
pub const FILE_WINDOW_STRIPES: u64 = 12;

/// The same where no member has an arm: ways cost nothing, memory does.
pub const AHEAD_STRIPES_WITHOUT_ARM: usize = 4;

/// The next window is read when a client has asked for all but so many stripes of the last one...
pub const FILE_WINDOW_LEFT_STRIPES: u64 = 2;

/// ...or when what it has asked for lasts no longer than this: three rounds for the disks.
pub const FILE_WINDOW_LEFT_NS: u64 = 3_000_000_000;

/// Rounds of a stream of steady rate, of which a question for the capacity asks: a film of two hours. Spread evenly, a longer one asks the
/// same.
pub const STEADY_ROUNDS: usize = 7_200;

/// Seconds of it that a segment holds: what ingest aims at.
pub const STEADY_SEGMENT_S: u64 = 4;

/// Stripes of it that are counted, at most, but for two segments: two hours of 100 Mb/s, which take some milliseconds. What is beyond that is
/// more of the same.
pub const STEADY_STRIPES_MAX: u64 = 90_000;

/// Messages that a program's stream can have unread: more than a reader hands out at once, since what is made by the server comes in smaller
/// pieces.
pub const PROGRAM_MESSAGES: u64 = 128;

/// Bytes of a stream's own memory, for what the server makes itself: heads of files. Small, since every stream has it.
pub const PROGRAM_OWN_BYTES: usize = 32 * 1024;

/// The longest message in it: half of it can be read while the other half is written.
pub const PROGRAM_OWN_MESSAGE_BYTES: usize = 16 * 1024;

/// Bytes of text in a message on a program's socket: titles have at most some hundred, reasons for a refusal as many.
pub const PROGRAM_TEXT_BYTES_MAX: usize = 1024;

/// Streams that a program asks for before it has heard of the first of them: answers that do not fit into its socket are never given, and so
/// many do, however long they are.
pub const OPENS_UNANSWERED_MAX: usize = 16;

/// Descriptors that come with a stream: arena, producer's memory, consumer's memory.
pub const PROGRAM_DESCRIPTORS: usize = 3;

/// How much of a stream leaves as one UDP train. A burst of it has to fit in every queue on the way: 10 ms are what a home router holds of
/// a few streams, and at 50 Mb/s they are the longest train there is.
pub const UDP_TRAIN_NS: u64 = 10_000_000;

/// How far behind its time a UDP stream may be and still be caught up with: receivers of pushed streams buffer some hundred milliseconds;
/// what is later than that is late whatever is done.
pub const UDP_BEHIND_NS_MAX: u64 = 200_000_000;

/// How much faster than its rate a UDP stream that is behind may be sent, as a fraction: 5/4, so the longest delay is caught up with in
/// less than a second, and no line needs to be wider than one that carries a stream with a quarter to spare.
pub const UDP_HURRY: (u64, u64) = (5, 4);

/// Bytes that a UDP sender holds beyond those in the kernel: a second at 16 Mb/s, so that it is asked for more in time; it is also what it keeps
/// from the arena.
pub const UDP_QUEUE_BYTES_MAX: usize = 2 << 20;

/// Trains of a UDP sender whose memory the device has not given back: a card does so within a millisecond, and a train goes every few. More
/// would be a device that stands still, and memory lost to it.
pub const UDP_LENT_TRAINS_MAX: usize = 16;

/// The shortest UDP train that is lent to the device instead of being copied: below it, looking after pages costs more than copying bytes
/// (docs/benchmarks.md).
pub const UDP_LENT_BYTES_MIN: usize = 8 << 10;

/// Lent trains in a row that were copied after all until a UDP sender copies them itself, which is cheaper. Single ones are copied for
/// reasons that pass: somebody captured packets.
pub const UDP_COPIED_IN_ROW: u32 = 4;

/// Trains that a UDP sender then copies until it lends one to see whether the way has changed: a probe costs half a copy more, so a thousandth
/// is nothing, and at 10 ms a train it is one every ten seconds.
pub const UDP_COPIES_TO_PROBE: u32 = 1000;

/// Most stripes of a run, whatever the price of its members says: 128 MiB with four data rows.
pub const RUN_STRIPES_MAX: u64 = 128;

/// How many times longer the next run is if the client waited for the disks: two steps to a usual hard disk's, so that short films have it, too.
pub const RUN_GROWTH: u64 = 4;

/// The next run is asked for when such a part of the last one is left (one in so many): it is sent while the arms are with others, and it is what one member
/// may be ahead of another, a way or two, before it has nothing more to do. A quarter was too little beside readers of a lower class, who then took that arm.
pub const RUN_LEFT_PART: u64 = 2;

/// Long runs together hold at most such a part of what readers may hold (one in so many).
pub const RUNS_MEMORY_PART: u64 = 2;

/// Of what readers may hold, one part in so many is not promised to anybody: readers without a promise always have it. As much as those who read ahead
/// leave free for those who begin.
pub const LEFT_OVER_PART: usize = 16;

/// Of what readers may hold, runs leave such a part free (one in so many) for those who come.
pub const RUNS_FREE_PART: usize = 4;

/// Most steps that a reader with a long run plans ahead: a film with pictures and sound is a list of small parts, several to a stripe.
pub const RUN_STEPS_MAX: usize = 512;
