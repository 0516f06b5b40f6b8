//! Creates a volume.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use reel_code::{Code, crc32c};
use reel_disk::{MemberFile, OpenMode};

use crate::catalogue::{CommitHeader, Epoch, MemberSet, encode_body};
use crate::error::VolumeError;
use crate::geometry::{Geometry, GeometryFields};
use crate::ids::{MemberId, VolumeId, random_u64};
use crate::layout::Layout;
use crate::limits::{BLOCK_BYTES, CATALOGUE_BYTES_MAX, CATALOGUE_BYTES_MIN};
use crate::lock::{identity, lock};
use crate::manifest::{FILE_NAME, Manifest, sync_directory};
use crate::superblock::{CATALOGUE_OFFSET, SUPERBLOCK_COPY_OFFSET, Superblock};

/// Where the members of a new volume are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// This number of files in the volume's directory.
    Count(usize),
    /// These block devices or files.
    Paths(Vec<PathBuf>),
}

/// The properties of a new volume.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Its members.
    pub members: Members,
    /// Parity rows P: the number of members that may be lost.
    pub parity: usize,
    /// The code.
    pub code: Code,
    /// Bytes of all members that are files, parity and catalogue included. Block devices are used
    /// completely.
    pub size_bytes: u64,
    /// Bytes of a symbol E; 1408 if `None`.
    pub symbol_bytes: Option<usize>,
    /// Symbols of a row L; 32 if `None`.
    pub row_symbols: Option<usize>,
    /// Rows of a unit M; 6 if `None`.
    pub unit_rows: Option<usize>,
    /// Data rows D; N - P if `None`.
    pub data_rows: Option<usize>,
    /// Bytes of each of the two catalogue areas of a member; 0.2 % of the member if `None`.
    pub catalogue_bytes: Option<u64>,
    /// Whether existing content may be overwritten.
    pub force: bool,
    /// Whether members that are files grow as they are written, with no space reserved: for
    /// simulations and tests.
    pub sparse: bool,
}

/// The volume that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSummary {
    /// The volume's id.
    pub volume: VolumeId,
    /// Its geometry.
    pub geometry: Geometry,
    /// Its members.
    pub members: Vec<PathBuf>,
    /// Bytes of each member.
    pub member_bytes: u64,
    /// Object bytes that the volume can store.
    pub capacity_bytes: u64,
}

impl Default for VolumeOptions {
    /// Five files of 4 GiB, one parity row of five.
    fn default() -> VolumeOptions {
        VolumeOptions {
            members: Members::Count(5),
            parity: 1,
            code: Code::Xor,
            size_bytes: 20 << 30,
            symbol_bytes: None,
            row_symbols: None,
            unit_rows: None,
            data_rows: None,
            catalogue_bytes: None,
            force: false,
            sparse: false,
        }
    }
}

/// Creates a volume. On failure, everything that was created is removed.
pub(crate) fn create(directory: &Path, options: &VolumeOptions) -> Result<VolumeSummary, VolumeError> {
    let geometry = geometry_of(options)?;
    let made_directory = prepare_directory(directory, options)?;
    let mut created =
        CreatedFiles { files: Vec::new(), directory: made_directory.then(|| directory.to_owned()) };
    let summary = create_in(directory, options, geometry, &mut created)?;
    created.keep();
    Ok(summary)
}

/// The files created so far. They are removed on drop unless [`CreatedFiles::keep`] is called.
pub(crate) struct CreatedFiles {
    files: Vec<PathBuf>,
    directory: Option<PathBuf>,
}

/// A file or device that becomes a member.
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    /// As `volume.toml` names it.
    written: PathBuf,
    /// Locked.
    pub(crate) file: File,
    /// The size of a block device; `None` for a file, whose size is chosen here.
    pub(crate) device_bytes: Option<u64>,
}

fn geometry_of(options: &VolumeOptions) -> Result<Geometry, VolumeError> {
    let members = match &options.members {
        Members::Count(count) => *count,
        Members::Paths(paths) => paths.len(),
    };
    if !options.code.allows(options.parity) {
        return Err(VolumeError::options(
            format!("the code {} makes one parity row, not {}", options.code, options.parity),
            "use --parity 1",
        ));
    }
    let defaults = GeometryFields::cmaf(members);
    Ok(Geometry::new(GeometryFields {
        symbol_bytes: options.symbol_bytes.unwrap_or(defaults.symbol_bytes),
        row_symbols: options.row_symbols.unwrap_or(defaults.row_symbols),
        unit_rows: options.unit_rows.unwrap_or(defaults.unit_rows),
        data_rows: options.data_rows.unwrap_or(members.saturating_sub(options.parity).max(1)),
        parity_rows: options.parity,
        members,
    })?)
}

/// Creates the directory, or checks that it holds no volume. Returns whether it was created.
fn prepare_directory(directory: &Path, options: &VolumeOptions) -> Result<bool, VolumeError> {
    if directory.exists() {
        if let Ok((_, file, path)) = Manifest::open(directory) {
            // Not even `force` destroys a volume that a program uses.
            lock(&file, &path, true)?;
        }
        if directory.join(FILE_NAME).exists() && !options.force {
            return Err(VolumeError::NotEmpty {
                path: directory.to_owned(),
                found: "is already a Reel volume".to_owned(),
            });
        }
        return Ok(false);
    }
    std::fs::create_dir_all(directory).map_err(VolumeError::file(directory, "create the directory"))?;
    Ok(true)
}

fn create_in(
    directory: &Path,
    options: &VolumeOptions,
    geometry: Geometry,
    created: &mut CreatedFiles,
) -> Result<VolumeSummary, VolumeError> {
    if let Some(bytes) = options.catalogue_bytes
        && !(CATALOGUE_BYTES_MIN..=CATALOGUE_BYTES_MAX).contains(&bytes)
    {
        return Err(VolumeError::options(
            format!(
                "a catalogue area must be {CATALOGUE_BYTES_MIN} to {CATALOGUE_BYTES_MAX} bytes, not {bytes}"
            ),
            None,
        ));
    }
    let targets = open_targets(directory, options, created)?;
    let share = options.size_bytes / geometry.members() as u64;
    let smallest = targets.iter().map(|target| target.device_bytes.unwrap_or(share)).min().unwrap_or(0);
    let layout = Layout::of(&geometry, smallest, options.catalogue_bytes).ok_or_else(|| {
        let problem = format!(
            "{smallest} bytes per member are too few: this geometry needs at least {} of each of its {} members",
            Layout::bytes_min(&geometry, options.catalogue_bytes),
            geometry.members(),
        );
        VolumeError::options(problem, "choose a larger --size")
    })?;
    reserve(&targets, layout.member_bytes, options.sparse)?;
    let volume = VolumeId::random()?;
    format(&targets, volume, geometry, options.code, layout)?;
    let members: Vec<PathBuf> = targets.iter().map(|target| target.written.clone()).collect();
    created.files.push(directory.join(format!("{FILE_NAME}.new")));
    Manifest { volume, members }.write(directory)?;
    let units = (layout.member_bytes - layout.data_offset) / geometry.unit_bytes() as u64;
    Ok(VolumeSummary {
        volume,
        geometry,
        members: targets.into_iter().map(|target| target.path).collect(),
        member_bytes: layout.member_bytes,
        capacity_bytes: geometry.slots(units) * geometry.stripe_bytes() as u64,
    })
}

fn open_targets(
    directory: &Path,
    options: &VolumeOptions,
    created: &mut CreatedFiles,
) -> Result<Vec<Target>, VolumeError> {
    let paths: Vec<(PathBuf, PathBuf)> = match &options.members {
        Members::Count(count) => (0..*count)
            .map(|index| PathBuf::from(format!("member-{index}.reel")))
            .map(|name| (directory.join(&name), name))
            .collect(),
        Members::Paths(paths) => paths
            .iter()
            .map(|path| {
                let path = std::path::absolute(path).map_err(VolumeError::file(path, "find"))?;
                Ok((path.clone(), path))
            })
            .collect::<Result<_, VolumeError>>()?,
    };
    let mut seen = HashSet::new();
    let mut targets = Vec::with_capacity(paths.len());
    for (path, written) in paths {
        // Checked before it is opened: our own lock on the first name would be reported as another
        // program's.
        if std::fs::metadata(&path).is_ok_and(|metadata| seen.contains(&identity(&metadata))) {
            return Err(VolumeError::options(
                format!("{} is listed twice", path.display()),
                "every member must be a different disk or file",
            ));
        }
        let target = open_target(path, written, options.force, created)?;
        let metadata =
            target.file.metadata().map_err(VolumeError::file(&target.path, "get the metadata of"))?;
        seen.insert(identity(&metadata));
        targets.push(target);
    }
    Ok(targets)
}

pub(crate) fn open_target(
    path: PathBuf,
    written: PathBuf,
    force: bool,
    created: &mut CreatedFiles,
) -> Result<Target, VolumeError> {
    let existed = path.exists();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(VolumeError::file(&path, "open or create"))?;
    if !existed {
        created.files.push(path.clone());
    }
    lock(&file, &path, true)?;
    let metadata = file.metadata().map_err(VolumeError::file(&path, "get the metadata of"))?;
    let device_bytes = if metadata.file_type().is_block_device() {
        let opened = MemberFile::open(&path, OpenMode::ReadOnly)
            .map_err(VolumeError::disk("cannot create a volume"))?;
        Some(opened.bytes())
    } else if metadata.file_type().is_file() {
        None
    } else {
        return Err(VolumeError::options(
            format!("{} is neither a file nor a block device, so it cannot be a member", path.display()),
            "choose a file or a disk",
        ));
    };
    if !force && let Some(found) = content(&file, device_bytes.unwrap_or(metadata.len())) {
        return Err(VolumeError::NotEmpty { path, found });
    }
    Ok(Target { path, written, file, device_bytes })
}

/// What a file or device already holds, as a message; `None` if it is empty or starts with zeros
/// only.
fn content(file: &File, bytes: u64) -> Option<String> {
    // File systems and partition tables have their signatures within the first 128 KiB (btrfs at 64
    // KiB).
    let mut start = vec![0; bytes.min(128 << 10) as usize];
    if file.read_exact_at(&mut start, 0).is_err() {
        return Some("cannot be read".to_owned());
    }
    match start.first_chunk::<BLOCK_BYTES>().map(|block| Superblock::decode(block)) {
        Some(Ok(superblock)) => {
            Some(format!("is already member {} of the Reel volume {}", superblock.index, superblock.volume))
        }
        _ if start.iter().all(|byte| *byte == 0) => None,
        _ => Some("is not empty".to_owned()),
    }
}

/// Reserves the space of every member that is a file, unless they are `sparse`.
pub(crate) fn reserve(targets: &[Target], member_bytes: u64, sparse: bool) -> Result<(), VolumeError> {
    let files = || targets.iter().filter(|target| target.device_bytes.is_none());
    // Checked first, so that a disk is not filled up by members that do not all fit.
    for target in files().filter(|_| !sparse) {
        let metadata =
            target.file.metadata().map_err(VolumeError::file(&target.path, "get the metadata of"))?;
        let (mut needed_bytes, free_bytes) = (0u64, free_bytes(&target.file));
        for other in files() {
            let other =
                other.file.metadata().map_err(VolumeError::file(&other.path, "get the metadata of"))?;
            if other.dev() == metadata.dev() {
                needed_bytes = needed_bytes.saturating_add(member_bytes.saturating_sub(other.blocks() * 512));
            }
        }
        if needed_bytes > free_bytes {
            return Err(VolumeError::DiskFull { path: target.path.clone(), needed_bytes, free_bytes });
        }
    }
    for target in files() {
        target.file.set_len(member_bytes).map_err(VolumeError::file(&target.path, "set the length of"))?;
        if sparse {
            continue;
        }
        match rustix::fs::fallocate(&target.file, rustix::fs::FallocateFlags::empty(), 0, member_bytes) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
                return Err(VolumeError::DiskFull {
                    path: target.path.clone(),
                    needed_bytes: member_bytes,
                    free_bytes: free_bytes(&target.file),
                });
            }
            Err(rustix::io::Errno::OPNOTSUPP) => tracing::warn!(
                path = %target.path.display(),
                "this file system cannot reserve space; a member on it may run out of space while it is written"
            ),
            Err(error) => return Err(VolumeError::file(&target.path, "reserve space for")(error.into())),
        }
    }
    Ok(())
}

fn free_bytes(file: &File) -> u64 {
    rustix::fs::fstatvfs(file).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Writes superblocks and the first, empty catalogue. The superblocks are written last, so that an
/// unfinished member is not mistaken for a member.
fn format(
    targets: &[Target],
    volume: VolumeId,
    geometry: Geometry,
    code: Code,
    layout: Layout,
) -> Result<(), VolumeError> {
    let ids = targets.iter().map(|_| MemberId::random()).collect::<Result<Vec<_>, _>>()?;
    let body = encode_body(std::iter::empty());
    let header = CommitHeader {
        volume,
        epoch: Epoch { number: 1, id: random_u64()? },
        generation: 1,
        in_sync: MemberSet::first(geometry.members()),
        members: ids.clone(),
        body_bytes: body.len() as u64,
        body_sum: crc32c(&body),
        sealed: true,
    };
    let mut area = header.encode();
    area.extend(header.encode_seal());
    area.extend_from_slice(&body);
    let created_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for (index, target) in targets.iter().enumerate() {
        let superblock = Superblock {
            volume,
            member: ids[index],
            index,
            geometry,
            code,
            member_bytes: layout.member_bytes,
            catalogue_offset: CATALOGUE_OFFSET,
            catalogue_bytes: layout.catalogue_bytes,
            data_offset: layout.data_offset,
            created_unix_s,
            joined_epoch: 1,
        };
        let block = superblock.encode();
        let write = |offset: u64, bytes: &[u8]| {
            target.file.write_all_at(bytes, offset).map_err(VolumeError::file(&target.path, "write"))
        };
        let sync = || target.file.sync_all().map_err(VolumeError::file(&target.path, "sync"));
        write(superblock.area_offset(0), &area)?;
        write(superblock.area_offset(1), &area)?;
        sync()?;
        write(0, &block)?;
        write(SUPERBLOCK_COPY_OFFSET, &block)?;
        sync()?;
        if let Some(parent) = target.path.parent()
            && target.device_bytes.is_none()
        {
            sync_directory(parent)?;
        }
    }
    Ok(())
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
