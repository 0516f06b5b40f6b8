//! Limits and tuning of this crate, each with its reason.

const SECOND_NS: u64 = 1_000_000_000;

// ---- Limits

/// Buffers in which a core seals responses, of a unit each (264 KiB): one for each client whose
/// socket is full at the moment, and those of a turn of the core. With more slow clients than that,
/// the responses that wait longest are put aside.
pub const SCRATCH_BUFFERS_PER_CORE: usize = 32;

/// The part of a small arena in which all cores together seal at most: one in so many buffers.
pub const SCRATCH_PART: usize = 4;

/// The part of the arena that may be lent to all sockets together: one buffer in so many. It cannot
/// be taken back before the peers have acknowledged, so it is never promised to readers. When it is
/// used up, the kernel copies. The part is small, because lending saves processor time, which has
/// never been the first resource to run out (docs/benchmarks.md, `viewers`). With a quarter, a
/// quarter fewer viewers were admitted (docs/design/sending.md).
pub const LENT_PART: usize = 64;

/// Clients whose lines are compared to learn what a link carries. With more clients than that, the
/// one that was silent for longest is forgotten.
pub const LEARN_CLIENTS_MAX: usize = 4096;

/// Sessions for which data was late that are remembered: more than fit on a screen, few enough to
/// be sent with each state of the dashboard.
pub const LATE_VIEWERS_MAX: usize = 32;

// ---- Tuning

/// Units that come late for one session within this time are shown as one event: a member that
/// hesitates delays several units of each viewer.
pub const LATE_JOIN_NS: u64 = 10 * SECOND_NS;

/// How long a client must have been slow before its buffers are taken back for others.
pub const RELEASE_AFTER_NS: u64 = SECOND_NS / 100;

/// How long a client must have taken nothing before its long run is taken back, whether others wait
/// or not: longer than a pause of the network.
pub const RUN_UNTAKEN_NS: u64 = SECOND_NS;

/// How often the cores check whether buffers should be taken back, while a reader waits for memory.
pub const PRESSURE_EVERY_NS: u64 = SECOND_NS / 200;

/// How often a core checks whether something is to be read ahead, while it has such plans. They are
/// made for seconds ahead.
pub const PREFETCH_EVERY_NS: u64 = SECOND_NS / 10;

/// Processor time that sending a MiB costs, with reading, checksums and the socket's copy.
/// Admission uses it until the price is learnt. 0.49 to 0.58 seconds per GB were measured with 1200
/// to 2400 viewers of 5 Mb/s on a network, and 0.3 with few connections on loopback
/// (docs/benchmarks.md).
pub const CORE_MIB_NS: u64 = 600_000;

/// The time between two measurements of the cost: a second is long enough.
pub const CORE_LOOK_NS: u64 = SECOND_NS;

/// The price is learnt while sending takes this part of the serve threads or more, by the price so
/// far. Below that, what threads do beside sending decides the result.
pub const CORE_BUSY_PART: u64 = 8;

/// With each measurement the price rises by this part of the difference to a higher cost...
pub const CORE_PRICE_RISE: u64 = 4;

/// ...and falls by this part of the difference to a lower cost. A session that was admitted by a
/// price stays.
pub const CORE_PRICE_FALL: u64 = 32;

/// The price is at most so many times what was measured, and at least one part in so many of it. A
/// small processor takes two to three times as long. Beyond that, other work keeps the threads
/// busy.
pub const CORE_PRICE_SPAN: u64 = 4;

/// What is promised at a price that was found in service, in thousandths of that price. It is an
/// average of seconds, and measured prices cover the slowest windows.
pub const LEARNT_PRICE_PERMILLE: u32 = 1250;

/// Prices of a member that differ by less are treated as equal: they are corrected all the time,
/// and the ledger computes everything again with each change.
pub const PRICE_CHANGE_PERCENT: u128 = 5;

/// [`CORE_MIB_NS`] over TLS, with sealing. Sealing takes 0.08 to 0.11 seconds per GB, and took 0.16
/// beside all other work (docs/benchmarks.md). A server with TLS counts all viewers with this cost,
/// because a session may be requested either way.
pub const CORE_MIB_TLS_NS: u64 = 760_000;

/// Most bytes of the head of a fragment that are read to know the times of its samples: 12 for each
/// of some hundred.
pub const STEP_HEAD_BYTES_MAX: u64 = 64 * 1024;

/// A message of a stream in step begins at most so much later in media time than the one before:
/// half of the 80 ms by which people do not notice that lips and voice differ (Halvorsen).
pub const STEP_MESSAGE_NS: u64 = SECOND_NS / 25;

/// The first bytes of an admitted session are due so long after its request: people still perceive
/// a fifth of a second as immediate. Requests of interactive clients have no deadline, so that a
/// crowd of them does not come before an admitted session.
pub const BEGIN_DEADLINE_NS: u64 = SECOND_NS / 5;

/// Stripes for which one ingest gets memory at once. The pictures keep their writer full. Eight
/// tracks beside them are small and rarely have more than one stripe under way. A title that needs
/// more is stored all the same, but waits for buffers.
pub const STRIPES_PER_INGEST: usize = reel_volume::limits::WRITER_STRIPES_IN_FLIGHT + 8;

/// Buffers of the smallest arena from which some are lent (132 MiB with the default unit). In a
/// smaller one, a few viewers and programs need all of it.
pub const LENT_ARENA_BUFFERS_MIN: usize = 512;

/// Stripes of a title as one file that are read ahead together for a client that requests it piece
/// by piece, while there is plenty of memory. They are some 3 MiB on each member, which cost a hard
/// disk 20 ms for the transfer and 7 ms for the seek. Without windows, each piece cost a seek on
/// each member, and five modelled disks gave 115 MB/s.
pub const FILE_WINDOW_STRIPES: u64 = 12;

/// The next window is read when a client has requested all but so many stripes of the last one...
pub const FILE_WINDOW_LEFT_STRIPES: u64 = 2;

/// ...or when what it has requested lasts no longer than this: three rounds for the disks.
pub const FILE_WINDOW_LEFT_NS: u64 = 3_000_000_000;

/// What deliveries may use of a link's rate, in thousandths. A full packet of 1514 bytes carries
/// 1448 of them. The rest lets the queue behind the link run empty after every burst.
pub const LINK_PAYLOAD_PERMILLE: u64 = 940;

/// Clients whose turns on the link are remembered beside those that wait. Forgetting a client that
/// has asked for nothing since the last grant changes nothing.
pub const TURNS_KEPT: usize = 256;

/// How long one grant keeps the link busy: a queue behind the link then holds that much of what was
/// not promised, and little more.
pub const LINK_GRANT_NS: u64 = SECOND_NS / 500;

/// The least that is granted at once, on a slow link: less would cost more processor time than it
/// helps...
pub const LINK_GRANT_BYTES_MIN: u64 = 16 << 10;

/// ...and the most, on a fast link: as much as one send takes.
pub const LINK_GRANT_BYTES_MAX: u64 = 1 << 20;

/// Unused time of a link is saved up for so long: as long as threads need to notice that there is
/// some.
pub const LINK_BURST_NS: i64 = 2_000_000;

/// Bytes that are due hold all others up for at most so long. More of them than the link carries
/// are no reason to stop everything else: the ledger counts what is promised.
pub const LINK_DEBT_NS_MAX: i64 = 50_000_000;

/// Promised bytes that are due within this time go before all others. A player has requested them
/// seconds before it shows them.
pub const LINK_URGENT_NS: u64 = SECOND_NS;

/// A thread whose deliveries wait for a link looks for grants after at least this time...
pub const LINK_LOOK_MIN_NS: u64 = 250_000;

/// ...and at most this time.
pub const LINK_LOOK_MAX_NS: u64 = 2_000_000;

/// Packets of a connection wait in a queue if its round trip is longer than the shortest one by
/// more than this. A shared machine delays an answer by up to 8 ms. Congestion control that is kind
/// to others aims at 25 to 100 ms (RFC 6817).
pub const FLOW_QUEUE_NS: u64 = SECOND_NS / 100;

/// A link is also full if more than this part of the bytes is sent again, in thousandths: a short
/// queue loses packets instead of delaying them.
pub const FLOW_LOSS_PERMILLE: u64 = 20;

/// Connections are compared over windows of this length: two reports of each connection.
pub const LEARN_WINDOW_NS: u64 = SECOND_NS / 5;

/// The link carries what was acknowledged in so many windows: a second.
pub const LEARN_MEAN_WINDOWS: usize = 5;

/// Promised bytes must be in danger for so many windows in a row before a rate is learnt, and a
/// queue must stand for as many before a lower one is. One could be a pause of the network, or a
/// burst in which little was sent. The first and the last of them may be full only in part.
pub const LEARN_AFTER_WINDOWS: usize = 3;

/// Promised bytes that wait in a socket and are due within this time are in danger. That leaves
/// time to learn the rate, and for what downloads have in their sockets.
pub const LEARN_DANGER_NS: u64 = 3 * SECOND_NS;

/// The link is full if this part of the clients sees a queue. A client with a slow line sees one of
/// its own.
pub const LEARN_STANDING_PERCENT: usize = 80;

/// The part of what a full link carries that is used afterwards, in thousandths. The queue runs
/// empty meanwhile.
pub const LEARN_PART_PERMILLE: u64 = 950;

/// The rate is raised by one part in so many in each window: a quarter in three seconds.
pub const LEARN_STEP_DIVISOR: u64 = 64;

/// If the link was not full for this long, each step is twice as large as the one before...
pub const LEARN_CALM_NS: u64 = 5 * SECOND_NS;

/// ...up to one part in so many.
pub const LEARN_STEP_DIVISOR_MIN: u64 = 4;

/// A rate is forgotten if the link was not full for this long. What it carries may have changed.
pub const LEARN_KEEP_NS: u64 = 60 * SECOND_NS;

/// The shortest round trip of a client is forgotten after this time, because paths change.
pub const LEARN_ROUND_TRIP_KEEP_NS: u64 = 600 * SECOND_NS;

/// The least rate that is learnt, in bytes a second: that of sound alone. Every link carries that.
pub const LEARN_RATE_MIN: u64 = 8_000;

/// A queue that so many clients see at once limits all of them. What one client sees limits that
/// client alone, and is forgotten when another one is sent something: it can acknowledge late on
/// purpose.
pub const LEARN_SHARED_CLIENTS: usize = 2;

/// A learnt rate counts in admission if so many clients have seen the queue at once. Two clients
/// with slow lines of their own are common, and must not have others refused.
pub const LEARN_COUNTED_CLIENTS: usize = 3;

/// Processor time of a run of a transfer (N): a third of what the kernel gives a thread in one go,
/// so that a run is seldom cut. A pause costs a timer, some 10 us.
pub const RUN_CORE_NS: u64 = SECOND_NS / 1000;

/// Bytes that a run may have: what one send of a connection has, at least, and at most a second of
/// a link of 64 Mb/s.
pub const RUN_SENT_BYTES: std::ops::RangeInclusive<u64> = (256 << 10)..=(8 << 20);

/// How often it is looked whether transfers leave other programs enough. The kernel counts the
/// time of processors in hundredths of a second.
pub const TRANSFER_LOOK_NS: u64 = SECOND_NS / 2;

/// Processors of which this part is idle lack nothing, and programs that take less of them need
/// nothing.
pub const TRANSFER_IDLE_PART: u64 = 16;

/// A pause becomes so many times longer with each look, or shorter where nothing else runs...
pub const PAUSE_GROWTH: u64 = 2;

/// ...or shorter by this part of it while processors are idle...
pub const PAUSE_FALL_IDLE: u64 = 4;

/// ...or by this part, to see whether that is enough.
pub const PAUSE_FALL: u64 = 8;

/// The shortest pause (d). A timer is not exact to less than that.
pub const PAUSE_MIN_NS: u64 = SECOND_NS / 10_000;

/// The longest pause: a transfer still has a fiftieth of a processor.
pub const PAUSE_MAX_NS: u64 = 50 * RUN_CORE_NS;

/// What is due within this time is not held back for a train.
pub const PACE_LEAD_NS: u64 = 3 * SECOND_NS;

/// Least trains in a second of what is sent at a promised rate and no faster. A smaller train is
/// closer to the promise, and costs more system calls.
pub const STEADY_TRAINS_PER_S: u64 = 10;

/// Until a client has this much ahead, it fills its buffer...
pub const PACE_UNTIL_LEAD_NS: u64 = 12 * SECOND_NS;

/// ...and is sent this part of what it plays, in percent...
pub const PACE_PART_PERCENT_FILLING: u64 = 300;

/// ...and afterwards this part. A player measures it as the rate of its line, and must not choose a
/// lower rendition because of it.
pub const PACE_PART_PERCENT: u64 = 150;

/// A connection begins with trains of this size: what a connection may send at first (RFC 6928)...
pub const TRAIN_BYTES_MIN: u64 = 16 << 10;

/// ...and while nothing is lost they grow to this one: what TCP gives a device at once.
pub const TRAIN_BYTES_MAX: u64 = 64 << 10;

/// So many trains without a loss are followed by longer ones.
pub const TRAINS_UNTIL_LONGER: u64 = 8;

/// A path that has to be sent more than this part again, in thousandths, although trains are as
/// short as they get, needs a congestion control that does not take each loss for a full queue.
/// With a round trip of 50 ms, Reno carries 4 Mb/s at this loss (Mathis and others, 1997), and
/// CUBIC hardly more.
pub const LOSSY_PERMILLE: u64 = 5;

/// Losses of a connection are weighed over at least so many bytes.
pub const LOSSY_AFTER_BYTES: u64 = 1 << 20;

/// Fragments of a title whose playlists a serving thread writes itself: at a microsecond each, one
/// section of a task. Those of longer titles are written by threads of their own.
pub const TEXT_FRAGMENTS_AT_ONCE: usize = 200;

/// How long before its first packet a stream that is sent by the clock begins to be read. Its first
/// stripe is then read in time that is reserved for it, as each of the others is.
pub const PUSH_LEAD_NS: u64 = 2_000_000_000;

/// Bytes of headers that the network carries with each packet that is sent by the clock: RTP (12),
/// UDP (8) and IPv6 (40).
pub const PUSHED_HEADER_BYTES: usize = 60;

/// Bytes of the header of a FEC packet behind that of RTP (SMPTE ST 2022-1).
pub const FEC_HEADER_BYTES: usize = 16;

/// For how many rounds a viewer of a poured stream is reserved the network at once: twelve hours.
/// A viewer that stays is reserved more when half of them are over.
pub const POURED_ROUNDS: usize = 43_200;

/// What a viewer of a poured stream may hold of it beyond the stream's window: what is appended to
/// a response at once.
pub const POURED_HELD_BYTES: u64 = 64 << 10;
