//! The state of an open volume, and the right to change it.

use super::entry_name;
use crate::access::{Access, ReadContext};
use crate::catalogue::{ObjectRecord, Selection, Sums, TitleRecord};
use crate::commit::{Change, CommitContext, Committer};
use crate::counters::VolumeCounters;
use crate::error::VolumeError;
use crate::finding::{Finding, MemberState};
use crate::geometry::Geometry;
use crate::health::{Health, MemberUse};
use crate::hold::Space;
use crate::ids::MemberId;
use crate::late::Late;
use crate::lock::identity;
use crate::members::rebuilding_finding;
use crate::object::{ObjectMap, ObjectParts};
use crate::owner::Heartbeat;
use crate::presence::look_for_members;
use crate::reader::ObjectReader;
use crate::superblock::Superblock;
use crate::wake::Waker;
use reel_qos::Class;
use reel_rt::lock;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

/// The state that all clones of an open volume share.
pub(crate) struct Inner {
    /// The first field, so that it ends before the disks and their locks are given up.
    _heartbeat: Option<Heartbeat>,
    pub(crate) directory: PathBuf,
    pub(crate) superblock: Superblock,
    pub(crate) geometry: Geometry,
    pub(super) findings: Vec<Finding>,
    pub(crate) access: Access,
    pub(crate) health: Health,
    pub(crate) counters: Arc<VolumeCounters>,
    pub(super) waker: Waker,
    pub(crate) space: Space,
    pub(super) slots: u64,
    pub(super) titles: RwLock<Arc<Vec<Arc<TitleRecord>>>>,
    /// Held while titles change, so that the catalogue and the list of titles change together.
    change: Mutex<()>,
    pub(super) committer: Committer,
    /// Which disks stand for the members.
    disks: Mutex<Disk>,
    /// The state in which each member was found, or which it got by being replaced.
    current: Mutex<Vec<Finding>>,
    /// Members that are not in sync, and what they hold.
    late: Mutex<BTreeMap<usize, Arc<Late>>>,
    /// The scrub, rebuild or replacement that is running.
    job: Mutex<Option<&'static str>>,
}

/// The disks behind the members.
pub(crate) struct Disk {
    /// Open files whose locks are held: those of members, and `volume.toml`.
    pub(crate) locks: Vec<(Option<usize>, File)>,
    /// Whether the disk of a member is the one that the catalogue expects.
    pub(crate) belongs: Vec<bool>,
    /// Whether nothing was at the path of a member when that was last looked at.
    pub(crate) away: Vec<bool>,
}

/// The right to run a scrub, rebuild or replacement. No other begins before it is dropped.
pub(crate) struct Job<'a>(&'a Inner);

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
        heartbeat: Option<Heartbeat>,
    ) -> Inner {
        Inner {
            _heartbeat: heartbeat,
            directory,
            geometry: superblock.geometry,
            waker: Waker::new(superblock.geometry.members()),
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
            late: Mutex::default(),
            job: Mutex::new(None),
        }
    }

    pub(crate) fn set_late(&mut self, late: BTreeMap<usize, Late>) {
        let late = late.into_iter().map(|(member, late)| (member, Arc::new(late)));
        self.late = Mutex::new(late.collect());
    }

    /// What a member holds that is not in sync, if its own catalogue says so.
    pub(crate) fn late(&self, member: usize) -> Option<Arc<Late>> {
        lock(&self.late).get(&member).cloned()
    }

    /// Begins an epoch with the catalogue in force, so that every member present holds it and no
    /// missing member can return with something higher.
    pub(crate) fn settle(&self, selection: &Selection) -> Result<(), VolumeError> {
        if selection.settled || self.refusal().is_some() {
            return Ok(());
        }
        let titles = self.titles();
        self.committer.commit(&self.context(), titles.iter().map(|title| &**title), Change::Epoch)
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
                let advice = match self.health.lost() {
                    0 => "replace it now: every other member is in use",
                    _ => "rebuild or replace the member that is out, then replace this one",
                };
                finding.text = format!("in use only because no other can be spared ({reason}); {advice}");
            } else if lock(&self.disks).away[finding.member] {
                "in use, but nothing is at its path any more, so it is not found when the volume is opened \
                 again; put it back, or correct its path in volume.toml"
                    .clone_into(&mut finding.text);
            }
        }
        members
    }

    pub(crate) fn map(&self, object: &ObjectRecord, name: String) -> Result<ObjectMap, VolumeError> {
        if !object.hold.holds(&self.space, &object.all_extents()) {
            return Err(VolumeError::NotHeld);
        }
        self.map_held(object, object, name, (ReadContext::of(Class::INTERACTIVE), &mut || {}))
    }

    /// `part` is the object itself or, further down, the object of its checksums. That is read with
    /// this context; `each` is called whenever a part of it has arrived.
    pub(crate) fn map_held(
        &self,
        object: &ObjectRecord,
        part: &ObjectRecord,
        name: String,
        (context, each): (ReadContext, &mut dyn FnMut()),
    ) -> Result<ObjectMap, VolumeError> {
        let sums = match &part.sums {
            Sums::Inline(sums) => sums.clone(),
            Sums::Object(sums) => {
                let map =
                    self.map_held(object, sums, format!("the checksums of {name}"), (context, &mut *each))?;
                self.read_sums(Arc::new(map), context, each)?
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

    pub(super) fn context(&self) -> CommitContext<'_> {
        CommitContext { access: &self.access, health: &self.health, counters: &self.counters }
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.space.lock().free() * self.geometry.stripe_bytes() as u64
    }

    fn read_sums(
        &self,
        map: Arc<ObjectMap>,
        context: ReadContext,
        each: &mut dyn FnMut(),
    ) -> Result<Vec<u32>, VolumeError> {
        let bytes = ObjectReader::read_all(self, map, context, each)?;
        let (sums, _) = bytes.as_chunks::<4>();
        Ok(sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect())
    }

    /// The name of an object in messages.
    pub(super) fn name_of(&self, object: &ObjectRecord) -> String {
        let named = object.first_slot().and_then(|slot| {
            let titles = self.titles();
            titles.iter().find_map(|title| {
                let entry = title.objects.iter().find(|entry| entry.object.first_slot() == Some(slot))?;
                Some(entry_name(title, entry))
            })
        });
        named.unwrap_or_else(|| "an object that is not published".to_owned())
    }

    pub(crate) fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.access.waits.lock(&self.change)
    }

    /// The right to change the data on the members.
    pub(crate) fn begin_job(&self, what: &'static str) -> Result<Job<'_>, VolumeError> {
        let mut job = lock(&self.job);
        if let Some(running) = *job {
            return Err(VolumeError::Busy { running });
        }
        *job = Some(what);
        drop(job);
        // Its report would call a file sound that is gone with the end of this program.
        look_for_members(self);
        Ok(Job(self))
    }

    /// Why nothing may be written; `None` if writing is allowed.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.access.refusal().or_else(|| self.committer.refusal())
    }

    pub(crate) fn next_epoch(&self) -> u64 {
        self.committer.next_epoch()
    }

    pub(crate) fn member_id(&self, member: usize) -> Option<MemberId> {
        self.committer.member_id(member)
    }

    /// An error if there is no member with this number.
    pub(crate) fn check_member_number(&self, member: usize) -> Result<(), VolumeError> {
        let last = self.geometry.members() - 1;
        if member <= last {
            return Ok(());
        }
        let problem = format!("there is no member {member}; the members are 0 to {last}");
        Err(VolumeError::options(problem, "`reel volume status` shows the members"))
    }

    /// Whether the disk of a member is present and the one that the catalogue expects.
    pub(crate) fn belongs(&self, member: usize) -> bool {
        lock(&self.disks).belongs[member]
    }

    /// The path of a member.
    pub(crate) fn member_path(&self, member: usize) -> PathBuf {
        lock(&self.current)[member].path.clone()
    }

    /// What the open file of a member is, and its descriptor.
    pub(crate) fn member_open(&self, member: usize) -> Option<(Metadata, RawFd)> {
        let opened = self.open_files(|other| other == member);
        let (_, descriptor, file) = opened.first()?;
        Some((file.metadata().ok()?, *descriptor))
    }

    /// Duplicates of open files of members, with the descriptors of the originals. They are asked
    /// without the lock, because a file system may answer late and status calls take the lock too.
    fn open_files(&self, wanted: impl Fn(usize) -> bool) -> Vec<(usize, RawFd, File)> {
        let disks = lock(&self.disks);
        let members = disks.locks.iter().filter_map(|(member, file)| Some(((*member)?, file)));
        let wanted = members.filter(|(member, _)| wanted(*member));
        wanted.filter_map(|(member, file)| Some((member, file.as_raw_fd(), file.try_clone().ok()?))).collect()
    }

    /// Records whether nothing is at the path of a member, and returns whether that is new.
    pub(crate) fn set_away(&self, member: usize, is_away: bool) -> bool {
        std::mem::replace(&mut lock(&self.disks).away[member], is_away) != is_away
    }

    /// The member whose disk this is, if it is open.
    pub(crate) fn member_at(&self, metadata: &Metadata) -> Option<usize> {
        let same = |file: &File| file.metadata().is_ok_and(|own| identity(&own) == identity(metadata));
        self.open_files(|_| true).into_iter().find(|(_, _, file)| same(file)).map(|(member, _, _)| member)
    }

    /// Records that another disk, which is locked, is now this member.
    pub(crate) fn replaced(&self, member: usize, path: PathBuf, file: File) {
        let mut disks = lock(&self.disks);
        let old: Vec<_> = disks.locks.extract_if(.., |(other, _)| *other == Some(member)).collect();
        disks.locks.push((Some(member), file));
        disks.belongs[member] = true;
        disks.away[member] = false;
        lock(&self.late).remove(&member);
        drop(disks);
        // The last close of a device writes what its cache holds, so not under the lock.
        drop(old);
        lock(&self.current)[member] = rebuilding_finding(member, &path);
    }

    /// Records that the member's open disk is not the expected one any more, so that nothing may be
    /// written to it. Returns whether it was the expected one.
    pub(crate) fn disown(&self, member: usize) -> bool {
        std::mem::replace(&mut lock(&self.disks).belongs[member], false)
    }

    /// Records that the member's open disk is the expected one after all.
    pub(crate) fn own(&self, member: usize) {
        lock(&self.disks).belongs[member] = true;
    }

    /// Keeps a new `volume.toml` locked.
    pub(crate) fn keep_locked(&self, manifest: File) {
        lock(&self.disks).locks.push((None, manifest));
    }

    /// Commits the titles as they are, with a change of the members. The caller holds the lock for
    /// changes.
    pub(crate) fn commit_titles(&self, change: Change) -> Result<(), VolumeError> {
        let titles = self.titles();
        self.committer.commit(&self.context(), titles.iter().map(|title| &**title), change)
    }

    /// Puts a member that holds everything in sync and in use. The caller holds the lock for
    /// changes.
    pub(crate) fn join(&self, member: usize) -> Result<(), VolumeError> {
        self.commit_titles(Change::Join(member))?;
        if !self.committer.in_sync(member) || !self.health.rebuilt(member) {
            let reason = self.health.reason(member).unwrap_or_default();
            return Err(VolumeError::options(
                format!("member {member} failed before it was in use: {reason}"),
                None,
            ));
        }
        let mut current = lock(&self.current);
        current[member].state = MemberState::Present;
        "in use".clone_into(&mut current[member].text);
        drop(current);
        lock(&self.late).remove(&member);
        // A second commit writes the other area, so that one damaged copy is not its only one.
        self.commit_titles(Change::Titles)
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        *lock(&self.0.job) = None;
    }
}
