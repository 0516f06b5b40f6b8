//! HTTP: its sockets and certificates.

use super::front_ends::{Bound, FrontEndPlan, Starting, listen};
use super::{Listener, ServeConfig, ServeError, processors};
use reel_http::{
    Certificates, HandoverTo, HttpConfig, HttpCounters, HttpFrontEnd, HttpMetrics, HttpParts, Transport,
};
use reel_play::ProcessorPrice;
use reel_rt::RtError;
use reel_serve::{FrontEnd, OpenConnections};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// HTTP with its sockets.
pub(super) struct BoundHttp {
    listeners: Vec<(TcpListener, Transport)>,
    address: SocketAddr,
    tls: Option<(SocketAddr, Arc<Certificates>)>,
    threads: usize,
    handover: HandoverTo,
}

impl BoundHttp {
    /// Binds what HTTP listens on.
    ///
    /// # Errors
    /// An address or a certificate cannot be used.
    pub(super) fn bind(
        config: &ServeConfig,
        threads: usize,
        handover: HandoverTo,
    ) -> Result<Self, ServeError> {
        let (listener, address) = listen(config.listen, Listener::Http)?;
        let mut http =
            Self { listeners: vec![(listener, Transport::Plain)], address, tls: None, threads, handover };
        if let Some(tls) = &config.tls {
            let certificates = Certificates::load(tls.files.clone(), tls.http2)?;
            let (listener, address) = listen(tls.listen, Listener::Tls)?;
            http.listeners.push((listener, Transport::Tls));
            http.tls = Some((address, Arc::new(certificates)));
        }
        Ok(http)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn tls_address(&self) -> Option<SocketAddr> {
        self.tls.as_ref().map(|(address, _)| *address)
    }

    pub(super) fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.tls.as_ref().map(|(_, certificates)| certificates)
    }

    fn config(&self, front_end: usize, starting: &Starting<'_>) -> HttpConfig {
        let (config, plan) = (starting.config, starting.plan);
        let tls = self.certificates();
        HttpConfig {
            threads: self.threads,
            pin: config.pin_threads,
            real_time_priority: config.real_time_priority,
            driver: config.driver,
            front_end,
            access_log: config.access_log,
            lent_buffers: plan.lent,
            congestion_control: config.congestion_control.clone(),
            handshakes_max: config.tls.as_ref().map_or(0, |tls| tls.handshakes_max),
            tls: tls.map(|certificates| (certificates.acceptor().clone(), plan.scratch_per_core)),
        }
    }
}

impl Bound for BoundHttp {
    fn plan(&self) -> FrontEndPlan {
        let price = ProcessorPrice::assumed(self.threads, processors(), self.tls.is_some());
        FrontEndPlan {
            name: "http",
            threads: self.threads,
            sealing_threads: self.threads,
            price,
            is_local: false,
        }
    }

    fn start(self: Box<Self>, place: usize, starting: &Starting<'_>) -> Result<Box<dyn FrontEnd>, RtError> {
        let control = &starting.config.control;
        let shares = control.shares.clone().exempting(&control.proxies);
        let open = OpenConnections::new(self.threads, starting.config.connections_max, shares);
        let counters = Arc::new(HttpCounters::default());
        let metrics = HttpMetrics { counters: Arc::clone(&counters), open: Arc::clone(&open) };
        starting.metrics.register(Arc::new(metrics));
        let config = self.config(place, starting);
        let arena = starting.library.volume().arena().clone();
        let (handover, proxies) = (self.handover, control.proxies.clone());
        let base_path = control.base_path.clone();
        let pours = starting.pours.clone();
        let parts = HttpParts { arena, counters, open, handover, proxies, base_path, pours };
        Ok(Box::new(HttpFrontEnd::start(config, self.listeners, starting.parts, parts)?))
    }
}
