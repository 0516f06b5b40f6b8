//! One request on its way, which is answered in every case.

use crate::error::DiskError;
use crate::limits::{BLOCK_BYTES, SECTOR_BYTES};
use crate::request::{DiskDone, DiskRequest, DiskWork, Reply, RequestId, Requester};
use crate::scheduler::Queued;
use reel_arena::{Buffer, Lease};
use reel_qos::Class;
use reel_ring::Op;
use reel_rt::now_ns;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A request between its caller and the device.
pub(crate) struct Job {
    pub(crate) id: RequestId,
    pub(crate) member: usize,
    pub(crate) class: Class,
    requester: Requester,
    pub(crate) work: Work,
    pub(crate) started_ns: u64,
    pub(crate) deadline_ns: u64,
    queued_ns: u64,
    ticket: Ticket,
}

/// What is to do, and how much of it is done.
pub(crate) enum Work {
    Read { offset: u64, bytes: usize, done_bytes: usize, buffer: Option<Buffer> },
    Write { offset: u64, bytes: usize, done_bytes: usize, rest: Option<Lease> },
    Sync,
}

/// How far a completion has brought the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Complete,
    /// The device did a part; the rest is to be requested again.
    Partial,
    /// The file ends at this offset.
    End(u64),
}

/// The right to one answer. Dropped without an answer (by a panic, or by a mailbox that closes), it
/// answers that the threads have stopped.
struct Ticket {
    token: u64,
    member: usize,
    reply: Option<Arc<dyn Reply>>,
}

impl Job {
    pub(crate) fn new(request: DiskRequest) -> Self {
        let work = match request.work {
            DiskWork::Read { offset, bytes, buffer } => {
                Work::Read { offset, bytes, done_bytes: 0, buffer: Some(buffer) }
            }
            DiskWork::Write { offset, lease } => {
                Work::Write { offset, bytes: lease.len(), done_bytes: 0, rest: Some(lease) }
            }
            DiskWork::Sync => Work::Sync,
        };
        let DiskRequest { id, member, class, requester, deadline_ns, token, reply, .. } = request;
        let ticket = Ticket { token, member, reply: Some(reply) };
        Self { id, member, class, requester, work, started_ns: 0, deadline_ns, queued_ns: now_ns(), ticket }
    }

    /// Why the request cannot be done by any device.
    pub(crate) fn check(&self) -> Result<(), DiskError> {
        let (offset, bytes) = self.work.place();
        let aligned = |memory: usize| {
            let whole = |n: u64| n.is_multiple_of(BLOCK_BYTES);
            bytes > 0 && whole(offset) && whole(bytes as u64) && whole(memory as u64)
        };
        match &self.work {
            Work::Read { buffer: Some(buffer), .. } if bytes > buffer.len() => {
                Err(DiskError::Buffer { bytes, buffer_bytes: buffer.len() })
            }
            Work::Read { buffer: Some(buffer), .. } if !aligned(buffer.region_offset()) => {
                Err(DiskError::Unaligned { offset, bytes })
            }
            Work::Write { rest: Some(lease), .. } if !aligned(lease.region_offset()) => {
                Err(DiskError::Unaligned { offset, bytes })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn queued(&self, id: u64) -> Queued {
        let (offset, bytes) = self.work.place();
        let write = matches!(self.work, Work::Write { .. });
        let Self { class, requester, deadline_ns, .. } = *self;
        Queued { id, class, requester, deadline_ns, offset, bytes, write }
    }

    /// Sends the answer to another reply.
    #[cfg(feature = "faults")]
    pub(crate) fn redirect(&mut self, other: impl FnOnce(Arc<dyn Reply>) -> Arc<dyn Reply>) {
        self.ticket.reply = self.ticket.reply.take().map(other);
    }

    pub(crate) fn answer(mut self, result: Result<(), DiskError>) {
        let now_ns = now_ns();
        let started_ns = if self.started_ns == 0 { now_ns } else { self.started_ns };
        let buffer = match &mut self.work {
            Work::Read { buffer, .. } => buffer.take(),
            _ => None,
        };
        let Some(reply) = self.ticket.reply.take() else { return };
        reply.deliver(DiskDone {
            token: self.ticket.token,
            member: self.member,
            result,
            buffer,
            queued_ns: started_ns.saturating_sub(self.queued_ns),
            device_ns: now_ns.saturating_sub(started_ns),
        });
    }

    pub(crate) fn failed(&self, error: io::Error) -> DiskError {
        let (offset, bytes) = self.work.place();
        let (what, source) = (self.work.name(), Arc::new(error));
        DiskError::Failed { member: self.member, what, offset, bytes, source }
    }
}

impl Work {
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Work::Read { .. })
    }

    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, Work::Sync)
    }

    /// (offset, bytes) on the member.
    pub(crate) fn place(&self) -> (u64, usize) {
        match self {
            Work::Read { offset, bytes, .. } | Work::Write { offset, bytes, .. } => (*offset, *bytes),
            Work::Sync => (0, 0),
        }
    }

    /// The operation for what is not done yet.
    pub(crate) fn op(&mut self, file: &Arc<OwnedFd>) -> Op {
        let file = Arc::clone(file);
        match self {
            Work::Read { offset, bytes, done_bytes, buffer } => {
                let buffer = buffer.take().expect("the buffer is back whenever nothing is in the ring");
                let (offset, start, bytes) =
                    (*offset + *done_bytes as u64, *done_bytes, *bytes - *done_bytes);
                Op::Read { file, offset, buffer, start, bytes }
            }
            Work::Write { offset, rest, done_bytes, .. } => {
                let lease = rest.take().expect("the lease is back whenever nothing is in the ring");
                Op::Write { file, offset: *offset + *done_bytes as u64, lease }
            }
            Work::Sync => Op::Sync { file },
        }
    }

    /// Takes back the memory that was lent to the ring.
    pub(crate) fn take_back(&mut self, op: Op) {
        match (self, op) {
            (Work::Read { buffer, .. }, Op::Read { buffer: back, .. }) => *buffer = Some(back),
            (Work::Write { rest, .. }, Op::Write { lease, .. }) => *rest = Some(lease),
            _ => {}
        }
    }

    /// Counts `count` more bytes.
    ///
    /// A short transfer is continued where it stopped. A count that is not a whole number of
    /// sectors can only mean the end of the file. Continuing there would send an unaligned request
    /// to a direct file, and its error would hide the reason.
    pub(crate) fn advance(&mut self, count: usize) -> Progress {
        let (offset, bytes, done_bytes) = match self {
            Work::Read { offset, bytes, done_bytes, .. } | Work::Write { offset, bytes, done_bytes, .. } => {
                (*offset, *bytes, done_bytes)
            }
            Work::Sync => return Progress::Complete,
        };
        *done_bytes = (*done_bytes + count).min(bytes);
        let now_at = *done_bytes;
        if now_at == bytes {
            return Progress::Complete;
        }
        if count == 0 || !count.is_multiple_of(SECTOR_BYTES) {
            return Progress::End(offset + now_at as u64);
        }
        if let Work::Write { rest, .. } = self
            && let Some(lease) = rest.take()
        {
            *rest = Some(lease.slice(count..lease.len()));
        }
        Progress::Partial
    }

    fn name(&self) -> &'static str {
        match self {
            Work::Read { .. } => "read",
            Work::Write { .. } => "write",
            Work::Sync => "sync",
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            let (token, member, result) = (self.token, self.member, Err(DiskError::Stopped));
            reply.deliver(DiskDone { token, member, result, buffer: None, queued_ns: 0, device_ns: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_of_whole_sectors_is_continued_and_any_other_is_the_end() {
        let read = || Work::Read { offset: 8192, bytes: 8192, done_bytes: 0, buffer: None };
        assert_eq!(read().advance(8192), Progress::Complete);
        let mut work = read();
        assert_eq!(work.advance(512), Progress::Partial);
        assert_eq!(work.advance(3584), Progress::Partial);
        assert_eq!(work.advance(0), Progress::End(12288));
        assert_eq!(read().advance(904), Progress::End(9096));
        assert_eq!(Work::Sync.advance(0), Progress::Complete);
    }
}
