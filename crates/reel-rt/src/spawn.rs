use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use reel_arena::Arena;
use reel_ring::{Ring, RingConfig, RingError, Waker};

use crate::clock::now_ns;
use crate::core::{Core, Service, run};
use crate::error::RtError;
use crate::mailbox::{Inbox, Mailbox, mailbox};
use crate::restarts::Restarts;
use crate::thread::{kernel_name, settle};

/// How to make a core.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// The thread's name; the kernel shows the first 15 bytes.
    pub name: String,
    /// The processor to pin the thread to.
    pub cpu: Option<usize>,
    /// The configuration of its ring.
    pub ring: RingConfig,
    /// The media memory to register with the ring.
    pub arena: Option<Arena>,
}

/// A running core. Dropping the handle asks the core to stop but does not wait.
#[derive(Debug)]
pub struct CoreHandle<M> {
    name: String,
    mailbox: Mailbox<M>,
    control: Control,
    thread: Option<JoinHandle<Result<(), RingError>>>,
}

#[derive(Clone, Debug)]
struct Control {
    stop_asked: Arc<AtomicBool>,
    alive: Arc<AtomicBool>,
    restarts: Arc<AtomicU32>,
    waker: Waker,
}

/// Marks the core as dead when the thread ends, for whatever reason.
struct MarkDeadOnDrop(Arc<AtomicBool>);

/// Starts a thread, makes its ring and the service in it, and runs the service. Returns when the
/// service is made.
///
/// # Errors
/// If the kernel refuses the thread or the ring, or if `make` panics.
pub fn spawn<S: Service>(
    config: CoreConfig,
    make: impl FnOnce(&mut Core, Mailbox<S::Message>) -> S + Send + 'static,
) -> Result<CoreHandle<S::Message>, RtError> {
    let mut make = Some(make);
    let make_once = move |core: &mut Core, mailbox| {
        let make = make.take().expect("a service without restarts is made once");
        make(core, mailbox)
    };
    start(config, Restarts::none(), make_once)
}

/// The same for a service that may panic: it is dropped with its ring, and made again on the same
/// thread with another ring. Its mailbox stays. Messages that were taken with the one that panicked
/// are lost. A thread that panics more than [`RESTARTS_MAX`](crate::limits::RESTARTS_MAX) times in
/// a short time ends.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_restarting<S: Service>(
    config: CoreConfig,
    make: impl FnMut(&mut Core, Mailbox<S::Message>) -> S + Send + 'static,
) -> Result<CoreHandle<S::Message>, RtError> {
    start(config, Restarts::some(), make)
}

fn start<S: Service>(
    config: CoreConfig,
    restarts: Restarts,
    make: impl FnMut(&mut Core, Mailbox<S::Message>) -> S + Send + 'static,
) -> Result<CoreHandle<S::Message>, RtError> {
    let (ready, started) = mpsc::sync_channel(1);
    let name = config.name.clone();
    let body = move || -> Result<(), RingError> {
        settle(&config.name, config.cpu);
        let ring = Ring::new(config.ring.clone(), config.arena.as_ref())?;
        let control = Control {
            stop_asked: Arc::new(AtomicBool::new(false)),
            alive: Arc::new(AtomicBool::new(true)),
            restarts: Arc::clone(&restarts.count),
            waker: ring.waker(),
        };
        // Declared first, so dropped last: when the core reads as dead, its service, ring and
        // mailbox are gone.
        let _mark_dead = MarkDeadOnDrop(Arc::clone(&control.alive));
        let (mailbox, inbox) = mailbox(ring.waker());
        let stop_asked = Arc::clone(&control.stop_asked);
        let ready = move |mailbox| {
            // The send fails only if the spawning thread is gone; then this core ends with its
            // handle.
            let _ = ready.send((mailbox, control));
        };
        run_restarting(&config, restarts, (ring, mailbox, inbox), make, ready, &stop_asked).inspect_err(
            |error| {
                // Logged here because `join` may be called much later.
                tracing::error!("the thread {} cannot continue: {error}", config.name);
            },
        )
    };
    let thread = thread::Builder::new()
        .name(kernel_name(&name))
        .spawn(body)
        .map_err(|source| RtError::Thread { name: name.clone(), source })?;
    match started.recv() {
        Ok((mailbox, control)) => Ok(CoreHandle { name, mailbox, control, thread: Some(thread) }),
        Err(_) => Err(join(name.clone(), thread).err().unwrap_or_else(|| RtError::Panicked {
            name,
            reason: "the thread ended before the service was made".to_owned(),
        })),
    }
}

/// Makes the service and runs it, again after each panic as long as `restarts` allows. Calls
/// `ready` when it is made for the first time.
fn run_restarting<S: Service>(
    config: &CoreConfig,
    mut restarts: Restarts,
    (ring, mailbox, mut inbox): (Ring, Mailbox<S::Message>, Inbox<S::Message>),
    mut make: impl FnMut(&mut Core, Mailbox<S::Message>) -> S,
    ready: impl FnOnce(Mailbox<S::Message>),
    stop_asked: &Arc<AtomicBool>,
) -> Result<(), RingError> {
    let waker = ring.waker();
    let mut core = Core::new(ring);
    let mut service = make(&mut core, mailbox.clone());
    ready(mailbox.clone());
    loop {
        let ended = catch_unwind(AssertUnwindSafe(|| run(&mut core, &mut service, &mut inbox, stop_asked)));
        let panic = match ended {
            Ok(result) => return result,
            Err(panic) => panic,
        };
        if !restarts.may_restart(now_ns()) {
            resume_unwind(panic);
        }
        tracing::error!(
            "the thread {} panicked, which is a defect (the reason is above); what it did has ended, and it begins again",
            config.name
        );
        // The parts that may be half changed. A panic in here ends the thread.
        drop(service);
        drop(core);
        let ring = Ring::in_place_of(waker.clone(), config.ring.clone(), config.arena.as_ref())?;
        core = Core::new(ring);
        service = make(&mut core, mailbox.clone());
    }
}

impl<M: Send> CoreHandle<M> {
    /// A mailbox of the core.
    pub fn mailbox(&self) -> Mailbox<M> {
        self.mailbox.clone()
    }
}

impl<M> CoreHandle<M> {
    /// Asks the core to stop. Its service finishes its necessary work first.
    pub fn stop(&self) {
        self.control.stop_asked.store(true, Ordering::Release);
        self.control.waker.wake();
    }

    /// Waits for the end of the core, without asking for it.
    ///
    /// # Errors
    /// If the thread panicked, or its ring could not be made or broke.
    pub fn join(mut self) -> Result<(), RtError> {
        match self.thread.take() {
            Some(thread) => join(self.name.clone(), thread),
            None => Ok(()),
        }
    }

    /// False once the thread has ended, by a stop or by a panic.
    pub fn is_alive(&self) -> bool {
        self.control.alive.load(Ordering::Acquire)
    }

    /// How often its service was made again after a panic.
    pub fn restarts(&self) -> u32 {
        self.control.restarts.load(Ordering::Relaxed)
    }

    /// True in the core's own thread, where `join` would wait for itself.
    pub fn is_current(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| t.thread().id() == thread::current().id())
    }
}

impl<M> Drop for CoreHandle<M> {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

impl Drop for MarkDeadOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn join(name: String, thread: JoinHandle<Result<(), RingError>>) -> Result<(), RtError> {
    match thread.join() {
        Ok(result) => result.map_err(|source| RtError::Ring { name, source }),
        Err(payload) => Err(RtError::Panicked { name, reason: panic_message(payload) }),
    }
}

fn panic_message(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload.downcast_ref::<&str>().map_or("(no message)", |m| m).to_owned(),
    }
}
