//! The files and disks that are to become members: opened, locked, and looked at.
//!
//! Whether one may be written is decided by `consent`; this module finds what it asks for, and
//! words its refusals.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use reel_disk::{MemberFile, OpenMode};

use crate::backing::ensure_unused_elsewhere;
use crate::claim::{claimed, is_among_devices, is_claimed, is_read_only, open_claimed};
use crate::consent::{Consent, Holds, Purpose, Refusal, Used, Verdict, may_write};
use crate::content::content;
use crate::error::VolumeError;
use crate::find::superblock_at;
use crate::ids::VolumeId;
use crate::limits::BLOCK_BYTES;
use crate::lock::lock;
use crate::manifest::FILE_NAME;
use crate::memory_file::is_in_memory;
use crate::owner::{OWNER_OFFSET, OwnerRecord, living_owner, owner_elsewhere};
use crate::superblock::Superblock;

/// A file or device that becomes a member.
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    /// As `volume.toml` names it.
    pub(crate) written: PathBuf,
    /// Locked.
    pub(crate) file: File,
    /// The size of a block device; `None` for a file, whose size is chosen here.
    pub(crate) device_bytes: Option<u64>,
    /// The same disk, if its owner must be watched before it is written.
    watched: Option<MemberFile>,
}

/// Under which terms a target is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) consent: Consent,
    /// The volume that is written, or that its directory names.
    pub(crate) own: Option<VolumeId>,
    /// Whether only an interrupted replacement has written to it.
    pub(crate) is_unfinished: bool,
}

/// The files created so far. They are removed on drop unless [`CreatedFiles::keep`] is called.
pub(crate) struct CreatedFiles {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) directory: Option<PathBuf>,
}

/// What a refusal names.
#[derive(Default)]
struct Found {
    in_use: Option<VolumeError>,
    superblock: Option<Superblock>,
    content: Option<String>,
    owner: Option<OwnerRecord>,
}

/// Opens a file or device or makes a file, locks or claims it, and looks at what it holds.
/// [`ensure_not_owned`] must follow before it is written.
pub(crate) fn open_target(
    path: PathBuf,
    written: PathBuf,
    terms: Terms,
    created: &mut CreatedFiles,
) -> Result<Target, VolumeError> {
    let ask = |holds| ask(&path, (holds, Used::No), terms.consent, Found::default()).map(|_| ());
    let file = match open_claimed(&path, OpenMode::ReadWrite) {
        Ok(file) => file,
        Err(error) if is_claimed(&error) => return Err(claimed(&path)),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            ask(Holds::Special)?;
            return Err(VolumeError::file(path, "open")(error));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(VolumeError::file(path, "open")(error));
        }
        Err(_) => {
            ask(if is_among_devices(&path) { Holds::NoDevice } else { Holds::Nothing })?;
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
            let file = file.map_err(VolumeError::file(&path, "create"))?;
            created.files.push(path.clone());
            lock(&file, &path, true)?;
            return Ok(Target { path, written, file, device_bytes: None, watched: None });
        }
    };
    look_at(path, written, file, terms)
}

/// Watches the disks whose owners may live elsewhere, for as long as an opening would.
pub(crate) fn ensure_not_owned(targets: &mut [Target], consent: Consent) -> Result<(), VolumeError> {
    let (paths, disks): (Vec<PathBuf>, Vec<MemberFile>) =
        targets.iter_mut().filter_map(|target| Some((target.path.clone(), target.watched.take()?))).unzip();
    if disks.is_empty() {
        return Ok(());
    }
    let Some(owner) = living_owner(&disks)? else { return Ok(()) };
    let of_owner = |disk: &MemberFile| owner_elsewhere(disk).is_some_and(|own| own.session == owner.session);
    let at = disks.iter().position(of_owner).unwrap_or(0);
    let found = Found { owner: Some(owner), ..Found::default() };
    ask(&paths[at], (Holds::OtherMember, Used::Elsewhere), consent, found).map(|_| ())
}

/// Warns of members that are gone when the machine is switched off.
pub(crate) fn warn_of_memory(targets: &[Target]) {
    let in_memory: Vec<String> = targets
        .iter()
        .filter(|target| target.device_bytes.is_none() && is_in_memory(&target.file))
        .map(|target| target.path.display().to_string())
        .collect();
    if !in_memory.is_empty() {
        tracing::warn!(
            paths = in_memory.join(", "),
            "these members are files in memory, so they are lost when this machine stops; put them on disks"
        );
    }
}

fn look_at(path: PathBuf, written: PathBuf, file: File, terms: Terms) -> Result<Target, VolumeError> {
    let metadata = file.metadata().map_err(VolumeError::file(&path, "get the metadata of"))?;
    let free = lock(&file, &path, true).and_then(|()| ensure_unused_elsewhere(&path, &metadata));
    if let Err(in_use) = free {
        let found = Found { in_use: Some(in_use), ..Found::default() };
        ask(&path, (Holds::Data, Used::Here), terms.consent, found)?;
    }
    if is_read_only(&metadata) {
        let problem = format!("the device {} is read-only", path.display());
        return Err(VolumeError::options(problem, "choose a disk that may be written"));
    }
    let device_bytes = match metadata.file_type().is_block_device() {
        true => Some(open_member(&path)?.bytes()),
        false => None,
    };
    // Another host may have written since this one has read.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    let (holds, found) = holds(&path, &file, device_bytes.unwrap_or(metadata.len()), terms);
    let disk = match found.superblock.is_some() || shows_owner(&file) {
        true => Some(open_member(&path)?),
        false => None,
    };
    let watched = disk.filter(|disk| owner_elsewhere(disk).is_some());
    let used = if watched.is_some() { Used::Perhaps } else { Used::No };
    ask(&path, (holds, used), terms.consent, found)?;
    Ok(Target { path, written, file, device_bytes, watched })
}

fn open_member(path: &Path) -> Result<MemberFile, VolumeError> {
    MemberFile::open(path, OpenMode::ReadOnly).map_err(VolumeError::disk("cannot use it as a member"))
}

/// Whether there may be an owner record. Its fields are read from the disk itself.
fn shows_owner(file: &File) -> bool {
    let mut block = vec![0; BLOCK_BYTES];
    file.read_exact_at(&mut block, OWNER_OFFSET).is_ok() && OwnerRecord::decode_any(&block).is_some()
}

fn holds(path: &Path, file: &File, bytes: u64, terms: Terms) -> (Holds, Found) {
    let superblock = superblock_at(path);
    let is_own = |found: &Superblock| Some(found.volume) == terms.own;
    let (holds, content) = match &superblock {
        _ if terms.is_unfinished => (Holds::Zeros, None),
        Some(found) if is_own(found) => (Holds::Discarded, None),
        Some(_) => (Holds::OtherMember, None),
        None if path.file_name().is_some_and(|name| name == FILE_NAME) => (Holds::VolumeFile, None),
        // A consent makes the search needless.
        None if terms.consent.force => (Holds::Data, None),
        None => match content(file, bytes) {
            Some(content) => (Holds::Data, Some(content)),
            None => (Holds::Zeros, None),
        },
    };
    (holds, Found { superblock, content, ..Found::default() })
}

fn ask(
    path: &Path,
    (holds, used): (Holds, Used),
    consent: Consent,
    found: Found,
) -> Result<Verdict, VolumeError> {
    match may_write(Purpose::Member, holds, used, consent) {
        Verdict::Refuse(refusal) => Err(error(path.to_owned(), refusal, found)),
        allowed => Ok(allowed),
    }
}

fn error(path: PathBuf, refusal: Refusal, found: Found) -> VolumeError {
    let options = |problem: String, help: &'static str| VolumeError::options(problem, help);
    match (refusal, found) {
        (Refusal::InUse, Found { in_use: Some(error), .. }) => error,
        (Refusal::InUse, _) => VolumeError::Claimed { path, holder: "another program".to_owned() },
        (Refusal::Owned, found) => {
            let owner = found.owner.map_or_else(|| "another host".to_owned(), |owner| owner.owner());
            VolumeError::Owned { path, owner }
        }
        (Refusal::NoDevice, _) => VolumeError::no_device(&path),
        (Refusal::Special, _) => options(
            format!("{} is neither a file nor a block device, so it cannot be a member", path.display()),
            "choose a file or a disk",
        ),
        (Refusal::PartOfVolume, _) => options(
            format!("{} names the members of a Reel volume, so it cannot be one", path.display()),
            "choose another file or a disk",
        ),
        (Refusal::Create, _) => VolumeError::NothingThere { path },
        (Refusal::OverwriteVolume, Found { superblock: Some(found), .. }) => {
            VolumeError::IsMember { path, member: found.index, volume: found.volume }
        }
        (Refusal::Force | Refusal::OverwriteVolume, found) => {
            let of = |found: Superblock| {
                format!("is already member {} of the Reel volume {}", found.index, found.volume)
            };
            let found = found.content.or_else(|| found.superblock.map(of));
            VolumeError::NotEmpty { path, found: found.unwrap_or_else(|| "is not empty".to_owned()) }
        }
    }
}

impl CreatedFiles {
    pub(crate) fn nothing() -> CreatedFiles {
        CreatedFiles { files: Vec::new(), directory: None }
    }

    pub(crate) fn keep(mut self) {
        self.files.clear();
        self.directory = None;
    }
}

impl Drop for CreatedFiles {
    fn drop(&mut self) {
        // Errors are ignored: the error that led here is the one to report.
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir(directory);
        }
    }
}
