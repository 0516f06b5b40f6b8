//! The clients that read titles as files, of all threads together.

use crate::file_reader::{FileReader, ReadAs, Reading};
use crate::limits::{FILE_READER_IDLE_NS, FILE_READERS_MAX, FILE_READERS_OF_CLIENT_MAX};
use reel_admit::Session;
use reel_play::PlayableTitle;
use reel_rt::lock;
use reel_serve::OpenedSession;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// The session of a reader that plays.
pub(crate) type ReaderSession = Arc<Session<PlayableTitle>>;

/// A client address that reads a title.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReaderKey {
    pub(crate) client: IpAddr,
    pub(crate) title: String,
    pub(crate) name: ReadAs,
}

/// All readers that have read a while ago or later. A panic leaves at most a count that is too
/// high.
#[derive(Default)]
pub(crate) struct FileReaders(Mutex<HashMap<ReaderKey, FileReader<ReaderSession>>>);

impl FileReaders {
    /// A response of a reader begins, from this media time on; `None` if there are too many
    /// readers.
    pub(crate) fn begins(
        &self,
        key: &ReaderKey,
        from_ns: u64,
        now_ns: u64,
    ) -> Option<Reading<ReaderSession>> {
        let mut readers = lock(&self.0);
        if !readers.contains_key(key) && !has_room(&readers, key.client) {
            return None;
        }
        let reader = readers.entry(key.clone()).or_insert_with(|| FileReader::new(key.name));
        Some(reader.begins(from_ns, now_ns))
    }

    /// A response of a reader has sent bytes, up to this media time.
    pub(crate) fn reads(
        &self,
        key: &ReaderKey,
        (bytes, until_ns): (u64, u64),
        now_ns: u64,
    ) -> Reading<ReaderSession> {
        let mut readers = lock(&self.0);
        readers.get_mut(key).map_or(Reading::Copies, |reader| reader.reads(bytes, until_ns, now_ns))
    }

    /// A response of a reader has ended.
    pub(crate) fn ends(&self, key: &ReaderKey, now_ns: u64) {
        if let Some(reader) = lock(&self.0).get_mut(key) {
            reader.ends(now_ns);
        }
    }

    /// A reader is promised a session, or nothing. Returns the session, which stays open if the
    /// reader is still here.
    pub(crate) fn settle(
        &self,
        key: &ReaderKey,
        opened: Option<OpenedSession>,
        now_ns: u64,
    ) -> Option<ReaderSession> {
        let mut readers = lock(&self.0);
        let reader = readers.get_mut(key)?;
        let Some(opened) = opened else {
            reader.refuse(now_ns);
            return None;
        };
        let session = opened.keep();
        reader.promise(Arc::clone(&session));
        Some(session)
    }

    /// Forgets readers that have left. Returns the sessions that end with them.
    pub(crate) fn forget(&self, now_ns: u64) -> Vec<ReaderSession> {
        let mut ended = Vec::new();
        lock(&self.0).retain(|_, reader| {
            let is_here = reader.idle_ns(now_ns) < FILE_READER_IDLE_NS;
            if !is_here {
                ended.extend(reader.session().cloned());
            }
            is_here
        });
        ended
    }
}

/// Whether there is room for another reader of a client.
fn has_room(readers: &HashMap<ReaderKey, FileReader<ReaderSession>>, client: IpAddr) -> bool {
    readers.len() < FILE_READERS_MAX
        && readers.keys().filter(|key| key.client == client).count() < FILE_READERS_OF_CLIENT_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn key(client: u8, title: usize) -> ReaderKey {
        let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, client));
        ReaderKey { client, title: title.to_string(), name: ReadAs::File }
    }

    #[test]
    fn a_client_has_a_bounded_number_of_readers() {
        let readers = FileReaders::default();
        for title in 0..FILE_READERS_OF_CLIENT_MAX {
            assert!(readers.begins(&key(1, title), 0, 0).is_some());
        }
        assert!(readers.begins(&key(1, 1000), 0, 0).is_none());
        assert!(readers.begins(&key(1, 3), 0, 0).is_some() && readers.begins(&key(2, 1000), 0, 0).is_some());
        for title in 0..FILE_READERS_OF_CLIENT_MAX {
            readers.ends(&key(1, title), 0);
        }
        // Those who have left make room; one response of a title is still under way, and that of
        // the other client.
        assert!(readers.forget(FILE_READER_IDLE_NS).is_empty());
        assert_eq!(lock(&readers.0).len(), 2);
        assert!(readers.begins(&key(1, 1000), 0, FILE_READER_IDLE_NS).is_some());
    }
}
