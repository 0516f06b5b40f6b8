use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use io_uring::{opcode, squeue, types};
use reel_arena::{PieceState, Sending};

use crate::arena_map::ArenaMap;
use crate::limits::{SEND_BYTES_MAX, SEND_CHUNKS_MAX};
use crate::op::{Chunk, Op};
use crate::train::{Train, TrainMessage};
use crate::uring::train;

/// An operation in flight, with the memory that only the kernel's form of it needs.
pub(super) struct Entry {
    op: Op,
    pub(super) phase: Phase,
    pub(super) cancelled: bool,
    message: Option<Box<Message>>,
    train: Option<Box<TrainMessage>>,
    sending: Vec<Sending>,
    /// How many bytes of a zero-copy send the socket took.
    pub(super) taken_bytes: usize,
}

/// What happens to an operation whose ring broke.
pub(super) struct AfterBreak {
    pub(super) next: Next,
    /// Bytes of the arena that are never used again.
    pub(super) lost_bytes: usize,
}

pub(super) enum Next {
    /// The operation is started again.
    Again,
    /// The same, as soon as there is other memory to read into.
    AwaitMemory,
    Ends(io::Result<usize>),
}

/// Where the operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// In the driver's queue.
    Queued,
    /// In the kernel.
    Started,
    /// In the driver's queue, and polls first: the descriptor is non-blocking and had nothing, or
    /// the ring was just replaced.
    PollQueued,
    /// In the kernel, being polled.
    Polling,
    /// Answered, but the kernel still uses the memory.
    Lent,
}

/// The kernel reads these during a gathered send.
struct Message {
    header: libc::msghdr,
    pieces: Vec<libc::iovec>,
}

impl Entry {
    pub(super) fn new(op: Op) -> Entry {
        Entry {
            op,
            phase: Phase::Queued,
            cancelled: false,
            message: None,
            train: None,
            sending: Vec::new(),
            taken_bytes: 0,
        }
    }

    pub(super) fn into_op(self) -> Op {
        self.op
    }

    /// Handles a completion. True if the operation has not ended and must be started again.
    ///
    /// io_uring does not wait on a non-blocking descriptor, so the operations that promise to wait
    /// poll first.
    pub(super) fn continues(&mut self, result: &io::Result<usize>) -> bool {
        if self.cancelled && result.is_err() {
            return false;
        }
        match result {
            Ok(_) if self.phase == Phase::Polling => {
                self.phase = Phase::Queued;
                true
            }
            Err(e)
                if e.raw_os_error() == Some(libc::EAGAIN) && self.waits() && self.phase == Phase::Started =>
            {
                self.phase = Phase::PollQueued;
                true
            }
            Err(e) if e.raw_os_error() == Some(libc::EINTR) && !self.is_zero_copy() => {
                self.phase = Phase::Queued;
                true
            }
            _ => false,
        }
    }

    /// The kernel's form of the operation. Everything it points to stays in place until the
    /// completion.
    pub(super) fn prepare(&mut self, map: Option<&ArenaMap>, sends_zero_copy: bool) -> squeue::Entry {
        if self.phase == Phase::PollQueued {
            self.phase = Phase::Polling;
            if let Op::Accept { listener: fd } | Op::Receive { socket: fd, .. } = &self.op {
                return poll(fd, libc::POLLIN);
            }
        }
        self.phase = Phase::Started;
        self.sending.clear();
        match &mut self.op {
            Op::Read { file, offset, buffer, start, bytes } => {
                buffer.set_state(PieceState::Reading);
                // SAFETY: `Op::check` has verified that start and bytes are within the buffer.
                let first = unsafe { buffer.as_device_ptr().add(*start) };
                let length = *bytes as u32;
                match map.and_then(|map| map.index(first, *bytes)) {
                    Some(piece) => {
                        opcode::ReadFixed::new(fd(file), first, length, piece).offset(*offset).build()
                    }
                    None => opcode::Read::new(fd(file), first, length).offset(*offset).build(),
                }
            }
            Op::Write { file, offset, lease } => {
                self.sending.push(lease.sending());
                let (first, length) = (lease.as_ptr(), lease.len() as u32);
                match map.and_then(|map| map.index(first, lease.len())) {
                    Some(piece) => {
                        opcode::WriteFixed::new(fd(file), first, length, piece).offset(*offset).build()
                    }
                    None => opcode::Write::new(fd(file), first, length).offset(*offset).build(),
                }
            }
            Op::Sync { file } => opcode::Fsync::new(fd(file)).flags(types::FsyncFlags::DATASYNC).build(),
            Op::Accept { listener } => opcode::Accept::new(fd(listener), ptr::null_mut(), ptr::null_mut())
                .flags(libc::SOCK_CLOEXEC)
                .build(),
            Op::Receive { socket, buffer } => {
                let spare = buffer.spare_capacity_mut();
                let length = spare.len().min(SEND_BYTES_MAX) as u32;
                opcode::Recv::new(fd(socket), spare.as_mut_ptr().cast(), length).build()
            }
            Op::SendZeroCopy { socket, chunks } if sends_zero_copy => {
                let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
                self.sending.extend(chunks.iter().filter_map(Chunk::sending));
                let message = self.message.insert(Message::new(chunks));
                // Not by the registration. The kernel charges a piece of a registered huge page
                // together with everything before it in the page (io_sg_from_iter), so a few such
                // pieces fill a send buffer. Pages that it looks up itself are charged as they are.
                opcode::SendMsgZc::new(fd(socket), &raw const message.header)
                    .flags(flags as u32)
                    .ioprio(REPORT_USAGE)
                    .build()
            }
            Op::Send { socket, chunks } | Op::SendZeroCopy { socket, chunks, .. } => {
                let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
                self.sending.extend(chunks.iter().filter_map(Chunk::sending));
                if let [only] = chunks.as_slice() {
                    let length = only.len().min(SEND_BYTES_MAX) as u32;
                    return opcode::Send::new(fd(socket), only.as_ptr(), length).flags(flags).build();
                }
                let message = self.message.insert(Message::new(chunks));
                opcode::SendMsg::new(fd(socket), &raw const message.header).flags(flags as u32).build()
            }
            // `Op::check` refuses this operation, and the driver starts nothing twice.
            Op::Lent { .. } => opcode::Nop::new().build(),
            Op::Train(train) => {
                self.sending.extend(train.chunks.iter().filter_map(Chunk::sending));
                train::entry(train, &mut self.train, map, sends_zero_copy)
            }
            Op::AwaitWritable { socket } => poll(socket, libc::POLLOUT),
            Op::AwaitReadable { socket } => poll(socket, libc::POLLIN | libc::POLLRDHUP),
        }
    }

    /// The first answer to a zero-copy send whose memory the kernel still uses. The operation is
    /// returned without its chunks, which stay here.
    pub(super) fn lend(&mut self, taken_bytes: usize) -> Op {
        self.phase = Phase::Lent;
        self.taken_bytes = taken_bytes;
        let op = mem::replace(&mut self.op, Op::Lent { chunks: Vec::new(), copied: true });
        let (op, mut chunks) = match op {
            Op::SendZeroCopy { socket, chunks } => (Op::SendZeroCopy { socket, chunks: Vec::new() }, chunks),
            Op::Train(mut train) => {
                let chunks = mem::take(&mut train.chunks);
                (Op::Train(train), chunks)
            }
            op => return op,
        };
        let mut left = taken_bytes;
        let untouched = chunks.iter().position(|chunk| {
            let is_untouched = left == 0;
            left = left.saturating_sub(chunk.len());
            is_untouched
        });
        chunks.truncate(untouched.unwrap_or(chunks.len()));
        self.sending.truncate(chunks.iter().filter(|chunk| matches!(chunk, Chunk::Lease(_))).count());
        self.op = Op::Lent { chunks, copied: true };
        op
    }

    /// The kernel has released the memory, and reports how it was sent.
    pub(super) fn returned(&mut self, usage: u32) {
        if let Op::Lent { copied, .. } = &mut self.op {
            *copied = usage & USAGE_COPIED != 0;
        }
    }

    /// Whether the kernel may use the memory.
    pub(super) fn is_in_kernel(&self) -> bool {
        matches!(self.phase, Phase::Started | Phase::Polling | Phase::Lent)
    }

    /// Where a read puts its bytes.
    #[cfg(test)]
    pub(super) fn place(&self) -> Option<usize> {
        match &self.op {
            Op::Read { buffer, .. } => Some(buffer.as_ptr() as usize),
            _ => None,
        }
    }

    /// The kernel has not seen the operation.
    pub(super) fn restart(&mut self) {
        self.phase = if self.phase == Phase::Polling { Phase::PollQueued } else { Phase::Queued };
    }

    /// Has an operation that waits for connections poll first.
    ///
    /// The kernel tells of a connection to one of the accepts that wait for it, but to every poll.
    /// An accept of a ring that is being closed may be that one, and does not take the connection.
    pub(super) fn poll_before_accept(&mut self) {
        if matches!(self.op, Op::Accept { .. }) {
            self.phase = Phase::PollQueued;
        }
    }

    /// The ring that had the operation is gone. It is unknown whether the kernel still uses the
    /// memory, so the memory is never used again, and its size is reported.
    pub(super) fn after_break(&mut self) -> AfterBreak {
        let phase = mem::replace(&mut self.phase, Phase::Queued);
        let mut lost_bytes = 0;
        let mut keep = |chunk: &Chunk| match chunk.lease() {
            Some(lease) => lost_bytes += lease.clone().abandon(),
            None => mem::forget(chunk.clone()),
        };
        let next = match &mut self.op {
            Op::Accept { .. } => {
                self.phase = Phase::PollQueued;
                Next::Again
            }
            Op::Sync { .. } | Op::AwaitWritable { .. } | Op::AwaitReadable { .. } => Next::Again,
            // The same bytes to the same place.
            Op::Write { lease, .. } => {
                keep(&Chunk::Lease(lease.clone()));
                Next::Again
            }
            Op::Read { buffer, start, bytes, .. } => match buffer.another() {
                Some(mut other) => {
                    other[..*start].copy_from_slice(&buffer[..*start]);
                    other[*start + *bytes..].copy_from_slice(&buffer[*start + *bytes..]);
                    lost_bytes += mem::replace(buffer, other).abandon();
                    Next::Again
                }
                None => {
                    self.phase = phase;
                    Next::AwaitMemory
                }
            },
            // The bytes that were taken from the socket are lost, so the stream has a gap.
            Op::Receive { buffer, .. } => {
                mem::forget(mem::take(buffer));
                Next::Ends(Err(broken()))
            }
            // It is unknown how much was sent. The kernel read the memory only during the call.
            Op::Send { .. } => Next::Ends(Err(broken())),
            // The answer may be what was lost: then the kernel may still send from the memory
            // unnoticed.
            Op::SendZeroCopy { chunks, .. } | Op::Train(Train { chunks, .. }) => {
                chunks.iter().for_each(&mut keep);
                Next::Ends(Err(broken()))
            }
            Op::Lent { chunks, .. } => {
                chunks.iter().for_each(&mut keep);
                Next::Ends(Ok(self.taken_bytes))
            }
        };
        AfterBreak { next, lost_bytes }
    }

    /// The ring ends before the read got other memory. Its memory is never used again, and its size
    /// is returned.
    pub(super) fn abandon(self) -> usize {
        match self.op {
            Op::Read { buffer, .. } => buffer.abandon(),
            op => {
                mem::forget(op);
                0
            }
        }
    }

    /// The largest possible answer: a larger one would corrupt the caller's counts.
    pub(super) fn at_most(&self, answer: usize) -> usize {
        let sum = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.len()).sum();
        let most = match &self.op {
            _ if self.phase == Phase::Polling => usize::MAX,
            Op::Read { bytes, .. } => *bytes,
            Op::Write { lease, .. } => lease.len(),
            Op::Receive { buffer, .. } => buffer.capacity() - buffer.len(),
            Op::Send { chunks, .. } | Op::SendZeroCopy { chunks, .. } | Op::Lent { chunks, .. } => {
                sum(chunks)
            }
            Op::Train(train) => sum(&train.chunks),
            Op::Sync { .. } | Op::Accept { .. } | Op::AwaitWritable { .. } | Op::AwaitReadable { .. } => {
                usize::MAX
            }
        };
        answer.min(most)
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        matches!(self.op, Op::SendZeroCopy { .. } | Op::Train(_))
    }

    fn waits(&self) -> bool {
        matches!(self.op, Op::Accept { .. } | Op::Receive { .. })
    }
}

impl Message {
    fn new(chunks: &[Chunk]) -> Box<Message> {
        let pieces: Vec<libc::iovec> = chunks
            .iter()
            .take(SEND_CHUNKS_MAX)
            .map(|chunk| libc::iovec { iov_base: chunk.as_ptr().cast_mut().cast(), iov_len: chunk.len() })
            .collect();
        // SAFETY: a msghdr of zeros is a valid message without name, pieces and control data.
        let mut message = Box::new(Message { header: unsafe { mem::zeroed() }, pieces });
        message.header.msg_iov = message.pieces.as_mut_ptr();
        message.header.msg_iovlen = message.pieces.len() as _;
        message
    }
}

/// `IORING_SEND_ZC_REPORT_USAGE` (io_uring.h), which the io-uring crate does not name.
pub(super) const REPORT_USAGE: u16 = 1 << 3;
/// `IORING_NOTIF_USAGE_ZC_COPIED`: likewise. Also set if nothing was sent at all.
const USAGE_COPIED: u32 = 1 << 31;

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the io_uring of this operation broke")
}

fn fd(fd: &OwnedFd) -> types::Fd {
    types::Fd(fd.as_raw_fd())
}

fn poll(socket: &OwnedFd, events: i16) -> squeue::Entry {
    opcode::PollAdd::new(fd(socket), events as u32).build()
}
