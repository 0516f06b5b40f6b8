use std::sync::atomic::AtomicU32;
use std::{fs, process};

use rustix::thread::futex;
use rustix::time::Timespec;

use crate::kernel::Kernel;
use reel_rt::now_ns;

/// The portable kernel part: futexes switch, the process table says which processes live.
#[derive(Debug)]
pub(crate) struct Linux;

impl Kernel for Linux {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn wait(&self, word: &AtomicU32, seen: u32, until_ns: u64) {
        // Not a private futex: the word lies in memory of several processes.
        let timeout = (until_ns != u64::MAX).then(|| timespec(until_ns.saturating_sub(now_ns())));
        // Woken, changed before, timed out or interrupted: the caller checks again in any case.
        let _ = futex::wait(word, futex::Flags::empty(), seen, timeout.as_ref());
    }

    fn wake(&self, word: &AtomicU32) {
        // Cannot fail for a word that is mapped.
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    }

    fn is_alive(&self, pid: u32, start_time: u64) -> bool {
        pid == process::id()
            || self::start_time(pid).is_some_and(|since| start_time == 0 || since == start_time)
    }
}

/// When a living process began, in the kernel's ticks since boot (proc(5), field 22). `None` for
/// dead processes, including those that no parent has waited for yet.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything. After the last parenthesis follows field 3.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X" | "x")).then(|| fields.nth(18)?.parse().ok())?
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn living_processes_differ_from_dead_ones_and_from_later_ones_with_the_same_id() {
        let me = start_time(process::id()).unwrap();
        assert!(me > 0 && Linux.is_alive(process::id(), me));
        let mut child = process::Command::new("sleep").arg("60").spawn().unwrap();
        let since = start_time(child.id()).unwrap();
        assert!(since >= me);
        assert!(Linux.is_alive(child.id(), since) && !Linux.is_alive(child.id(), since + 1));
        child.kill().unwrap();
        while start_time(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(!Linux.is_alive(child.id(), since), "a process that is not yet waited for is dead");
        child.wait().unwrap();
        assert_eq!(start_time(child.id()), None);
    }
}
