use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use reel_arena::PieceState;

use crate::limits::PORTABLE_FILE_THREADS;
use crate::op::Op;
use crate::slab::Key;
use crate::waker::Waker;

/// A few threads that read, write and sync files with plain system calls. They start with the first
/// job, so a ring that only serves sockets has none.
pub(super) struct FileThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
    ended: Mutex<Vec<Ended>>,
    waker: Waker,
}

struct Jobs {
    queue: VecDeque<(Key, Op)>,
    closed: bool,
}

type Ended = (Key, Op, io::Result<usize>);

impl FileThreads {
    pub(super) fn new(waker: Waker) -> FileThreads {
        FileThreads {
            shared: Arc::new(Shared {
                jobs: Mutex::new(Jobs { queue: VecDeque::new(), closed: false }),
                arrived: Condvar::new(),
                ended: Mutex::new(Vec::new()),
                waker,
            }),
            threads: Vec::new(),
        }
    }

    /// Queues a job.
    ///
    /// # Errors
    /// If no thread can be started; returns the job.
    pub(super) fn push(&mut self, key: Key, op: Op) -> Result<(), (Op, io::Error)> {
        while self.threads.len() < PORTABLE_FILE_THREADS {
            let shared = Arc::clone(&self.shared);
            match thread::Builder::new().name("reel-file".to_owned()).spawn(move || shared.work()) {
                Ok(thread) => self.threads.push(thread),
                Err(error) if self.threads.is_empty() => return Err((op, error)),
                Err(_) => break,
            }
        }
        if let Op::Read { buffer, .. } = &op {
            buffer.set_state(PieceState::Reading);
        }
        self.shared.jobs().queue.push_back((key, op));
        self.shared.arrived.notify_one();
        Ok(())
    }

    /// The operation, if no thread has begun it.
    pub(super) fn cancel(&mut self, key: Key) -> Option<Op> {
        let mut jobs = self.shared.jobs();
        let place = jobs.queue.iter().position(|(queued, _)| *queued == key)?;
        jobs.queue.remove(place).map(|(_, op)| op)
    }

    pub(super) fn take_ended(&mut self) -> Vec<Ended> {
        mem::take(&mut *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for FileThreads {
    fn drop(&mut self) {
        let mut jobs = self.shared.jobs();
        jobs.closed = true;
        jobs.queue.clear();
        drop(jobs);
        self.shared.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of that thread has already been printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some((key, mut op)) = self.next() {
            let result = perform(&mut op);
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((key, op, result));
            self.waker.wake();
        }
    }

    fn next(&self) -> Option<(Key, Op)> {
        let mut jobs = self.jobs();
        loop {
            if jobs.closed {
                return None;
            }
            if let Some(job) = jobs.queue.pop_front() {
                return Some(job);
            }
            jobs = self.arrived.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn perform(op: &mut Op) -> io::Result<usize> {
    let result = match op {
        Op::Read { file, offset, buffer, start, bytes } => {
            let result = retry(|| rustix::io::pread(&*file, &mut buffer[*start..*start + *bytes], *offset));
            buffer.set_state(PieceState::Full);
            result
        }
        Op::Write { file, offset, lease } => {
            let _account = lease.sending();
            retry(|| rustix::io::pwrite(&*file, lease, *offset))
        }
        Op::Sync { file } => retry(|| rustix::fs::fdatasync(&*file)).map(|()| 0),
        _ => Err(rustix::io::Errno::INVAL),
    };
    Ok(result?)
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    rustix::io::retry_on_intr(&mut call)
}
