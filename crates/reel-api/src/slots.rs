//! Slots of connections. Each is held in the share of its client.
//!
//! A connection beyond its client's share, or beyond all slots, has a place of another kind. It is
//! answered why it is not served, and closed. Only what shows the state of the server is served
//! there, too: the operator must see it when clients hold all slots.

use crate::problem::Problem;
use crate::sessions::ClientAddress;
use crate::upload::stopping;
use crate::upload_places::UploadPlace;
use crate::{ControlPlane, Inner, ShutdownStage};
use axum::http::StatusCode;
use reel_rt::lock;
use reel_serve::{NoPlace, Place};
use std::net::IpAddr;
use std::sync::Mutex;
use tokio::sync::OwnedSemaphorePermit;

/// What a connection holds until it ends.
pub(super) struct ConnectionSlot {
    peer: IpAddr,
    held: Mutex<Held>,
}

struct Held {
    place: Place,
    /// Why nothing on this connection is served.
    refused: Option<NoPlace>,
    _slot: Option<OwnedSemaphorePermit>,
}

/// What a request on a connection with HTTP/2 holds until it is answered: a slot of its client, if
/// that is not the connection's, and a place among all such requests.
pub(super) struct RequestPlace {
    _held: (Option<Place>, Option<Place>),
}

/// What is answered without a slot. It waits for no disk, and for nothing that clients hold.
const ALWAYS_ANSWERED: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

impl ControlPlane {
    /// A slot for one more connection of a client. `None` if there are so many that the connection
    /// cannot even be answered that there are too many: a client that opens connections without end
    /// must not take all descriptors.
    pub(super) fn take_slot(&self, peer: IpAddr) -> Option<ConnectionSlot> {
        let held = match self.inner.connection_places.take(Some(peer)) {
            Ok(place) => {
                // There are as many slots as places.
                let slot = self.inner.connections.clone().try_acquire_owned().ok();
                Held { place, refused: None, _slot: slot }
            }
            Err(why) => self.refused(peer, why)?,
        };
        Some(ConnectionSlot { peer, held: Mutex::new(held) })
    }

    /// Makes a slot that of the client of its only request, if a proxy has named one.
    ///
    /// # Errors
    /// The connection is refused, or the client has its share. `None` if the client cannot even be
    /// answered so: then the connection is to be closed.
    pub(super) fn give_slot(
        &self,
        slot: &ConnectionSlot,
        client: IpAddr,
        path: &str,
    ) -> Result<(), Option<Problem>> {
        let mut held = lock(&slot.held);
        if held.refused.is_none()
            && let Err(why) = held.place.give_to(client)
        {
            // What is refused must not hold the slots of a proxy.
            *held = self.refused(client, why).ok_or(None)?;
        }
        match held.refused {
            Some(why) if !ALWAYS_ANSWERED.contains(&path) => Err(Some(too_many(why))),
            _ => Ok(()),
        }
    }

    /// The place of a request on a connection with HTTP/2, of which a proxy may send many requests
    /// of other clients. Requests of the connection's own client use its slot.
    ///
    /// # Errors
    /// There is none for this client.
    pub(super) fn request_place(
        &self,
        slot: &ConnectionSlot,
        client: IpAddr,
        path: &str,
    ) -> Result<RequestPlace, Problem> {
        let Inner { connection_places, http2_requests, .. } = &*self.inner;
        let connection = match slot.refused() {
            Some(why) => Err(why),
            None if client == slot.peer => Ok(None),
            None => connection_places.take(Some(client)).map(Some),
        };
        let place = connection.and_then(|connection| {
            let request = http2_requests.take(Some(client))?;
            Ok(RequestPlace { _held: (connection, Some(request)) })
        });
        match place {
            Err(_) if ALWAYS_ANSWERED.contains(&path) => Ok(RequestPlace { _held: (None, None) }),
            place => place.map_err(too_many),
        }
    }

    /// The place of an upload of a client. Waits for one, if all are taken and the client has none.
    ///
    /// # Errors
    /// Too many uploads are under way, or too many of this client, or the server is shutting down.
    pub(super) async fn upload_place(&self, client: Option<&ClientAddress>) -> Result<UploadPlace, Problem> {
        let client = client.map(|client| client.0);
        tokio::select! {
            place = self.inner.upload_places.wait(client) => place.map_err(too_many_uploads),
            () = self.entered(ShutdownStage::Draining) => Err(stopping()),
        }
    }

    /// The place of a connection that is refused.
    fn refused(&self, client: IpAddr, why: NoPlace) -> Option<Held> {
        let place = self.inner.refused_places.take(Some(client)).ok()?;
        Some(Held { place, refused: Some(why), _slot: None })
    }
}

impl ConnectionSlot {
    /// Why nothing on this connection is served.
    pub(super) fn refused(&self) -> Option<NoPlace> {
        lock(&self.held).refused
    }
}

/// The answer to a request without a place.
fn too_many(why: NoPlace) -> Problem {
    let problem = match why {
        NoPlace::Full => Problem::unavailable("too many control connections are open, or requests under way"),
        NoPlace::Share { held } => has_share(format!("{held} requests under way")),
    };
    problem.retry_after_s(5)
}

/// The answer to an upload without a place.
fn too_many_uploads(why: NoPlace) -> Problem {
    let problem = match why {
        NoPlace::Full => Problem::unavailable("too many uploads are under way; this one was not begun"),
        NoPlace::Share { held } => has_share(format!("{held} uploads under way")),
    };
    problem.retry_after_s(30)
}

fn has_share(held: String) -> Problem {
    let title = "This client has its share of what can be done at once";
    let detail = format!("this client has {held}, which is its share");
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "client-share", title, detail)
        .help("let one of them end, or try again later. A reverse proxy should send X-Forwarded-For, or be named in `gateways`")
}
