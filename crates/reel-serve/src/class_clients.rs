//! Which clients may ask for a class of traffic by its name. Pure.
//!
//! Without a name, a client plays in the periodic class. Each class has a share of the machine. A
//! client that could name any class would get the shares that are meant for others.

use reel_admit::{AddressRange, Client};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// The clients that may ask for a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassClients {
    /// All.
    All,
    /// Those on this machine.
    Local,
    /// Those at these addresses.
    At(Vec<AddressRange>),
}

/// The clients of each class, by the name of the class.
#[derive(Clone, Debug, Default)]
pub struct ClassRights(HashMap<String, ClassClients>);

/// The built-in classes that all clients may ask for if nothing else is configured. The first one
/// is what each player gets anyway, and the second one waits for all others.
const OPEN: [&str; 2] = ["periodic", "aperiodic"];

impl ClassClients {
    /// The clients of a class for which none are configured.
    pub fn default_of(class: &str) -> ClassClients {
        if OPEN.contains(&class) { ClassClients::All } else { ClassClients::Local }
    }

    /// Whether a client is one of them. Users are clients on this machine.
    pub fn has(&self, client: Client) -> bool {
        let address = match client {
            Client::Address(address) => address.to_canonical(),
            Client::User(_) | Client::Server => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        match self {
            ClassClients::All => true,
            ClassClients::Local => address.is_loopback(),
            ClassClients::At(ranges) => ranges.iter().any(|range| range.contains(address)),
        }
    }
}

impl ClassRights {
    /// These clients for these classes; [`ClassClients::default_of`] for all others.
    pub fn new(clients: impl IntoIterator<Item = (String, ClassClients)>) -> ClassRights {
        ClassRights(clients.into_iter().collect())
    }

    /// Whether a client may ask for a class.
    pub fn allow(&self, class: &str, client: Client) -> bool {
        match self.0.get(class) {
            Some(clients) => clients.has(client),
            None => ClassClients::default_of(class).has(client),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Client {
        Client::Address(address.parse().expect("an address"))
    }

    #[test]
    fn clients_elsewhere_may_ask_for_what_all_have_and_for_what_waits_for_all() {
        let rights = ClassRights::default();
        for class in ["periodic", "aperiodic"] {
            assert!(rights.allow(class, at("192.0.2.7")));
        }
        for class in ["interactive", "gold"] {
            assert!(!rights.allow(class, at("192.0.2.7")));
            for client in [at("127.0.0.1"), at("::1"), at("::ffff:127.0.0.1"), Client::User(1000)] {
                assert!(rights.allow(class, client), "{client}");
            }
        }
    }

    #[test]
    fn the_configuration_decides() {
        let ranges = vec!["192.0.2.0/24".parse().expect("a range")];
        let rights = ClassRights::new([
            ("gold".to_owned(), ClassClients::At(ranges)),
            ("interactive".to_owned(), ClassClients::All),
            ("aperiodic".to_owned(), ClassClients::Local),
        ]);
        assert!(rights.allow("gold", at("192.0.2.7")) && !rights.allow("gold", at("198.51.100.1")));
        assert!(!rights.allow("gold", Client::User(0)), "this machine is not named");
        assert!(rights.allow("interactive", at("198.51.100.1")));
        assert!(!rights.allow("aperiodic", at("198.51.100.1")));
    }
}
