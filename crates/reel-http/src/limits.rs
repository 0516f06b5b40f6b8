//! Every bound of this room, with its reason.

/// Longest request head. Browsers send about 1 KiB; cookies of other services on the same host may
/// add some.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most header fields of a request.
pub const HEADERS_MAX: usize = 100;

/// Longest request target.
pub const TARGET_BYTES_MAX: usize = 4 * 1024;

/// A first guess at the size of a request head; it grows up to [`HEAD_BYTES_MAX`].
pub const RECEIVE_BYTES: usize = 4 * 1024;

/// A head must be complete this long after its first byte (slowloris).
pub const HEAD_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// A TLS handshake must be done this long after its connection was accepted: two round trips of a
/// slow link, and a person who is asked about a certificate has a new connection afterwards.
/// Browsers that connect ahead of need make the handshake at once.
pub const HANDSHAKE_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// Responses up to this size are sealed outside of the arena: playlists, refusals, redirects. One
/// record.
pub const SEAL_SMALL_BYTES_MAX: usize = 16 * 1024;

/// Sealed bytes of slow clients that a core holds outside of the arena. Beyond that, the slowest is
/// cut off.
pub const PARKED_BYTES_MAX: usize = 64 << 20;

/// A connection without a request is closed after this long.
pub const IDLE_TIME_MAX_NS: u64 = 75 * SECOND_NS;

/// A client that takes not one byte for this long is gone. Long, because a paused player reads
/// nothing.
pub const STALL_TIME_MAX_NS: u64 = 600 * SECOND_NS;

/// Bytes read and thrown away after the last response of a connection. Closing a socket with unread
/// bytes resets it, and the client may lose the end of its response.
pub const LINGER_BYTES_MAX: usize = 64 * 1024;

/// How long a client may take to close its side after its last response.
pub const LINGER_TIME_MAX_NS: u64 = 2 * SECOND_NS;

/// How long responses may take to finish after the server was asked to stop.
pub const DRAIN_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// How often connections are looked over for the times above.
pub const SWEEP_EVERY_NS: u64 = SECOND_NS / 4;

/// When accepting fails for want of descriptors, it is tried again after this long.
pub const ACCEPT_RETRY_NS: u64 = SECOND_NS / 10;

/// From how long before they are due on bytes that were promised are critical on a core, before
/// which they go ahead of all that has no deadline: a round, as for disks. Who is further ahead
/// lives on what he has buffered.
pub const SEND_CRITICAL_NS: u64 = SECOND_NS;

/// Lines of the access log that may wait for its writer; beyond that they are counted and dropped.
pub const ACCESS_LOG_LINES_MAX: usize = 8 * 1024;

/// Connections that may wait to be accepted: a burst of players at the start of a film.
pub const LISTEN_BACKLOG: i32 = 1024;

/// The least that is sent without a copy: below, asking for the pages and hearing of them again
/// costs as much as copying does (about 10 kB, msg_zerocopy.rst of the kernel).
pub const ZERO_COPY_BYTES_MIN: usize = 16 * 1024;

/// The least mean size of the pieces of such a send: a segment of the network has room for 17, and
/// 64 KiB.
pub const ZERO_COPY_CHUNK_BYTES_MIN: usize = 4 * 1024;

/// Bytes of the send by which a socket is tried: a full segment, and little if it is copied after
/// all.
pub const ZERO_COPY_PROBE_BYTES: usize = 64 * 1024;

/// After a try in vain a socket is tried again when so many bytes were copied: the try is then less
/// than a hundredth of them.
pub const ZERO_COPY_AGAIN_BYTES: u64 = 16 << 20;

/// And not sooner than this: who listens to the network, and so makes it copy, does so for seconds.
pub const ZERO_COPY_AGAIN_NS: u64 = SECOND_NS;

/// Both double with each try in vain, so often: 16 GiB and a quarter of an hour, for sockets that
/// never change.
pub const ZERO_COPY_AGAIN_DOUBLINGS_MAX: u32 = 10;

/// Bytes that one socket may have been sent without a copy and not acknowledged: the largest window
/// a kernel gives by itself (tcp_wmem). What is more is copied.
pub const LENT_BYTES_MAX: u64 = 4 << 20;

/// Such sends of one socket: each has an entry in the ring. As many as a window has, one for each
/// super-segment.
pub const LENT_SENDS_MAX: usize = 96;

/// What TCP queues of a send at once, and a device takes at once, at most.
pub const SUPER_SEGMENT_BYTES_MAX: usize = 64 * 1024;

/// How often such a piece may be cut by pacing until it does not matter that its rest, if it was
/// not copied, goes alone.
pub const ZERO_COPY_CUTS_MAX: usize = 3;

/// Sends after which a socket is asked again what it gives the device at once: its rate changes
/// within round trips, and asking costs a microsecond.
pub const SEGMENT_ASKED_SENDS: u32 = 16;

/// Connections that may wait for the control plane.
pub const HANDOVERS_MAX: usize = 1024;

/// How often the files of a certificate are looked at. Renewed ones come weeks before the old ones
/// end.
pub const CERTIFICATE_LOOK_S: u64 = 5;

/// A certificate with less than this left is named in the log every day: those who renew by
/// themselves do so with a month left.
pub const CERTIFICATE_WARN_S: i64 = 14 * 86_400;

/// Largest file of certificates or keys that is read: sixteen certificates of RSA with 4096 bits
/// are a tenth of it.
pub const CERTIFICATE_FILE_BYTES_MAX: u64 = 1 << 20;

/// Titles that may wait to be opened.
pub const OPENINGS_MAX: usize = 4 * 1024;

/// Threads that open titles; each waits for a few reads, on a busy hard disk for half a second. Two
/// opened some ten titles a second there.
pub const OPENERS: usize = 8;

const SECOND_NS: u64 = 1_000_000_000;

/// Threads that open titles before anybody asks for them, for a while after the start: their reads
/// go to different members.
pub const OPENERS_AHEAD: usize = 4;
