//! Faults that tests inject into members.

use crate::limits::{BLOCK_BYTES, STALL_CHECK_NS};
use reel_ring::{Done, Op};
use reel_rt::lock;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// One thing that goes wrong. Faults change completions and answers. What a write stored stays
/// stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Inverts what is read of this range of the member, in bytes: bit rot at one place.
    CorruptRange(Range<u64>),
    /// Flips one bit in every block that is read: a member that returns wrong data.
    CorruptReads,
    /// Delays every answer by this time: a slow member.
    Delay {
        /// For how long.
        delay_ns: u64,
    },
    /// Every request takes so many times as long, and keeps its place in the device: a worn or
    /// vibrating disk.
    Slow {
        /// How many times; 1 is as fast as it is.
        factor: u32,
    },
    /// Nothing is answered until the fault is cleared, and requests keep their places in the
    /// device: a disk that recalibrates, or a bus that resets.
    Stall,
    /// No write and no sync is answered until the fault is cleared; reads are: a frozen file
    /// system.
    HangWrites,
    /// Every read that touches this range of the member, in bytes, fails with EIO: bad sectors.
    FailRange(Range<u64>),
    /// Every read and write that touches this range of the member fails with EIO: sectors that the
    /// disk cannot replace any more.
    DeadRange(Range<u64>),
    /// Every read fails with EIO.
    FailReads,
    /// Every write and sync fails with EIO.
    FailWrites,
    /// Every write fails with ENOSPC: no space below a sparse file. Syncs succeed.
    NoSpace,
    /// Every write and sync fails with EROFS: a file system that the kernel made read-only.
    ReadOnly,
    /// Everything fails with ENODEV: the disk was removed.
    Vanish,
}

/// The faults of a set of members; clones are the same set.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    by_member: Arc<Mutex<HashMap<usize, Vec<Fault>>>>,
}

impl Faults {
    /// Gives `member` this fault from now on.
    pub fn inject(&self, member: usize, fault: Fault) {
        lock(&self.by_member).entry(member).or_default().push(fault);
    }

    /// Removes all faults of `member`.
    pub fn clear(&self, member: usize) {
        lock(&self.by_member).remove(&member);
    }

    /// Whether the device does not answer this now.
    pub(crate) fn is_stalled(&self, member: usize, op: &Op) -> bool {
        self.of(member).iter().any(|fault| stalls(fault, op))
    }

    /// How long the device keeps a request that it began and completed at these times.
    pub(crate) fn keep_ns(&self, member: usize, op: &Op, (started_ns, now_ns): (u64, u64)) -> u64 {
        let keep_ns = |fault: &Fault| match *fault {
            Fault::Slow { factor } => {
                now_ns.saturating_sub(started_ns).saturating_mul(factor.saturating_sub(1).into())
            }
            _ if stalls(fault, op) => STALL_CHECK_NS,
            _ => 0,
        };
        self.of(member).iter().map(keep_ns).max().unwrap_or(0)
    }

    /// For how long an answer is delayed.
    pub(crate) fn delay_ns(&self, member: usize) -> u64 {
        let delay_ns = |fault: &Fault| if let Fault::Delay { delay_ns } = fault { *delay_ns } else { 0 };
        self.of(member).iter().map(delay_ns).sum()
    }

    /// Changes the result of a completion, and what it has read.
    pub(crate) fn apply(&self, member: usize, done: &mut Done) {
        let is_read = matches!(done.op, Op::Read { .. });
        for fault in self.of(member) {
            match fault {
                Fault::CorruptReads => flip_bits(done),
                Fault::CorruptRange(range) => invert(done, &range),
                Fault::FailReads if is_read => done.result = Err(Errno::IO.into()),
                Fault::FailWrites if !is_read => done.result = Err(Errno::IO.into()),
                Fault::NoSpace if matches!(done.op, Op::Write { .. }) => {
                    done.result = Err(Errno::NOSPC.into());
                }
                Fault::DeadRange(range) if reads_in(&done.op, &range) || writes_in(&done.op, &range) => {
                    done.result = Err(Errno::IO.into());
                }
                Fault::ReadOnly if !is_read => done.result = Err(Errno::ROFS.into()),
                Fault::FailRange(range) if reads_in(&done.op, &range) => {
                    done.result = Err(Errno::IO.into());
                }
                Fault::Vanish => done.result = Err(Errno::NODEV.into()),
                Fault::FailReads
                | Fault::FailWrites
                | Fault::FailRange(_)
                | Fault::DeadRange(_)
                | Fault::NoSpace
                | Fault::ReadOnly => {}
                // These concern the time.
                Fault::Delay { .. } | Fault::Slow { .. } | Fault::Stall | Fault::HangWrites => {}
            }
        }
    }

    fn of(&self, member: usize) -> Vec<Fault> {
        lock(&self.by_member).get(&member).cloned().unwrap_or_default()
    }
}

fn stalls(fault: &Fault, op: &Op) -> bool {
    match fault {
        Fault::Stall => true,
        Fault::HangWrites => !matches!(op, Op::Read { .. }),
        _ => false,
    }
}

/// Flips a bit in every block that was read.
fn flip_bits(done: &mut Done) {
    if let (Op::Read { buffer, start, .. }, Ok(count)) = (&mut done.op, &done.result) {
        for block in buffer[*start..*start + *count].chunks_mut(BLOCK_BYTES as usize) {
            block[block.len() / 2] ^= 0x10;
        }
    }
}

/// Inverts the bytes that were read of this range of the member.
fn invert(done: &mut Done, range: &Range<u64>) {
    if let (Op::Read { buffer, start, offset, .. }, Ok(count)) = (&mut done.op, &done.result) {
        let clamp = |place: u64| place.saturating_sub(*offset).min(*count as u64) as usize;
        let (from, to) = (clamp(range.start), clamp(range.end));
        buffer[*start + from..*start + to.max(from)].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Whether it reads a part of this range of the member.
fn reads_in(op: &Op, range: &Range<u64>) -> bool {
    matches!(op, Op::Read { offset, bytes, .. } if *offset < range.end && range.start < offset + *bytes as u64)
}

/// Whether it writes a part of this range of the member.
fn writes_in(op: &Op, range: &Range<u64>) -> bool {
    matches!(op, Op::Write { offset, lease, .. } if *offset < range.end && range.start < offset + lease.len() as u64)
}
