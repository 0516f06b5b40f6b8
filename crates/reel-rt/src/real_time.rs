use std::fmt;

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// `SCHED_FIFO` with this priority: runs before every ordinary thread.
    Fifo(u8),
    /// The kernel's fair share, because `SCHED_FIFO` was refused. Upcalls are late when other
    /// threads are busy.
    Ordinary,
}

/// Asks for `SCHED_FIFO` for the calling thread and logs what was granted. Child processes do not
/// inherit it.
///
/// The kernel keeps 5 % of each second for others (`sched_rt_runtime_us`), so a thread that never
/// sleeps cannot lock the machine up. `priority` is clamped to 1 to 99.
pub fn real_time(name: &str, priority: u8) -> Scheduling {
    let priority = priority.clamp(1, 99);
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: 0 means the calling thread; the parameters are read during the call only.
    let refused =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) };
    if refused == 0 {
        tracing::info!("the thread {name} runs with SCHED_FIFO, priority {priority}");
        return Scheduling::Fifo(priority);
    }
    let error = std::io::Error::last_os_error();
    tracing::warn!(
        "the thread {name} runs with ordinary priority because SCHED_FIFO was refused ({error}): its work may be \
         late when other processes are busy; grant CAP_SYS_NICE or raise RLIMIT_RTPRIO (LimitRTPRIO= of the service)"
    );
    Scheduling::Ordinary
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::Fifo(priority) => write!(f, "SCHED_FIFO {priority}"),
            Scheduling::Ordinary => f.write_str("ordinary"),
        }
    }
}
