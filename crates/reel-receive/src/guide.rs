//! The casts that are announced (SAP, RFC 2974): pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use reel_rtp::sap::{Announcement, Origin};
use reel_rtp::sdp::Session;

use crate::limits::{GUIDE_CASTS_MAX, GUIDE_CASTS_OF_SENDER_MAX};

/// What was heard of announced casts. Announcements are not authenticated: a sender can announce
/// anything, but changes or deletes nothing that another address has announced.
#[derive(Debug, Default)]
pub struct Guide {
    /// If only one name is looked for.
    name: Option<String>,
    casts: BTreeMap<Key, Session>,
    counts: GuideCounts,
}

/// A cast that is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced<'a> {
    /// Its description.
    pub session: &'a Session,
    /// The address that the announcement came from.
    pub from: IpAddr,
}

/// What was heard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GuideCounts {
    /// Announcements of casts.
    pub announcements: u64,
    /// Deletions of casts that had been announced.
    pub deletions: u64,
    /// Announcements of what is no cast: other formats, sound, web conferences.
    pub others: u64,
    /// Datagrams that are no announcements that can be read.
    pub malformed: u64,
    /// Announcements of further casts when there was no room for any.
    pub no_room: u64,
}

/// Who sent it, and the origin of the description (RFC 8866, section 5.2) without its version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    from: IpAddr,
    user: String,
    session: String,
    address: String,
}

impl Key {
    fn new(from: IpAddr, origin: &Origin<'_>) -> Key {
        let Origin { user, session, address } = *origin;
        Key { from, user: user.to_owned(), session: session.to_owned(), address: address.to_owned() }
    }
}

impl Guide {
    /// Of all casts.
    #[must_use]
    pub fn new() -> Guide {
        Guide::default()
    }

    /// Of the casts of this name, which is shown or that of the cast. Others take no room.
    #[must_use]
    pub fn of_name(name: &str) -> Guide {
        Guide { name: Some(name.to_owned()), ..Guide::default() }
    }

    /// Takes a datagram.
    pub fn push(&mut self, datagram: &[u8], from: IpAddr) {
        let Ok(announcement) = Announcement::parse(datagram) else {
            self.counts.malformed += 1;
            return;
        };
        let Some(origin) = announcement.origin() else {
            self.counts.malformed += 1;
            return;
        };
        let key = Key::new(from, &origin);
        if announcement.is_deletion {
            self.counts.deletions += u64::from(self.casts.remove(&key).is_some());
            return;
        }
        let Ok(session) = Session::parse(announcement.text) else {
            self.counts.others += 1;
            return;
        };
        self.counts.announcements += 1;
        let is_of = |name: &String| *name == session.name || session.cast.as_ref() == Some(name);
        if self.name.as_ref().is_some_and(|name| !is_of(name)) {
            return;
        }
        if self.casts.contains_key(&key) || self.has_room(from) {
            self.casts.insert(key, session);
        } else {
            self.counts.no_room += 1;
        }
    }

    /// The casts, in the order of their names.
    #[must_use]
    pub fn casts<'a>(&'a self) -> Vec<Announced<'a>> {
        let announced = |(key, session): (&'a Key, &'a Session)| Announced { session, from: key.from };
        let mut casts: Vec<Announced<'_>> = self.casts.iter().map(announced).collect();
        casts.sort_by(|one, two| (&one.session.name, one.from).cmp(&(&two.session.name, two.from)));
        casts
    }

    /// What was heard.
    #[must_use]
    pub fn counts(&self) -> GuideCounts {
        self.counts
    }

    /// Whether one more cast of a sender is kept. One that announces very many leaves room for
    /// others.
    fn has_room(&self, from: IpAddr) -> bool {
        self.casts.len() < GUIDE_CASTS_MAX
            && self.casts.keys().filter(|key| key.from == from).count() < GUIDE_CASTS_OF_SENDER_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: [u8; 4] = [192, 0, 2, 1];
    const OTHER: [u8; 4] = [192, 0, 2, 2];

    fn text(session: usize, version: u32, name: &str) -> String {
        format!(
            "v=0\r\no=- {session} {version} IN IP4 192.0.2.1\r\ns={name}\r\nc=IN IP4 239.1.1.1/1\r\nt=0 0\r\n\
             m=video 5000 RTP/AVP 33\r\n"
        )
    }

    fn announce(guide: &mut Guide, text: &str, from: [u8; 4]) {
        guide.push(&Announcement::new(text, from.into()).write().expect("short"), from.into());
    }

    fn names(guide: &Guide) -> Vec<String> {
        guide.casts().iter().map(|cast| cast.session.name.clone()).collect()
    }

    #[test]
    fn casts_are_heard_changed_and_deleted() {
        let mut guide = Guide::new();
        announce(&mut guide, &text(1, 1, "b"), SENDER);
        announce(&mut guide, &text(2, 1, "a"), SENDER);
        announce(&mut guide, &text(1, 2, "c"), SENDER);
        assert_eq!(names(&guide), ["a", "c"]);
        let deletion = Announcement::deletion(&text(2, 1, "a"), SENDER.into()).write().expect("short");
        guide.push(&deletion, OTHER.into());
        assert_eq!(names(&guide).len(), 2, "deleted by another address");
        guide.push(&deletion, SENDER.into());
        assert_eq!(names(&guide), ["c"]);
        let counts = GuideCounts { announcements: 3, deletions: 1, ..GuideCounts::default() };
        assert_eq!(guide.counts(), counts);
    }

    #[test]
    fn another_address_changes_nothing() {
        let mut guide = Guide::new();
        announce(&mut guide, &text(1, 1, "film"), SENDER);
        announce(&mut guide, &text(1, 2, "trap"), OTHER);
        let casts = guide.casts();
        assert_eq!(casts[0].session.name, "film");
        assert_eq!((casts[0].from, casts[1].from), (SENDER.into(), OTHER.into()));
    }

    #[test]
    fn floods_are_bounded_and_counted() {
        let mut guide = Guide::new();
        let mut wanted = Guide::of_name("film");
        for session in 0..20 * GUIDE_CASTS_OF_SENDER_MAX {
            let from = [10, 0, 0, (session / 200) as u8];
            announce(&mut guide, &text(session, 1, "flood"), from);
            announce(&mut wanted, &text(session, 1, "flood"), from);
        }
        for datagram in [&b""[..], &[0xff; 1500], b"\x20\0\0\0\x0a\0\0\0v=0"] {
            guide.push(datagram, SENDER.into());
        }
        announce(&mut guide, &text(1, 1, "film").replace("RTP/AVP 33", "RTP/AVP 0"), SENDER);
        assert_eq!(guide.casts().len(), GUIDE_CASTS_MAX);
        let counts = guide.counts();
        assert_eq!((counts.malformed, counts.others), (3, 1));
        assert_eq!(counts.no_room + GUIDE_CASTS_MAX as u64, counts.announcements);
        // A name that is looked for has room, and is that of the title or of the cast.
        let named = text(2, 1, "film (two)").replace("t=0 0\r\n", "t=0 0\r\na=x-reel-cast:two\r\n");
        let mut of_cast = Guide::of_name("two");
        announce(&mut of_cast, &named, SENDER);
        assert_eq!(names(&of_cast), ["film (two)"]);
        announce(&mut wanted, &text(1, 1, "film"), SENDER);
        assert_eq!((names(&wanted), wanted.counts().no_room), (vec!["film".to_owned()], 0));
    }
}
