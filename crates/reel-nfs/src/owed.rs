//! Bytes of replies that are in memory and that clients have not taken yet.
//!
//! What a client does not take stays in memory, so there are bounds: for a connection, for a
//! network of clients, and for all. Beyond one of them, no call of the connection is read from its
//! socket until its replies were taken. Bytes of titles do not count: they have memory of their
//! own.

use crate::limits::{
    OWED_BYTES_MAX, OWED_BYTES_OF_BUSY_CONNECTION_MAX, OWED_BYTES_OF_CLIENT_MAX, OWED_BYTES_OF_CONNECTION_MAX,
};
use std::collections::HashMap;
use std::net::IpAddr;

/// What is owed to all clients of a thread.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    bytes: usize,
    /// By network. One to which nothing is owed is not in it.
    of_clients: HashMap<IpAddr, usize>,
}

impl Owed {
    /// A reply to a client of this network has so many bytes in memory, and had `before`.
    pub(crate) fn change(&mut self, network: IpAddr, before: usize, bytes: usize) {
        self.bytes = self.bytes - before + bytes;
        let of_client = self.of_clients.entry(network).or_default();
        *of_client = *of_client - before + bytes;
        if *of_client == 0 {
            self.of_clients.remove(&network);
        }
    }

    /// What is owed to all.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the next call of a connection is read, to which so many bytes are owed. Reads of
    /// titles are always within what a connection may owe, so no other client slows them.
    pub(crate) fn may_take(&self, network: IpAddr, of_connection: usize) -> bool {
        let of_client = self.of_clients.get(&network).copied().unwrap_or(0);
        let is_much = self.bytes >= OWED_BYTES_MAX || of_client >= OWED_BYTES_OF_CLIENT_MAX;
        let max = if is_much { OWED_BYTES_OF_BUSY_CONNECTION_MAX } else { OWED_BYTES_OF_CONNECTION_MAX };
        of_connection < max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{CONNECTIONS_MAX, DIRECTORY_BYTES_MAX, REQUESTS_MAX};
    use std::net::Ipv4Addr;

    const PAGE_BYTES: usize = DIRECTORY_BYTES_MAX as usize;
    /// The head of a READ.
    const HEAD_BYTES: usize = 136;

    fn network(number: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(number as u32))
    }

    /// Lists directories on so many connections of each of so many networks, and takes nothing.
    /// Returns what is owed.
    fn list_on(networks: usize, connections: usize) -> Owed {
        let mut owed = Owed::default();
        for connection in 0..networks * connections {
            let network = network(connection / connections);
            let mut own = 0;
            while own / PAGE_BYTES < REQUESTS_MAX && owed.may_take(network, own) {
                owed.change(network, 0, PAGE_BYTES);
                own += PAGE_BYTES;
            }
            assert!(own >= PAGE_BYTES, "each connection gets an answer");
            assert!(own < OWED_BYTES_OF_CONNECTION_MAX + PAGE_BYTES);
        }
        owed
    }

    #[test]
    fn what_is_owed_is_bounded_for_a_connection_a_client_and_all() {
        assert_eq!(list_on(1, 1).bytes(), OWED_BYTES_OF_CONNECTION_MAX);
        let of_client = list_on(1, 800).bytes();
        assert!(of_client <= OWED_BYTES_OF_CLIENT_MAX + 800 * PAGE_BYTES, "{of_client}");
        let of_all = list_on(CONNECTIONS_MAX, 1).bytes();
        assert!(of_all <= OWED_BYTES_MAX + CONNECTIONS_MAX * PAGE_BYTES, "{of_all}");
    }

    #[test]
    fn no_read_waits_for_what_others_are_owed() {
        let owed = list_on(CONNECTIONS_MAX, 1);
        assert!(owed.bytes() > OWED_BYTES_MAX);
        for under_way in 0..REQUESTS_MAX {
            assert!(owed.may_take(network(CONNECTIONS_MAX), under_way * HEAD_BYTES), "{under_way}");
        }
    }

    #[test]
    fn what_was_taken_is_owed_no_more() {
        let mut owed = list_on(3, 100);
        let each = owed.bytes() / 3;
        for number in 0..3 {
            let of_client = owed.of_clients[&network(number)];
            assert_eq!(of_client, each);
            owed.change(network(number), of_client, 0);
        }
        assert_eq!((owed.bytes(), owed.of_clients.len()), (0, 0));
    }
}
