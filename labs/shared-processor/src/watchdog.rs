use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::dispatcher::Dispatcher;
use crate::error::SharedProcessorError;
use crate::kernel::Kernel;
use crate::layout::DEAD;
use crate::limits::{MEMBERS_MAX, WATCHDOG_INTERVAL_NS};
use crate::linux::Linux;
use crate::map::Map;
use crate::token::Token;

/// Contains the faults of members: takes out the pages of dead members, and takes the processor
/// from members that do not check.
///
/// Every process that has joined has one, so that any remaining process notices a death.
#[derive(Debug)]
pub(crate) struct Watchdog {
    end: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the thread that watches a shared processor.
    pub(crate) fn start(map: Arc<Map>) -> Result<Watchdog, SharedProcessorError> {
        let name = "reel-watchdog".to_owned();
        let no_thread = |source| SharedProcessorError::Thread { name: name.clone(), source };
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| no_thread(errno.into()))?);
        let ending = Arc::clone(&end);
        let body = move || {
            settle_anywhere();
            watch(&map, &ending);
        };
        let thread = thread::Builder::new().name(name.clone()).spawn(body).map_err(no_thread)?;
        Ok(Watchdog { end, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // An eventfd takes 8 bytes unless its count overflows, which one write cannot do.
        let _ = rustix::io::write(&*self.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(map: &Map, end: &OwnedFd) {
    let dispatcher = Dispatcher { shared: map.shared(), kernel: &Linux };
    let mut lives: [Option<(u64, OwnedFd)>; MEMBERS_MAX] = [const { None }; MEMBERS_MAX];
    let (mut seen, mut before) = (Token(0), Token(0));
    loop {
        update_descriptors(map, &mut lives);
        let mut fds = vec![PollFd::new(end, PollFlags::IN)];
        fds.extend(lives.iter().flatten().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)));
        // Also while no member runs, because one that begins soon must be watched from then on.
        let interval = Duration::from_nanos(WATCHDOG_INTERVAL_NS);
        let timeout = Timespec { tv_sec: interval.as_secs() as i64, tv_nsec: interval.subsec_nanos() as _ };
        // A failure is an interruption; everything is checked again.
        let _ = poll(&mut fds, Some(&timeout));
        if !fds[0].revents().is_empty() {
            return;
        }
        drop(fds);
        for slot in 0..MEMBERS_MAX {
            if dispatcher.remove_if_dead(slot) {
                tracing::warn!(
                    "a member of a shared processor died; its page {slot} is taken out, the others continue"
                );
            }
        }
        dispatcher.wake_again(seen);
        seen = dispatcher.token();
        before = revoke_if_overdue(&dispatcher, before);
    }
}

/// Opens a descriptor for every process that has joined, and closes those of processes that have
/// left.
fn update_descriptors(map: &Map, lives: &mut [Option<(u64, OwnedFd)>; MEMBERS_MAX]) {
    for (page, known) in map.shared().pages.iter().zip(lives) {
        let life = page.life.load(SeqCst);
        if known.as_ref().is_some_and(|(known, _)| *known == life) {
            continue;
        }
        // The phase changes when a member has joined; then the descriptor is opened again, for the
        // same process.
        *known = (life != 0 && life & 3 != DEAD)
            .then(|| Pid::from_raw((life >> 2) as i32))
            .flatten()
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .map(|fd| (life, fd));
    }
}

/// Takes the processor from a member that was asked at the last check already and has not checked
/// since.
fn revoke_if_overdue(dispatcher: &Dispatcher<'_, impl Kernel>, before: Token) -> Token {
    let token = dispatcher.token();
    if !token.is_running() || !dispatcher.is_check_overdue(token, WATCHDOG_INTERVAL_NS) {
        return Token(0);
    }
    if token == before && dispatcher.revoke(token) {
        tracing::warn!(
            "a member of a shared processor kept it for more than {} ms after it was asked for it; the next one was woken",
            WATCHDOG_INTERVAL_NS / 1_000_000
        );
    }
    token
}

/// Removes the processor pinning that the calling thread inherited: a watchdog must not wait for
/// the processor that it watches.
fn settle_anywhere() {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    // The kernel ignores processors that the process may not use.
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::debug!("cannot let a thread run on any processor: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::{AtomicU32, AtomicU64};
    use crate::dispatcher::Check;
    use reel_rt::{Rank, Step};

    /// Time advances when a test says so.
    #[derive(Default)]
    struct Clock(AtomicU64);

    impl Kernel for Clock {
        fn now_ns(&self) -> u64 {
            self.0.load(SeqCst)
        }

        fn wait(&self, _: &AtomicU32, _: u32, _: u64) {
            unreachable!("no member waits here");
        }

        fn wake(&self, _: &AtomicU32) {}

        fn is_alive(&self, _: u32, _: u64) -> bool {
            true
        }
    }

    /// A member that has the processor, and another one without work.
    fn running(dispatcher: &Dispatcher<'_, Clock>) -> (usize, usize, Token) {
        let [runs, other] = [1, 2].map(|pid| dispatcher.join(pid, 0).expect("a page"));
        dispatcher.publish(runs, Rank::BACKGROUND, u64::MAX, &[]);
        (runs, other, dispatcher.enter(runs))
    }

    #[test]
    fn a_member_that_was_asked_loses_the_processor_at_the_second_check_of_the_watchdog() {
        let (map, clock) = (Map::create().expect("memory"), Clock::default());
        let dispatcher = Dispatcher { shared: map.shared(), kernel: &clock };
        let (runs, other, token) = running(&dispatcher);
        let mut before = Token(0);
        for _ in 0..100 {
            before = revoke_if_overdue(&dispatcher, before);
            assert_eq!(dispatcher.token(), token, "no member has asked for it");
        }
        dispatcher.publish(other, Rank::from_bits(20), u64::MAX, &[]);
        // One that checks each time keeps its turn until it yields.
        for _ in 0..100 {
            map.shared().head.attention.0.store(1, SeqCst);
            before = revoke_if_overdue(&dispatcher, before);
            assert_eq!(dispatcher.check(runs, token, Rank::BACKGROUND, 0), Check::Yield(other));
            before = revoke_if_overdue(&dispatcher, before);
            assert_eq!(dispatcher.token(), token, "it has checked");
        }
        map.shared().head.attention.0.store(1, SeqCst);
        before = revoke_if_overdue(&dispatcher, before);
        assert_eq!(dispatcher.token(), token, "it was asked a moment ago");
        revoke_if_overdue(&dispatcher, before);
        assert_eq!(dispatcher.token().holder(), Some(other));
        assert_eq!(map.shared().head.revoked.load(SeqCst), 1);
    }

    #[test]
    fn a_member_that_misses_a_time_loses_the_processor_at_the_second_check_after_an_interval() {
        let (map, clock) = (Map::create().expect("memory"), Clock::default());
        let dispatcher = Dispatcher { shared: map.shared(), kernel: &clock };
        let (runs, other, token) = running(&dispatcher);
        // At 30 the other one has work that asks for nothing.
        let step = Step { at_ns: 30, rank: Rank::from_bits(20) };
        dispatcher.publish(other, Rank::IDLE, 30, &[step]);
        assert_eq!(dispatcher.check(runs, token, Rank::BACKGROUND, 0), Check::Stay);
        let mut before = Token(0);
        let mut revoked_after = |now_ns| {
            clock.0.store(now_ns, SeqCst);
            before = revoke_if_overdue(&dispatcher, before);
            dispatcher.token() != token
        };
        assert!(!revoked_after(29 + WATCHDOG_INTERVAL_NS));
        assert!(!revoked_after(30 + WATCHDOG_INTERVAL_NS), "the first check that finds it late");
        assert!(revoked_after(31 + WATCHDOG_INTERVAL_NS));
        assert_eq!(dispatcher.token().holder(), Some(other));
    }
}
