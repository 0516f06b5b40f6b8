//! The disk that is to replace a member: looked at, formatted and opened, before the volume knows
//! it.
//!
//! It may hang at any time. So this runs on a thread of its own. A write that is not answered for
//! as long as a write of the volume may take ends the replacement.

use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::slice;
use std::sync::Arc;

use reel_disk::{MemberFile, OpenMode};

use crate::access::WriteObserver;
use crate::catalogue::BODY_AT;
use crate::consent::Consent;
use crate::error::VolumeError;
use crate::find::superblock_at;
use crate::limits::{BLOCK_BYTES, REPLACE_LOOK_NS, WRITE_PATIENCE_MAX};
use crate::lock::identity;
use crate::manifest::sync_directory;
use crate::owner::OWNER_OFFSET;
use crate::patience::{Progress, patiently};
use crate::reserve::reserve;
use crate::superblock::{SUPERBLOCK_COPY_OFFSET, Superblock};
use crate::target::{CreatedFiles, Target, Terms, ensure_not_owned, open_target, warn_of_memory};
use crate::volume::Inner;

/// A disk with the superblocks of a member. Unless its files are kept, a new file is removed again.
pub(crate) struct NewDisk {
    pub(crate) target: Target,
    pub(crate) file: MemberFile,
    pub(crate) created: CreatedFiles,
}

/// Makes the disk at a path the member that the superblock says.
pub(crate) fn make(
    inner: &Arc<Inner>,
    path: &Path,
    superblock: Superblock,
    consent: Consent,
) -> Result<NewDisk, VolumeError> {
    if inner.access.waits.turns().is_some() {
        return make_here(inner, path, &superblock, consent, &Progress::unwatched());
    }
    let (own, at) = (Arc::clone(inner), path.to_owned());
    let work = move |progress: &Progress| make_here(&own, &at, &superblock, consent, progress);
    let look_ns = inner.access.write_patience_ns.saturating_add(REPLACE_LOOK_NS);
    let slow = || tracing::info!(path = %path.display(), "waiting for the new disk to answer");
    patiently("reel-replace", look_ns, slow, work)?.unwrap_or_else(|waited_s| Err(silent(path, waited_s)))
}

fn make_here(
    inner: &Inner,
    path: &Path,
    superblock: &Superblock,
    consent: Consent,
    progress: &Progress,
) -> Result<NewDisk, VolumeError> {
    let mut created = CreatedFiles::nothing();
    let target = prepare(inner, superblock.index, path, consent, &mut created, progress)?;
    format(inner, &target, superblock, progress)?;
    step(progress, path, inner.access.write_patience_ns)?;
    // Opened before the commit, so that little can fail after it.
    let plain = target.file.try_clone().map_err(VolumeError::file(path, "keep open"))?;
    let file = MemberFile::of(path, plain, OpenMode::ReadWrite)
        .map_err(VolumeError::disk("cannot use the new member"))?;
    Ok(NewDisk { target, file, created })
}

/// Begins a step that may take so long; an error if no caller waits for it any more.
fn step(progress: &Progress, path: &Path, at_most_ns: u64) -> Result<(), VolumeError> {
    progress.next(at_most_ns).map_err(|_| silent(path, at_most_ns / 1_000_000_000))
}

fn silent(path: &Path, waited_s: u64) -> VolumeError {
    VolumeError::TargetSilent { path: path.to_owned(), waited_s }
}

/// Opens the new disk or creates the new file, and checks that it fits and that nothing is
/// overwritten.
fn prepare(
    inner: &Inner,
    member: usize,
    path: &Path,
    consent: Consent,
    created: &mut CreatedFiles,
    progress: &Progress,
) -> Result<Target, VolumeError> {
    let needed_bytes = inner.superblock.member_bytes;
    if path.exists() {
        let metadata = std::fs::metadata(path).map_err(VolumeError::file(path, "get the metadata of"))?;
        if let Some(other) = inner.member_at(&metadata) {
            let (what, help) = if other == member {
                ("that member itself".to_owned(), "`reel volume rebuild` fills it again")
            } else {
                (format!("member {other} of this volume"), "choose another disk")
            };
            return Err(VolumeError::options(format!("{} is {what}", path.display()), help));
        }
        ensure_no_second_name(inner, member, path)?;
        let block = metadata.file_type().is_block_device();
        if block {
            let file = MemberFile::open(path, OpenMode::ReadOnly)
                .map_err(VolumeError::disk("cannot use the new member"))?;
            let has_bytes = file.bytes();
            if has_bytes < needed_bytes {
                return Err(VolumeError::TooSmall { path: path.to_owned(), needed_bytes, has_bytes });
            }
        }
    }
    let own = Some(inner.superblock.volume);
    let terms = Terms { consent, own, is_unfinished: is_unfinished_replacement(inner, member, path) };
    let mut target = open_target(path.to_owned(), path.to_owned(), terms, created)?;
    ensure_not_owned(slice::from_mut(&mut target), consent)?;
    let targets = slice::from_ref(&target);
    warn_of_memory(targets);
    let may_cut = consent.force || consent.overwrite_volume;
    if target.device_bytes.is_none() && !may_cut {
        let metadata = target.file.metadata().map_err(VolumeError::file(path, "get the metadata of"))?;
        let has_bytes = metadata.len();
        // An empty file is extended. The size of any other file was chosen by its owner.
        if has_bytes > 0 && has_bytes < needed_bytes {
            return Err(VolumeError::TooShort { path: path.to_owned(), needed_bytes, has_bytes });
        }
    }
    let sparse = inner.access.waits.turns().is_some();
    // A file system without a quicker way writes zeros.
    step(progress, path, WRITE_PATIENCE_MAX * inner.access.write_patience_ns)?;
    reserve(targets, needed_bytes, may_cut, sparse).map_err(|error| match error {
        VolumeError::DiskFull { path, needed_bytes, free_bytes, .. } => VolumeError::DiskFull {
            path,
            needed_bytes,
            free_bytes,
            help: "free space there, or use another disk",
        },
        error => error,
    })?;
    Ok(target)
}

/// Refuses a disk with the superblock of a member that the volume expects: it is that member under
/// a second name, or a copy, which cannot be told apart.
fn ensure_no_second_name(inner: &Inner, member: usize, path: &Path) -> Result<(), VolumeError> {
    let Some(found) = superblock_at(path) else { return Ok(()) };
    let other = found.index;
    let is_expected = found.volume == inner.superblock.volume && inner.member_id(other) == Some(found.member);
    let is_open = is_expected && inner.belongs(other);
    // What was found at the path of its member and is not open cannot be used.
    let is_useless =
        || same(path, &inner.member_path(other)) || is_unfinished_replacement(inner, member, path);
    if !is_expected || !is_open && is_useless() {
        return Ok(());
    }
    let path = path.display();
    let (problem, help) = match (is_open, other == member) {
        (true, true) => (
            format!("{path} is that member itself under another name, or a copy of it"),
            "`reel volume rebuild` fills the member again; a copy must be removed first",
        ),
        (true, false) => (
            format!(
                "{path} is member {other} ({}) under another name, or a copy of it",
                inner.member_path(other).display()
            ),
            "choose another disk; a copy must be removed first",
        ),
        (false, _) => (
            format!("{path} is member {other} of this volume, which is not open under that name"),
            "name this path in volume.toml and start again: then the member is there",
        ),
    };
    Err(VolumeError::options(problem, help))
}

/// Whether two paths lead to one file or device.
fn same(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| std::fs::metadata(path).ok().map(|metadata| identity(&metadata));
    of(one).is_some_and(|one| of(other) == Some(one))
}

/// Whether the disk was formatted as this member by a replacement that was interrupted or failed.
fn is_unfinished_replacement(inner: &Inner, member: usize, path: &Path) -> bool {
    let Ok(file) = MemberFile::open(path, OpenMode::ReadOnly) else { return false };
    // Either of the two: the other may not have been written.
    let Some(found) = superblock_at(path) else { return false };
    let mut block = vec![0; BLOCK_BYTES];
    // Unlike any member that was in use, it never had a copy of the catalogue.
    let never_joined = (0..2).all(|area| {
        file.read_at(found.area_offset(area), &mut block).is_ok() && block.iter().all(|byte| *byte == 0)
    });
    found.volume == inner.superblock.volume && found.index == member && never_joined
}

/// Writes the superblocks, and clears the catalogue areas so that nothing in them is mistaken for a
/// copy.
fn format(
    inner: &Inner,
    target: &Target,
    superblock: &Superblock,
    progress: &Progress,
) -> Result<(), VolumeError> {
    let observer = inner.access.observer.as_ref();
    let number = inner.geometry.members();
    let to = Formatted { target, observer, number, progress, patience_ns: inner.access.write_patience_ns };
    let nothing = vec![0; BODY_AT as usize];
    to.write(0, &nothing)?;
    // An owner record from an earlier life of the disk would say that the volume was taken over.
    to.write(OWNER_OFFSET, &nothing[..BLOCK_BYTES])?;
    to.write(superblock.area_offset(0), &nothing)?;
    to.write(superblock.area_offset(1), &nothing)?;
    to.sync()?;
    let block = superblock.encode();
    to.write(0, &block)?;
    to.write(SUPERBLOCK_COPY_OFFSET, &block)?;
    to.sync()?;
    match target.path.parent() {
        Some(parent) if target.device_bytes.is_none() => sync_directory(parent),
        _ => Ok(()),
    }
}

/// A disk that is being formatted: observers see it under number N, one after the last member.
struct Formatted<'a> {
    target: &'a Target,
    observer: Option<&'a Arc<dyn WriteObserver>>,
    number: usize,
    progress: &'a Progress,
    patience_ns: u64,
}

impl Formatted<'_> {
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        step(self.progress, &self.target.path, self.patience_ns)?;
        let name = self.observer.map(|observer| observer.write(self.number, offset, bytes));
        let done = self.target.file.write_all_at(bytes, offset);
        self.completed(name, done.is_ok());
        done.map_err(VolumeError::file(&self.target.path, "write"))
    }

    fn sync(&self) -> Result<(), VolumeError> {
        step(self.progress, &self.target.path, self.patience_ns)?;
        let name = self.observer.map(|observer| observer.sync(self.number));
        let done = self.target.file.sync_all();
        self.completed(name, done.is_ok());
        done.map_err(VolumeError::file(&self.target.path, "sync"))
    }

    fn completed(&self, name: Option<u64>, succeeded: bool) {
        if let (Some(observer), Some(name)) = (self.observer, name) {
            observer.done(name, succeeded);
        }
    }
}
