//! A whole server: the only module that assembles all of its parts.

mod cast_plans;
pub mod casts;
mod front_ends;
mod guarded;
mod housekeeping;
mod http;
mod joins;
mod kept_sessions;
mod lanes;
mod machine_time;
mod members;
mod nfs;
mod programs;

use casts::{CASTS, ServerCasts, begin_configured};
use front_ends::{Addresses, BoundFrontEnds, FrontEndPlan, FrontEnds, Starting};
use housekeeping::Housekeeping;
pub use joins::JoinConfig;
use joins::{ServerOutlets, joins_beside, targets};
use kept_sessions::SessionKeeper;
use lanes::{Runtimes, lanes};
use machine_time::machine_time;
use members::MemberWatch;
pub use nfs::NfsConfig;

use reel_admit::limits::{CLIENT_SHARE_PERMILLE, START_WAIT_S};
use reel_admit::{AddressRange, Sessions, SessionsConfig};
use reel_api::{
    ArenaMetrics, ControlConfig, ControlPlane, ControlUplink, DiskMetrics, ServerAdmission, ServerSessions,
    ServerVolumeJobs, Services, VolumeMetrics, Watching, watch_directory,
};
use reel_cache::Units;
use reel_cast::{CastConfig, CastParts, Casts};
use reel_disk::Disks;
use reel_http::limits::CERTIFICATE_LOOK_S;
use reel_http::{CertificateError, CertificateFiles, Certificates, is_media};
use reel_join::{DirectoryError, Joins};
use reel_library::Library;
use reel_metrics::MetricsRegistry;
use reel_play::{
    Capacity, CapacityConfig, Housekeeper, MemoryPlan, MemoryUse, PlayCounters, PlayMetrics, PlayableTitle,
    TitleMetrics, TransferPause, Uplink, UplinkRate,
};
use reel_pour::{PourMetrics, Pours};
use reel_qos::ClientShare;
use reel_qos::limits::ROUND_NS;
use reel_ring::DriverChoice;
use reel_rt::{RtError, Workers};
use reel_serve::limits::{OPENERS, OPENERS_AHEAD, OPENINGS_MAX, WRITERS, WRITINGS_MAX};
use reel_serve::{ClassRights, Opener, Parts, Titles};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
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
    /// The most packets of a train of a cast; `None` for all that are due within 10 ms.
    pub cast_train_packets: Option<NonZeroU64>,
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
    /// Where the open sessions are written, so that the next server can open them again; `None` if
    /// they end with this one.
    pub sessions_file: Option<PathBuf>,
    /// The clients that may ask for each class.
    pub class_rights: ClassRights,
    /// Whether the key of a session is only for the address that opened it.
    pub binds_sessions: bool,
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
    /// Where titles are read by NFS.
    pub nfs: Option<NfsConfig>,
    /// Where sessions may be played to.
    pub join: JoinConfig,
    /// Titles that are sent to groups as long as the server runs.
    pub casts: Vec<CastConfig>,
    /// How long responses, uploads and streams may take to end after [`Server::stop`].
    pub drain_time: Duration,
    /// The clock by which housekeeping ends reservations of clients that pause, and measures what
    /// work costs: [`reel_rt::now_ns`], or one that stands where a test must not depend on how busy
    /// the machine is.
    pub housekeeping_clock: fn() -> u64,
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
    /// Handshakes of one thread that are under way at once.
    pub handshakes_max: usize,
}

/// The settings of admission.
#[derive(Clone, Copy, Debug)]
pub struct PromiseConfig {
    /// Whether sessions are admitted by the ledger. If not, a session is refused only when there is
    /// no memory for sessions, and nothing is reserved.
    pub admission: bool,
    /// The network's rate towards the clients that admission counts with, in bits per second.
    /// `None` if it is unknown and never the bottleneck.
    pub network_bps: Option<u64>,
    /// How fast other machines may be sent to.
    pub uplink: UplinkRate,
    /// For how many seconds a start or a seek waits for room before it is refused.
    pub start_wait_s: u64,
    /// How much of what is promised one client may hold.
    pub client_share: ClientShare,
}

impl Default for PromiseConfig {
    fn default() -> Self {
        let client_share = ClientShare::permille(CLIENT_SHARE_PERMILLE);
        Self {
            admission: true,
            network_bps: None,
            uplink: UplinkRate::Learnt,
            start_wait_s: START_WAIT_S,
            client_share,
        }
    }
}

/// What listens on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// HTTP.
    Http,
    /// HTTP in TLS.
    Tls,
    /// NFS.
    Nfs,
    /// The port mapper, at its own port.
    PortMapper,
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
        /// What was to listen there.
        of: Listener,
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
    /// Sessions cannot be played into files of this directory.
    #[error("cannot use {} for files of joins: {source}", path.display())]
    Join {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: DirectoryError,
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
    addresses: Addresses,
    front_ends: FrontEnds,
    housekeeping: Housekeeping,
    keeper: Option<SessionKeeper>,
    members: MemberWatch,
    openers: Vec<JoinHandle<()>>,
    control: ControlPlane,
    runtimes: Runtimes,
    disks: Disks,
    drain_time: Duration,
    /// Whether what all threads share is as it should be.
    is_sound: Box<dyn Fn() -> bool + Send + Sync>,
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
        let threads = match config.serve_threads {
            0 => processors(),
            threads => threads,
        };
        let (hand_over, arriving) = lanes(config.control.shares.clone().exempting(&config.control.proxies));
        let targets = targets(&config.join)?;
        let with_joins = targets.are_any();
        let (bound, addresses) = BoundFrontEnds::bind(&config, &library, (threads, with_joins), hand_over)?;
        let front_ends = bound.plan();
        let plan = memory_plan(&config, &library, &front_ends, addresses.tls.is_some());
        let (parts, capacity, openers) = parts(&config, &library, &plan, front_ends)?;
        let runtimes = Runtimes::start()?;
        let runtime = runtimes.control();
        let casts = casts(&library, &parts, addresses.http, config.cast_train_packets);
        let pours = Pours::default();
        let joins = joins_beside(&casts, &parts, targets, &pours);
        let services = services(&library, &parts, &capacity, (&casts, &joins, &pours));
        let control = control_plane(config.control.clone(), services, registry(&library, &parts));
        runtimes.answer(arriving, &control);
        if let Some(certificates) = &addresses.certificates {
            control.metrics().register(Arc::clone(certificates) as _);
            runtime.spawn(poll_certificates(Arc::clone(certificates)));
        }
        let watching = config.watch.as_ref().map(|path| watch(path, &control, runtime)).transpose()?;
        let housekeeper = housekeeper(&parts, volume.disks(), capacity);
        let housekeeping = Housekeeping::start(housekeeper, config.housekeeping_clock)?;
        let keeper = match &config.sessions_file {
            Some(path) => Some(keep_sessions(path, &parts, &config)?),
            None => None,
        };
        let (plan, metrics) = (&plan, control.metrics());
        metrics.register(Arc::new(PourMetrics(pours.clone())));
        let starting = Starting {
            config: &config,
            plan,
            library: &library,
            parts: &parts,
            casts: &casts,
            joins: &joins,
            pours: &pours,
            metrics,
        };
        let front_ends = bound.start(&starting)?;
        runtime.spawn(begin_configured(casts, config.casts.clone()));
        // The runtime starts last, because it ends only after the work that blocks in it. A server
        // that cannot start must report that at once, and not after a rebuild.
        {
            let _tokio = runtime.enter();
            control.resume_rebuild();
        }
        open_ahead(&library, parts.opener.titles(), &control, runtime);
        Ok(Self {
            addresses,
            front_ends,
            housekeeping,
            keeper,
            members: MemberWatch::start(volume)?,
            openers,
            control,
            runtimes,
            disks: volume.disks().clone(),
            drain_time: config.drain_time,
            is_sound: soundness(&parts),
            _watching: watching,
        })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.addresses.http
    }

    /// The address on which it serves TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.addresses.tls
    }

    /// The address on which titles are read by NFS.
    pub fn nfs_address(&self) -> Option<SocketAddr> {
        self.addresses.nfs
    }

    /// Whether every thread that viewers need is running, and what they share is as it should be. A
    /// thread that ended, because there is no ring for it or because it panicked too often, has
    /// logged the reason. The other threads cannot keep its reservations.
    pub fn is_whole(&self) -> bool {
        self.front_ends.is_whole()
            && self.housekeeping.is_alive()
            && self.disks.is_whole()
            && (self.is_sound)()
            && !self.openers.iter().any(JoinHandle::is_finished)
    }

    /// Reads the certificate and its key again; `None` if the server has none.
    pub fn reload_certificates(&self) -> Option<bool> {
        Some(self.addresses.certificates.as_ref()?.reload())
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
        let until = Instant::now() + self.drain_time;
        control.drain();
        let drained = self.front_ends.drain();
        if let Some(keeper) = self.keeper {
            keeper.stop();
        }
        self.housekeeping.stop();
        self.members.stop();
        for thread in self.openers {
            // A panic of a thread was logged when it happened.
            let _ = thread.join();
        }
        let end = self.runtimes.block_on(async {
            // Work that is not finished by then is told to end, and has time to answer.
            let is_idle = timeout_at(until.into(), control.drained()).await.is_ok();
            control.stop();
            let end = Instant::now() + CONTROL_STOP_TIME;
            if !is_idle {
                let _ = timeout_at(end.into(), control.drained()).await;
            }
            end
        });
        self.runtimes.shutdown_timeout(end.saturating_duration_since(Instant::now()));
        Ok(drained?)
    }
}

/// The processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The time that control requests and threads have to end after the limit for work under way. All
/// of it together is less than the 14.5 s after which the program ends in any case.
const CONTROL_STOP_TIME: Duration = Duration::from_secs(3);

fn memory_plan(
    config: &ServeConfig,
    library: &Library,
    front_ends: &[FrontEndPlan],
    is_tls: bool,
) -> MemoryPlan {
    let volume = library.volume();
    MemoryPlan::of(&MemoryUse {
        buffers: volume.arena().usage().buffers_total,
        width: volume.geometry().width(),
        serve_threads: front_ends.iter().map(|front_end| front_end.threads).sum(),
        sealing_threads: front_ends.iter().map(|front_end| front_end.sealing_threads).sum(),
        ingests: config.control.ingests_max,
        is_tls,
        driver: config.driver,
        zero_copy: config.zero_copy,
    })
}

/// Opens the sessions of the last server again, before newcomers come, and keeps those of this one.
fn keep_sessions(path: &Path, parts: &Parts, config: &ServeConfig) -> Result<SessionKeeper, ServeError> {
    let classes = parts.units.disks().classes();
    kept_sessions::resume(path, &parts.opener, &classes, config.session_idle);
    SessionKeeper::start(path.to_owned(), parts.opener.clone(), classes)
}

fn watch(path: &Path, control: &ControlPlane, runtime: &Handle) -> Result<Watching, ServeError> {
    watch_directory(control.clone(), path, runtime.clone())
        .map_err(|source| ServeError::Watch { path: path.to_owned(), source })
}

/// What housekeeping works on.
fn housekeeper(parts: &Parts, disks: &Disks, capacity: Capacity) -> Housekeeper<PlayableTitle> {
    Housekeeper {
        sessions: Arc::clone(&parts.sessions),
        disks: disks.clone(),
        uplink: Arc::clone(&parts.uplink),
        capacity,
        counters: Arc::clone(&parts.play),
        pause: TransferPause::default(),
        machine_time,
    }
}

/// The parts that all front ends use, the capacity that housekeeping measures, and the threads that
/// open titles.
fn parts(
    config: &ServeConfig,
    library: &Arc<Library>,
    plan: &MemoryPlan,
    front_ends: Vec<FrontEndPlan>,
) -> Result<(Parts, Capacity, Vec<JoinHandle<()>>), ServeError> {
    let volume = library.volume();
    let names: Vec<_> = front_ends.iter().map(|front_end| (front_end.name, front_end.threads)).collect();
    let play = Arc::new(PlayCounters::new(&names));
    // The price of a front end with fewer threads is as much higher.
    let threads_most = front_ends.iter().map(|front_end| front_end.threads).max().unwrap_or(1);
    let (arena, disks) = (volume.arena().clone(), volume.disks().clone());
    let others = arena.usage().buffers_total - plan.readers;
    let units = Units::new(arena, disks, volume.health().clone(), others);
    let titles = Arc::new(Titles::new(Arc::clone(library), units.depth()));
    let is_local = |(place, front_end): (usize, &FrontEndPlan)| front_end.is_local.then_some(place);
    let local_front_ends = front_ends.iter().enumerate().filter_map(is_local).collect();
    let capacity = CapacityConfig {
        core_ns: ROUND_NS * threads_most as u64,
        arena_bytes: units.budget().promisable() as u64 * units.buffer_bytes(),
        network_bps: config.promise.network_bps,
        processors: front_ends.into_iter().map(|front_end| front_end.price).collect(),
        local_front_ends,
    };
    let capacity = Capacity::new(volume.disks(), capacity);
    let sessions = Sessions::new(SessionsConfig {
        sessions_max: config.sessions_max,
        idle_max_ns: u64::try_from(config.session_idle.as_nanos()).unwrap_or(u64::MAX),
        capacities: config.promise.admission.then(|| capacity.capacities()),
        classes: capacity.classes().clone(),
        start_wait_s: config.promise.start_wait_s,
        client_share: config.promise.client_share,
    });
    let sessions = Arc::new(sessions.for_gateways(config.gateways.clone()).reading(&units));
    let uplink = Uplink::of(config.promise.uplink);
    let (openers, mut threads) =
        Workers::start("reel-open", OPENERS, OPENINGS_MAX).map_err(ServeError::Thread)?;
    let (writers, writer_threads) =
        Workers::start("reel-write", WRITERS, WRITINGS_MAX).map_err(ServeError::Thread)?;
    threads.extend(writer_threads);
    let opener = Opener::new(titles, Arc::clone(&sessions), units.disks().clone(), Arc::clone(&play));
    let opener = opener.with_rights(config.class_rights.clone()).binding_clients(config.binds_sessions);
    let drain_time_ns = u64::try_from(config.drain_time.as_nanos()).unwrap_or(u64::MAX);
    let parts = Parts { units, opener, openers, writers, sessions, play, uplink, drain_time_ns };
    Ok((parts, capacity, threads))
}

/// Looks at what all threads share. The opening threads end when no parts are left, so these hold
/// none.
fn soundness(parts: &Parts) -> Box<dyn Fn() -> bool + Send + Sync> {
    let (units, sessions, uplink) = (parts.units.clone(), Arc::clone(&parts.sessions), parts.uplink.clone());
    Box::new(move || {
        let is_sound = !units.is_poisoned() && !sessions.is_poisoned() && !uplink.is_poisoned();
        if !is_sound {
            tracing::error!(
                "a thread panicked while it changed what all threads share; the server cannot rely on its reservations any more"
            );
        }
        is_sound
    })
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

/// No casts yet.
fn casts(
    library: &Arc<Library>,
    parts: &Parts,
    http: SocketAddr,
    train_packets: Option<NonZeroU64>,
) -> Casts {
    let (library, sessions) = (Arc::clone(library), Arc::clone(&parts.sessions));
    let depth = parts.units.depth();
    let front_end = parts.play.place_of(CASTS);
    Casts::new(CastParts { library, sessions, depth, front_end, http, train_packets })
}

/// The parts that the control plane speaks for.
fn services(
    library: &Arc<Library>,
    parts: &Parts,
    capacity: &Capacity,
    (casts, joins, pours): (&Casts, &Joins, &Pours),
) -> (Services, Arc<ServerAdmission>) {
    let volume = library.volume();
    let admission = Arc::new(ServerAdmission {
        sessions: Arc::clone(&parts.sessions),
        counters: Arc::clone(&parts.play),
        units: parts.units.clone(),
        capacities: capacity.capacities(),
        geometry: *volume.geometry(),
    });
    let services = Services {
        library: Arc::clone(library) as _,
        sessions: Arc::new(ServerSessions { opener: parts.opener.clone(), pours: pours.clone() }),
        admission: Arc::clone(&admission) as _,
        volume_jobs: Arc::new(ServerVolumeJobs(Arc::clone(volume))),
        casts: Arc::new(ServerCasts { casts: casts.clone(), library: Arc::clone(library) }),
        outlets: Arc::new(ServerOutlets(joins.clone())),
        pours: pours.clone(),
        uplink: control_uplink(parts),
        is_media,
    };
    (services, admission)
}

/// The uplink for the control plane.
fn control_uplink(parts: &Parts) -> ControlUplink {
    ControlUplink { gate: parts.uplink_gate(), clock: reel_rt::now_ns }
}

/// The control plane with the parts that it controls.
fn control_plane(
    config: ControlConfig,
    (services, admission): (Services, Arc<ServerAdmission>),
    metrics: MetricsRegistry,
) -> ControlPlane {
    metrics.register(admission);
    ControlPlane::new(config, services, metrics)
}

/// Checks the certificate's files periodically, and never returns.
async fn poll_certificates(certificates: Arc<Certificates>) {
    loop {
        tokio::time::sleep(Duration::from_secs(CERTIFICATE_LOOK_S)).await;
        certificates.poll();
    }
}

/// Opens the newest titles ahead, several at once, because their indexes are on different members.
fn open_ahead(library: &Arc<Library>, all: &Arc<Titles>, control: &ControlPlane, runtime: &Handle) {
    let titles = library.volume().titles();
    let mut ids: Vec<(u64, String)> =
        titles.iter().map(|title| (title.added_unix_s, title.id.clone())).collect();
    ids.sort_unstable();
    let newest = Arc::new(Mutex::new(ids));
    for _ in 0..OPENERS_AHEAD {
        let (library, newest, stop) = (Arc::clone(library), Arc::clone(&newest), control.stop_flag());
        let all = Arc::clone(all);
        runtime.spawn_blocking(move || {
            // The lock is held for one step, which cannot panic.
            let next = || newest.lock().ok().and_then(|mut newest| newest.pop());
            while !stop.is_stopped()
                && let Some((_, id)) = next()
            {
                // The title is not shared before it is complete, so a panic leaves nothing behind.
                match catch_unwind(AssertUnwindSafe(|| library.open_ahead(&id))) {
                    Err(_) => all.panicked(&id),
                    Ok(Ok(true)) => {}
                    Ok(Ok(false)) => return,
                    // A request for the title reports this error. Here the title is one of many.
                    Ok(Err(error)) => tracing::debug!(id, %error, "a title cannot be opened ahead"),
                }
            }
        });
    }
}
