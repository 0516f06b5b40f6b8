//! Finds the members of a volume: which of them are present, and which are what they should be.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reel_disk::limits::WAKE_MAX_NS;
use reel_disk::{DiskError, MemberFile, OpenMode};

use crate::catalogue::{Area, BODY_AT, Candidate, CommitHeader, MemberSet};
use crate::claim::{claimed, is_claimed, is_claimed_by_another, is_read_only, open_claimed};
use crate::error::VolumeError;
use crate::finding::{Finding, MemberState};
use crate::ids::{MemberId, VolumeId};
use crate::limits::{BLOCK_BYTES, SPIN_UP_SHOWN_NS};
use crate::lock::{identity, lock};
use crate::manifest::Manifest;
use crate::superblock::{SUPERBLOCK_COPY_OFFSET, Superblock, SuperblockError};
use reel_code::crc32c;

/// A member that is present and belongs to the volume.
pub(crate) struct OpenMember {
    pub(crate) file: MemberFile,
    pub(crate) superblock: Superblock,
    /// Whether one of the two superblocks was damaged.
    pub(crate) superblock_damaged: bool,
    /// Its index in the list of `volume.toml`.
    pub(crate) listed: usize,
    /// The catalogue copies on it whose checksums match.
    pub(crate) areas: [Option<Copy>; 2],
    /// Whether every catalogue area starts with a header that matches its checksum, of any version.
    pub(crate) headers_whole: bool,
    /// The headers of its catalogue areas that are whole, whether their bodies match or not.
    headers: [Option<CommitHeader>; 2],
}

/// A catalogue copy that matches its checksums.
pub(crate) struct Copy {
    pub(crate) header: CommitHeader,
    pub(crate) body: Vec<u8>,
}

/// Everything found at the paths of `volume.toml`.
pub(crate) struct Found {
    pub(crate) members: Vec<OpenMember>,
    /// The paths that gave no member, with the reason.
    pub(crate) bad: Vec<BadPath>,
}

/// A path that gave no member.
pub(crate) struct BadPath {
    pub(crate) listed: usize,
    pub(crate) path: PathBuf,
    pub(crate) state: MemberState,
    pub(crate) reason: String,
}

impl OpenMember {
    /// Reads the catalogue areas, again if they were read before.
    pub(crate) fn read_catalogue(&mut self) {
        let (file, superblock) = (&self.file, &self.superblock);
        file.forget_cached();
        let headers = [0, 1].map(|area| read_header(file, superblock, area));
        self.headers_whole = (0..2).all(|area| {
            let mut block = vec![0; BLOCK_BYTES];
            file.read_at(superblock.area_offset(area), &mut block).is_ok() && CommitHeader::is_whole(&block)
        });
        let [first, second] = headers.clone();
        self.areas = [
            first.and_then(|header| read_body(file, superblock, 0, header)),
            second.and_then(|header| read_body(file, superblock, 1, header)),
        ];
        self.headers = headers;
    }

    fn candidate(&self) -> Candidate {
        let area =
            |area: usize| Area { header: self.headers[area].clone(), is_copy: self.areas[area].is_some() };
        Candidate { index: self.superblock.index, id: self.superblock.member, areas: [0, 1].map(area) }
    }
}

/// Opens, locks and reads every member that can be. Those at `silent` paths have left a read
/// unanswered, and get no further one.
pub(crate) fn find(
    directory: &Path,
    manifest: &Manifest,
    mode: OpenMode,
    silent: &[&Path],
) -> Result<Found, VolumeError> {
    let mut found = Found { members: Vec::new(), bad: Vec::new() };
    let mut seen = HashSet::new();
    for (listed, written) in manifest.members.iter().enumerate() {
        let path = directory.join(written);
        if silent.contains(&path.as_path()) {
            let reason = left_unanswered(Duration::from_nanos(SPIN_UP_SHOWN_NS + WAKE_MAX_NS));
            found.bad.push(BadPath { listed, path, state: MemberState::Failed, reason });
            continue;
        }
        // Under a second name of the file, our own lock would be reported as another program's.
        if std::fs::metadata(&path).is_ok_and(|metadata| !seen.insert(identity(&metadata))) {
            continue;
        }
        match open_member(&path, manifest.volume, listed, mode)? {
            Ok(member) => found.members.push(member),
            Err((state, reason)) => found.bad.push(BadPath { listed, path, state, reason }),
        }
    }
    found.keep_those_that_agree();
    Ok(found)
}

fn left_unanswered(patience: Duration) -> String {
    format!(
        "it did not answer a request for {} s: its disk hangs, or its file system is frozen",
        patience.as_secs()
    )
}

type Verdict = Result<OpenMember, (MemberState, String)>;

fn open_member(path: &Path, volume: VolumeId, listed: usize, mode: OpenMode) -> Result<Verdict, VolumeError> {
    let opened = open_claimed(path, mode).map_err(|error| DiskError::File {
        path: path.to_owned(),
        what: "open",
        source: Arc::new(error),
    });
    let file = match opened.and_then(|plain| MemberFile::of(path, plain, mode)) {
        Ok(file) => file,
        Err(DiskError::File { source, .. }) if is_claimed(&source) => return claimed_member(path, volume),
        Err(error) => {
            let wanted = if mode == OpenMode::ReadWrite { "written" } else { "read" };
            return Ok(Err(match denial(&error) {
                Some(reason) => (MemberState::Denied, format!("it may not be {wanted}: {reason}")),
                None => (MemberState::Missing, error.to_string()),
            }));
        }
    };
    if mode == OpenMode::ReadWrite && file.file().metadata().is_ok_and(|metadata| is_read_only(&metadata)) {
        let reason = "it may not be written: the device is read-only".to_owned();
        return Ok(Err((MemberState::Denied, reason)));
    }
    let locked = match mode {
        OpenMode::ReadOnly if is_claimed_by_another(path) => Err(claimed(path)),
        OpenMode::ReadOnly => lock(file.file(), path, false),
        OpenMode::ReadWrite => lock(file.file(), path, true),
    };
    if let Err(locked) = locked {
        // The file is locked by the process that has its volume open, which is another volume than
        // this one.
        return match read_superblock(&file) {
            Ok((superblock, _)) if superblock.volume != volume => Ok(Err(foreign(&superblock))),
            _ => Err(locked),
        };
    }
    let (superblock, superblock_damaged) = match read_superblock(&file) {
        Ok(read) => read,
        Err(SuperblockError::NotReel) => {
            let reason =
                "it does not start like a member of a Reel volume: it was overwritten, or it is another file";
            return Ok(Err((MemberState::Damaged, reason.to_owned())));
        }
        Err(error) => return Ok(Err((MemberState::Damaged, error.to_string()))),
    };
    if superblock.volume != volume {
        return Ok(Err(foreign(&superblock)));
    }
    if file.bytes() < superblock.member_bytes {
        let reason = format!("it has {} bytes and should have {}", file.bytes(), superblock.member_bytes);
        return Ok(Err((MemberState::Truncated, reason)));
    }
    let mut member = OpenMember {
        file,
        superblock,
        superblock_damaged,
        listed,
        areas: [None, None],
        headers_whole: false,
        headers: [None, None],
    };
    member.read_catalogue();
    Ok(Ok(member))
}

/// A device that has another use. If it is a member of this volume, another program has the volume
/// open; otherwise it is another disk under this name.
fn claimed_member(path: &Path, volume: VolumeId) -> Result<Verdict, VolumeError> {
    let locked = claimed(path);
    let read = MemberFile::open(path, OpenMode::ReadOnly).ok().map(|file| read_superblock(&file));
    match read {
        Some(Ok((superblock, _))) if superblock.volume == volume => Err(locked),
        Some(Ok((superblock, _))) => Ok(Err(foreign(&superblock))),
        _ => Ok(Err((MemberState::Denied, locked.to_string()))),
    }
}

fn foreign(superblock: &Superblock) -> (MemberState, String) {
    (MemberState::Foreign, format!("it belongs to another volume ({})", superblock.volume))
}

/// The error of the system for an existing file that this user may not access.
fn denial(error: &DiskError) -> Option<&io::Error> {
    let DiskError::File { source, .. } = error else { return None };
    matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
        .then_some(source.as_ref())
}

/// The superblock or its copy, and whether one of the two is damaged.
fn read_superblock(file: &MemberFile) -> Result<(Superblock, bool), SuperblockError> {
    let read = |offset: u64| {
        let mut block = vec![0; BLOCK_BYTES];
        file.read_at(offset, &mut block).map_err(|_| SuperblockError::NotReel)?;
        Superblock::decode(&block)
    };
    match (read(0), read(SUPERBLOCK_COPY_OFFSET)) {
        (Ok(first), Ok(copy)) => Ok((first.clone(), first != copy)),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok((one, true)),
        (Err(SuperblockError::NotReel), Err(error)) | (Err(error), Err(_)) => Err(error),
    }
}

fn read_header(file: &MemberFile, superblock: &Superblock, area: usize) -> Option<CommitHeader> {
    let mut blocks = vec![0; BODY_AT as usize];
    file.read_at(superblock.area_offset(area), &mut blocks).ok()?;
    CommitHeader::decode(&blocks, superblock.volume, superblock.catalogue_bytes)
}

fn read_body(file: &MemberFile, superblock: &Superblock, area: usize, header: CommitHeader) -> Option<Copy> {
    let mut body = vec![0; usize::try_from(header.body_bytes).ok()?];
    file.read_at(superblock.area_offset(area) + BODY_AT, &mut body).ok()?;
    (crc32c(&body) == header.body_sum).then_some(Copy { header, body })
}

impl Found {
    /// What the catalogue in force is selected from.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        self.members.iter().map(OpenMember::candidate).collect()
    }

    /// A superblock of the volume, also of a member that may only be read.
    pub(crate) fn superblock(&self, volume: VolumeId) -> Option<Superblock> {
        let open = self.members.first().map(|member| member.superblock.clone());
        open.or_else(|| {
            let denied = self.bad.iter().filter(|bad| bad.state == MemberState::Denied);
            denied.filter_map(|bad| MemberFile::open(&bad.path, OpenMode::ReadOnly).ok()).find_map(|file| {
                let (superblock, _) = read_superblock(&file).ok()?;
                (superblock.volume == volume).then_some(superblock)
            })
        })
    }

    /// Leaves out members that have not answered a request for so long.
    pub(crate) fn leave_out(&mut self, silent: &BTreeSet<usize>, patience_ns: u64) {
        let is_silent = |member: &mut OpenMember| silent.contains(&member.superblock.index);
        self.bad.extend(self.members.extract_if(.., is_silent).map(|member| BadPath {
            listed: member.listed,
            path: member.file.path().to_owned(),
            state: MemberState::Failed,
            reason: left_unanswered(Duration::from_nanos(patience_ns)),
        }));
    }

    /// Keeps the members that agree. Members of one volume have one geometry; a member that
    /// disagrees with most others is rejected. Of two members with one number, the one that the
    /// catalogue expects is kept: the other was replaced, or was to replace it and never did. If
    /// the catalogue expects neither or both, one is a copy, and the first is
    /// kept.
    fn keep_those_that_agree(&mut self) {
        let shape = |superblock: &Superblock| Superblock {
            member: MemberId([0; 16]),
            index: 0,
            joined_epoch: 0,
            ..superblock.clone()
        };
        let shapes: Vec<Superblock> = self.members.iter().map(|member| shape(&member.superblock)).collect();
        let votes = |one: &Superblock| shapes.iter().filter(|other| *other == one).count();
        let Some(most) = shapes.iter().max_by_key(|one| votes(one)).cloned() else { return };
        let expected = self.expected_members();
        let is_expected = |member: &OpenMember| {
            expected.get(member.superblock.index).is_some_and(|id| *id == member.superblock.member)
        };
        let mut kept: Vec<OpenMember> = Vec::with_capacity(self.members.len());
        for member in self.members.drain(..) {
            let same_number = kept.iter().position(|other| other.superblock.index == member.superblock.index);
            let (member, state, reason) = if shape(&member.superblock) != most {
                let reason = "its superblock disagrees with those of the other members".to_owned();
                (member, MemberState::Foreign, reason)
            } else if let Some(other) = same_number {
                let (member, other) = if is_expected(&member) && !is_expected(&kept[other]) {
                    let old = std::mem::replace(&mut kept[other], member);
                    (old, &kept[other])
                } else {
                    (member, &kept[other])
                };
                let (index, other) = (member.superblock.index, other.file.path().display());
                let reason = if member.superblock.member == kept_id(&kept, index) {
                    format!("it has the number of member {index}, like {other}; one of the two is a copy")
                } else {
                    format!("the volume has another disk as its member {index}: {other}")
                };
                (member, MemberState::Foreign, reason)
            } else {
                kept.push(member);
                continue;
            };
            self.bad.push(BadPath {
                listed: member.listed,
                path: member.file.path().to_owned(),
                state,
                reason,
            });
        }
        self.members = kept;
    }

    /// The disks that the newest complete catalogue expects as its members.
    fn expected_members(&self) -> Vec<MemberId> {
        let copies = self.members.iter().flat_map(|member| member.areas.iter().flatten());
        let newest = copies
            .filter(|copy| copy.header.sealed)
            .max_by_key(|copy| (copy.header.epoch.number, copy.header.generation));
        newest.map_or_else(Vec::new, |copy| copy.header.members.clone())
    }
}

fn kept_id(kept: &[OpenMember], index: usize) -> MemberId {
    let member = kept.iter().find(|member| member.superblock.index == index);
    member.map_or(MemberId([0; 16]), |member| member.superblock.member)
}

/// The states that the catalogue in force gives to members that are present.
#[derive(Default)]
pub(crate) struct SyncState {
    /// Not in sync.
    pub(crate) stale: Vec<usize>,
    /// Those among them that are new.
    pub(crate) rebuilding: Vec<usize>,
    /// Those in whose place the catalogue expects another disk.
    pub(crate) unexpected: Vec<usize>,
    /// Those that hold an older state than they had.
    pub(crate) odd: MemberSet,
    /// Those that belong to a copy of the volume.
    pub(crate) apart: MemberSet,
    /// Their copies of the catalogue are damaged.
    pub(crate) damaged: Vec<usize>,
}

/// One finding for each member 0..N, in order.
pub(crate) fn findings(
    found: &Found,
    manifest: &Manifest,
    directory: &Path,
    members: usize,
    sync_state: &SyncState,
) -> Vec<Finding> {
    // A path that gave no member is reported under a number that no other path has: its own index
    // if that is free.
    let mut bad_of: Vec<Option<&BadPath>> = vec![None; members];
    let taken: Vec<usize> = found.members.iter().map(|member| member.superblock.index).collect();
    let mut unplaced = Vec::new();
    for bad in &found.bad {
        match bad_of.get_mut(bad.listed) {
            Some(place) if place.is_none() && !taken.contains(&bad.listed) => *place = Some(bad),
            _ => unplaced.push(bad),
        }
    }
    for bad in unplaced {
        let free = (0..members).find(|member| !taken.contains(member) && bad_of[*member].is_none());
        if let Some(member) = free {
            bad_of[member] = Some(bad);
        }
    }
    (0..members)
        .map(|index| match found.members.iter().find(|member| member.superblock.index == index) {
            Some(member) => finding_of(member, sync_state),
            None => match bad_of[index] {
                Some(bad) => Finding {
                    member: index,
                    path: bad.path.clone(),
                    state: bad.state,
                    text: format!("{}; {}", bad.reason, advice(bad.state)),
                },
                None => Finding {
                    member: index,
                    path: manifest.members.get(index).map_or_else(PathBuf::new, |path| directory.join(path)),
                    state: MemberState::Missing,
                    text: format!("no path in volume.toml leads to it; {}", advice(MemberState::Missing)),
                },
            },
        })
        .collect()
}

/// A member that is new, or was missing, and is written and not read.
pub(crate) fn rebuilding_finding(member: usize, path: &Path) -> Finding {
    let text = "it is being rebuilt: new data is written to it, and its bytes are computed from the other members until it \
                holds all; `reel volume rebuild` fills it, and continues where it stopped"
        .to_owned();
    Finding { member, path: path.to_owned(), state: MemberState::Rebuilding, text }
}

fn finding_of(member: &OpenMember, sync_state: &SyncState) -> Finding {
    let index = member.superblock.index;
    let (state, text) = if sync_state.unexpected.contains(&index) {
        let text = format!(
            "the volume expects another disk as this member: this one was replaced, or a replacement with it \
             did not finish; {}",
            advice(MemberState::Foreign)
        );
        (MemberState::Foreign, text)
    } else if sync_state.rebuilding.contains(&index) {
        return rebuilding_finding(index, member.file.path());
    } else if sync_state.apart.has(index) {
        let text = format!(
            "its catalogue contradicts those of most other members: it belongs to a copy of this volume that was \
             written apart, so it is not used; {}",
            advice(MemberState::Foreign)
        );
        (MemberState::Foreign, text)
    } else if sync_state.odd.has(index) {
        let text = format!(
            "it holds an older state of the volume than it had: it was put back or restored, so it is not read; {}",
            advice(MemberState::Stale)
        );
        (MemberState::Stale, text)
    } else if sync_state.stale.contains(&index) {
        let text = format!(
            "it was missing while the volume was written, so it is not read; a server brings it back when it starts, \
             as does `reel volume rebuild`; {}",
            advice(MemberState::Stale)
        );
        (MemberState::Stale, text)
    } else if sync_state.damaged.contains(&index) || member.superblock_damaged {
        let what = if member.superblock_damaged {
            "one of its two superblocks"
        } else {
            "its copy of the catalogue"
        };
        let text = format!(
            "{what} was damaged and is rewritten when the volume is opened for writing; run `reel volume check`"
        );
        (MemberState::Repaired, text)
    } else if member.listed != index {
        let text =
            format!("found where volume.toml lists member {}; nothing needs to be done", member.listed);
        (MemberState::Swapped, text)
    } else {
        (MemberState::Present, "in use".to_owned())
    };
    Finding { member: index, path: member.file.path().to_owned(), state, text }
}

/// A finding without its advice, for a volume that cannot be opened: nothing can be computed from
/// other members then.
pub(crate) fn without_advice(finding: &Finding) -> String {
    let text = finding.to_string();
    let bare = text.strip_suffix(advice(finding.state)).and_then(|text| text.strip_suffix("; "));
    bare.unwrap_or(&text).to_owned()
}

fn advice(state: MemberState) -> &'static str {
    match state {
        MemberState::Missing => {
            "its bytes are computed from the other members. Bring it back, or correct its path in \
             volume.toml, and open the volume again"
        }
        MemberState::Denied => {
            "its bytes are computed from the other members. Give this user permission to access it, or make the device \
             or file system writable, and open the volume again"
        }
        MemberState::Stale => "its bytes are computed from the other members until it is rebuilt",
        _ => {
            "its bytes are computed from the other members. Bring the right one back, or replace it; a \
              member that is back is found when the volume is opened again"
        }
    }
}
