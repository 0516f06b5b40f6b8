//! QoS contexts: one open instance of a title by one client (Prism, section 4.2).
//!
//! The key is the session's name in every URL, so unmodified players carry their class in plain requests.

use crate::limits::{SESSION_KEY_BYTES, SESSIONS_PER_CLIENT_MAX};
use reel_qos::Class;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// An unguessable name of a session: 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey([u8; SESSION_KEY_BYTES]);

/// One open instance of a title by one client; `T` is what it plays.
#[derive(Debug)]
pub struct Session<T> {
    key: SessionKey,
    title_id: String,
    client: IpAddr,
    class: Class,
    opened_ns: u64,
    used_ns: AtomicU64,
    sent_bytes: AtomicU64,
    requests: AtomicU64,
    playing: Arc<T>,
}

/// What the rest of the program may know of a session.
#[derive(Clone, Debug)]
pub struct SessionSummary {
    /// Its key.
    pub key: SessionKey,
    /// The title it plays.
    pub title_id: String,
    /// The address that opened it.
    pub client: IpAddr,
    /// Its class.
    pub class: Class,
    /// Nanoseconds since it was opened.
    pub age_ns: u64,
    /// Nanoseconds since its last request.
    pub idle_ns: u64,
    /// Media bytes sent.
    pub sent_bytes: u64,
    /// Requests answered.
    pub requests: u64,
}

/// Bounds of the table.
#[derive(Clone, Copy, Debug)]
pub struct SessionsConfig {
    /// Most sessions at once.
    pub sessions_max: usize,
    /// A session without a request for this long is forgotten.
    pub idle_max_ns: u64,
}

/// Why a session was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenRefused {
    /// One client address holds too many.
    #[error("this address already holds {held} sessions, the most one address may; close some or wait")]
    Client {
        /// How many it holds.
        held: usize,
    },
    /// The table is full.
    #[error("all {max} sessions are taken; try again in {retry_after_s} s")]
    Full {
        /// The bound.
        max: usize,
        /// When the least used one would be forgotten.
        retry_after_s: u64,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes for a session key: {0}")]
    NoRandom(String),
}

impl OpenRefused {
    /// When it is worth asking again.
    pub fn retry_after_s(&self) -> u64 {
        match self {
            OpenRefused::Full { retry_after_s, .. } => *retry_after_s,
            OpenRefused::Client { .. } | OpenRefused::NoRandom(_) => 10,
        }
    }
}

/// All sessions, shared by every thread.
#[derive(Debug)]
pub struct Sessions<T> {
    config: SessionsConfig,
    table: Mutex<Table<T>>,
}

#[derive(Debug)]
struct Table<T> {
    by_key: HashMap<SessionKey, Arc<Session<T>>>,
    by_client: HashMap<IpAddr, usize>,
}

impl<T> Sessions<T> {
    /// An empty table.
    pub fn new(config: SessionsConfig) -> Self {
        Self { config, table: Mutex::new(Table { by_key: HashMap::new(), by_client: HashMap::new() }) }
    }

    /// Opens a session; forgets idle ones first.
    pub fn open(
        &self,
        title_id: &str,
        playing: Arc<T>,
        client: IpAddr,
        class: Class,
        now_ns: u64,
    ) -> Result<Arc<Session<T>>, OpenRefused> {
        let key = SessionKey::random()?;
        let mut table = self.lock();
        table.forget_idle(self.config.idle_max_ns, now_ns);
        if table.by_key.len() >= self.config.sessions_max {
            let oldest_ns =
                table.by_key.values().map(|s| s.used_ns.load(Ordering::Relaxed)).min().unwrap_or(now_ns);
            let left_ns = oldest_ns.saturating_add(self.config.idle_max_ns).saturating_sub(now_ns);
            return Err(OpenRefused::Full {
                max: self.config.sessions_max,
                retry_after_s: left_ns.div_ceil(1_000_000_000).max(1),
            });
        }
        let held = table.by_client.entry(client).or_default();
        if *held >= SESSIONS_PER_CLIENT_MAX {
            return Err(OpenRefused::Client { held: *held });
        }
        *held += 1;
        let session = Arc::new(Session {
            key,
            title_id: title_id.to_owned(),
            client,
            class,
            opened_ns: now_ns,
            used_ns: AtomicU64::new(now_ns),
            sent_bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            playing,
        });
        table.by_key.insert(key, Arc::clone(&session));
        Ok(session)
    }

    /// The session of a key, marked as used now.
    pub fn touch(&self, key: &SessionKey, now_ns: u64) -> Option<Arc<Session<T>>> {
        let session = Arc::clone(self.lock().by_key.get(key)?);
        if now_ns.saturating_sub(session.used_ns.load(Ordering::Relaxed)) > self.config.idle_max_ns {
            self.close(key);
            return None;
        }
        session.used_ns.store(now_ns, Ordering::Relaxed);
        session.requests.fetch_add(1, Ordering::Relaxed);
        Some(session)
    }

    /// Ends a session; `false` if there was none. Responses under way are finished.
    pub fn close(&self, key: &SessionKey) -> bool {
        self.lock().remove(key)
    }

    /// Forgets the sessions that were idle for too long.
    pub fn forget_idle(&self, now_ns: u64) {
        self.lock().forget_idle(self.config.idle_max_ns, now_ns);
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// After how much silence a session is forgotten.
    pub fn idle_max_ns(&self) -> u64 {
        self.config.idle_max_ns
    }

    /// All sessions, oldest first.
    pub fn list(&self, now_ns: u64) -> Vec<SessionSummary> {
        let mut all: Vec<_> = self.lock().by_key.values().map(|s| s.summary(now_ns)).collect();
        all.sort_by_key(|s| std::cmp::Reverse(s.age_ns));
        all
    }

    fn lock(&self) -> MutexGuard<'_, Table<T>> {
        // A panic elsewhere leaves the table whole: every change of it is one insert or remove.
        self.table.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> Table<T> {
    fn remove(&mut self, key: &SessionKey) -> bool {
        let Some(session) = self.by_key.remove(key) else { return false };
        if let Some(held) = self.by_client.get_mut(&session.client) {
            *held -= 1;
            if *held == 0 {
                self.by_client.remove(&session.client);
            }
        }
        true
    }

    fn forget_idle(&mut self, idle_max_ns: u64, now_ns: u64) {
        let idle: Vec<_> = self
            .by_key
            .values()
            .filter(|s| now_ns.saturating_sub(s.used_ns.load(Ordering::Relaxed)) > idle_max_ns)
            .map(|s| s.key)
            .collect();
        for key in idle {
            self.remove(&key);
        }
    }
}

impl<T> Session<T> {
    /// Its name in URLs.
    pub fn key(&self) -> SessionKey {
        self.key
    }

    /// The class of its reads.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The id of the title it plays.
    pub fn title_id(&self) -> &str {
        &self.title_id
    }

    /// What it plays.
    pub fn playing(&self) -> &Arc<T> {
        &self.playing
    }

    /// Counts media bytes sent, and keeps the session from growing idle while it is being sent to.
    pub fn sent(&self, bytes: u64, now_ns: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.used_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    fn summary(&self, now_ns: u64) -> SessionSummary {
        SessionSummary {
            key: self.key,
            title_id: self.title_id.clone(),
            client: self.client,
            class: self.class,
            age_ns: now_ns.saturating_sub(self.opened_ns),
            idle_ns: now_ns.saturating_sub(self.used_ns.load(Ordering::Relaxed)),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }
}

impl SessionKey {
    fn random() -> Result<Self, OpenRefused> {
        let mut bytes = [0; SESSION_KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|e| OpenRefused::NoRandom(e.to_string()))?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SessionKey {
    // A key is a secret of its client: logs show only enough to tell two apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}..", self.0[0], self.0[1])
    }
}

impl FromStr for SessionKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.as_bytes();
        if digits.len() != SESSION_KEY_BYTES * 2 {
            return Err(());
        }
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(()),
        };
        let mut bytes = [0; SESSION_KEY_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

    fn table(sessions_max: usize) -> Sessions<()> {
        Sessions::new(SessionsConfig { sessions_max, idle_max_ns: 1_000 })
    }

    fn open(sessions: &Sessions<()>, client: IpAddr, now_ns: u64) -> Result<SessionKey, OpenRefused> {
        sessions.open("film", Arc::new(()), client, Class::PERIODIC, now_ns).map(|s| s.key())
    }

    #[test]
    fn a_key_is_found_until_it_is_idle_for_too_long() {
        let sessions = table(10);
        let key = open(&sessions, CLIENT, 0).unwrap();
        assert!(sessions.touch(&key, 900).is_some());
        assert!(sessions.touch(&key, 1_800).is_some());
        assert!(sessions.touch(&key, 2_801).is_none());
        assert!(sessions.is_empty());
    }

    #[test]
    fn sending_keeps_a_session_from_growing_idle() {
        let sessions = table(10);
        let session = sessions.open("film", Arc::new(()), CLIENT, Class::PERIODIC, 0).unwrap();
        session.sent(7, 900);
        assert!(sessions.touch(&session.key(), 1_500).is_some());
        assert_eq!(sessions.list(1_500)[0].sent_bytes, 7);
    }

    #[test]
    fn a_full_table_refuses_and_says_when_to_come_back() {
        let sessions = table(2);
        open(&sessions, CLIENT, 0).unwrap();
        open(&sessions, OTHER, 10).unwrap();
        assert_eq!(open(&sessions, OTHER, 20), Err(OpenRefused::Full { max: 2, retry_after_s: 1 }));
        open(&sessions, OTHER, 1_001).expect("the first one is idle for too long by now");
    }

    #[test]
    fn one_address_cannot_take_the_whole_table() {
        let sessions = table(SESSIONS_PER_CLIENT_MAX * 2);
        for _ in 0..SESSIONS_PER_CLIENT_MAX {
            open(&sessions, CLIENT, 0).unwrap();
        }
        assert!(matches!(open(&sessions, CLIENT, 0), Err(OpenRefused::Client { .. })));
        let key = open(&sessions, OTHER, 0).unwrap();
        assert!(sessions.close(&key));
        assert!(!sessions.close(&key));
        sessions.forget_idle(2_000);
        assert!(sessions.is_empty());
        open(&sessions, CLIENT, 0).expect("the count of the address went down with its sessions");
    }

    #[test]
    fn keys_are_read_back_and_nothing_else_is() {
        let key = SessionKey::random().unwrap();
        assert_eq!(key.to_string().parse(), Ok(key));
        let short = "00".repeat(15);
        let upper = "AB".repeat(16);
        for bad in ["", "00", short.as_str(), upper.as_str(), "é0000000000000000000000000000000"] {
            assert!(bad.parse::<SessionKey>().is_err(), "{bad}");
        }
        assert_eq!(format!("{key:?}").len(), 6);
    }
}
