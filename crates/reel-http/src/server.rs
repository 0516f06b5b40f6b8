//! A whole server: one port, the data plane behind it, the control plane beside it.

use crate::certificates::{CertificateError, CertificateFiles, Certificates};
use crate::control::{
    ArenaMetrics, ControlConfig, ControlPlane, DiskMetrics, MetricsPage, MetricsRegistry, MetricsSource,
    Rooms, SessionRefusal, SessionReport, VolumeMetrics, Watching, serve_connection, watch_directory,
};
use crate::data::{
    Capacity, DataConfig, DataCounters, DataPlane, Film, Films, Form, Handover, ProgramCounters,
    ProgramsDoor, RESOURCES, Speaks, open_session,
};
use crate::limits::{
    CORE_MIB_NS, CORE_MIB_TLS_NS, HANDOVERS_MAX, LENT_ARENA_BUFFERS_MIN, LENT_PART, LISTEN_BACKLOG,
    OPENERS_AHEAD, SCRATCH_BUFFERS_PER_CORE, SCRATCH_PART, STRIPES_PER_INGEST,
};
use crate::promised::Promised;
use crate::works::Works;
use reel_disk::Disks;
use reel_library::{Library, LibraryError};
use reel_qos::{AdmitError, Class};
use reel_ring::DriverChoice;
use reel_rt::{RtError, now_ns};
use reel_stream::limits::READER_STRIPES_MAX;
use reel_stream::programs::ArenaMap;
use reel_stream::{OpenRefused, Sessions, SessionsConfig, Units};
use reel_volume::Volume;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::{Receiver, channel};

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
    /// io_uring or the portable driver.
    pub driver: DriverChoice,
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
        let scratch = if certificates.is_some() { scratch_buffers(threads, buffers) } else { 0 };
        let programs = match config.programs {
            None => None,
            Some(path) => Some(door_for_programs(path, volume)?),
        };
        let lent_buffers = lent_buffers(config.driver, buffers);
        let units = Units::new(
            volume.arena().clone(),
            volume.disks().clone(),
            volume.health().clone(),
            lent_buffers
                + threads * scratch
                + spare_buffers(volume.geometry().width(), threads, config.control.ingests_max, buffers),
        );
        let films = Arc::new(Films::new(Arc::clone(&library), units.depth()));
        let idle_max_ns = u64::try_from(config.session_idle.as_nanos()).unwrap_or(u64::MAX);
        let arena_bytes = (units.budget().total() * volume.arena().buffer_bytes()) as u64;
        let core_mib_ns = if certificates.is_some() { CORE_MIB_TLS_NS } else { CORE_MIB_NS };
        let capacity = Capacity::new(
            volume.disks().clone(),
            threads,
            arena_bytes,
            config.promise.network_bps,
            core_mib_ns,
        );
        let sessions = Sessions::new(SessionsConfig {
            sessions_max: config.sessions_max,
            idle_max_ns,
            capacities: config.promise.admission.then(|| capacity.capacities()),
            classes: capacity.classes().clone(),
        });
        let sessions = Arc::new(sessions.before(units.audience()));
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
        let keeper = Arc::new(Keeper {
            sessions: Arc::clone(&sessions),
            films: Arc::clone(&films),
            disks: volume.disks().clone(),
            counters: Arc::clone(&counters),
        });
        let promised = Arc::new(Promised {
            sessions: Arc::clone(&sessions),
            counters: Arc::clone(&counters),
            units: units.clone(),
            capacities: capacity.capacities(),
            geometry: *volume.geometry(),
        });
        metrics.register(promised.clone());
        let rooms = Rooms {
            shelf: Arc::clone(&library) as _,
            sessions: keeper,
            promises: promised,
            work: Arc::new(Works(Arc::clone(volume))),
        };
        let control = ControlPlane::new(config.control, rooms, metrics);
        {
            let _tokio = runtime.enter();
            control.resume_rebuild();
        }
        open_ahead(&library, &control, runtime.handle());
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
            driver: config.driver,
            connections_max: config.connections_max,
            access_log: config.access_log,
            lent_buffers,
            tls: certificates.as_ref().map(|certificates| (certificates.acceptor().clone(), scratch)),
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
        Ok(Self { address, tls_address, certificates, data, control, runtime, _watching: watching })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it speaks TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// Reads the certificate and its key again; `None` if there are none.
    pub fn reload_certificates(&self) -> Option<bool> {
        Some(self.certificates.as_ref()?.reload())
    }

    /// The control plane, for those who want to know of its jobs.
    pub fn control(&self) -> &ControlPlane {
        &self.control
    }

    /// Stops accepting, lets what is under way finish within its limits, and ends all threads.
    pub fn stop(self) -> Result<(), ServeError> {
        self.control.stop();
        let drained = self.data.drain();
        self.runtime.shutdown_timeout(CONTROL_STOP_TIME);
        drained
    }
}

/// How long control requests may take to finish once the data plane has drained.
const CONTROL_STOP_TIME: Duration = Duration::from_secs(5);

/// Buffers for everybody but viewers, of so many in all: the stripes (of `width` units) that ingests have in flight, and one decoding
/// per core.
pub fn spare_buffers(width: usize, threads: usize, ingests: usize, buffers: usize) -> usize {
    let writing = ingests.max(1) * STRIPES_PER_INGEST * width;
    let decoding = threads * width;
    (writing + decoding).min(buffers / 2)
}

/// Buffers that may be lent to the kernel to send from without a copy, of so many in all: none by a driver that copies, or where readers have
/// little.
fn lent_buffers(driver: DriverChoice, buffers: usize) -> usize {
    if driver == DriverChoice::Portable || buffers < LENT_ARENA_BUFFERS_MIN { 0 } else { buffers / LENT_PART }
}

/// Buffers that each of so many cores seals responses in where TLS is spoken, of so many in all.
pub fn scratch_buffers(threads: usize, buffers: usize) -> usize {
    SCRATCH_BUFFERS_PER_CORE.min(buffers / SCRATCH_PART / threads.max(1))
}

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
    let listener = reel_stream::programs::listen(&path).map_err(|error| failed(&path, error))?;
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

/// What is ready to be played at once.
struct TitleMetrics(Arc<Library>);

impl MetricsSource for TitleMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let help = "Titles whose index is in memory, so that their next viewer waits for no disk to begin.";
        page.gauge("reel_titles_open", help, &[], self.0.opened_count() as f64);
    }
}

/// The control plane's view of sessions.
struct Keeper {
    sessions: Arc<Sessions<Film>>,
    films: Arc<Films>,
    disks: Disks,
    counters: Arc<DataCounters>,
}

impl crate::control::Sessions for Keeper {
    fn open(&self, title: &str, client: IpAddr) -> Result<SessionReport, SessionRefusal> {
        let film = self.films.open(title).map_err(|error| match error {
            LibraryError::NoSuchTitle { .. } => SessionRefusal::NoSuchTitle,
            other => SessionRefusal::Failed(other.to_string()),
        })?;
        let classes = self.disks.classes();
        let who = (client, Class::PERIODIC);
        let opened = open_session(&self.sessions, &classes, title, film, Form::Ladder, who);
        let too_long =
            || SessionRefusal::Failed("it is longer than what can be promised ahead, a day".to_owned());
        let session = opened.ok_or_else(too_long)?.map_err(|refused| {
            if let OpenRefused::NotAdmitted(refusal) = &refused {
                self.counters.not_admitted(refusal);
            }
            let retry_after_s = refused.retry_after_s();
            let refusal = match &refused {
                OpenRefused::NotAdmitted(AdmitError::Refused(refusal)) => Some(refusal.clone()),
                _ => None,
            };
            SessionRefusal::Refused { detail: refused.to_string(), retry_after_s, refusal }
        })?;
        Ok(SessionReport {
            key: session.key().to_string(),
            title: title.to_owned(),
            expires_in_s: self.sessions.idle_max_ns() / 1_000_000_000,
        })
    }

    fn list(&self) -> Vec<SessionReport> {
        let idle_max_ns = self.sessions.idle_max_ns();
        let report = |summary: reel_stream::SessionSummary| SessionReport {
            key: summary.key.to_string(),
            title: summary.title_id,
            expires_in_s: idle_max_ns.saturating_sub(summary.idle_ns) / 1_000_000_000,
        };
        self.sessions.list(now_ns()).into_iter().map(report).collect()
    }

    fn close(&self, key: &str) -> bool {
        key.parse().is_ok_and(|key| self.sessions.close(&key))
    }
}

/// Streams for programs on the metrics page.
struct ProgramMetrics(Arc<ProgramCounters>);

impl MetricsSource for ProgramMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Self(counters) = self;
        page.gauge("reel_programs", "Programs connected.", &[], load(&counters.programs) as f64);
        page.gauge("reel_program_streams", "Streams of programs.", &[], load(&counters.streams) as f64);
        for (name, help, counter) in [
            ("reel_program_streams_opened_total", "Streams opened by programs.", &counters.opened),
            ("reel_program_streams_refused_total", "Streams not opened for programs.", &counters.refused),
            (
                "reel_program_streams_cut_total",
                "Streams ended because of what their program did.",
                &counters.cut,
            ),
            ("reel_program_bells_rung_total", "Bells rung for programs that waited.", &counters.rung),
            ("reel_program_bells_heard_total", "Bells rung by programs.", &counters.heard),
            ("reel_program_bytes_total", "Bytes that programs were done with.", &counters.bytes),
        ] {
            page.counter(name, help, &[], load(counter));
        }
    }
}

/// The data plane's counters on the metrics page.
struct DataMetrics {
    counters: Arc<DataCounters>,
    units: Units,
    sessions: Arc<Sessions<Film>>,
}

impl MetricsSource for DataMetrics {
    fn collect(&self, page: &mut MetricsPage) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let data = &self.counters;
        page.counter(
            "reel_http_connections_accepted_total",
            "Connections accepted.",
            &[],
            load(&data.accepted),
        );
        page.counter(
            "reel_http_connections_turned_away_total",
            "Connections closed at once because too many were open.",
            &[],
            load(&data.turned_away),
        );
        page.counter(
            "reel_http_connections_handed_over_total",
            "Connections handed to the control plane.",
            &[],
            load(&data.handed_over),
        );
        page.counter(
            "reel_http_connections_timed_out_total",
            "Connections closed because their client was too slow or silent.",
            &[],
            load(&data.timed_out),
        );
        page.counter("reel_tls_handshakes_total", "TLS handshakes done.", &[], load(&data.handshakes));
        page.counter(
            "reel_tls_failures_total",
            "TLS connections that ended with an error: no TLS, nothing in common, or changed records.",
            &[],
            load(&data.tls_failures),
        );
        page.counter(
            "reel_tls_parked_total",
            "Times that sealed bytes a slow client had not taken were moved out of a buffer that another needed.",
            &[],
            load(&data.parked),
        );
        for (core, open) in data.open.iter().enumerate() {
            let open = open.load(Ordering::Relaxed) as f64;
            page.gauge(
                "reel_http_connections",
                "Open media connections.",
                &[("core", &core.to_string())],
                open,
            );
        }
        for (hundreds, count) in data.responses.iter().enumerate() {
            let status = format!("{}xx", hundreds + 1);
            page.counter(
                "reel_http_media_responses_total",
                "Responses to media requests.",
                &[("status", &status)],
                load(count),
            );
        }
        let help = "Bytes that sockets took, by how: copied; from where they lay (zero_copy); meant to be and copied after all (copied_late).";
        for (how, counter) in [
            ("copied", &data.copied_bytes),
            ("zero_copy", &data.zero_copy_bytes),
            ("copied_late", &data.copied_late_bytes),
        ] {
            page.counter("reel_sent_bytes_total", help, &[("how", how)], load(counter));
        }
        page.counter(
            "reel_zero_copy_refused_total",
            "Sends without a copy that the kernel refused, for want of lockable memory or because the socket's kind has none.",
            &[],
            load(&data.zero_copy_refused),
        );
        page.counter(
            "reel_http_responses_cut_total",
            "Responses cut short because stored bytes are lost.",
            &[],
            load(&data.lost_bytes_responses),
        );
        page.counter(
            "reel_sessions_refused_total",
            "Sessions refused because a table or an address has its fill.",
            &[],
            load(&data.sessions_refused),
        );
        for (resource, count) in RESOURCES.iter().zip(&data.not_admitted) {
            page.counter(
                "reel_refusals_total",
                "Streams whose deadlines could not be promised, by what there was too little of.",
                &[("resource", resource)],
                load(count),
            );
        }
        page.counter(
            "reel_unpromised_total",
            "Responses that went on without a promise after their client was paused.",
            &[],
            load(&data.unpromised),
        );
        page.gauge("reel_sessions", "Open sessions.", &[], self.sessions.len() as f64);
        let stream = self.units.counters();
        for (class, spec) in self.units.disks().classes().iter() {
            let label = [("class", spec.name.as_str())];
            let sent = load(&data.sent_bytes[class.index()]);
            page.counter(
                "reel_http_media_bytes_total",
                "Bytes of media responses taken by clients.",
                &label,
                sent,
            );
            let misses = load(&stream.deadline_misses[class.index()]);
            page.counter(
                "reel_deadline_misses_total",
                "Units that came after their deadline.",
                &label,
                misses,
            );
        }
        page.counter("reel_units_hit_total", "Units found in memory.", &[], load(&stream.hits));
        page.counter(
            "reel_units_joined_total",
            "Units joined while another viewer read them.",
            &[],
            load(&stream.joins),
        );
        page.counter("reel_units_read_total", "Units read from members.", &[], load(&stream.reads));
        page.counter(
            "reel_units_evicted_total",
            "Units let go because their memory was wanted.",
            &[],
            load(&stream.evictions),
        );
        page.counter(
            "reel_units_read_around_total",
            "Units asked of other members because their own did not answer in time.",
            &[],
            load(&stream.read_around),
        );
        page.counter(
            "reel_member_stalls_total",
            "Times a member answered nobody for too long.",
            &[],
            load(&stream.stalled),
        );
        page.counter(
            "reel_reads_promoted_total",
            "Reads under way that somebody more urgent joined.",
            &[],
            load(&stream.promotions),
        );
        page.counter(
            "reel_readers_released_total",
            "Times a slow client's buffers were taken back for others.",
            &[],
            load(&stream.releases),
        );
        let budget = self.units.budget();
        page.gauge("reel_buffers_reserved", "Buffers reserved by readers.", &[], budget.reserved() as f64);
        page.gauge(
            "reel_buffers_reservable",
            "Buffers that readers may reserve.",
            &[],
            budget.total() as f64,
        );
        page.gauge("reel_readers_starved", "Readers waiting for memory.", &[], budget.starved() as f64);
    }
}
