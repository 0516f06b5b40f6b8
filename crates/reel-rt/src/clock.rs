use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC. The clock never steps; its origin is arbitrary.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time that the calling thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let taken = clock_gettime(ClockId::ThreadCPUTime);
    taken.tv_sec as u64 * 1_000_000_000 + taken.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let mut last = now_ns();
        for _ in 0..1000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
