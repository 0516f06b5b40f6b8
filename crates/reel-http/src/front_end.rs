//! The serve threads of HTTP, with one ring each.

use crate::access_log::AccessLog;
use crate::counters::HttpCounters;
use crate::opening::Opened;
use crate::route::Route;
use crate::scratch::Scratch;
use crate::service::{Acceptor, Data, ServeShared};
use reel_admit::Sessions;
use reel_arena::Arena;
use reel_cache::{Arrival, Inbox, Units};
use reel_play::{Engine, PlayCounters, PlayableTitle, Titles, Uplink};
use reel_ring::{DriverChoice, RingConfig};
use reel_rt::{CoreConfig, CoreHandle, Mailbox, RtError, Workers, real_time};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Whether this front end alone answers requests for this path.
pub fn is_media(path: &str) -> bool {
    Route::of(path) != Route::ControlPlane
}

/// The settings of the serve threads.
pub struct HttpConfig {
    /// Threads.
    pub threads: usize,
    /// Whether each thread stays on its processor.
    pub pin: bool,
    /// Priority in `SCHED_FIFO`; 0 for ordinary threads.
    pub real_time_priority: u8,
    /// io_uring or the portable driver.
    pub driver: DriverChoice,
    /// The most connections at once.
    pub connections_max: usize,
    /// Whether every media request is logged.
    pub access_log: bool,
    /// Buffers of the arena that may be lent to the kernel at once, to be sent from without a copy.
    pub lent_buffers: usize,
    /// Set if TLS is served: the certificate, and the number of buffers that each thread seals in.
    pub tls: Option<(reel_tls::Acceptor, usize)>,
}

/// The parts of the server that the serve threads use.
pub struct Shared {
    /// Units in memory.
    pub units: Units,
    /// Media memory.
    pub arena: Arena,
    /// The titles that can be opened.
    pub titles: Arc<Titles>,
    /// All sessions.
    pub sessions: Arc<Sessions<PlayableTitle>>,
    /// Counters of all engines.
    pub play: Arc<PlayCounters>,
    /// The link to the clients, if its rate is known.
    pub uplink: Option<Arc<Uplink>>,
    /// Counters of this front end.
    pub counters: Arc<HttpCounters>,
    /// Threads that open titles.
    pub openers: Workers,
    /// The receiver of requests that are not for media.
    pub handover: HandoverTo,
}

/// Takes a connection over, or returns it if it has no room for it. Must not wait.
pub type HandoverTo = Box<dyn Fn(Handover) -> Result<(), Handover> + Send + Sync>;

/// A connection whose request is not for media, with the bytes already read from it.
pub struct Handover {
    /// The socket.
    pub stream: TcpStream,
    /// Its keys, if it uses TLS; `already_read` is decrypted.
    pub tls: Option<Box<reel_tls::Connection>>,
    /// The bytes that were read.
    pub already_read: Vec<u8>,
    /// The client's address.
    pub peer: SocketAddr,
}

/// The protocol of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// HTTP.
    Plain,
    /// HTTP in TLS.
    Tls,
}

/// Why the front end did not start, or how it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// A serve thread failed.
    #[error(transparent)]
    Rt(#[from] RtError),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// A message to a serve thread.
pub(crate) enum Message {
    /// A disk or another thread has something for the thread's engine.
    Arrival(Arrival),
    /// A new connection for this thread.
    Connection(OwnedFd, SocketAddr, Transport),
    /// This thread accepts connections from now on.
    Acceptor(Acceptor),
    /// A title was opened, or cannot be.
    Opened(Opened),
}

/// The running threads.
pub struct HttpFrontEnd {
    cores: Vec<CoreHandle<Message>>,
    log_thread: Option<JoinHandle<()>>,
}

impl HttpFrontEnd {
    /// Starts the threads, which accept from `listeners` at once.
    ///
    /// # Errors
    /// The system gives no thread or no ring.
    pub fn start(
        config: HttpConfig,
        listeners: Vec<(TcpListener, Transport)>,
        shared: Shared,
    ) -> Result<Self, HttpError> {
        let (access_log, log_thread) = AccessLog::start(config.access_log).map_err(HttpError::Thread)?;
        let scratch_buffers = config.tls.as_ref().map_or(0, |(_, buffers)| *buffers);
        let shared = Arc::new(ServeShared {
            server: shared,
            access_log,
            connections_max: config.connections_max,
            lent_buffers: config.lent_buffers,
            tls_acceptor: config.tls.as_ref().map(|(acceptor, _)| acceptor.clone()),
        });
        let cores: Vec<CoreHandle<Message>> = (0..config.threads)
            .map(|number| start_thread(&config, number, Arc::clone(&shared), scratch_buffers))
            .collect::<Result<_, _>>()?;
        if let Some(first) = cores.first() {
            let cores = cores.iter().map(|core| core.mailbox()).collect();
            let listeners =
                listeners.into_iter().map(|(listener, transport)| (Arc::new(listener.into()), transport));
            first.mailbox().post(Message::Acceptor(Acceptor { listeners: listeners.collect(), cores }));
        }
        Ok(Self { cores, log_thread })
    }

    /// Whether all threads are running.
    pub fn is_whole(&self) -> bool {
        self.cores.iter().all(CoreHandle::is_alive)
    }

    /// Lets current responses finish, then stops the threads and waits for them. When it returns,
    /// this front end holds no reference to the volume.
    ///
    /// # Errors
    /// A thread failed.
    pub fn drain(self) -> Result<(), HttpError> {
        for core in &self.cores {
            core.stop();
        }
        let ended: Vec<_> = self.cores.into_iter().map(CoreHandle::join).collect();
        if let Some(thread) = self.log_thread {
            // A panic of the thread was logged when it happened.
            let _ = thread.join();
        }
        ended.into_iter().collect::<Result<(), _>>().map_err(HttpError::from)
    }
}

fn start_thread(
    config: &HttpConfig,
    number: usize,
    shared: Arc<ServeShared>,
    scratch_buffers: usize,
) -> Result<CoreHandle<Message>, RtError> {
    let core_config = CoreConfig {
        name: format!("reel-serve-{number}"),
        cpu: config.pin.then_some(number),
        ring: RingConfig { entries: 1024, driver: config.driver },
        arena: None,
    };
    let (name, priority) = (core_config.name.clone(), config.real_time_priority);
    let scratch = Scratch::new(&shared.server.arena, scratch_buffers);
    reel_rt::spawn(core_config, move |core, own: Mailbox<Message>| {
        if priority > 0 {
            // The log tells whether the priority was granted or refused.
            let _ = real_time(&name, priority);
        }
        let inbox = Arc::new(Post(own.clone()));
        let server = &shared.server;
        let (sessions, play) = (Arc::clone(&server.sessions), Arc::clone(&server.play));
        let uplink = server.uplink.as_ref().map(Uplink::port);
        let engine = Engine::new(server.units.clone(), inbox, sessions, play).through(uplink);
        Data::new(core, number, shared, engine, scratch, own)
    })
}

/// Puts arrivals from other threads into a serve thread's mailbox.
struct Post(Mailbox<Message>);

impl Inbox for Post {
    fn post(&self, arrival: Arrival) {
        self.0.post(Message::Arrival(arrival));
    }
}
