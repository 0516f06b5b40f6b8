//! An open volume.

use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use reel_arena::Arena;
use reel_code::Code;
use reel_disk::Disks;
use reel_qos::Class;

use crate::access::{Access, Errand};
use crate::catalogue::{ObjectEntry, ObjectRecord, Role, Selection, Sums, TitleRecord, TitleRecordError};
use crate::check::{CheckProgress, CheckReport, check};
use crate::commit::{Around, Change, CommitStatus, Committer, drop_member};
use crate::counters::VolumeCounters;
use crate::create::{VolumeOptions, VolumeSummary, create};
use crate::error::VolumeError;
use crate::fill::Filler;
use crate::finding::{Finding, MemberState};
use crate::geometry::Geometry;
use crate::health::{Health, MemberUse};
use crate::hold::Space;
use crate::ids::{MemberId, VolumeId};
use crate::limits::OBJECT_BYTES_MAX;
use crate::members::rebuilding_finding;
use crate::object::{ObjectMap, ObjectParts};
use crate::open::{OpenOptions, open};
use crate::reader::ObjectReader;
use crate::rebuild::{MendOptions, RebuildReport, rebuild};
use crate::replace::{Replacement, replace};
use crate::scrub::scrub;
use crate::superblock::Superblock;
use crate::writer::ObjectWriter;

/// An open volume; clones are the same. It is closed, and its locks are given up, when the last clone and
/// everything made from it are gone.
#[derive(Clone)]
pub struct Volume {
    inner: Arc<Inner>,
}

/// A volume in numbers and words.
#[derive(Clone, Debug)]
pub struct VolumeStatus {
    /// Its name.
    pub volume: VolumeId,
    /// Where its `volume.toml` is.
    pub directory: PathBuf,
    /// Its geometry.
    pub geometry: Geometry,
    /// Its code.
    pub code: Code,
    /// Its members as they are now.
    pub members: Vec<Finding>,
    /// Object bytes that fit in all.
    pub capacity_bytes: u64,
    /// Object bytes that still fit.
    pub free_bytes: u64,
    /// Titles.
    pub titles: usize,
    /// Which catalogue is in force.
    pub commit: CommitStatus,
    /// Why it can only be read, if so.
    pub read_only: Option<String>,
    /// When it was made, in seconds since 1970-01-01 UTC.
    pub created_unix_s: u64,
}

pub(crate) struct Inner {
    pub(crate) directory: PathBuf,
    pub(crate) superblock: Superblock,
    pub(crate) geometry: Geometry,
    findings: Vec<Finding>,
    pub(crate) access: Access,
    pub(crate) health: Health,
    pub(crate) counters: Arc<VolumeCounters>,
    pub(crate) space: Space,
    slots: u64,
    titles: RwLock<Arc<Vec<Arc<TitleRecord>>>>,
    /// Held while titles change, so that the catalogue and the list of titles change together.
    change: Mutex<()>,
    committer: Committer,
    /// Which disks stand for the members.
    disks: Mutex<Disk>,
    /// What each member was found to be, or became by being replaced.
    current: Mutex<Vec<Finding>>,
    /// The scrub, rebuild or replacement that is under way.
    job: Mutex<Option<&'static str>>,
}

/// What is known of the disks behind the members.
pub(crate) struct Disk {
    /// Open for the sake of their locks: those of members, and `volume.toml`.
    pub(crate) locks: Vec<(Option<usize>, File)>,
    /// Whether the disk of a member is the one that the catalogue means.
    pub(crate) belongs: Vec<bool>,
}

/// A scrub, rebuild or replacement; no other begins before it is dropped.
pub(crate) struct Job<'a>(&'a Inner);

impl Volume {
    /// Makes a volume in a directory. When it fails, nothing is left of it.
    pub fn create(directory: impl AsRef<Path>, options: VolumeOptions) -> Result<VolumeSummary, VolumeError> {
        create(directory.as_ref(), &options)
    }

    /// Opens the volume of a directory.
    ///
    /// Takes locks, finds the members, decides which catalogue is in force and, unless it is opened for reading,
    /// brings every member in sync to it.
    pub fn open(directory: impl AsRef<Path>, options: OpenOptions) -> Result<Volume, VolumeError> {
        open(directory.as_ref(), options)
    }

    /// What was found out about each member when the volume was opened.
    pub fn findings(&self) -> &[Finding] {
        &self.inner.findings
    }

    /// The media memory.
    pub fn arena(&self) -> &Arena {
        &self.inner.access.arena
    }

    /// The disks.
    pub fn disks(&self) -> &Disks {
        &self.inner.access.disks
    }

    /// Which members are read.
    pub fn health(&self) -> &Health {
        &self.inner.health
    }

    /// The geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.inner.geometry
    }

    /// What was counted since the volume was opened.
    pub fn counters(&self) -> &VolumeCounters {
        &self.inner.counters
    }

    /// All titles, in the order in which they were published.
    pub fn titles(&self) -> Arc<Vec<Arc<TitleRecord>>> {
        self.inner.titles()
    }

    /// The title of this id.
    pub fn title(&self, id: &str) -> Option<Arc<TitleRecord>> {
        self.titles().iter().find(|title| title.id == id).cloned()
    }

    /// Object bytes that fit, in whole stripes.
    pub fn free_bytes(&self) -> u64 {
        self.inner.free_bytes()
    }

    /// The volume in numbers and words.
    pub fn status(&self) -> VolumeStatus {
        let inner = &self.inner;
        VolumeStatus {
            volume: inner.superblock.volume,
            directory: inner.directory.clone(),
            geometry: inner.geometry,
            code: inner.superblock.code,
            members: inner.members_now(),
            capacity_bytes: inner.slots * inner.geometry.stripe_bytes() as u64,
            free_bytes: inner.free_bytes(),
            titles: inner.titles().len(),
            commit: inner.committer.status(),
            read_only: inner.committer.refusal(),
            created_unix_s: inner.superblock.created_unix_s,
        }
    }

    /// Begins a new object.
    pub fn writer(&self, class: Class) -> Result<ObjectWriter, VolumeError> {
        if let Some(reason) = self.inner.committer.refusal() {
            return Err(VolumeError::ReadOnly { reason });
        }
        Ok(ObjectWriter::new(Arc::clone(&self.inner), class))
    }

    /// Sees whether so many object bytes fit, before they are written.
    pub fn ensure_free(&self, bytes: u64) -> Result<(), VolumeError> {
        let needed_bytes = self.inner.geometry.stripes(bytes) * self.inner.geometry.stripe_bytes() as u64;
        let free_bytes = self.inner.free_bytes();
        if needed_bytes > free_bytes { Err(VolumeError::Full { needed_bytes, free_bytes }) } else { Ok(()) }
    }

    /// Publishes a title whose objects were written to this volume: afterwards it is there, whatever happens, on
    /// every member in sync; before, and after an error, it is not.
    pub fn publish(&self, title: TitleRecord) -> Result<(), VolumeError> {
        self.inner.publish(title)
    }

    /// Removes a title. Its slots are used again once nobody holds its record or a map of its objects any more.
    pub fn remove(&self, id: &str) -> Result<(), VolumeError> {
        self.inner.remove(id)
    }

    /// The map of an object, taken from a title of this volume or just written. Reads the checksums of a large
    /// object from the disks, and waits for them.
    pub fn map(&self, object: &ObjectRecord) -> Result<Arc<ObjectMap>, VolumeError> {
        self.inner.map(object, self.inner.name_of(object)).map(Arc::new)
    }

    /// Reads a range of an object's bytes; beyond its end there are none.
    pub fn reader(&self, map: Arc<ObjectMap>, range: Range<u64>, class: Class) -> ObjectReader {
        ObjectReader::new(Arc::clone(&self.inner), map, range, class)
    }

    /// Reads every unit of every object, parity included, and verifies all of it. `progress` is told after every
    /// stripe; it returns `false` to stop early.
    pub fn check(&self, progress: &mut dyn FnMut(CheckProgress) -> bool) -> CheckReport {
        check(&self.inner, progress)
    }

    /// Reads every unit of every object, parity included, verifies it, and writes anew what is not as it was written, as
    /// far as it can be computed. `progress` is told after every stripe; it returns `false` to stop early. May run while
    /// the volume is in use.
    pub fn scrub(
        &self,
        options: MendOptions,
        progress: &mut dyn FnMut(CheckProgress) -> bool,
    ) -> Result<CheckReport, VolumeError> {
        scrub(&self.inner, options, progress)
    }

    /// Gives a member a successor: an empty file or device, which gets from here on what is written, and is read once
    /// [`Volume::rebuild`] has filled it. May be done while the volume is in use.
    pub fn replace(&self, replacement: &Replacement) -> Result<Finding, VolumeError> {
        replace(&self.inner, replacement)
    }

    /// Fills a member that is new, was away or failed with all it should hold, and puts it in use. `progress` is told
    /// after every few units; it returns `false` to stop early. What was done stays done: the next rebuild goes on. May
    /// run while the volume is in use.
    pub fn rebuild(
        &self,
        member: usize,
        options: MendOptions,
        progress: &mut dyn FnMut(CheckProgress) -> bool,
    ) -> Result<RebuildReport, VolumeError> {
        rebuild(&self.inner, member, options, progress)
    }

    /// Members that are being rebuilt: written, not read.
    pub fn rebuilding(&self) -> Vec<usize> {
        let members = 0..self.inner.geometry.members();
        members.filter(|&member| self.inner.health.member(member) == MemberUse::Rebuilding).collect()
    }

    pub(crate) fn from_inner(inner: Inner) -> Volume {
        Volume { inner: Arc::new(inner) }
    }
}

impl Inner {
    #[allow(clippy::too_many_arguments, reason = "called once, by the function that found all of these out")]
    pub(crate) fn new(
        directory: PathBuf,
        superblock: Superblock,
        findings: Vec<Finding>,
        access: Access,
        health: Health,
        counters: Arc<VolumeCounters>,
        space: Space,
        slots: u64,
        titles: Vec<Arc<TitleRecord>>,
        committer: Committer,
        disks: Disk,
    ) -> Inner {
        Inner {
            directory,
            geometry: superblock.geometry,
            superblock,
            current: Mutex::new(findings.clone()),
            findings,
            access,
            health,
            counters,
            space,
            slots,
            titles: RwLock::new(Arc::new(titles)),
            change: Mutex::new(()),
            committer,
            disks: Mutex::new(disks),
            job: Mutex::new(None),
        }
    }

    /// Begins an epoch with what is in force, so that every member present holds it and none that is away can
    /// come back with something higher.
    pub(crate) fn settle(&self, selection: &Selection) -> Result<(), VolumeError> {
        if selection.settled || self.committer.refusal().is_some() {
            return Ok(());
        }
        let titles = self.titles();
        self.committer.commit(&self.around(), titles.iter().map(|title| &**title), Change::Epoch)
    }

    pub(crate) fn titles(&self) -> Arc<Vec<Arc<TitleRecord>>> {
        Arc::clone(&self.titles.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    pub(crate) fn members_now(&self) -> Vec<Finding> {
        let mut members = lock(&self.current).clone();
        for finding in &mut members {
            let state = self.health.member(finding.member);
            if state == MemberUse::Rebuilding {
                *finding = rebuilding_finding(finding.member, &finding.path);
            } else if let (MemberUse::Out, Some(reason)) = (state, self.health.reason(finding.member)) {
                finding.state = MemberState::Failed;
                finding.text = format!(
                    "it failed while the volume was in use, so it is not used any more ({reason}); its bytes are computed \
                     from the other members until it is replaced or rebuilt"
                );
            } else if self.health.suspect(finding.member) {
                let reason = self.health.reason(finding.member).unwrap_or_default();
                finding.text = format!(
                    "in use only because no other can be spared: it fails again and again ({reason}); replace the \
                     member that is out, then this one"
                );
            }
        }
        members
    }

    pub(crate) fn map(&self, object: &ObjectRecord, name: String) -> Result<ObjectMap, VolumeError> {
        if !object.hold.holds(&self.space, &object.all_extents()) {
            return Err(VolumeError::NotHeld);
        }
        self.map_held(object, object, name, (Errand::of(Class::INTERACTIVE), &mut || {}))
    }

    /// `part` is the object itself or, further down, the object of its checksums, which is read on this errand; whoever is on it is
    /// told whenever some of it has come.
    pub(crate) fn map_held(
        &self,
        object: &ObjectRecord,
        part: &ObjectRecord,
        name: String,
        (errand, each): (Errand, &mut dyn FnMut()),
    ) -> Result<ObjectMap, VolumeError> {
        let sums = match &part.sums {
            Sums::Inline(sums) => sums.clone(),
            Sums::Object(sums) => {
                let map =
                    self.map_held(object, sums, format!("the checksums of {name}"), (errand, &mut *each))?;
                self.read_sums(Arc::new(map), errand, each)?
            }
        };
        Ok(ObjectMap::new(ObjectParts {
            name,
            geometry: self.geometry,
            code: self.superblock.code,
            bytes: part.bytes,
            extents: part.extents.clone(),
            sums,
            data_offset: self.superblock.data_offset,
            counters: Arc::clone(&self.counters),
            hold: object.hold.clone(),
        }))
    }

    fn around(&self) -> Around<'_> {
        Around { access: &self.access, health: &self.health, counters: &self.counters }
    }

    fn free_bytes(&self) -> u64 {
        self.space.lock().free() * self.geometry.stripe_bytes() as u64
    }

    fn read_sums(
        &self,
        map: Arc<ObjectMap>,
        errand: Errand,
        each: &mut dyn FnMut(),
    ) -> Result<Vec<u32>, VolumeError> {
        let bytes = ObjectReader::read_all(self, map, errand, each)?;
        let (sums, _) = bytes.as_chunks::<4>();
        Ok(sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect())
    }

    /// What to call an object in messages.
    fn name_of(&self, object: &ObjectRecord) -> String {
        let named = object.first_slot().and_then(|slot| {
            let titles = self.titles();
            titles.iter().find_map(|title| {
                let entry = title.objects.iter().find(|entry| entry.object.first_slot() == Some(slot))?;
                Some(entry_name(title, entry))
            })
        });
        named.unwrap_or_else(|| "an object that is not published".to_owned())
    }

    fn publish(&self, title: TitleRecord) -> Result<(), VolumeError> {
        title.check(&self.geometry, self.slots)?;
        for entry in &title.objects {
            let object = &entry.object;
            let own =
                object.bytes <= OBJECT_BYTES_MAX && object.hold.holds(&self.space, &object.all_extents());
            if !own || object.hold.is_published() {
                let rule = "one of its objects was not written for it to this volume";
                return Err(TitleRecordError { id: title.id, rule }.into());
            }
        }
        let _change = self.begin_change();
        let before = self.titles();
        if before.iter().any(|other| other.id == title.id) {
            return Err(VolumeError::TitleExists { id: title.id });
        }
        self.complete(&title)?;
        let title = Arc::new(title);
        let after: Vec<Arc<TitleRecord>> = before.iter().cloned().chain([Arc::clone(&title)]).collect();
        self.change_to(after, &title, true)
    }

    fn remove(&self, id: &str) -> Result<(), VolumeError> {
        let _change = self.begin_change();
        let before = self.titles();
        let Some(title) = before.iter().find(|title| title.id == id).cloned() else {
            return Err(VolumeError::NoSuchTitle { id: id.to_owned() });
        };
        let after: Vec<Arc<TitleRecord>> = before.iter().filter(|other| other.id != id).cloned().collect();
        self.change_to(after, &title, false)
    }

    fn change_to(
        &self,
        after: Vec<Arc<TitleRecord>>,
        title: &TitleRecord,
        published: bool,
    ) -> Result<(), VolumeError> {
        let set_published =
            |to: bool| title.objects.iter().for_each(|entry| entry.object.hold.set_published(to));
        let done = self.committer.commit(&self.around(), after.iter().map(|title| &**title), Change::Titles);
        match done {
            Ok(()) => {
                set_published(published);
                *self.titles.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(after);
            }
            // It may be on some members already, so its slots stay taken until the volume is opened again.
            Err(_) if self.committer.refusal().is_some() => set_published(true),
            Err(_) => {}
        }
        done
    }

    pub(crate) fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.access.waits.lock(&self.change)
    }

    /// The right to change what the members hold.
    pub(crate) fn begin_job(&self, what: &'static str) -> Result<Job<'_>, VolumeError> {
        let mut job = lock(&self.job);
        if let Some(running) = *job {
            return Err(VolumeError::Busy { running });
        }
        *job = Some(what);
        Ok(Job(self))
    }

    /// Why nothing may be written, if so.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.committer.refusal()
    }

    pub(crate) fn next_epoch(&self) -> u64 {
        self.committer.next_epoch()
    }

    pub(crate) fn member_id(&self, member: usize) -> Option<MemberId> {
        self.committer.member_id(member)
    }

    /// Whether the disk of a member is there and the one that the catalogue means.
    pub(crate) fn belongs(&self, member: usize) -> bool {
        lock(&self.disks).belongs[member]
    }

    /// Where a member is, or should be.
    pub(crate) fn member_path(&self, member: usize) -> PathBuf {
        lock(&self.current)[member].path.clone()
    }

    /// The member whose disk this is, if any has it open.
    pub(crate) fn member_at(&self, metadata: &Metadata) -> Option<usize> {
        let same = |file: &File| file.metadata().is_ok_and(|own| identity(&own) == identity(metadata));
        let disks = lock(&self.disks);
        disks.locks.iter().filter(|(_, file)| same(file)).find_map(|(member, _)| *member)
    }

    /// Another disk, which is locked, stands for a member.
    pub(crate) fn replaced(&self, member: usize, path: PathBuf, file: File) {
        let mut disks = lock(&self.disks);
        disks.locks.retain(|(other, _)| *other != Some(member));
        disks.locks.push((Some(member), file));
        disks.belongs[member] = true;
        lock(&self.current)[member] = rebuilding_finding(member, &path);
    }

    /// Keeps a new `volume.toml` locked.
    pub(crate) fn keep_locked(&self, manifest: File) {
        lock(&self.disks).locks.push((None, manifest));
    }

    /// Commits the titles as they are, with a change of the members. The caller holds the right to change.
    pub(crate) fn commit_titles(&self, change: Change) -> Result<(), VolumeError> {
        let titles = self.titles();
        self.committer.commit(&self.around(), titles.iter().map(|title| &**title), change)
    }

    /// Puts a member that holds everything in sync and in use. The caller holds the right to change.
    pub(crate) fn join(&self, member: usize) -> Result<(), VolumeError> {
        self.commit_titles(Change::Join(member))?;
        if !self.committer.in_sync(member) || !self.health.rebuilt(member) {
            let reason = self.health.reason(member).unwrap_or_default();
            return Err(VolumeError::Options(format!(
                "member {member} failed before it was in use: {reason}"
            )));
        }
        let mut current = lock(&self.current);
        current[member].state = MemberState::Present;
        "in use".clone_into(&mut current[member].text);
        drop(current);
        // And a second copy, so that one that is damaged later is not its only one.
        self.commit_titles(Change::Titles)
    }

    /// A member may have come into use while these objects were written, and lack what was written before. If that cannot be computed, because another
    /// member has gone since, the title must not be there: a member in use would not hold all of it.
    fn complete(&self, title: &TitleRecord) -> Result<(), VolumeError> {
        let lives = self.health.lives();
        for member in (0..self.geometry.members()).filter(|&member| self.health.readable(member)) {
            let lacking = title.objects.iter().filter(|entry| entry.object.hold.may_lack(member, &lives));
            let mut filler = Filler::new(self, member);
            for entry in lacking {
                let filled = filler.object(&entry.object, &entry_name(title, entry), &mut |_| true);
                if let Err(error) = filled {
                    // It lacks what it should hold, so it is not in sync with what comes.
                    drop_member(&self.health, &self.counters, member, &error.to_string());
                    break;
                }
            }
            if self.health.readable(member) && filler.filled.lost_rows > 0 {
                return Err(VolumeError::MembersFailed {
                    failed: self.health.lost() + 1,
                    members: self.geometry.members(),
                    tolerated: self.geometry.parity_rows(),
                    last: format!("member {member} lacks a part of {}, written while it was away", title.id),
                });
            }
        }
        Ok(())
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        *lock(&self.0.job) = None;
    }
}

/// Tells one file or device from another, by whatever name.
fn identity(metadata: &Metadata) -> (bool, u64, u64) {
    // Two nodes of one device have different inodes, but one device number.
    match metadata.file_type().is_block_device() {
        true => (true, metadata.rdev(), 0),
        false => (false, metadata.dev(), metadata.ino()),
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Single steps that do not panic.
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What to call an object of a title in messages.
pub(crate) fn entry_name(title: &TitleRecord, entry: &ObjectEntry) -> String {
    match entry.role {
        Role::Index => format!("the index of {}", title.id),
        Role::Tables => format!("tables {} of {}", entry.number, title.id),
        Role::Track => format!("track {} of {}", entry.number, title.id),
        Role::Artwork => format!("artwork {} of {}", entry.number, title.id),
    }
}
