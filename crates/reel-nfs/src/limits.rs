//! Limits and tuning of this crate, each with its reason.

const SECOND_NS: u64 = 1_000_000_000;

// ---- Limits

/// Longest record of a client (RFC 5531, section 11). A client that ignores that nothing can be
/// written sends a megabyte with its request. It is skipped, so that the request can be refused.
pub const RECORD_BYTES_MAX: u64 = (2 << 20) + 4096;

/// Bytes of a record that are kept. The longest request that is read is a name of 255 bytes in a
/// directory, with a handle of 64 bytes, and credentials and a verifier of 400 bytes each.
pub const REQUEST_BYTES_MAX: usize = 2048;

/// Fragments of a record. Clients send one.
pub const FRAGMENTS_MAX: u32 = 64;

/// Most bytes of one READ. Clients ask for less where they are told less.
pub const READ_BYTES_MAX: u32 = 1 << 20;

/// Most bytes of one page of a directory. 16 KiB are about 75 names with their attributes, which
/// take a section of 50 us. Clients ask for 8 KiB.
pub const DIRECTORY_BYTES_MAX: u32 = 16 * 1024;

/// Requests of one connection that are under way at once. Further ones are not read from the
/// socket. A client without a bound of its own would otherwise repeat those that wait for long, and
/// add to the load.
pub const REQUESTS_MAX: usize = 16;

/// Bytes of replies that may be in memory for one connection before its next call is read: four
/// pages of a directory. Bytes of titles do not count here and below.
pub const OWED_BYTES_OF_CONNECTION_MAX: usize = 64 << 10;

/// The same for all connections of one network (an address, or a /64). Beyond it, each of them has
/// [`OWED_BYTES_OF_BUSY_CONNECTION_MAX`]. A client that takes what it asks for is owed some pages
/// at a time.
pub const OWED_BYTES_OF_CLIENT_MAX: usize = 2 << 20;

/// The same for all connections: sixteen networks that take nothing.
pub const OWED_BYTES_MAX: usize = 32 << 20;

/// What may be in memory for a connection before its next call is read if all clients, or its own
/// one, are owed too much. It holds the heads of all reads that one may have under way, so reads of
/// titles are never slowed. A list is made if hardly anything else is owed, so each client is
/// answered.
pub const OWED_BYTES_OF_BUSY_CONNECTION_MAX: usize = 4096;

/// A reply of so many bytes ends its section: a list was made. All others are shorter.
pub const LONG_REPLY_BYTES: usize = 1024;

/// An answer by UDP is at most so many times as long as its question, which may have been sent in
/// the name of another client. The list of all programs is five times as long.
pub const ANSWER_TIMES_MAX: usize = 6;

/// Connections at once.
pub const CONNECTIONS_MAX: usize = 4096;

/// A record must be complete so long after its first byte, and after the last reply was taken...
pub const RECORD_TIME_MAX_NS: u64 = 10 * SECOND_NS;

/// ...and a second later for each so many bytes that it announces. A client behind a slow line that
/// writes in spite of all is refused, and not cut off each time.
pub const RECORD_BYTES_PER_S: u64 = 32 << 10;

/// A client that takes no byte of a reply for so long counts as gone. No client stops reading
/// replies because its viewer pauses: it asks for nothing then.
pub const STALL_TIME_MAX_NS: u64 = 60 * SECOND_NS;

/// A connection without a request is closed after so long. Clients connect again when they need it;
/// Linux itself closes such a connection after five minutes.
pub const IDLE_TIME_MAX_NS: u64 = 900 * SECOND_NS;

/// A title that the server has no time to open is tried again for so long, before its clients are
/// told. The last attempt takes ten seconds at most, and no client gives up, or asks again, within
/// a minute.
pub const OPENING_AGAIN_FOR_NS: u64 = 45 * SECOND_NS;

/// Opened titles that one thread keeps. A title that has been removed keeps its space until then.
pub const OPENED_TITLES_MAX: usize = 64;

/// Reads that are known to be lost. More than that are found to be lost again.
pub const LOST_READS_MAX: usize = 64;

/// Readers of titles in the directory of what is played, all together and those of one address. For
/// those beyond, nothing is promised: each costs some hundred bytes, and sessions have bounds of
/// their own.
pub const READERS_MAX: usize = 4096;
/// See [`READERS_MAX`].
pub const READERS_OF_CLIENT_MAX: usize = 64;

/// A place that a client asked for is held for so long until it reads.
pub const HELD_NS: u64 = 10 * SECOND_NS;

/// Places that are held for one address at once. A client plays one film, and looks at some.
pub const HELD_OF_CLIENT_MAX: usize = 4;

/// What a call that is under way takes beside its bytes: its delivery in the engine.
const CALL_STATE_BYTES: usize = 1024;

/// What a connection takes beside what is owed to it: what was received, a part of a call, and the
/// calls under way.
const CONNECTION_BYTES: usize = 2 * RECEIVE_BYTES + REQUEST_BYTES_MAX + REQUESTS_MAX * CALL_STATE_BYTES;

/// What may be owed to one connection beyond [`OWED_BYTES_MAX`]: calls that wait for a listing, and
/// what is made below the bound of a busy connection.
const OWED_BEYOND_BYTES: usize =
    2 * OWED_BYTES_OF_BUSY_CONNECTION_MAX + REQUEST_BYTES_MAX + DIRECTORY_BYTES_MAX as usize;

/// Memory that connections take at most. The list of titles is not in it.
pub const MEMORY_BYTES_MAX: usize = OWED_BYTES_MAX + CONNECTIONS_MAX * (CONNECTION_BYTES + OWED_BEYOND_BYTES);

// ---- Tuning

/// Promised bytes are critical on the thread from this long before they are due, as by HTTP. From
/// then on they come before lists and all other work without a deadline.
pub const SEND_CRITICAL_NS: u64 = SECOND_NS;

/// A title that the server has no time to open is tried again after so long.
pub const OPENING_AGAIN_NS: u64 = SECOND_NS;

/// A reader that was refused is tried again so often, while it reads.
pub const REFUSED_AGAIN_NS: u64 = 5 * SECOND_NS;

/// A reader that has read nothing for so long is forgotten, and its session ends. What is reserved
/// for it was released long before.
pub const READER_IDLE_NS: u64 = 600 * SECOND_NS;

/// A read that was cut off because bytes are lost is refused for so long. A member that is back is
/// used again soon, and a client that is cut off asks again at once.
pub const LOST_FOR_NS: u64 = 10 * SECOND_NS;

/// Datagrams that are read at once. Others have their turns between them.
pub const DATAGRAMS_PER_TURN_MAX: usize = 16;

/// Replies of one connection for which bytes are read at once. Four reads of 1 MiB are what
/// clients have under way.
pub const REPLIES_FILLED_MAX: usize = 4;

/// A title is kept open for so long after its last read.
pub const OPENED_FOR_NS: u64 = 30 * SECOND_NS;

/// Space for what a client sends at once. A request has about 150 bytes.
pub const RECEIVE_BYTES: usize = 4096;

/// The log says no more than once in so long that another protocol is spoken to the port of NFS,
/// for each protocol.
pub const SAID_AGAIN_NS: u64 = 60 * SECOND_NS;

/// How often the times of connections and titles are compared with their limits.
pub const SWEEP_EVERY_NS: u64 = SECOND_NS;

/// The page size that is preferred for directories: what clients ask for anyway.
pub const DIRECTORY_BYTES_PREFERRED: u32 = 8192;

/// Connections that may wait to be accepted.
pub const LISTEN_BACKLOG: i32 = 128;

/// Connections that send are looked at this often, to learn what the network carries: about as
/// often as a queue in front of a link changes.
pub const LOOK_EVERY_NS: u64 = SECOND_NS / 10;
