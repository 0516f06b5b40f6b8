//! The counters that all engines of a server share, for metrics and for the price of sending.

use crate::late::LateViewers;
use crate::transfers::TransferTurns;
use reel_admit::OpenRefused;
use reel_qos::limits::CLASSES_MAX;
use reel_qos::{AdmitError, Class, Resource};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of all engines. Each is changed at most a few times for each request.
#[derive(Debug, Default)]
pub struct PlayCounters {
    /// Media bytes taken by clients, by class.
    pub sent_bytes: [AtomicU64; CLASSES_MAX],
    /// Sessions refused because a table or a client's share is full.
    pub sessions_refused: AtomicU64,
    /// Reservations refused, by [`RESOURCES`].
    pub not_admitted: [AtomicU64; 4],
    /// Deliveries of reserved sessions that are sent without a reservation. There was no room where
    /// the client has jumped to or for a better rendition, or other sessions got the reservation
    /// while the client was paused, or the client takes more than was reserved.
    pub unreserved: AtomicU64,
    /// Whose data with a deadline was late.
    pub late: LateViewers,
    /// Deliveries cut short because stored bytes were lost.
    pub lost_bytes: AtomicU64,
    /// Clients that were disconnected because a thread panicked on them.
    pub panics: AtomicU64,
    /// How often a thread began again after a panic.
    pub restarts: AtomicU64,
    /// The schedule of transfers, and what they have sent.
    pub transfers: TransferTurns,
    /// The work of each front end. Admission counts with the price of the first one.
    pub front_ends: Vec<FrontEndCounters>,
}

/// The work of the threads of one front end.
#[derive(Debug)]
pub struct FrontEndCounters {
    /// Its name in metrics.
    pub name: &'static str,
    /// Media bytes taken by its clients, and taken from them: programs that write.
    pub sent_bytes: AtomicU64,
    /// Processor time of each of its threads, as it last reported.
    pub threads_ns: Vec<AtomicU64>,
    /// Nanoseconds of these threads that sending a MiB costs, as learnt so far; 0 before the first
    /// measurement.
    pub mib_ns: AtomicU64,
}

impl FrontEndCounters {
    fn new(name: &'static str, threads: usize) -> Self {
        let threads_ns = (0..threads).map(|_| AtomicU64::new(0)).collect();
        Self { name, sent_bytes: AtomicU64::new(0), threads_ns, mib_ns: AtomicU64::new(0) }
    }
}

/// What the entries of [`PlayCounters::not_admitted`] count. The first entry is for all members.
pub const RESOURCES: [Resource; 4] =
    [Resource::Member(0), Resource::Network, Resource::Core, Resource::Arena];

impl PlayCounters {
    /// Counters for front ends with these names and numbers of threads.
    pub fn new(front_ends: &[(&'static str, usize)]) -> Self {
        let front_ends =
            front_ends.iter().map(|&(name, threads)| FrontEndCounters::new(name, threads)).collect();
        Self { front_ends, ..Self::default() }
    }

    /// The place of the front end of this name. One that the server does without has the first
    /// place that no other has.
    pub fn place_of(&self, name: &str) -> usize {
        self.front_ends.iter().position(|front_end| front_end.name == name).unwrap_or(self.front_ends.len())
    }

    /// Counts a session that was not opened.
    pub fn refused(&self, refused: &OpenRefused) {
        match refused {
            OpenRefused::NotAdmitted(error) => self.not_admitted(error),
            _ => drop(self.sessions_refused.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Counts a reservation that was refused.
    pub fn not_admitted(&self, error: &AdmitError) {
        match error {
            AdmitError::Refused(refusal) => {
                self.not_admitted[resource_number(refusal.resource)].fetch_add(1, Ordering::Relaxed)
            }
            _ => self.sessions_refused.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Counts bytes that a front end has taken from a client that writes: for its threads they are
    /// work as those that they send.
    pub fn taken(&self, front_end: usize, bytes: u64) {
        if let Some(front_end) = self.front_ends.get(front_end) {
            front_end.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Counts bytes of a class that a client of a front end has taken.
    pub(crate) fn sent(&self, front_end: usize, class: Class, bytes: u64) {
        self.sent_bytes[class.index()].fetch_add(bytes, Ordering::Relaxed);
        if let Some(front_end) = self.front_ends.get(front_end) {
            front_end.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

fn resource_number(resource: Resource) -> usize {
    match resource {
        Resource::Member(_) | Resource::MemberBytes(_) => 0,
        Resource::Network => 1,
        Resource::Core => 2,
        Resource::Arena => 3,
    }
}
