//! An open volume.

mod inner;
mod publish;

pub(crate) use inner::{Disk, Inner};

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reel_arena::Arena;
use reel_code::Code;
use reel_disk::Disks;
use reel_qos::Class;

use crate::catalogue::{
    ObjectEntry, ObjectRecord, Role, STREAM_INDEX_NUMBER, STREAM_NUMBER, STREAM_SUMS_NUMBER, TitleRecord,
    WARNINGS_NUMBER,
};
use crate::check::{CheckProgress, CheckReport, check};
use crate::commit::CommitStatus;
use crate::counters::VolumeCounters;
use crate::create::{VolumeOptions, VolumeSummary, create};
use crate::error::VolumeError;
use crate::finding::Finding;
use crate::geometry::Geometry;
use crate::health::{Health, MemberUse};
use crate::ids::{VolumeId, VolumeSecret};
use crate::object::ObjectMap;
use crate::open::{OpenOptions, open};
use crate::presence::look_for_members;
use crate::reader::ObjectReader;
use crate::rebuild::{RebuildReport, RepairOptions, Trust, rebuild};
use crate::replace::{Replacement, replace};
use crate::scrub::scrub;
use crate::wake::{WakeOccasion, spared};
use crate::writer::ObjectWriter;

/// An open volume. Clones share it. It is closed, and its locks are released, when the last clone
/// and everything made from it are dropped.
#[derive(Clone)]
pub struct Volume {
    inner: Arc<Inner>,
}

/// The state of a volume, for display.
#[derive(Clone, Debug)]
pub struct VolumeStatus {
    /// Its id.
    pub volume: VolumeId,
    /// Where its `volume.toml` is.
    pub directory: PathBuf,
    /// Its geometry.
    pub geometry: Geometry,
    /// Its code.
    pub code: Code,
    /// Its members in their current state.
    pub members: Vec<Finding>,
    /// Object bytes that the volume can store.
    pub capacity_bytes: u64,
    /// Object bytes that are free.
    pub free_bytes: u64,
    /// The number of titles.
    pub titles: usize,
    /// The catalogue in force.
    pub commit: CommitStatus,
    /// Why it is read-only; `None` if it is not.
    pub read_only: Option<String>,
    /// When it was created, in seconds since 1970-01-01 UTC.
    pub created_unix_s: u64,
}

impl Volume {
    /// Creates a volume in a directory. On failure, everything that was created is removed.
    ///
    /// # Errors
    /// If the options make no sense, the place is not empty, the disk is too small, or a file
    /// cannot be written.
    pub fn create(directory: impl AsRef<Path>, options: VolumeOptions) -> Result<VolumeSummary, VolumeError> {
        create(directory.as_ref(), &options)
    }

    /// Opens the volume of a directory.
    ///
    /// Takes locks, finds the members, selects the catalogue in force and, unless it is opened for
    /// reading, writes it to every member in sync.
    ///
    /// # Errors
    /// If there is no volume, another process has it open, too few members can be used, no
    /// catalogue copy can be selected, or the media memory cannot be allocated.
    pub fn open(directory: impl AsRef<Path>, options: OpenOptions) -> Result<Volume, VolumeError> {
        open(directory.as_ref(), options)
    }

    /// What was found out about each member when the volume was opened.
    pub fn findings(&self) -> &[Finding] {
        &self.inner.findings
    }

    /// Looks whether the disk of every member is still at its path. A member whose file was removed
    /// or exchanged is taken out of use, as far as it can be spared: it would be gone when the
    /// volume is opened again. To be called every few seconds while the volume is in use; it waits
    /// for the file systems.
    pub fn look_for_members(&self) {
        look_for_members(&self.inner);
    }

    /// Sends a small read to each member in use that has been idle for so long that its disk may
    /// sleep, so that all of them spin up together. Returns at once.
    pub fn wake(&self, occasion: WakeOccasion) {
        self.inner.waker.wake(&self.inner.access, &self.inner.superblock, occasion);
    }

    /// Members in use that were woken and have not answered: their disks spin up.
    pub fn waking(&self) -> Vec<usize> {
        self.inner.waker.waking(&self.inner.access)
    }

    /// Whether so many members spin up that the others are not enough to read what is stored.
    pub fn waits_for_disks(&self) -> bool {
        self.waking().len() > spared(&self.inner.health)
    }

    /// Waits while [`Volume::waits_for_disks`], for as long as a disk may take to spin up.
    pub fn await_awake(&self) {
        self.inner.waker.await_awake(&self.inner.access);
    }

    /// Whether a read may have to wait for a disk that spins up.
    pub fn may_sleep(&self) -> bool {
        let members = 0..self.inner.geometry.members();
        let mut in_use = members.filter(|member| self.inner.health.readable(*member));
        in_use.any(|member| self.inner.access.disks.activity(member).may_sleep()) || !self.waking().is_empty()
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

    /// The secret of the volume, which all its servers have.
    pub fn secret(&self) -> &VolumeSecret {
        &self.inner.superblock.secret
    }

    /// The counters since the volume was opened.
    pub fn counters(&self) -> &VolumeCounters {
        &self.inner.counters
    }

    /// All titles, in the order in which they were published.
    pub fn titles(&self) -> Arc<Vec<Arc<TitleRecord>>> {
        self.inner.titles()
    }

    /// The title with this id.
    pub fn title(&self, id: &str) -> Option<Arc<TitleRecord>> {
        self.titles().iter().find(|title| title.id == id).cloned()
    }

    /// Object bytes that are free, in whole stripes.
    pub fn free_bytes(&self) -> u64 {
        self.inner.free_bytes()
    }

    /// The state of the volume, for display.
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
            read_only: inner.refusal(),
            created_unix_s: inner.superblock.created_unix_s,
        }
    }

    /// Begins a new object.
    ///
    /// # Errors
    /// [`VolumeError::ReadOnly`] if the volume may not be written.
    pub fn writer(&self, class: Class) -> Result<ObjectWriter, VolumeError> {
        if let Some(reason) = self.inner.access.await_refusal().or_else(|| self.inner.committer.refusal()) {
            return Err(VolumeError::ReadOnly { reason });
        }
        Ok(ObjectWriter::new(Arc::clone(&self.inner), class))
    }

    /// Checks whether this number of object bytes fits, before they are written.
    ///
    /// # Errors
    /// [`VolumeError::Full`] if they do not fit.
    pub fn ensure_free(&self, bytes: u64) -> Result<(), VolumeError> {
        let needed_bytes = self.inner.geometry.stripes(bytes) * self.inner.geometry.stripe_bytes() as u64;
        let free_bytes = self.inner.free_bytes();
        if needed_bytes > free_bytes { Err(VolumeError::Full { needed_bytes, free_bytes }) } else { Ok(()) }
    }

    /// Publishes a title whose objects were written to this volume. After success it is on every
    /// member in sync, also after a crash. Before that, and after an error, it is not.
    ///
    /// # Errors
    /// If the volume may not be written, the title breaks a rule or its id exists, the catalogue is
    /// full, or too many members fail.
    pub fn publish(&self, title: TitleRecord) -> Result<(), VolumeError> {
        self.inner.publish(title)
    }

    /// Publishes a title in place of the one with its id, in one step: after a crash either the old
    /// or the new one is there. The slots of the old one are reused as after [`Volume::remove`].
    ///
    /// # Errors
    /// As [`Volume::publish`], and if there is no such title.
    pub fn publish_over(&self, title: TitleRecord) -> Result<(), VolumeError> {
        self.inner.publish_over(title)
    }

    /// Gives a title another name, in one step. Its id and its objects stay.
    ///
    /// # Errors
    /// If the volume may not be written, there is no such title, the name is too long, the
    /// catalogue is full, or too many members fail.
    pub fn rename(&self, id: &str, name: &str) -> Result<(), VolumeError> {
        self.inner.rename(id, name)
    }

    /// Gives a title new objects, in one step. Each takes the place of the one with its role and
    /// number, or is added. The other objects stay, and so do id, name and time of publishing. `of`
    /// is the record from which the new objects were made.
    ///
    /// # Errors
    /// As [`Volume::publish`], and if there is no such title, or its objects are no longer those of
    /// `of`.
    pub fn replace_objects(&self, of: &TitleRecord, objects: Vec<ObjectEntry>) -> Result<(), VolumeError> {
        self.inner.replace_objects(of, objects)
    }

    /// Removes a title. Its slots are reused once its record and all maps of its objects are
    /// dropped.
    ///
    /// # Errors
    /// If the volume may not be written, there is no such title, or too many members fail.
    pub fn remove(&self, id: &str) -> Result<(), VolumeError> {
        self.inner.remove(id)
    }

    /// The map of an object, which is from a title of this volume or was just written. Reads the
    /// checksums of a large object from the disks, and waits for them.
    ///
    /// # Errors
    /// [`VolumeError::NotHeld`] for any other record, or if the checksums cannot be read.
    pub fn map(&self, object: &ObjectRecord) -> Result<Arc<ObjectMap>, VolumeError> {
        self.inner.map(object, self.inner.name_of(object)).map(Arc::new)
    }

    /// Reads a range of an object's bytes. The range is cut at the end of the object.
    pub fn reader(&self, map: Arc<ObjectMap>, range: Range<u64>, class: Class) -> ObjectReader {
        ObjectReader::new(Arc::clone(&self.inner), map, range, class)
    }

    /// Reads every unit of every object, parity included, and verifies all of it. `progress` is
    /// called after every stripe; it returns `false` to stop early.
    pub fn check(&self, progress: &mut dyn FnMut(CheckProgress) -> bool) -> CheckReport {
        check(&self.inner, progress)
    }

    /// Reads every unit of every object, parity included, verifies it, and rewrites what is not as
    /// it was written, as far as it can be computed. `progress` is called after every stripe; it
    /// returns `false` to stop early. May run while the volume is in use.
    ///
    /// # Errors
    /// If the volume may not be written or another maintenance job is running. Damage is not an
    /// error but part of the report.
    pub fn scrub(
        &self,
        options: RepairOptions,
        progress: &mut dyn FnMut(CheckProgress) -> bool,
    ) -> Result<CheckReport, VolumeError> {
        scrub(&self.inner, options, progress)
    }

    /// Replaces a member by an empty file or device. From now on that one is written, and it is
    /// read once [`Volume::rebuild`] has filled it. May be done while the volume is in use.
    ///
    /// # Errors
    /// If the volume may not be written, another maintenance job is running, the member is healthy
    /// or cannot be spared, or the new disk is too small, not empty or fails.
    pub fn replace(&self, replacement: &Replacement) -> Result<Finding, VolumeError> {
        replace(&self.inner, replacement)
    }

    /// Fills a member that is new, was missing or failed with everything that belongs on it, and
    /// puts it in use. `progress` is called after every few units; it returns `false` to stop
    /// early. Completed work is kept: the next rebuild continues there. May run while the volume is
    /// in use.
    ///
    /// # Errors
    /// If the volume may not be written, another maintenance job is running, there is nothing to
    /// fill, the member fails, or another member fails whose data is needed.
    pub fn rebuild(
        &self,
        member: usize,
        options: RepairOptions,
        progress: &mut dyn FnMut(CheckProgress) -> bool,
    ) -> Result<RebuildReport, VolumeError> {
        rebuild(&self.inner, member, (options, Trust::Nothing), progress)
    }

    /// Brings back a member that was missing: like [`Volume::rebuild`], but what the member holds
    /// by its own last catalogue is not read. A member that is not in [`Volume::late`] is rebuilt.
    ///
    /// # Errors
    /// As of [`Volume::rebuild`].
    pub fn catch_up(
        &self,
        member: usize,
        options: RepairOptions,
        progress: &mut dyn FnMut(CheckProgress) -> bool,
    ) -> Result<RebuildReport, VolumeError> {
        rebuild(&self.inner, member, (options, Trust::OwnCatalogue), progress)
    }

    /// Members that were missing while the volume was written and are back, for
    /// [`Volume::catch_up`].
    pub fn late(&self) -> Vec<usize> {
        let members = 0..self.inner.geometry.members();
        members.filter(|&member| self.inner.late(member).is_some_and(|late| late.was_missing)).collect()
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

/// The name of an object of a title in messages.
pub(crate) fn entry_name(title: &TitleRecord, entry: &ObjectEntry) -> String {
    match entry.role {
        Role::Index if entry.number == STREAM_INDEX_NUMBER => {
            format!("the index of the transport stream of {}", title.id)
        }
        Role::Index if entry.number == STREAM_SUMS_NUMBER => {
            format!("the checksums of packets of the transport stream of {}", title.id)
        }
        Role::Index if entry.number == WARNINGS_NUMBER => format!("the warnings of {}", title.id),
        Role::Track if entry.number == STREAM_NUMBER => format!("the transport stream of {}", title.id),
        Role::Index => format!("the index of {}", title.id),
        Role::Tables => format!("tables {} of {}", entry.number, title.id),
        Role::Track => format!("track {} of {}", entry.number, title.id),
        Role::Artwork => format!("artwork {} of {}", entry.number, title.id),
    }
}
