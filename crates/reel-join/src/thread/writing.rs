//! The calls on files, which wait for disks and so are made by threads of their own.

use crate::joins::Joins;
use crate::part::Part;
use reel_ring::Chunk;
use reel_rt::{Workers, lock};
use reel_serve::streams::StreamId;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

/// The writing threads, as the thread of joins sees them.
pub(super) struct Writing {
    joins: Joins,
    workers: Workers,
    worked: Arc<Mutex<VecDeque<Worked>>>,
}

/// A call on a file.
pub(super) struct Work {
    pub(super) of: Of,
    pub(super) part: Part,
    /// What is to be written; nothing if the file is to be completed.
    pub(super) chunks: Vec<Chunk>,
}

/// What a call is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    /// It writes for this outlet of a chain.
    Outlet(StreamId, u64),
    /// It completes the file of an outlet that has ended, by the number of that end.
    Ended(u64),
}

/// The end of a call.
pub(super) struct Worked {
    pub(super) of: Of,
    /// The file; `None` if it was completed, or was removed because it could not be.
    pub(super) part: Option<Part>,
    /// Bytes that were to be written.
    pub(super) bytes: usize,
    pub(super) result: io::Result<()>,
}

impl Writing {
    pub(super) fn new(joins: Joins, workers: Workers) -> Self {
        Self { joins, workers, worked: Arc::default() }
    }

    /// Begins a call. [`Writing::next_worked`] has its end, after the thread was woken.
    pub(super) fn begin(&self, work: Work) {
        let (of, bytes) = (work.of, work.bytes());
        let (joins, worked) = (self.joins.clone(), Arc::clone(&self.worked));
        let is_taken = self.workers.run(move || {
            let ended = work.make();
            lock(&worked).push_back(ended);
            joins.wake();
        });
        if !is_taken {
            // Each outlet has one call at most, so there is room for all of them.
            let result = Err(io::Error::other("too many writes wait"));
            lock(&self.worked).push_back(Worked { of, part: None, bytes, result });
            self.joins.wake();
        }
    }

    /// A call that has ended.
    pub(super) fn next_worked(&self) -> Option<Worked> {
        lock(&self.worked).pop_front()
    }

    /// Removes a file that is not complete.
    pub(super) fn discard(&self, part: Option<Part>) {
        if let Some(part) = part {
            // If it is not taken, the file is removed here.
            self.workers.run(move || drop(part));
        }
    }
}

impl Work {
    fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    fn make(self) -> Worked {
        let (of, bytes) = (self.of, self.bytes());
        let Work { mut part, chunks, .. } = self;
        if matches!(of, Of::Ended(_)) {
            return Worked { of, part: None, bytes, result: part.complete() };
        }
        let result = part.write(&chunks);
        Worked { of, part: Some(part), bytes, result }
    }
}
