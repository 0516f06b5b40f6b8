//! Limits and tuning of this crate, each with its reason.

const SECOND_NS: u64 = 1_000_000_000;

// ---- Limits

/// Longest request head. Browsers send about 1 KiB; cookies of other services on the same host may
/// add some.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most header fields of a request.
pub const HEADERS_MAX: usize = 100;

/// Longest request target.
pub const TARGET_BYTES_MAX: usize = 4 * 1024;

/// A head must be complete this long after its first byte (slowloris).
pub const HEAD_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// A TLS handshake must be finished this long after its connection was accepted. It takes two round
/// trips, also of a slow link. A browser that asks a person about a certificate opens a new
/// connection afterwards. Browsers that connect in advance make the handshake at once.
pub const HANDSHAKE_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// Handshakes of one thread that are under way at once. Each may hold 64 KiB of messages of its
/// client, so all of them 64 MiB. A handshake that a client continues takes two round trips.
pub const HANDSHAKES_MAX: usize = 1024;

/// Connections beyond those there may be that are held aside until their requests are known, since
/// `/healthz`, `/readyz` and `/metrics` are answered in any case. A request for one of them arrives
/// within milliseconds, and a connection that is silent ends for a new one.
pub const ASIDE_CONNECTIONS_MAX: usize = 32;

/// How long each step of a connection that is held aside may take: its handshake, the first byte of
/// its request, the rest of the head. A health check is one packet.
pub const ASIDE_TIME_MAX_NS: u64 = 2 * SECOND_NS;

/// Sealed bytes of slow clients that a core holds outside of the arena. Beyond that, the slowest
/// client is cut off.
pub const PARKED_BYTES_MAX: usize = 64 << 20;

/// A connection without a request is closed after this long.
pub const IDLE_TIME_MAX_NS: u64 = 75 * SECOND_NS;

/// A client that accepts no byte for this long counts as gone. The time is long because a paused
/// player reads nothing.
pub const STALL_TIME_MAX_NS: u64 = 600 * SECOND_NS;

/// Bytes read and discarded after the last response of a connection. Closing a socket with unread
/// bytes resets it, and the client may lose the end of its response.
pub const LINGER_BYTES_MAX: usize = 64 * 1024;

/// How long a client may take to close its side after its last response.
pub const LINGER_TIME_MAX_NS: u64 = 2 * SECOND_NS;

/// Clients that read titles as files: all together, and those of one address. For those beyond,
/// nothing is promised. Each costs some hundred bytes, and sessions have bounds of their own.
pub const FILE_READERS_MAX: usize = 4096;

/// See [`FILE_READERS_MAX`].
pub const FILE_READERS_OF_CLIENT_MAX: usize = 64;

/// Bytes that are read for a client that may begin to play, before the class of downloads is used:
/// a second of the largest films.
pub const LOOK_BYTES_MAX: u64 = 16 << 20;

/// Connections that may wait to be accepted: a burst of players at the start of a title.
pub const LISTEN_BACKLOG: i32 = 1024;

/// Bytes of one socket that may be sent without a copy and not yet acknowledged: the largest window
/// that a kernel gives by itself (tcp_wmem). More bytes are copied.
pub const LENT_BYTES_MAX: u64 = 4 << 20;

/// Zero-copy sends of one socket at a time, because each has an entry in the ring. As many as a
/// window has super-segments.
pub const LENT_SENDS_MAX: usize = 96;

/// Connections that may wait for the control plane.
pub const HANDOVERS_MAX: usize = 1024;

/// Largest file of certificates or keys that is read: sixteen certificates of RSA with 4096 bits
/// are a tenth of it.
pub const CERTIFICATE_FILE_BYTES_MAX: u64 = 1 << 20;

/// Connections of one thread at which one look for the state of the network is taken. Each takes
/// about a microsecond.
pub const PATHS_MAX: usize = 256;

/// A response with a longer body is not to be taken ahead of its client by a reverse proxy: nginx
/// takes a gigabyte, and then nothing until its client has it. Segments are shorter, and a proxy
/// may keep them.
pub const PROXY_TAKES_BYTES_MAX: u64 = 16 << 20;

// ---- Tuning

/// A player may follow the redirect to its session for so long without asking again: the longest
/// films. A session that ended meanwhile is opened again by its address.
pub const REDIRECT_LASTS_S: u64 = 6 * 3600;

/// A client that reads a file for so long at the pace of the film plays it.
pub const FILE_LASTS_NS: u64 = 10 * SECOND_NS;

/// The most of a film that a player reads in a time, as a multiple of that time. A player that
/// fills its buffer reads more, and is known later.
pub const FILE_PACE_MAX: u64 = 2;

/// A client that reads a file for so long by a name of what is played plays it. Probes and
/// thumbnailers are done before.
pub const PLAY_LASTS_NS: u64 = SECOND_NS;

/// A client that has read less of a film than this in that time looks at it.
pub const PLAYED_MIN_NS: u64 = SECOND_NS;

/// A range that begins so far from where a client has read is a jump, and what it read before does
/// not count. Players read the pictures and the sound of a few seconds in turn.
pub const JUMP_NS_MIN: u64 = 10 * SECOND_NS;

/// Responses that overlap for no longer than this are those of one reader who changes the place.
pub const OVERLAP_NS_MAX: u64 = SECOND_NS;

/// A reader that was refused is tried again so often, while it reads.
pub const REFUSED_AGAIN_NS: u64 = 5 * SECOND_NS;

/// A reader without a response under way is forgotten after so long, and its session ends. A player
/// that seeks asks again at once, and one that reads in pieces within its buffer.
pub const FILE_READER_IDLE_NS: u64 = 60 * SECOND_NS;

/// How often a response is looked at to learn whether its client plays.
pub const LOOK_EVERY_NS: u64 = SECOND_NS / 2;

/// A first guess at the size of a request head; it grows up to [`HEAD_BYTES_MAX`].
pub const RECEIVE_BYTES: usize = 4 * 1024;

/// Responses up to this size are sealed outside of the arena: playlists, refusals, redirects. One
/// record.
pub const SEAL_SMALL_BYTES_MAX: usize = 16 * 1024;

/// How often connections are checked for the times that are limits.
pub const SWEEP_EVERY_NS: u64 = SECOND_NS / 4;

/// Reserved bytes are critical on a core from this long before they are due. From then on they come
/// before all work without a deadline. It is one round, as for disks. A client whose next bytes are
/// due later plays what it has buffered.
pub const SEND_CRITICAL_NS: u64 = SECOND_NS;

/// The smallest send without a copy. Below about 10 kB (msg_zerocopy.rst of the kernel), pinning
/// the pages and receiving the completion cost as much as copying.
pub const ZERO_COPY_BYTES_MIN: usize = 16 * 1024;

/// The smallest mean size of the pieces of a zero-copy send: a network segment has room for 17
/// pieces and 64 KiB.
pub const ZERO_COPY_CHUNK_BYTES_MIN: usize = 4 * 1024;

/// Bytes of the send that probes a socket: a full segment, which costs little if it is copied after
/// all.
pub const ZERO_COPY_PROBE_BYTES: usize = 64 * 1024;

/// A socket that failed a probe is probed again after this many copied bytes: the probe is then
/// less than a hundredth of them.
pub const ZERO_COPY_AGAIN_BYTES: u64 = 16 << 20;

/// A socket is not probed again sooner than this: a program that listens to the network with a
/// packet socket, and so makes the kernel copy, does so for seconds.
pub const ZERO_COPY_AGAIN_NS: u64 = SECOND_NS;

/// Both limits double with each failed probe, this many times: up to 16 GiB and a quarter of an
/// hour, for sockets that never change.
pub const ZERO_COPY_AGAIN_DOUBLINGS_MAX: u32 = 10;

/// The most that TCP queues of a send at once, which is also the most that a device takes at once.
pub const SUPER_SEGMENT_BYTES_MAX: usize = 64 * 1024;

/// How often pacing may cut such a piece before its remainder no longer matters. The remainder of a
/// piece that was not copied is sent alone. Where pacing cuts less often, but does cut, such a send
/// needed a quarter more processor time than a copy (docs/design/sending.md).
pub const ZERO_COPY_CUTS_MAX: usize = 3;

/// Sends after which a socket is asked again how much TCP gives the device at once. The socket's
/// rate changes within round trips, and asking costs a microsecond.
pub const SEGMENT_ASKED_SENDS: u32 = 16;

/// How often the files of a certificate are checked. A renewed certificate arrives weeks before the
/// old one expires.
pub const CERTIFICATE_LOOK_S: u64 = 5;

/// A certificate with less than this left is named in the log every day: programs that renew
/// certificates do so a month before the end.
pub const CERTIFICATE_WARN_S: i64 = 14 * 86_400;

/// Connections that send are looked at this often, to learn what the network carries: about as
/// often as a queue in front of a link changes.
pub const PATHS_EVERY_NS: u64 = 100_000_000;
