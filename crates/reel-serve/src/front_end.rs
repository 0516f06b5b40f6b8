//! The threads of a front end, and what the server does with every front end.

use crate::accept::{Acceptor, OpenConnections};
use crate::thread::{Message, Parts, Protocol, ServeThread};
use reel_ring::RingConfig;
use reel_rt::{Core, CoreConfig, CoreHandle, Mailbox, RtError, real_time};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A running front end.
pub trait FrontEnd: Send + Sync {
    /// Whether all its threads are running.
    fn is_whole(&self) -> bool;

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

impl ServeThreads {
    /// Starts the threads. The first one accepts from the listeners at once. `make` makes the
    /// protocol of a thread, in two steps: by number, then in the thread.
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
        F: FnOnce(&mut Core) -> P + Send + 'static,
    {
        let threads: Vec<_> = (0..config.names.len())
            .map(|number| start_thread(&config, number, parts.clone(), make(number)))
            .collect::<Result<_, _>>()?;
        if let Some(first) = threads.first() {
            let mailboxes = threads.iter().map(CoreHandle::mailbox).collect();
            let Listening { listeners, open } = listening;
            first.mailbox().post(Message::Accept(Acceptor { listeners, threads: mailboxes, open }));
        }
        Ok(Self(threads))
    }
}

impl FrontEnd for ServeThreads {
    fn is_whole(&self) -> bool {
        self.0.iter().all(CoreHandle::is_alive)
    }

    fn stop(&self) {
        self.0.iter().for_each(CoreHandle::stop);
    }

    fn join(self: Box<Self>) -> Result<(), RtError> {
        let ended: Vec<_> = self.0.into_iter().map(CoreHandle::join).collect();
        ended.into_iter().collect()
    }
}

fn start_thread<P: Protocol>(
    config: &ThreadsConfig,
    number: usize,
    parts: Parts,
    make: impl FnOnce(&mut Core) -> P + Send + 'static,
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
    reel_rt::spawn(core_config, move |core, mailbox: Mailbox<Message>| {
        if priority > 0 {
            // The log tells whether the priority was granted or refused.
            let _ = real_time(&name, priority);
        }
        let protocol = make(core);
        ServeThread::new(core, parts, (front_end, number), uses_uplink, protocol, mailbox)
    })
}
