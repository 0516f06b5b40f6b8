//! Creates a volume.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use reel_code::{Code, crc32c};
use reel_disk::{MemberFile, OpenMode};

use crate::backing::Place;
use crate::catalogue::{CommitHeader, Epoch, MemberSet, encode_body};
use crate::consent::Consent;
use crate::error::VolumeError;
use crate::find::beside_members;
use crate::geometry::{Geometry, GeometryFields, GeometryPreset};
use crate::ids::{MemberId, VolumeId, VolumeSecret, random_u64};
use crate::layout::Layout;
use crate::limits::{CATALOGUE_BYTES_MAX, CATALOGUE_BYTES_MIN};
use crate::lock::lock;
use crate::manifest::{FILE_NAME, Manifest, sync_directory};
use crate::owner::{OWNER_OFFSET, OwnerRecord};
use crate::reserve::reserve;
use crate::superblock::{CATALOGUE_OFFSET, SUPERBLOCK_COPY_OFFSET, Superblock};
use crate::target::{CreatedFiles, Target, Terms, ensure_not_owned, open_target, warn_of_memory};

/// Where the members of a new volume are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// This number of files in the volume's directory.
    Count(usize),
    /// These block devices or files.
    Paths(Vec<PathBuf>),
}

const HELP_DIFFERENT_DISKS: &str = "every member must be a different disk or file";

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
    /// The geometry, where the fields below do not state it.
    pub preset: GeometryPreset,
    /// Bytes of a symbol E.
    pub symbol_bytes: Option<usize>,
    /// Symbols of a row L.
    pub row_symbols: Option<usize>,
    /// Rows of a unit M.
    pub unit_rows: Option<usize>,
    /// Data rows D; N - P if `None`.
    pub data_rows: Option<usize>,
    /// Bytes of each of the two catalogue areas of a member; 0.2 % of the member if `None`.
    pub catalogue_bytes: Option<u64>,
    /// Whether existing content may be overwritten.
    pub force: bool,
    /// Whether members of another volume may be overwritten, whose titles are lost then.
    pub overwrite_volume: bool,
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
            preset: GeometryPreset::default(),
            symbol_bytes: None,
            row_symbols: None,
            unit_rows: None,
            data_rows: None,
            catalogue_bytes: None,
            force: false,
            overwrite_volume: false,
            sparse: false,
        }
    }
}

/// Creates a volume. On failure, everything that was created is removed.
pub(crate) fn create(directory: &Path, options: &VolumeOptions) -> Result<VolumeSummary, VolumeError> {
    let geometry = geometry_of(options)?;
    let mut created = CreatedFiles::nothing();
    let own = prepare_directory(directory, options, &mut created)?;
    let summary = create_in(directory, options, geometry, own, &mut created)?;
    created.keep();
    Ok(summary)
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
    let data_rows = options.data_rows.unwrap_or(members.saturating_sub(options.parity).max(1));
    let defaults = options.preset.fields(data_rows, options.parity, members);
    Ok(Geometry::new(GeometryFields {
        symbol_bytes: options.symbol_bytes.unwrap_or(defaults.symbol_bytes),
        row_symbols: options.row_symbols.unwrap_or(defaults.row_symbols),
        unit_rows: options.unit_rows.unwrap_or(defaults.unit_rows),
        ..defaults
    })?)
}

/// Creates the directory, or checks that it may hold a new volume. Returns the volume that it holds
/// and that may be overwritten.
fn prepare_directory(
    directory: &Path,
    options: &VolumeOptions,
    created: &mut CreatedFiles,
) -> Result<Option<VolumeId>, VolumeError> {
    if !directory.exists() {
        std::fs::create_dir_all(directory).map_err(VolumeError::file(directory, "create the directory"))?;
        created.directory = Some(directory.to_owned());
        return Ok(None);
    }
    let error = match Manifest::open(directory) {
        Ok((manifest, file, path)) => {
            // Not even `force` destroys a volume that a program uses.
            lock(&file, &path, true)?;
            let found = "is already a Reel volume".to_owned();
            let refused = VolumeError::NotEmpty { path: directory.to_owned(), found };
            return if options.force { Ok(Some(manifest.volume)) } else { Err(refused) };
        }
        Err(error) => beside_members(directory, error),
    };
    match error {
        // Members without a list are a volume all the same.
        VolumeError::Unlisted { .. } if options.overwrite_volume => Ok(None),
        error @ VolumeError::Unlisted { .. } => Err(error),
        _ if options.force => Ok(None),
        VolumeError::NotAVolume { .. } if !directory.join(FILE_NAME).exists() => Ok(None),
        // So is a broken list, whose members may be elsewhere.
        error => Err(error),
    }
}

fn consent_of(options: &VolumeOptions) -> Consent {
    Consent { create: true, force: options.force, overwrite_volume: options.overwrite_volume }
}

fn create_in(
    directory: &Path,
    options: &VolumeOptions,
    geometry: Geometry,
    own: Option<VolumeId>,
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
    let targets = open_targets(directory, options, own, created)?;
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
    reserve(&targets, layout.member_bytes, options.force || options.overwrite_volume, options.sparse)?;
    warn_of_memory(&targets);
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
    own: Option<VolumeId>,
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
    let terms = Terms { consent: consent_of(options), own, is_unfinished: false };
    let mut seen: Vec<Place> = Vec::with_capacity(paths.len());
    let mut targets: Vec<Target> = Vec::with_capacity(paths.len());
    for (path, written) in paths {
        // Checked before it is opened: our own lock on the first name would be reported as another
        // program's.
        if let Ok(place) = std::fs::metadata(&path).map(|metadata| Place::of(&metadata)) {
            if seen.iter().any(|other| other.is(&place)) {
                return Err(VolumeError::options(
                    format!("{} is listed twice", path.display()),
                    HELP_DIFFERENT_DISKS,
                ));
            }
            if let Some(same) = seen.iter().position(|other| other.overlaps(&place)) {
                return Err(one_disk(&targets[same].path, &path));
            }
        }
        let target = open_target(path, written, terms, created)?;
        let metadata =
            target.file.metadata().map_err(VolumeError::file(&target.path, "get the metadata of"))?;
        seen.push(Place::of(&metadata));
        targets.push(target);
    }
    ensure_not_owned(&mut targets, terms.consent)?;
    Ok(targets)
}

fn one_disk(first: &Path, second: &Path) -> VolumeError {
    let problem = format!("{} and {} are one disk under two names", first.display(), second.display());
    VolumeError::options(problem, HELP_DIFFERENT_DISKS)
}

/// Writes superblocks and the first, empty catalogue. The superblocks are written last, so that an
/// unfinished member is not mistaken for a member. If two targets turn out to be one disk, both are
/// cleared again.
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
    let secret = VolumeSecret::random()?;
    let owner = OwnerRecord::of_creation(volume)?.encode();
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
            secret: secret.clone(),
        };
        let block = superblock.encode();
        let write = |offset: u64, bytes: &[u8]| {
            target.file.write_all_at(bytes, offset).map_err(VolumeError::file(&target.path, "write"))
        };
        let sync = || target.file.sync_all().map_err(VolumeError::file(&target.path, "sync"));
        write(OWNER_OFFSET, &owner)?;
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
    let Some((first, second)) = two_names(targets, &ids) else { return Ok(()) };
    for target in targets {
        // What cannot be cleared is still refused as a member without `force`.
        let clear = |offset: u64, bytes: usize| target.file.write_all_at(&vec![0; bytes], offset);
        let _ = clear(0, CATALOGUE_OFFSET as usize);
        let _ = clear(CATALOGUE_OFFSET, area.len());
        let _ = clear(CATALOGUE_OFFSET + layout.catalogue_bytes, area.len());
        let _ = target.file.sync_all();
    }
    Err(one_disk(first, second))
}

/// Two targets that are one disk, by whatever means: the superblock of one is found on the other.
fn two_names<'a>(targets: &'a [Target], ids: &[MemberId]) -> Option<(&'a Path, &'a Path)> {
    targets.iter().zip(ids).find_map(|(target, id)| {
        let file = MemberFile::open(&target.path, OpenMode::ReadOnly).ok()?;
        // The page cache has what was written under this name, not under another one.
        file.forget_cached();
        let block = file.read_block(0).ok()?;
        let found = Superblock::decode(&block).ok()?;
        let other =
            targets.get(found.index).filter(|_| found.member != *id && ids.contains(&found.member))?;
        Some((&*target.path, &*other.path))
    })
}
