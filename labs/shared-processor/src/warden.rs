use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::baton::Baton;
use crate::board::Board;
use crate::error::SharedProcessorError;
use crate::layout::DEAD;
use crate::limits::{MEMBERS_MAX, WATCHDOG_INTERVAL_NS};
use crate::linux::Linux;
use crate::map::Map;

/// Contains the faults of members: takes the pages of the dead out, and the processor from those who do not look up.
///
/// Every process that has joined has one, so whoever is left over notices whoever has died.
#[derive(Debug)]
pub(crate) struct Warden {
    end: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Warden {
    /// Starts the thread that watches over a board.
    pub(crate) fn start(map: Arc<Map>) -> Result<Warden, SharedProcessorError> {
        let name = "reel-warden".to_owned();
        let no_thread = |source| SharedProcessorError::Thread { name: name.clone(), source };
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| no_thread(errno.into()))?);
        let ending = Arc::clone(&end);
        let body = move || {
            settle_anywhere();
            watch(&map, &ending);
        };
        let thread = thread::Builder::new().name(name.clone()).spawn(body).map_err(no_thread)?;
        Ok(Warden { end, thread: Some(thread) })
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // An eventfd takes 8 bytes unless its count overflows, which one write cannot do.
        let _ = rustix::io::write(&*self.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(map: &Map, end: &OwnedFd) {
    let board = Board { shared: map.shared(), kernel: &Linux };
    let mut lives: [Option<(u64, OwnedFd)>; MEMBERS_MAX] = [const { None }; MEMBERS_MAX];
    let (mut seen, mut before) = (Baton(0), Baton(0));
    loop {
        meet(map, &mut lives);
        let mut fds = vec![PollFd::new(end, PollFlags::IN)];
        fds.extend(lives.iter().flatten().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)));
        // Also while nobody runs: who begins to in a moment is to be watched from then on.
        let look = Duration::from_nanos(WATCHDOG_INTERVAL_NS);
        let timeout = Timespec { tv_sec: look.as_secs() as i64, tv_nsec: look.subsec_nanos() as _ };
        // A failure is an interruption; everything is looked at again.
        let _ = poll(&mut fds, Some(&timeout));
        if !fds[0].revents().is_empty() {
            return;
        }
        drop(fds);
        for slot in 0..MEMBERS_MAX {
            if board.look_after(slot) {
                tracing::warn!(
                    "a member of a shared core died without a farewell; its page {slot} is taken out, the others go on"
                );
            }
        }
        board.call_again(seen);
        seen = board.baton();
        before = press(&board, before);
    }
}

/// Opens an eye on every member that has come, and closes those on members that have gone.
fn meet(map: &Map, lives: &mut [Option<(u64, OwnedFd)>; MEMBERS_MAX]) {
    for (page, known) in map.shared().pages.iter().zip(lives) {
        let life = page.life.load(SeqCst);
        if known.as_ref().is_some_and(|(known, _)| *known == life) {
            continue;
        }
        // The phase changes when a member has joined: the eye is opened anew, on the same process.
        *known = (life != 0 && life & 3 != DEAD)
            .then(|| Pid::from_raw((life >> 2) as i32))
            .flatten()
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .map(|fd| (life, fd));
    }
}

/// Takes the processor from a member that was asked at the last look already and has not looked up since.
fn press(board: &Board<'_, Linux>, before: Baton) -> Baton {
    let baton = board.baton();
    if !baton.is_running() || !board.should_have_looked(baton, WATCHDOG_INTERVAL_NS) {
        return Baton(0);
    }
    if baton == before && board.revoke(baton) {
        tracing::warn!(
            "a member of a shared core kept the processor for more than {} ms after it was asked for it; the next one was woken",
            WATCHDOG_INTERVAL_NS / 1_000_000
        );
    }
    baton
}

/// Undoes for the calling thread what its maker's pin has given it: what watches over a processor must not wait for it.
fn settle_anywhere() {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    // The kernel leaves out what the process may not use.
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::debug!("cannot let a thread run on any processor: {error}");
    }
}
