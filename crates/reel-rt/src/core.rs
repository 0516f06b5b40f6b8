use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reel_ring::{Done, Ring, RingError};

use crate::clock::now_ns;
use crate::limits::{SLEEP_MAX_NS, TASKS_TURN_NS, TIMERS_PER_TURN_MAX, TURN_SEND_BYTES};
use crate::mailbox::Inbox;
use crate::task::TaskId;
use crate::tasks::{Next, Tasks};
use crate::timers::Timers;

/// What a core runs: a state machine that is told what happened, and pushes ops, sets timers and sends messages.
///
/// Each call must be short and must not block: the whole core waits for it.
pub trait Service {
    /// What other threads send to it.
    type Message: Send + 'static;

    /// A message has come.
    fn message(&mut self, core: &mut Core, message: Self::Message);

    /// An op pushed to `core.ring` has ended.
    fn done(&mut self, core: &mut Core, done: Done);

    /// A timer set by [`Core::at`] is due.
    fn timer(&mut self, core: &mut Core, token: u64);

    /// A task of `core.tasks` is to run one section: it works until it is done, or to a yield point.
    fn task(&mut self, core: &mut Core, task: TaskId) -> Next {
        let _ = (core, task);
        Next::Done
    }

    /// Once per turn of the loop, after all events: the place to work in batches.
    fn turn(&mut self, core: &mut Core) {
        let _ = core;
    }

    /// The handle asks the core to stop; called once. A service with unfinished work goes on and calls
    /// [`Core::stop`] when it is done; the default stops at once.
    fn stopping(&mut self, core: &mut Core) {
        core.stop();
    }
}

/// What a service has at hand.
#[derive(Debug)]
pub struct Core {
    /// The ring of this thread.
    pub ring: Ring,
    /// The tasks of this thread.
    pub tasks: Tasks,
    timers: Timers,
    now_ns: u64,
    stopped: bool,
}

impl Core {
    pub(crate) fn new(ring: Ring) -> Core {
        Core { ring, tasks: Tasks::default(), timers: Timers::default(), now_ns: now_ns(), stopped: false }
    }

    /// The time at the start of this turn: one clock reading serves all events of the turn. For the exact time use
    /// [`now_ns`](crate::now_ns).
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Calls [`Service::timer`] with `token` at `when_ns` or a little later. Timers cannot be taken back: a service
    /// ignores tokens it no longer expects.
    pub fn at(&mut self, when_ns: u64, token: u64) {
        self.timers.set(when_ns, token);
    }

    /// Ends the loop after this turn.
    pub fn stop(&mut self) {
        self.stopped = true;
    }
}

/// Runs a service until it stops or its ring breaks.
///
/// One turn: wait (until the next timer or task at the latest), completions, messages, timers, tasks, `turn`. The work of
/// a turn is bounded: the ring hands out a bounded number of completions, messages are those in the box at one moment,
/// timers have a limit, tasks a time and what they may give to sockets.
pub(crate) fn run<S: Service>(
    core: &mut Core,
    service: &mut S,
    inbox: &mut Inbox<S::Message>,
    stop_asked: &Arc<AtomicBool>,
) -> Result<(), RingError> {
    let mut done = Vec::new();
    let mut messages = Vec::new();
    let mut stop_told = false;
    loop {
        let sleep = sleep(core);
        core.ring.wait(Some(sleep), &mut done)?;
        core.now_ns = now_ns();
        for done in done.drain(..) {
            service.done(core, done);
        }
        // Read before the messages are taken: what was sent before the stop is handled before it.
        let stop_asked = stop_asked.load(Ordering::Acquire);
        inbox.take(&mut messages);
        for message in messages.drain(..) {
            service.message(core, message);
        }
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(token) = core.timers.due(core.now_ns) else { break };
            service.timer(core, token);
        }
        if stop_asked && !stop_told {
            stop_told = true;
            service.stopping(core);
        }
        run_tasks(core, service);
        service.turn(core);
        if core.stopped {
            return Ok(());
        }
    }
}

/// Sections in order of deadlines, until none is to be run or the ring must be looked at.
fn run_tasks<S: Service>(core: &mut Core, service: &mut S) {
    let mut from_ns = core.now_ns;
    while let Some(task) = core.tasks.choose(from_ns) {
        // It may have waited for the processor.
        from_ns = now_ns();
        let next = service.task(core, task);
        let to_ns = now_ns();
        core.tasks.ran(task, from_ns, to_ns, next);
        // What was pushed is done when the ring is entered: time of this turn, too.
        let is_over = to_ns.saturating_sub(core.now_ns) >= TASKS_TURN_NS
            || core.ring.queued_send_bytes() >= TURN_SEND_BYTES;
        if core.stopped || is_over {
            return;
        }
        from_ns = to_ns;
    }
}

fn sleep(core: &mut Core) -> Duration {
    let now_ns = now_ns();
    let task_ns = core.tasks.idle_until_ns(now_ns);
    let next_ns = core.timers.next_ns().unwrap_or(u64::MAX).min(task_ns);
    if task_ns > now_ns {
        core.tasks.leave();
    }
    Duration::from_nanos(next_ns.saturating_sub(now_ns).min(SLEEP_MAX_NS))
}
