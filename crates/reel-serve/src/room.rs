//! Which connection makes room for another one. Pure.
//!
//! A connection is quiet while its client owes the next request. When a client has its share of the
//! connections, its own connection that was quiet for the longest ends for a new one. When all
//! connections are open, the one that ends is of the client that holds the most. A connection of a
//! proxy counts as the only one of its client. A connection with a response under way never ends
//! for that.
//!
//! The order is one for all threads, since the right connection may belong to any of them. It
//! changes twice with a request, in logarithmic time, so a flood of connections finds each one that
//! ends without a search.

use crate::limits::LEAVING_MAX;
use crate::places::Place;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

/// The open connections, each with its place.
#[derive(Debug, Default)]
pub(crate) struct Room {
    connections: HashMap<u64, Open>,
    by_client: HashMap<Option<IpAddr>, Holding>,
    /// Clients with quiet connections. The last one makes room first.
    order: BTreeSet<Key>,
    next_number: u64,
    /// Connections that were asked to end, and have no place any more.
    leaving: usize,
}

/// A connection that is to end, unless it has a response under way by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The thread that has it.
    pub thread: usize,
    /// What its protocol calls it.
    pub token: u64,
}

#[derive(Debug)]
struct Open {
    thread: usize,
    client: Option<IpAddr>,
    /// `None` once it was given to another connection.
    place: Option<Place>,
    quiet: Option<Quiet>,
}

#[derive(Clone, Copy, Debug)]
struct Quiet {
    token: u64,
    since_ns: u64,
}

/// The connections of one client, without those that leave.
#[derive(Debug, Default)]
struct Holding {
    connections: usize,
    /// The quiet ones: since when, and their numbers.
    quiet: BTreeSet<(u64, u64)>,
}

type Key = (usize, Reverse<u64>, Option<IpAddr>);

impl Room {
    /// A connection has got a place. Returns its number.
    pub(crate) fn opened(&mut self, thread: usize, place: Place) -> u64 {
        let (number, client) = (self.next_number, place.client());
        self.next_number += 1;
        self.change(client, |holding| holding.connections += 1);
        self.connections.insert(number, Open { thread, client, place: Some(place), quiet: None });
        number
    }

    /// A connection has ended.
    pub(crate) fn closed(&mut self, number: u64) {
        self.busy(number);
        let Some(open) = self.connections.remove(&number) else { return };
        match open.place {
            Some(_place) => self.change(open.client, |holding| holding.connections -= 1),
            None => self.leaving -= 1,
        }
    }

    /// The client of a connection owes the next request since this time.
    pub(crate) fn quiet(&mut self, number: u64, token: u64, since_ns: u64) {
        self.busy(number);
        let Some(open) = self.connections.get_mut(&number).filter(|open| open.place.is_some()) else {
            return;
        };
        open.quiet = Some(Quiet { token, since_ns });
        let client = open.client;
        self.change(client, |holding| _ = holding.quiet.insert((since_ns, number)));
    }

    /// A request has arrived on a connection.
    pub(crate) fn busy(&mut self, number: u64) {
        let Some(open) = self.connections.get_mut(&number) else { return };
        let (client, quiet) = (open.client, open.quiet.take());
        if let Some(Quiet { since_ns, .. }) = quiet {
            self.change(client, |holding| _ = holding.quiet.remove(&(since_ns, number)));
        }
    }

    /// Lets a connection of this client make room for another one of it.
    pub(crate) fn of_client(&mut self, client: Option<IpAddr>) -> Option<(Place, Leaving)> {
        let (_, number) = *self.by_client.get(&client)?.quiet.first()?;
        self.leave(number)
    }

    /// Lets a connection of the client that holds the most make room.
    pub(crate) fn of_any(&mut self) -> Option<(Place, Leaving)> {
        let (_, _, client) = *self.order.last()?;
        self.of_client(client)
    }

    fn leave(&mut self, number: u64) -> Option<(Place, Leaving)> {
        if self.leaving >= LEAVING_MAX {
            return None;
        }
        let quiet = self.connections.get(&number)?.quiet?;
        self.busy(number);
        let open = self.connections.get_mut(&number)?;
        let (place, client) = (open.place.take()?, open.client);
        let leaving = Leaving { thread: open.thread, token: quiet.token };
        self.leaving += 1;
        self.change(client, |holding| holding.connections -= 1);
        Some((place, leaving))
    }

    /// Changes what a client holds, and its place in the order.
    fn change(&mut self, client: Option<IpAddr>, change: impl FnOnce(&mut Holding)) {
        let holding = self.by_client.entry(client).or_default();
        if let Some(key) = holding.key(client) {
            self.order.remove(&key);
        }
        change(holding);
        let (key, is_empty) = (holding.key(client), holding.connections == 0);
        self.order.extend(key);
        if is_empty {
            self.by_client.remove(&client);
        }
    }
}

impl Holding {
    fn key(&self, client: Option<IpAddr>) -> Option<Key> {
        let (since_ns, _) = self.quiet.first()?;
        // One that is not bound speaks for many clients.
        let held = if client.is_some() { self.connections } else { 1 };
        Some((held, Reverse(*since_ns), client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::{PlaceShares, Places};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct Rig {
        places: Places,
        room: Room,
    }

    impl Rig {
        fn new() -> Rig {
            let exempt = vec!["198.51.100.1".parse().expect("a range")];
            let shares = PlaceShares { exempt, ..PlaceShares::default() };
            Rig { places: Places::new(1000, 1, shares), room: Room::default() }
        }

        /// A connection of a client that is quiet since this time. Its token is the same number.
        fn quiet(&mut self, client: [u8; 4], since_ns: u64) -> u64 {
            let place = self.places.take(Some(client.into())).expect("free");
            let number = self.room.opened(3, place);
            self.room.quiet(number, number, since_ns);
            number
        }

        fn left(&mut self) -> Option<u64> {
            let (_, leaving) = self.room.of_any()?;
            assert_eq!(leaving.thread, 3);
            Some(leaving.token)
        }
    }

    const MANY: [u8; 4] = [192, 0, 2, 1];
    const FEW: [u8; 4] = [192, 0, 2, 2];
    const PROXY: [u8; 4] = [198, 51, 100, 1];

    #[test]
    fn the_longest_quiet_one_of_the_client_that_holds_the_most_leaves_first() {
        let mut rig = Rig::new();
        let few = rig.quiet(FEW, 1);
        let many = [5, 4, 6].map(|since_ns| rig.quiet(MANY, since_ns));
        let proxy = [0, 3].map(|since_ns| rig.quiet(PROXY, since_ns));
        assert_eq!(rig.left(), Some(many[1]));
        assert_eq!(rig.left(), Some(many[0]));
        // Each holds one now.
        let rest: Vec<_> = std::iter::from_fn(|| rig.left()).collect();
        assert_eq!(rest, [proxy[0], few, proxy[1], many[2]]);
    }

    #[test]
    fn a_client_with_its_share_makes_room_for_itself() {
        let mut rig = Rig::new();
        let few = [7, 2].map(|since_ns| rig.quiet(FEW, since_ns));
        let _many = [1, 1, 1].map(|since_ns| rig.quiet(MANY, since_ns));
        let (place, leaving) = rig.room.of_client(Some(FEW.into())).expect("quiet");
        assert_eq!((leaving.token, place.client()), (few[1], Some(FEW.into())));
        assert_eq!(rig.room.of_client(Some([192, 0, 2, 9].into())).map(|(_, leaving)| leaving), None);
    }

    #[test]
    fn busy_connections_stay() {
        let mut rig = Rig::new();
        let busy = rig.quiet(MANY, 1);
        rig.room.busy(busy);
        assert_eq!(rig.left(), None);
        rig.room.quiet(busy, busy, 9);
        assert_eq!(rig.left(), Some(busy));
    }

    #[test]
    fn so_many_leave_at_once_and_nothing_remains_of_those_that_left() {
        let mut rig = Rig::new();
        let all: Vec<u64> = (0..LEAVING_MAX as u64 + 9).map(|since_ns| rig.quiet(MANY, since_ns)).collect();
        let left: Vec<u64> = std::iter::from_fn(|| rig.left()).collect();
        assert_eq!(left, all[..LEAVING_MAX]);
        rig.room.quiet(left[0], left[0], 5);
        rig.room.closed(left[0]);
        assert_eq!(rig.left(), Some(all[LEAVING_MAX]));
        all.iter().for_each(|number| rig.room.closed(*number));
        let room = &rig.room;
        assert!(room.connections.is_empty() && room.by_client.is_empty() && room.order.is_empty());
        assert_eq!((room.leaving, rig.places.are_taken()), (0, false));
    }

    /// One step of a script: a connection of a client is opened, closed, quiet or busy, or one
    /// leaves.
    #[derive(Clone, Copy, Debug)]
    struct Scripted {
        kind: u8,
        client: u8,
        which: usize,
    }

    fn scripted() -> impl Strategy<Value = Scripted> {
        (0u8..5, 0u8..5, any::<usize>()).prop_map(|(kind, client, which)| Scripted { kind, client, which })
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_a_search(script in prop::collection::vec(scripted(), 0..200)) {
            let mut rig = Rig::new();
            // By number: the client, since when it is quiet, and whether it leaves.
            let mut model: BTreeMap<u64, (u8, Option<u64>, bool)> = BTreeMap::new();
            for (now_ns, Scripted { kind, client, which }) in (0..).zip(script) {
                let chosen = model.keys().copied().nth(which % model.len().max(1));
                match (kind, chosen) {
                    (0, _) => {
                        let number = rig.quiet([192, 0, 2, client], now_ns);
                        model.insert(number, (client, Some(now_ns), false));
                    }
                    (1, Some(number)) => {
                        rig.room.closed(number);
                        model.remove(&number);
                    }
                    (2, Some(number)) => {
                        rig.room.quiet(number, number, now_ns);
                        let entry = model.get_mut(&number).expect("chosen");
                        entry.1 = Some(now_ns).filter(|_| !entry.2);
                    }
                    (3, Some(number)) => {
                        rig.room.busy(number);
                        model.get_mut(&number).expect("chosen").1 = None;
                    }
                    _ => {
                        let left = rig.left();
                        prop_assert_eq!(left, searched(&model));
                        if let Some(number) = left {
                            *model.get_mut(&number).expect("open") = (model[&number].0, None, true);
                        }
                    }
                }
            }
            model.keys().for_each(|number| rig.room.closed(*number));
            prop_assert!(rig.room.by_client.is_empty() && rig.room.order.is_empty() && rig.room.leaving == 0);
        }
    }

    /// The connection that leaves first: of the client that holds the most, quiet for the longest.
    fn searched(model: &BTreeMap<u64, (u8, Option<u64>, bool)>) -> Option<u64> {
        if model.values().filter(|(_, _, leaves)| *leaves).count() >= LEAVING_MAX {
            return None;
        }
        let held = |client| model.values().filter(|(of, _, leaves)| *of == client && !leaves).count();
        let quiet = model.iter().filter_map(|(number, (client, since_ns, _))| {
            Some((held(*client), Reverse((*since_ns)?), *number))
        });
        quiet.max().map(|(_, _, number)| number)
    }
}
