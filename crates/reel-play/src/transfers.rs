//! The schedule (N, d) of transfers: what they leave of the processors to other programs. Pure.
//!
//! dsplice (1996, note 2) sends N blocks, then yields for a time d in which others get as much
//! processor time as the transfer has used. Both numbers were chosen by hand, for one machine and
//! one number of transfers. Here N is what a run of processor time sends, by the price that was
//! learnt. d is found from what the machine does: it becomes longer while all processors are busy
//! and other programs get less than the transfers use, and shorter as soon as processors are idle.
//!
//! A transfer is what has no deadline and that no person waits for: downloads, joins without
//! deadlines, programs that read as fast as they can. What was promised never pauses.

use crate::limits::{
    PAUSE_FALL, PAUSE_FALL_IDLE, PAUSE_GROWTH, PAUSE_MAX_NS, PAUSE_MIN_NS, RUN_CORE_NS, RUN_SENT_BYTES,
    TRANSFER_IDLE_PART, TRANSFER_LOOK_NS,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// The schedule at present, and what transfers have sent. All engines of a server share it.
#[derive(Debug, Default)]
pub struct TransferTurns {
    run_bytes: AtomicU64,
    pause_ns: AtomicU64,
    sent_bytes: AtomicU64,
    local_bytes: AtomicU64,
}

/// A schedule (N, d).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferSchedule {
    /// N: what each transfer sends without a pause; 0 before it was first computed.
    pub run_bytes: u64,
    /// d: how long it pauses then. 0 while other programs lack nothing.
    pub pause_ns: u64,
}

/// Processor time of a machine since it was started, of all its processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// All of it that this machine had.
    pub all_ns: u64,
    /// In which nothing ran.
    pub idle_ns: u64,
    /// That programs of a low priority took: such a program yields by itself.
    pub low_priority_ns: u64,
    /// That this process took.
    pub own_ns: u64,
}

/// The work since the server started.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferWork {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What the processors did.
    pub machine: MachineTime,
    /// Bytes sent to all clients.
    pub sent_bytes: u64,
    /// Those among them that transfers have sent.
    pub transfer_bytes: u64,
    /// Those among these that went to clients of this machine.
    pub local_bytes: u64,
    /// Processor time that sending a MiB costs.
    pub mib_ns: u64,
}

/// Finds the schedule.
#[derive(Debug, Default)]
pub struct TransferPause {
    seen: Option<TransferWork>,
    pause_ns: u64,
}

/// One delivery in its run.
#[derive(Debug, Default)]
pub(crate) struct RunLeft {
    /// Sent since its last pause.
    sent_bytes: u64,
    /// When its pause ends.
    until_ns: u64,
}

impl TransferTurns {
    /// The schedule at present.
    pub fn schedule(&self) -> TransferSchedule {
        TransferSchedule {
            run_bytes: self.run_bytes.load(Ordering::Relaxed),
            pause_ns: self.pause_ns.load(Ordering::Relaxed),
        }
    }

    /// Transfers keep this schedule from now on.
    pub fn set(&self, schedule: TransferSchedule) {
        self.run_bytes.store(schedule.run_bytes, Ordering::Relaxed);
        self.pause_ns.store(schedule.pause_ns, Ordering::Relaxed);
    }

    /// Bytes that transfers have sent.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Those among them that went to clients of this machine.
    pub fn local_bytes(&self) -> u64 {
        self.local_bytes.load(Ordering::Relaxed)
    }

    /// A transfer has sent so many bytes.
    pub(crate) fn sent(&self, bytes: u64, is_local: bool) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        if is_local {
            self.local_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl TransferPause {
    /// Whether enough time has passed for another look. The work is measured only then.
    pub fn is_due(&self, at_ns: u64) -> bool {
        self.seen.is_none_or(|seen| at_ns.saturating_sub(seen.at_ns) >= TRANSFER_LOOK_NS)
    }

    /// Measures the work since the last call. `None` if too little time has passed, or none did
    /// before.
    pub fn update(&mut self, work: TransferWork) -> Option<TransferSchedule> {
        if !self.is_due(work.at_ns) {
            return None;
        }
        let seen = self.seen.replace(work)?;
        let run_bytes = run_bytes(work.mib_ns);
        let machine = work.machine.since(seen.machine);
        let transfers = work.transfer_bytes.saturating_sub(seen.transfer_bytes);
        let part_of = |part: u64| {
            let all = work.sent_bytes.saturating_sub(seen.sent_bytes).max(transfers).max(1);
            // The cast fits: a part of what the process took.
            (u128::from(machine.own_ns) * u128::from(part) / u128::from(all)) as u64
        };
        let (used_ns, local) = (part_of(transfers), work.local_bytes.saturating_sub(seen.local_bytes));
        let free_ns = machine.idle_ns + machine.low_priority_ns;
        // A client of this machine takes about as much for what it gets, and wants nothing else.
        let others_ns =
            machine.all_ns.saturating_sub(free_ns + machine.own_ns + part_of(local.min(transfers)));
        self.pause_ns = next_pause(self.pause_ns, machine.all_ns, free_ns, used_ns, others_ns);
        Some(TransferSchedule { run_bytes, pause_ns: self.pause_ns })
    }
}

impl RunLeft {
    /// These bytes were sent at this time.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }

    /// When it may send again, if it pauses now.
    pub(crate) fn pauses_until(&mut self, schedule: TransferSchedule, now_ns: u64) -> Option<u64> {
        if self.until_ns > now_ns {
            return Some(self.until_ns);
        }
        if self.sent_bytes < schedule.run_bytes {
            return None;
        }
        self.sent_bytes = 0;
        self.until_ns = now_ns.saturating_add(schedule.pause_ns);
        (schedule.pause_ns > 0).then_some(self.until_ns)
    }

    /// The end of its last pause.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }
}

impl MachineTime {
    fn since(self, before: MachineTime) -> MachineTime {
        MachineTime {
            all_ns: self.all_ns.saturating_sub(before.all_ns),
            idle_ns: self.idle_ns.saturating_sub(before.idle_ns),
            low_priority_ns: self.low_priority_ns.saturating_sub(before.low_priority_ns),
            own_ns: self.own_ns.saturating_sub(before.own_ns),
        }
    }
}

/// N: what is sent in [`RUN_CORE_NS`] of processor time.
fn run_bytes(mib_ns: u64) -> u64 {
    let bytes = (RUN_CORE_NS << 20) / mib_ns.max(1);
    bytes.clamp(*RUN_SENT_BYTES.start(), *RUN_SENT_BYTES.end())
}

/// d from now on.
fn next_pause(pause_ns: u64, all_ns: u64, free_ns: u64, used_ns: u64, others_ns: u64) -> u64 {
    let is_much = |ns: u64| ns.saturating_mul(TRANSFER_IDLE_PART) > all_ns;
    let next_ns = match () {
        // Nothing needs what is given away...
        () if !is_much(others_ns) => pause_ns / PAUSE_GROWTH,
        // ...or not all of it.
        () if is_much(free_ns) => pause_ns - pause_ns / PAUSE_FALL_IDLE,
        () if others_ns < used_ns => (pause_ns * PAUSE_GROWTH).clamp(RUN_CORE_NS, PAUSE_MAX_NS),
        // They have their part. A little less shows whether less is enough.
        () => pause_ns - pause_ns / PAUSE_FALL,
    };
    if next_ns < PAUSE_MIN_NS { 0 } else { next_ns }
}

#[cfg(test)]
#[path = "transfers_laws.rs"]
mod laws;
