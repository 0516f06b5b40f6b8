//! Whose data was late, for the operator: the counters say how often, and not for whom.

use crate::limits::{LATE_JOIN_NS, LATE_VIEWERS_MAX};
use reel_admit::{Client, Session};
use reel_cache::{Late, SessionKey};
use reel_qos::Class;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Units that came late for one session, within a few seconds of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateViewer {
    /// The session. It may have ended since.
    pub session: SessionKey,
    /// The title that it played.
    pub title_id: String,
    /// Who opened it.
    pub client: Client,
    /// The class in which the units were wanted.
    pub class: Class,
    /// When the last of them came.
    pub at_ns: u64,
    /// How many they were.
    pub units: u64,
    /// How late the latest of them was.
    pub by_ns: u64,
}

/// The last [`LATE_VIEWERS_MAX`] of them.
#[derive(Debug, Default)]
pub struct LateViewers {
    /// The newest last.
    list: Mutex<VecDeque<LateViewer>>,
}

impl LateViewer {
    /// One unit that came late for a session, at this time.
    pub(crate) fn of<T>(session: &Session<T>, late: Late, at_ns: u64) -> LateViewer {
        LateViewer {
            session: session.key(),
            title_id: session.title_id().to_owned(),
            client: session.client(),
            class: late.class,
            at_ns,
            units: 1,
            by_ns: late.by_ns,
        }
    }
}

impl LateViewers {
    /// All of them, the newest first.
    pub fn list(&self) -> Vec<LateViewer> {
        self.lock().iter().rev().cloned().collect()
    }

    /// Notes a unit that came late. The oldest entry is dropped if there are too many.
    pub(crate) fn note(&self, new: LateViewer) {
        let mut list = self.lock();
        let is_same = |before: &LateViewer| {
            (before.session, before.class) == (new.session, new.class)
                && new.at_ns.saturating_sub(before.at_ns) <= LATE_JOIN_NS
        };
        let before = list.iter().position(is_same).and_then(|place| list.remove(place));
        let (units, by_ns) = before.map_or((0, 0), |before| (before.units, before.by_ns));
        if list.len() >= LATE_VIEWERS_MAX {
            list.pop_front();
        }
        list.push_back(LateViewer { units: units + new.units, by_ns: by_ns.max(new.by_ns), ..new });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<LateViewer>> {
        // Every change leaves a whole list.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn late_units_of_one_moment_are_one_entry_and_the_list_is_bounded() {
        let unit = |session, at_ns, by_ns| LateViewer {
            session,
            title_id: "film".to_owned(),
            client: Client::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            class: Class::PERIODIC,
            at_ns,
            units: 1,
            by_ns,
        };
        let key = || SessionKey::random().expect("random bytes");
        let (late, first, second) = (LateViewers::default(), key(), key());
        for (session, at_ns, by_ns) in [(first, 5, 70), (second, 6, 1), (first, 5 + LATE_JOIN_NS, 30)] {
            late.note(unit(session, at_ns, by_ns));
        }
        let joined = LateViewer { units: 2, ..unit(first, 5 + LATE_JOIN_NS, 70) };
        assert_eq!(late.list(), [joined.clone(), unit(second, 6, 1)], "the newest first");
        let next = unit(first, 6 + 2 * LATE_JOIN_NS, 4);
        late.note(next.clone());
        assert_eq!(late.list()[..2], [next.clone(), joined]);
        (1..LATE_VIEWERS_MAX).for_each(|_| late.note(unit(key(), next.at_ns, 1)));
        let list = late.list();
        assert_eq!((list.len(), list.last()), (LATE_VIEWERS_MAX, Some(&next)), "the oldest are dropped");
    }
}
