//! Limits and tuning of the control plane, each with its reason.

use std::time::Duration;

// ---- Limits

/// Connections served at once. People and scripts, not viewers: requests for media do not arrive
/// here.
pub const CONNECTIONS_MAX: usize = 512;

/// Connections that one client may have as long as any place is free: a browser opens six.
pub const CLIENT_CONNECTIONS_MIN: usize = 8;

/// Connections beyond those, which are answered that there are too many, or shown the state of the
/// server: few, since each costs a descriptor. One more is closed without an answer.
pub const REFUSED_CONNECTIONS_MAX: usize = 64;

/// How long such a connection may be open with HTTP/2, or wait for its client to take the answer:
/// the client has it within a round trip or two, and is served only over another connection.
pub const TOLD_FULL_TIME_MAX: Duration = Duration::from_secs(5);

/// Time for a request's head to arrive; a slower client is cut off.
pub const HEAD_SECONDS_MAX: Duration = Duration::from_secs(15);

/// Requests that a connection with HTTP/2 may have at once: a page with its pictures.
pub const HTTP2_STREAMS_MAX: u32 = 64;

/// Requests under way on all connections with HTTP/2. With the limits of a connection alone there
/// could be 37,000, and each may hold a body and an answer.
pub const HTTP2_REQUESTS_MAX: usize = 2048;

/// Bytes of an answer that wait in a stream of HTTP/2. The rest of the answer waits where it was
/// made.
pub const HTTP2_SEND_BYTES_MAX: usize = 64 << 10;

/// Bytes that a client may send ahead on a connection with HTTP/2, and on one stream of it: an
/// upload over 50 ms still gets 20 MB/s.
pub const HTTP2_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of all fields of a request with HTTP/2.
pub const HTTP2_HEADERS_BYTES_MAX: u32 = 16 << 10;

/// A connection with HTTP/2 that is idle for so long is closed.
pub const HTTP2_IDLE_MAX: Duration = Duration::from_secs(75);

/// The same while all connections that can be served are open: an idle connection gives way to a
/// new one, and its client connects again within some round trips. A dashboard asks every second,
/// so its connection is not idle.
pub const HTTP2_IDLE_WHEN_FULL_MAX: Duration = Duration::from_secs(10);

/// Bytes read from a socket at once, and so the most a request's head can have: many for a head,
/// few enough for a thousand connections, and large enough that an upload needs few reads.
pub const HEAD_BYTES_MAX: usize = 128 << 10;

/// Bytes of a request body that is not an upload: the largest is a small JSON object, or a question
/// of WebDAV.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// Time for such a body to arrive in full.
pub const BODY_SECONDS_MAX: Duration = Duration::from_secs(15);

/// How deep the elements of a question of WebDAV may be nested: three levels are known, and clients
/// may add some of their own.
pub const DAV_DEPTH_MAX: usize = 16;

/// Elements of such a question: a property each, and as much again that is ignored.
pub const DAV_ELEMENTS_MAX: usize = 256;

/// Attributes of an element of it. They are compared with each other.
pub const DAV_ATTRIBUTES_MAX: usize = 32;

/// Properties that such a question may name. Clients ask for ten or twenty; synchronisers of other
/// servers for thirty.
pub const DAV_PROPERTIES_MAX: usize = 64;

/// Bytes of the names in it that are no properties here. They are written back for every title.
pub const DAV_NAMES_BYTES_MAX: usize = 4 << 10;

/// How long an upload may take for [`UPLOAD_STEP_BYTES`] before its client counts as gone.
pub const UPLOAD_STEP_MAX: Duration = Duration::from_secs(60);

/// Bytes of an upload that have to arrive in that time: 9 kb/s, slower than any line over which an
/// upload of a title could end. A slower upload keeps others from being taken.
pub const UPLOAD_STEP_BYTES: u64 = 64 << 10;

/// Answers that are packed: below, the fields of the answer are most of it; above, nothing is made.
pub const PACKED_BYTES_MIN: u64 = 1024;
/// See [`PACKED_BYTES_MIN`].
pub const PACKED_BYTES_MAX: u64 = 64 << 20;

/// Answers up to this size are packed at once, in less than a millisecond. Larger ones are packed
/// on a thread that may take its time.
pub const PACKED_AT_ONCE_BYTES_MAX: usize = 32 * 1024;

/// Bytes of packed answers that are kept: the pages (0.3 MB), and lists of 100,000 titles.
pub const PACKED_KEPT_BYTES_MAX: usize = 8 << 20;

/// Time for a client to take a response once it is made: all of them are small. What its connection
/// waits for its turns on the uplink does not count.
pub const RESPONSE_SECONDS_MAX: Duration = Duration::from_secs(60);

/// The most that a connection's wait for its turns adds to the time of its client. If one client
/// fills half of all connections with answers of 200 kB, the interactive share of a full link of
/// 20 Mb/s takes 220 s for them.
pub const TURNS_WAIT_MAX: Duration = Duration::from_secs(600);

/// After a response that did not wait for the request's body, how long the rest of it is read and
/// discarded, so that the client gets to see the response before its connection breaks (RFC 9112
/// section 9.6).
pub const LINGER_SECONDS_MAX: Duration = Duration::from_secs(5);

/// Bytes discarded in that time.
pub const LINGER_BYTES_MAX: u64 = 256 << 20;

/// Uploads being received or waiting for their ingest; each may hold a whole file in the spool
/// directory.
pub const UPLOADS_MAX: usize = 16;

/// An upload crawls if fewer bytes than this arrive in [`UPLOAD_CRAWL_SPAN`]: 262 kb/s, slower than
/// lines over which films are uploaded. It makes room for clients that wait, and continues while
/// none does.
pub const UPLOAD_CRAWL_BYTES: u64 = 320 << 10;

/// Over how long that is counted. A line that stands still for some seconds keeps its place.
pub const UPLOAD_CRAWL_SPAN: Duration = Duration::from_secs(10);

/// Clients that may wait for a place of an upload. If all uploads crawl, the last of them gets a
/// place when those before it were seen to crawl as well: after two spans.
pub const UPLOADS_WAITING_MAX: usize = 32;

/// How long a client waits for a place.
pub const UPLOAD_WAIT_MAX: Duration = Duration::from_secs(30);

/// Files that are looked at at once, before they are taken or added to a title: more would only
/// slow each other down.
pub const LOOKS_MAX: usize = 2;

/// Uploads that one client may have as long as any place is free. Each is large, and there are few.
pub const CLIENT_UPLOADS_MIN: usize = 1;

/// Bytes of an upload in memory: the piece that was received, and the one that is being written.
pub const UPLOAD_PIECE_BYTES: usize = 2 * HEAD_BYTES_MAX;

/// Threads that answer requests. Work that blocks is done by others.
pub const RUNTIME_THREADS: usize = 2;

/// Threads for requests whose work blocks: as many as there can be requests with HTTP/1.1, so that
/// clients whose requests wait for a disk do not keep others waiting.
pub const BLOCKING_THREADS_MAX: usize = CONNECTIONS_MAX;

/// Bytes kept free on the file system of the spool directory.
pub const SPOOL_RESERVE_BYTES: u64 = 64 << 20;

/// Jobs remembered after they ended.
pub const JOBS_ENDED_MAX: usize = 200;

/// Jobs of which the running ones are always remembered; a start beyond this is refused.
pub const JOBS_RUNNING_MAX: usize = 10_000;

/// Slots of a schedule that one answer lists: with 64 channels, about 100 kB.
pub const CAST_SLOTS_MAX: u32 = 200;

/// The last slot of a schedule that can be asked for, a number that JavaScript has exactly.
pub const CAST_SLOT_MAX: u64 = 1 << 53;

/// Sessions that one answer for the dashboard lists, the oldest first: more than a person reads,
/// and few enough to be listed every second.
pub const DASHBOARD_SESSIONS_MAX: usize = 500;

/// Highest rate that the capacity can be asked for: above any title, and low enough that the bytes
/// of a day can be counted.
pub const CAPACITY_RATE_BPS_MAX: u64 = 10_000_000_000;

// ---- Tuning

/// Bytes of a listing by WebDAV that are made at once: some titles, and few sends.
pub const DAV_PIECE_BYTES: usize = 16 << 10;

/// How often a peer with HTTP/2 is asked whether it is still there...
pub const HTTP2_PING_EVERY: Duration = Duration::from_secs(20);

/// ...and how long it may take to answer. The question may have to wait for the connection's turn
/// on the uplink, behind what was sealed before.
pub const HTTP2_PONG_WITHIN: Duration = Duration::from_secs(60);

/// The Retry-After of a server that is shutting down: a restart takes seconds.
pub const STOPPING_RETRY_S: u64 = 30;

/// How often the first of those that wait for a place of an upload looks for one.
pub const UPLOAD_LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often a connection that sends shows the uplink the way to its client. As often as those of
/// media do: the rate is learnt over two such times.
pub const PATH_EVERY_NS: u64 = 100_000_000;

/// It does so once this much was acknowledged since it did last. The small answers to a dashboard
/// say little of a link, and what a single viewer has shown is forgotten with each of them.
pub const PATH_BYTES_MIN: u64 = 16 << 10;

/// How often a job that waits, for its turn or for its client, looks whether it is to end: short
/// enough to seem immediate.
pub const JOB_LOOK_EVERY: Duration = Duration::from_millis(200);
