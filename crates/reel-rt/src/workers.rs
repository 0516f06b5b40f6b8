//! Threads for calls that wait, so that no serving thread does.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

type Call = Box<dyn FnOnce() + Send>;

/// A bounded queue of calls, and the threads that make them; cheap to clone. The threads end when
/// the last clone is dropped and the queue is empty. A call that panics ends no thread.
#[derive(Clone)]
pub struct Workers {
    queue: SyncSender<Call>,
}

impl Workers {
    /// Starts `threads` threads called `name-0` and so on; at most `queue_max` calls wait. Also
    /// returns the threads, for those that wait for their end.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(name: &str, threads: usize, queue_max: usize) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (queue, calls) = sync_channel(queue_max);
        let calls = Arc::new(Mutex::new(calls));
        let start = |number: usize| {
            let calls = Arc::clone(&calls);
            thread::Builder::new().name(format!("{name}-{number}")).spawn(move || work(&calls))
        };
        let threads = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok((Self { queue }, threads))
    }

    /// Has one of the threads make a call; `false` if too many wait already.
    pub fn run(&self, call: impl FnOnce() + Send + 'static) -> bool {
        self.queue.try_send(Box::new(call)).is_ok()
    }
}

fn work(calls: &Mutex<Receiver<Call>>) {
    loop {
        // The thread that holds the lock waits for the next call; the others wait for the lock.
        let next = calls.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(call) = next else { return };
        // The call owns what it works on, so the panic, which was logged, drops that.
        let _ = catch_unwind(AssertUnwindSafe(call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn calls_are_made_and_the_queue_is_bounded() {
        let (workers, threads) = Workers::start("test", 1, 1).expect("a thread");
        let (release, held) = channel::<()>();
        let (sender, receiver) = channel();
        let started = sender.clone();
        assert!(workers.run(move || {
            started.send(0).expect("the test listens");
            let _ = held.recv();
        }));
        assert_eq!(receiver.recv(), Ok(0), "the only thread is busy now");
        assert!(workers.run(move || sender.send(1).expect("the test listens")));
        assert!(!workers.run(|| ()), "one call waits, and no more may");
        drop(release);
        assert_eq!(receiver.recv(), Ok(1));
        drop(workers);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }

    #[test]
    fn a_call_that_panics_ends_no_thread() {
        let (workers, threads) = Workers::start("test", 1, 2).expect("a thread");
        let (sender, receiver) = channel();
        assert!(workers.run(|| panic!("on purpose")));
        assert!(workers.run(move || sender.send(1).expect("the test listens")));
        assert_eq!(receiver.recv(), Ok(1));
        drop(workers);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }
}
