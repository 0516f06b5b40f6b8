//! Readers of titles as files, as front ends know them: no client says that it plays, so what each
//! has read lately is kept.
//!
//! The table is bounded, and so is what one network of clients holds in it. A reader to which
//! nothing is promised gives way to a new one: a client that has looked at many titles plays the
//! next one, and clients elsewhere find room whatever a network does.

use crate::limits::{LOOKS_BYTES_MAX, LOOKS_BYTES_PER_S};
use reel_admit::client_network;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

/// What names a reader.
pub trait ReaderName: Clone + Eq + Hash {
    /// The address of its client.
    fn client(&self) -> IpAddr;
}

/// What is known of a reader.
pub trait KnownReader {
    /// Whether something is promised to it. Such a reader gives way to no other.
    fn is_promised(&self) -> bool;

    /// When it read last.
    fn seen_ns(&self) -> u64;
}

/// All readers that have read a while ago or later.
#[derive(Debug)]
pub struct ReaderTable<K, R> {
    readers: HashMap<K, R>,
    networks: HashMap<IpAddr, Network>,
    max: usize,
    network_max: usize,
}

/// What the readers of a network have.
#[derive(Debug, Default)]
struct Network {
    readers: usize,
    looks: Looks,
}

/// How much a network has looked at, as a bucket that leaks.
#[derive(Debug, Default)]
struct Looks {
    bytes: u64,
    since_ns: u64,
}

impl<K: ReaderName, R: KnownReader> ReaderTable<K, R> {
    /// A table of at most so many readers, and so many of one network (an address, or a /64).
    pub fn new(max: usize, network_max: usize) -> Self {
        Self { readers: HashMap::new(), networks: HashMap::new(), max, network_max }
    }

    /// The reader of this name, made if it is not known. `None` if there is no room for it: to all
    /// readers of its network something is promised, or to all others.
    pub fn find_or_add(&mut self, name: &K, make: impl FnOnce() -> R) -> Option<&mut R> {
        if !self.readers.contains_key(name) {
            let network = client_network(name.client());
            if !self.has_room(network) {
                let displaced = self.displaced(network)?;
                self.remove(&displaced);
            }
            self.readers.insert(name.clone(), make());
            self.networks.entry(network).or_default().readers += 1;
        }
        self.readers.get_mut(name)
    }

    /// The reader of this name, if it is known.
    pub fn get_mut(&mut self, name: &K) -> Option<&mut R> {
        self.readers.get_mut(name)
    }

    /// All readers.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &R)> {
        self.readers.iter()
    }

    /// All readers.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.readers.values_mut()
    }

    /// Keeps those readers for which this is so.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&mut R) -> bool) {
        let networks = &mut self.networks;
        self.readers.retain(|name, reader| {
            let is_kept = is_kept(reader);
            if !is_kept {
                left(networks, client_network(name.client()));
            }
            is_kept
        });
    }

    /// Whether a client may look at so many bytes more, as people who wait do. What it has looked
    /// at counts for its network, for as long as that has readers.
    pub fn may_look(&mut self, client: IpAddr, bytes: u64, now_ns: u64) -> bool {
        let network = self.networks.get_mut(&client_network(client));
        network.is_some_and(|network| network.looks.take(bytes, now_ns))
    }

    /// Whether something is promised to as many readers of a client's network as it may have.
    pub fn is_full_of(&self, client: IpAddr) -> bool {
        let network = client_network(client);
        !self.has_room(network) && self.displaced(network).is_none()
    }

    fn has_room(&self, network: IpAddr) -> bool {
        self.readers.len() < self.max && self.held(network) < self.network_max
    }

    fn held(&self, network: IpAddr) -> usize {
        self.networks.get(&network).map_or(0, |network| network.readers)
    }

    /// The reader that gives way to one of a network: of the network that has the most, if that has
    /// more and this one has not its share, otherwise of its own.
    fn displaced(&self, network: IpAddr) -> Option<K> {
        let held = self.held(network);
        let is_own = held >= self.network_max;
        let others = self.readers.iter().filter(|(_, reader)| !reader.is_promised());
        let others = others.filter_map(|(name, reader)| {
            let other = client_network(name.client());
            let held_there = self.held(other);
            let gives_way = other == network || (!is_own && held_there > held);
            gives_way.then_some((held_there, Reverse(reader.seen_ns()), name))
        });
        others.max_by_key(|&(held, seen, _)| (held, seen)).map(|(_, _, name)| name.clone())
    }

    fn remove(&mut self, name: &K) {
        if self.readers.remove(name).is_some() {
            left(&mut self.networks, client_network(name.client()));
        }
    }
}

/// A reader of a network has left.
fn left(networks: &mut HashMap<IpAddr, Network>, network: IpAddr) {
    if let Some(of) = networks.get_mut(&network) {
        of.readers -= 1;
        if of.readers == 0 {
            networks.remove(&network);
        }
    }
}

impl Looks {
    /// Takes so many bytes, if there is room for any.
    fn take(&mut self, bytes: u64, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        let leaked = u128::from(passed_ns) * u128::from(LOOKS_BYTES_PER_S) / 1_000_000_000;
        self.bytes = self.bytes.saturating_sub(u64::try_from(leaked).unwrap_or(u64::MAX));
        self.since_ns = self.since_ns.max(now_ns);
        let has_room = self.bytes < LOOKS_BYTES_MAX;
        if has_room {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    const SECOND_NS: u64 = 1_000_000_000;
    const MAX: usize = 40;
    const NETWORK_MAX: usize = 8;

    /// A reader of a network, at an address of it, of a title.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct Name(u16, u16, u16);

    #[derive(Debug)]
    struct Seen {
        is_promised: bool,
        ns: u64,
    }

    type Table = ReaderTable<Name, Seen>;

    impl ReaderName for Name {
        fn client(&self) -> IpAddr {
            Ipv6Addr::new(0xfd00, 0, 0, self.0, 0, 0, 0, self.1).into()
        }
    }

    impl KnownReader for Seen {
        fn is_promised(&self) -> bool {
            self.is_promised
        }

        fn seen_ns(&self) -> u64 {
            self.ns
        }
    }

    fn table() -> Table {
        ReaderTable::new(MAX, NETWORK_MAX)
    }

    fn reads(table: &mut Table, name: Name, ns: u64) -> bool {
        table.find_or_add(&name, || Seen { is_promised: false, ns }).map(|seen| seen.ns = ns).is_some()
    }

    fn promises(table: &Table) -> Vec<Name> {
        table.iter().filter(|(_, reader)| reader.is_promised).map(|(name, _)| *name).collect()
    }

    #[test]
    fn a_client_that_has_looked_at_many_titles_plays_the_next_one() {
        let mut table = table();
        for title in 0..1000 {
            assert!(reads(&mut table, Name(1, title % 3, title), u64::from(title)));
        }
        assert_eq!(table.iter().count(), NETWORK_MAX);
        // What was seen last is still known.
        assert!(table.get_mut(&Name(1, 0, 999)).is_some() && table.get_mut(&Name(1, 0, 0)).is_none());
    }

    #[test]
    fn what_is_promised_gives_way_to_nothing() {
        let mut table = table();
        for title in 0..NETWORK_MAX as u16 {
            reads(&mut table, Name(1, 0, title), 0);
        }
        assert!(!table.is_full_of(Name(1, 9, 0).client()));
        table.values_mut().for_each(|reader| reader.is_promised = true);
        assert!(!reads(&mut table, Name(1, 0, 100), 1) && table.is_full_of(Name(1, 9, 0).client()));
        assert!(reads(&mut table, Name(2, 0, 100), 1));
    }

    #[test]
    fn a_network_that_fills_the_table_leaves_room_for_others() {
        let mut table = table();
        for network in 0..20 {
            for title in 0..NETWORK_MAX as u16 {
                reads(&mut table, Name(network, title, title), 0);
            }
        }
        assert_eq!(table.iter().count(), MAX);
        assert!(reads(&mut table, Name(100, 0, 0), 1));
    }

    #[test]
    fn looks_are_bounded_and_come_again_with_time() {
        let mut table = table();
        let client = Name(1, 0, 0).client();
        assert!(!table.may_look(client, 1, 0), "a network without readers");
        reads(&mut table, Name(1, 0, 0), 0);
        let mib = 1 << 20;
        let looked = (0..).take_while(|_| table.may_look(client, mib, 0)).count() as u64;
        assert_eq!(looked, LOOKS_BYTES_MAX / mib);
        // Another title, another address of the network: the same bytes.
        reads(&mut table, Name(1, 7, 1), 0);
        assert!(!table.may_look(Name(1, 7, 1).client(), mib, 0));
        let later = (0..).take_while(|_| table.may_look(client, mib, SECOND_NS)).count() as u64;
        assert_eq!(later, LOOKS_BYTES_PER_S / mib);
    }

    proptest! {
        /// Whatever networks do, each finds room while nothing is promised, and no promise is
        /// forgotten.
        #[test]
        fn a_network_finds_room_beside_any_other(
            steps in proptest::collection::vec((0_u16..6, 0_u16..4, 0_u16..30, 0_u8..10), 1..400),
            are_promised in any::<bool>(),
        ) {
            let mut table = table();
            for (at, (network, address, title, promised)) in steps.into_iter().enumerate() {
                let name = Name(network, address, title);
                let before: Vec<_> = promises(&table);
                let held = table.held(client_network(name.client()));
                let found = reads(&mut table, name, at as u64);
                // Six networks of eight readers are more than there is room for, by eight.
                prop_assert!(found || are_promised, "network {network} with {held}");
                prop_assert!(before.iter().all(|name| promises(&table).contains(name)));
                if found && are_promised && promised == 0 {
                    table.get_mut(&name).expect("just read").is_promised = true;
                }
                prop_assert!(table.iter().count() <= MAX);
                prop_assert!(table.networks.values().all(|network| network.readers <= NETWORK_MAX));
                let counted: usize = table.networks.values().map(|network| network.readers).sum();
                prop_assert_eq!(counted, table.iter().count());
                if at % 50 == 49 {
                    table.retain(|reader| reader.ns % 3 != 0);
                }
            }
        }
    }
}
