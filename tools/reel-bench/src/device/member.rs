//! One modelled disk in real time: a thread that takes as long as the model says.

use reel_testkit::{DiskModel, ModelledDisk};
use rustix::fs::{Advice, fadvise};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Where an answer goes.
pub(super) trait Answer: Send {
    fn done(self: Box<Self>, data: io::Result<&[u8]>);
}

/// What the disk is asked to do.
pub(super) enum Work {
    Read { offset: u64, bytes: usize, answer: Box<dyn Answer> },
    Write { offset: u64, data: Vec<u8>, answer: Box<dyn Answer> },
    Change(Change),
}

/// How a disk behaves from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Change {
    /// As quick as its file: for putting films on it.
    Instant,
    /// As the model says.
    Modelled,
    /// Does nothing for the first `stall_ms` of every `every_ms`.
    Stalls { stall_ms: u64, every_ms: u64 },
    /// Every request fails, as when the drive was taken out.
    Removed,
}

/// What a disk did.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
    pub(crate) seeks: AtomicU64,
    /// Answers more than 5 ms after the model's time: the machine was too slow to play the disk.
    pub(crate) overruns: AtomicU64,
}

/// A disk and its thread, which ends with it.
pub(super) struct Member {
    sender: Option<Sender<(Instant, Work)>>,
    thread: Option<JoinHandle<()>>,
    pub(super) counts: Arc<Counts>,
}

impl Member {
    pub(super) fn start(number: usize, model: DiskModel, file: File) -> io::Result<Self> {
        // What the model reads it reads once; read-ahead would only fill memory.
        fadvise(&file, 0, None, Advice::Random)?;
        let (sender, receiver) = channel();
        let counts = Arc::new(Counts::default());
        let counted = counts.clone();
        let thread = thread::Builder::new().name(format!("disk-{number}")).spawn(move || {
            // Without it every sleep is 50 us longer. A refusal makes the disk that much slower, no
            // more.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            MemberThread::new(model, file, counted).run(&receiver);
        })?;
        Ok(Self { sender: Some(sender), thread: Some(thread), counts })
    }

    pub(super) fn ask(&self, work: Work) {
        if let Some(sender) = &self.sender {
            // The thread ends after the sender alone.
            let _ = sender.send((Instant::now(), work));
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's state.
struct MemberThread {
    file: File,
    disk: ModelledDisk,
    counts: Arc<Counts>,
    epoch: Instant,
    change: Change,
    waiting: HashMap<u64, Work>,
    next_id: u64,
    under_way: Option<UnderWay>,
}

/// A request whose bytes are there already and whose time is not over.
struct UnderWay {
    done_ns: u64,
    result: io::Result<Vec<u8>>,
    answer: Box<dyn Answer>,
}

impl MemberThread {
    fn new(model: DiskModel, file: File, counts: Arc<Counts>) -> Self {
        Self {
            file,
            disk: ModelledDisk::new(model),
            counts,
            epoch: Instant::now(),
            change: Change::Instant,
            waiting: HashMap::new(),
            next_id: 0,
            under_way: None,
        }
    }

    fn run(&mut self, receiver: &Receiver<(Instant, Work)>) {
        loop {
            let received = match &self.under_way {
                None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(UnderWay { done_ns, .. }) => {
                    receiver.recv_timeout(Duration::from_nanos(done_ns.saturating_sub(self.now_ns())))
                }
            };
            match received {
                Ok((arrived, work)) => self.take(arrived, work),
                Err(RecvTimeoutError::Timeout) => self.finish(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.under_way.is_none() {
                // All that came meanwhile is there to choose from.
                while let Ok((arrived, work)) = receiver.try_recv() {
                    self.take(arrived, work);
                }
                self.begin();
            }
        }
    }

    fn take(&mut self, arrived: Instant, work: Work) {
        let place = match &work {
            Work::Change(change) => return self.become_(*change),
            Work::Read { offset, bytes, .. } => (*offset, *bytes as u64),
            Work::Write { offset, data, .. } => (*offset, data.len() as u64),
        };
        match self.change {
            Change::Removed => self.fail(work),
            Change::Instant => {
                let (result, answer) = self.perform(work);
                answer.done(result.as_deref().map_err(copy));
            }
            Change::Modelled | Change::Stalls { .. } => {
                let arrived_ns = arrived.saturating_duration_since(self.epoch).as_nanos() as u64;
                self.disk.push(self.next_id, place.0, place.1, arrived_ns);
                self.waiting.insert(self.next_id, work);
                self.next_id += 1;
            }
        }
    }

    fn become_(&mut self, change: Change) {
        self.change = change;
        if matches!(change, Change::Removed | Change::Instant) {
            self.disk.clear();
            let mut waiting: Vec<_> = self.waiting.drain().collect();
            waiting.sort_by_key(|(id, _)| *id);
            for (_, work) in waiting {
                if change == Change::Removed {
                    self.fail(work);
                } else {
                    let (result, answer) = self.perform(work);
                    answer.done(result.as_deref().map_err(copy));
                }
            }
        }
    }

    /// Begins what is next. Its bytes are fetched at once and kept until the model's disk would
    /// have them.
    fn begin(&mut self) {
        if let Change::Stalls { stall_ms, every_ms } = self.change {
            let (stall_ns, every_ns) = (stall_ms * 1_000_000, every_ms.max(1) * 1_000_000);
            let now_ns = self.now_ns();
            if now_ns % every_ns < stall_ns {
                self.disk.hold(now_ns - now_ns % every_ns + stall_ns);
            }
        }
        let Some(begun) = self.disk.begin() else { return };
        let Some(work) = self.waiting.remove(&begun.id) else { return };
        let (result, answer) = self.perform(work);
        self.counts.busy_ns.store(self.disk.busy_ns, Ordering::Relaxed);
        self.counts.seeks.store(self.disk.seeks, Ordering::Relaxed);
        self.under_way = Some(UnderWay { done_ns: begun.done_ns, result, answer });
    }

    fn finish(&mut self) {
        let Some(UnderWay { done_ns, result, answer }) = self.under_way.take() else { return };
        if self.now_ns() > done_ns + 5_000_000 {
            self.counts.overruns.fetch_add(1, Ordering::Relaxed);
        }
        answer.done(result.as_deref().map_err(copy));
    }

    fn perform(&self, work: Work) -> (io::Result<Vec<u8>>, Box<dyn Answer>) {
        match work {
            Work::Read { offset, bytes, answer } => {
                self.counts.reads.fetch_add(1, Ordering::Relaxed);
                self.counts.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                let mut data = vec![0; bytes];
                (self.file.read_exact_at(&mut data, offset).map(|()| data), answer)
            }
            Work::Write { offset, data, answer } => {
                self.counts.writes.fetch_add(1, Ordering::Relaxed);
                self.counts.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                (self.file.write_all_at(&data, offset).map(|()| Vec::new()), answer)
            }
            Work::Change(_) => unreachable!("changes are taken at once"),
        }
    }

    fn fail(&self, work: Work) {
        if let Work::Read { answer, .. } | Work::Write { answer, .. } = work {
            answer.done(Err(io::Error::other("the disk was removed")));
        }
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

fn copy(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}
