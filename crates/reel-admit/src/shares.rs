//! What each client holds of the resources, and whether it may hold more. Pure.

use crate::client::Client;
use reel_qos::{
    AdmitError, Class, ClientShare, Demand, DemandStart, Ledger, MeanCosts, ReservationId, Sender, ShareClaim,
};
use std::collections::HashMap;

/// The holdings of all clients that have a share.
#[derive(Debug)]
pub(crate) struct Shares {
    share: ClientShare,
    by_client: HashMap<Client, Holding>,
    of_reservation: HashMap<ReservationId, Share>,
}

/// What one reservation costs its client.
#[derive(Debug)]
struct Share {
    client: Client,
    class: Class,
    costs: MeanCosts,
}

/// What the reservations of one client cost together.
#[derive(Debug, Default)]
struct Holding {
    costs: MeanCosts,
    reservations: usize,
}

/// A reservation that a client asks for, or has got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// `None` if the client has no share.
    pub(crate) sharer: Option<Client>,
    pub(crate) sender: Sender,
    pub(crate) demand: &'a Demand,
    pub(crate) start: DemandStart,
    /// The reservation that is replaced.
    pub(crate) held: Option<ReservationId>,
    /// Whether it follows another session in memory, and reads nothing.
    pub(crate) is_held: bool,
}

impl Shares {
    pub(crate) fn new(share: ClientShare) -> Self {
        Self { share, by_client: HashMap::new(), of_reservation: HashMap::new() }
    }

    /// Whether the client may hold this, too.
    pub(crate) fn check(&self, ledger: &Ledger, asked: &Asked<'_>) -> Result<(), AdmitError> {
        let holding = asked.sharer.and_then(|client| self.by_client.get(&client));
        let Some(holding) = holding else { return Ok(()) };
        let had = asked.held.and_then(|held| self.of_reservation.get(&held));
        let own = asked.is_held.then(|| asked.demand.without_disks());
        let claim = ShareClaim {
            sender: asked.sender,
            demand: own.as_ref().unwrap_or(asked.demand),
            start: asked.start,
            had: had.map(|had| &had.costs),
            changes_class: had.is_some_and(|had| had.class != asked.sender.class),
            held: &holding.costs,
        };
        ledger.check_share(self.share, &claim)
    }

    /// The client holds this as that reservation.
    pub(crate) fn holds(&mut self, ledger: &Ledger, reservation: ReservationId, asked: &Asked<'_>) {
        self.released(reservation);
        let Some(client) = asked.sharer else { return };
        let own = asked.is_held.then(|| asked.demand.without_disks());
        let costs = ledger.mean_costs(own.as_ref().unwrap_or(asked.demand), asked.sender.front_end);
        let holding = self.by_client.entry(client).or_default();
        holding.costs.add(&costs);
        holding.reservations += 1;
        self.of_reservation.insert(reservation, Share { client, class: asked.sender.class, costs });
    }

    /// A reservation is held no more.
    pub(crate) fn released(&mut self, reservation: ReservationId) {
        let Some(Share { client, costs, .. }) = self.of_reservation.remove(&reservation) else { return };
        let Some(holding) = self.by_client.get_mut(&client) else { return };
        holding.costs.subtract(&costs);
        holding.reservations -= 1;
        if holding.reservations == 0 {
            self.by_client.remove(&client);
        }
    }
}
