//! Opening a volume.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use reel_arena::{Arena, ArenaConfig};
use reel_disk::{Disks, DisksConfig, MemberFile, OpenMode, start_disks};

use crate::access::{Access, WriteObserver};
use crate::catalogue::{
    Candidate, MemberSet, Selection, SelectionError, TitleRecord, decode_body, select, write_quorum,
};
use crate::commit::Committer;
use crate::counters::VolumeCounters;
use crate::error::VolumeError;
use crate::find::beside_members;
use crate::finding::{Finding, MEMBERS_LOG, MemberState};
use crate::geometry::Geometry;
use crate::health::{Health, MemberUse};
use crate::hold::{Hold, Space};
use crate::late::Late;
use crate::limits::{BLOCK_BYTES, WRITE_PATIENCE_NS, WRITER_STRIPES_IN_FLIGHT};
use crate::lock::lock;
use crate::manifest::Manifest;
use crate::members::{Found, OpenMember, SyncState, find, findings, without_advice};
use crate::owner::{Heartbeat, OWNER_OFFSET, Owned, TakeOver, take_over};
use crate::space::FreeMap;
use crate::spin_up::spin_up;
use crate::superblock::{SUPERBLOCK_COPY_OFFSET, Superblock};
use crate::volume::{Disk, Inner, Volume};
use crate::waits::{CooperativeWait, Waits};

/// How a volume is opened.
#[derive(Clone, Default)]
pub struct OpenOptions {
    /// Whether it is only read. Several programs may do so at once.
    pub read_only: bool,
    /// The media memory.
    pub arena: ArenaBudget,
    /// Whether other processes may map the media memory to read it.
    pub readable_by_others: bool,
    /// The disk threads.
    pub disks: DisksConfig,
    /// Observes every write and sync, for tests and traces.
    pub observer: Option<Arc<dyn WriteObserver>>,
    /// How long a member may leave writes unanswered before it is dropped as failed; `None` for
    /// [`WRITE_PATIENCE_NS`].
    pub write_patience_ns: Option<u64>,
    /// After how much time without any other request the owner record is not renewed, so that disks
    /// can stop; `None` if it always is. Meanwhile another host that reaches the disks can take the
    /// volume over.
    pub rests_after_ns: Option<u64>,
    /// Runs the volume in a simulation; `disks` is ignored then.
    pub simulated: Option<Simulated>,
}

impl OpenOptions {
    fn write_patience(&self) -> u64 {
        self.write_patience_ns.unwrap_or(WRITE_PATIENCE_NS)
    }
}

/// Replaces disk threads and blocking in a simulation. The reads while the volume is opened, and
/// its superblocks, still use files.
#[derive(Clone)]
pub struct Simulated {
    /// Makes the disks of these members; members that are absent have no file.
    pub disks: Arc<dyn Fn(Vec<Option<MemberFile>>) -> Disks + Send + Sync>,
    /// Replaces blocking.
    pub turns: Arc<dyn CooperativeWait>,
}

/// How much media memory a volume allocates. It is divided into buffers of one unit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaBudget {
    /// Bytes. Raised to what one reader or writer needs.
    pub bytes: usize,
    /// Whether to ask for huge pages.
    pub huge_pages: bool,
}

impl Default for ArenaBudget {
    /// 32 MiB: enough to write a title of one video and many audio tracks at full speed, and more
    /// than any other command holds. A server computes its own value. A larger default would cost
    /// every command the time to clear it.
    fn default() -> ArenaBudget {
        ArenaBudget { bytes: 32 << 20, huge_pages: true }
    }
}

pub(crate) fn open(directory: &Path, options: OpenOptions) -> Result<Volume, VolumeError> {
    let (manifest, manifest_file, manifest_path) =
        Manifest::open(directory).map_err(|error| beside_members(directory, error))?;
    lock(&manifest_file, &manifest_path, !options.read_only)?;
    let mode = if options.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
    let mut found = find_awake(directory, &options, &manifest, mode)?;
    let Some(superblock) = found.superblock(manifest.volume) else {
        let members = manifest.members.len();
        return Err(too_few(directory, &found, &manifest, members, None, &SyncState::default()));
    };
    let owned = own(directory, &options, &superblock, &mut found)?;
    let geometry = superblock.geometry;
    let (members, tolerated) = (geometry.members(), geometry.parity_rows());
    let candidates: Vec<Candidate> = found.candidates();
    let (selection, sync_state) = select_copy(directory, &found, &manifest, &geometry, &candidates)?;
    let findings = findings(&found, &manifest, directory, members, &sync_state);
    warn_of(&findings);
    let space_slots = geometry.slots(superblock.units());
    let (space, titles) = titles_of(directory, &found, &selection, &geometry, space_slots)?;
    let arena = arena_of(&geometry, options.arena, options.readable_by_others)?;
    repair_superblocks(&mut found, &selection, options.read_only);
    let keep = keep_by_member(&candidates, &selection, members);
    let late = late_members(&found, &selection, &keep);
    let write_patience_ns = options.write_patience();
    let (files, disk) = take_members(found.members, &selection, members, manifest_file)?;
    let disks = match &options.simulated {
        Some(simulated) => (simulated.disks)(files),
        None => {
            start_disks(files, &arena, options.disks).map_err(VolumeError::disk("cannot start the disks"))?
        }
    };
    let waits = Waits::new(options.simulated.map(|simulated| simulated.turns));
    let uses = (0..members).map(|index| match selection.current.has(index) {
        true => MemberUse::InUse,
        false if sync_state.rebuilding.contains(&index) && !options.read_only => MemberUse::Rebuilding,
        false => MemberUse::Out,
    });
    let health = Health::tolerating(uses, tolerated);
    let counters = Arc::new(VolumeCounters::default());
    let mut access = Access {
        disks,
        health: health.clone(),
        arena,
        observer: options.observer,
        waits: waits.clone(),
        ownership: None,
        write_patience_ns,
    };
    let heartbeat = owned
        .map(|owned| Heartbeat::start(owned, superblock.volume, members, &mut access, &counters))
        .transpose()?;
    let refusal = refusal(options.read_only, selection.current, &geometry);
    let committer = Committer::new(&selection, keep, &superblock, refusal, waits);
    let mut inner = Inner::new(
        directory.to_owned(),
        superblock,
        findings,
        access,
        health,
        counters,
        space,
        space_slots,
        titles,
        committer,
        disk,
        heartbeat,
    );
    inner.set_late(late);
    inner.settle(&selection)?;
    Ok(Volume::from_inner(inner))
}

fn warn_of(findings: &[Finding]) {
    for finding in findings.iter().filter(|finding| !finding.state.in_use()) {
        tracing::warn!(target: MEMBERS_LOG, %finding, "a member is not in use");
    }
}

/// Finds the members when their disks spin. Those of a simulation have nothing that spins.
fn find_awake(
    directory: &Path,
    options: &OpenOptions,
    manifest: &Manifest,
    mode: OpenMode,
) -> Result<Found, VolumeError> {
    if options.simulated.is_some() {
        return find(directory, manifest, mode, &[]);
    }
    let paths: Vec<_> = manifest.members.iter().map(|written| directory.join(written)).collect();
    find(directory, manifest, mode, &spin_up(&paths))
}

/// The members that are present and not in sync, and what they hold.
fn late_members(found: &Found, selection: &Selection, keep: &[usize]) -> BTreeMap<usize, Late> {
    let is_late = |member: &&OpenMember| {
        !selection.current.has(member.superblock.index) && is_expected(member, selection)
    };
    let late = found.members.iter().filter(is_late).filter_map(|member| {
        let index = member.superblock.index;
        let was_missing = !selection.odd.has(index) && !selection.apart.has(index);
        Some((index, Late::of(member, keep[index], was_missing)?))
    });
    late.collect()
}

/// Makes this process the owner of a volume that is opened for writing. If that had to wait,
/// another host may have written meanwhile, so the members are read again.
///
/// With too few members to write nothing is done. A simulation has its disks for itself.
fn own(
    directory: &Path,
    options: &OpenOptions,
    superblock: &Superblock,
    found: &mut Found,
) -> Result<Option<Owned>, VolumeError> {
    let shape = (superblock.geometry.members(), superblock.geometry.parity_rows());
    let set = found.members.iter().fold(MemberSet::default(), |set, one| set.with(one.superblock.index));
    let has_room = superblock.catalogue_offset >= OWNER_OFFSET + BLOCK_BYTES as u64;
    if options.read_only || options.simulated.is_some() || !has_room || !write_quorum(set, shape.0, shape.1) {
        return Ok(None);
    }
    let mut owned = take_over(TakeOver {
        directory,
        volume: superblock.volume,
        members: found.members.iter().map(|member| (member.superblock.index, &member.file)).collect(),
        shape,
        observer: options.observer.as_ref(),
        patience_ns: options.write_patience(),
        silent: BTreeSet::new(),
    })?;
    owned.rests_after_ns = options.rests_after_ns;
    found.leave_out(&owned.silent, options.write_patience());
    if owned.waited {
        found.members.iter_mut().for_each(OpenMember::read_catalogue);
    }
    Ok(Some(owned))
}

/// Selects the catalogue copy in force, and the states that it gives to the members.
fn select_copy(
    directory: &Path,
    found: &Found,
    manifest: &Manifest,
    geometry: &Geometry,
    candidates: &[Candidate],
) -> Result<(Selection, SyncState), VolumeError> {
    let (members, tolerated) = (geometry.members(), geometry.parity_rows());
    let too_few =
        |sync_state: &SyncState| too_few(directory, found, manifest, members, Some(tolerated), sync_state);
    if found.members.len() + tolerated < members {
        return Err(too_few(&SyncState::default()));
    }
    let selection =
        select(candidates, members, tolerated).map_err(|error| undecided(directory, found, error))?;
    let indexes = |which: &dyn Fn(&OpenMember) -> bool| {
        let members = found.members.iter().filter(|member| which(member));
        members.map(|member| member.superblock.index).collect::<Vec<usize>>()
    };
    let mut sync_state = SyncState {
        stale: indexes(&|member| !selection.current.has(member.superblock.index)),
        unexpected: indexes(&|member| !is_expected(member, &selection)),
        rebuilding: indexes(&|member| is_new(member, &selection)),
        odd: selection.odd,
        apart: selection.apart,
        damaged: Vec::new(),
    };
    if selection.current.count() + tolerated < members {
        return Err(too_few(&sync_state));
    }
    sync_state.damaged = members_with_damaged_copies(candidates, &selection);
    Ok((selection, sync_state))
}

/// The files of the members that the catalogue expects, by number, and their locks.
fn take_members(
    found: Vec<OpenMember>,
    selection: &Selection,
    members: usize,
    manifest_file: File,
) -> Result<(Vec<Option<MemberFile>>, Disk), VolumeError> {
    let mut files: Vec<Option<MemberFile>> = (0..members).map(|_| None).collect();
    let mut locks = vec![(None, manifest_file)];
    let mut belongs = vec![false; members];
    // A disk that is not a member is closed: it may become one later.
    for member in found.into_iter().filter(|member| is_expected(member, selection)) {
        let index = member.superblock.index;
        // The lock belongs to the open file, which a clone shares. It holds for stale members too.
        let lock = member.file.file().try_clone();
        locks.push((Some(index), lock.map_err(VolumeError::file(member.file.path(), "keep locked"))?));
        // A stale member stays open to be rebuilt. Until then it gets no requests.
        belongs[index] = true;
        files[index] = Some(member.file);
    }
    Ok((files, Disk { locks, belongs, away: vec![false; members] }))
}

/// Whether a disk is the one that the catalogue expects under its number.
fn is_expected(member: &OpenMember, selection: &Selection) -> bool {
    selection.winner.members.get(member.superblock.index) == Some(&member.superblock.member)
}

/// Whether a member is expected by the catalogue and has never been in sync: a replacement that is
/// not filled yet.
fn is_new(member: &OpenMember, selection: &Selection) -> bool {
    let index = member.superblock.index;
    is_expected(member, selection)
        && !selection.winner.in_sync.has(index)
        && member.areas.iter().all(Option::is_none)
}

/// Why nothing may be written; `None` if writing is allowed.
fn refusal(read_only: bool, current: MemberSet, geometry: &Geometry) -> Option<String> {
    if read_only {
        return Some("it was opened for reading".to_owned());
    }
    (!write_quorum(current, geometry.members(), geometry.parity_rows())).then(|| {
        "of two members only the one with member 0 is written while the other is missing, so that the two \
         copies never diverge; bring member 0 back"
            .to_owned()
    })
}

fn too_few(
    directory: &Path,
    found: &Found,
    manifest: &Manifest,
    members: usize,
    tolerated: Option<usize>,
    sync_state: &SyncState,
) -> VolumeError {
    let bad: Vec<_> = findings(found, manifest, directory, members, sync_state)
        .into_iter()
        .filter(|finding| !finding.state.in_use())
        .collect();
    VolumeError::TooFewMembers {
        path: directory.to_owned(),
        missing: bad.len(),
        members,
        tolerated,
        details: bad
            .iter()
            .map(|finding| format!("  {}", without_advice(finding)))
            .collect::<Vec<_>>()
            .join("\n"),
        advice: if bad.iter().any(|finding| finding.state == MemberState::Denied) {
            "give this user permission to read and write the denied members, or run reel as a user who has it, \
             and remount read-only file systems for writing"
        } else {
            "bring back enough of them, or correct their paths in volume.toml"
        },
    }
}

fn undecided(directory: &Path, found: &Found, error: SelectionError) -> VolumeError {
    let (reason, help) = match error {
        // Accidental overwriting does not leave all headers intact.
        SelectionError::NoCopy if found.members.iter().all(|member| member.headers_whole) => (
            "its catalogue was written by another version of Reel: the headers are intact, and the data behind \
                 them is not laid out as in this version",
            "open it with the Reel that made it, export its titles, and ingest them into a new volume",
        ),
        SelectionError::NoCopy => (
            "none of its members has a copy of the catalogue that can be read, because the first megabytes of \
             every member were overwritten",
            "bring one member back from a backup",
        ),
        SelectionError::Undecided => (
            "so many of its members are missing, have lost their copy of the catalogue or contradict each other that \
             a newer copy may exist than the newest one present",
            "bring back members that were in use last, and take away those that were restored from a backup or belong \
             to a copy of the volume",
        ),
    };
    VolumeError::Catalogue { path: directory.to_owned(), reason: reason.to_owned(), help }
}

/// Members in sync with damaged copies: fewer than two can be read.
fn members_with_damaged_copies(candidates: &[Candidate], selection: &Selection) -> Vec<usize> {
    candidates
        .iter()
        .filter(|candidate| selection.current.has(candidate.index) && candidate.copies().count() < 2)
        .map(|candidate| candidate.index)
        .collect()
}

fn titles_of(
    directory: &Path,
    found: &Found,
    selection: &Selection,
    geometry: &Geometry,
    slots: u64,
) -> Result<(Space, Vec<Arc<TitleRecord>>), VolumeError> {
    let broken = |reason: String| VolumeError::Catalogue {
        path: directory.to_owned(),
        reason: format!("its catalogue matches its checksum but is not consistent ({reason})"),
        help: "please report this",
    };
    let (at, area) = selection.found_at;
    let copy = found.members[at].areas[area].as_ref().ok_or_else(|| broken("it is gone".to_owned()))?;
    let mut records = decode_body(&copy.body).map_err(|e| broken(e.to_string()))?;
    let mut free = FreeMap::all(slots);
    let mut ids = HashSet::new();
    for record in &records {
        if !ids.insert(&record.id) {
            return Err(broken(format!("two titles have the id {:?}", record.id)));
        }
        record.check(geometry, slots).map_err(|e| broken(e.to_string()))?;
        for extent in record.extents() {
            free.claim(extent)
                .map_err(|overlap| broken(format!("two objects use slot {}", overlap.0.first_slot)))?;
        }
    }
    let space = Space::new(free);
    for record in &mut records {
        for entry in &mut record.objects {
            entry.object.hold = Hold::found(&space, entry.object.all_extents());
        }
    }
    Ok((space, records.into_iter().map(Arc::new).collect()))
}

fn arena_of(
    geometry: &Geometry,
    budget: ArenaBudget,
    readable_by_others: bool,
) -> Result<Arena, VolumeError> {
    let buffer_bytes = geometry.unit_bytes();
    let least = geometry.width() * (WRITER_STRIPES_IN_FLIGHT + 1);
    let config = ArenaConfig {
        buffer_bytes,
        buffer_count: (budget.bytes / buffer_bytes).max(least),
        // A cell holds one row if rows are whole blocks.
        cells_per_buffer: cells_per_buffer(geometry),
        huge_pages: budget.huge_pages,
    };
    Ok(if readable_by_others { Arena::readable_by_others(config)? } else { Arena::new(config)? })
}

fn cells_per_buffer(geometry: &Geometry) -> usize {
    let blocks = geometry.unit_bytes() / BLOCK_BYTES;
    geometry.unit_rows().min(blocks).min(64)
}

/// Repairs superblocks: a superblock and its copy are equal, so one that is lost is replaced by the
/// other. One is durable before the other is touched. A failure leaves one, which is enough.
fn repair_superblocks(found: &mut Found, selection: &Selection, read_only: bool) {
    for member in found.members.iter().filter(|member| member.superblock_damaged && !read_only) {
        if !selection.current.has(member.superblock.index) {
            continue;
        }
        let block = member.superblock.encode();
        let repaired = member
            .file
            .write_at(0, &block)
            .and_then(|()| member.file.sync())
            .and_then(|()| member.file.write_at(SUPERBLOCK_COPY_OFFSET, &block))
            .and_then(|()| member.file.sync());
        if let Err(error) = repaired {
            tracing::warn!(%error, "the superblock of a member could not be repaired");
        }
    }
}

fn keep_by_member(candidates: &[Candidate], selection: &Selection, members: usize) -> Vec<usize> {
    let mut keep = vec![0; members];
    for (candidate, area) in candidates.iter().zip(&selection.keep) {
        keep[candidate.index] = *area;
    }
    keep
}
