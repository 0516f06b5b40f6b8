//! The front ends of a server: a list that is bound, planned, started, watched and stopped as one.

use super::casts::BoundCasts;
use super::http::BoundHttp;
use super::joins::BoundJoins;
use super::nfs::BoundNfs;
use super::programs::BoundPrograms;
use super::{Listener, ServeConfig, ServeError, processors};
use reel_cast::Casts;
use reel_http::limits::LISTEN_BACKLOG;
use reel_http::{Certificates, HandoverTo};
use reel_join::Joins;
use reel_library::Library;
use reel_metrics::MetricsRegistry;
use reel_nfs::HttpPorts;
use reel_play::{MemoryPlan, ProcessorPrice};
use reel_pour::Pours;
use reel_rt::RtError;
use reel_serve::{FrontEnd, Parts};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// A front end that has its sockets, and no threads yet.
pub(super) trait Bound {
    /// What it is for admission, memory and metrics.
    fn plan(&self) -> FrontEndPlan;

    /// Starts its threads, at this place among the front ends.
    ///
    /// # Errors
    /// The system gives no thread or no ring.
    fn start(self: Box<Self>, place: usize, starting: &Starting<'_>) -> Result<Box<dyn FrontEnd>, RtError>;
}

/// What a front end is for admission, memory and metrics.
pub(super) struct FrontEndPlan {
    /// By this name metrics and admission know it.
    pub(super) name: &'static str,
    pub(super) threads: usize,
    /// Of these, those that may seal with TLS.
    pub(super) sealing_threads: usize,
    pub(super) price: ProcessorPrice,
    /// Whether its clients are on this machine, so that it uses nothing of the network.
    pub(super) is_local: bool,
}

impl FrontEndPlan {
    /// One thread, which does not seal.
    pub(super) fn of_one_thread(name: &'static str) -> Self {
        let price = ProcessorPrice::assumed(1, processors(), false);
        Self { name, threads: 1, sealing_threads: 0, price, is_local: false }
    }
}

/// What front ends start with.
pub(super) struct Starting<'a> {
    pub(super) config: &'a ServeConfig,
    pub(super) plan: &'a MemoryPlan,
    pub(super) library: &'a Arc<Library>,
    pub(super) parts: &'a Parts,
    pub(super) casts: &'a Casts,
    pub(super) joins: &'a Joins,
    pub(super) pours: &'a Pours,
    pub(super) metrics: &'a MetricsRegistry,
}

/// The front ends of a server that is to start. Clients whose front end is not named belong to the
/// first.
pub(super) struct BoundFrontEnds(Vec<Box<dyn Bound>>);

/// Where a server listens.
pub(super) struct Addresses {
    pub(super) http: SocketAddr,
    pub(super) tls: Option<SocketAddr>,
    pub(super) nfs: Option<SocketAddr>,
    /// What is shown at `tls`.
    pub(super) certificates: Option<Arc<Certificates>>,
}

/// The running front ends.
pub(super) struct FrontEnds(Vec<Box<dyn FrontEnd>>);

impl BoundFrontEnds {
    /// Binds what the front ends of `config` listen on. HTTP has so many threads, and hands over
    /// connections that ask for pages and the API. Joins are played if any are possible.
    ///
    /// # Errors
    /// An address, a certificate or the socket of programs cannot be used.
    pub(super) fn bind(
        config: &ServeConfig,
        library: &Library,
        (threads, with_joins): (usize, bool),
        handover: HandoverTo,
    ) -> Result<(Self, Addresses), ServeError> {
        let http = BoundHttp::bind(config, threads, handover)?;
        let programs = config.programs.as_ref();
        let programs = programs.map(|path| BoundPrograms::bind(path, library.volume())).transpose()?;
        let ports = HttpPorts { plain: http.address().port(), tls: http.tls_address().map(|at| at.port()) };
        let nfs = config.nfs.as_ref().map(|nfs| BoundNfs::bind(nfs, ports)).transpose()?;
        let addresses = Addresses {
            http: http.address(),
            tls: http.tls_address(),
            nfs: nfs.as_ref().map(BoundNfs::address),
            certificates: http.certificates().cloned(),
        };
        let mut all: Vec<Box<dyn Bound>> = vec![Box::new(http), Box::new(BoundCasts)];
        all.extend(programs.map(|bound| Box::new(bound) as Box<dyn Bound>));
        all.extend(nfs.map(|bound| Box::new(bound) as Box<dyn Bound>));
        if with_joins {
            all.push(Box::new(BoundJoins::of(library.volume())));
        }
        Ok((Self(all), addresses))
    }

    /// What each of them is.
    pub(super) fn plan(&self) -> Vec<FrontEndPlan> {
        self.0.iter().map(|bound| bound.plan()).collect()
    }

    /// Starts them. The first one is the last to start, because health is asked for there.
    ///
    /// # Errors
    /// The system gives no thread or no ring.
    pub(super) fn start(self, starting: &Starting<'_>) -> Result<FrontEnds, RtError> {
        let all = self.0.into_iter().enumerate().rev();
        all.map(|(place, bound)| bound.start(place, starting)).collect::<Result<_, _>>().map(FrontEnds)
    }
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

/// Listens on an address for something. With port 0 the system chooses; the address says which.
pub(super) fn listen(address: SocketAddr, of: Listener) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, of, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    // A burst of players must not fill the standard backlog of 128.
    rustix::net::listen(&listener, LISTEN_BACKLOG).map_err(|error| failed(error.into()))?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
