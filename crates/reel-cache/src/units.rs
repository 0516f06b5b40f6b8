//! The table of shared units: viewers of the same bytes share one buffer.
//!
//! A unit is in the table from the moment its read starts. A reader that requests it while the read
//! is under way waits for that read. A reader that requests it later gets the same memory. Units
//! that no reader holds stay until their memory is needed. Then those are evicted first that will
//! be needed last (`next_use.rs`).
//!
//! Locks are taken in this order: a shard, then the audience. To evict, a thread takes a victim
//! from the audience and looks it up in its shard only after that. By then the unit may be gone,
//! read again, or in use. Each case is handled there.
//!
//! A unit that must be computed takes the other units of its stripe from this table, too. So each
//! member is read once for a stripe, whichever unit is lost. Such a unit never waits for a unit
//! that is itself being computed, because two of them might wait for each other.

use crate::arrival::{Arrival, Inbox, Outbox};
use crate::audience::Audience;
use crate::budget::Budget;
use crate::bypass::Bypass;
use crate::flight::{Flight, Source};
use crate::limits::{EVICTION_LOOKS_AGAIN, EVICTION_LOOKS_MAX, UNIT_SHARDS};
use crate::next_use::Victim;
use crate::runs::Runs;
use crate::unit::{Fetched, Late, UnitKey, UnitWant};
use crate::window::Depth;
use reel_arena::{Arena, Buffer};
use reel_disk::Disks;
use reel_qos::Class;
use reel_qos::limits::CLASSES_MAX;
use reel_volume::{Health, UnitRows, VolumeError};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What the table did, for metrics.
#[derive(Debug, Default)]
pub struct StreamCounters {
    /// Units found in memory.
    pub hits: AtomicU64,
    /// Units joined while another viewer's read was under way.
    pub joins: AtomicU64,
    /// Units read from the members.
    pub reads: AtomicU64,
    /// Times a unit came after the deadline of a reader that waited for it, by class.
    pub deadline_misses: [AtomicU64; CLASSES_MAX],
    /// Units evicted from the table because their memory was needed.
    pub evictions: AtomicU64,
    /// Evictions of units that were to stay for a session that follows another. There are none,
    /// unless intervals hold more than they are charged with.
    pub kept_evictions: AtomicU64,
    /// Units read from other members because their own member did not answer in time.
    pub read_around: AtomicU64,
    /// Requests withdrawn from a member, because the unit they were for had been computed from
    /// others.
    pub withdrawn: AtomicU64,
    /// Times a member stalled.
    pub stalled: AtomicU64,
    /// Reads under way that a more urgent reader joined.
    pub promotions: AtomicU64,
    /// Times a blocked reader gave its buffers back because others were short of memory.
    pub releases: AtomicU64,
}

/// The table. All cores share it; a clone is cheap.
#[derive(Clone)]
pub struct Units {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    arena: Arena,
    disks: Disks,
    health: Health,
    bypass: Bypass,
    budget: Budget,
    /// As the members were when the table was made: the promises were computed from that.
    depth: Depth,
    runs: Runs,
    /// Buffers kept free for users that do not go through this table: writers, checks, exports.
    spare_buffers: usize,
    shards: [Mutex<Shard>; UNIT_SHARDS],
    audience: Audience,
    counters: StreamCounters,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<UnitKey, Entry>,
}

enum Entry {
    Reading(Reading),
    Ready { rows: UnitRows, used: bool },
}

impl Entry {
    /// Whether it stays as it is when rows are wanted that it does not cover. A unit that is read
    /// to its end stays: its session plays on, and others follow it. Of two that are read to the
    /// end of the unit, the one that begins later is replaced by the one that covers it. Otherwise
    /// viewers of the two segments that meet in a unit would repeatedly replace each other's
    /// rows.
    fn stays_beside(&self, wanted: &Range<usize>) -> bool {
        match self {
            Entry::Reading(_) => true,
            Entry::Ready { rows, .. } => rows.rows().end > wanted.end,
        }
    }
}

struct Reading {
    rows: Range<usize>,
    waiters: Vec<Waiter>,
    /// Units that are computed from this one.
    decoders: Vec<Decoder>,
    /// Its own member does not give it, so it is computed from the others.
    decoding: bool,
    flight: Arc<Flight>,
}

/// A connection or read that is notified of a unit.
#[derive(Clone)]
pub(crate) struct Waiter {
    pub(crate) to: Arc<dyn Inbox>,
    pub(crate) connection: u64,
    pub(crate) class: Class,
    pub(crate) deadline_ns: u64,
}

/// A unit read that wants rows of another unit.
pub(crate) struct Decoder {
    pub(crate) to: Arc<dyn Inbox>,
    pub(crate) read: u64,
    pub(crate) fetch: usize,
    pub(crate) source: Arc<Source>,
}

/// The answer of the table to a request.
pub(crate) enum Lookup {
    /// In memory.
    Ready(UnitRows),
    /// The read is under way. The waiter will be notified.
    Joined,
    /// The caller must read it, and notify the table.
    Read(Arc<Flight>),
    /// The caller must read it for itself alone: other rows of the unit are under way, or the unit
    /// is being computed.
    ReadPrivately,
}

impl Units {
    /// A table over the volume's arena and disks. It leaves `spare_buffers` of the arena to writers
    /// and decoding. Readers together may hold the rest.
    pub fn new(arena: Arena, disks: Disks, health: Health, spare_buffers: usize) -> Self {
        // No stripe is wider than there are members.
        let budget = Budget::new(arena.usage().buffers_total.saturating_sub(spare_buffers), disks.members());
        let bypass = Bypass::new(health.clone(), disks.members());
        let depth = Depth::of(disks.is_rotational());
        let inner = Inner {
            arena,
            disks,
            health,
            bypass,
            budget,
            depth,
            runs: Runs::default(),
            spare_buffers,
            shards: Default::default(),
            audience: Audience::default(),
            counters: StreamCounters::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether a thread panicked while it changed what all threads share: the table, the budget, or
    /// the list of what is wanted next.
    pub fn is_poisoned(&self) -> bool {
        self.inner.shards.iter().any(Mutex::is_poisoned)
            || self.inner.budget.is_poisoned()
            || self.inner.audience.is_poisoned()
    }

    /// What readers may hold together.
    pub fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// Bytes of one buffer.
    pub fn buffer_bytes(&self) -> u64 {
        self.inner.arena.buffer_bytes() as u64
    }

    /// How far ahead readers read.
    pub fn depth(&self) -> Depth {
        self.inner.depth
    }

    /// The readers with long runs.
    pub fn runs(&self) -> &Runs {
        &self.inner.runs
    }

    /// What the table did so far.
    pub fn counters(&self) -> &StreamCounters {
        &self.inner.counters
    }

    /// The members.
    pub fn disks(&self) -> &Disks {
        &self.inner.disks
    }

    /// Which session plays what from where. That decides which units are kept.
    pub fn audience(&self) -> &Audience {
        &self.inner.audience
    }

    /// Which members are read.
    pub fn health(&self) -> &Health {
        &self.inner.health
    }

    /// Whether a unit may have to be computed from the others of its stripe, so that its reader
    /// needs memory for them.
    pub fn is_degraded(&self) -> bool {
        self.inner.bypass.is_any_bypassed()
    }

    pub(crate) fn bypass(&self) -> &Bypass {
        &self.inner.bypass
    }

    /// Looks for a unit that a viewer wants. `flight` becomes the read of it if the caller has to
    /// make it.
    pub(crate) fn look_up(
        &self,
        want: &UnitWant,
        waiter: Waiter,
        flight: &Arc<Flight>,
        outbox: &mut Outbox,
    ) -> Lookup {
        let key = want.key();
        let counters = &self.inner.counters;
        let mut shard = self.shard(&key);
        match shard.entries.get_mut(&key) {
            Some(Entry::Ready { rows, used }) if covers(&rows.rows(), &want.rows) => {
                *used = true;
                counters.hits.fetch_add(1, Ordering::Relaxed);
                return Lookup::Ready(rows.clone());
            }
            Some(Entry::Reading(reading)) if covers(&reading.rows, &want.rows) => {
                counters.joins.fetch_add(1, Ordering::Relaxed);
                reading.waiters.push(waiter);
                let flight = Arc::clone(&reading.flight);
                drop(shard);
                self.promote(&flight, (want.class, want.deadline_ns), outbox);
                return Lookup::Joined;
            }
            Some(entry) if entry.stays_beside(&want.rows) => {
                counters.reads.fetch_add(1, Ordering::Relaxed);
                return Lookup::ReadPrivately;
            }
            _ => {}
        }
        counters.reads.fetch_add(1, Ordering::Relaxed);
        shard.begin(key, want.rows.clone(), flight).waiters.push(waiter);
        Lookup::Read(Arc::clone(flight))
    }

    /// Looks for a unit that another unit is computed from. It never returns a read to wait for
    /// that may itself wait for the caller.
    pub(crate) fn look_up_source(
        &self,
        key: UnitKey,
        rows: &Range<usize>,
        decoder: Decoder,
        flight: &Arc<Flight>,
        outbox: &mut Outbox,
    ) -> Lookup {
        let mut shard = self.shard(&key);
        match shard.entries.get_mut(&key) {
            Some(Entry::Ready { rows: have, .. }) if covers(&have.rows(), rows) => {
                return Lookup::Ready(have.clone());
            }
            Some(Entry::Reading(reading)) if covers(&reading.rows, rows) && !reading.decoding => {
                reading.decoders.push(decoder);
                let joined = Arc::clone(&reading.flight);
                drop(shard);
                self.promote(&joined, flight.urgency(), outbox);
                return Lookup::Joined;
            }
            Some(entry) if entry.stays_beside(rows) => {
                self.inner.counters.reads.fetch_add(1, Ordering::Relaxed);
                return Lookup::ReadPrivately;
            }
            _ => {}
        }
        self.inner.counters.reads.fetch_add(1, Ordering::Relaxed);
        shard.begin(key, rows.clone(), flight).decoders.push(decoder);
        Lookup::Read(Arc::clone(flight))
    }

    /// Whether [`Units::look_up_source`] would make the caller read.
    pub(crate) fn is_to_be_read(&self, key: UnitKey, rows: &Range<usize>) -> bool {
        match self.shard(&key).entries.get(&key) {
            Some(Entry::Ready { rows: have, .. }) => !covers(&have.rows(), rows),
            Some(Entry::Reading(reading)) => !covers(&reading.rows, rows) || reading.decoding,
            None => true,
        }
    }

    /// The unit's own member does not give it, so it is computed from the others from now on. Units
    /// that were to be computed from it have to read what they need themselves. `false` if no other
    /// reader waits for it: then it is forgotten.
    pub(crate) fn begin_decoding(&self, key: UnitKey, outbox: &mut Outbox) -> bool {
        let mut shard = self.shard(&key);
        let Some(Entry::Reading(reading)) = shard.entries.get_mut(&key) else { return false };
        reading.decoding = true;
        let decoders = std::mem::take(&mut reading.decoders);
        let wanted = !reading.waiters.is_empty();
        if !wanted {
            shard.entries.remove(&key);
            // Other rows of it may have been in memory before.
            self.inner.audience.lock().remove(key);
        }
        drop(shard);
        decoders.into_iter().for_each(|decoder| decoder.notify(None, outbox));
        wanted
    }

    /// The read of a unit has ended. Notifies all that wait, and keeps good rows.
    pub(crate) fn finish(
        &self,
        key: UnitKey,
        result: &Result<UnitRows, Arc<VolumeError>>,
        outbox: &mut Outbox,
        now_ns: u64,
    ) {
        let mut shard = self.shard(&key);
        let Some(Entry::Reading(reading)) = shard.entries.remove(&key) else { return };
        match result {
            Ok(rows) => {
                shard.entries.insert(key, Entry::Ready { rows: rows.clone(), used: false });
                self.inner.audience.lock().insert(key, rows.rows());
            }
            Err(_) => self.inner.audience.lock().remove(key),
        }
        drop(shard);
        for decoder in reading.decoders {
            decoder.notify(result.as_ref().ok().cloned(), outbox);
        }
        for waiter in reading.waiters {
            self.notify(waiter, key, result, outbox, now_ns);
        }
    }

    /// A reader of this class waits for a read under way, with that deadline. The read, and the
    /// reads it is computed from, become as urgent.
    fn promote(&self, flight: &Arc<Flight>, urgency: (Class, u64), outbox: &mut Outbox) {
        let Some(sources) = flight.promote(&self.inner.disks, urgency, outbox) else { return };
        self.inner.counters.promotions.fetch_add(1, Ordering::Relaxed);
        for key in sources {
            let source = match self.shard(&key).entries.get(&key) {
                Some(Entry::Reading(reading)) => Arc::clone(&reading.flight),
                _ => continue,
            };
            // The sources of a source are not in the table: a unit that is being computed is no
            // source.
            source.promote(&self.inner.disks, urgency, outbox);
        }
    }

    /// Notifies a reader that waited for a unit, and counts whether the unit came in time.
    pub(crate) fn notify(
        &self,
        waiter: Waiter,
        key: UnitKey,
        result: &Result<UnitRows, Arc<VolumeError>>,
        outbox: &mut Outbox,
        now_ns: u64,
    ) {
        let by_ns = now_ns.saturating_sub(waiter.deadline_ns);
        let late = (by_ns > 0).then_some(Late { class: waiter.class, by_ns });
        if late.is_some() {
            let misses = &self.inner.counters.deadline_misses[waiter.class.index()];
            misses.fetch_add(1, Ordering::Relaxed);
        }
        let fetched = Fetched { connection: waiter.connection, key, result: result.clone(), late };
        outbox.post(&waiter.to, Arrival::Unit(fetched));
    }

    /// A buffer for each of `bytes`, or none at all.
    pub(crate) fn take_buffers(&self, bytes: &[usize]) -> Option<Vec<Buffer>> {
        self.leave_spare(bytes.len());
        bytes.iter().map(|&bytes| self.take_buffer(bytes)).collect()
    }

    fn take_buffer(&self, bytes: usize) -> Option<Buffer> {
        loop {
            let buffer = self.inner.arena.take(bytes);
            // One evicted unit is not always enough: it may be only a cell of a buffer, or another
            // thread may take the buffer first.
            if buffer.is_some() || !self.evict() {
                return buffer;
            }
        }
    }

    /// Evicts units that no reader holds until taking `count` buffers leaves the spare ones free.
    fn leave_spare(&self, count: usize) {
        let free = || {
            let usage = self.inner.arena.usage();
            usage.buffers_total - usage.buffers_taken
        };
        while free() < self.inner.spare_buffers + count && self.evict() {}
    }

    /// Evicts one unit that no reader holds; `false` if none was found. The search is bounded; the
    /// next call continues it.
    fn evict(&self) -> bool {
        self.inner.audience.lock().reexamine(EVICTION_LOOKS_AGAIN);
        for attempt in 0..EVICTION_LOOKS_MAX {
            let Some(victim) = self.inner.audience.lock().take_victim() else {
                if attempt > 0 {
                    return false;
                }
                self.inner.audience.lock().reexamine(EVICTION_LOOKS_MAX);
                continue;
            };
            if self.try_evict(victim) {
                self.inner.counters.evictions.fetch_add(1, Ordering::Relaxed);
                if victim.is_kept {
                    self.inner.counters.kept_evictions.fetch_add(1, Ordering::Relaxed);
                }
                return true;
            }
        }
        false
    }

    /// Evicts a unit if no reader holds it. A unit that was used although no viewer was expected to
    /// need it gets a second chance.
    fn try_evict(&self, victim: Victim) -> bool {
        let key = victim.key;
        let mut shard = self.shard(&key);
        let (rows, used) = match shard.entries.remove(&key) {
            Some(Entry::Ready { rows, used }) => (rows, used),
            // It is listed again when its read ends.
            Some(reading) => {
                shard.entries.insert(key, reading);
                return false;
            }
            None => return false,
        };
        if used && victim.wanted_ns.is_none() {
            let listed = rows.rows();
            shard.entries.insert(key, Entry::Ready { rows, used: false });
            self.inner.audience.lock().insert(key, listed);
            return false;
        }
        match rows.give_back() {
            Ok(()) => true,
            Err(rows) => {
                let listed = rows.rows();
                shard.entries.insert(key, Entry::Ready { rows, used });
                self.inner.audience.lock().is_in_use(key, listed);
                false
            }
        }
    }

    fn shard(&self, key: &UnitKey) -> MutexGuard<'_, Shard> {
        // The multiplication spreads neighbouring units of a stripe over different shards.
        let spread = key.object.wrapping_mul(31).wrapping_add(key.stripe).wrapping_mul(31);
        lock(&self.inner.shards[(spread.wrapping_add(key.position as u64) % UNIT_SHARDS as u64) as usize])
    }
}

impl Shard {
    fn begin(&mut self, key: UnitKey, rows: Range<usize>, flight: &Arc<Flight>) -> &mut Reading {
        let (waiters, decoders, flight) = (Vec::new(), Vec::new(), Arc::clone(flight));
        let reading = Reading { rows, waiters, decoders, decoding: false, flight };
        self.entries.insert(key, Entry::Reading(reading));
        match self.entries.get_mut(&key) {
            Some(Entry::Reading(reading)) => reading,
            _ => unreachable!("the entry was inserted above"),
        }
    }
}

impl Decoder {
    /// Gives the rows, or the information that there are none to share. The decoder's core takes
    /// them when this reply reaches it.
    fn notify(self, rows: Option<UnitRows>, outbox: &mut Outbox) {
        self.source.put(rows);
        outbox.post(&self.to, Arrival::Source { read: self.read, fetch: self.fetch });
    }
}

fn covers(have: &Range<usize>, want: &Range<usize>) -> bool {
    have.start <= want.start && want.end <= have.end
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // After a panic elsewhere the worst case is a unit that is read again.
    shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
