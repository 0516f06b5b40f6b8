//! Connections on their way to the control plane, in two lanes.
//!
//! Pages and the API are answered by threads that many clients may keep busy at once. What watches
//! the server asks for its health, and must not wait behind them. So such a request has a thread of
//! its own, which is idle otherwise. A client has a few requests there at a time; its others are
//! answered like pages.

use super::ServeError;
use reel_api::limits::{BLOCKING_THREADS_MAX, RUNTIME_THREADS};
use reel_api::{ControlPlane, serve_connection};
use reel_http::limits::HANDOVERS_MAX;
use reel_http::{Handover, HandoverTo};
use reel_qos::ClientShare;
use reel_serve::{Place, PlaceShares, Places};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Requests for health in their own lane at once: so many that watch the server, and few enough
/// that the last of them is answered within a tenth of a second.
const HEALTH_PLACES: usize = 64;

/// Those of one client: each of the three things that can be asked, and one whose connection is
/// not closed yet.
const HEALTH_CLIENT_PLACES: usize = 4;

/// No client has more: five are more than a thousandth of all.
const HEALTH_SHARE_PERMILLE: u32 = 1;

/// Where both lanes end.
pub(super) struct Arriving {
    control: Receiver<Waiting>,
    health: Receiver<Waiting>,
}

/// The threads behind the lanes.
pub(super) struct Runtimes {
    control: Runtime,
    health: Runtime,
}

/// A connection, with its place if it is in the lane of health.
struct Waiting {
    connection: Handover,
    place: Option<Place>,
}

struct Lanes {
    control: Sender<Waiting>,
    health: Sender<Waiting>,
    places: Places,
}

/// Both lanes: where front ends leave connections, and where these arrive.
pub(super) fn lanes(shares: PlaceShares) -> (HandoverTo, Arriving) {
    let (control, control_arriving) = channel(HANDOVERS_MAX);
    let (health, health_arriving) = channel(HEALTH_PLACES);
    let shares = PlaceShares { share: ClientShare::permille(HEALTH_SHARE_PERMILLE), ..shares };
    let lanes = Lanes { control, health, places: Places::new(HEALTH_PLACES, HEALTH_CLIENT_PLACES, shares) };
    let arriving = Arriving { control: control_arriving, health: health_arriving };
    (Box::new(move |connection| lanes.send(connection)), arriving)
}

impl Lanes {
    fn send(&self, connection: Handover) -> Result<(), Handover> {
        let peer = connection.peer.ip();
        let place = if connection.is_health { self.places.take(Some(peer)).ok() } else { None };
        let lane = if place.is_some() { &self.health } else { &self.control };
        lane.try_send(Waiting { connection, place }).map_err(|full| match full {
            TrySendError::Full(waiting) | TrySendError::Closed(waiting) => waiting.connection,
        })
    }
}

impl Runtimes {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives none.
    pub(super) fn start() -> Result<Self, ServeError> {
        let start = |name: &str, threads| {
            Builder::new_multi_thread()
                .worker_threads(threads)
                .max_blocking_threads(BLOCKING_THREADS_MAX)
                .thread_name(name)
                .enable_all()
                .build()
                .map_err(ServeError::Thread)
        };
        Ok(Self { control: start("reel-control", RUNTIME_THREADS)?, health: start("reel-health", 1)? })
    }

    /// Answers what arrives in both lanes.
    pub(super) fn answer(&self, arriving: Arriving, control: &ControlPlane) {
        self.control.spawn(take_over(arriving.control, control.clone()));
        self.health.spawn(take_over(arriving.health, control.clone()));
    }

    /// The threads of pages, of the API and of what runs by itself.
    pub(super) fn control(&self) -> &Handle {
        self.control.handle()
    }

    /// Runs this to its end on the thread that calls.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.control.block_on(future)
    }

    /// Ends all threads within this time. Those of health are the last: it is answered until the
    /// others have ended.
    pub(super) fn shutdown_timeout(self, time: Duration) {
        let until = Instant::now() + time;
        self.control.shutdown_timeout(time);
        self.health.shutdown_timeout(until.saturating_duration_since(Instant::now()));
    }
}

async fn take_over(mut arriving: Receiver<Waiting>, control: ControlPlane) {
    while let Some(Waiting { connection, place }) = arriving.recv().await {
        let Handover { stream, tls, already_read, peer, .. } = connection;
        match tokio::net::TcpStream::from_std(stream) {
            Ok(stream) => {
                let served = serve_connection(stream, tls, already_read, peer.ip(), control.clone());
                drop(tokio::spawn(async move {
                    served.await;
                    drop(place);
                }));
            }
            Err(error) => tracing::warn!(%peer, %error, "cannot take over a connection"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// A connection of client `number` on its way to the control plane.
    fn connection(number: u8, is_health: bool) -> Handover {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let peer = ([192, 0, 2, number], 1).into();
        Handover { stream, tls: None, already_read: Vec::new(), peer, is_health }
    }

    #[test]
    fn health_does_not_wait_behind_pages_and_a_client_has_a_few_places_there() {
        let (hand_over, mut arriving) = lanes(PlaceShares::default());
        // As many pages as can wait, which are not answered.
        for _ in 0..HANDOVERS_MAX {
            assert!(hand_over(connection(1, false)).is_ok());
        }
        assert!(hand_over(connection(1, false)).is_err());
        for _ in 0..HEALTH_CLIENT_PLACES {
            assert!(hand_over(connection(1, true)).is_ok());
        }
        // More of this client's wait like pages, for which there is no room.
        assert!(hand_over(connection(1, true)).is_err());
        assert!(hand_over(connection(2, true)).is_ok());
        // The place is given back with the connection.
        assert_eq!(
            arriving.health.try_recv().map(|waiting| waiting.connection.peer.ip()).ok(),
            Some([192, 0, 2, 1].into())
        );
        assert!(hand_over(connection(1, true)).is_ok());
    }

    #[test]
    fn health_has_so_many_places() {
        let (hand_over, mut arriving) = lanes(PlaceShares::default());
        for number in 0..=HEALTH_PLACES {
            assert!(hand_over(connection(number as u8, true)).is_ok());
        }
        let count = |lane: &mut Receiver<Waiting>| std::iter::from_fn(|| lane.try_recv().ok()).count();
        assert_eq!((count(&mut arriving.health), count(&mut arriving.control)), (HEALTH_PLACES, 1));
    }
}
