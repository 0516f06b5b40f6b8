//! Limits and tuning of the control plane, each with its reason.

use std::time::Duration;

// ---- Limits

/// Connections served at once. People and scripts, not viewers: requests for media do not arrive
/// here.
pub const CONNECTIONS_MAX: usize = 512;

/// Connections beyond those, which are answered that there are too many: few, since each costs a
/// descriptor. One more is closed without an answer.
pub const REFUSED_CONNECTIONS_MAX: usize = 64;

/// How long such a connection may be open with HTTP/2: its client has its answer within a round
/// trip or two, and is served only over another connection.
pub const TOLD_FULL_TIME_MAX: Duration = Duration::from_secs(5);

/// Time for a request's head to arrive; a slower client is cut off.
pub const HEAD_SECONDS_MAX: Duration = Duration::from_secs(15);

/// Requests that a connection with HTTP/2 may have at once: a page with its pictures.
pub const HTTP2_STREAMS_MAX: u32 = 64;

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

/// Bytes of a request body that is not an upload: the largest is a small JSON object.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// Time for such a body to arrive in full.
pub const BODY_SECONDS_MAX: Duration = Duration::from_secs(15);

/// How long an upload may take for [`UPLOAD_STEP_BYTES`] before its client counts as gone.
pub const UPLOAD_STEP_MAX: Duration = Duration::from_secs(60);

/// Bytes of an upload that have to arrive in that time: 9 kb/s, slower than any line over which an
/// upload of a title could end. A slower upload keeps others from being taken.
pub const UPLOAD_STEP_BYTES: u64 = 64 << 10;

/// Time for a client to take a response once it is made: all of them are small.
pub const RESPONSE_SECONDS_MAX: Duration = Duration::from_secs(60);

/// After a response that did not wait for the request's body, how long the rest of it is read and
/// discarded, so that the client gets to see the response before its connection breaks (RFC 9112
/// section 9.6).
pub const LINGER_SECONDS_MAX: Duration = Duration::from_secs(5);

/// Bytes discarded in that time.
pub const LINGER_BYTES_MAX: u64 = 256 << 20;

/// Uploads being received or waiting for their ingest; each may hold a whole file in the spool
/// directory.
pub const UPLOADS_MAX: usize = 16;

/// Bytes kept free on the file system of the spool directory.
pub const SPOOL_RESERVE_BYTES: u64 = 64 << 20;

/// Jobs remembered after they ended.
pub const JOBS_ENDED_MAX: usize = 200;

/// Jobs of which the running ones are always remembered; a start beyond this is refused.
pub const JOBS_RUNNING_MAX: usize = 10_000;

/// Sessions that one answer for the dashboard lists, the oldest first: more than a person reads,
/// and few enough to be listed every second.
pub const DASHBOARD_SESSIONS_MAX: usize = 500;

/// Highest rate that the capacity can be asked for: above any title, and low enough that the bytes
/// of a day can be counted.
pub const CAPACITY_RATE_BPS_MAX: u64 = 10_000_000_000;

// ---- Tuning

/// How often a peer with HTTP/2 is asked whether it is still there, and how long it may take to
/// answer.
pub const HTTP2_PING_EVERY: Duration = Duration::from_secs(20);

/// The Retry-After of a server that is shutting down: a restart takes seconds.
pub const STOPPING_RETRY_S: u64 = 30;

/// How often a job that waits, for its turn or for its client, looks whether it is to end: short
/// enough to seem immediate.
pub const JOB_LOOK_EVERY: Duration = Duration::from_millis(200);
