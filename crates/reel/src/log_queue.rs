//! Lines on their way to the log. One thread writes them, so no other thread waits for a terminal,
//! a pipe or a disk. A line for which there is no room, or that cannot be written, is dropped and
//! counted.

use reel_rt::lock;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use reel_metrics::{MetricsPage, MetricsSource};

use crate::limits::{LOG_BYTES_MAX, LOG_LINES_MAX};

/// The sender of lines to the thread that writes them. Clones are the same queue.
#[derive(Clone)]
pub(crate) struct LogQueue(Arc<Shared>);

struct Shared {
    /// Locked for a few instructions at a time, and never while a line is written.
    state: Mutex<State>,
    /// A line has come.
    filled: Condvar,
    /// Every line is written or dropped.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Bytes of `lines`, and of the line that is being written.
    bytes: usize,
    is_writing: bool,
    /// Lines that were dropped since the start...
    dropped: u64,
    /// ...and how many of them the log has told of.
    reported: u64,
}

/// Where lines are written to.
struct Output<W> {
    writer: W,
    /// A part of the last line was written.
    is_cut: bool,
}

impl LogQueue {
    /// Starts the thread, which writes to `writer`. When lines were dropped and the log works
    /// again, it writes the line of `notice`, which says how many.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        writer: impl Write + Send + 'static,
        notice: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let state = Mutex::new(State::default());
        let shared = Arc::new(Shared { state, filled: Condvar::new(), emptied: Condvar::new() });
        let own = Arc::clone(&shared);
        let run = move || own.write_lines(Output { writer, is_cut: false }, &notice);
        thread::Builder::new().name("reel-log".to_owned()).spawn(run)?;
        Ok(Self(shared))
    }

    /// Takes a line with its newline. Never waits for the log.
    pub(crate) fn push(&self, line: &[u8]) {
        let line = line.to_vec();
        let mut state = lock(&self.0.state);
        if state.lines.len() >= LOG_LINES_MAX || state.bytes + line.len() > LOG_BYTES_MAX {
            state.dropped += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.0.filled.notify_one();
    }

    /// Waits until every line is written or dropped, but no longer than `wait_max`.
    pub(crate) fn flush(&self, wait_max: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.lines.is_empty();
        drop(self.0.emptied.wait_timeout_while(lock(&self.0.state), wait_max, is_busy));
    }
}

/// One line of a subscriber. It never fails.
impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MetricsSource for LogQueue {
    fn collect(&self, page: &mut MetricsPage) {
        page.counter(
            "reel_log_lines_dropped_total",
            "Lines of the log that were dropped, because they could not be written or too many waited.",
            &[],
            lock(&self.0.state).dropped,
        );
    }
}

impl Shared {
    fn write_lines(&self, mut output: Output<impl Write>, notice: &impl Fn(u64) -> String) {
        while let Some(line) = self.next() {
            let is_written = output.write(&line);
            let lost = self.written(line.len(), is_written);
            if lost > 0 && output.write(notice(lost).as_bytes()) {
                lock(&self.state).reported += lost;
            }
        }
    }

    /// Waits for a line.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        state.is_writing = false;
        if state.lines.is_empty() {
            self.emptied.notify_all();
        }
        let waited = self.filled.wait_while(state, |state| state.lines.is_empty());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_writing = true;
        state.lines.pop_front()
    }

    /// Counts a line. Returns how many dropped lines the log is to tell of now: not before all
    /// lines that waited are written, or a slow log would get as many notices as lines.
    fn written(&self, bytes: usize, is_written: bool) -> u64 {
        let mut state = lock(&self.state);
        state.bytes -= bytes;
        state.dropped += u64::from(!is_written);
        if is_written && state.lines.is_empty() { state.dropped - state.reported } else { 0 }
    }
}

impl<W: Write> Output<W> {
    /// Writes a line; false if not all of it was written.
    fn write(&mut self, line: &[u8]) -> bool {
        // What follows a part of a line begins on a line of its own.
        if self.is_cut && self.write_some(b"\n") == 0 {
            return false;
        }
        let written = self.write_some(line);
        self.is_cut = (1..line.len()).contains(&written);
        written == line.len()
    }

    /// Returns how many bytes were written before an error.
    fn write_some(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.writer.write(&bytes[written..]) {
                Ok(0) => break,
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// What the next writes do, one after the other.
    type Outcome = io::Result<usize>;

    /// A log that waits in each write until the test says what becomes of it, and then shows the
    /// bytes that it took.
    struct Held {
        outcomes: Receiver<Outcome>,
        taken: Sender<String>,
    }

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = self.outcomes.recv().unwrap_or(Ok(0))?.min(bytes.len());
            let _ = self.taken.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn held() -> (LogQueue, Sender<Outcome>, Receiver<String>) {
        let (outcome, outcomes) = channel();
        let (taken, seen) = channel();
        let queue = LogQueue::start(Held { outcomes, taken }, |lost| format!("{lost} lost\n")).unwrap();
        (queue, outcome, seen)
    }

    fn dropped(queue: &LogQueue) -> u64 {
        lock(&queue.0.state).dropped
    }

    const WHOLE: Outcome = Ok(usize::MAX);

    fn full() -> Outcome {
        Err(ErrorKind::StorageFull.into())
    }

    #[test]
    fn a_log_that_stands_still_costs_lines_and_no_time_and_says_so_once() {
        let (queue, outcome, seen) = held();
        let count = LOG_LINES_MAX as u64 + 100;
        // The first line is in the writer's hand at once, or later.
        (0..count).for_each(|number| queue.push(format!("{number}\n").as_bytes()));
        let lost = dropped(&queue);
        assert!((99..=100).contains(&lost), "{lost}");
        let mut written = Vec::new();
        for _ in lost..count {
            outcome.send(WHOLE).unwrap();
            written.push(seen.recv().unwrap().trim().parse::<u64>().unwrap());
        }
        assert!(written.is_sorted(), "{written:?}");
        outcome.send(WHOLE).unwrap();
        assert_eq!(seen.recv().unwrap(), format!("{lost} lost\n"));
        queue.push(b"again\n");
        outcome.send(WHOLE).unwrap();
        assert_eq!(seen.recv().unwrap(), "again\n");
        assert_eq!(dropped(&queue), lost);
    }

    #[test]
    fn lines_that_wait_have_a_bound_in_bytes() {
        let (queue, _outcome, _seen) = held();
        let line = vec![b'x'; LOG_BYTES_MAX / 4];
        (0..6).for_each(|_| queue.push(&line));
        queue.push(&vec![b'x'; LOG_BYTES_MAX + 1]);
        assert_eq!(dropped(&queue), 3, "the one that is being written counts");
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted_and_the_next_one_begins_a_line() {
        let (queue, outcome, seen) = held();
        // Nothing of the first line, two bytes of the second, all of the third.
        for result in [full(), Ok(2), full(), WHOLE, WHOLE, WHOLE] {
            outcome.send(result).unwrap();
        }
        ["one\n", "two\n", "three\n"].iter().for_each(|line| queue.push(line.as_bytes()));
        let written: Vec<_> = (0..4).map(|_| seen.recv().unwrap()).collect();
        assert_eq!(written, ["tw", "\n", "three\n", "2 lost\n"]);
        assert_eq!(dropped(&queue), 2);
    }

    #[test]
    fn a_flush_waits_for_what_is_written_and_not_for_a_log_that_stands_still() {
        let (queue, outcome, seen) = held();
        queue.flush(Duration::MAX);
        queue.push(b"one\n");
        queue.flush(Duration::from_millis(1));
        assert!(seen.try_recv().is_err());
        outcome.send(WHOLE).unwrap();
        queue.flush(Duration::MAX);
        assert_eq!(seen.try_recv().unwrap(), "one\n");
    }
}
