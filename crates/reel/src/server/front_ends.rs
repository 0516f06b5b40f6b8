//! The front ends of a server: a list that is bound, started, watched and stopped as one.

use super::nfs::NfsSocket;
use super::{ServeConfig, ServeError, processors};
use reel_cache::limits::READER_STRIPES_MAX;
use reel_cast::{CastFrontEnd, CastMetrics, Casts};
use reel_http::limits::LISTEN_BACKLOG;
use reel_http::{
    Certificates, HandoverTo, HttpConfig, HttpCounters, HttpFrontEnd, HttpMetrics, HttpParts, Transport,
};
use reel_library::Library;
use reel_local::{ArenaMap, LocalCounters, LocalFrontEnd, LocalMetrics};
use reel_metrics::MetricsRegistry;
use reel_play::{MemoryPlan, ProcessorPrice};
use reel_rt::RtError;
use reel_serve::{FrontEnd, OpenConnections, Parts};
use reel_volume::Volume;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The running front ends.
pub(super) struct FrontEnds(Vec<Box<dyn FrontEnd>>);

/// The sockets of the front ends of a server that is to start.
pub(super) struct Sockets {
    pub(super) address: SocketAddr,
    pub(super) tls_address: Option<SocketAddr>,
    pub(super) certificates: Option<Arc<Certificates>>,
    http: Vec<(TcpListener, Transport)>,
    programs: Option<ProgramSocket>,
    nfs: Option<NfsSocket>,
}

/// What a front end is for admission and metrics.
pub(super) struct FrontEndPlan {
    pub(super) name: &'static str,
    pub(super) threads: usize,
    pub(super) price: ProcessorPrice,
}

/// The place of each front end in [`Sockets::plan`]. Admission counts with the time of the threads
/// of the first.
pub(super) const HTTP: usize = 0;
pub(super) const CASTS: usize = 1;
/// The names of those that a server may do without. Their places depend on which there are.
const PROGRAMS: &str = "programs";
const NFS: &str = "nfs";

/// The socket of programs, and the memory that they map.
struct ProgramSocket {
    listener: OwnedFd,
    path: PathBuf,
    arena: ArenaMap,
    window_buffers: usize,
}

impl FrontEnds {
    /// Whether all threads of all front ends are running.
    pub(super) fn is_whole(&self) -> bool {
        self.0.iter().all(|front_end| front_end.is_whole())
    }

    /// Lets current responses finish, then stops the threads and waits for them. When it returns,
    /// the front ends hold no reference to the volume.
    ///
    /// # Errors
    /// A thread failed.
    pub(super) fn drain(self) -> Result<(), RtError> {
        self.0.iter().for_each(|front_end| front_end.stop());
        let ended: Vec<_> = self.0.into_iter().map(FrontEnd::join).collect();
        ended.into_iter().collect()
    }
}

impl Sockets {
    /// Binds what the front ends of `config` listen on.
    ///
    /// # Errors
    /// An address, a certificate or the socket of programs cannot be used.
    pub(super) fn bind(config: &ServeConfig, volume: &Volume) -> Result<Self, ServeError> {
        let (listener, address) = listen(config.listen)?;
        let mut sockets = Self {
            address,
            tls_address: None,
            certificates: None,
            http: vec![(listener, Transport::Plain)],
            programs: None,
            nfs: config.nfs.as_ref().map(NfsSocket::bind).transpose()?,
        };
        if let Some(tls) = &config.tls {
            sockets.certificates = Some(Arc::new(Certificates::load(tls.files.clone(), tls.http2)?));
            let (listener, address) = listen(tls.listen)?;
            sockets.http.push((listener, Transport::Tls));
            sockets.tls_address = Some(address);
        }
        sockets.programs =
            config.programs.clone().map(|path| listen_for_programs(path, volume)).transpose()?;
        Ok(sockets)
    }

    /// All front ends, of which HTTP has so many threads.
    pub(super) fn plan(&self, threads: usize) -> Vec<FrontEndPlan> {
        let price = ProcessorPrice::assumed(threads, processors(), self.certificates.is_some());
        let of_one_thread = || ProcessorPrice::assumed(1, processors(), false);
        let casts = FrontEndPlan { name: "casts", threads: 1, price: of_one_thread() };
        let mut plan = vec![FrontEndPlan { name: "http", threads, price }, casts];
        let others = [(PROGRAMS, self.programs.is_some()), (NFS, self.nfs.is_some())];
        for (name, _) in others.into_iter().filter(|(_, is_wanted)| *is_wanted) {
            plan.push(FrontEndPlan { name, threads: 1, price: of_one_thread() });
        }
        plan
    }

    /// The address of NFS.
    pub(super) fn nfs_address(&self) -> Option<SocketAddr> {
        self.nfs.as_ref().map(NfsSocket::address)
    }

    /// Starts the front ends. HTTP is the last one, because health is asked for there.
    ///
    /// # Errors
    /// The system gives no thread or no ring.
    pub(super) fn start(
        self,
        config: &ServeConfig,
        (plan, library): (&MemoryPlan, &Arc<Library>),
        (parts, casts): (&Parts, &Casts),
        metrics: &MetricsRegistry,
        handover: HandoverTo,
    ) -> Result<FrontEnds, RtError> {
        metrics.register(Arc::new(CastMetrics(casts.clone())));
        let real_time_priority = config.real_time_priority;
        let cast = CastFrontEnd { casts: casts.clone(), front_end: CASTS, real_time_priority };
        let mut front_ends: Vec<Box<dyn FrontEnd>> = vec![Box::new(cast.start(parts, config.driver)?)];
        if let Some(socket) = self.programs {
            let counters = Arc::new(LocalCounters::default());
            metrics.register(Arc::new(LocalMetrics(Arc::clone(&counters))));
            let front_end = socket.front_end(parts.play.place_of(PROGRAMS), counters);
            front_ends.push(Box::new(front_end.start(parts, config.driver)?));
        }
        let shares = config.control.shares.clone().exempting(&config.control.proxies);
        if let Some(socket) = self.nfs {
            let shares = config.control.shares.clone();
            let place = (parts.play.place_of(NFS), real_time_priority);
            front_ends.push(Box::new(socket.start(
                place,
                (parts, library),
                shares,
                metrics,
                config.driver,
            )?));
        }
        let threads = parts.play.front_ends[HTTP].threads_ns.len();
        let open = OpenConnections::new(threads, config.connections_max, shares);
        let counters = Arc::new(HttpCounters::default());
        metrics.register(Arc::new(HttpMetrics { counters: Arc::clone(&counters), open: Arc::clone(&open) }));
        let proxies = config.control.proxies.clone();
        let arena = library.volume().arena().clone();
        let http = HttpParts { arena, counters, open, handover, proxies };
        let config = http_config(config, threads, plan, self.certificates.as_ref());
        front_ends.push(Box::new(HttpFrontEnd::start(config, self.http, parts, http)?));
        Ok(FrontEnds(front_ends))
    }
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
        front_end: HTTP,
        access_log: config.access_log,
        lent_buffers: plan.lent,
        congestion_control: config.congestion_control.clone(),
        handshakes_max: config.tls.as_ref().map_or(0, |tls| tls.handshakes_max),
        tls: certificates.map(|certificates| (certificates.acceptor().clone(), plan.scratch_per_core)),
    }
}

pub(super) fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    // A burst of players must not fill the standard backlog of 128.
    rustix::net::listen(&listener, LISTEN_BACKLOG).map_err(|error| failed(error.into()))?;
    // With port 0 the system chooses.
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

impl ProgramSocket {
    fn front_end(self, front_end: usize, counters: Arc<LocalCounters>) -> LocalFrontEnd {
        LocalFrontEnd {
            front_end,
            counters,
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
