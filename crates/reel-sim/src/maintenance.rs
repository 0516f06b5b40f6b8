//! The work that changes what the volume holds, beside viewers: ingest, scrub, replacement and
//! rebuild, by the code of `reel-volume` itself.

use crate::content;
use crate::cooperative_threads::{Clock, CooperativeThreads};
use crate::library::{title_record, write_stripe};
use crate::limits::{INGEST_ROOM_PART, INGEST_STRIPES, PROGRESS_NS, READ_BACK_PERMILLE, RETRY_NS};
use reel_code::Code;
use reel_qos::Class;
use reel_testkit::Rng;
use reel_volume::{
    CheckProgress, CooperativeWait, ObjectRecord, RepairOptions, Replacement, Volume, VolumeError,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All of them, and the volume.
pub(crate) struct Maintenance {
    pub(crate) volume: Volume,
    threads: CooperativeThreads,
    jobs: Arc<Mutex<JobState>>,
    /// The volume's directory. It is read once: the volume's status waits while the catalogue is
    /// changed, and the simulation never waits.
    directory: PathBuf,
    repairs: u32,
}

/// The state of the jobs, as they report it.
#[derive(Default)]
pub(crate) struct JobState {
    /// Titles that were ingested and are there, oldest first.
    pub(crate) ingested: Vec<Ingested>,
    /// The title of which it is not known yet whether it is there.
    pub(crate) changing: Option<Ingested>,
    /// Changes of the catalogue that began.
    pub(crate) changes: u64,
    pub(crate) running_repair: Option<RunningRepair>,
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
pub(crate) struct RunningRepair {
    pub(crate) what: Repair,
    moved_ns: u64,
    progress: Option<CheckProgress>,
}

impl Maintenance {
    pub(crate) fn new(volume: Volume, threads: CooperativeThreads) -> Maintenance {
        let directory = volume.status().directory;
        Maintenance { volume, threads, jobs: Arc::default(), directory, repairs: 0 }
    }

    /// Titles are ingested, so many stripes a second, one after another; old ones make room.
    pub(crate) fn ingest(&mut self, stripes_per_s: u64, rng: Rng) -> std::io::Result<()> {
        let (volume, jobs, clock) = (self.volume.clone(), Arc::clone(&self.jobs), self.threads.clock());
        let room = self.volume.free_bytes() / self.volume.geometry().stripe_bytes() as u64;
        let stripes_max = (room / INGEST_ROOM_PART).clamp(INGEST_STRIPES.0, INGEST_STRIPES.1);
        let stripe_ns = 1_000_000_000 / stripes_per_s;
        let mut ingest = Ingest { volume, jobs, clock, rng, stripe_ns, stripes_max, number: 0 };
        self.threads.spawn("ingest", move || ingest.run())
    }

    /// Begins to repair; `false` if another repair is under way. A scrub gives way.
    pub(crate) fn repair(&mut self, what: Repair) -> std::io::Result<bool> {
        let now_ns = self.threads.clock().now_ns();
        let mut jobs = lock(&self.jobs);
        if jobs.running_repair.is_some() {
            jobs.stop_scrub |= what != Repair::Scrub;
            return Ok(false);
        }
        let running_repair = RunningRepair { what, moved_ns: now_ns, progress: None };
        (jobs.running_repair, jobs.stop_scrub) = (Some(running_repair), false);
        drop(jobs);
        self.repairs += 1;
        let path = self.directory.join(format!("disk-{}.reel", self.repairs));
        let (volume, jobs, clock) = (self.volume.clone(), Arc::clone(&self.jobs), self.threads.clock());
        let mut job = RepairJob { volume, jobs, clock, what, path };
        self.threads.spawn("repair", move || job.run())?;
        Ok(true)
    }

    /// The next time at which a job wants a turn.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.threads.next_ns()
    }

    /// Gives a turn to every job that has something to do. The error is a broken invariant.
    pub(crate) fn turn(&mut self, now_ns: u64) -> Result<bool, String> {
        let some = self.threads.turn(now_ns)?;
        if some && let Some(what) = lock(&self.jobs).broken.take() {
            return Err(what);
        }
        Ok(some)
    }

    /// The state of the jobs, as they report it.
    pub(crate) fn jobs(&self) -> MutexGuard<'_, JobState> {
        lock(&self.jobs)
    }

    /// The repair that has made no progress for too long.
    pub(crate) fn stuck(&self, now_ns: u64) -> Option<String> {
        let running_repair = lock(&self.jobs).running_repair?;
        let idle_ns = now_ns.saturating_sub(running_repair.moved_ns);
        let at = running_repair.progress.map_or(0, |progress| progress.bytes_done);
        (idle_ns > PROGRESS_NS).then(|| {
            format!("{:?} has been at byte {at} for {} s", running_repair.what, idle_ns / 1_000_000_000)
        })
    }
}

struct Ingest {
    volume: Volume,
    jobs: Arc<Mutex<JobState>>,
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
                    lock(&self.jobs).done.ingest_failed += 1;
                    self.clock.sleep_until(self.clock.now_ns() + RETRY_NS);
                }
                Err(error) => {
                    lock(&self.jobs).broken.get_or_insert(format!("a title could not be ingested: {error}"));
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
            let Some(oldest) = lock(&self.jobs).ingested.first().cloned() else { break };
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
        let mut jobs = lock(&self.jobs);
        jobs.changing = None;
        done?;
        jobs.done.ingested += 1;
        jobs.ingested.push(title.clone());
        drop(jobs);
        if self.rng.permille(READ_BACK_PERMILLE) { self.read_back(&title, &object) } else { Ok(()) }
    }

    fn remove(&self, title: &Ingested) -> Result<(), VolumeError> {
        self.begin_change(title);
        let done = self.volume.remove(&title.id);
        if !self.clock.is_over() {
            let mut jobs = lock(&self.jobs);
            jobs.changing = None;
            // What could not be removed is there, and takes its room.
            if done.is_ok() {
                jobs.ingested.retain(|other| other.id != title.id);
                jobs.done.removed += 1;
            }
        }
        done
    }

    fn begin_change(&self, title: &Ingested) {
        let mut jobs = lock(&self.jobs);
        jobs.changes += 1;
        jobs.changing = Some(title.clone());
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
                lock(&self.jobs).broken.get_or_insert(what);
                break;
            }
            at = range.end;
        }
        lock(&self.jobs).done.read_back += 1;
        Ok(())
    }
}

struct RepairJob {
    volume: Volume,
    jobs: Arc<Mutex<JobState>>,
    clock: Arc<Clock>,
    what: Repair,
    path: PathBuf,
}

impl RepairJob {
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
                    lock(&self.jobs).broken.get_or_insert(what);
                    break;
                }
            }
        }
        lock(&self.jobs).running_repair = None;
    }

    fn replace(&self, member: usize) -> Result<(), VolumeError> {
        self.volume.replace(&Replacement {
            create: true,
            force: true,
            replace_healthy: true,
            ..Replacement::new(member, self.path.clone())
        })?;
        lock(&self.jobs).done.replaced += 1;
        Ok(())
    }

    fn rebuild(&self, member: usize) -> Result<(), VolumeError> {
        let begun_ns = self.clock.now_ns();
        let report =
            self.volume.rebuild(member, RepairOptions::default(), &mut |progress| self.moved(progress))?;
        let mut jobs = lock(&self.jobs);
        if report.lost_rows > 0 {
            jobs.broken.get_or_insert(format!("{} rows are lost according to the rebuild", report.lost_rows));
        }
        jobs.done.rebuilt += u64::from(report.complete);
        jobs.done.rebuilt_units += report.written_bytes / self.volume.geometry().unit_bytes() as u64;
        let took_ns = self.clock.now_ns() - begun_ns;
        jobs.done.rebuild_most_ns = jobs.done.rebuild_most_ns.max(took_ns);
        Ok(())
    }

    fn scrub(&self) -> Result<(), VolumeError> {
        let report = self.volume.scrub(RepairOptions::default(), &mut |progress| {
            self.moved(progress) && !lock(&self.jobs).stop_scrub
        })?;
        let mut jobs = lock(&self.jobs);
        if !report.nothing_lost() {
            jobs.broken.get_or_insert("rows are lost according to the scrub".to_owned());
        }
        jobs.done.scrubbed += u64::from(report.complete);
        jobs.done.repaired_rows += report.members.iter().map(|member| member.repaired_rows).sum::<u64>();
        Ok(())
    }

    fn moved(&self, progress: CheckProgress) -> bool {
        if let Some(running_repair) = &mut lock(&self.jobs).running_repair {
            (running_repair.moved_ns, running_repair.progress) = (self.clock.now_ns(), Some(progress));
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

fn lock(jobs: &Mutex<JobState>) -> MutexGuard<'_, JobState> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}
