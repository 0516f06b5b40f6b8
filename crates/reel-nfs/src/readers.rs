//! The readers of titles, and the sessions that they play in.
//!
//! A reader is a user of a client machine who reads a title. No client says that it plays, pauses
//! or stops: its session is learnt from its reads ([`Reader`]).

use crate::handle::TitleKey;
use crate::limits::REFUSED_AGAIN_NS;
use crate::limits::{HELD_NS, HELD_OF_CLIENT_MAX, READER_IDLE_NS, READERS_MAX, READERS_OF_CLIENT_MAX};
use crate::listing::ListedTitle;
use crate::reader::Reader;
use crate::rpc::NO_USER;
use reel_admit::{Session, client_network};
use reel_play::PlayableTitle;
use reel_serve::{KnownReader, OpenedSession, ReaderName, ReaderTable};
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;

/// A reader that has read nothing for so long is said to be silent. What is reserved for one that
/// pauses is given back.
const SILENT_NS: u64 = 20 * SECOND_NS;

/// A user of a client who reads a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReaderKey {
    pub(crate) client: IpAddr,
    pub(crate) user: u32,
    pub(crate) title: TitleKey,
}

/// All readers that have read a while ago or later. `S` is a session that is open as long as this
/// exists.
pub(crate) struct Readers<S = OpenedSession>(ReaderTable<ReaderKey, Watched<S>>);

/// A reader, and what is promised to it.
pub(crate) struct Watched<S = OpenedSession> {
    pub(crate) reader: Reader,
    pub(crate) place: Place<S>,
    last_ns: u64,
}

/// What a reader is promised. Its session ends with the promise.
#[derive(Default)]
pub(crate) enum Place<S = OpenedSession> {
    /// Nothing yet: nothing shows that it plays.
    #[default]
    None,
    /// Its deadlines.
    Promised(S),
    /// The same, while it has not read anything yet. Until a time.
    Held(S, u64),
    /// Nothing, for this reason. It is tried again at a time.
    Refused(String, u64),
}

/// How a reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Unknown,
    Admitted,
    Refused,
}

impl<S> Readers<S> {
    /// The reader of this key, which reads now. `None` if there are too many to which something is
    /// promised.
    pub(crate) fn reads(&mut self, key: ReaderKey, now_ns: u64) -> Option<&mut Watched<S>> {
        let watched = self.0.find_or_add(&key, Watched::default)?;
        watched.last_ns = now_ns;
        Some(watched)
    }

    /// Whether a client may look at so many bytes more.
    pub(crate) fn may_look(&mut self, client: IpAddr, bytes: u64, now_ns: u64) -> bool {
        self.0.may_look(client, bytes, now_ns)
    }

    /// The reader of this key, if it is known.
    pub(crate) fn get_mut(&mut self, key: ReaderKey) -> Option<&mut Watched<S>> {
        self.0.get_mut(&key)
    }

    /// Whether another place may be held for a client.
    pub(crate) fn may_hold(&self, key: ReaderKey) -> bool {
        let is_held = |place: &Place<S>| matches!(place, Place::Held(..));
        let is_near = |other: &ReaderKey| client_network(other.client) == client_network(key.client);
        let of_client = self.0.iter().filter(|(other, _)| is_near(other) && **other != key);
        of_client.filter(|(_, watched)| is_held(&watched.place)).count() < HELD_OF_CLIENT_MAX
    }

    /// Forgets readers that have left. Their sessions end with them.
    pub(crate) fn forget(&mut self, now_ns: u64) {
        self.0.retain(|watched| match &watched.place {
            Place::Held(_, until_ns) => *until_ns > now_ns,
            _ => now_ns.saturating_sub(watched.last_ns) < READER_IDLE_NS,
        });
    }

    /// Nothing is promised any more: all sessions end.
    pub(crate) fn end_sessions(&mut self) {
        self.0.values_mut().for_each(|watched| watched.place = Place::None);
    }

    /// What the users of a client are to know of their reading of a title. Nothing of other clients
    /// is in it.
    pub(crate) fn status(&self, client: IpAddr, title: &ListedTitle, now_ns: u64) -> String {
        let of_title = self.0.iter().filter(|(key, _)| key.client == client && key.title == title.key);
        let mut readers: Vec<_> = of_title.collect();
        readers.sort_by_key(|(key, _)| key.user);
        let mut text = String::new();
        for (key, watched) in readers {
            let user = if key.user == NO_USER { "no user".into() } else { format!("user {}", key.user) };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{user} of {client}: {}", watched.text(now_ns));
        }
        if text.is_empty() {
            let _ = match self.0.is_full_of(client) {
                true => writeln!(
                    text,
                    "{READERS_OF_CLIENT_MAX} readers of this network are admitted, or {READERS_MAX} of all: no further \
                     one is until one of them has left"
                ),
                false => writeln!(text, "no user of {client} reads {} in /play", title.id),
            };
        }
        text
    }
}

impl<S> Default for Readers<S> {
    fn default() -> Self {
        Self(ReaderTable::new(READERS_MAX, READERS_OF_CLIENT_MAX))
    }
}

impl ReaderName for ReaderKey {
    fn client(&self) -> IpAddr {
        self.client
    }
}

impl<S> KnownReader for Watched<S> {
    fn is_promised(&self) -> bool {
        self.place.standing() == Standing::Admitted
    }

    fn seen_ns(&self) -> u64 {
        self.last_ns
    }
}

impl<S> Default for Watched<S> {
    fn default() -> Self {
        Self { reader: Reader::default(), place: Place::None, last_ns: 0 }
    }
}

impl<S> Watched<S> {
    fn text(&self, now_ns: u64) -> String {
        let silent_ns = now_ns.saturating_sub(self.last_ns);
        match &self.place {
            Place::Promised(_) if silent_ns >= SILENT_NS => format!(
                "was admitted, and has read nothing for {} s: nothing may be reserved until it reads on",
                silent_ns / SECOND_NS
            ),
            place => place.text(),
        }
    }
}

impl<S> Place<S> {
    /// A place that is held from now on.
    pub(crate) fn held(session: S, now_ns: u64) -> Self {
        Place::Held(session, now_ns.saturating_add(HELD_NS))
    }

    /// A refusal at this time.
    pub(crate) fn refused(reason: impl ToString, now_ns: u64) -> Self {
        Place::Refused(reason.to_string(), now_ns.saturating_add(REFUSED_AGAIN_NS))
    }

    pub(crate) fn standing(&self) -> Standing {
        match self {
            Place::None => Standing::Unknown,
            Place::Promised(_) | Place::Held(..) => Standing::Admitted,
            Place::Refused(..) => Standing::Refused,
        }
    }

    fn text(&self) -> String {
        match self {
            Place::None => "has read too little to be taken for a player; nothing is promised".into(),
            Place::Promised(_) => "admitted: every byte is promised to arrive in time".into(),
            Place::Held(..) => {
                format!("admitted: the place is held for {} s until reading begins", HELD_NS / SECOND_NS)
            }
            Place::Refused(reason, _) => format!(
                "refused: {reason}. What it reads comes as there is room, and may be late. It is tried again every \
                 {} s while it reads",
                REFUSED_AGAIN_NS / SECOND_NS
            ),
        }
    }
}

impl Place {
    /// The session, if something is promised.
    pub(crate) fn session(&self) -> Option<&Arc<Session<PlayableTitle>>> {
        match self {
            Place::Promised(session) | Place::Held(session, _) => Some(session),
            Place::None | Place::Refused(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn key(client: u8, user: u32) -> ReaderKey {
        let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, client));
        ReaderKey { client, user, title: TitleKey::new("film", "first") }
    }

    #[test]
    fn a_client_that_has_looked_at_many_titles_is_known_at_the_next_one() {
        let mut readers = Readers::<()>::default();
        for user in 0..10 * READERS_OF_CLIENT_MAX as u32 {
            assert!(readers.reads(key(1, user), u64::from(user)).is_some());
        }
        assert_eq!(readers.0.iter().count(), READERS_OF_CLIENT_MAX);
        readers.forget(READER_IDLE_NS + 10 * READERS_OF_CLIENT_MAX as u64);
        assert_eq!(readers.0.iter().count(), 0);
    }

    #[test]
    fn a_client_is_told_of_its_own_users() {
        let mut readers = Readers::<()>::default();
        let title = ListedTitle { id: "film".into(), key: key(1, 0).title, bytes: 1, published_s: 0 };
        readers.reads(key(1, 1000), 0).expect("room").place = Place::refused("the network is full", 0);
        let said = readers.status(key(1, 0).client, &title, 0);
        assert!(said.starts_with("user 1000 of 192.0.2.1: refused: the network is full. "), "{said}");
        let again = readers.status(key(1, 0).client, &title, 100 * SECOND_NS);
        assert!(again.contains("refused"), "{again}");
        assert_eq!(readers.status(key(2, 0).client, &title, 0), "no user of 192.0.2.2 reads film in /play\n");
    }

    #[test]
    fn a_place_is_held_for_10_s_and_four_at_once() {
        let mut readers = Readers::default();
        let from_ns = 50 * SECOND_NS;
        for user in 0..HELD_OF_CLIENT_MAX as u32 {
            assert!(readers.may_hold(key(1, user)), "{user}");
            readers.reads(key(1, user), from_ns).expect("room").place = Place::held((), from_ns);
        }
        assert!(!readers.may_hold(key(1, 9)));
        assert!(readers.may_hold(key(1, 0)), "its own place, again");
        assert!(readers.may_hold(key(2, 9)), "at another address");
        // One reads in time, and is promised what was held.
        let reads_ns = from_ns + 9 * SECOND_NS;
        readers.forget(reads_ns);
        readers.reads(key(1, 0), reads_ns).expect("known").place = Place::Promised(());
        let known = |readers: &Readers<()>| readers.0.iter().map(|(key, _)| key.user).min();
        readers.forget(from_ns + 10 * SECOND_NS - 1);
        assert_eq!(readers.0.iter().count(), 4);
        readers.forget(from_ns + 10 * SECOND_NS);
        assert_eq!((readers.0.iter().count(), known(&readers)), (1, Some(0)));
        assert!(readers.may_hold(key(1, 9)));
        readers.forget(reads_ns + READER_IDLE_NS - 1);
        assert_eq!(known(&readers), Some(0));
        readers.forget(reads_ns + READER_IDLE_NS);
        assert_eq!(known(&readers), None);
    }
}
