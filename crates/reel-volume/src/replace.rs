//! Replaces a member, while the volume is in use.
//!
//! Four steps, each atomic; `docs/volume-format.md` says what a crash between any two leaves. First
//! the new disk is formatted as a member that the volume does not know yet. Then `volume.toml`
//! lists it beside the old one. Then a commit of the catalogue makes it the expected disk. Last,
//! `volume.toml` drops the old one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalogue::{MemberSet, write_quorum};
use crate::commit::Change;
use crate::consent::Consent;
use crate::error::VolumeError;
use crate::finding::{Finding, MEMBERS_LOG};
use crate::ids::MemberId;
use crate::lock::identity;
use crate::manifest::Manifest;
use crate::new_disk::{NewDisk, make};
use crate::superblock::Superblock;
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

pub(crate) fn replace(inner: &Arc<Inner>, replacement: &Replacement) -> Result<Finding, VolumeError> {
    let _job = inner.begin_job("replace")?;
    let member = replacement.member;
    let path = absolute(&replacement.path)?;
    may_be_replaced(inner, member, replacement.replace_healthy)?;
    let consent = Consent {
        // Elsewhere, the path may be misspelt.
        create: replacement.create || path.parent() == Some(&absolute(&inner.directory)?),
        force: replacement.force,
        overwrite_volume: replacement.overwrite_volume,
    };
    let id = MemberId::random()?;
    let superblock = Superblock {
        member: id,
        index: member,
        joined_epoch: inner.next_epoch(),
        ..inner.superblock.clone()
    };
    let NewDisk { target, file, created } = make(inner, &path, superblock, consent)?;
    let manifest = list_beside(inner, member, &path)?;
    // From now on the file belongs to the volume, whatever fails.
    created.keep();

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
