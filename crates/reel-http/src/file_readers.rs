//! The clients that read titles as files, of all threads together.

use crate::file_reader::{FileReader, ReadAs, Reading};
use crate::limits::{FILE_READER_IDLE_NS, FILE_READERS_MAX, FILE_READERS_OF_CLIENT_MAX};
use reel_admit::Session;
use reel_play::PlayableTitle;
use reel_rt::lock;
use reel_serve::{KnownReader, OpenedSession, ReaderName, ReaderTable};
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
pub(crate) struct FileReaders(Mutex<ReaderTable<ReaderKey, FileReader<ReaderSession>>>);

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
        let reading = readers.find_or_add(key, || FileReader::new(key.name))?.begins(from_ns, now_ns);
        Some(bounded(&mut readers, reading, (key, 0), now_ns))
    }

    /// A response of a reader has sent bytes, up to this media time.
    pub(crate) fn reads(
        &self,
        key: &ReaderKey,
        (bytes, until_ns): (u64, u64),
        now_ns: u64,
    ) -> Reading<ReaderSession> {
        let mut readers = lock(&self.0);
        let Some(reader) = readers.get_mut(key) else { return Reading::Copies };
        let reading = reader.reads(bytes, until_ns, now_ns);
        bounded(&mut readers, reading, (key, bytes), now_ns)
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
        lock(&self.0).retain(|reader| {
            let is_here = reader.idle_ns(now_ns) < FILE_READER_IDLE_NS;
            if !is_here {
                ended.extend(reader.session().cloned());
            }
            is_here
        });
        ended
    }
}

/// A look, if its client may look at so many bytes more.
fn bounded(
    readers: &mut ReaderTable<ReaderKey, FileReader<ReaderSession>>,
    reading: Reading<ReaderSession>,
    (key, bytes): (&ReaderKey, u64),
    now_ns: u64,
) -> Reading<ReaderSession> {
    match reading {
        Reading::Looks if !readers.may_look(key.client, bytes, now_ns) => Reading::Copies,
        reading => reading,
    }
}

impl Default for FileReaders {
    fn default() -> Self {
        Self(Mutex::new(ReaderTable::new(FILE_READERS_MAX, FILE_READERS_OF_CLIENT_MAX)))
    }
}

impl ReaderName for ReaderKey {
    fn client(&self) -> IpAddr {
        self.client
    }
}

impl KnownReader for FileReader<ReaderSession> {
    fn is_promised(&self) -> bool {
        self.session().is_some()
    }

    fn seen_ns(&self) -> u64 {
        self.seen_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_serve::limits::LOOKS_BYTES_MAX;
    use std::net::Ipv4Addr;

    fn key(client: u8, title: usize) -> ReaderKey {
        let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, client));
        ReaderKey { client, title: title.to_string(), name: ReadAs::File }
    }

    #[test]
    fn a_client_that_has_looked_at_many_titles_is_known_at_the_next_one() {
        let readers = FileReaders::default();
        for title in 0..10 * FILE_READERS_OF_CLIENT_MAX {
            assert!(readers.begins(&key(1, title), 0, title as u64).is_some());
        }
        assert_eq!(lock(&readers.0).iter().count(), FILE_READERS_OF_CLIENT_MAX);
        // The response of a reader that gave way is still under way.
        assert!(matches!(readers.reads(&key(1, 0), (1, 1), 1000), Reading::Copies));
        for title in 0..10 * FILE_READERS_OF_CLIENT_MAX {
            readers.ends(&key(1, title), 1000);
        }
        assert!(readers.forget(1000 + FILE_READER_IDLE_NS).is_empty());
        assert_eq!(lock(&readers.0).iter().count(), 0);
    }

    #[test]
    fn looks_of_an_address_are_bounded() {
        let readers = FileReaders::default();
        let look = |title: usize| {
            let mut key = key(1, title);
            key.name = ReadAs::Play;
            readers.begins(&key, 0, 0);
            let reading = readers.reads(&key, (1 << 20, 0), 0);
            readers.ends(&key, 0);
            reading
        };
        let looks = (0..).take_while(|&title| matches!(look(title), Reading::Looks)).count() as u64;
        assert_eq!(looks, LOOKS_BYTES_MAX >> 20);
    }
}
