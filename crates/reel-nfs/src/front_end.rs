//! The serve threads of NFS.

use crate::counters::NfsCounters;
use crate::handle::Handles;
use crate::limits::CONNECTIONS_MAX;
use crate::listing::Listing;
use crate::service::{Datagrams, NfsShared, NfsThread};
use crate::wrong_port::HttpPorts;
use reel_admit::AddressRange;
use reel_library::Library;
use reel_ring::{DriverChoice, RingConfig};
use reel_rt::{Core, RtError, Workers};
use reel_serve::{Listening, OpenConnections, Parts, PlaceShares, ServeThreads, ThreadsConfig};
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

/// The front end: its sockets and settings, and the parts of the server that only it uses.
pub struct NfsFrontEnd {
    /// Which of [`PlayCounters::front_ends`](reel_play::PlayCounters) is this one's.
    pub front_end: usize,
    /// Threads.
    pub threads: usize,
    /// Priority in `SCHED_FIFO`; 0 for ordinary threads.
    pub real_time_priority: u8,
    /// The sockets to which clients connect. All of them speak NFS, MOUNT and the protocol of the
    /// port mapper.
    pub listeners: Vec<TcpListener>,
    /// The port that the port mapper tells.
    pub port: u16,
    /// The socket by which the port mapper is asked in datagrams. It tells the port of this socket
    /// as its own.
    pub port_mapper: Option<UdpSocket>,
    /// The addresses that may read. All others are refused.
    pub clients: Vec<AddressRange>,
    /// Where HTTP is spoken, for those that speak it here.
    pub http: HttpPorts,
    /// The titles.
    pub library: Arc<Library>,
    /// The counters of this front end.
    pub counters: Arc<NfsCounters>,
}

impl NfsFrontEnd {
    /// Connections for so many threads, of which each client has a share.
    pub fn connections(threads: usize, shares: PlaceShares) -> Arc<OpenConnections> {
        OpenConnections::new(threads, CONNECTIONS_MAX, shares)
    }

    /// Starts the threads, which accept at once.
    ///
    /// # Errors
    /// The system gives no thread or no ring.
    pub fn start(
        self,
        parts: &Parts,
        open: Arc<OpenConnections>,
        driver: DriverChoice,
    ) -> Result<ServeThreads, RtError> {
        let config = ThreadsConfig {
            names: (0..self.threads).map(|number| format!("reel-nfs-{number}")).collect(),
            pin: false,
            real_time_priority: self.real_time_priority,
            ring: RingConfig { entries: 1024, driver },
            front_end: self.front_end,
            uses_uplink: true,
        };
        // The thread ends with the last serve thread, which holds the other end of its queue.
        let name = "reel-nfs-list";
        let (lister, _) =
            Workers::start(name, 1, 1).map_err(|source| RtError::Thread { name: name.to_owned(), source })?;
        let datagrams = self.port_mapper.map(Datagrams::new).transpose();
        let datagrams =
            datagrams.map_err(|source| RtError::Thread { name: "reel-nfs".to_owned(), source })?;
        let listeners = self.listeners.into_iter().map(|listener| Arc::new(listener.into())).collect();
        let volume = self.library.volume().status().volume;
        let [a, b, c, d, e, f, g, h, ..] = volume.0;
        let of_volume = [a, b, c, d, e, f, g, h];
        let handles = Handles::new(&self.library.volume().secret().0, volume.0);
        let shared = Arc::new(NfsShared {
            library: self.library,
            counters: self.counters,
            handles,
            fsid: u64::from_be_bytes(of_volume),
            port: self.port,
            datagrams,
            clients: self.clients,
            http: self.http,
            listing: Mutex::new(Arc::new(Listing::default())),
            lister,
            is_listing: AtomicBool::new(false),
            waker: OnceLock::new(),
        });
        let threads = ServeThreads::start(config, parts, Listening { listeners, open }, |_| {
            let shared = Arc::clone(&shared);
            move |core: &mut Core| NfsThread::new(core, Arc::clone(&shared))
        })?;
        shared.waker.get_or_init(|| threads.waker());
        // Before the first client asks: the indexes of all titles have to be read for it.
        shared.list();
        Ok(threads)
    }
}
