//! What the key of a session is used for, and whether that is what it was given for (Prism, section
//! 4.2: an access key stops a client from exceeding its agreement). Pure.

use crate::Refusal;
use reel_admit::{Client, FormerSession, Session};
use reel_qos::{Class, ClassTable};

/// The session of a key: what the key was given for.
#[derive(Clone, Copy, Debug)]
pub struct KeyOf<'a> {
    /// The title.
    pub title_id: &'a str,
    /// The class.
    pub class: Class,
    /// Who opened it.
    pub client: Client,
}

/// A request with a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyUse<'a> {
    /// The title that the request names, if it names one.
    pub title: Option<&'a str>,
    /// The class that the request names, if it names one.
    pub class: Option<&'a str>,
    /// Who sends it.
    pub client: Client,
}

impl<'a> KeyOf<'a> {
    /// The key of a session.
    pub fn session<T>(session: &'a Session<T>) -> Self {
        Self { title_id: session.title_id(), class: session.class(), client: session.client() }
    }

    /// The key of a session that ended because its client was silent.
    pub fn former(former: &'a FormerSession) -> Self {
        Self { title_id: &former.title_id, class: former.class, client: former.client }
    }

    /// Whether the key may be used so. `binds_client`: only by the client that opened the session.
    /// The key of a user of this machine is for that user in any case.
    ///
    /// # Errors
    /// What it exceeds: [`Refusal::KeyOfTitle`], [`Refusal::KeyOfClass`], [`Refusal::KeyOfClient`],
    /// [`Refusal::KeyOfUser`].
    pub fn allows(self, used: KeyUse<'_>, classes: &ClassTable, binds_client: bool) -> Result<(), Refusal> {
        let title = || self.title_id.to_owned();
        if matches!(self.client, Client::NamedUser(_)) && !self.client.is_same(used.client) {
            return Err(Refusal::KeyOfUser);
        }
        if binds_client && !self.client.is_same(used.client) {
            return Err(Refusal::KeyOfClient);
        }
        if let Some(other) = used.title.filter(|other| *other != self.title_id) {
            return Err(Refusal::KeyOfTitle { title: title(), other: other.to_owned() });
        }
        let class = &classes.spec(self.class).name;
        match used.class.filter(|other| other != class) {
            Some(other) => {
                Err(Refusal::KeyOfClass { title: title(), class: class.clone(), other: other.to_owned() })
            }
            None => Ok(()),
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
    fn the_key_of_a_user_is_for_that_user() {
        let classes = ClassTable::default();
        let of = |client| KeyOf { title_id: "film", class: Class::APERIODIC, client };
        let allows =
            |of: KeyOf<'_>, client| of.allows(KeyUse { title: None, class: None, client }, &classes, false);
        let users = of(Client::NamedUser(1000));
        assert_eq!(allows(users, Client::NamedUser(1000)), Ok(()));
        for other in [Client::NamedUser(1001), Client::NamedUser(0), at("127.0.0.1"), at("192.0.2.1")] {
            assert_eq!(allows(users, other), Err(Refusal::KeyOfUser), "{other}");
        }
        // A player on this machine may be given an address by a program that knows it.
        assert_eq!(allows(of(at("127.0.0.1")), Client::NamedUser(1000)), Ok(()));
    }

    #[test]
    fn a_key_is_for_one_title_one_class_and_if_configured_one_client() {
        let classes = ClassTable::default();
        let key = KeyOf { title_id: "film", class: Class::APERIODIC, client: at("2001:db8:1::7") };
        let allows = |title, class, client, binds_client| {
            key.allows(KeyUse { title, class, client: at(client) }, &classes, binds_client)
        };
        let (own, elsewhere) = ("2001:db8:1::8", "192.0.2.1");
        for client in [own, elsewhere] {
            assert_eq!(allows(None, None, client, false), Ok(()));
            assert_eq!(allows(Some("film"), Some("aperiodic"), client, false), Ok(()));
        }
        assert!(matches!(allows(Some("other"), None, own, false), Err(Refusal::KeyOfTitle { .. })));
        assert!(matches!(allows(None, Some("periodic"), own, false), Err(Refusal::KeyOfClass { .. })));
        assert!(matches!(allows(None, Some("royal"), own, false), Err(Refusal::KeyOfClass { .. })));
        assert_eq!(allows(Some("film"), None, own, true), Ok(()), "its network is one client");
        assert_eq!(allows(None, None, elsewhere, true), Err(Refusal::KeyOfClient));
        assert_eq!(
            allows(Some("other"), Some("periodic"), elsewhere, true),
            Err(Refusal::KeyOfClient),
            "who does not have the key is not told of its title"
        );
    }
}
