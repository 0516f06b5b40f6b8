use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use reel_arena::Arena;
use reel_ring::{Ring, RingConfig, RingError, Waker};

use crate::core::{Core, Service, run};
use crate::error::RtError;
use crate::mailbox::{Mailbox, mailbox};
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
    let (ready, started) = mpsc::sync_channel(1);
    let CoreConfig { name, cpu, ring, arena } = config;
    let thread_name = name.clone();
    let body = move || -> Result<(), RingError> {
        settle(&thread_name, cpu);
        let ring = Ring::new(ring, arena.as_ref())?;
        let waker = ring.waker();
        let control = Control {
            stop_asked: Arc::new(AtomicBool::new(false)),
            alive: Arc::new(AtomicBool::new(true)),
            waker: waker.clone(),
        };
        let stop_asked = Arc::clone(&control.stop_asked);
        // Declared first, so dropped last: when the core reads as dead, its service, ring and
        // mailbox are gone.
        let _mark_dead = MarkDeadOnDrop(Arc::clone(&control.alive));
        let (mailbox, mut inbox) = mailbox(waker);
        let mut core = Core::new(ring);
        let mut service = make(&mut core, mailbox.clone());
        // The send fails only if the spawning thread is gone; then this core ends with its handle.
        let _ = ready.send((mailbox, control));
        run(&mut core, &mut service, &mut inbox, &stop_asked).inspect_err(|error| {
            // Logged here because `join` may be called much later.
            tracing::error!("the thread {thread_name} cannot continue: {error}");
        })
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
