//! Finds parts of volumes by what they hold, without `volume.toml`, and writes that file from them.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use reel_disk::{MemberFile, OpenMode, open_plain};

use crate::claim::{claimed, is_claimed_by_another};
use crate::error::VolumeError;
use crate::ids::{MemberId, VolumeId};
use crate::limits::BLOCK_BYTES;
use crate::lock::{identity, lock};
use crate::manifest::{FILE_NAME, Manifest};
use crate::superblock::{SUPERBLOCK_COPY_OFFSET, Superblock};

/// A member of any volume, recognised by its superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMember {
    /// Where it is.
    pub path: PathBuf,
    /// The volume that it belongs to.
    pub volume: VolumeId,
    /// Its id.
    pub id: MemberId,
    /// Its number.
    pub member: usize,
    /// Members of its volume.
    pub members: usize,
    /// Members that its volume may lose.
    pub tolerated: usize,
    /// Bytes that it has.
    pub bytes: u64,
    /// Whether it has all bytes of a member of its volume.
    pub is_whole: bool,
    /// The program that has it open, as far as known.
    pub in_use_by: Option<String>,
    /// Its state in words.
    pub text: String,
}

/// The superblock of a file or device, or its copy.
pub(crate) fn superblock_at(path: &Path) -> Option<Superblock> {
    superblocks_of(&open_plain(path, OpenMode::ReadOnly).ok()?).into_iter().flatten().next()
}

fn superblocks_of(file: &File) -> [Option<Superblock>; 2] {
    [0, SUPERBLOCK_COPY_OFFSET].map(|offset| {
        let mut block = vec![0; BLOCK_BYTES];
        file.read_exact_at(&mut block, offset).ok()?;
        Superblock::decode(&block).ok()
    })
}

/// The members in a directory, not below it, and those at `more` paths; by volume and number.
///
/// # Errors
/// The directory cannot be read, or there is no member at one of the paths.
pub fn find_members(directory: &Path, more: &[PathBuf]) -> Result<Vec<FoundMember>, VolumeError> {
    let entries = std::fs::read_dir(directory).map_err(VolumeError::file(directory, "list"))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut seen = BTreeSet::new();
    let mut is_new =
        |path: &Path| std::fs::metadata(path).is_ok_and(|metadata| seen.insert(identity(&metadata)));
    let mut found: Vec<FoundMember> = Vec::new();
    for path in more {
        let path = std::path::absolute(path).map_err(VolumeError::file(path, "find"))?;
        let file = open_plain(&path, OpenMode::ReadOnly).map_err(VolumeError::file(&path, "open"))?;
        drop(file);
        let Some(member) = member_at(&path) else {
            let problem = format!("{} does not start like a member of a Reel volume", path.display());
            return Err(VolumeError::options(problem, "name only members; a damaged one is not needed"));
        };
        if is_new(&path) {
            found.push(member);
        }
    }
    found.extend(paths.iter().filter(|path| is_new(path)).filter_map(|path| member_at(path)));
    found.sort_by_key(|member| (member.volume.0, member.member));
    Ok(found)
}

fn member_at(path: &Path) -> Option<FoundMember> {
    // Most files of a directory are no members, so they are not measured.
    superblock_at(path)?;
    let file = MemberFile::open(path, OpenMode::ReadOnly).ok()?;
    let superblocks = superblocks_of(file.file());
    let is_damaged = superblocks[0] != superblocks[1];
    let superblock = superblocks.into_iter().flatten().next()?;
    let locked = match is_claimed_by_another(path) {
        true => Err(claimed(path)),
        false => lock(file.file(), path, false),
    };
    let in_use_by = match locked {
        Err(VolumeError::Locked { holder, .. } | VolumeError::Claimed { holder, .. }) => Some(holder),
        _ => None,
    };
    let (bytes, needed) = (file.bytes(), superblock.member_bytes);
    let text = match &in_use_by {
        Some(holder) => format!("in use by {holder}"),
        None if bytes < needed => format!("truncated: it has {bytes} bytes and should have {needed}"),
        None if is_damaged => "one of its two superblocks is damaged".to_owned(),
        None => "whole".to_owned(),
    };
    Some(FoundMember {
        path: path.to_owned(),
        volume: superblock.volume,
        id: superblock.member,
        member: superblock.index,
        members: superblock.geometry.members(),
        tolerated: superblock.geometry.parity_rows(),
        bytes,
        is_whole: bytes >= needed,
        in_use_by,
        text,
    })
}

/// The error of a directory without a usable `volume.toml`. If members are in it, it says so:
/// making a volume there would destroy them.
pub(crate) fn beside_members(directory: &Path, error: VolumeError) -> VolumeError {
    let VolumeError::NotAVolume { reason, .. } = &error else { return error };
    let found = find_members(directory, &[]).unwrap_or_default();
    let Some(first) = found.first() else { return error };
    VolumeError::Unlisted {
        path: directory.to_owned(),
        reason: reason.clone(),
        members: found.iter().filter(|member| member.volume == first.volume).count(),
        volume: first.volume,
    }
}

/// Writes the `volume.toml` of a directory, in one step, so that it names these members. If they
/// are of several volumes, `volume` chooses one.
///
/// # Errors
/// There is a `volume.toml` that can be read, a member is in use, two files are copies of one
/// member, too few members were found to open the volume, or the file cannot be written.
pub fn list_members(
    directory: &Path,
    found: &[FoundMember],
    volume: Option<VolumeId>,
) -> Result<VolumeId, VolumeError> {
    match Manifest::open(directory) {
        Ok(_) => {
            let problem = format!("{} has a {FILE_NAME} that can be read", directory.display());
            return Err(VolumeError::options(problem, "if members were moved, change their paths in it"));
        }
        Err(VolumeError::NotAVolume { .. }) => {}
        Err(error) => return Err(error),
    }
    let volume = volume_of(found, volume)?;
    let mut rest: Vec<&FoundMember> = found.iter().filter(|member| member.volume == volume).collect();
    ensure_enough(&rest)?;
    let count = rest.first().map_or(0, |member| member.members);
    let base = std::path::absolute(directory).map_err(VolumeError::file(directory, "find"))?;
    let written = |member: &FoundMember| {
        let path = std::path::absolute(&member.path).unwrap_or_else(|_| member.path.clone());
        path.strip_prefix(&base).map_or_else(|_| path.clone(), Path::to_owned)
    };
    // Each at the place of its number. A missing one is named as `create` names it, so that it can
    // be put there.
    let mut members: Vec<PathBuf> = (0..count)
        .map(|number| match rest.iter().position(|member| member.member == number) {
            Some(at) => written(rest.remove(at)),
            None => PathBuf::from(format!("member-{number}.reel")),
        })
        .collect();
    // Of two disks with one number, one was replaced by the other. The catalogue tells which.
    members.extend(rest.into_iter().map(written));
    Manifest { volume, members }.write(directory)?;
    Ok(volume)
}

fn volume_of(found: &[FoundMember], wanted: Option<VolumeId>) -> Result<VolumeId, VolumeError> {
    let mut volumes: Vec<VolumeId> = found.iter().map(|member| member.volume).collect();
    volumes.dedup();
    volumes.retain(|volume| wanted.is_none_or(|wanted| wanted == *volume));
    match volumes[..] {
        [] => Err(VolumeError::options(
            "no member was found".to_owned(),
            "name the disks or files that are members: `reel volume find DIR DEVICE...`",
        )),
        [volume] => Ok(volume),
        _ => {
            let ids: Vec<String> = volumes.iter().map(ToString::to_string).collect();
            let problem = format!("members of several volumes were found: {}", ids.join(", "));
            Err(VolumeError::options(problem, "choose one of them with --volume ID"))
        }
    }
}

fn ensure_enough(members: &[&FoundMember]) -> Result<(), VolumeError> {
    for (at, member) in members.iter().enumerate() {
        if let Some(holder) = &member.in_use_by {
            return Err(VolumeError::Locked { path: member.path.clone(), holder: holder.clone() });
        }
        if let Some(copy) = members[..at].iter().find(|other| other.id == member.id) {
            let problem = format!(
                "{} and {} are copies of one member, member {}",
                copy.path.display(),
                member.path.display(),
                member.member
            );
            return Err(VolumeError::options(problem, "move the one away that is older"));
        }
    }
    let whole: BTreeSet<usize> =
        members.iter().filter(|member| member.is_whole).map(|member| member.member).collect();
    let (count, tolerated) = members.first().map_or((0, 0), |member| (member.members, member.tolerated));
    if whole.len() + tolerated < count {
        let problem =
            format!("{} of {count} members were found, and {} are needed", whole.len(), count - tolerated);
        return Err(VolumeError::options(
            problem,
            "name the disks or files of the others too: `reel volume find DIR DEVICE... --write`",
        ));
    }
    Ok(())
}
