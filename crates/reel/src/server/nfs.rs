//! NFS: its sockets.

use super::ServeError;
use super::front_ends::listen;
use reel_admit::AddressRange;
use reel_library::Library;
use reel_metrics::MetricsRegistry;
use reel_nfs::{NfsCounters, NfsFrontEnd, NfsMetrics};
use reel_ring::DriverChoice;
use reel_rt::RtError;
use reel_serve::{Parts, PlaceShares, ServeThreads};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// The settings of NFS.
#[derive(Clone, Debug)]
pub struct NfsConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The addresses that may read titles.
    pub clients: Vec<AddressRange>,
    /// Whether the port mapper is served on port 111, too, for clients that are told no port.
    pub portmap: bool,
}

/// What NFS listens on.
pub(super) struct NfsSocket {
    listeners: Vec<TcpListener>,
    address: SocketAddr,
    clients: Vec<AddressRange>,
}

/// The port of the port mapper (RFC 1833).
const PORTMAP_PORT: u16 = 111;

impl NfsSocket {
    /// Binds what NFS listens on.
    ///
    /// # Errors
    /// An address cannot be used.
    pub(super) fn bind(config: &NfsConfig) -> Result<Self, ServeError> {
        let (listener, address) = listen(config.listen)?;
        let mut listeners = vec![listener];
        if config.portmap {
            listeners.push(listen(SocketAddr::new(address.ip(), PORTMAP_PORT))?.0);
        }
        Ok(Self { listeners, address, clients: config.clients.clone() })
    }

    /// The address of NFS itself.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the thread that serves NFS, in this place among the counters and with this priority.
    ///
    /// # Errors
    /// The system gives no thread or no ring.
    pub(super) fn start(
        self,
        (front_end, real_time_priority): (usize, u8),
        (parts, library): (&Parts, &Arc<Library>),
        shares: PlaceShares,
        metrics: &MetricsRegistry,
        driver: DriverChoice,
    ) -> Result<ServeThreads, RtError> {
        let counters = Arc::new(NfsCounters::default());
        let open = NfsFrontEnd::connections(1, shares);
        metrics.register(Arc::new(NfsMetrics { counters: Arc::clone(&counters), open: Arc::clone(&open) }));
        let front_end = NfsFrontEnd {
            front_end,
            threads: 1,
            real_time_priority,
            listeners: self.listeners,
            port: self.address.port(),
            clients: self.clients,
            library: Arc::clone(library),
            counters,
        };
        front_end.start(parts, open, driver)
    }
}
