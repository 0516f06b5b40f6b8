//! The work that changes what the volume holds, beside viewers: ingest, scrub, replacement and
//! rebuild, by the code of `reel-volume` itself.

use crate::content;
use crate::library::{title_record, write_stripe};
use crate::limits::{INGEST_ROOM_PART, INGEST_STRIPES, PROGRESS_NS, READ_BACK_PERMILLE, RETRY_NS};
use crate::stage::{Clock, Stage};
use reel_code::Code;
use reel_qos::Class;
use reel_testkit::Rng;
use reel_volume::{
    CheckProgress, CooperativeWait, ObjectRecord, RepairOptions, Replacement, Volume, VolumeError,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All of them, and the volume.
pub(crate) struct Upkeep {
    pub(crate) volume: Volume,
    stage: Stage,
    board: Arc<Mutex<Board>>,
    /// The volume's directory. It is read once: the volume's status waits while the catalogue is
    /// changed, and the world never waits.
    directory: PathBuf,
    lives: u32,
}

/// What they tell.
#[derive(Default)]
pub(crate) struct Board {
    /// Titles that were ingested and are there, oldest first.
    pub(crate) ingested: Vec<Ingested>,
    /// The title of which it is not told yet whether it is there.
    pub(crate) changing: Option<Ingested>,
    /// Changes of the catalogue that began.
    pub(crate) changes: u64,
    pub(crate) mending: Option<Mending>,
    pub(crate) done: Done,
    stop_scrub: bool,
    broken: Option<String>,
}

/// What they did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) ingested: u64,
    pub(crate) ingest_failed: u64,
    pub(crate) read_back: u64,
    pub(crate) removed: u64,
    pub(crate) replaced: u64,
    pub(crate) rebuilt: u64,
    pub(crate) rebuilt_units: u64,
    pub(crate) rebuild_most_ns: u64,
    pub(crate) scrubbed: u64,
    pub(crate) repaired_rows: u64,
}

/// A title of one object.
#[derive(Clone, Debug)]
pub(crate) struct Ingested {
    pub(crate) id: String,
    pub(crate) seed: u64,
    pub(crate) bytes: u64,
    /// The slot of each stripe.
    pub(crate) slots: Vec<u64>,
}

/// A member, or all of them, are being brought to what they should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// A new disk takes the place of this member's.
    Replace(usize),
    /// This member is filled.
    Rebuild(usize),
    /// Everything is verified.
    Scrub,
}

/// How far one of these has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mending {
    pub(crate) what: Repair,
    moved_ns: u64,
    progress: Option<CheckProgress>,
}

impl Upkeep {
    pub(crate) fn new(volume: Volume, stage: Stage) -> Upkeep {
        let directory = volume.status().directory;
        Upkeep { volume, stage, board: Arc::default(), directory, lives: 0 }
    }

    /// Titles are ingested, so many stripes a second, one after another; old ones make room.
    pub(crate) fn ingest(&mut self, stripes_per_s: u64, rng: Rng) -> std::io::Result<()> {
        let (volume, board, clock) = (self.volume.clone(), Arc::clone(&self.board), self.stage.clock());
        let room = self.volume.free_bytes() / self.volume.geometry().stripe_bytes() as u64;
        let stripes_max = (room / INGEST_ROOM_PART).clamp(INGEST_STRIPES.0, INGEST_STRIPES.1);
        let stripe_ns = 1_000_000_000 / stripes_per_s;
        let mut ingest = Ingest { volume, board, clock, rng, stripe_ns, stripes_max, number: 0 };
        self.stage.enter("ingest", move || ingest.run())
    }

    /// Begins to repair; `false` if another repair is under way. A scrub gives way.
    pub(crate) fn repair(&mut self, what: Repair) -> std::io::Result<bool> {
        let now_ns = self.stage.clock().now_ns();
        let mut board = lock(&self.board);
        if board.mending.is_some() {
            board.stop_scrub |= what != Repair::Scrub;
            return Ok(false);
        }
        let mending = Mending { what, moved_ns: now_ns, progress: None };
        (board.mending, board.stop_scrub) = (Some(mending), false);
        drop(board);
        self.lives += 1;
        let path = self.directory.join(format!("disk-{}.reel", self.lives));
        let (volume, board, clock) = (self.volume.clone(), Arc::clone(&self.board), self.stage.clock());
        let mut mender = Mender { volume, board, clock, what, path };
        self.stage.enter("mend", move || mender.run())?;
        Ok(true)
    }

    /// The next time at which a job wants a turn.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.stage.next_ns()
    }

    /// Gives a turn to every job that has something to do. The error is a broken invariant.
    pub(crate) fn turn(&mut self, now_ns: u64) -> Result<bool, String> {
        let some = self.stage.turn(now_ns)?;
        if some && let Some(what) = lock(&self.board).broken.take() {
            return Err(what);
        }
        Ok(some)
    }

    /// What they tell.
    pub(crate) fn board(&self) -> MutexGuard<'_, Board> {
        lock(&self.board)
    }

    /// The repair that has made no progress for too long.
    pub(crate) fn stuck(&self, now_ns: u64) -> Option<String> {
        let mending = lock(&self.board).mending?;
        let idle_ns = now_ns.saturating_sub(mending.moved_ns);
        let at = mending.progress.map_or(0, |progress| progress.bytes_done);
        (idle_ns > PROGRESS_NS)
            .then(|| format!("{:?} has been at byte {at} for {} s", mending.what, idle_ns / 1_000_000_000))
    }
}

struct Ingest {
    volume: Volume,
    board: Arc<Mutex<Board>>,
    clock: Arc<Clock>,
    rng: Rng,
    stripe_ns: u64,
    /// Of a title: no more than there is room for beside the library.
    stripes_max: u64,
    number: u64,
}

impl Ingest {
    fn run(&mut self) {
        while !self.clock.is_over() {
            match self.one() {
                Ok(()) => {}
                Err(_) if self.clock.is_over() => return,
                // Written while one member was away, and another is now.
                Err(VolumeError::NoMemory { .. } | VolumeError::MembersFailed { .. }) => {
                    lock(&self.board).done.ingest_failed += 1;
                    self.clock.sleep_until(self.clock.now_ns() + RETRY_NS);
                }
                Err(error) => {
                    lock(&self.board).broken.get_or_insert(format!("a title could not be ingested: {error}"));
                    return;
                }
            }
        }
    }

    fn one(&mut self) -> Result<(), VolumeError> {
        let geometry = *self.volume.geometry();
        let stripe_bytes = geometry.stripe_bytes() as u64;
        let stripes = self.rng.range(INGEST_STRIPES.0, self.stripes_max + 1);
        let bytes = stripes * stripe_bytes - self.rng.below(stripe_bytes);
        // Checksums and what a writer sets aside want room, too.
        while self.volume.ensure_free(2 * bytes).is_err() {
            let Some(oldest) = lock(&self.board).ingested.first().cloned() else { break };
            self.remove(&oldest)?;
        }
        let seed = self.rng.bits();
        let mut writer = self.volume.writer(Class::APERIODIC)?;
        let mut at = 0;
        while at < bytes {
            let next_ns = self.clock.now_ns() + self.stripe_ns;
            at = write_stripe(&mut writer, &geometry, (seed, bytes), at)?;
            self.clock.sleep_until(next_ns);
        }
        let object = writer.finish()?;
        let title = Ingested { id: format!("clip-{}", self.number), seed, bytes, slots: slots(&object) };
        self.number += 1;
        let record = title_record(title.id.clone(), vec![object.clone()]);
        self.begin_change(&title);
        let done = self.volume.publish(record);
        if self.clock.is_over() {
            return done;
        }
        let mut board = lock(&self.board);
        board.changing = None;
        done?;
        board.done.ingested += 1;
        board.ingested.push(title.clone());
        drop(board);
        if self.rng.permille(READ_BACK_PERMILLE) { self.read_back(&title, &object) } else { Ok(()) }
    }

    fn remove(&self, title: &Ingested) -> Result<(), VolumeError> {
        self.begin_change(title);
        let done = self.volume.remove(&title.id);
        if !self.clock.is_over() {
            let mut board = lock(&self.board);
            board.changing = None;
            // What could not be removed is there, and takes its room.
            if done.is_ok() {
                board.ingested.retain(|other| other.id != title.id);
                board.done.removed += 1;
            }
        }
        done
    }

    fn begin_change(&self, title: &Ingested) {
        let mut board = lock(&self.board);
        board.changes += 1;
        board.changing = Some(title.clone());
    }

    /// Reads a title as an export does.
    fn read_back(&self, title: &Ingested, object: &ObjectRecord) -> Result<(), VolumeError> {
        let map = self.volume.map(object)?;
        let mut reader = self.volume.reader(map, 0..title.bytes, Class::APERIODIC).in_runs();
        let (mut at, mut bytes) = (0, vec![0; self.volume.geometry().stripe_bytes()]);
        while at < title.bytes {
            let count = reader.next_bytes(&mut bytes)?;
            let range = at..at + count as u64;
            if let Some(wrong) = content::first_wrong(title.seed, range.clone(), &bytes[..count]) {
                let what = format!("byte {wrong} of {}, which was ingested, is wrong", title.id);
                lock(&self.board).broken.get_or_insert(what);
                break;
            }
            at = range.end;
        }
        lock(&self.board).done.read_back += 1;
        Ok(())
    }
}

struct Mender {
    volume: Volume,
    board: Arc<Mutex<Board>>,
    clock: Arc<Clock>,
    what: Repair,
    path: PathBuf,
}

impl Mender {
    fn run(&mut self) {
        loop {
            let result = match self.what {
                Repair::Replace(member) => self.replace(member).and_then(|()| self.rebuild(member)),
                Repair::Rebuild(member) => self.rebuild(member),
                Repair::Scrub => self.scrub(),
            };
            match result {
                _ if self.clock.is_over() => return,
                Ok(()) => break,
                Err(VolumeError::NoMemory { .. }) => {
                    self.clock.sleep_until(self.clock.now_ns() + RETRY_NS);
                    if let Repair::Replace(member) = self.what
                        && self.volume.rebuilding().contains(&member)
                    {
                        self.what = Repair::Rebuild(member);
                    }
                }
                Err(error) => {
                    let what = format!("{:?} failed: {error}", self.what);
                    lock(&self.board).broken.get_or_insert(what);
                    break;
                }
            }
        }
        lock(&self.board).mending = None;
    }

    fn replace(&self, member: usize) -> Result<(), VolumeError> {
        self.volume.replace(&Replacement {
            member,
            path: self.path.clone(),
            force: true,
            replace_healthy: true,
        })?;
        lock(&self.board).done.replaced += 1;
        Ok(())
    }

    fn rebuild(&self, member: usize) -> Result<(), VolumeError> {
        let begun_ns = self.clock.now_ns();
        let report =
            self.volume.rebuild(member, RepairOptions::default(), &mut |progress| self.moved(progress))?;
        let mut board = lock(&self.board);
        if report.lost_rows > 0 {
            board.broken.get_or_insert(format!("{} rows are lost, says the rebuild", report.lost_rows));
        }
        board.done.rebuilt += u64::from(report.complete);
        board.done.rebuilt_units += report.written_bytes / self.volume.geometry().unit_bytes() as u64;
        let took_ns = self.clock.now_ns() - begun_ns;
        board.done.rebuild_most_ns = board.done.rebuild_most_ns.max(took_ns);
        Ok(())
    }

    fn scrub(&self) -> Result<(), VolumeError> {
        let report = self.volume.scrub(RepairOptions::default(), &mut |progress| {
            self.moved(progress) && !lock(&self.board).stop_scrub
        })?;
        let mut board = lock(&self.board);
        if !report.nothing_lost() {
            board.broken.get_or_insert("rows are lost, says the scrub".to_owned());
        }
        board.done.scrubbed += u64::from(report.complete);
        board.done.repaired_rows += report.members.iter().map(|member| member.repaired_rows).sum::<u64>();
        Ok(())
    }

    fn moved(&self, progress: CheckProgress) -> bool {
        if let Some(mending) = &mut lock(&self.board).mending {
            (mending.moved_ns, mending.progress) = (self.clock.now_ns(), Some(progress));
        }
        !self.clock.is_over()
    }
}

/// The units of a title's stripe that lie on a member are what was written; `None`, or what is
/// wrong.
pub(crate) fn wrong_unit(
    title: &Ingested,
    geometry: &reel_volume::Geometry,
    member: usize,
    unit_of: impl Fn(u64) -> content::Unit,
) -> Option<String> {
    for (stripe, &slot) in (0..).zip(&title.slots) {
        for position in 0..geometry.width() {
            let place = geometry.place(slot, position);
            let should = || content::unit(geometry, Code::Xor, (title.seed, title.bytes), stripe, position);
            if place.member == member && unit_of(place.unit) != should() {
                return Some(format!(
                    "member {member} is in use and does not hold unit {} as it was written: stripe {stripe} of {}",
                    place.unit, title.id
                ));
            }
        }
    }
    None
}

fn slots(object: &ObjectRecord) -> Vec<u64> {
    object.extents.iter().flat_map(|extent| extent.first_slot..extent.first_slot + extent.slots).collect()
}

fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}
