//! The serve threads of HTTP, with one ring each.

use crate::access_log::AccessLog;
use crate::counters::HttpCounters;
use crate::route::Route;
use crate::scratch::Scratch;
use crate::service::{Acceptor, Data, ServeShared};
use reel_admit::Sessions;
use reel_arena::Arena;
use reel_cache::{Arrival, Inbox, Units};
use reel_play::{Engine, PlayCounters, PlayableTitle, Uplink};
use reel_ring::{DriverChoice, RingConfig};
use reel_rt::{CoreConfig, CoreHandle, Mailbox, RtError, Workers, real_time};
use reel_serve::{Opener, Refusal};
use rustix::net::sockopt;
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
    /// The congestion control of connections, until a path loses too much for it; `None`: that of
    /// the system.
    pub congestion_control: Option<String>,
    /// Set if TLS is served: the certificate, and the number of buffers that each thread seals in.
    pub tls: Option<(reel_tls::Acceptor, usize)>,
}

/// The parts of the server that the serve threads use.
pub struct Shared {
    /// Units in memory.
    pub units: Units,
    /// Media memory.
    pub arena: Arena,
    /// All sessions.
    pub sessions: Arc<Sessions<PlayableTitle>>,
    /// Counters of all engines.
    pub play: Arc<PlayCounters>,
    /// Which of their front ends this one is.
    pub front_end: usize,
    /// The link to the clients.
    pub uplink: Arc<Uplink>,
    /// Counters of this front end.
    pub counters: Arc<HttpCounters>,
    /// Opens titles and sessions...
    pub opener: Opener,
    /// ...on these threads.
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
    /// A title was opened for a connection, or cannot be.
    Opened { connection: u64, result: OpenResult },
}

/// A title that was opened, or the reason why it was not.
pub(crate) type OpenResult = Result<Arc<PlayableTitle>, Refusal>;

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
        let mut system_congestion = None;
        if let Some(wanted) = &config.congestion_control {
            for (listener, _) in &listeners {
                system_congestion = use_congestion(wanted, listener).or(system_congestion);
            }
        }
        let (access_log, log_thread) = AccessLog::start(config.access_log).map_err(HttpError::Thread)?;
        let scratch_buffers = config.tls.as_ref().map_or(0, |(_, buffers)| *buffers);
        let shared = Arc::new(ServeShared {
            server: shared,
            access_log,
            connections_max: config.connections_max,
            lent_buffers: config.lent_buffers,
            system_congestion,
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

/// Sets the congestion control of connections that a listener accepts. Returns the one of the
/// system, if that is another one.
fn use_congestion(wanted: &str, listener: &TcpListener) -> Option<String> {
    let system = sockopt::tcp_congestion(listener).ok().filter(|system| system != wanted)?;
    match sockopt::set_tcp_congestion(listener, wanted) {
        Ok(()) => Some(system),
        Err(error) => {
            tracing::info!(
                "connections use the congestion control `{system}`, because `{wanted}` cannot be used: {error}; \
                 to permit it, add it to net.ipv4.tcp_allowed_congestion_control"
            );
            None
        }
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
        let uplink = Some(server.uplink.port());
        let engine = Engine::new(server.units.clone(), inbox, sessions, play);
        let engine = engine.for_front_end(server.front_end).through(uplink);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_connections_have_the_congestion_control_of_the_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let system = sockopt::tcp_congestion(&listener).expect("this kernel reports it");
        assert_eq!(use_congestion("no-such-name", &listener), None);
        assert_eq!(use_congestion(&system, &listener), None, "nothing to change");
        let Some(other) = ["reno", "cubic"].into_iter().find(|name| *name != system) else { return };
        if use_congestion(other, &listener).is_none() {
            println!("skipped: this kernel permits no congestion control but {system}");
            return;
        }
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let (accepted, _) = listener.accept().expect("the connection");
        assert_eq!(sockopt::tcp_congestion(&accepted).expect("the same"), other);
        assert_eq!(sockopt::tcp_congestion(&client).expect("the same"), system);
        assert_eq!(use_congestion(other, &listener), None, "it has it already");
    }
}
