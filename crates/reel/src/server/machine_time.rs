//! What the processors of the machine have done, as the kernel counts it.

use reel_play::MachineTime;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::Read;

/// Most of the head of `/proc/stat` that is read: its first line has ten numbers.
const HEAD_BYTES_MAX: u64 = 512;

/// Reads it. `None` if the system does not say.
pub(super) fn machine_time() -> Option<MachineTime> {
    let mut text = String::new();
    File::open("/proc/stat").ok()?.take(HEAD_BYTES_MAX).read_to_string(&mut text).ok()?;
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let own_ns = own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64;
    parse(&text, rustix::param::clock_ticks_per_second(), own_ns)
}

/// Of the first line of `/proc/stat` (proc_stat(5)): `cpu user nice system idle iowait irq softirq
/// steal guest guest_nice`, in ticks. The time of guests is part of `user` and `nice`. What another
/// virtual machine took (`steal`) was not this one's.
fn parse(text: &str, ticks_per_s: u64, own_ns: u64) -> Option<MachineTime> {
    let mut words = text.lines().next()?.split_ascii_whitespace();
    if words.next() != Some("cpu") {
        return None;
    }
    let ticks: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, idle, iowait, irq, softirq, ..] = ticks[..] else { return None };
    let ns = |ticks: u64| ticks.saturating_mul(1_000_000_000 / ticks_per_s.max(1));
    let idle_ns = ns(idle.saturating_add(iowait));
    let busy = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
    Some(MachineTime { all_ns: idle_ns.saturating_add(ns(busy)), idle_ns, low_priority_ns: ns(nice), own_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_of_all_processors() {
        let text = "cpu  100 20 30 400 5 6 7 999 10 1\ncpu0 50 10 15 200 2 3 3 499 5 0\nintr 1 2\n";
        let ms = |ticks: u64| ticks * 10_000_000;
        let wanted = MachineTime { all_ns: ms(568), idle_ns: ms(405), low_priority_ns: ms(20), own_ns: 7 };
        assert_eq!(parse(text, 100, 7), Some(wanted));
        // Kernels of other versions have more numbers, or fewer.
        assert!(parse("cpu 1 2 3 4 5 6 7", 100, 0).is_some());
    }

    #[test]
    fn other_text_is_not_believed() {
        for text in
            ["", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 x 8", "cpu -1 2 3 4 5 6 7"]
        {
            assert_eq!(parse(text, 100, 0), None, "{text:?}");
        }
        let largest = format!("cpu {}", vec![u64::MAX.to_string(); 10].join(" "));
        assert!(parse(&largest, 0, 0).is_some());
    }

    #[test]
    fn this_machine_says_what_it_does() {
        let first = machine_time().expect("/proc/stat");
        let next = machine_time().expect("/proc/stat");
        assert!(next.own_ns > first.own_ns && next.all_ns >= first.all_ns && first.all_ns > first.idle_ns);
    }
}
