use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use reel_arena::{Arena, State};

use crate::arena_map::ArenaMap;
use crate::error::RingError;
use crate::limits::{
    COMPLETIONS_PER_ENTRY, DONE_PER_WAIT_MAX, DROP_WAIT_MAX, ENTRIES_MAX, LENT_DROP_WAIT_MAX,
};
use crate::op::{Done, Op};
use crate::slab::{Key, Slab};
use crate::waker::Waker;

mod entry;
mod setup;
mod train;

use entry::{Entry, Phase};

/// Keys of the driver's own operations; no slab key reaches them.
const KEY_WAKE: u64 = u64::MAX;
const KEY_CANCEL: u64 = u64::MAX - 1;

/// The io_uring driver.
pub(crate) struct UringDriver {
    ring: IoUring,
    slab: Slab<Entry>,
    /// What the kernel has not been told yet, in order.
    queue: VecDeque<Request>,
    /// Ended without the kernel.
    ended: Vec<Done>,
    /// Entries the kernel may touch the memory of (the eventfd read included).
    in_kernel: usize,
    /// Those of them that are answered but for the end of a zero-copy send.
    lent: usize,
    sends_zero_copy: bool,
    map: Option<ArenaMap>,
    waker: Waker,
    /// Where the kernel puts the eventfd's count. Boxed: the kernel keeps the address.
    wake_count: Box<UnsafeCell<u64>>,
    wake_armed: bool,
}

enum Request {
    Start(Key),
    Cancel(Key),
}

impl UringDriver {
    pub(crate) fn new(entries: u32, waker: Waker) -> Result<UringDriver, RingError> {
        let completions = (entries * COMPLETIONS_PER_ENTRY).min(2 * ENTRIES_MAX);
        let ring = setup::build(entries, completions)?;
        Ok(UringDriver {
            sends_zero_copy: setup::sends_zero_copy(&ring),
            ring,
            slab: Slab::new(),
            queue: VecDeque::new(),
            ended: Vec::new(),
            in_kernel: 0,
            lent: 0,
            map: None,
            waker,
            wake_count: Box::new(UnsafeCell::new(0)),
            wake_armed: false,
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
        let key = self.slab.insert(token, Entry::new(op));
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
        let end = done.len() + DONE_PER_WAIT_MAX;
        let before = done.len();
        let mut entered = false;
        self.start_queued()?;
        self.reap(done, end);
        let may_sleep = timeout != Some(Duration::ZERO) && done.len() == before && self.queue.is_empty();
        if may_sleep && self.arm_wake()? && self.waker.fall_asleep() {
            let result = self.sleep(timeout);
            self.waker.look();
            result?;
        } else {
            self.waker.look();
            self.enter()?;
        }
        // Deferred work is done inside `enter` a few completions at a time: go on as long as that brings any. The
        // kernel's flag alone is no reason to: it is raised after the work is listed, so it can stay up when the work
        // was done in between, and is taken down only with the next work.
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

    /// Moves the queue into the submission ring, entering the kernel each time that is full.
    fn start_queued(&mut self) -> Result<(), RingError> {
        while let Some(request) = self.queue.pop_front() {
            if self.ring.submission().is_full() {
                self.enter()?;
                if self.ring.submission().is_full() {
                    // The kernel takes no more until completions are reaped.
                    self.queue.push_front(request);
                    return Ok(());
                }
            }
            match request {
                Request::Start(key) => self.start(key),
                Request::Cancel(key) => {
                    self.submit_entry(opcode::AsyncCancel::new(key).build().user_data(KEY_CANCEL))
                }
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
        let sqe = entry.prepare(self.map.as_ref(), self.sends_zero_copy).user_data(key);
        self.in_kernel += 1;
        self.submit_entry(sqe);
    }

    /// The caller has made sure that there is room.
    fn submit_entry(&mut self, sqe: squeue::Entry) {
        // SAFETY: all the entry points to is owned by the slab (whose entries leave only after their completion),
        // by `wake_count`, or is nothing; and none of it moves when the slab grows: it is all behind pointers.
        let pushed = unsafe { self.ring.submission().push(&sqe) };
        debug_assert!(pushed.is_ok(), "the caller has checked for room");
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
        let sqe = opcode::Read::new(fd, self.wake_count.get().cast(), 8).build().user_data(KEY_WAKE);
        self.submit_entry(sqe);
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
        outcome(self.ring.submit())
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> Result<(), RingError> {
        match timeout {
            None => outcome(self.ring.submit_and_wait(1)),
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                outcome(self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timespec)))
            }
        }
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
        let key = cqe.user_data();
        match key {
            KEY_CANCEL => return,
            KEY_WAKE => {
                self.wake_armed = false;
                self.in_kernel -= 1;
                return;
            }
            _ => {}
        }
        let Some(entry) = self.slab.get_mut(key) else {
            debug_assert!(false, "a completion for nothing in flight");
            return;
        };
        if cqueue::notif(cqe.flags()) {
            // The flags of a notification lie where other completions have their result.
            entry.returned(cqe.result() as u32);
            let taken_bytes = entry.taken_bytes;
            self.in_kernel -= 1;
            self.lent -= 1;
            return self.end(key, Ok(taken_bytes));
        }
        let result = match cqe.result() {
            n if n >= 0 => Ok(n as usize),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        };
        if cqueue::more(cqe.flags()) {
            let op = entry.lend(*result.as_ref().unwrap_or(&0));
            self.lent += 1;
            if let Some(token) = self.slab.token(key) {
                self.ended.push(Done { token, result, op, accepted: None });
            }
            return;
        }
        self.in_kernel -= 1;
        if entry.goes_on(&result) {
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
                    // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
                    accepted = Some(unsafe { OwnedFd::from_raw_fd(fd as i32) });
                    result = Ok(0);
                }
            }
            Op::Receive { buffer, .. } => {
                if let Ok(n) = result {
                    // SAFETY: the kernel has initialised `n` bytes after the old length, within the capacity.
                    unsafe { buffer.set_len(buffer.len() + n) };
                }
            }
            Op::Read { buffer, .. } => buffer.set_state(State::Full),
            _ => {}
        }
        self.ended.push(Done { token, result, op, accepted });
    }

    /// Cancels everything and waits until the kernel has let go of all memory, or the time is over: for what peers have not acknowledged
    /// that is short.
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
            let only_lent = self.in_kernel == self.lent;
            let deadline = start + if only_lent { LENT_DROP_WAIT_MAX } else { DROP_WAIT_MAX };
            if now >= deadline {
                return false;
            }
            if !cancel_sent && !self.ring.submission().is_full() {
                self.submit_entry(
                    opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(KEY_CANCEL),
                );
                cancel_sent = true;
            }
            if self.sleep(Some(deadline - now)).is_err() {
                return false;
            }
            self.reap(&mut done, usize::MAX);
            done.clear();
            // What wanted to go on after a poll ends here: it is no longer in the kernel.
            self.queue.clear();
        }
        true
    }
}

impl Drop for UringDriver {
    fn drop(&mut self) {
        if self.drain() {
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
                "{} operations did not end within {} s; their memory is never used again",
                self.in_kernel,
                DROP_WAIT_MAX.as_secs()
            );
        }
        // The kernel may still write there: memory that is never freed is safe, freed memory is not.
        mem::forget(mem::replace(&mut self.slab, Slab::new()));
        mem::forget(mem::take(&mut self.wake_count));
        mem::forget(self.map.take());
        mem::forget(self.waker.clone());
    }
}

/// A timeout, a signal, or a kernel that wants its completions reaped first are all reasons to look again.
fn outcome(result: io::Result<usize>) -> Result<(), RingError> {
    match result {
        Ok(_) => Ok(()),
        Err(e) => match e.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(RingError::Wait { source: e }),
        },
    }
}
