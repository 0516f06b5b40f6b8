//! A whole server: one port, the data plane behind it, the control plane beside it.

use crate::admission_service::ServerAdmission;
use crate::arena_parts::{ArenaParts, ArenaUse};
use crate::certificates::{CertificateError, CertificateFiles, Certificates};
use crate::control::{
    ArenaMetrics, ControlConfig, ControlPlane, DiskMetrics, MetricsRegistry, Services, VolumeMetrics,
    Watching, serve_connection, watch_directory,
};
use crate::data::{
    Capacity, DataConfig, DataCounters, DataPlane, Films, Handover, ProgramCounters, ProgramsDoor, Speaks,
    of_machine,
};
use crate::data_metrics::{DataMetrics, ProgramMetrics, TitleMetrics};
use crate::limits::{DRAIN_TIME_MAX_NS, HANDOVERS_MAX, LISTEN_BACKLOG, OPENERS_AHEAD};
use crate::session_service::ServerSessions;
use crate::volume_jobs::ServerVolumeJobs;
use reel_admit::{Sessions, SessionsConfig};
use reel_cache::Units;
use reel_cache::limits::READER_STRIPES_MAX;
use reel_disk::Disks;
use reel_library::Library;
use reel_local::ArenaMap;
use reel_ring::DriverChoice;
use reel_rt::RtError;
use reel_volume::Volume;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout_at;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where it speaks TLS, and with which certificate.
    pub tls: Option<TlsConfig>,
    /// Threads that serve media; 0 means one for each processor.
    pub serve_threads: usize,
    /// Whether each of them stays on its processor.
    pub pin_threads: bool,
    /// With which priority they run before all ordinary threads (`SCHED_FIFO`), if the kernel permits; 0 means as ordinary ones.
    pub real_time_priority: u8,
    /// io_uring or the portable driver.
    pub driver: DriverChoice,
    /// Whether media memory may be lent to the kernel, to be sent from without a copy where it reports that it makes none.
    pub zero_copy: bool,
    /// Most connections at once.
    pub connections_max: usize,
    /// Most sessions at once.
    pub sessions_max: usize,
    /// A session without a request for this long is forgotten.
    pub session_idle: Duration,
    /// Whether every media request is logged.
    pub access_log: bool,
    /// What is promised.
    pub promise: PromiseConfig,
    /// A directory whose films are taken as they come.
    pub watch: Option<PathBuf>,
    /// A Unix socket for programs on this machine, which then read titles in the server's memory. The volume must have been opened
    /// with memory that others can read.
    pub programs: Option<PathBuf>,
    /// The control plane.
    pub control: ControlConfig,
}

/// How TLS is spoken.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Where.
    pub listen: SocketAddr,
    /// As who.
    pub files: CertificateFiles,
    /// Whether HTTP/2 is offered for pages and API.
    pub http2: bool,
}

/// What is promised to viewers.
#[derive(Clone, Copy, Debug)]
pub struct PromiseConfig {
    /// Whether sessions are admitted by the ledger; if not, nobody is refused for want of anything but memory for sessions, and
    /// nothing is promised.
    pub admission: bool,
    /// The rate of the way out to the viewers, in bits per second; `None` if it is not known and never the bottleneck.
    pub network_bps: Option<u64>,
}

impl Default for PromiseConfig {
    fn default() -> Self {
        Self { admission: true, network_bps: None }
    }
}

/// Why a server did not start, or how it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
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
        /// Why not.
        source: io::Error,
    },
    /// A thread of the data plane failed.
    #[error(transparent)]
    Rt(#[from] RtError),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The directory to watch cannot be read.
    #[error("cannot watch {}: {source}", path.display())]
    Watch {
        /// Which directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    certificates: Option<Arc<Certificates>>,
    data: DataPlane,
    control: ControlPlane,
    runtime: Runtime,
    disks: Disks,
    _watching: Option<Watching>,
}

impl Server {
    /// Starts serving a volume. Returns when connections are accepted.
    pub fn start(config: ServeConfig, library: Arc<Library>) -> Result<Self, ServeError> {
        let (listener, address) = listen(config.listen)?;
        let mut listeners = vec![(listener, Speaks::Plain)];
        let (mut tls_address, mut certificates) = (None, None);
        if let Some(tls) = config.tls {
            certificates = Some(Arc::new(Certificates::load(tls.files, tls.http2)?));
            let (listener, address) = listen(tls.listen)?;
            listeners.push((listener, Speaks::Tls));
            tls_address = Some(address);
        }
        let threads = match config.serve_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let volume = library.volume();
        let buffers = volume.arena().usage().buffers_total;
        let parts = ArenaParts::of(&ArenaUse {
            buffers,
            width: volume.geometry().width(),
            serve_threads: threads,
            ingests: config.control.ingests_max,
            is_tls: certificates.is_some(),
            driver: config.driver,
            zero_copy: config.zero_copy,
        });
        let programs = match config.programs {
            None => None,
            Some(path) => Some(door_for_programs(path, volume)?),
        };
        let units = Units::new(
            volume.arena().clone(),
            volume.disks().clone(),
            volume.health().clone(),
            buffers - parts.readers,
        );
        let films = Arc::new(Films::new(Arc::clone(&library), units.depth()));
        let idle_max_ns = u64::try_from(config.session_idle.as_nanos()).unwrap_or(u64::MAX);
        let arena_bytes = units.budget().promisable() as u64 * units.buffer_bytes();
        let capacity = Capacity::new(
            volume.disks().clone(),
            threads,
            arena_bytes,
            config.promise.network_bps,
            of_machine(threads, certificates.is_some()),
        );
        let sessions = Sessions::new(SessionsConfig {
            sessions_max: config.sessions_max,
            idle_max_ns,
            capacities: config.promise.admission.then(|| capacity.capacities()),
            classes: capacity.classes().clone(),
        });
        let sessions = Arc::new(sessions.reading(&units));
        let counters = Arc::new(DataCounters::new(threads));
        let metrics = MetricsRegistry::default();
        metrics.register(Arc::new(VolumeMetrics(Arc::clone(volume))));
        metrics.register(Arc::new(DiskMetrics(volume.disks().clone())));
        metrics.register(Arc::new(TitleMetrics(Arc::clone(&library))));
        metrics.register(Arc::new(ArenaMetrics(volume.arena().clone())));
        metrics.register(Arc::new(DataMetrics {
            counters: Arc::clone(&counters),
            units: units.clone(),
            sessions: Arc::clone(&sessions),
        }));
        if let Some(programs) = &programs {
            metrics.register(Arc::new(ProgramMetrics(Arc::clone(&programs.counters))));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("reel-control")
            .enable_all()
            .build()
            .map_err(ServeError::Thread)?;
        let session_service = Arc::new(ServerSessions {
            sessions: Arc::clone(&sessions),
            films: Arc::clone(&films),
            disks: volume.disks().clone(),
            counters: Arc::clone(&counters),
        });
        let admission = Arc::new(ServerAdmission {
            sessions: Arc::clone(&sessions),
            counters: Arc::clone(&counters),
            units: units.clone(),
            capacities: capacity.capacities(),
            geometry: *volume.geometry(),
        });
        metrics.register(admission.clone());
        let services = Services {
            library: Arc::clone(&library) as _,
            sessions: session_service,
            admission,
            volume_jobs: Arc::new(ServerVolumeJobs(Arc::clone(volume))),
            is_media: crate::data::is_media,
        };
        let control = ControlPlane::new(config.control, services, metrics);
        let (handover, handed_over) = channel(HANDOVERS_MAX);
        runtime.spawn(take_over(handed_over, control.clone()));
        if let Some(certificates) = &certificates {
            control.metrics().register(Arc::clone(certificates) as _);
            let certificates = Arc::clone(certificates);
            runtime.spawn(async move { certificates.look_after().await });
        }
        let watching = match config.watch {
            None => None,
            Some(path) => {
                let watching = watch_directory(control.clone(), &path, runtime.handle().clone());
                Some(watching.map_err(|source| ServeError::Watch { path, source })?)
            }
        };
        let data_config = DataConfig {
            threads,
            pin: config.pin_threads,
            real_time_priority: config.real_time_priority,
            driver: config.driver,
            connections_max: config.connections_max,
            access_log: config.access_log,
            lent_buffers: parts.lent,
            tls: certificates
                .as_ref()
                .map(|certificates| (certificates.acceptor().clone(), parts.scratch_per_core)),
            programs,
        };
        let data = DataPlane::start(
            data_config,
            listeners,
            &units,
            volume.arena(),
            &films,
            sessions,
            counters,
            handover,
            capacity,
        )?;
        // Last, since a runtime ends after what blocks in it: who cannot start must say so at once, and not when a rebuild is done.
        {
            let _tokio = runtime.enter();
            control.resume_rebuild();
        }
        open_ahead(&library, &control, runtime.handle());
        Ok(Self {
            address,
            tls_address,
            certificates,
            data,
            control,
            runtime,
            disks: volume.disks().clone(),
            _watching: watching,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it speaks TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// Whether every thread that viewers need still runs. One that has ended, for want of its ring, has said why in the log; what it had promised
    /// cannot be kept by the others.
    pub fn is_whole(&self) -> bool {
        self.data.is_whole() && self.disks.is_whole()
    }

    /// Reads the certificate and its key again; `None` if there are none.
    pub fn reload_certificates(&self) -> Option<bool> {
        Some(self.certificates.as_ref()?.reload())
    }

    /// The control plane, for those who want to know of its jobs.
    pub fn control(&self) -> &ControlPlane {
        &self.control
    }

    /// Stops accepting, lets what is under way (responses, uploads and their ingests) finish within its limits, and ends all threads.
    pub fn stop(self) -> Result<(), ServeError> {
        let control = &self.control;
        let until = Instant::now() + Duration::from_nanos(DRAIN_TIME_MAX_NS);
        control.drain();
        let drained = self.data.drain();
        let end = self.runtime.block_on(async {
            // Who is not done by then is told so, and given the time to hear it.
            let is_idle = timeout_at(until.into(), control.drained()).await.is_ok();
            control.stop();
            let end = Instant::now() + CONTROL_STOP_TIME;
            if !is_idle {
                let _ = timeout_at(end.into(), control.drained()).await;
            }
            end
        });
        self.runtime.shutdown_timeout(end.saturating_duration_since(Instant::now()));
        drained
    }
}

/// How long control requests may take to hear of the end, and threads to come to it, once there is no more time for what was under way.
const CONTROL_STOP_TIME: Duration = Duration::from_secs(5);

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    // A burst of players must not find the standard backlog of 128 full.
    rustix::net::listen(&listener, LISTEN_BACKLOG).map_err(|error| failed(error.into()))?;
    // With port 0 the system chooses.
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// The socket that programs connect to, and the memory that they read.
fn door_for_programs(path: PathBuf, volume: &Volume) -> Result<ProgramsDoor, ServeError> {
    let failed = |path: &Path, source| ServeError::Programs { path: path.to_owned(), source };
    let arena = ArenaMap::new(volume.arena().clone())
        .ok_or_else(|| failed(&path, io::Error::other("media memory cannot be mapped by others")))?;
    let listener = reel_client::listen(&path).map_err(|error| failed(&path, error))?;
    // A window of pictures, and the units that some seconds of sound touch.
    let window_buffers = READER_STRIPES_MAX * volume.geometry().data_rows() + 4;
    let counters = Arc::new(ProgramCounters::default());
    Ok(ProgramsDoor { listener, path, arena, window_buffers, counters })
}

/// Opens the newest titles before anybody asks for them, several at once, for they lie on different members.
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
                    // Whoever asks for it is told; here it is one of many.
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
