//! The serve threads of HTTP, with one ring each.

use crate::counters::HttpCounters;
use crate::file_readers::FileReaders;
use crate::route::Route;
use crate::scratch::Scratch;
use crate::service::{HttpShared, HttpThread};
use reel_arena::Arena;
use reel_pour::Pours;
use reel_ring::{DriverChoice, RingConfig};
use reel_rt::{Core, RtError};
use reel_serve::{
    BasePath, FrontEnd, Listening, OpenConnections, Parts, Proxies, ServeThreads, ThreadsConfig,
};
use rustix::net::sockopt;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

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
    /// Which of [`PlayCounters::front_ends`](reel_play::PlayCounters) is this one's.
    pub front_end: usize,
    /// Whether every media request is logged.
    pub access_log: bool,
    /// Buffers of the arena that may be lent to the kernel at once, to be sent from without a copy.
    pub lent_buffers: usize,
    /// The congestion control of connections, until a path loses too much for it; `None`: that of
    /// the system.
    pub congestion_control: Option<String>,
    /// Set if TLS is served: the certificate, and the number of buffers that each thread seals in.
    pub tls: Option<(reel_tls::Acceptor, usize)>,
    /// Handshakes of one thread that are under way at once.
    pub handshakes_max: usize,
}

/// The parts of the server that only this front end uses.
pub struct HttpParts {
    /// Media memory.
    pub arena: Arena,
    /// Counters of this front end.
    pub counters: Arc<HttpCounters>,
    /// The count of its connections.
    pub open: Arc<OpenConnections>,
    /// The receiver of requests that are not for media.
    pub handover: HandoverTo,
    /// The reverse proxies that name their clients.
    pub proxies: Proxies,
    /// Requests below this path are answered as without it.
    pub base_path: BasePath,
    /// The streams that programs pour.
    pub pours: Pours,
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
    /// The client's address; one that a proxy has named in front of the connection.
    pub peer: SocketAddr,
    /// Whether the first request is known to be for `/healthz`, `/readyz` or `/metrics`. With
    /// HTTP/2, no request is known yet.
    pub is_health: bool,
}

/// The protocol of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// HTTP.
    Plain,
    /// HTTP in TLS.
    Tls,
}

/// The running threads.
pub struct HttpFrontEnd {
    threads: ServeThreads,
}

impl HttpFrontEnd {
    /// Starts the threads, which accept from `listeners` at once.
    ///
    /// # Errors
    /// The system gives no thread or no ring.
    pub fn start(
        config: HttpConfig,
        listeners: Vec<(TcpListener, Transport)>,
        parts: &Parts,
        http: HttpParts,
    ) -> Result<Self, RtError> {
        let mut system_congestion = None;
        if let Some(wanted) = &config.congestion_control {
            for (listener, _) in &listeners {
                system_congestion = use_congestion(wanted, listener).or(system_congestion);
            }
        }
        let (listeners, transports) =
            listeners.into_iter().map(|(listener, transport)| (Arc::new(listener.into()), transport)).unzip();
        let listening = Listening { listeners, open: Arc::clone(&http.open) };
        let pours = http.pours.clone();
        let (scratch_buffers, arena) =
            (config.tls.as_ref().map_or(0, |(_, buffers)| *buffers), http.arena.clone());
        let shared = Arc::new(HttpShared {
            http,
            access_log: config.access_log,
            transports,
            lent_buffers: config.lent_buffers,
            system_congestion,
            handshakes_max: config.handshakes_max,
            file_readers: FileReaders::default(),
            tls_acceptor: config.tls.as_ref().map(|(acceptor, _)| acceptor.clone()),
        });
        let threads = ServeThreads::start(threads_config(&config), parts, listening, |_| {
            let (shared, arena) = (Arc::clone(&shared), arena.clone());
            // Taken here, before readers take buffers of the arena.
            let mut first = Some(Scratch::new(&arena, scratch_buffers));
            move |core: &mut Core| {
                let scratch = first.take().unwrap_or_else(|| Scratch::new(&arena, scratch_buffers));
                HttpThread::new(core, Arc::clone(&shared), scratch)
            }
        })?;
        let viewers = threads.waker();
        pours.on_news(move || viewers.wake());
        Ok(Self { threads })
    }
}

impl FrontEnd for HttpFrontEnd {
    fn is_whole(&self) -> bool {
        self.threads.is_whole()
    }

    fn restarts(&self) -> u32 {
        self.threads.restarts()
    }

    fn stop(&self) {
        self.threads.stop();
    }

    fn join(self: Box<Self>) -> Result<(), RtError> {
        Box::new(self.threads).join()
    }
}

fn threads_config(config: &HttpConfig) -> ThreadsConfig {
    ThreadsConfig {
        names: (0..config.threads).map(|number| format!("reel-serve-{number}")).collect(),
        pin: config.pin,
        real_time_priority: config.real_time_priority,
        ring: RingConfig { entries: 1024, driver: config.driver },
        front_end: config.front_end,
        uses_uplink: true,
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
