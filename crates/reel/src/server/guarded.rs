//! Steps of threads that continue after a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Does one step of the calling thread. `false` if it panicked, which is logged with the name of
/// the thread. What threads share is checked by [`Server::is_whole`](super::Server::is_whole).
pub(super) fn guarded(step: impl FnOnce()) -> bool {
    let is_done = catch_unwind(AssertUnwindSafe(step)).is_ok();
    if !is_done {
        let name = thread::current().name().unwrap_or("without a name").to_owned();
        tracing::error!(
            "the thread {name} panicked, which is a defect (the reason is above); it continues with its next step"
        );
    }
    is_done
}
