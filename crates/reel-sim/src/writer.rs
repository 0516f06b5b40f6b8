//! Those who write: ingest, and the rebuild of a member that was replaced.

use crate::content;
use crate::limits::REBUILD_UNITS_IN_FLIGHT;
use crate::rng::Rng;
use crate::shelf::Shelf;
use crate::title::Track;
use reel_arena::{Arena, Buffer};
use reel_code::Code;
use reel_disk::{DiskDone, DiskRequest, DiskWork, Disks, Reply};
use reel_qos::{Class, DEADLINE_NONE_NS};
use reel_volume::{Health, UnitFetch, UnitRead, UnitStep};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Writes to members.
pub(crate) struct Writer {
    disks: Disks,
    arena: Arena,
    shelf: Arc<Shelf>,
    health: Health,
    rng: Rng,
    inbox: Arc<Inbox>,
    next_token: u64,
    next_slot: u64,
    rebuild: Option<Rebuild>,
    reads: BTreeMap<u64, Restored>,
}

struct Rebuild {
    left: VecDeque<(Arc<Track>, u64, usize)>,
}

/// A unit on its way from the others of its stripe to the new member.
struct Restored {
    read: UnitRead,
    member: usize,
    offset: u64,
}

#[derive(Default)]
struct Inbox(Mutex<Vec<DiskDone>>);

/// The low bits of a token name the fetch; all of them set, a write.
const FETCH_BITS: u32 = 8;
const WRITE: u64 = (1 << FETCH_BITS) - 1;

impl Writer {
    pub(crate) fn new(disks: Disks, arena: Arena, shelf: Arc<Shelf>, health: Health, rng: Rng) -> Writer {
        let inbox = Arc::new(Inbox::default());
        let (next_token, next_slot) = (0, shelf.free_slots().start);
        Writer {
            disks,
            arena,
            shelf,
            health,
            rng,
            inbox,
            next_token,
            next_slot,
            rebuild: None,
            reads: BTreeMap::new(),
        }
    }

    /// Writes one stripe of something new, if there is memory for it.
    pub(crate) fn ingest(&mut self) {
        let (geometry, slots) = (self.shelf.geometry, self.shelf.free_slots());
        let (slot, seed) = (self.next_slot, self.rng.bits());
        self.next_slot = if slot + 1 < slots.end { slot + 1 } else { slots.start };
        for position in 0..geometry.width() {
            let Some(mut buffer) = self.arena.take(geometry.unit_bytes()) else { return };
            let unit = content::unit(&geometry, Code::Xor, seed, 0, position);
            buffer[..unit.len()].copy_from_slice(&unit);
            let place = geometry.place(slot, position);
            let token = self.token() | WRITE;
            self.write(place.member, place.unit * geometry.unit_bytes() as u64, buffer, token);
        }
    }

    /// Fills a member that was replaced.
    pub(crate) fn rebuild(&mut self, member: usize) {
        self.health.begin_to_rebuild(member, "replaced");
        self.rebuild = Some(Rebuild { left: self.shelf.units_of(member).collect() });
        self.fetch_more();
    }

    /// Deals with what members answered; `true` if there was something.
    pub(crate) fn turn(&mut self, _now_ns: u64) -> Result<bool, String> {
        let answers = std::mem::take(&mut *self.inbox.lock());
        let some = !answers.is_empty();
        for done in answers {
            self.answered(done)?;
        }
        if some {
            self.fetch_more();
        }
        Ok(some)
    }

    fn answered(&mut self, done: DiskDone) -> Result<(), String> {
        let (id, fetch) = (done.token & !WRITE, done.token & WRITE);
        self.health.answered(done.member);
        if fetch == WRITE {
            // Writes to a member that was pulled fail; nobody counts on them here.
            return Ok(());
        }
        let Some(restored) = self.reads.get_mut(&id) else { return Ok(()) };
        let answer = match (done.result, done.buffer) {
            (Ok(()), Some(buffer)) => Ok(buffer),
            (Err(error), _) => Err(error),
            (Ok(()), None) => return Err("a read came back without its buffer".to_owned()),
        };
        match restored.read.fetched(fetch as usize, answer) {
            UnitStep::Wait => {}
            UnitStep::Fetch(more) => self.fetch(id, more),
            UnitStep::Ready(rows) => {
                if let Some(restored) = self.reads.remove(&id)
                    && let Some(mut buffer) = self.arena.take(self.shelf.geometry.unit_bytes())
                {
                    for row in rows.rows() {
                        let bytes = rows.row_bytes(row);
                        buffer[row * bytes.len()..(row + 1) * bytes.len()].copy_from_slice(bytes);
                    }
                    self.write(restored.member, restored.offset, buffer, id | WRITE);
                }
            }
            UnitStep::Failed(error) => return Err(format!("a rebuild found bytes lost: {error}")),
        }
        Ok(())
    }

    fn fetch_more(&mut self) {
        while self.reads.len() < REBUILD_UNITS_IN_FLIGHT {
            let Some(rebuild) = &mut self.rebuild else { return };
            let Some((track, stripe, position)) = rebuild.left.pop_front() else {
                return self.rebuild = None;
            };
            let (member, offset) = track.map.unit_at(stripe, position);
            let rows = 0..self.shelf.geometry.unit_rows();
            let mut read = UnitRead::new(Arc::clone(&track.map), &self.health, stripe, position, rows);
            let fetches = read.reads();
            let id = self.token();
            self.reads.insert(id, Restored { read, member, offset });
            self.fetch(id, fetches);
        }
    }

    fn fetch(&mut self, id: u64, fetches: Vec<UnitFetch>) {
        for UnitFetch { index, member, offset, bytes, .. } in fetches {
            let Some(buffer) = self.arena.take(bytes) else { continue };
            let work = DiskWork::Read { offset, bytes, buffer };
            self.submit(member, work, id | index as u64);
        }
    }

    fn write(&mut self, member: usize, offset: u64, buffer: Buffer, token: u64) {
        self.submit(member, DiskWork::Write { offset, lease: buffer.freeze() }, token);
    }

    fn submit(&self, member: usize, work: DiskWork, token: u64) {
        let reply = Arc::clone(&self.inbox) as Arc<dyn Reply>;
        let (class, deadline_ns) = (Class::APERIODIC, DEADLINE_NONE_NS);
        self.disks.submit(DiskRequest { member, class, deadline_ns, work, token, reply });
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1 << FETCH_BITS;
        self.next_token
    }
}

impl Inbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<DiskDone>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reply for Inbox {
    fn deliver(&self, done: DiskDone) {
        self.lock().push(done);
    }
}
