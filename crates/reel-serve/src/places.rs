//! Places that clients hold: connections, requests, uploads. Each is counted for its client.
//!
//! One client holds at most `s / (1000 - s)` times what stays free, as with resources
//! (`reel_qos::ClientShare`). A few places are given in any case while any is free. So a client
//! without a place gets one as long as one is free. `n` greedy clients leave at least
//! `((1000 - s) / 1000)^n` of all places free, less the few that each has in any case.

use crate::proxies::Proxies;
use reel_admit::{AddressRange, client_network};
use reel_qos::ClientShare;
use reel_rt::lock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// How much one client may hold, and who is not bound by it.
#[derive(Clone, Debug)]
pub struct PlaceShares {
    /// The part of all places that a client may hold while it is alone.
    pub share: ClientShare,
    /// Addresses that speak for many clients.
    pub exempt: Vec<AddressRange>,
    /// Whether loopback addresses are bound, too. Usually they speak for many clients: those of a
    /// proxy on this machine.
    pub binds_loopback: bool,
}

/// So many places, of which each client has a share. Clones are the same places.
#[derive(Clone, Debug)]
pub struct Places(Arc<Inner>);

/// A place that is held until this is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Inner>,
    /// The client in whose share it counts.
    client: Option<IpAddr>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// All are taken.
    Full,
    /// The client has its share.
    Share {
        /// The places that it holds.
        held: usize,
    },
}

#[derive(Debug)]
struct Inner {
    max: usize,
    client_min: usize,
    shares: PlaceShares,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_client: HashMap<IpAddr, usize>,
}

impl Default for PlaceShares {
    /// No client is bound.
    fn default() -> Self {
        Self { share: ClientShare::ALL, exempt: Vec::new(), binds_loopback: false }
    }
}

impl PlaceShares {
    /// The same, except that these proxies are not bound.
    pub fn exempting(mut self, proxies: &Proxies) -> Self {
        self.exempt.extend(proxies.ranges());
        self
    }

    /// The client in whose share an address counts; `None` if it is not bound.
    pub fn sharer(&self, address: IpAddr) -> Option<IpAddr> {
        let is_exempt = self.exempt.iter().any(|range| range.contains(address))
            || (!self.binds_loopback && address.to_canonical().is_loopback());
        (!is_exempt).then(|| client_network(address))
    }
}

impl Places {
    /// So many places. Each client gets `client_min` of them while any is free.
    pub fn new(max: usize, client_min: usize, shares: PlaceShares) -> Self {
        Self(Arc::new(Inner { max, client_min, shares, taken: Mutex::default() }))
    }

    /// A place for a client. `None` speaks for many clients, and is not bound.
    ///
    /// # Errors
    /// The client has its share, or all places are taken.
    pub fn take(&self, client: Option<IpAddr>) -> Result<Place, NoPlace> {
        let inner = &self.0;
        let client = client.and_then(|client| inner.shares.sharer(client));
        let mut taken = lock(&inner.taken);
        inner.check(&taken, client, inner.max.saturating_sub(taken.total + 1))?;
        if taken.total >= inner.max {
            return Err(NoPlace::Full);
        }
        taken.total += 1;
        taken.add(client);
        Ok(Place { places: Arc::clone(inner), client })
    }

    /// How much one client may hold.
    pub(crate) fn shares(&self) -> &PlaceShares {
        &self.0.shares
    }

    /// The client in whose share an address counts.
    pub fn sharer(&self, address: Option<IpAddr>) -> Option<IpAddr> {
        self.0.shares.sharer(address?)
    }

    /// Whether all places are taken.
    pub fn are_taken(&self) -> bool {
        lock(&self.0.taken).total >= self.0.max
    }
}

impl Place {
    /// The client in whose share it counts.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// Counts this place in the share of another client.
    ///
    /// # Errors
    /// The client has its share. Then nothing has changed.
    pub fn give_to(&mut self, client: IpAddr) -> Result<(), NoPlace> {
        let client = self.places.shares.sharer(client);
        if self.client == client {
            return Ok(());
        }
        let mut taken = lock(&self.places.taken);
        self.places.check(&taken, client, self.places.max - taken.total)?;
        taken.subtract(self.client);
        taken.add(client);
        self.client = client;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.taken);
        taken.total -= 1;
        taken.subtract(self.client);
    }
}

impl Inner {
    /// Whether a client may hold one more, if so many stay free then.
    fn check(&self, taken: &Taken, client: Option<IpAddr>, free: usize) -> Result<(), NoPlace> {
        let Some(client) = client else { return Ok(()) };
        let held = taken.by_client.get(&client).copied().unwrap_or(0);
        let is_within = held < self.client_min || self.shares.share.allows(held as u64 + 1, free as u64);
        if is_within { Ok(()) } else { Err(NoPlace::Share { held }) }
    }
}

impl Taken {
    fn add(&mut self, client: Option<IpAddr>) {
        if let Some(client) = client {
            *self.by_client.entry(client).or_default() += 1;
        }
    }

    fn subtract(&mut self, client: Option<IpAddr>) {
        let Some(client) = client else { return };
        let Some(held) = self.by_client.get_mut(&client) else { return };
        *held -= 1;
        if *held == 0 {
            self.by_client.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    fn places(max: usize, client_min: usize, permille: u32) -> Places {
        let share = ClientShare::permille(permille);
        Places::new(max, client_min, PlaceShares { share, ..PlaceShares::default() })
    }

    /// Takes places for one client until it has its share.
    fn fill(places: &Places, client: IpAddr) -> Vec<Place> {
        std::iter::from_fn(|| places.take(Some(client)).ok()).collect()
    }

    #[test]
    fn a_client_alone_holds_its_share_and_each_next_one_the_same_part_of_what_is_left() {
        let places = places(512, 8, 750);
        let held: Vec<_> = (0..5).map(|number| fill(&places, client(number))).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [384, 96, 24, 8, 0]);
        assert_eq!(places.take(Some(client(9))).unwrap_err(), NoPlace::Full);
        drop(held);
        assert_eq!(fill(&places, client(9)).len(), 384);
    }

    #[test]
    fn the_refusal_says_whether_the_client_or_all_clients_have_too_much() {
        let places = places(4, 1, 500);
        let _held = fill(&places, client(0));
        assert_eq!(places.take(Some(client(0))).unwrap_err(), NoPlace::Share { held: 2 });
        let _others = [places.take(Some(client(1))), places.take(Some(client(2)))];
        assert!(places.are_taken());
        assert_eq!(places.take(Some(client(0))).unwrap_err(), NoPlace::Share { held: 2 });
        assert_eq!(places.take(Some(client(3))).unwrap_err(), NoPlace::Full);
    }

    #[test]
    fn gateways_and_loopback_addresses_are_not_bound_and_networks_of_version_six_are_one_client() {
        let shares = |binds_loopback| PlaceShares {
            share: ClientShare::permille(500),
            exempt: vec!["192.0.2.0/24".parse().expect("a range")],
            binds_loopback,
        };
        let count = |binds_loopback, addresses: [&str; 2]| {
            let places = Places::new(8, 1, shares(binds_loopback));
            let addresses = addresses.map(|address| address.parse().expect("an address"));
            let taken = (0..16).map(|turn| places.take(Some(addresses[turn % 2])));
            taken.filter_map(Result::ok).collect::<Vec<_>>().len()
        };
        assert_eq!(count(false, ["192.0.2.7", "::ffff:192.0.2.7"]), 8);
        assert_eq!(count(false, ["127.0.0.1", "::1"]), 8);
        assert_eq!(count(true, ["127.0.0.1", "127.0.0.1"]), 4);
        assert_eq!(count(false, ["2001:db8::1", "2001:db8::2"]), 4);
        assert_eq!(Places::new(8, 1, shares(true)).take(None).iter().count(), 1);
    }

    #[test]
    fn a_place_of_a_proxy_becomes_that_of_its_client() {
        let places = places(8, 1, 500);
        let _held = fill(&places, client(0));
        let mut place = places.take(None).expect("free");
        assert_eq!(place.give_to(client(0)), Err(NoPlace::Share { held: 4 }));
        assert_eq!(place.give_to(client(1)), Ok(()));
        assert_eq!(place.give_to(client(1)), Ok(()), "it is that already");
        drop(place);
        assert_eq!(fill(&places, client(1)).len(), 2);
    }

    proptest! {
        #[test]
        fn the_law_holds_for_any_order(
            max in 1usize..200,
            client_min in 1usize..10,
            permille in 1u32..1000,
            steps in prop::collection::vec((0u8..6, prop::bool::weighted(0.8)), 0..600),
        ) {
            let places = places(max, client_min, permille);
            let mut held: HashMap<u8, Vec<Place>> = HashMap::new();
            for (number, takes) in steps {
                let own = held.entry(number).or_default();
                if !takes {
                    own.pop();
                    continue;
                }
                let had = own.len();
                match places.take(Some(client(number))) {
                    Ok(place) => own.push(place),
                    Err(_) => prop_assert!(had >= client_min || places.are_taken()),
                }
                let total: usize = held.values().map(Vec::len).sum();
                prop_assert!(total <= max && lock(&places.0.taken).total == total);
            }
            held.clear();
            let taken = lock(&places.0.taken);
            prop_assert!(taken.total == 0 && taken.by_client.is_empty());
        }

        #[test]
        fn greedy_clients_leave_a_part_free(
            max in 1usize..2000,
            client_min in 1usize..10,
            permille in 1u32..1000,
            order in prop::collection::vec(0u8..4, 0..4000),
        ) {
            let places = places(max, client_min, permille);
            let _in_order: Vec<_> = order.iter().map(|number| places.take(Some(client(*number)))).collect();
            let _rest: Vec<_> = (0..4).map(|number| fill(&places, client(number))).collect();
            let free = max - lock(&places.0.taken).total;
            let left = (f64::from(1000 - permille) / 1000.0).powi(4) * max as f64;
            prop_assert!(free as f64 + 1e-6 >= left - (4 * client_min) as f64, "{free} of {max}, {left}");
        }
    }
}
