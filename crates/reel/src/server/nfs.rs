//! NFS: its sockets.

use super::front_ends::{Bound, FrontEndPlan, Starting, listen};
use super::{Listener, ServeError};
use reel_admit::AddressRange;
use reel_nfs::{HttpPorts, NfsCounters, NfsFrontEnd, NfsMetrics};
use reel_rt::RtError;
use reel_serve::FrontEnd;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

/// The settings of NFS.
#[derive(Clone, Debug)]
pub struct NfsConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The addresses that may read titles.
    pub clients: Vec<AddressRange>,
    /// Whether the port mapper is served on port 111, too, by TCP and UDP, for clients that are
    /// told no port.
    pub portmap: bool,
}

/// NFS with its sockets.
pub(super) struct BoundNfs {
    listeners: Vec<TcpListener>,
    port_mapper: Option<UdpSocket>,
    address: SocketAddr,
    clients: Vec<AddressRange>,
    http: HttpPorts,
}

/// The port of the port mapper (RFC 1833).
const PORTMAP_PORT: u16 = 111;

impl BoundNfs {
    /// Binds what NFS listens on. Clients that speak HTTP are told where that is.
    ///
    /// # Errors
    /// An address cannot be used.
    pub(super) fn bind(config: &NfsConfig, http: HttpPorts) -> Result<Self, ServeError> {
        let (listener, address) = listen(config.listen, Listener::Nfs)?;
        let (mut listeners, mut port_mapper) = (vec![listener], None);
        if config.portmap {
            let (address, of) = (SocketAddr::new(address.ip(), PORTMAP_PORT), Listener::PortMapper);
            listeners.push(listen(address, of)?.0);
            let socket = UdpSocket::bind(address);
            port_mapper = Some(socket.map_err(|source| ServeError::Listen { address, of, source })?);
        }
        Ok(Self { listeners, port_mapper, address, clients: config.clients.clone(), http })
    }

    /// The address of NFS itself.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Bound for BoundNfs {
    fn plan(&self) -> FrontEndPlan {
        FrontEndPlan::of_one_thread("nfs")
    }

    fn start(self: Box<Self>, place: usize, starting: &Starting<'_>) -> Result<Box<dyn FrontEnd>, RtError> {
        let config = starting.config;
        let counters = Arc::new(NfsCounters::default());
        let open = NfsFrontEnd::connections(1, config.control.shares.clone());
        let metrics = NfsMetrics { counters: Arc::clone(&counters), open: Arc::clone(&open) };
        starting.metrics.register(Arc::new(metrics));
        let front_end = NfsFrontEnd {
            front_end: place,
            threads: 1,
            real_time_priority: config.real_time_priority,
            listeners: self.listeners,
            port: self.address.port(),
            port_mapper: self.port_mapper,
            clients: self.clients,
            http: self.http,
            library: Arc::clone(starting.library),
            counters,
        };
        Ok(Box::new(front_end.start(starting.parts, open, config.driver)?))
    }
}
