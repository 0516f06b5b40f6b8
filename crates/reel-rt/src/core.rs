//! The loop of a core.

use crate::error::RtError;
use crate::mailbox::{Inbox, Mailbox, mailbox};
use crate::now_ns;
use crate::timers::Timers;
use reel_arena::Arena;
use reel_ring::{Done, Ring, RingConfig, Waker};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use std::any::Any;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// What a core does. Every call runs to its end without waiting for anything.
pub trait Service {
    /// What other threads may tell this core.
    type Message: Send + 'static;

    /// A message came.
    fn message(&mut self, core: &mut Core, message: Self::Message);

    /// An operation of this core's ring is done.
    fn done(&mut self, core: &mut Core, done: Done);

    /// A timer set with [`Core::at`] is due.
    fn timer(&mut self, core: &mut Core, token: u64);

    /// Called once after all events of a turn: the place for work in batches.
    fn turn(&mut self, _core: &mut Core) {}
}

/// What a service finds around it.
pub struct Core {
    /// The ring of this thread.
    pub ring: Ring,
    timers: Timers,
    now_ns: u64,
    stopping: bool,
}

/// How a core is set up.
pub struct CoreConfig {
    /// Name of its thread; the kernel shows the first 15 bytes.
    pub name: String,
    /// The processor it stays on, or any.
    pub cpu: Option<usize>,
    /// Its ring.
    pub ring: RingConfig,
    /// Media memory to register with the ring.
    pub arena: Option<Arena>,
}

/// A running core.
pub struct CoreHandle<M> {
    name: String,
    mailbox: Mailbox<M>,
    waker: Waker,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), RtError>>,
}

/// Starts a core. `make` builds its service on the core's own thread. Returns when the core runs, or with the
/// reason why it does not.
pub fn spawn<S: Service>(
    config: CoreConfig,
    make: impl FnOnce(&mut Core, Mailbox<S::Message>) -> S + Send + 'static,
) -> Result<CoreHandle<S::Message>, RtError> {
    let name = config.name.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let stop_seen = Arc::clone(&stop);
    let (started, starting) = sync_channel(1);
    let body = move || {
        // The ring belongs to this thread: it must be made here.
        let mut core = Core::set_up(&config)?;
        let waker = core.ring.waker();
        let (sender, inbox) = mailbox(waker.clone());
        let mut service = make(&mut core, sender.clone());
        // The starter waits for this; if it is gone nobody wants this core.
        let _ = started.send((sender, waker));
        run(&mut core, &mut service, &inbox, &stop_seen)
    };
    let thread = Builder::new().name(name.clone()).spawn(body);
    let thread = thread.map_err(|source| RtError::Thread { name: name.clone(), source })?;
    match starting.recv() {
        Ok((mailbox, waker)) => Ok(CoreHandle { name, mailbox, waker, stop, thread }),
        // The sender was dropped: setting up failed or panicked.
        Err(_) => Err(join(&name, thread).err().unwrap_or_else(|| RtError::Panicked {
            reason: "it ended before it started".into(),
            name,
        })),
    }
}

impl Core {
    /// The time at which the events of this turn were taken up, CLOCK_MONOTONIC.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Calls [`Service::timer`] with `token` at `when_ns` or soon after.
    pub fn at(&mut self, when_ns: u64, token: u64) {
        self.timers.set(when_ns, token);
    }

    /// Ends the core after this turn.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    fn set_up(config: &CoreConfig) -> Result<Core, RtError> {
        if let Some(cpu) = config.cpu {
            let mut cpus = CpuSet::new();
            cpus.set(cpu);
            if let Err(error) = sched_setaffinity(None, &cpus) {
                tracing::warn!(thread = config.name, cpu, %error, "cannot pin the thread to its processor; it runs where the kernel puts it");
            }
        }
        // The default slack of 50 microseconds would be the larger part of a timer's lateness. Refused only by odd sandboxes.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let ring = Ring::new(config.ring.clone(), config.arena.as_ref())?;
        Ok(Core { ring, timers: Timers::default(), now_ns: now_ns(), stopping: false })
    }
}

impl<M: Send> CoreHandle<M> {
    /// Where to send messages.
    pub fn mailbox(&self) -> Mailbox<M> {
        self.mailbox.clone()
    }

    /// Whether the core still runs.
    pub fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Asks the core to end after its current turn.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Waits until the core has ended, and tells how.
    pub fn join(self) -> Result<(), RtError> {
        join(&self.name, self.thread)
    }
}

fn run<S: Service>(
    core: &mut Core,
    service: &mut S,
    inbox: &Inbox<S::Message>,
    stop: &AtomicBool,
) -> Result<(), RtError> {
    let mut done = Vec::new();
    let mut messages = Vec::new();
    while !core.stopping && !stop.load(Ordering::Acquire) {
        let timeout = core.timers.next_ns().map(|when_ns| Duration::from_nanos(when_ns.saturating_sub(now_ns())));
        core.ring.wait(timeout, &mut done)?;
        core.now_ns = now_ns();
        // Taken once: events that come meanwhile belong to the next turn, so that a turn ends.
        inbox.take(&mut messages);
        for done in done.drain(..) {
            service.done(core, done);
        }
        for message in messages.drain(..) {
            service.message(core, message);
        }
        while let Some(token) = core.timers.due(core.now_ns) {
            service.timer(core, token);
        }
        service.turn(core);
    }
    Ok(())
}

fn join(name: &str, thread: JoinHandle<Result<(), RtError>>) -> Result<(), RtError> {
    thread.join().unwrap_or_else(|panic| Err(RtError::Panicked { name: name.to_owned(), reason: text_of(panic.as_ref()) }))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason was given".into())
}
