//! A whole server: the only module that assembles all of its parts.

mod housekeeping;

use housekeeping::Housekeeping;

use reel_admit::limits::START_WAIT_S;
use reel_admit::{Sessions, SessionsConfig};
use reel_api::{
    ArenaMetrics, ControlConfig, ControlPlane, DiskMetrics, ServerAdmission, ServerSessions,
    ServerVolumeJobs, Services, VolumeMetrics, Watching, serve_connection, watch_directory,
};
use reel_arena::Arena;
use reel_cache::Units;
use reel_cache::limits::READER_STRIPES_MAX;
use reel_disk::Disks;
use reel_http::limits::{
    CERTIFICATE_LOOK_S, DRAIN_TIME_MAX_NS, HANDOVERS_MAX, LISTEN_BACKLOG, OPENERS, OPENERS_AHEAD,
    OPENINGS_MAX,
};
use reel_http::{
    CertificateError, CertificateFiles, Certificates, Handover, HandoverTo, HttpConfig, HttpCounters,
    HttpError, HttpFrontEnd, HttpMetrics, Shared, Transport, is_media,
};
use reel_library::Library;
use reel_local::{ArenaMap, LocalCounters, LocalFrontEnd, LocalMetrics, Message};
use reel_metrics::MetricsRegistry;
use reel_play::{
    Capacity, CapacityConfig, Housekeeper, MemoryPlan, MemoryUse, PlayCounters, PlayMetrics, PlayableTitle,
    ProcessorPrice, TitleMetrics, Titles, Uplink,
};
use reel_qos::limits::ROUND_NS;
use reel_ring::DriverChoice;
use reel_rt::{CoreHandle, RtError, Workers};
use reel_serve::Opener;
use reel_volume::Volume;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
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
    /// A serve thread failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The thread of programs failed.
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
    http: HttpFrontEnd,
    programs: Option<CoreHandle<Message>>,
    housekeeping: Housekeeping,
    openers: Vec<JoinHandle<()>>,
    control: ControlPlane,
    runtime: Runtime,
    disks: Disks,
    _watching: Option<Watching>,
}

/// The listening sockets.
struct Listening {
    sockets: Vec<(TcpListener, Transport)>,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    certificates: Option<Arc<Certificates>>,
}

/// The parts that all front ends share.
struct Common {
    units: Units,
    opener: Opener,
    openers: Workers,
    sessions: Arc<Sessions<PlayableTitle>>,
    play: Arc<PlayCounters>,
    uplink: Arc<Uplink>,
}

impl Common {
    /// The same, for HTTP, with what only HTTP has.
    fn for_http(self, arena: Arena, counters: Arc<HttpCounters>, handover: HandoverTo) -> Shared {
        Shared {
            units: self.units,
            arena,
            sessions: self.sessions,
            play: self.play,
            front_end: HTTP,
            uplink: self.uplink,
            counters,
            opener: self.opener,
            openers: self.openers,
            handover,
        }
    }
}

impl Server {
    /// Starts serving a volume. Returns when connections are accepted.
    ///
    /// # Errors
    /// An address, a certificate, the socket of programs or the watched directory cannot be used,
    /// or the system gives no thread.
    pub fn start(config: ServeConfig, library: Arc<Library>) -> Result<Self, ServeError> {
        let listening = Listening::new(&config)?;
        let threads = match config.serve_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let volume = library.volume();
        let is_tls = listening.certificates.is_some();
        let plan = memory_plan(&config, &library, threads, is_tls);
        let program_socket =
            config.programs.clone().map(|path| listen_for_programs(path, volume)).transpose()?;
        let (common, capacity, openers) = common(&config, &library, threads, &plan, is_tls)?;
        let (http_counters, local_counters) = (Arc::new(HttpCounters::new(threads)), Arc::default());
        let metrics = registry(&library, &common);
        metrics.register(Arc::new(HttpMetrics(Arc::clone(&http_counters))));
        if program_socket.is_some() {
            metrics.register(Arc::new(LocalMetrics(Arc::clone(&local_counters))));
        }
        let runtime = runtime()?;
        let control = control_plane(config.control.clone(), &library, &common, &capacity, metrics);
        let (handover, handed_over) = channel(HANDOVERS_MAX);
        runtime.spawn(take_over(handed_over, control.clone()));
        if let Some(certificates) = &listening.certificates {
            control.metrics().register(Arc::clone(certificates) as _);
            runtime.spawn(poll_certificates(Arc::clone(certificates)));
        }
        let watching = config.watch.as_ref().map(|path| watch(path, &control, &runtime)).transpose()?;
        let programs = program_socket.map(|socket| {
            socket.front_end(&common, local_counters).start(common.units.clone(), config.driver)
        });
        let programs = programs.transpose()?;
        let housekeeping = Housekeeping::start(Housekeeper {
            sessions: Arc::clone(&common.sessions),
            disks: volume.disks().clone(),
            uplink: Arc::clone(&common.uplink),
            capacity,
            counters: Arc::clone(&common.play),
        })?;
        let shared = common.for_http(
            volume.arena().clone(),
            http_counters,
            Box::new(move |connection| handover.try_send(connection).map_err(TrySendError::into_inner)),
        );
        let http = http_config(&config, threads, &plan, listening.certificates.as_ref());
        let http = HttpFrontEnd::start(http, listening.sockets, shared)?;
        // The runtime starts last, because it ends only after the work that blocks in it. A server
        // that cannot start must report that at once, and not after a rebuild.
        {
            let _tokio = runtime.enter();
            control.resume_rebuild();
        }
        open_ahead(&library, &control, runtime.handle());
        Ok(Self {
            address: listening.address,
            tls_address: listening.tls_address,
            certificates: listening.certificates,
            http,
            programs,
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
        self.http.is_whole()
            && self.programs.as_ref().is_none_or(CoreHandle::is_alive)
            && self.housekeeping.is_alive()
            && self.disks.is_whole()
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
        if let Some(programs) = &self.programs {
            programs.stop();
        }
        let drained = self.http.drain();
        let programs = self.programs.map_or(Ok(()), CoreHandle::join);
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
        drained?;
        Ok(programs?)
    }
}

/// The time that control requests and threads have to end after the limit for work under way.
const CONTROL_STOP_TIME: Duration = Duration::from_secs(5);

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    // A burst of players must not fill the standard backlog of 128.
    rustix::net::listen(&listener, LISTEN_BACKLOG).map_err(|error| failed(error.into()))?;
    // With port 0 the system chooses.
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

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

fn http_config(
    config: &ServeConfig,
    threads: usize,
    plan: &MemoryPlan,
    certificates: Option<&Arc<Certificates>>,
) -> HttpConfig {
    HttpConfig {
        threads,
        pin: config.pin_threads,
        real_time_priority: config.real_time_priority,
        driver: config.driver,
        connections_max: config.connections_max,
        access_log: config.access_log,
        lent_buffers: plan.lent,
        congestion_control: config.congestion_control.clone(),
        tls: certificates.map(|certificates| (certificates.acceptor().clone(), plan.scratch_per_core)),
    }
}

/// The place of each front end in [`PlayCounters::front_ends`].
const HTTP: usize = 0;
const PROGRAMS: usize = 1;

/// The shared parts of the front ends, with the parts for housekeeping and the threads that open
/// titles.
fn common(
    config: &ServeConfig,
    library: &Arc<Library>,
    threads: usize,
    plan: &MemoryPlan,
    is_tls: bool,
) -> Result<(Common, Capacity, Vec<JoinHandle<()>>), ServeError> {
    let volume = library.volume();
    let (arena, disks) = (volume.arena().clone(), volume.disks().clone());
    let others = arena.usage().buffers_total - plan.readers;
    let units = Units::new(arena, disks, volume.health().clone(), others);
    let titles = Arc::new(Titles::new(Arc::clone(library), units.depth()));
    let capacity = CapacityConfig {
        core_ns: ROUND_NS * threads as u64,
        arena_bytes: units.budget().promisable() as u64 * units.buffer_bytes(),
        network_bps: config.promise.network_bps,
        processors: vec![ProcessorPrice::of_machine(threads, is_tls), ProcessorPrice::of_machine(1, false)],
    };
    let capacity = Capacity::new(volume.disks(), capacity);
    let sessions = Sessions::new(SessionsConfig {
        sessions_max: config.sessions_max,
        idle_max_ns: u64::try_from(config.session_idle.as_nanos()).unwrap_or(u64::MAX),
        capacities: config.promise.admission.then(|| capacity.capacities()),
        classes: capacity.classes().clone(),
        start_wait_s: config.promise.start_wait_s,
    });
    let sessions = Arc::new(sessions.reading(&units));
    let play = Arc::new(PlayCounters::new(&[("http", threads), ("programs", 1)]));
    let uplink = config.promise.network_bps.map_or_else(Uplink::of_unknown_rate, Uplink::new);
    let (openers, opener_threads) =
        Workers::start("reel-open", OPENERS, OPENINGS_MAX).map_err(ServeError::Thread)?;
    let opener = Opener::new(titles, Arc::clone(&sessions), units.disks().clone(), Arc::clone(&play));
    Ok((Common { units, opener, openers, sessions, play, uplink }, capacity, opener_threads))
}

/// The metrics of the shared parts.
fn registry(library: &Arc<Library>, common: &Common) -> MetricsRegistry {
    let (metrics, volume) = (MetricsRegistry::default(), library.volume());
    metrics.register(Arc::new(VolumeMetrics(Arc::clone(volume))));
    metrics.register(Arc::new(DiskMetrics(volume.disks().clone())));
    metrics.register(Arc::new(TitleMetrics(Arc::clone(library))));
    metrics.register(Arc::new(ArenaMetrics(volume.arena().clone())));
    metrics.register(Arc::new(PlayMetrics {
        counters: Arc::clone(&common.play),
        units: common.units.clone(),
        sessions: Arc::clone(&common.sessions),
        uplink: common.uplink.clone(),
    }));
    metrics
}

/// The control plane with the parts that it controls.
fn control_plane(
    config: ControlConfig,
    library: &Arc<Library>,
    common: &Common,
    capacity: &Capacity,
    metrics: MetricsRegistry,
) -> ControlPlane {
    let volume = library.volume();
    let admission = Arc::new(ServerAdmission {
        sessions: Arc::clone(&common.sessions),
        counters: Arc::clone(&common.play),
        units: common.units.clone(),
        capacities: capacity.capacities(),
        geometry: *volume.geometry(),
    });
    metrics.register(admission.clone());
    let services = Services {
        library: Arc::clone(library) as _,
        sessions: Arc::new(ServerSessions { opener: common.opener.clone() }),
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

impl Listening {
    fn new(config: &ServeConfig) -> Result<Self, ServeError> {
        let (listener, address) = listen(config.listen)?;
        let mut listening = Self {
            sockets: vec![(listener, Transport::Plain)],
            address,
            tls_address: None,
            certificates: None,
        };
        if let Some(tls) = &config.tls {
            listening.certificates = Some(Arc::new(Certificates::load(tls.files.clone(), tls.http2)?));
            let (listener, address) = listen(tls.listen)?;
            listening.sockets.push((listener, Transport::Tls));
            listening.tls_address = Some(address);
        }
        Ok(listening)
    }
}

/// The socket of programs, and the memory that they map.
struct ProgramSocket {
    listener: OwnedFd,
    path: PathBuf,
    arena: ArenaMap,
    window_buffers: usize,
}

impl ProgramSocket {
    fn front_end(self, common: &Common, counters: Arc<LocalCounters>) -> LocalFrontEnd {
        LocalFrontEnd {
            sessions: Arc::clone(&common.sessions),
            play: Arc::clone(&common.play),
            front_end: PROGRAMS,
            counters,
            opener: common.opener.clone(),
            openers: common.openers.clone(),
            arena: self.arena,
            window_buffers: self.window_buffers,
            listener: Arc::new(self.listener),
            path: self.path,
        }
    }
}

fn listen_for_programs(path: PathBuf, volume: &Volume) -> Result<ProgramSocket, ServeError> {
    let failed = |path: &Path, source| ServeError::Programs { path: path.to_owned(), source };
    let arena = ArenaMap::new(volume.arena().clone())
        .ok_or_else(|| failed(&path, io::Error::other("media memory cannot be mapped by others")))?;
    let listener = reel_client::listen(&path).map_err(|error| failed(&path, error))?;
    // A window of pictures, and the units that a few seconds of sound touch.
    let window_buffers = READER_STRIPES_MAX * volume.geometry().data_rows() + 4;
    Ok(ProgramSocket { listener, path, arena, window_buffers })
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
