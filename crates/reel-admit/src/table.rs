//! All open sessions by key, and how many of them each client holds. Pure.

use crate::address_range::AddressRange;
use crate::client::{Client, is_gateway};
use crate::former::{FormerSession, FormerSessions};
use crate::limits::{CLIENT_PART, SESSIONS_PER_CLIENT_MAX, UNSTARTED_PER_CLIENT_MAX};
use crate::session::Session;
use crate::sessions::OpenRefused;
use reel_cache::SessionKey;
use std::collections::HashMap;
use std::sync::Arc;

/// The sessions, and the bounds of their number and of their silence.
#[derive(Debug)]
pub(crate) struct Table<T> {
    sessions_max: usize,
    idle_max_ns: u64,
    /// Addresses that speak for many clients.
    pub(crate) gateways: Vec<AddressRange>,
    by_key: HashMap<SessionKey, Arc<Session<T>>>,
    by_client: HashMap<Client, Held>,
    former: FormerSessions,
}

/// The sessions of a client; [`Client::counted`] defines which addresses are the same client.
#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_title: HashMap<String, usize>,
}

impl<T> Table<T> {
    /// An empty table for so many sessions, each of which may be silent for so long.
    pub(crate) fn new(sessions_max: usize, idle_max_ns: u64) -> Self {
        Self {
            sessions_max,
            idle_max_ns,
            gateways: Vec::new(),
            by_key: HashMap::new(),
            by_client: HashMap::new(),
            former: FormerSessions::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn get(&self, key: &SessionKey) -> Option<&Arc<Session<T>>> {
        self.by_key.get(key)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Session<T>>> {
        self.by_key.values()
    }

    /// Whether another session of this client with this title may be opened.
    pub(crate) fn has_room(&self, client: Client, title_id: &str, now_ns: u64) -> Result<(), OpenRefused> {
        if self.by_key.len() >= self.sessions_max {
            let oldest_ns = self.all().map(|session| session.used_ns()).min().unwrap_or(now_ns);
            let left_ns = oldest_ns.saturating_add(self.idle_max_ns).saturating_sub(now_ns);
            let retry_after_s = left_ns.div_ceil(1_000_000_000).max(1);
            return Err(OpenRefused::Full { max: self.sessions_max, retry_after_s });
        }
        match client {
            Client::Server => return Ok(()),
            Client::Address(address) if is_gateway(address, &self.gateways) => return Ok(()),
            Client::Address(_) | Client::User(_) | Client::NamedUser(_) => {}
        }
        let client = client.counted();
        let Some(held) = self.by_client.get(&client) else { return Ok(()) };
        let of_title = held.by_title.get(title_id).copied().unwrap_or(0);
        if of_title >= SESSIONS_PER_CLIENT_MAX {
            return Err(OpenRefused::Client { held: of_title });
        }
        if held.all >= (self.sessions_max / CLIENT_PART).max(SESSIONS_PER_CLIENT_MAX) {
            return Err(OpenRefused::Client { held: held.all });
        }
        if held.all >= UNSTARTED_PER_CLIENT_MAX {
            let is_unstarted = |session: &&Arc<Session<T>>| {
                session.client.counted() == client && session.state().is_unstarted()
            };
            let held = self.all().filter(is_unstarted).count();
            if held >= UNSTARTED_PER_CLIENT_MAX {
                return Err(OpenRefused::Unstarted { held });
            }
        }
        Ok(())
    }

    pub(crate) fn insert(&mut self, session: &Arc<Session<T>>) {
        let held = self.by_client.entry(session.client.counted()).or_default();
        held.all += 1;
        *held.by_title.entry(session.title_id().to_owned()).or_default() += 1;
        self.by_key.insert(session.key, Arc::clone(session));
        self.former.remove(&session.key);
    }

    /// The session that had this key until its client was silent for too long.
    pub(crate) fn former(&self, key: &SessionKey) -> Option<&FormerSession> {
        self.former.get(key)
    }

    /// Lets a session of an earlier process be opened again by its key.
    pub(crate) fn remember(&mut self, key: SessionKey, former: FormerSession) {
        if !self.by_key.contains_key(&key) {
            self.former.insert(key, former);
        }
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&mut self, key: &SessionKey) -> bool {
        self.former.remove(key)
    }

    /// Removes a session that has been silent for too long. It can be opened again.
    pub(crate) fn expire(&mut self, key: &SessionKey) -> Option<Arc<Session<T>>> {
        let session = self.remove(key)?;
        if let Some(former) = session.former() {
            self.former.insert(*key, former);
        }
        Some(session)
    }

    pub(crate) fn remove(&mut self, key: &SessionKey) -> Option<Arc<Session<T>>> {
        let session = self.by_key.remove(key)?;
        let client = session.client.counted();
        if let Some(held) = self.by_client.get_mut(&client) {
            held.all -= 1;
            if let Some(of_title) = held.by_title.get_mut(session.title_id()) {
                *of_title -= 1;
                if *of_title == 0 {
                    held.by_title.remove(session.title_id());
                }
            }
            if held.all == 0 {
                self.by_client.remove(&client);
            }
        }
        Some(session)
    }

    /// How long a session may be silent.
    pub(crate) fn idle_max_ns(&self) -> u64 {
        self.idle_max_ns
    }

    /// Whether a session has been silent for too long.
    pub(crate) fn is_idle(&self, session: &Session<T>, now_ns: u64) -> bool {
        now_ns.saturating_sub(session.used_ns()) > self.idle_max_ns
    }

    /// Removes and returns the sessions that have been silent for too long.
    pub(crate) fn remove_idle(&mut self, now_ns: u64) -> Vec<Arc<Session<T>>> {
        let idle = self.all().filter(|session| self.is_idle(session, now_ns));
        let idle: Vec<_> = idle.map(|session| session.key).collect();
        idle.iter().filter_map(|key| self.expire(key)).collect()
    }
}
