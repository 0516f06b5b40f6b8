//! The table of shared units: viewers of the same bytes share one buffer.
//!
//! A unit is in the table from the moment its read starts. Who asks for it meanwhile waits for that read; who asks
//! later gets the same memory. Units that nobody holds stay until their memory is wanted, in second-chance order.

use crate::budget::Budget;
use crate::fetcher::{Deliver, Fetched};
use crate::limits::{EVICTION_LOOKS_MAX, UNIT_SHARDS};
use reel_arena::{Arena, Buffer};
use reel_disk::Disks;
use reel_qos::Class;
use reel_qos::limits::CLASSES_MAX;
use reel_volume::{Health, ObjectMap, UnitRows, VolumeError};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Names one unit of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitKey {
    /// [`ObjectMap::id`].
    pub object: u64,
    /// Stripe within the object.
    pub stripe: u64,
    /// Data position within the stripe.
    pub position: usize,
}

/// Rows of a unit that a reader wants, and how urgently.
#[derive(Clone)]
pub struct UnitWant {
    /// The object.
    pub map: Arc<ObjectMap>,
    /// Stripe within the object.
    pub stripe: u64,
    /// Data position within the stripe.
    pub position: usize,
    /// Rows of the unit (one per matrix of the stripe).
    pub rows: Range<usize>,
    /// Class of the reads.
    pub class: Class,
    /// When the bytes are due.
    pub deadline_ns: u64,
}

/// What the table did, for metrics.
#[derive(Debug, Default)]
pub struct StreamCounters {
    /// Units found in memory.
    pub hits: AtomicU64,
    /// Units joined while another viewer's read was under way.
    pub joins: AtomicU64,
    /// Units read from the members.
    pub reads: AtomicU64,
    /// Times a unit came after the deadline of one who waited for it, by class.
    pub deadline_misses: [AtomicU64; CLASSES_MAX],
    /// Units taken back from the table because their memory was wanted.
    pub evictions: AtomicU64,
    /// Times a blocked reader gave its buffers back because others were short of memory.
    pub releases: AtomicU64,
}

/// The table, shared by all cores; cheap to clone.
#[derive(Clone)]
pub struct Units {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    arena: Arena,
    disks: Disks,
    health: Health,
    budget: Budget,
    /// Buffers kept free for those who do not come through this table: writers, checks, exports.
    spare_buffers: usize,
    shards: [Mutex<Shard>; UNIT_SHARDS],
    next_victim: AtomicUsize,
    counters: StreamCounters,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<UnitKey, Entry>,
    /// Keys of all `Ready` entries, next victim first. Each key is here at most once.
    order: VecDeque<UnitKey>,
}

enum Entry {
    /// `listed`: other rows of this unit were here before, and their place in the order is still there.
    Reading {
        rows: Range<usize>,
        waiters: Vec<Waiter>,
        listed: bool,
    },
    Ready {
        rows: UnitRows,
        used: bool,
    },
}

/// Who wants to hear of a unit.
#[derive(Clone)]
pub(crate) struct Waiter {
    pub(crate) to: Arc<dyn Deliver>,
    pub(crate) connection: u64,
    pub(crate) class: Class,
    pub(crate) deadline_ns: u64,
}

/// What the table says to a request.
pub(crate) enum Lookup {
    /// In memory.
    Ready(UnitRows),
    /// Under way; the waiter will be told.
    Joined,
    /// The caller must read it, and tell the table.
    Read,
    /// The caller must read it for itself alone: other rows of the unit are under way.
    ReadPrivately,
}

impl Units {
    /// A table over the volume's arena and disks that leaves `spare_buffers` of the arena to writers and decoding:
    /// readers may hold the rest together.
    pub fn new(arena: Arena, disks: Disks, health: Health, spare_buffers: usize) -> Self {
        let budget = Budget::new(arena.usage().buffers_total.saturating_sub(spare_buffers));
        let inner = Inner {
            arena,
            disks,
            health,
            budget,
            spare_buffers,
            shards: Default::default(),
            next_victim: AtomicUsize::new(0),
            counters: StreamCounters::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// What readers may hold together.
    pub fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// What the table did so far.
    pub fn counters(&self) -> &StreamCounters {
        &self.inner.counters
    }

    /// The members.
    pub fn disks(&self) -> &Disks {
        &self.inner.disks
    }

    /// Which members are read.
    pub fn health(&self) -> &Health {
        &self.inner.health
    }

    pub(crate) fn look_up(&self, want: &UnitWant, waiter: Waiter) -> Lookup {
        let key = want.key();
        let counters = &self.inner.counters;
        let mut shard = self.shard(&key);
        match shard.entries.get_mut(&key) {
            Some(Entry::Ready { rows, used }) if covers(&rows.rows(), &want.rows) => {
                *used = true;
                counters.hits.fetch_add(1, Ordering::Relaxed);
                return Lookup::Ready(rows.clone());
            }
            Some(Entry::Reading { rows, waiters, .. }) if covers(rows, &want.rows) => {
                counters.joins.fetch_add(1, Ordering::Relaxed);
                waiters.push(waiter);
                return Lookup::Joined;
            }
            Some(Entry::Reading { .. }) => {
                counters.reads.fetch_add(1, Ordering::Relaxed);
                return Lookup::ReadPrivately;
            }
            Some(Entry::Ready { .. }) | None => {}
        }
        counters.reads.fetch_add(1, Ordering::Relaxed);
        let listed = shard.entries.contains_key(&key);
        let entry = Entry::Reading { rows: want.rows.clone(), waiters: vec![waiter], listed };
        shard.entries.insert(key, entry);
        Lookup::Read
    }

    /// The read of a unit ended: tells all who wait, and keeps good rows.
    pub(crate) fn finish(&self, key: UnitKey, result: &Result<UnitRows, Arc<VolumeError>>, now_ns: u64) {
        let mut shard = self.shard(&key);
        let Some(Entry::Reading { waiters, listed, .. }) = shard.entries.remove(&key) else { return };
        match result {
            Ok(rows) => {
                shard.entries.insert(key, Entry::Ready { rows: rows.clone(), used: false });
                if !listed {
                    shard.order.push_back(key);
                }
            }
            Err(_) if listed => shard.order.retain(|other| *other != key),
            Err(_) => {}
        }
        drop(shard);
        for waiter in waiters {
            self.tell(waiter, key, result, now_ns);
        }
    }

    /// Tells one who waited for a unit, and counts whether it came in time.
    pub(crate) fn tell(
        &self,
        waiter: Waiter,
        key: UnitKey,
        result: &Result<UnitRows, Arc<VolumeError>>,
        now_ns: u64,
    ) {
        if now_ns > waiter.deadline_ns {
            let misses = &self.inner.counters.deadline_misses[waiter.class.index()];
            misses.fetch_add(1, Ordering::Relaxed);
        }
        waiter.to.fetched(Fetched { connection: waiter.connection, key, result: result.clone() });
    }

    /// A buffer for each of `bytes`, or none at all.
    pub(crate) fn take_buffers(&self, bytes: &[usize]) -> Option<Vec<Buffer>> {
        self.leave_spare(bytes.len());
        bytes.iter().map(|&bytes| self.take_buffer(bytes)).collect()
    }

    fn take_buffer(&self, bytes: usize) -> Option<Buffer> {
        loop {
            let buffer = self.inner.arena.take(bytes);
            // One unit let go is not always enough: it may be a cell of a buffer, or somebody else may be quicker.
            if buffer.is_some() || !self.evict() {
                return buffer;
            }
        }
    }

    /// Lets go of units that nobody holds until taking `count` buffers leaves the spare ones free.
    fn leave_spare(&self, count: usize) {
        let free = || {
            let usage = self.inner.arena.usage();
            usage.buffers_total - usage.buffers_taken
        };
        while free() < self.inner.spare_buffers + count && self.evict() {}
    }

    /// Gives back the memory of one unit that nobody holds; `false` if none was found. How far it
    /// looks is bounded; the next call looks further on.
    fn evict(&self) -> bool {
        let start = self.inner.next_victim.fetch_add(1, Ordering::Relaxed);
        for shard in 0..UNIT_SHARDS {
            let mut shard = lock(&self.inner.shards[(start + shard) % UNIT_SHARDS]);
            if shard.evict() {
                self.inner.counters.evictions.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    fn shard(&self, key: &UnitKey) -> MutexGuard<'_, Shard> {
        // Neighbouring units of a stripe fall into different shards.
        let spread = key.object.wrapping_mul(31).wrapping_add(key.stripe).wrapping_mul(31);
        lock(&self.inner.shards[(spread.wrapping_add(key.position as u64) % UNIT_SHARDS as u64) as usize])
    }
}

impl Shard {
    fn evict(&mut self) -> bool {
        // Twice round: the first may only clear marks.
        for _ in 0..EVICTION_LOOKS_MAX.min(self.order.len() * 2) {
            let Some(key) = self.order.pop_front() else { return false };
            match self.entries.remove(&key) {
                Some(Entry::Ready { rows, used: false }) => match rows.give_back() {
                    Ok(()) => return true,
                    Err(rows) => {
                        self.entries.insert(key, Entry::Ready { rows, used: false });
                        self.order.push_back(key);
                    }
                },
                Some(Entry::Ready { rows, used: true }) => {
                    self.entries.insert(key, Entry::Ready { rows, used: false });
                    self.order.push_back(key);
                }
                Some(Entry::Reading { rows, waiters, .. }) => {
                    self.entries.insert(key, Entry::Reading { rows, waiters, listed: false });
                }
                None => {}
            }
        }
        false
    }
}

impl UnitWant {
    pub(crate) fn key(&self) -> UnitKey {
        UnitKey { object: self.map.id(), stripe: self.stripe, position: self.position }
    }
}

fn covers(have: &Range<usize>, want: &Range<usize>) -> bool {
    have.start <= want.start && want.end <= have.end
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic elsewhere leaves at worst a unit that is read again.
    shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
