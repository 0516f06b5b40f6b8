//! A whole server: the only module that assembles all of its parts.

mod front_ends;
mod housekeeping;

use front_ends::{FrontEndPlan, FrontEnds, Sockets};
use housekeeping::Housekeeping;

use reel_admit::limits::START_WAIT_S;
use reel_admit::{AddressRange, Sessions, SessionsConfig};
use reel_api::{
    ArenaMetrics, ControlConfig, ControlPlane, DiskMetrics, ServerAdmission, ServerSessions,
    ServerVolumeJobs, Services, VolumeMetrics, Watching, serve_connection, watch_directory,
};
use reel_cache::Units;
use reel_disk::Disks;
use reel_http::limits::{CERTIFICATE_LOOK_S, HANDOVERS_MAX};
use reel_http::{CertificateError, CertificateFiles, Certificates, Handover, HandoverTo, is_media};
use reel_library::Library;
use reel_metrics::MetricsRegistry;
use reel_play::{
    Capacity, CapacityConfig, Housekeeper, MemoryPlan, MemoryUse, PlayCounters, PlayMetrics, TitleMetrics,
    Uplink,
};
use reel_qos::limits::ROUND_NS;
use reel_ring::DriverChoice;
use reel_rt::{RtError, Workers};
use reel_serve::limits::{DRAIN_TIME_MAX_NS, OPENERS, OPENERS_AHEAD, OPENINGS_MAX};
use reel_serve::{Opener, Parts, Titles};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout_at;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Address and certificate for TLS.
    pub tls: Option<TlsConfig>,
    /// Threads that serve media; 0 means one for each processor.
    pub serve_threads: usize,
    /// Whether each of these threads stays on its processor.
    pub pin_threads: bool,
    /// Their priority over all ordinary threads (`SCHED_FIFO`), if the kernel permits it; 0 for
    /// ordinary threads.
    pub real_time_priority: u8,
    /// io_uring or the portable driver.
    pub driver: DriverChoice,
    /// Whether media memory may be lent to the kernel for zero-copy sends, on sockets for which the
    /// kernel reports that it makes no copy.
    pub zero_copy: bool,
    /// The congestion control of connections; `None` for that of the system.
    pub congestion_control: Option<String>,
    /// Most connections at once.
    pub connections_max: usize,
    /// Most sessions at once.
    pub sessions_max: usize,
    /// Addresses that speak for many viewers: the shares of one client do not bind them.
    pub gateways: Vec<AddressRange>,
    /// A session without a request for this long ends.
    pub session_idle: Duration,
    /// Whether every media request is logged.
    pub access_log: bool,
    /// The limits of admission.
    pub promise: PromiseConfig,
    /// A directory whose new files are ingested.
    pub watch: Option<PathBuf>,
    /// A Unix socket for programs on this machine, which then read titles in the server's memory.
    /// The volume must have been opened with memory that other processes can map.
    pub programs: Option<PathBuf>,
    /// The control plane.
    pub control: ControlConfig,
}

/// The settings of TLS.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The certificate and key of the server.
    pub files: CertificateFiles,
    /// Whether HTTP/2 is offered for pages and API.
    pub http2: bool,
}

/// The settings of admission.
#[derive(Clone, Copy, Debug)]
pub struct PromiseConfig {
    /// Whether sessions are admitted by the ledger. If not, a session is refused only when there is
    /// no memory for sessions, and nothing is reserved.
    pub admission: bool,
    /// The network's rate towards the clients, in bits per second; `None` if it is unknown and
    /// never the bottleneck.
    pub network_bps: Option<u64>,
    /// For how many seconds a start or a seek waits for room before it is refused.
    pub start_wait_s: u64,
}

impl Default for PromiseConfig {
    fn default() -> Self {
        Self { admission: true, network_bps: None, start_wait_s: START_WAIT_S }
    }
}

/// Why a server did not start, or how it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Programs cannot connect.
    #[error("cannot listen for programs at {}: {source}", path.display())]
    Programs {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A thread of a front end failed.
    #[error(transparent)]
    Rt(#[from] RtError),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The directory to watch cannot be read.
    #[error("cannot watch {}: {source}", path.display())]
    Watch {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    certificates: Option<Arc<Certificates>>,
    front_ends: FrontEnds,
    housekeeping: Housekeeping,
    openers: Vec<JoinHandle<()>>,
    control: ControlPlane,
    runtime: Runtime,
    disks: Disks,
    _watching: Option<Watching>,
}

impl Server {
    /// Starts serving a volume. Returns when connections are accepted.
    ///
    /// # Errors
    /// An address, a certificate, the socket of programs or the watched directory cannot be used,
    /// or the system gives no thread.
    pub fn start(config: ServeConfig, library: Arc<Library>) -> Result<Self, ServeError> {
        let volume = library.volume();
        let sockets = Sockets::bind(&config, volume)?;
        let (address, tls_address) = (sockets.address, sockets.tls_address);
        let certificates = sockets.certificates.clone();
        let threads = match config.serve_threads {
            0 => processors(),
            threads => threads,
        };
        let plan = memory_plan(&config, &library, threads, certificates.is_some());
        let (parts, capacity, openers) = parts(&config, &library, threads, &plan, sockets.plan(threads))?;
        let runtime = runtime()?;
        let control =
            control_plane(config.control.clone(), &library, &parts, &capacity, registry(&library, &parts));
        let (handover, handed_over) = channel(HANDOVERS_MAX);
        runtime.spawn(take_over(handed_over, control.clone()));
        if let Some(certificates) = &certificates {
            control.metrics().register(Arc::clone(certificates) as _);
            runtime.spawn(poll_certificates(Arc::clone(certificates)));
        }
        let watching = config.watch.as_ref().map(|path| watch(path, &control, &runtime)).transpose()?;
        let housekeeping = Housekeeping::start(Housekeeper {
            sessions: Arc::clone(&parts.sessions),
            disks: volume.disks().clone(),
            uplink: Arc::clone(&parts.uplink),
            capacity,
            counters: Arc::clone(&parts.play),
        })?;
        let hand_over: HandoverTo =
            Box::new(move |connection| handover.try_send(connection).map_err(TrySendError::into_inner));
        let front_ends =
            sockets.start(&config, (&plan, volume.arena().clone()), &parts, control.metrics(), hand_over)?;
        // The runtime starts last, because it ends only after the work that blocks in it. A server
        // that cannot start must report that at once, and not after a rebuild.
        {
            let _tokio = runtime.enter();
            control.resume_rebuild();
        }
        open_ahead(&library, &control, runtime.handle());
        Ok(Self {
            address,
            tls_address,
            certificates,
            front_ends,
            housekeeping,
            openers,
            control,
            runtime,
            disks: volume.disks().clone(),
            _watching: watching,
        })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address on which it serves TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// Whether every thread that viewers need is running. A thread that ended, because there is no
    /// ring for it, has logged the reason. The other threads cannot keep its reservations.
    pub fn is_whole(&self) -> bool {
        self.front_ends.is_whole()
            && self.housekeeping.is_alive()
            && self.disks.is_whole()
            && !self.openers.iter().any(JoinHandle::is_finished)
    }

    /// Reads the certificate and its key again; `None` if the server has none.
    pub fn reload_certificates(&self) -> Option<bool> {
        Some(self.certificates.as_ref()?.reload())
    }

    /// The control plane, for example to ask for its jobs.
    pub fn control(&self) -> &ControlPlane {
        &self.control
    }

    /// Stops accepting, lets work under way (responses, uploads and their ingests) finish within
    /// its limits, and ends all threads.
    ///
    /// # Errors
    /// A thread of a front end failed.
    pub fn stop(self) -> Result<(), ServeError> {
        let control = &self.control;
        let until = Instant::now() + Duration::from_nanos(DRAIN_TIME_MAX_NS);
        control.drain();
        let drained = self.front_ends.drain();
        self.housekeeping.stop();
        for thread in self.openers {
            // A panic of a thread was logged when it happened.
            let _ = thread.join();
        }
        let end = self.runtime.block_on(async {
            // Work that is not finished by then is told to end, and has time to answer.
            let is_idle = timeout_at(until.into(), control.drained()).await.is_ok();
            control.stop();
            let end = Instant::now() + CONTROL_STOP_TIME;
            if !is_idle {
                let _ = timeout_at(end.into(), control.drained()).await;
            }
            end
        });
        self.runtime.shutdown_timeout(end.saturating_duration_since(Instant::now()));
        Ok(drained?)
    }
}

/// The processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The time that control requests and threads have to end after the limit for work under way.
const CONTROL_STOP_TIME: Duration = Duration::from_secs(5);

fn memory_plan(config: &ServeConfig, library: &Library, serve_threads: usize, is_tls: bool) -> MemoryPlan {
    let volume = library.volume();
    MemoryPlan::of(&MemoryUse {
        buffers: volume.arena().usage().buffers_total,
        width: volume.geometry().width(),
        serve_threads,
        ingests: config.control.ingests_max,
        is_tls,
        driver: config.driver,
        zero_copy: config.zero_copy,
    })
}

fn watch(path: &Path, control: &ControlPlane, runtime: &Runtime) -> Result<Watching, ServeError> {
    watch_directory(control.clone(), path, runtime.handle().clone())
        .map_err(|source| ServeError::Watch { path: path.to_owned(), source })
}

/// The parts that all front ends use, the capacity that housekeeping measures, and the threads that
/// open titles.
fn parts(
    config: &ServeConfig,
    library: &Arc<Library>,
    threads: usize,
    plan: &MemoryPlan,
    front_ends: Vec<FrontEndPlan>,
) -> Result<(Parts, Capacity, Vec<JoinHandle<()>>), ServeError> {
    let volume = library.volume();
    let names: Vec<_> = front_ends.iter().map(|front_end| (front_end.name, front_end.threads)).collect();
    let play = Arc::new(PlayCounters::new(&names));
    let (arena, disks) = (volume.arena().clone(), volume.disks().clone());
    let others = arena.usage().buffers_total - plan.readers;
    let units = Units::new(arena, disks, volume.health().clone(), others);
    let titles = Arc::new(Titles::new(Arc::clone(library), units.depth()));
    let capacity = CapacityConfig {
        core_ns: ROUND_NS * threads as u64,
        arena_bytes: units.budget().promisable() as u64 * units.buffer_bytes(),
        network_bps: config.promise.network_bps,
        processors: front_ends.into_iter().map(|front_end| front_end.price).collect(),
    };
    let capacity = Capacity::new(volume.disks(), capacity);
    let sessions = Sessions::new(SessionsConfig {
        sessions_max: config.sessions_max,
        idle_max_ns: u64::try_from(config.session_idle.as_nanos()).unwrap_or(u64::MAX),
        capacities: config.promise.admission.then(|| capacity.capacities()),
        classes: capacity.classes().clone(),
        start_wait_s: config.promise.start_wait_s,
    });
    let sessions = Arc::new(sessions.for_gateways(config.gateways.clone()).reading(&units));
    let uplink = config.promise.network_bps.map_or_else(Uplink::of_unknown_rate, Uplink::new);
    let (openers, opener_threads) =
        Workers::start("reel-open", OPENERS, OPENINGS_MAX).map_err(ServeError::Thread)?;
    let opener = Opener::new(titles, Arc::clone(&sessions), units.disks().clone(), Arc::clone(&play));
    Ok((Parts { units, opener, openers, sessions, play, uplink }, capacity, opener_threads))
}

/// The metrics of the shared parts.
fn registry(library: &Arc<Library>, parts: &Parts) -> MetricsRegistry {
    let (metrics, volume) = (MetricsRegistry::default(), library.volume());
    metrics.register(Arc::new(VolumeMetrics(Arc::clone(volume))));
    metrics.register(Arc::new(DiskMetrics(volume.disks().clone())));
    metrics.register(Arc::new(TitleMetrics(Arc::clone(library))));
    metrics.register(Arc::new(ArenaMetrics(volume.arena().clone())));
    metrics.register(Arc::new(PlayMetrics {
        counters: Arc::clone(&parts.play),
        units: parts.units.clone(),
        sessions: Arc::clone(&parts.sessions),
        uplink: parts.uplink.clone(),
    }));
    metrics
}

/// The control plane with the parts that it controls.
fn control_plane(
    config: ControlConfig,
    library: &Arc<Library>,
    parts: &Parts,
    capacity: &Capacity,
    metrics: MetricsRegistry,
) -> ControlPlane {
    let volume = library.volume();
    let admission = Arc::new(ServerAdmission {
        sessions: Arc::clone(&parts.sessions),
        counters: Arc::clone(&parts.play),
        units: parts.units.clone(),
        capacities: capacity.capacities(),
        geometry: *volume.geometry(),
    });
    metrics.register(admission.clone());
    let services = Services {
        library: Arc::clone(library) as _,
        sessions: Arc::new(ServerSessions { opener: parts.opener.clone() }),
        admission,
        volume_jobs: Arc::new(ServerVolumeJobs(Arc::clone(volume))),
        is_media,
    };
    ControlPlane::new(config, services, metrics)
}

fn runtime() -> Result<Runtime, ServeError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("reel-control")
        .enable_all()
        .build()
        .map_err(ServeError::Thread)
}

/// Checks the certificate's files periodically, and never returns.
async fn poll_certificates(certificates: Arc<Certificates>) {
    loop {
        tokio::time::sleep(Duration::from_secs(CERTIFICATE_LOOK_S)).await;
        certificates.poll();
    }
}

/// Opens the newest titles ahead, several at once, because their indexes are on different members.
fn open_ahead(library: &Arc<Library>, control: &ControlPlane, runtime: &Handle) {
    let titles = library.volume().titles();
    let mut ids: Vec<(u64, String)> =
        titles.iter().map(|title| (title.added_unix_s, title.id.clone())).collect();
    ids.sort_unstable();
    let newest = Arc::new(Mutex::new(ids));
    for _ in 0..OPENERS_AHEAD {
        let (library, newest, stop) = (Arc::clone(library), Arc::clone(&newest), control.stop_flag());
        runtime.spawn_blocking(move || {
            // The lock is held for one step, which cannot panic.
            let next = || newest.lock().ok().and_then(|mut newest| newest.pop());
            while !stop.is_stopped()
                && let Some((_, id)) = next()
            {
                match library.open_ahead(&id) {
                    Ok(true) => {}
                    Ok(false) => return,
                    // A request for the title reports this error. Here the title is one of many.
                    Err(error) => tracing::debug!(id, %error, "a title cannot be opened ahead"),
                }
            }
        });
    }
}

async fn take_over(mut handed_over: Receiver<Handover>, control: ControlPlane) {
    while let Some(Handover { stream, tls, already_read, peer }) = handed_over.recv().await {
        match tokio::net::TcpStream::from_std(stream) {
            Ok(stream) => drop(tokio::spawn(serve_connection(stream, tls, already_read, control.clone()))),
            Err(error) => tracing::warn!(%peer, %error, "cannot take over a connection"),
        }
    }
}
