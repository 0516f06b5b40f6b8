//! What the data plane counts, for metrics.

use reel_admit::OpenRefused;
use reel_qos::limits::CLASSES_MAX;
use reel_qos::{AdmitError, Resource};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counters of all cores together; each is bumped at most a few times per request.
#[derive(Debug, Default)]
pub struct DataCounters {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections closed at once because too many were open.
    pub turned_away: AtomicU64,
    /// Connections handed to the control plane.
    pub handed_over: AtomicU64,
    /// TLS handshakes that were done.
    pub handshakes: AtomicU64,
    /// TLS connections that ended with an error: no TLS at all, nothing in common, changed records.
    pub tls_failures: AtomicU64,
    /// Times that what a slow client had not taken was moved out of a buffer that another needed.
    pub parked: AtomicU64,
    /// Connections closed because their client was too slow or silent.
    pub timed_out: AtomicU64,
    /// Responses by hundreds of their status, 1xx to 5xx.
    pub responses: [AtomicU64; 5],
    /// Body bytes taken by clients, by class.
    pub sent_bytes: [AtomicU64; CLASSES_MAX],
    /// Bytes that the kernel copied into sockets.
    pub copied_bytes: AtomicU64,
    /// Bytes that it sent from where they lay.
    pub zero_copy_bytes: AtomicU64,
    /// Bytes that it was to send from where they lay, and copied after all.
    pub copied_late_bytes: AtomicU64,
    /// Sends without a copy that the kernel refused.
    pub zero_copy_refused: AtomicU64,
    /// Responses cut short because stored bytes were lost.
    pub lost_bytes_responses: AtomicU64,
    /// Sessions refused because a table or an address has its fill.
    pub sessions_refused: AtomicU64,
    /// What could not be promised, by what there was too little of: members, network, processor, memory.
    pub not_admitted: [AtomicU64; 4],
    /// Responses of sessions with a promise that are sent without: what their paused client had was given to others meanwhile, or it takes more than it was promised.
    pub unpromised: AtomicU64,
    /// Connections open now, by core.
    pub open: Vec<AtomicUsize>,
    /// Processor time of each core's thread, as it last looked.
    pub cpu_ns: Vec<AtomicU64>,
    /// Nanoseconds of serve threads that sending a MiB costs, as admission counts now.
    pub core_mib_ns: AtomicU64,
}

impl DataCounters {
    /// A session was not opened, whoever asked for it.
    pub(crate) fn refused(&self, refused: &OpenRefused) {
        match refused {
            OpenRefused::NotAdmitted(error) => self.not_admitted(error),
            _ => drop(self.sessions_refused.fetch_add(1, Ordering::Relaxed)),
        }
    }

    pub(crate) fn not_admitted(&self, error: &AdmitError) {
        match error {
            AdmitError::Refused(refusal) => {
                self.not_admitted[resource_number(refusal.resource)].fetch_add(1, Ordering::Relaxed)
            }
            _ => self.sessions_refused.fetch_add(1, Ordering::Relaxed),
        };
    }

    pub(crate) fn new(cores: usize) -> Self {
        let zeros = || (0..cores).map(|_| AtomicU64::new(0)).collect();
        Self { open: (0..cores).map(|_| AtomicUsize::new(0)).collect(), cpu_ns: zeros(), ..Self::default() }
    }

    pub(crate) fn response(&self, status: u16) {
        let hundreds = usize::from(status / 100).clamp(1, 5) - 1;
        self.responses[hundreds].fetch_add(1, Ordering::Relaxed);
    }

    /// Connections open on all cores.
    pub fn open_total(&self) -> usize {
        self.open.iter().map(|open| open.load(Ordering::Relaxed)).sum()
    }
}

/// What the places of [`DataCounters::not_admitted`] count; the first place is that of all members.
pub(crate) const RESOURCES: [Resource; 4] =
    [Resource::Member(0), Resource::Network, Resource::Core, Resource::Arena];

fn resource_number(resource: Resource) -> usize {
    match resource {
        Resource::Member(_) | Resource::MemberBytes(_) => 0,
        Resource::Network => 1,
        Resource::Core => 2,
        Resource::Arena => 3,
    }
}
