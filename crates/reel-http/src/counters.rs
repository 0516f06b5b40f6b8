//! What the HTTP front end counts for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of all cores together. Each is incremented at most a few times per request.
#[derive(Debug, Default)]
pub struct HttpCounters {
    /// Connections closed at once because too many were open, or too many of their client.
    pub turned_away: AtomicU64,
    /// Connections without a request that were closed for others.
    pub made_room: AtomicU64,
    /// Connections handed to the control plane.
    pub handed_over: AtomicU64,
    /// TLS handshakes that were completed.
    pub handshakes: AtomicU64,
    /// TLS connections that ended with an error: not TLS, no common version or cipher, or modified
    /// records.
    pub tls_failures: AtomicU64,
    /// Times that bytes which a slow client had not accepted were moved out of a buffer that
    /// another connection needed.
    pub parked: AtomicU64,
    /// Connections closed because their client was too slow or silent.
    pub timed_out: AtomicU64,
    /// Responses by hundreds of their status, 1xx to 5xx.
    pub responses: [AtomicU64; 5],
    /// Bytes that the kernel copied into sockets.
    pub copied_bytes: AtomicU64,
    /// Bytes that the kernel sent from Reel's memory.
    pub zero_copy_bytes: AtomicU64,
    /// Bytes that the kernel was to send from Reel's memory, and copied instead.
    pub copied_late_bytes: AtomicU64,
    /// Readers of files that were admitted as viewers...
    pub readers_admitted: AtomicU64,
    /// ...and that were to be, and had no room.
    pub readers_refused: AtomicU64,
    /// Sends without a copy that the kernel refused.
    pub zero_copy_refused: AtomicU64,
}

impl HttpCounters {
    pub(crate) fn response(&self, status: u16) {
        let hundreds = usize::from(status / 100).clamp(1, 5) - 1;
        self.responses[hundreds].fetch_add(1, Ordering::Relaxed);
    }
}
