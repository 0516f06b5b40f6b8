//! Replaces a member, while the volume is in use.
//!
//! Four steps, each atomic; `docs/volume-format.md` says what a crash between any two leaves. First
//! the new disk is formatted as a member that the volume does not know yet. Then `volume.toml`
//! lists it beside the old one. Then a commit of the catalogue makes it the expected disk. Last,
//! `volume.toml` drops the old one.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use reel_disk::{MemberFile, OpenMode};

use crate::access::WriteObserver;
use crate::catalogue::{BODY_AT, MemberSet, write_quorum};
use crate::commit::Change;
use crate::consent::Consent;
use crate::error::VolumeError;
use crate::find::superblock_at;
use crate::finding::{Finding, MEMBERS_LOG};
use crate::ids::MemberId;
use crate::limits::BLOCK_BYTES;
use crate::lock::identity;
use crate::manifest::{Manifest, sync_directory};
use crate::owner::OWNER_OFFSET;
use crate::reserve::reserve;
use crate::superblock::{SUPERBLOCK_COPY_OFFSET, Superblock};
use crate::target::{CreatedFiles, Target, Terms, ensure_not_owned, open_target, warn_of_memory};
use crate::volume::Inner;

/// A replacement for a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The member's number.
    pub member: usize,
    /// A block device that holds nothing, an empty file, or a new file.
    pub path: PathBuf,
    /// Whether a new file may be made at `path`. In the volume's own directory it may be in any
    /// case: elsewhere, the path may be misspelt or below a disk that is not mounted.
    pub create: bool,
    /// Whether existing content of `path` may be overwritten and the length of an existing file
    /// changed.
    pub force: bool,
    /// Whether `path` may be a member of another volume, whose titles may be lost then.
    pub overwrite_volume: bool,
    /// Whether a member that is in use and healthy may be replaced. Does not allow anything about
    /// the content of `path`.
    pub replace_healthy: bool,
}

impl Replacement {
    /// With a disk that holds nothing, of a member that is not in use or not healthy.
    pub fn new(member: usize, path: PathBuf) -> Replacement {
        Replacement {
            member,
            path,
            create: false,
            force: false,
            overwrite_volume: false,
            replace_healthy: false,
        }
    }
}

pub(crate) fn replace(inner: &Inner, replacement: &Replacement) -> Result<Finding, VolumeError> {
    let _job = inner.begin_job("replace")?;
    let member = replacement.member;
    let path = absolute(&replacement.path)?;
    may_be_replaced(inner, member, replacement.replace_healthy)?;
    let mut created = CreatedFiles::nothing();
    let consent = Consent {
        // Elsewhere, the path may be misspelt.
        create: replacement.create || path.parent() == Some(&absolute(&inner.directory)?),
        force: replacement.force,
        overwrite_volume: replacement.overwrite_volume,
    };
    let target = prepare(inner, member, &path, consent, &mut created)?;
    let id = MemberId::random()?;
    let superblock = Superblock {
        member: id,
        index: member,
        joined_epoch: inner.next_epoch(),
        ..inner.superblock.clone()
    };
    format(inner, &target, &superblock)?;
    let manifest = list_beside(inner, member, &path)?;
    // From now on the file belongs to the volume, whatever fails.
    created.keep();
    // Opened before the commit, so that little can fail after it.
    let plain = target.file.try_clone().map_err(VolumeError::file(&path, "keep open"))?;
    let file = MemberFile::of(&path, plain, OpenMode::ReadWrite)
        .map_err(VolumeError::disk("cannot use the new member"))?;

    let _change = inner.begin_change();
    inner.health.drop_member(member, inner.health.life(member), "it is being replaced");
    commit_replacement(inner, member, id)?;
    if let Some(observer) = &inner.access.observer {
        observer.replaced(member);
    }
    inner.access.disks.replace(member, file).map_err(VolumeError::disk("cannot use the new member"))?;
    inner.replaced(member, path.clone(), target.file);
    inner.health.begin_to_rebuild(member, "it is new and is being filled");
    write_manifest(inner, &manifest)?;
    tracing::warn!(
        target: MEMBERS_LOG, member, path = %path.display(), "a member has been replaced; rebuild it"
    );
    Ok(inner.members_now().swap_remove(member))
}

/// Makes the catalogue expect another disk as a member. The old disk no longer counts from now on.
/// If it were filled and put in sync, the next opening would take the new disk, which is empty, for
/// complete.
fn commit_replacement(inner: &Inner, member: usize, id: MemberId) -> Result<(), VolumeError> {
    let before = inner.member_id(member);
    let was_expected = inner.disown(member);
    let done = inner.commit_titles(Change::Replace(member, id));
    if was_expected && inner.member_id(member) == before {
        inner.own(member);
    }
    done
}

/// Whether the volume can do without the data on the member.
fn may_be_replaced(inner: &Inner, member: usize, replace_healthy: bool) -> Result<(), VolumeError> {
    let members = inner.geometry.members();
    if let Some(reason) = inner.refusal() {
        return Err(VolumeError::ReadOnly { reason });
    }
    inner.check_member_number(member)?;
    let others = (0..members).filter(|&other| other != member && inner.health.readable(other));
    let others = others.fold(MemberSet::default(), MemberSet::with);
    if !write_quorum(others, members, inner.geometry.parity_rows()) {
        let out: Vec<String> = (0..members)
            .filter(|&other| other != member && !others.has(other))
            .map(|other| other.to_string())
            .collect();
        let (why, help) = if out.is_empty() {
            ("a volume of two members is not written without member 0".to_owned(), None)
        } else {
            let why = format!("member {} cannot be read either, so titles would be lost", out.join(", "));
            (why, Some("rebuild or replace that one first"))
        };
        return Err(VolumeError::options(format!("member {member} cannot be replaced: {why}"), help));
    }
    let healthy = inner.health.readable(member) && !inner.health.suspect(member);
    if healthy && !replace_healthy {
        return Err(VolumeError::Healthy { member, path: inner.member_path(member) });
    }
    Ok(())
}

/// Opens the new disk or creates the new file, and checks that it fits and that nothing is
/// overwritten.
fn prepare(
    inner: &Inner,
    member: usize,
    path: &Path,
    consent: Consent,
    created: &mut CreatedFiles,
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
fn format(inner: &Inner, target: &Target, superblock: &Superblock) -> Result<(), VolumeError> {
    let to = Formatted { target, observer: inner.access.observer.as_ref(), number: inner.geometry.members() };
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
}

impl Formatted<'_> {
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        use std::os::unix::fs::FileExt;
        let name = self.observer.map(|observer| observer.write(self.number, offset, bytes));
        let done = self.target.file.write_all_at(bytes, offset);
        self.completed(name, done.is_ok());
        done.map_err(VolumeError::file(&self.target.path, "write"))
    }

    fn sync(&self) -> Result<(), VolumeError> {
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

/// Lists the new disk beside the old one in `volume.toml`, and returns the final content of the
/// file.
fn list_beside(inner: &Inner, member: usize, path: &Path) -> Result<Manifest, VolumeError> {
    let (mut manifest, ..) = Manifest::open(&inner.directory)?;
    let directory = absolute(&inner.directory)?;
    let named = |written: &PathBuf| directory.join(written);
    let old = absolute(&inner.member_path(member))?;
    // Within the volume's directory the path is relative, so that the directory can be moved.
    let new = path.strip_prefix(&directory).unwrap_or(path).to_owned();
    let of = |path: &Path| std::fs::metadata(path).ok().map(|metadata| identity(&metadata));
    let own = of(path);
    // Compared by identity too: otherwise the volume would be opened with two paths to one disk.
    let is_new = |written: &PathBuf| named(written) == path || own.is_some() && of(&named(written)) == own;
    if !manifest.members.iter().any(is_new) {
        manifest.members.push(new.clone());
        write_manifest(inner, &manifest)?;
    }
    manifest.members.retain(|written| named(written) != old && !is_new(written));
    // At the member's index, as far as the other entries allow.
    manifest.members.insert(member.min(manifest.members.len()), new);
    Ok(manifest)
}

/// A path in a form that can be compared: absolute, and without dots.
fn absolute(path: &Path) -> Result<PathBuf, VolumeError> {
    std::path::absolute(path).map_err(VolumeError::file(path, "find"))
}

fn write_manifest(inner: &Inner, manifest: &Manifest) -> Result<(), VolumeError> {
    inner.keep_locked(manifest.write(&inner.directory)?);
    if let Some(observer) = &inner.access.observer {
        observer.manifest();
    }
    Ok(())
}
