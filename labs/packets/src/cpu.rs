//! The time of this thread.

use rustix::time::{ClockId, clock_gettime};

/// Seconds that this thread was on a processor, in the kernel or not, while `act` ran.
pub(crate) fn seconds_of(act: impl FnOnce()) -> f64 {
    let before = now_s();
    act();
    now_s() - before
}

/// Seconds that this thread was on a processor until now.
pub(crate) fn now_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
