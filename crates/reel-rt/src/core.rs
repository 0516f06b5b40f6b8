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

/// What a core runs: a state machine that gets events, and pushes operations, sets timers and sends
/// messages.
///
/// Each call must be short and must not block, because the whole core waits for it.
pub trait Service {
    /// What other threads send to the service.
    type Message: Send + 'static;

    /// A message has arrived.
    fn message(&mut self, core: &mut Core, message: Self::Message);

    /// An operation that was pushed to `core.ring` has ended.
    fn done(&mut self, core: &mut Core, done: Done);

    /// A timer set by [`Core::at`] is due.
    fn timer(&mut self, core: &mut Core, token: u64);

    /// Runs one section of a task of `core.tasks`, up to a yield point or the end of its work.
    fn task(&mut self, core: &mut Core, task: TaskId) -> Next {
        let _ = (core, task);
        Next::Done
    }

    /// Called once per turn of the loop, after all events: the place for work in batches.
    fn turn(&mut self, core: &mut Core) {
        let _ = core;
    }

    /// The handle asks the core to stop; called once. A service with unfinished work may continue
    /// and call [`Core::stop`] later. The default stops at once.
    fn stopping(&mut self, core: &mut Core) {
        core.stop();
    }
}

/// What a service works with.
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

    /// The time at the start of this turn: one clock reading serves all events of the turn. For the
    /// exact time use [`now_ns`](crate::now_ns).
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Calls [`Service::timer`] with `token` at `when_ns` or a little later. A timer cannot be
    /// cancelled: a service ignores tokens that it no longer expects.
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
/// One turn: wait (at most until the next timer or task), completions, messages, timers, tasks,
/// `turn`. The work of a turn is bounded. The ring returns a bounded number of completions,
/// messages are those in the mailbox at one moment, the number of timers is limited, and so are the
/// time of tasks and the bytes that they give to sockets.
pub(crate) fn run<S: Service>(
    core: &mut Core,
    service: &mut S,
    inbox: &mut Inbox<S::Message>,
    stop_asked: &Arc<AtomicBool>,
) -> Result<(), RingError> {
    let mut done = Vec::new();
    let mut messages = Vec::new();
    let mut stop_reported = false;
    loop {
        let sleep = sleep(core);
        core.ring.wait(Some(sleep), &mut done)?;
        core.now_ns = now_ns();
        for done in done.drain(..) {
            service.done(core, done);
        }
        // Read before the messages are taken, so that messages sent before the stop are handled
        // first.
        let stop_asked = stop_asked.load(Ordering::Acquire);
        inbox.take(&mut messages);
        for message in messages.drain(..) {
            service.message(core, message);
        }
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(token) = core.timers.due(core.now_ns) else { break };
            service.timer(core, token);
        }
        if stop_asked && !stop_reported {
            stop_reported = true;
            service.stopping(core);
        }
        run_tasks(core, service);
        service.turn(core);
        if core.stopped {
            return Ok(());
        }
    }
}

/// Runs sections in order of deadlines, until no task is runnable or the ring must be polled.
fn run_tasks<S: Service>(core: &mut Core, service: &mut S) {
    let mut from_ns = core.now_ns;
    while let Some(task) = core.tasks.choose(from_ns) {
        // The task may have waited for the processor.
        from_ns = now_ns();
        let next = service.task(core, task);
        let to_ns = now_ns();
        core.tasks.ran(task, from_ns, to_ns, next);
        // Pushed operations run when the ring is entered, which is part of this turn's time.
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
