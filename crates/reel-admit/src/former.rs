//! Sessions that ended because their clients were silent for too long. Pure.
//!
//! A player that was paused for an hour continues with the address that it has. Its session is
//! opened again under the same key, if there is room.

use crate::client::Client;
use crate::limits::FORMER_SESSIONS_MAX;
use reel_cache::SessionKey;
use reel_qos::Class;
use std::collections::{BTreeMap, HashMap};

/// What is needed to open a session again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerSession {
    /// The title that it played.
    pub title_id: String,
    /// The bytes that it played: another title of the same id has another edition.
    pub edition: String,
    /// Its class.
    pub class: Class,
    /// Who opened it.
    pub client: Client,
}

/// The last of them, by key.
#[derive(Debug, Default)]
pub(crate) struct FormerSessions {
    by_key: HashMap<SessionKey, (u64, FormerSession)>,
    oldest_first: BTreeMap<u64, SessionKey>,
    ended: u64,
}

impl FormerSessions {
    /// A session has ended. The one that ended first is forgotten if there are too many.
    pub(crate) fn insert(&mut self, key: SessionKey, former: FormerSession) {
        self.remove(&key);
        self.ended += 1;
        self.by_key.insert(key, (self.ended, former));
        self.oldest_first.insert(self.ended, key);
        if self.by_key.len() > FORMER_SESSIONS_MAX
            && let Some((_, oldest)) = self.oldest_first.pop_first()
        {
            self.by_key.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, key: &SessionKey) -> Option<&FormerSession> {
        self.by_key.get(key).map(|(_, former)| former)
    }

    /// The session was opened again, or its client has closed it.
    pub(crate) fn remove(&mut self, key: &SessionKey) -> bool {
        let Some((number, _)) = self.by_key.remove(key) else { return false };
        self.oldest_first.remove(&number);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn former(number: usize) -> FormerSession {
        let (title_id, edition) = (number.to_string(), String::new());
        FormerSession { title_id, edition, class: Class::PERIODIC, client: Client::User(0) }
    }

    #[test]
    fn the_last_ones_are_known() {
        let mut all = FormerSessions::default();
        let keys: Vec<_> = (0..FORMER_SESSIONS_MAX + 2).map(|_| SessionKey::random().unwrap()).collect();
        for (number, key) in keys.iter().enumerate() {
            all.insert(*key, former(number));
            all.insert(*key, former(number));
        }
        assert_eq!((all.by_key.len(), all.oldest_first.len()), (FORMER_SESSIONS_MAX, FORMER_SESSIONS_MAX));
        assert_eq!((all.get(&keys[1]), all.get(&keys[2])), (None, Some(&former(2))));
        assert!(all.remove(&keys[2]) && !all.remove(&keys[2]));
        assert_eq!(all.oldest_first.len(), FORMER_SESSIONS_MAX - 1);
    }
}
