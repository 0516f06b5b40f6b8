//! Every bound of this room, with its reason.

/// Longest request head. Browsers send about 1 KiB; cookies of other services on the same host may add some.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most header fields of a request.
pub const HEADERS_MAX: usize = 100;

/// Longest request target.
pub const TARGET_BYTES_MAX: usize = 4 * 1024;

/// A first guess at the size of a request head; it grows up to [`HEAD_BYTES_MAX`].
pub const RECEIVE_BYTES: usize = 4 * 1024;

/// A head must be complete this long after its first byte (slowloris).
pub const HEAD_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// A TLS handshake must be done this long after its connection was accepted: two round trips of a slow link, and a person who is asked
/// about a certificate has a new connection afterwards. Browsers that connect ahead of need make the handshake at once.
pub const HANDSHAKE_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// Buffers in which a core seals responses, of a unit each (264 KiB): one for each client whose socket is full at the moment, and
/// those of a turn of the core. With more slow clients than that, what waits longest is put aside.
pub const SCRATCH_BUFFERS_PER_CORE: usize = 32;

/// The part of a small arena that all cores together seal in at most: one in so many buffers.
pub const SCRATCH_PART: usize = 4;

/// Responses up to this size are sealed outside of the arena: playlists, refusals, redirects. One record.
pub const SEAL_SMALL_BYTES_MAX: usize = 16 * 1024;

/// Sealed bytes of slow clients that a core holds outside of the arena. Beyond that, the slowest is cut off.
pub const PARKED_BYTES_MAX: usize = 64 << 20;

/// A connection without a request is closed after this long.
pub const IDLE_TIME_MAX_NS: u64 = 75 * SECOND_NS;

/// A client that takes not one byte for this long is gone. Long, because a paused player reads nothing.
pub const STALL_TIME_MAX_NS: u64 = 600 * SECOND_NS;

/// Bytes read and thrown away after the last response of a connection. Closing a socket with unread bytes resets it, and the client may lose
/// the end of its response.
pub const LINGER_BYTES_MAX: usize = 64 * 1024;

/// How long a client may take to close its side after its last response.
pub const LINGER_TIME_MAX_NS: u64 = 2 * SECOND_NS;

/// How long responses may take to finish after the server was asked to stop.
pub const DRAIN_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// How often connections are looked over for the times above.
pub const SWEEP_EVERY_NS: u64 = SECOND_NS / 4;

/// How long a client must have been slow before its buffers are taken back for others.
pub const RELEASE_AFTER_NS: u64 = SECOND_NS / 100;

/// How long a client must have taken nothing before its long run is taken back, whether or not others wait: longer than a pause of the network.
pub const RUN_UNTAKEN_NS: u64 = SECOND_NS;

/// How often the cores look whether buffers should be taken back, while somebody waits for memory.
pub const PRESSURE_EVERY_NS: u64 = SECOND_NS / 200;

/// When accepting fails for want of descriptors, it is tried again after this long.
pub const ACCEPT_RETRY_NS: u64 = SECOND_NS / 10;

/// How often a core looks whether something is to be read ahead, while it has such plans. They are made for seconds ahead.
pub const PREFETCH_EVERY_NS: u64 = SECOND_NS / 10;

/// Processor time that sending a MiB costs, reading, checksums and the socket's copy included, for admission until it is learnt: 0.49 to 0.58 seconds
/// per GB were measured with 1200 to 2400 viewers of 5 Mb/s on a network, 0.3 with few connections on loopback (docs/benchmarks.md).
pub const CORE_MIB_NS: u64 = 600_000;

/// Between two looks at what it did cost: a second is enough to tell.
pub const CORE_LOOK_NS: u64 = SECOND_NS;

/// It is learnt while what is sent takes this part of the serve threads or more, by the price so far: below, what threads do beside sending decides.
pub const CORE_BUSY_PART: u64 = 8;

/// The price goes up by this part of what is missing, with each look...
pub const CORE_PRICE_RISE: u64 = 4;

/// ...and down by this part of what is too much: who was let in by a price stays.
pub const CORE_PRICE_FALL: u64 = 32;

/// The price is at most so many times what was measured, and at least that part of it. A small processor takes two to three times as long; beyond, something else
/// keeps the threads busy.
pub const CORE_PRICE_SPAN: u64 = 4;

/// Prices of a member that differ by less are the same: they are corrected all the time, and the ledger counts anew with each change.
pub const PRICE_CHANGE_PERCENT: u128 = 5;

/// The same over TLS, with the seals, which are 0.08 to 0.11 seconds per GB and were 0.16 beside all else (docs/benchmarks.md). Where TLS is spoken, all viewers are counted with it, since a session may be
/// asked for either way.
pub const CORE_MIB_TLS_NS: u64 = 760_000;

/// From how long before they are due on bytes that were promised are critical on a core, before which they go ahead of all that has no deadline: a
/// round, as for disks. Who is further ahead lives on what he has buffered.
pub const SEND_CRITICAL_NS: u64 = SECOND_NS;

/// What an admitted viewer begins with is due so long after he asked: a fifth of a second is what people still take for at once. What people browse
/// has no deadline, so that a crowd of them does not come before him.
pub const BEGIN_DEADLINE_NS: u64 = SECOND_NS / 5;

/// Lines of the access log that may wait for its writer; beyond that they are counted and dropped.
pub const ACCESS_LOG_LINES_MAX: usize = 8 * 1024;

/// Connections that may wait to be accepted: a burst of players at the start of a film.
pub const LISTEN_BACKLOG: i32 = 1024;

/// Stripes that one ingest is given memory for at once: the pictures keep their writer full, and eight tracks beside them are
/// small and rarely have more than one stripe under way. A film that wants more is stored all the same, but waits for buffers.
pub const STRIPES_PER_INGEST: usize = reel_volume::limits::WRITER_STRIPES_IN_FLIGHT + 8;

/// The least that is sent without a copy: below, asking for the pages and hearing of them again costs as much as copying does (about
/// 10 kB, msg_zerocopy.rst of the kernel).
pub const ZERO_COPY_BYTES_MIN: usize = 16 * 1024;

/// The least mean size of the pieces of such a send: a segment of the network has room for 17, and 64 KiB.
pub const ZERO_COPY_CHUNK_BYTES_MIN: usize = 4 * 1024;

/// Bytes of the send by which a socket is tried: a full segment, and little if it is copied after all.
pub const ZERO_COPY_PROBE_BYTES: usize = 64 * 1024;

/// After a try in vain a socket is tried again when so many bytes were copied: the try is then less than a hundredth of them.
pub const ZERO_COPY_AGAIN_BYTES: u64 = 16 << 20;

/// And not sooner than this: who listens to the network, and so makes it copy, does so for seconds.
pub const ZERO_COPY_AGAIN_NS: u64 = SECOND_NS;

/// Both double with each try in vain, so often: 16 GiB and a quarter of an hour, for sockets that never change.
pub const ZERO_COPY_AGAIN_DOUBLINGS_MAX: u32 = 10;

/// Bytes that one socket may have been sent without a copy and not acknowledged: the largest window a kernel gives by itself
/// (tcp_wmem). What is more is copied.
pub const LENT_BYTES_MAX: u64 = 4 << 20;

/// Such sends of one socket: each has an entry in the ring. As many as a window has, one for each super-segment.
pub const LENT_SENDS_MAX: usize = 96;

/// What TCP queues of a send at once, and a device takes at once, at most.
pub const SUPER_SEGMENT_BYTES_MAX: usize = 64 * 1024;

/// How often such a piece may be cut by pacing until it does not matter that its rest, if it was not copied, goes alone.
pub const ZERO_COPY_CUTS_MAX: usize = 3;

/// Sends after which a socket is asked again what it gives the device at once: its rate changes within round trips, and asking costs a
/// microsecond.
pub const SEGMENT_ASKED_SENDS: u32 = 16;

/// The part of the arena that all sockets together may have been lent: one buffer in so many. Nobody can take it back before the peers
/// have acknowledged, so readers are never promised it; when it is out, the kernel copies. Little, because what lending saves is
/// processor time, which has never been what runs out first (docs/benchmarks.md, `viewers`).
pub const LENT_PART: usize = 64;

/// Buffers of the smallest arena of which some are lent (132 MiB with the default unit): below, a few viewers and programs need all of it.
pub const LENT_ARENA_BUFFERS_MIN: usize = 512;

/// Connections that may wait for the control plane.
pub const HANDOVERS_MAX: usize = 1024;

/// How often the files of a certificate are looked at. Renewed ones come weeks before the old ones end.
pub const CERTIFICATE_LOOK_S: u64 = 5;

/// A certificate with less than this left is named in the log every day: those who renew by themselves do so with a month left.
pub const CERTIFICATE_WARN_S: i64 = 14 * 86_400;

/// Largest file of certificates or keys that is read: sixteen certificates of RSA with 4096 bits are a tenth of it.
pub const CERTIFICATE_FILE_BYTES_MAX: u64 = 1 << 20;

/// Titles that may wait to be opened.
pub const OPENINGS_MAX: usize = 4 * 1024;

/// Threads that open titles; each waits for a few reads, on a busy hard disk for half a second. Two opened some ten titles a second there.
pub const OPENERS: usize = 8;

/// Programs on this machine that may be connected at once.
pub const PROGRAMS_MAX: usize = 64;

/// Streams of one program. Each has 44 KiB of memory of its own and, while it is read, a window of stripes of the arena.
pub const PROGRAM_STREAMS_MAX: usize = 64;

/// Streams of programs may hold at most one part in so many of what readers may: a program's memory cannot be taken back at once, so the rest
/// is kept for viewers.
pub const PROGRAM_MEMORY_SHARE: usize = 2;

/// Messages that one program is heard in a row.
pub const PROGRAM_MESSAGES_PER_TURN: usize = 16;

/// How often the streams of programs are looked after: a reader that takes less than half its window (1 MiB) in this time, 26 MB/s, never has
/// to ring.
pub const PROGRAM_TICK_NS: u64 = SECOND_NS / 50;

/// How long a program may hold messages and give none back, unless sessions are forgotten sooner. Long, because a paused player reads nothing.
pub const PROGRAM_HELD_MAX_NS: u64 = STALL_TIME_MAX_NS;

/// The same while others wait for memory: its memory cannot be taken back and read again as a socket's can, since it looks at it.
pub const PROGRAM_HELD_UNDER_PRESSURE_MAX_NS: u64 = 5 * SECOND_NS;

const SECOND_NS: u64 = 1_000_000_000;

/// Threads that open titles before anybody asks for them, for a while after the start: their reads go to different members.
pub const OPENERS_AHEAD: usize = 4;
