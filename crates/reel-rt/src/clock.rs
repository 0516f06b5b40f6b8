//! The one clock of the program.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC: never goes back, and steps of the wall clock do not touch it.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock starts near zero at boot: both fields are positive and fit for 580 years.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
