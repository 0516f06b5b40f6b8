use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Once;
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use reel_arena::{Arena, PieceState};

use crate::arena_map::ArenaMap;
use crate::error::RingError;
use crate::limits::{
    COMPLETIONS_PER_ENTRY, DONE_PER_WAIT_MAX, DROP_WAIT_MAX, ENTRIES_MAX, LENT_DROP_WAIT_MAX,
    RENEWED_SLEEP_MAX,
};
use crate::op::{Done, Op};
use crate::slab::{Key, Slab};
use crate::waker::Waker;

mod entry;
mod renewal;
mod setup;
mod train;

use entry::{Entry, Phase};

/// Keys of the driver's own operations; no slab key equals them.
const KEY_WAKE: u64 = u64::MAX;
const KEY_CANCEL: u64 = u64::MAX - 1;

/// The io_uring driver.
pub(crate) struct UringDriver {
    ring: ManuallyDrop<IoUring>,
    /// The descriptor number of the ring still belongs to the ring, so it may be closed.
    has_descriptor: bool,
    slab: Slab<Entry>,
    /// Requests that the kernel has not seen yet, in order.
    queue: VecDeque<Request>,
    /// Operations that ended without the kernel.
    ended: Vec<Done>,
    /// Entries whose memory the kernel may use (the eventfd read included).
    in_kernel: usize,
    /// Those of them that were answered and wait only for the end of a zero-copy send.
    lent: usize,
    sends_zero_copy: bool,
    map: Option<ArenaMap>,
    waker: Waker,
    /// Where the kernel writes the eventfd's count. Boxed, because the kernel keeps the address.
    wake_count: Box<UnsafeCell<u64>>,
    wake_armed: bool,
    entries: u32,
    /// How often the ring was replaced because it broke, and when last.
    renewals: u32,
    renewed: Option<Instant>,
    /// Entries in the submission ring that the kernel may not have taken yet, oldest first.
    offered: VecDeque<Key>,
    /// Reads whose ring broke, and which wait for other memory to read into.
    without_memory: Vec<Key>,
}

enum Request {
    Start(Key),
    Cancel(Key),
}

impl UringDriver {
    pub(crate) fn new(entries: u32, waker: Waker) -> Result<UringDriver, RingError> {
        let ring = new_ring(entries)?;
        Ok(UringDriver {
            sends_zero_copy: setup::sends_zero_copy(&ring),
            ring: ManuallyDrop::new(ring),
            has_descriptor: true,
            slab: Slab::new(),
            queue: VecDeque::new(),
            ended: Vec::new(),
            in_kernel: 0,
            lent: 0,
            map: None,
            waker,
            wake_count: Box::new(UnsafeCell::new(0)),
            wake_armed: false,
            entries,
            renewals: 0,
            renewed: None,
            offered: VecDeque::new(),
            without_memory: Vec::new(),
        })
    }

    pub(crate) fn register(&mut self, arena: &Arena) -> io::Result<()> {
        self.map = Some(ArenaMap::register(&self.ring, arena)?);
        Ok(())
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.map.is_some()
    }

    pub(crate) fn sends_zero_copy(&self) -> bool {
        self.sends_zero_copy
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.slab.len() + self.ended.len()
    }

    pub(crate) fn push(&mut self, token: u64, op: Op) {
        let mut entry = Entry::new(op);
        if self.was_renewed_just_now() {
            entry.poll_before_accept();
        }
        let key = self.slab.insert(token, entry);
        self.queue.push_back(Request::Start(key));
    }

    pub(crate) fn cancel(&mut self, token: u64) {
        let Some(key) = self.slab.find(token) else { return };
        let Some(entry) = self.slab.get_mut(key) else { return };
        entry.cancelled = true;
        if !matches!(entry.phase, Phase::Queued | Phase::Lent) {
            self.queue.push_back(Request::Cancel(key));
        }
    }

    pub(crate) fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done>) -> Result<(), RingError> {
        let timeout = if self.was_renewed_just_now() || !self.without_memory.is_empty() {
            self.retry_reads();
            Some(timeout.unwrap_or(RENEWED_SLEEP_MAX).min(RENEWED_SLEEP_MAX))
        } else {
            timeout
        };
        match self.work(timeout, done) {
            Err(RingError::Wait { source }) => self.renew(source),
            result => result,
        }
    }

    fn work(&mut self, timeout: Option<Duration>, done: &mut Vec<Done>) -> Result<(), RingError> {
        let end = done.len() + DONE_PER_WAIT_MAX;
        let before = done.len();
        let mut entered = false;
        self.start_queued()?;
        self.reap(done, end);
        let may_sleep = timeout != Some(Duration::ZERO) && done.len() == before && self.queue.is_empty();
        if may_sleep && self.arm_wake()? && self.waker.fall_asleep() {
            let result = self.sleep(timeout);
            self.waker.check_calls();
            result?;
        } else {
            self.waker.check_calls();
            self.enter()?;
        }
        // Deferred work is done inside `enter`, a few completions at a time: the loop continues
        // while that brings any. The kernel's flag alone is no reason to continue. It is raised
        // after the work is listed, so it can stay up when the work was done in between, and it is
        // cleared only with the next work.
        loop {
            let reaped = done.len();
            self.reap(done, end);
            let more = {
                let submission = self.ring.submission();
                submission.taskrun() || submission.cq_overflow()
            };
            if !more || done.len() >= end || (entered && done.len() == reaped) {
                return Ok(());
            }
            entered = true;
            self.enter()?;
        }
    }

    /// Moves the queue into the submission ring, and enters the kernel each time the ring is full.
    fn start_queued(&mut self) -> Result<(), RingError> {
        while !self.queue.is_empty() {
            if self.ring.submission().is_full() {
                self.enter()?;
                if self.ring.submission().is_full() {
                    // The kernel takes no more entries until completions are reaped.
                    return Ok(());
                }
            }
            // Taken only after the kernel had its chance to refuse, so that queued requests are not
            // lost with a ring that breaks.
            let Some(request) = self.queue.pop_front() else { return Ok(()) };
            match request {
                Request::Start(key) => self.start(key),
                Request::Cancel(key) => self.submit_entry(opcode::AsyncCancel::new(key).build(), KEY_CANCEL),
            }
        }
        Ok(())
    }

    fn start(&mut self, key: Key) {
        let Some(entry) = self.slab.get_mut(key) else { return };
        if entry.cancelled {
            self.end(key, Err(io::Error::from_raw_os_error(libc::ECANCELED)));
            return;
        }
        let sqe = entry.prepare(self.map.as_ref(), self.sends_zero_copy);
        self.in_kernel += 1;
        self.submit_entry(sqe, key);
    }

    /// The caller has made sure that there is room.
    fn submit_entry(&mut self, sqe: squeue::Entry, key: Key) {
        let sqe = sqe.user_data(key);
        // SAFETY: everything the entry points to is owned by the slab (whose entries leave only
        // after their completion) or by `wake_count`. None of it moves when the slab grows, because
        // it is all behind pointers.
        let pushed = unsafe { self.ring.submission().push(&sqe) };
        debug_assert!(pushed.is_ok(), "the caller has checked for room");
        self.offered.push_back(key);
    }

    /// True if the eventfd is being read, so that a wake-up ends a sleep.
    fn arm_wake(&mut self) -> Result<bool, RingError> {
        if self.wake_armed {
            return Ok(true);
        }
        if self.ring.submission().is_full() {
            self.enter()?;
            if self.ring.submission().is_full() {
                return Ok(false);
            }
        }
        let fd = types::Fd(self.waker.fd().as_raw_fd());
        let sqe = opcode::Read::new(fd, self.wake_count.get().cast(), 8).build();
        self.submit_entry(sqe, KEY_WAKE);
        self.wake_armed = true;
        self.in_kernel += 1;
        Ok(true)
    }

    /// Submits what is in the ring and lets the kernel do deferred work, without waiting.
    fn enter(&mut self) -> Result<(), RingError> {
        let idle = {
            let submission = self.ring.submission();
            submission.is_empty() && !submission.taskrun() && !submission.cq_overflow()
        };
        if idle {
            return Ok(());
        }
        let result = outcome(self.ring.submit());
        self.forget_taken();
        result
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> Result<(), RingError> {
        let result = match timeout {
            None => outcome(self.ring.submit_and_wait(1)),
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                outcome(self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timespec)))
            }
        };
        self.forget_taken();
        result
    }

    /// Removes the entries that the kernel has taken; it takes them in order.
    fn forget_taken(&mut self) {
        let left = self.ring.submission().len();
        self.offered.drain(..self.offered.len().saturating_sub(left));
    }

    fn reap(&mut self, done: &mut Vec<Done>, end: usize) {
        while done.len() + self.ended.len() < end {
            let Some(cqe) = self.ring.completion().next() else { break };
            self.complete(&cqe);
        }
        let room = end.saturating_sub(done.len()).min(self.ended.len());
        done.extend(self.ended.drain(..room));
    }

    fn complete(&mut self, cqe: &cqueue::Entry) {
        self.answered(cqe.user_data(), cqe.result(), cqe.flags());
    }

    /// Handles a report of the kernel about an operation. An impossible report (a second one, or
    /// one about memory that was not lent) is logged and changes nothing, because memory that is
    /// returned too early would be overwritten while it is sent.
    fn answered(&mut self, key: Key, answer: i32, flags: u32) {
        match key {
            KEY_CANCEL => return,
            KEY_WAKE => {
                if mem::take(&mut self.wake_armed) {
                    self.in_kernel -= 1;
                }
                return;
            }
            _ => {}
        }
        let Some(entry) = self.slab.get_mut(key) else {
            return impossible("an answer to an operation that is not in flight");
        };
        if cqueue::notif(flags) {
            if entry.phase != Phase::Lent {
                return impossible("the release of memory that was not lent");
            }
            // The flags of a notification are in the place of the result of other completions.
            entry.returned(answer as u32);
            let taken_bytes = entry.taken_bytes;
            self.in_kernel -= 1;
            self.lent -= 1;
            return self.end(key, Ok(taken_bytes));
        }
        if !matches!(entry.phase, Phase::Started | Phase::Polling) {
            return impossible("a second answer to an operation");
        }
        let result = match answer {
            n if n >= 0 => Ok(entry.at_most(n as usize)),
            errno => Err(io::Error::from_raw_os_error(errno.saturating_neg())),
        };
        if cqueue::more(flags) && entry.is_zero_copy() {
            let op = entry.lend(*result.as_ref().unwrap_or(&0));
            self.lent += 1;
            if let Some(token) = self.slab.token(key) {
                self.ended.push(Done { token, result, op, accepted: None });
            }
            return;
        }
        self.in_kernel -= 1;
        if entry.continues(&result) {
            self.queue.push_back(Request::Start(key));
        } else {
            self.end(key, result);
        }
    }

    /// Takes the entry out and makes its `Done`.
    fn end(&mut self, key: Key, result: io::Result<usize>) {
        let Some((token, entry)) = self.slab.remove(key) else { return };
        let mut op = entry.into_op();
        let mut result = result;
        let mut accepted = None;
        match &mut op {
            Op::Accept { .. } => {
                if let Ok(fd) = result {
                    // SAFETY: the kernel has just made this descriptor for the ring, and nothing
                    // else knows it.
                    accepted = Some(unsafe { OwnedFd::from_raw_fd(fd as i32) });
                    result = Ok(0);
                }
            }
            Op::Receive { buffer, .. } => {
                if let Ok(n) = result {
                    // SAFETY: the kernel has initialised `n` bytes after the old length, within the
                    // capacity.
                    unsafe { buffer.set_len(buffer.len() + n) };
                }
            }
            Op::Read { buffer, .. } => buffer.set_state(PieceState::Full),
            _ => {}
        }
        self.ended.push(Done { token, result, op, accepted });
    }

    /// Cancels everything and waits until the kernel has released all memory, or the time is over.
    /// For memory that peers have not acknowledged, the time is short.
    fn drain(&mut self) -> bool {
        self.queue.clear();
        if self.in_kernel == 0 {
            return true;
        }
        let start = Instant::now();
        let mut cancel_sent = false;
        let mut done = Vec::new();
        while self.in_kernel > 0 {
            let now = Instant::now();
            let deadline = start + drop_wait_max(self.in_kernel, self.lent);
            if now >= deadline {
                return false;
            }
            if !cancel_sent && !self.ring.submission().is_full() {
                self.submit_entry(opcode::AsyncCancel2::new(CancelBuilder::any()).build(), KEY_CANCEL);
                cancel_sent = true;
            }
            if self.sleep(Some(deadline - now)).is_err() {
                return false;
            }
            self.reap(&mut done, usize::MAX);
            done.clear();
            // Operations that would continue after a poll end here: they are no longer in the
            // kernel.
            self.queue.clear();
        }
        true
    }
}

impl Drop for UringDriver {
    fn drop(&mut self) {
        self.abandon_reads();
        // If the number no longer belongs to the ring, the descriptor is something else: it gets no
        // requests and is not closed.
        let has_ended = if self.has_descriptor { self.drain() } else { self.in_kernel == 0 };
        if self.has_descriptor {
            // SAFETY: nothing below uses the ring, and the driver is dropped after.
            unsafe { ManuallyDrop::drop(&mut self.ring) };
        }
        if has_ended {
            return;
        }
        if self.in_kernel == self.lent {
            tracing::warn!(
                "{} sends were not acknowledged by their peers within {} s; their memory is never used again",
                self.lent,
                LENT_DROP_WAIT_MAX.as_secs()
            );
        } else {
            tracing::error!(
                "{} operations did not end with their ring, or within {} s; their memory is never used again",
                self.in_kernel,
                DROP_WAIT_MAX.as_secs()
            );
        }
        // The kernel may still write there. Memory that is never freed is safe; freed memory is
        // not.
        mem::forget(mem::replace(&mut self.slab, Slab::new()));
        mem::forget(mem::take(&mut self.wake_count));
        mem::forget(self.map.take());
        mem::forget(self.waker.clone());
    }
}

/// How long a dropped ring waits while the kernel has this many operations, of which so many are
/// memory that is lent to peers. Peers alone are not worth the long wait.
fn drop_wait_max(in_kernel: usize, lent: usize) -> Duration {
    if in_kernel == lent { LENT_DROP_WAIT_MAX } else { DROP_WAIT_MAX }
}

/// The best ring with this many entries.
fn new_ring(entries: u32) -> Result<IoUring, RingError> {
    setup::build(entries, (entries * COMPLETIONS_PER_ENTRY).min(2 * ENTRIES_MAX))
}

/// Logged once, because a kernel that reports this once reports it often.
fn impossible(what: &'static str) {
    static LOGGED: Once = Once::new();
    LOGGED.call_once(|| {
        tracing::error!(
            "the kernel reported {what}, which is impossible; the report is ignored, and later ones are not logged; if anything else goes \
             wrong, look for the reason in the kernel's log"
        );
    });
}

/// A timeout, a signal, or a kernel that wants its completions reaped first are all reasons to poll
/// again.
fn outcome(result: io::Result<usize>) -> Result<(), RingError> {
    match result {
        Ok(_) => Ok(()),
        Err(e) => match e.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(RingError::Wait { source: e }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Chunk;
    use reel_arena::ArenaConfig;
    use reel_testkit::ring_or_skip;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    /// `IORING_CQE_F_MORE` and `IORING_CQE_F_NOTIF` (io_uring.h).
    const MORE: u32 = 1 << 1;
    const NOTIF: u32 = 1 << 3;
    const BYTES: usize = 65_536;

    /// A ring that can send without a copy, a socket and its peer. Without one, prints why and
    /// returns `None`.
    fn zero_copy_pair() -> Option<(UringDriver, Arena, Arc<OwnedFd>, TcpStream)> {
        let waker = Waker::new().expect("an eventfd");
        let driver = ring_or_skip(UringDriver::new(8, waker))?;
        if !driver.sends_zero_copy() {
            println!("skipped: io_uring without zero-copy sends");
            return None;
        }
        let shape =
            ArenaConfig { buffer_bytes: BYTES, buffer_count: 4, cells_per_buffer: 1, huge_pages: false };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let socket = listener.accept().expect("accepted").0;
        Some((driver, Arena::new(shape).expect("memory"), Arc::new(socket.into()), peer))
    }

    fn send(driver: &mut UringDriver, arena: &Arena, socket: &Arc<OwnedFd>) -> Key {
        let mut buffer = arena.take(BYTES).expect("free");
        buffer.fill(5);
        let chunks = vec![Chunk::Lease(buffer.freeze())];
        driver.push(1, Op::SendZeroCopy { socket: Arc::clone(socket), chunks });
        driver.slab.find(1).expect("just pushed")
    }

    fn wait(driver: &mut UringDriver, done: &mut Vec<Done>, ends: usize) {
        let from = Instant::now();
        while done.len() < ends {
            assert!(from.elapsed() < Duration::from_secs(120), "{done:?}");
            driver.wait(Some(Duration::from_millis(10)), done).expect("a sound ring");
        }
    }

    #[test]
    fn a_dropped_ring_waits_long_for_devices_and_not_for_peers() {
        assert_eq!(drop_wait_max(3, 3), LENT_DROP_WAIT_MAX);
        assert_eq!([drop_wait_max(3, 2), drop_wait_max(1, 0)], [DROP_WAIT_MAX; 2]);
        assert!(LENT_DROP_WAIT_MAX < DROP_WAIT_MAX);
    }

    #[test]
    fn repeated_or_unknown_reports_change_nothing() {
        let Some((mut driver, arena, socket, mut peer)) = zero_copy_pair() else { return };
        let key = send(&mut driver, &arena, &socket);
        // Before the kernel has seen the operation.
        for (answer, flags) in [(0, NOTIF), (-1, NOTIF), (4096, MORE), (i32::MIN, 0), (i32::MAX, 0)] {
            driver.answered(key, answer, flags);
            driver.answered(key ^ 1 << 40, answer, flags);
            driver.answered(77, answer, flags);
        }
        assert_eq!((driver.in_kernel, driver.lent, driver.ended.len()), (0, 0, 0));
        let mut done = Vec::new();
        // On this machine the peer must read before the memory is released.
        wait(&mut driver, &mut done, 1);
        let lent = driver.lent;
        driver.answered(key, 4096, MORE);
        driver.answered(key, 4096, 0);
        assert_eq!((driver.lent, driver.ended.len()), (lent, 0), "answered once is answered");
        let mut got = vec![0; *done[0].result.as_ref().expect("sent")];
        peer.read_exact(&mut got).expect("read");
        wait(&mut driver, &mut done, 2);
        driver.answered(key, 0, NOTIF);
        driver.answered(key, 0, NOTIF);
        assert_eq!((driver.lent, driver.in_flight(), done.len()), (0, 0, 2));
        drop(done);
        assert_eq!(arena.usage().buffers_taken, 0, "given back once");
    }

    #[test]
    fn a_report_of_more_bytes_than_requested_is_limited() {
        let Some((mut driver, arena, socket, _peer)) = zero_copy_pair() else { return };
        let key = send(&mut driver, &arena, &socket);
        driver.push(2, Op::Receive { socket, buffer: Vec::with_capacity(10) });
        let receive = driver.slab.find(2).expect("just pushed");
        for key in [key, receive] {
            // As if the kernel had them.
            let entry = driver.slab.get_mut(key).expect("in flight");
            let _never_sent = entry.prepare(None, true);
            driver.in_kernel += 1;
            driver.answered(key, i32::MAX, 0);
        }
        driver.queue.clear();
        let mut done = Vec::new();
        driver.reap(&mut done, 10);
        let bytes: Vec<usize> = done.iter().map(|done| *done.result.as_ref().expect("bytes")).collect();
        assert_eq!(bytes, [BYTES, 10]);
        assert!(matches!(&done[1].op, Op::Receive { buffer, .. } if buffer.len() <= buffer.capacity()));
    }

    /// The answer was lost with the ring, so it is unknown whether the kernel still sends from the
    /// memory.
    #[test]
    fn bytes_that_a_broken_ring_may_still_send_are_not_freed() {
        let Some((mut driver, arena, socket, _peer)) = zero_copy_pair() else { return };
        let head: Arc<[u8]> = Arc::from(&[5; 100][..]);
        let chunks =
            vec![Chunk::from(Arc::clone(&head)), Chunk::Lease(arena.take(BYTES).expect("free").freeze())];
        driver.push(1, Op::SendZeroCopy { socket, chunks });
        let key = driver.slab.find(1).expect("just pushed");
        let _never_sent = driver.slab.get_mut(key).expect("in flight").prepare(None, true);
        driver.in_kernel += 1;
        driver.queue.clear();
        driver.renew(io::Error::from_raw_os_error(libc::EBADR)).expect("another ring");
        let mut done = Vec::new();
        wait(&mut driver, &mut done, 1);
        assert!(done[0].result.is_err());
        drop((done, driver));
        assert_eq!((Arc::strong_count(&head), arena.usage().buffers_taken), (2, 1), "kept for ever");
    }

    /// A peer that never acknowledges: its memory is not reused as long as the ring lives.
    #[test]
    fn memory_without_a_report_is_never_reused() {
        let Some((mut driver, arena, socket, _peer)) = zero_copy_pair() else { return };
        let key = send(&mut driver, &arena, &socket);
        let entry = driver.slab.get_mut(key).expect("in flight");
        let _never_sent = entry.prepare(None, true);
        driver.in_kernel += 1;
        driver.queue.clear();
        driver.answered(key, BYTES as i32, MORE);
        let mut done = Vec::new();
        for _ in 0..20 {
            driver.wait(Some(Duration::from_millis(1)), &mut done).expect("a sound ring");
        }
        assert_eq!((done.len(), driver.lent), (1, 1), "taken, and nothing more");
        drop((done, socket));
        assert_eq!((arena.usage().buffers_taken, arena.pieces_sending()), (1, 1));
        drop(driver);
        assert_eq!(arena.usage().buffers_taken, 1, "not even when the ring ends");
    }
}
