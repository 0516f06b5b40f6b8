//! Which clients may ask for a class of traffic by its name. Pure.
//!
//! Without a name, a client plays in the periodic class. Each class has a share of the machine. A
//! client that could name any class would get the shares that are meant for others.

use crate::allowed_clients::AllowedClients;
use reel_admit::Client;
use std::collections::HashMap;

/// The clients of each class, by the name of the class.
#[derive(Clone, Debug, Default)]
pub struct ClassRights(HashMap<String, AllowedClients>);

/// The built-in classes that all clients may ask for if nothing else is configured. The first one
/// is what each player gets anyway, and the second one waits for all others.
const OPEN: [&str; 2] = ["periodic", "aperiodic"];

impl ClassRights {
    /// These clients for these classes; [`ClassRights::default_of`] for all others.
    pub fn new(clients: impl IntoIterator<Item = (String, AllowedClients)>) -> ClassRights {
        ClassRights(clients.into_iter().collect())
    }

    /// The clients of a class for which none are configured.
    pub fn default_of(class: &str) -> AllowedClients {
        if OPEN.contains(&class) { AllowedClients::All } else { AllowedClients::Local }
    }

    /// Whether a client may ask for a class.
    pub fn allow(&self, class: &str, client: Client) -> bool {
        match self.0.get(class) {
            Some(clients) => clients.has(client),
            None => ClassRights::default_of(class).has(client),
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
            ("gold".to_owned(), AllowedClients::At(ranges)),
            ("interactive".to_owned(), AllowedClients::All),
            ("aperiodic".to_owned(), AllowedClients::Local),
        ]);
        assert!(rights.allow("gold", at("192.0.2.7")) && !rights.allow("gold", at("198.51.100.1")));
        assert!(!rights.allow("gold", Client::User(0)), "this machine is not named");
        assert!(rights.allow("interactive", at("198.51.100.1")));
        assert!(!rights.allow("aperiodic", at("198.51.100.1")));
    }
}
