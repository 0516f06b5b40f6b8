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
use reel_admit::Session;
use reel_play::PlayableTitle;
use reel_serve::OpenedSession;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;

/// A user of a client who reads a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReaderKey {
    pub(crate) client: IpAddr,
    pub(crate) user: u32,
    pub(crate) title: TitleKey,
}

/// All readers that have read a while ago or later.
#[derive(Default)]
pub(crate) struct Readers(HashMap<ReaderKey, Watched>);

/// A reader, and what is promised to it.
#[derive(Default)]
pub(crate) struct Watched {
    pub(crate) reader: Reader,
    pub(crate) place: Place,
    last_ns: u64,
}

/// What a reader is promised. Its session ends with the promise.
#[derive(Default)]
pub(crate) enum Place {
    /// Nothing yet: nothing shows that it plays.
    #[default]
    None,
    /// Its deadlines.
    Promised(OpenedSession),
    /// The same, while it has not read anything yet. Until a time.
    Held(OpenedSession, u64),
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

impl Readers {
    /// The reader of this key, who reads now. `None` if there are too many.
    pub(crate) fn reads(&mut self, key: ReaderKey, now_ns: u64) -> Option<&mut Watched> {
        if !self.0.contains_key(&key) && !self.has_room(key.client) {
            return None;
        }
        let watched = self.0.entry(key).or_default();
        watched.last_ns = now_ns;
        Some(watched)
    }

    /// The reader of this key, if it is known.
    pub(crate) fn get_mut(&mut self, key: ReaderKey) -> Option<&mut Watched> {
        self.0.get_mut(&key)
    }

    /// Whether another place may be held for a client.
    pub(crate) fn may_hold(&self, key: ReaderKey) -> bool {
        let is_held = |place: &Place| matches!(place, Place::Held(..));
        let of_client = self.0.iter().filter(|(other, _)| other.client == key.client && **other != key);
        of_client.filter(|(_, watched)| is_held(&watched.place)).count() < HELD_OF_CLIENT_MAX
    }

    /// Forgets readers that have left. Their sessions end with them.
    pub(crate) fn forget(&mut self, now_ns: u64) {
        self.0.retain(|_, watched| match &watched.place {
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
    pub(crate) fn status(&self, client: IpAddr, title: &ListedTitle) -> String {
        let of_title = self.0.iter().filter(|(key, _)| key.client == client && key.title == title.key);
        let mut readers: Vec<_> = of_title.collect();
        readers.sort_by_key(|(key, _)| key.user);
        let mut text = String::new();
        for (key, watched) in readers {
            let user = if key.user == NO_USER { "no user".into() } else { format!("user {}", key.user) };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{user} of {client}: {}", watched.place.text());
        }
        if text.is_empty() {
            let _ = writeln!(text, "no user of {client} reads {} in /play", title.id);
        }
        text
    }

    /// Whether there is room for another reader of a client.
    fn has_room(&self, client: IpAddr) -> bool {
        self.0.len() < READERS_MAX
            && self.0.keys().filter(|key| key.client == client).count() < READERS_OF_CLIENT_MAX
    }
}

impl Place {
    /// A place that is held from now on.
    pub(crate) fn held(session: OpenedSession, now_ns: u64) -> Place {
        Place::Held(session, now_ns.saturating_add(HELD_NS))
    }

    /// A refusal at this time.
    pub(crate) fn refused(reason: impl ToString, now_ns: u64) -> Place {
        Place::Refused(reason.to_string(), now_ns.saturating_add(REFUSED_AGAIN_NS))
    }

    pub(crate) fn standing(&self) -> Standing {
        match self {
            Place::None => Standing::Unknown,
            Place::Promised(_) | Place::Held(..) => Standing::Admitted,
            Place::Refused(..) => Standing::Refused,
        }
    }

    /// The session, if something is promised.
    pub(crate) fn session(&self) -> Option<&Arc<Session<PlayableTitle>>> {
        match self {
            Place::Promised(session) | Place::Held(session, _) => Some(session),
            Place::None | Place::Refused(..) => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn key(client: u8, user: u32) -> ReaderKey {
        let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, client));
        ReaderKey { client, user, title: TitleKey::new("film", "first") }
    }

    #[test]
    fn a_client_has_a_bounded_number_of_readers() {
        let mut readers = Readers::default();
        for user in 0..READERS_OF_CLIENT_MAX as u32 {
            assert!(readers.reads(key(1, user), 0).is_some());
        }
        assert!(readers.reads(key(1, 1000), 0).is_none());
        assert!(readers.reads(key(1, 3), 0).is_some() && readers.reads(key(2, 1000), 0).is_some());
        // Those who have left make room.
        readers.reads(key(1, 3), SECOND_NS);
        readers.forget(READER_IDLE_NS);
        assert_eq!(readers.0.len(), 1);
        assert!(readers.reads(key(1, 1000), READER_IDLE_NS).is_some());
    }

    #[test]
    fn a_client_is_told_of_its_own_users() {
        let mut readers = Readers::default();
        let title = ListedTitle { id: "film".into(), key: key(1, 0).title, bytes: 1, published_s: 0 };
        readers.reads(key(1, 1000), 0).expect("room").place = Place::refused("the network is full", 0);
        let said = readers.status(key(1, 0).client, &title);
        assert!(said.starts_with("user 1000 of 192.0.2.1: refused: the network is full. "), "{said}");
        assert_eq!(readers.status(key(2, 0).client, &title), "no user of 192.0.2.2 reads film in /play\n");
    }
}
