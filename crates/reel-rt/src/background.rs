//! Threads for work that no viewer waits for.

use crate::limits::BACKGROUND_NICE;
use crate::thread::kernel_name;
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;
use std::io;
use std::thread::{self, JoinHandle};

/// Starts a thread of the lowest ordinary priority. The threads and processes that it starts have
/// the same. It ends with its work, so no thread of a pool has to be raised again, which needs a
/// privilege. How many there are is the caller's to bound.
///
/// # Errors
/// When the system gives no thread.
pub fn spawn_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let name = kernel_name(name);
    thread::Builder::new().name(name.clone()).spawn(move || {
        // To Linux a thread is a process of its own here.
        if let Err(error) = setpriority_process(Some(gettid()), BACKGROUND_NICE) {
            tracing::warn!("the thread {name} keeps its priority ({error}): it may delay others");
        }
        work()
    })
}

/// The nice value of the calling thread: 0 unless it was changed, more for lower priority.
pub fn niceness() -> i32 {
    // The call can fail only for threads that do not exist.
    getpriority_process(Some(gettid())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_threads_and_theirs_are_nice_and_others_are_not() {
        let before = niceness();
        let nice = || {
            let of_child = thread::spawn(niceness).join().expect("it ends");
            (niceness(), of_child)
        };
        let (own, of_child) = spawn_background("test", nice).expect("a thread").join().expect("it ends");
        assert_eq!((own, of_child), (BACKGROUND_NICE, BACKGROUND_NICE));
        assert_eq!(niceness(), before, "the thread that started it");
        assert_eq!(thread::spawn(niceness).join().expect("it ends"), before);
    }
}
