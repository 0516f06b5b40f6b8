//! The threads of a front end, and what the server does with every front end.

use crate::accept::{Acceptor, OpenConnections};
use crate::thread::{Message, Parts, Place, Protocol, ServeThread};
use reel_ring::RingConfig;
use reel_rt::{Core, CoreConfig, CoreHandle, Mailbox, RtError, real_time};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A running front end.
pub trait FrontEnd: Send + Sync {
    /// Whether all its threads are running.
    fn is_whole(&self) -> bool;

    /// How often its threads have begun again after panics.
    fn restarts(&self) -> u32 {
        0
    }

    /// Asks its threads to finish their responses and to end. Does not wait.
    fn stop(&self);

    /// Waits for the end of its threads. Then it holds no reference to the volume.
    ///
    /// # Errors
    /// A thread failed.
    fn join(self: Box<Self>) -> Result<(), RtError>;
}

/// The settings of the threads of a front end.
#[derive(Clone, Debug)]
pub struct ThreadsConfig {
    /// The name of each thread.
    pub names: Vec<String>,
    /// Whether each thread stays on its processor.
    pub pin: bool,
    /// Priority in `SCHED_FIFO`; 0 for ordinary threads.
    pub real_time_priority: u8,
    /// The ring of each thread.
    pub ring: RingConfig,
    /// The place of the front end in [`PlayCounters::front_ends`](reel_play::PlayCounters).
    pub front_end: usize,
    /// Whether the clients are on other machines, behind the uplink.
    pub uses_uplink: bool,
}

/// The sockets of a front end.
pub struct Listening {
    /// The listening sockets.
    pub listeners: Vec<Arc<OwnedFd>>,
    /// The count of the connections.
    pub open: Arc<OpenConnections>,
}

/// The running threads of a front end.
pub struct ServeThreads(Vec<CoreHandle<Message>>);

/// Wakes the threads of a front end, whose protocols then look at what they share with the caller.
#[derive(Clone)]
pub struct Waker(Vec<(Mailbox<Message>, Arc<AtomicBool>)>);

impl Waker {
    /// Has [`Protocol::woken`] called on each thread: once for all calls that come before it is.
    /// Does not wait.
    pub fn wake(&self) {
        for (thread, is_woken) in &self.0 {
            if !is_woken.swap(true, Ordering::AcqRel) {
                thread.post(Message::Wake(Arc::clone(is_woken)));
            }
        }
    }
}

impl ServeThreads {
    /// Starts the threads. The first one accepts from the listeners at once. `make` makes the
    /// protocol of a thread, in two steps: by number, then in the thread. The second step is taken
    /// again when the thread begins again after a panic.
    ///
    /// # Errors
    /// The system gives no thread or no ring.
    pub fn start<P: Protocol, F>(
        config: ThreadsConfig,
        parts: &Parts,
        listening: Listening,
        mut make: impl FnMut(usize) -> F,
    ) -> Result<Self, RtError>
    where
        F: FnMut(&mut Core) -> P + Send + 'static,
    {
        let first_acceptor: Accepting = Arc::default();
        let threads: Vec<_> = (0..config.names.len())
            .map(|number| {
                // Only the first thread accepts.
                let accepting = if number == 0 { Arc::clone(&first_acceptor) } else { Arc::default() };
                start_thread(&config, number, parts.clone(), accepting, make(number))
            })
            .collect::<Result<_, _>>()?;
        if let Some(first) = threads.first() {
            let mailboxes = threads.iter().map(CoreHandle::mailbox).collect();
            let Listening { listeners, open } = listening;
            let acceptor = Arc::new(Acceptor { listeners, threads: mailboxes, open });
            let acceptor = first_acceptor.get_or_init(|| acceptor);
            first.mailbox().post(Message::Accept(Arc::clone(acceptor)));
        }
        Ok(Self(threads))
    }

    /// Wakes these threads.
    pub fn waker(&self) -> Waker {
        Waker(self.0.iter().map(|thread| (thread.mailbox(), Arc::default())).collect())
    }
}

impl FrontEnd for ServeThreads {
    fn is_whole(&self) -> bool {
        self.0.iter().all(CoreHandle::is_alive)
    }

    fn restarts(&self) -> u32 {
        self.0.iter().map(CoreHandle::restarts).sum()
    }

    fn stop(&self) {
        self.0.iter().for_each(CoreHandle::stop);
    }

    fn join(self: Box<Self>) -> Result<(), RtError> {
        let ended: Vec<_> = self.0.into_iter().map(CoreHandle::join).collect();
        ended.into_iter().collect()
    }
}

/// What a thread accepts from, set when all threads run. It outlives a restart of the thread.
type Accepting = Arc<OnceLock<Arc<Acceptor>>>;

fn start_thread<P: Protocol>(
    config: &ThreadsConfig,
    number: usize,
    parts: Parts,
    accepting: Accepting,
    mut make: impl FnMut(&mut Core) -> P + Send + 'static,
) -> Result<CoreHandle<Message>, RtError> {
    let name = config.names[number].clone();
    let core_config = CoreConfig {
        name: name.clone(),
        cpu: config.pin.then_some(number),
        ring: config.ring.clone(),
        arena: None,
    };
    let (priority, front_end, uses_uplink) =
        (config.real_time_priority, config.front_end, config.uses_uplink);
    let mut generations = 0..;
    reel_rt::spawn_restarting(core_config, move |core, mailbox: Mailbox<Message>| {
        if priority > 0 {
            // The log tells whether the priority was granted or refused.
            let _ = real_time(&name, priority);
        }
        let protocol = make(core);
        let generation = generations.next().unwrap_or(u32::MAX);
        if generation > 0 {
            parts.play.restarts.fetch_add(1, Ordering::Relaxed);
        }
        let place = Place { front_end, number, generation };
        if generation > 0 {
            mailbox.post(Message::Wake(Arc::default()));
        }
        let mut thread = ServeThread::new(core, parts.clone(), place, uses_uplink, protocol, mailbox);
        if generation > 0
            && let Some(acceptor) = accepting.get()
        {
            thread.accept(core, Arc::clone(acceptor));
        }
        thread
    })
}
