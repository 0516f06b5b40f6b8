use std::num::NonZeroU64;

use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};

use crate::limits::THREAD_NAME_BYTES_MAX;

/// Pins the calling thread to one processor and makes its timers precise.
///
/// Neither is needed for correctness, so a refusal is only logged.
pub(crate) fn settle(name: &str, cpu: Option<usize>) {
    if let Some(cpu) = cpu
        && let Err(error) = pin(cpu)
    {
        tracing::warn!(
            "cannot pin the thread {name} to processor {cpu} ({error}); it runs on any; \
             correct the processor list in the configuration or the service's AllowedCPUs"
        );
    }
    // With the default slack of 50 us, the kernel may fire a timer late to save power.
    if let Err(error) = set_current_timer_slack(NonZeroU64::new(1)) {
        tracing::debug!("cannot set the timer slack of {name}: {error}");
    }
}

/// The name as the kernel shows it, cut between characters.
pub(crate) fn kernel_name(name: &str) -> String {
    let mut end = name.len().min(THREAD_NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].replace('\0', " ")
}

fn pin(cpu: usize) -> Result<(), rustix::io::Errno> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(rustix::io::Errno::INVAL);
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(kernel_name("disk-0"), "disk-0");
        assert_eq!(kernel_name("abcdefghijklmnopqrst"), "abcdefghijklmno");
        assert_eq!(kernel_name("aaaaaaaaaaaaaa\u{e9}x"), "aaaaaaaaaaaaaa");
    }
}
