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

use crate::catalogue::{ObjectEntry, ObjectRecord, Role, TitleRecord};
use crate::check::{CheckProgress, CheckReport, check};
use crate::commit::CommitStatus;
use crate::counters::VolumeCounters;
use crate::create::{VolumeOptions, VolumeSummary, create};
use crate::error::VolumeError;
use crate::finding::Finding;
use crate::geometry::Geometry;
use crate::health::{Health, MemberUse};
use crate::ids::VolumeId;
use crate::object::ObjectMap;
use crate::open::{OpenOptions, open};
use crate::reader::ObjectReader;
use crate::rebuild::{MendOptions, RebuildReport, rebuild};
use crate::replace::{Replacement, replace};
use crate::scrub::scrub;
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

/// What to call an object of a title in messages.
pub(crate) fn entry_name(title: &TitleRecord, entry: &ObjectEntry) -> String {
    match entry.role {
        Role::Index => format!("the index of {}", title.id),
        Role::Tables => format!("tables {} of {}", entry.number, title.id),
        Role::Track => format!("track {} of {}", entry.number, title.id),
        Role::Artwork => format!("artwork {} of {}", entry.number, title.id),
    }
}
