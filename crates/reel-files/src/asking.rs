//! Threads that ask the server, so that the thread that reads the kernel's questions never waits.

use crate::limits::WAITING_MAX;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Asks the server, and answers the kernel; without a turn it has to do so at once.
type Question = Box<dyn FnOnce(Option<Turn>) + Send>;

/// When a question was put, and until when it has to be answered.
///
/// All questions have the same time and are taken in their order, so the thread that is free next
/// is free before the time of the first one that waits is over: no question waits for longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) put: Instant,
    pub(crate) until: Instant,
}

impl Turn {
    /// The turn of a question that is put now and needs no time.
    pub(crate) fn now() -> Turn {
        let now = Instant::now();
        Turn { put: now, until: now }
    }
}

/// The threads. They end when this does.
pub(crate) struct Asking {
    questions: SyncSender<(Instant, Question)>,
}

impl Asking {
    /// Starts so many threads. Each question has this time.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(name: &str, threads: usize, answer_time: Duration) -> io::Result<Asking> {
        let (questions, taken) = sync_channel(WAITING_MAX);
        let taken = Arc::new(Mutex::new(taken));
        for number in 0..threads {
            let taken = Arc::clone(&taken);
            thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || answer(&taken, answer_time))?;
        }
        Ok(Asking { questions })
    }

    /// Has a question answered by one of the threads. If too many wait, it gets no turn.
    pub(crate) fn put(&self, question: impl FnOnce(Option<Turn>) + Send + 'static) {
        match self.questions.try_send((Instant::now(), Box::new(question))) {
            Ok(()) => {}
            Err(TrySendError::Full((_, question)) | TrySendError::Disconnected((_, question))) => {
                question(None)
            }
        }
    }
}

/// Answers questions until there are no more.
fn answer(taken: &Mutex<Receiver<(Instant, Question)>>, answer_time: Duration) {
    loop {
        let next = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((put, question)) = next else { return };
        question(Some(Turn { put, until: put + answer_time }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const THREADS: usize = 3;

    #[test]
    fn questions_beyond_the_limit_are_answered_at_once() {
        let asking = Asking::start("reel-test", THREADS, Duration::from_secs(1)).expect("threads");
        let (begun, begins) = channel();
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for _ in 0..THREADS {
            let (begun, held) = (begun.clone(), Arc::clone(&held));
            asking.put(move |_| {
                begun.send(()).expect("the test waits");
                // Until the test lets go.
                let _ = held.lock().unwrap_or_else(PoisonError::into_inner).recv();
            });
        }
        (0..THREADS).for_each(|_| begins.recv().expect("it begins"));
        let (answer, answers) = channel();
        for _ in 0..WAITING_MAX + 3 {
            let answer = answer.clone();
            asking.put(move |turn| answer.send(turn.is_some()).expect("the test counts"));
        }
        drop((answer, begun));
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), [false; 3]);
        drop(release);
        assert_eq!(answers.iter().filter(|has_turn| *has_turn).count(), WAITING_MAX);
    }
}
