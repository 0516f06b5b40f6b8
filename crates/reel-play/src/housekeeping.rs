//! Work that is done once a round for all sessions together, apart from the threads that serve.

use crate::capacity::Capacity;
use crate::counters::PlayCounters;
use crate::transfers::{MachineTime, TransferPause, TransferWork};
use crate::uplink::Uplink;
use reel_admit::Sessions;
use reel_disk::Disks;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Keeps the ledger's capacities right, and ends or renews reservations as clients behave. It
/// belongs to a thread of its own: a decision takes some 100 us, and must not delay a send. Each
/// step takes the locks for one decision at a time.
pub struct Housekeeper<T> {
    /// All sessions.
    pub sessions: Arc<Sessions<T>>,
    /// The disks of the volume.
    pub disks: Disks,
    /// The link to the clients.
    pub uplink: Arc<Uplink>,
    /// What can be promised.
    pub capacity: Capacity,
    /// The work that the serving threads have done.
    pub counters: Arc<PlayCounters>,
    /// Finds how long transfers pause...
    pub pause: TransferPause,
    /// ...by what the processors do. `None` if the system does not say.
    pub machine_time: fn() -> Option<MachineTime>,
}

impl<T> Housekeeper<T> {
    /// One step. To be called at least once a round.
    pub fn step(&mut self, now_ns: u64) {
        self.uplink.tick(now_ns);
        self.capacity.refresh(&self.disks, &self.uplink, &self.sessions, &self.counters, now_ns);
        self.sessions.tick(now_ns);
        self.pause_transfers(now_ns);
    }

    fn pause_transfers(&mut self, at_ns: u64) {
        if !self.pause.is_due(at_ns) {
            return;
        }
        let Some(machine) = (self.machine_time)() else { return };
        let transfers = &self.counters.transfers;
        let work = TransferWork {
            at_ns,
            machine,
            sent_bytes: self.counters.sent_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum(),
            transfer_bytes: transfers.sent_bytes(),
            local_bytes: transfers.local_bytes(),
            mib_ns: self.capacity.mib_ns(),
        };
        if let Some(schedule) = self.pause.update(work) {
            transfers.set(schedule);
        }
    }
}
