//! One core's reads: from a wanted unit to the members and back, decoding what is lost.

use crate::units::{Lookup, UnitKey, UnitWant, Units, Waiter};
use reel_disk::{DiskDone, DiskError, DiskRequest, DiskWork, Reply};
use reel_qos::Class;
use reel_volume::{UnitFetch, UnitRead, UnitRows, UnitStep, VolumeError};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Takes news of units to the core that waits for them; called on any thread.
pub trait Deliver: Send + Sync {
    /// A unit came, or cannot come.
    fn fetched(&self, fetched: Fetched);
}

/// A wanted unit came, or cannot come.
#[derive(Clone)]
pub struct Fetched {
    /// The connection given to [`Fetcher::request`].
    pub connection: u64,
    /// Which unit.
    pub key: UnitKey,
    /// Its rows, or why no member and no decoding gives them.
    pub result: Result<UnitRows, Arc<VolumeError>>,
}

/// The reads of one core.
pub struct Fetcher {
    units: Units,
    reply: Arc<dyn Reply>,
    deliver: Arc<dyn Deliver>,
    reads: HashMap<u64, InFlight>,
    next_read: u64,
    /// Fetches that found no buffers, in order; each is served whole or not at all.
    hungry: VecDeque<(u64, Vec<UnitFetch>)>,
}

struct InFlight {
    key: UnitKey,
    read: UnitRead,
    class: Class,
    deadline_ns: u64,
    /// Set for a read that the table does not know of.
    private_to: Option<Waiter>,
}

/// The low bits of a disk token name the fetch within its read.
const FETCH_BITS: u32 = 8;

impl Fetcher {
    /// A fetcher whose disk answers go to `reply` (which must bring them to [`Fetcher::disk_done`] on this core) and
    /// whose units are announced to `deliver`.
    pub fn new(units: Units, reply: Arc<dyn Reply>, deliver: Arc<dyn Deliver>) -> Self {
        Self { units, reply, deliver, reads: HashMap::new(), next_read: 0, hungry: VecDeque::new() }
    }

    /// The table this fetcher fills.
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// The rows if they are in memory; otherwise they are fetched, and announced as [`Fetched`] to `connection`.
    pub fn request(&mut self, want: &UnitWant, connection: u64) -> Option<UnitRows> {
        let (class, deadline_ns) = (want.class, want.deadline_ns);
        let waiter = Waiter { to: Arc::clone(&self.deliver), connection, class, deadline_ns };
        let private_to = match self.units.look_up(want, waiter.clone()) {
            Lookup::Ready(rows) => return Some(rows),
            Lookup::Joined => return None,
            Lookup::Read => None,
            Lookup::ReadPrivately => Some(waiter),
        };
        let map = Arc::clone(&want.map);
        let mut read = UnitRead::new(map, self.units.health(), want.stripe, want.position, want.rows.clone());
        let fetches = read.reads();
        let id = self.next_read;
        self.next_read += 1;
        self.reads.insert(id, InFlight { key: want.key(), read, class, deadline_ns, private_to });
        self.start(id, fetches);
        None
    }

    /// Takes the answer of a member.
    pub fn disk_done(&mut self, done: DiskDone, now_ns: u64) {
        let id = done.token >> FETCH_BITS;
        let fetch = (done.token & ((1 << FETCH_BITS) - 1)) as usize;
        let Some(flight) = self.reads.get_mut(&id) else { return };
        let answer = match (done.result, done.buffer) {
            (Ok(()), Some(buffer)) => Ok(buffer),
            (Ok(()), None) => unreachable!("a read gives its buffer back"),
            (Err(error), _) => Err(error),
        };
        match flight.read.fetched(fetch, answer) {
            UnitStep::Wait => {}
            UnitStep::Fetch(more) => self.start(id, more),
            UnitStep::Ready(rows) => self.finish(id, Ok(rows), now_ns),
            UnitStep::Failed(error) => self.finish(id, Err(Arc::new(error)), now_ns),
        }
    }

    /// Tries again for those who found no buffer. Call it once per turn; cheap when nobody waits.
    pub fn retry(&mut self) {
        // One that needs many buffers must not hold up those behind it: it may be their readers who hold the memory.
        let mut too_many = usize::MAX;
        for _ in 0..self.hungry.len() {
            let Some((id, fetches)) = self.hungry.pop_front() else { return };
            let count = fetches.len();
            let hungry = if count < too_many { self.try_start(id, fetches) } else { Some(fetches) };
            if let Some(fetches) = hungry {
                too_many = too_many.min(count);
                self.hungry.push_back((id, fetches));
            }
        }
    }

    /// Reads under way. A core that ends before they do leaves others waiting for them.
    pub fn in_flight(&self) -> usize {
        self.reads.len()
    }

    /// Whether a fetch waits for memory.
    pub fn is_hungry(&self) -> bool {
        !self.hungry.is_empty()
    }

    fn start(&mut self, id: u64, fetches: Vec<UnitFetch>) {
        if let Some(fetches) = self.try_start(id, fetches) {
            self.hungry.push_back((id, fetches));
        }
    }

    /// Submits all of `fetches`, or gives them back for want of memory.
    fn try_start(&mut self, id: u64, fetches: Vec<UnitFetch>) -> Option<Vec<UnitFetch>> {
        let flight = self.reads.get(&id)?;
        let sizes: Vec<_> = fetches.iter().map(|fetch| fetch.bytes).collect();
        let Some(buffers) = self.units.take_buffers(&sizes) else { return Some(fetches) };
        for (fetch, buffer) in fetches.into_iter().zip(buffers) {
            self.units.disks().submit(DiskRequest {
                member: fetch.member,
                class: flight.class,
                deadline_ns: flight.deadline_ns,
                work: DiskWork::Read { offset: fetch.offset, bytes: fetch.bytes, buffer },
                token: id << FETCH_BITS | fetch.index as u64,
                reply: Arc::clone(&self.reply),
            });
        }
        None
    }

    fn finish(&mut self, id: u64, result: Result<UnitRows, Arc<VolumeError>>, now_ns: u64) {
        let Some(flight) = self.reads.remove(&id) else { return };
        match flight.private_to {
            None => self.units.finish(flight.key, &result, now_ns),
            Some(waiter) => self.units.tell(waiter, flight.key, &result, now_ns),
        }
    }
}

impl Drop for Fetcher {
    /// Viewers of other cores may have joined these reads: they must not wait for ever.
    fn drop(&mut self) {
        let stopped = || VolumeError::Disk { doing: "read a unit".to_owned(), source: DiskError::Stopped };
        let reads: Vec<u64> = self.reads.keys().copied().collect();
        for id in reads {
            self.finish(id, Err(Arc::new(stopped())), 0);
        }
    }
}
