//! Limits, tuning and configuration of the command line, each with its reason.

use std::time::Duration;

// ---- Limits

/// Most bytes of a configuration file. The example with all its comments has 4 KiB.
pub(crate) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Most files that `reel demo` uses from a directory, so that its start has a bound.
pub(crate) const DEMO_FILMS_MAX: usize = 200;

/// Most bytes read of the kernel's routing table: thousands of routes, of which the default is
/// among the first.
pub(crate) const ROUTES_BYTES_MAX: u64 = 1 << 20;

/// Most network interfaces whose speed is read: a machine with containers has hundreds.
pub(crate) const INTERFACES_MAX: usize = 4096;

/// Lines of the log that may wait to be written: a second of a busy access log. More are dropped
/// and counted.
pub(crate) const LOG_LINES_MAX: usize = 8 * 1024;

/// Bytes of these lines. Most lines have 250; those of the access log can have many times that,
/// because a client chooses its path and the name of its program.
pub(crate) const LOG_BYTES_MAX: usize = 2 << 20;

// ---- Tuning

/// How long the end of the process waits for the log, which may stand still. A log that works takes
/// milliseconds.
pub(crate) const LOG_FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// Descriptors that are not connections: members, rings, posters, uploads, programs and their
/// memory.
pub(crate) const DESCRIPTORS_OTHER: usize = 256;

/// How long a server measures members that have no profile before it serves: short enough not to
/// delay the start noticeably.
pub(crate) const QUICK_PROBE: Duration = Duration::from_secs(2);

/// A quick profile is not valid any more when a member holds more than this number of times the
/// data that was measured.
pub(crate) const PROFILE_OUTGROWN: u64 = 4;

// ---- Configuration

/// The addresses of reverse proxies by default. Only programs of this machine can use them, and
/// what they can claim is the address of their clients.
pub(crate) const LOCAL_PROXIES: [&str; 2] = ["127.0.0.1", "::1"];

/// The addresses that may read titles by NFS by default: this machine, and networks that are not
/// routed to the Internet (RFC 1918, RFC 3927, RFC 4193, RFC 4291).
pub(crate) const NFS_CLIENTS: [&str; 8] = [
    "127.0.0.0/8",
    "::1",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "fc00::/7",
    "fe80::/10",
];

/// Most threads of a kind. More than the cores of any machine are of no use.
pub(crate) const THREADS_MAX: usize = 256;

/// The highest priority of SCHED_FIFO (sched(7)).
pub(crate) const REAL_TIME_PRIORITY_MAX: usize = 99;

/// The most packets that a cast may be told to send at once: more are never handed to the kernel
/// with one call.
pub(crate) const CAST_TRAIN_PACKETS_MAX: usize = 64;

/// Most sessions and most connections. Each costs a descriptor or a few KiB; a million is beyond
/// any one machine.
pub(crate) const CLIENTS_MAX: usize = 1 << 20;

/// Least seconds until an idle session is dropped: players request a segment every few seconds.
pub(crate) const SESSION_IDLE_S_MIN: usize = 10;

/// Most seconds until an idle session is dropped: one day, longer than any pause.
pub(crate) const SESSION_IDLE_S_MAX: usize = 86_400;

/// Most seconds that a start or a seek can be made to wait for room. After thirty seconds without
/// an answer, most players give up.
pub(crate) const START_WAIT_S_MAX: usize = 30;

/// Most ingests at once. Each keeps all members busy by itself; more only take memory from viewers.
pub(crate) const INGESTS_MAX: usize = 16;

/// Lowest network rate that can be configured. Audio alone takes as much, so below it no session
/// could be admitted.
pub(crate) const NETWORK_BPS_MIN: u64 = 64_000;

/// Longest measurement of `reel probe`. After ten minutes the results do not change.
pub(crate) const PROBE_S_MAX: i64 = 600;

/// Highest rate for `reel capacity`: more than any interface carries, and the bytes of two hours
/// still fit 64 bits.
pub(crate) const FILM_BPS_MAX: u64 = 1_000_000_000_000;

/// Longest time in user notation: a year, as for stored streams.
pub(crate) const SPAN_NS_MAX: u64 = 365 * 86_400 * 1_000_000_000;

/// Seconds that `reel probe` takes for each member by default: enough for cells and a few windows
/// of each size.
pub(crate) const PROBE_S_EACH: u32 = 3;

/// Seconds that it takes by default for all members, which are measured together: half a minute is
/// an acceptable wait.
pub(crate) const PROBE_S_ALL: u32 = 30;

/// Bytes of a connection of the data plane beside what its client sends: its state, its task, its
/// delivery and its reader.
pub(crate) const CONNECTION_STATE_BYTES: u64 = 8 << 10;

/// Bytes that a connection with TLS needs beside: a record that is received, in a buffer that
/// doubles, a small response that is sealed, and the keys.
pub(crate) const TLS_CONNECTION_BYTES: u64 = 52 << 10;

/// Bytes of a TLS handshake under way: two messages of its client
/// (`reel_tls::limits::HANDSHAKE_BYTES_MAX`).
pub(crate) const HANDSHAKE_BYTES: u64 = 64 << 10;

/// Bytes of a session: its schedule, the places of its reservation and its entries in tables.
pub(crate) const SESSION_BYTES: u64 = 16 << 10;

/// Bytes of a session that has ended and can be opened again.
pub(crate) const FORMER_SESSION_BYTES: usize = 256;

/// The stack that threads get from the standard library. Usually a small part of it is used.
pub(crate) const STACK_BYTES: u64 = 2 << 20;

/// Threads beside those that serve, read disks, open titles and answer requests: the main thread,
/// housekeeping, the keeper of sessions, the watchers of members and of a directory, the log,
/// signals, the owner record, accounts of programs, and some to spare.
pub(crate) const THREADS_OTHER: usize = 16;

/// The queues of io_uring of a thread: 1024 entries of 64 bytes, and four completions of 16 bytes
/// for each.
pub(crate) const RING_BYTES_PER_THREAD: u64 = 1024 * (64 + 4 * 16);
