use crate::atomic::AtomicU32;

/// What the dispatcher needs to switch threads. The portable implementation uses futexes; the model
/// test has its own.
pub(crate) trait Kernel {
    /// The time on the clock of all deadlines, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Sleeps while `word` is `seen`, until it is woken or `until_ns` has come; may return early.
    fn wait(&self, word: &AtomicU32, seen: u32, until_ns: u64);

    /// Wakes the thread that sleeps on `word`.
    fn wake(&self, word: &AtomicU32);

    /// Whether the process with id `pid` that began at `born` (0: at any time) is alive.
    fn is_alive(&self, pid: u32, start_time: u64) -> bool;
}
