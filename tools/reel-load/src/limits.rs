//! Limits, tuning and configuration of the fleet, each with its reason.

const SECOND_NS: u64 = 1_000_000_000;

// ---- Limits

/// Longest response head that is read; servers keep theirs below 16 KiB.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Most header fields of a response.
pub(crate) const HEADERS_MAX: usize = 100;

/// Longest playlist, title list or problem that is kept: a day of segments of 2 s is 3 MiB.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Redirects that are followed for one request, as browsers do.
pub(crate) const REDIRECTS_MAX: usize = 20;

/// A server that sends not one byte for this long does not answer. Longer than any stall that is
/// worth measuring.
pub(crate) const SILENCE_MAX_NS: u64 = 60 * SECOND_NS;

/// The longest wait that a server may ask of one it refused. A fleet's run is shorter.
pub(crate) const RETRY_AFTER_MAX_S: u64 = 600;

/// Playlists that one thread keeps for players of the same title; beyond that they are read again.
pub(crate) const PLAYLISTS_KEPT_MAX: usize = 1024;

/// Arrivals that are kept of a segment whose length is not known before its end; later ones are
/// counted with the last.
pub(crate) const ARRIVALS_MAX: usize = 4096;

/// Different reasons of refusals or failures that are told apart; the rest is counted together.
pub(crate) const REASONS_MAX: usize = 64;

// ---- Tuning

/// Most bytes taken from a socket at once: its whole buffer, so that a busy client reads seldom and
/// much.
pub(crate) const READ_BYTES: usize = 256 * 1024;

/// Tries of one piece before a player gives up; hls.js makes as many.
pub(crate) const TRIES_MAX: u32 = 6;

/// The wait before the second try of a piece; it doubles with every further one.
pub(crate) const RETRY_NS: u64 = SECOND_NS / 4;

/// Descriptors beside the clients' sockets: a poller and an event for each thread, the terminal.
pub(crate) const DESCRIPTORS_RESERVED: u64 = 64 + 4 * THREADS_MAX as u64;

/// How often a thread looks whether it runs on time: the finest that tokio's timer can.
pub(crate) const TICK_NS: u64 = SECOND_NS / 1000;

/// How often the fleet's state is written down.
pub(crate) const SAMPLE_NS: u64 = SECOND_NS;

// ---- Configuration

/// Clients of one fleet: sockets of one process end earlier.
pub(crate) const CLIENTS_MAX: usize = 100_000;

/// Threads of one fleet.
pub(crate) const THREADS_MAX: usize = 64;
