//! Clients that are not viewers: downloads and browsers.

use super::chance::{Purpose, sequence};
use super::http::Connection;
use super::limits::{RETRY_NS, SAMPLE_NS};
use super::origin::{Origin, Role};
use super::plan::Reading;
use super::request_error::RequestError;
use super::tallies::{ReadTally, Tallies};
use super::thread::Thread;
use reel_testkit::Rng;
use reel_testkit::Url;
use std::collections::HashMap;
use std::rc::Rc;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Download,
    Browser,
}

/// One of them; comes at `at_ns` and asks without end, or, as a download of a fleet that has no
/// duration, once.
pub(crate) async fn reader(thread: Rc<Thread>, kind: Kind, number: usize, at_ns: u64) {
    let (reading, purpose, role) = match kind {
        Kind::Download => (&thread.plan.downloads, Purpose::Download, Role::Download),
        Kind::Browser => (&thread.plan.browsers, Purpose::Browse, Role::Browser),
    };
    let mut reader = Reader {
        kind,
        rng: sequence(thread.plan.seed, purpose, number),
        connection: Connection::new(&thread, Origin::of(&thread.plan.from, role, number)),
        lengths: HashMap::new(),
        thread: &thread,
    };
    thread.sleep_until(at_ns).await;
    reader.tally(|tally| tally.clients += 1);
    let urls = match kind {
        Kind::Download => &thread.catalogue.downloads,
        Kind::Browser => &thread.catalogue.pages,
    };
    let think_ns = reading.think.as_nanos() as f64;
    for turn in 0.. {
        // Downloads take turns, so that few of them still are of different files; in strides, so
        // that none reads what a neighbour has just brought into a server's memory.
        let url = match kind {
            Kind::Download => &urls[turn_of(number, turn, reading.clients, urls.len())],
            Kind::Browser => &urls[reader.rng.below(urls.len() as u64) as usize],
        };
        match reader.ask(url, reading).await {
            Ok(()) if kind == Kind::Download && thread.plan.duration.is_none() => return,
            Ok(()) => {}
            Err(error) => {
                reader.connection.close();
                let wait_ns = match &error {
                    RequestError::Refused(refusal) => refusal.retry_after_s.unwrap_or(1) * SAMPLE_NS,
                    _ => RETRY_NS,
                };
                reader.tally(|tally| tally.failures.add(&error.reason(), None));
                thread.sleep(wait_ns).await;
            }
        }
        let pause_ns = reader.rng.exponential(think_ns) as u64;
        thread.sleep(pause_ns).await;
    }
}

/// Which of `urls` files client `number` of `clients` reads in its `turn`.
fn turn_of(number: usize, turn: usize, clients: usize, urls: usize) -> usize {
    // A whole number of rounds would bring a client to its own file repeatedly.
    let stride = if clients.is_multiple_of(urls) { 1 } else { clients };
    (number + turn * stride) % urls
}

struct Reader<'a> {
    kind: Kind,
    rng: Rng,
    connection: Connection,
    /// Of files that ranges are taken from.
    lengths: HashMap<Url, u64>,
    thread: &'a Thread,
}

impl Reader<'_> {
    async fn ask(&mut self, url: &Url, reading: &Reading) -> Result<(), RequestError> {
        let range = match reading.range_bytes {
            Some(bytes) => Some(self.somewhere(url, bytes).await?),
            None => None,
        };
        let asked_ns = self.thread.now_ns();
        self.connection.get(url, range).await?;
        let first_ns = self.thread.now_ns() - asked_ns;
        self.tally(|tally| tally.first_byte.add(first_ns));
        while let Some(got) = self.connection.next().await? {
            self.tally(|tally| tally.bytes += got.bytes);
            if self.kind == Kind::Download {
                self.thread.counters.download_bytes.add(got.bytes);
            }
        }
        let response_ns = self.thread.now_ns() - asked_ns;
        self.tally(|tally| {
            tally.requests += 1;
            tally.response.add(response_ns);
        });
        if self.kind == Kind::Browser {
            self.thread.counters.browser_requests.add(1);
        }
        Ok(())
    }

    /// A range at a random place of a file.
    async fn somewhere(&mut self, url: &Url, bytes: u64) -> Result<(u64, u64), RequestError> {
        let length = match self.lengths.get(url) {
            Some(length) => *length,
            None => {
                let length = length(&mut self.connection, url).await?.1;
                self.lengths.insert(url.clone(), length);
                length
            }
        };
        let bytes = bytes.min(length).max(1);
        Ok((self.rng.below(length - bytes + 1), bytes))
    }

    fn tally(&self, change: impl FnOnce(&mut ReadTally)) {
        let mut tallies = self.thread.tallies.borrow_mut();
        let Tallies { downloads, browsers, .. } = &mut *tallies;
        change(match self.kind {
            Kind::Download => downloads,
            Kind::Browser => browsers,
        });
    }
}

/// Where a file lies after redirects, and how long it is.
pub(crate) async fn length(connection: &mut Connection, url: &Url) -> Result<(Url, u64), RequestError> {
    let (url, head) = connection.get(url, Some((0, 1))).await?;
    while connection.next().await?.is_some() {}
    match head.total {
        Some(length) if length > 0 => Ok((url, length)),
        Some(_) => Err(RequestError::failed("the file is empty")),
        None => Err(RequestError::failed("the server does not know ranges")),
    }
}

#[cfg(test)]
mod tests {
    use super::turn_of;
    use std::collections::HashSet;

    #[test]
    fn clients_read_files_of_their_own_as_long_as_there_are_any() {
        let firsts = |clients, turns| -> HashSet<usize> {
            (0..clients)
                .flat_map(|number| (0..turns).map(move |turn| turn_of(number, turn, clients, 40)))
                .collect()
        };
        assert_eq!(firsts(10, 4).len(), 40, "ten clients, four turns: every file once");
        assert_eq!(firsts(40, 2).len(), 40);
        assert_eq!(firsts(1, 40).len(), 40);
        assert_ne!(turn_of(3, 0, 40, 40), turn_of(3, 1, 40, 40), "not the same again");
    }
}
