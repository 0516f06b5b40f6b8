//! The data plane: pinned threads that serve media, one ring each.

mod access_log;
mod capacity;
mod connection;
mod counters;
mod date;
mod film;
mod offers;
mod opener;
mod processor;
mod programs;
mod range;
mod request;
mod response;
mod route;
mod scratch;
mod secure;
mod service;
mod slots;
mod terms;
mod zero_copy;

pub(crate) use capacity::Capacity;
pub use counters::DataCounters;
pub(crate) use counters::RESOURCES;
pub(crate) use film::{Film, Films};
pub(crate) use offers::Form;
pub use offers::title_demand;
pub use processor::core_mib_ns;
pub(crate) use processor::of_machine;
pub(crate) use programs::{ProgramCounters, ProgramsShared};
pub(crate) use terms::open_session;

use access_log::AccessLog;
use opener::{Opened, Opener};
use programs::Programs;
use reel_admit::Sessions;
use reel_arena::Arena;
use reel_cache::{Deliver, Fetched, Fetcher, Units};
use reel_disk::{DiskDone, Reply};
use reel_local::ArenaMap;
use reel_ring::{DriverChoice, RingConfig};
use reel_rt::{CoreConfig, CoreHandle, Mailbox, real_time};
use reel_tls::Acceptor;
use scratch::Scratch;
use service::{Data, Door, Shared};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::ServeError;

/// Whether the data plane alone answers requests for this path.
pub(crate) fn is_media(path: &str) -> bool {
    route::Route::of(path) != route::Route::Elsewhere
}

/// How the data plane is set up.
pub(crate) struct DataConfig {
    pub(crate) threads: usize,
    pub(crate) pin: bool,
    /// Of `SCHED_FIFO`; 0 for ordinary threads.
    pub(crate) real_time_priority: u8,
    pub(crate) driver: DriverChoice,
    pub(crate) connections_max: usize,
    pub(crate) access_log: bool,
    /// Buffers of the arena that may be lent to the kernel at once, to be sent from without a copy.
    pub(crate) lent_buffers: usize,
    /// Set if TLS is spoken: with whom, and how many buffers each core seals in.
    pub(crate) tls: Option<(Acceptor, usize)>,
    /// Where programs connect, if they may.
    pub(crate) programs: Option<ProgramsDoor>,
}

/// The socket of programs, and what they are given.
pub(crate) struct ProgramsDoor {
    pub(crate) listener: OwnedFd,
    pub(crate) path: PathBuf,
    pub(crate) arena: ArenaMap,
    /// Buffers that the window of one stream takes.
    pub(crate) window_buffers: usize,
    pub(crate) counters: Arc<ProgramCounters>,
}

/// A connection on its way to the control plane, with the bytes already read from it.
pub(crate) struct Handover {
    pub(crate) stream: TcpStream,
    /// Its keys, if it speaks TLS; what was read is opened already.
    pub(crate) tls: Option<Box<reel_tls::Connection>>,
    pub(crate) already_read: Vec<u8>,
    pub(crate) peer: SocketAddr,
}

/// What a listening socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// HTTP.
    Plain,
    /// HTTP in TLS.
    Tls,
}

/// What a core is told.
pub(crate) enum Message {
    /// A new connection for this core.
    Connection(OwnedFd, SocketAddr, Speaks),
    /// A member answered.
    Disk(DiskDone),
    /// This core accepts connections from now on.
    Door(Door),
    /// A title was opened, or cannot be.
    Opened(Opened),
    /// A unit is in memory, or cannot be.
    Unit(Fetched),
}

/// The running cores.
pub(crate) struct DataPlane {
    cores: Vec<CoreHandle<Message>>,
    /// What works for the cores, and ends after them.
    threads: Vec<JoinHandle<()>>,
}

impl DataPlane {
    #[allow(clippy::too_many_arguments, reason = "called once, by the function that makes all of these")]
    /// Starts the cores; they accept from `listeners` at once.
    pub(crate) fn start(
        config: DataConfig,
        listeners: Vec<(TcpListener, Speaks)>,
        units: &Units,
        arena: &Arena,
        films: &Arc<Films>,
        sessions: Arc<Sessions<Film>>,
        counters: Arc<DataCounters>,
        handover: tokio::sync::mpsc::Sender<Handover>,
        capacity: Capacity,
    ) -> Result<Self, ServeError> {
        let (access_log, log_thread) = AccessLog::start(config.access_log).map_err(ServeError::Thread)?;
        let (opener, mut threads) = Opener::start(films).map_err(ServeError::Thread)?;
        threads.extend(log_thread);
        let mut capacity = Some(capacity);
        let programs = config.programs.map(|door| {
            Arc::new(ProgramsShared {
                sessions: Arc::clone(&sessions),
                counters: Arc::clone(&counters),
                programs: door.counters,
                opener: opener.clone(),
                arena: door.arena,
                window_buffers: door.window_buffers,
                listener: Arc::new(door.listener),
                path: door.path,
            })
        });
        let shared = Arc::new(Shared {
            sessions,
            counters,
            access_log,
            opener,
            handover,
            connections_max: config.connections_max,
            arena: arena.clone(),
            lent_buffers: config.lent_buffers,
            acceptor: config.tls.as_ref().map(|(acceptor, _)| acceptor.clone()),
        });
        let scratch_buffers = config.tls.as_ref().map_or(0, |(_, buffers)| *buffers);
        let mut cores: Vec<CoreHandle<Message>> = Vec::with_capacity(config.threads);
        for number in 0..config.threads {
            let core_config = CoreConfig {
                name: format!("reel-serve-{number}"),
                cpu: config.pin.then_some(number),
                ring: RingConfig { entries: 1024, driver: config.driver },
                arena: None,
            };
            let (name, priority) = (core_config.name.clone(), config.real_time_priority);
            let shared = Arc::clone(&shared);
            // The first core looks after what all of them share.
            let capacity = capacity.take();
            let units = units.clone();
            let scratch = Scratch::new(arena, scratch_buffers);
            let core = reel_rt::spawn(core_config, move |core, own: Mailbox<Message>| {
                if priority > 0 {
                    // Granted or refused, the log says it.
                    let _ = real_time(&name, priority);
                }
                let post = Arc::new(Post { own: own.clone() });
                let fetcher = Fetcher::new(units, Arc::clone(&post) as Arc<dyn Reply>, post);
                Data::new(core, number, shared, fetcher, scratch, own, capacity)
            })?;
            cores.push(core);
        }
        let serving = cores.len();
        if let Some(shared) = programs {
            let core_config = CoreConfig {
                name: "reel-programs".to_owned(),
                cpu: None,
                ring: RingConfig { entries: 256, driver: config.driver },
                arena: None,
            };
            let units = units.clone();
            cores.push(reel_rt::spawn(core_config, move |core, own: Mailbox<Message>| {
                let post = Arc::new(Post { own: own.clone() });
                Programs::new(core, shared, units, own, post)
            })?);
        }
        let plane = Self { cores, threads };
        if let Some(first) = plane.cores.first() {
            let cores = plane.cores[..serving].iter().map(|core| core.mailbox()).collect();
            let listeners =
                listeners.into_iter().map(|(listener, speaks)| (Arc::new(listener.into()), speaks));
            let door = Door { listeners: listeners.collect(), cores };
            first.mailbox().post(Message::Door(door));
        }
        Ok(plane)
    }

    /// Whether all cores still run.
    pub(crate) fn is_whole(&self) -> bool {
        self.cores.iter().all(CoreHandle::is_alive)
    }

    /// Lets responses under way finish, then stops the cores and waits for them. When it returns, nothing of the data plane
    /// holds the volume any more.
    pub(crate) fn drain(self) -> Result<(), ServeError> {
        for core in &self.cores {
            core.stop();
        }
        let ended: Vec<_> = self.cores.into_iter().map(CoreHandle::join).collect();
        for thread in self.threads {
            // A panic in one of them was told when it happened.
            let _ = thread.join();
        }
        ended.into_iter().collect::<Result<(), _>>().map_err(ServeError::from)
    }
}

/// Brings answers of other threads into a core's mailbox.
struct Post {
    own: Mailbox<Message>,
}

impl Reply for Post {
    fn deliver(&self, done: DiskDone) {
        self.own.post(Message::Disk(done));
    }
}

impl Deliver for Post {
    fn fetched(&self, fetched: Fetched) {
        self.own.post(Message::Unit(fetched));
    }
}
