//! The volume that the server has when a run begins: made, filled and closed by the real code,
//! before the clock starts.

use crate::content;
use crate::immediate::ImmediateDisks;
use crate::limits::{CATALOGUE_BYTES, INGEST_SLOTS_MIN};
use crate::medium::Medium;
use crate::scale::{ROW_BYTES, UNIT_BYTES, UNIT_ROWS};
use crate::stored_titles::{StoredTitles, TrackPlacement};
use crate::title::{TitleSpec, TrackPlan};
use anyhow::{Context, Result, bail};
use reel_cache::Depth;
use reel_qos::Class;
use reel_testkit::Rng;
use reel_volume::{
    ArenaBudget, Geometry, Members, ObjectEntry, ObjectMap, ObjectRecord, ObjectWriter, OpenOptions, Role,
    SourceFile, Superblock, TitleRecord, Volume, VolumeOptions,
};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A volume on simulated members, and what lies on it.
pub(crate) struct Library {
    /// Where `volume.toml` and the members' superblocks and catalogues are.
    pub(crate) directory: TempDir,
    pub(crate) stored: Arc<StoredTitles>,
    /// What each member holds.
    pub(crate) media: Vec<Medium>,
    /// Units of a member.
    pub(crate) units: u64,
}

impl Library {
    /// Makes a volume with titles, of which viewers are read so much ahead, and some room beside
    /// them.
    pub(crate) fn make(geometry: Geometry, spec: &TitleSpec, ahead: Depth, rng: &mut Rng) -> Result<Library> {
        let plans = StoredTitles::plan(spec, rng);
        let directory = directory()?;
        let wanted_units = units_for(&geometry, plans.iter().flatten());
        let summary = Volume::create(directory.path(), options(&geometry, wanted_units))?;
        let Superblock { data_offset, .. } = superblock(&summary.members[0])?;
        let units = (summary.member_bytes - data_offset) / UNIT_BYTES as u64;
        let media = summary.members.iter().enumerate();
        let disks =
            ImmediateDisks::new(media.map(|(m, path)| Medium::new(m, path, data_offset)).collect(), None);
        let volume = Volume::open(directory.path(), immediate_options(&disks))?;
        let mut placements = Vec::new();
        for (number, plan) in plans.iter().enumerate() {
            let mut records = Vec::new();
            for plan in plan {
                let record = lay_down(&volume, &disks, plan)?;
                let map = volume.map(&record)?;
                placements.push(TrackPlacement {
                    extents: record.extents.clone(),
                    sums: sums(&map),
                    data_offset,
                });
                records.push(record);
            }
            volume.publish(title_record(format!("film-{number}"), records))?;
        }
        if let Some(what) = disks.broken() {
            bail!(what);
        }
        drop(volume);
        let stored = StoredTitles::new(geometry, (ahead, spec.shared), plans, placements)
            .context("a title is longer than anybody can promise")?;
        Ok(Library { directory, stored: Arc::new(stored), media: disks.into_media(), units })
    }
}

/// How a volume is opened whose members answer at once.
pub(crate) fn immediate_options(disks: &Arc<ImmediateDisks>) -> OpenOptions {
    let arena = ArenaBudget { bytes: 1 << 20, huge_pages: false };
    OpenOptions { arena, simulated: Some(disks.simulated()), ..OpenOptions::default() }
}

/// Writes the next stripe of an object of `bytes` that `seed` makes, from `at` on; where the one
/// after it begins.
pub(crate) fn write_stripe(
    writer: &mut ObjectWriter,
    geometry: &Geometry,
    (seed, bytes): (u64, u64),
    at: u64,
) -> Result<u64, reel_volume::VolumeError> {
    let end = bytes.min(at + geometry.stripe_bytes() as u64);
    let first = at / ROW_BYTES as u64;
    let rows = first..end.div_ceil(ROW_BYTES as u64);
    let stripe: Vec<u8> = rows.flat_map(|number| content::row(seed, number)).collect();
    writer.write(&stripe[..(end - at) as usize])?;
    Ok(end)
}

/// A title of these objects.
pub(crate) fn title_record(id: String, objects: Vec<ObjectRecord>) -> TitleRecord {
    let objects = objects.into_iter().enumerate();
    let entry = |(number, object)| ObjectEntry { role: Role::Track, number: number as u32, object };
    let objects = objects.map(entry).collect();
    TitleRecord { name: id.clone(), id, added_unix_s: 0, source: SourceFile::default(), objects }
}

/// A directory in memory, if there is such a file system: what is synced there costs nothing.
pub(crate) fn directory() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { PathBuf::from(memory) } else { std::env::temp_dir() };
    tempfile::Builder::new()
        .prefix("reel-sim-")
        .tempdir_in(&parent)
        .with_context(|| format!("cannot make a directory in {}", parent.display()))
}

/// Units of a member such that all tracks fit, with their checksums (a tenth at most, and a few
/// stripes) and what is ingested beside them.
fn units_for<'a>(geometry: &Geometry, plans: impl Iterator<Item = &'a TrackPlan>) -> u64 {
    let slots: u64 = plans.map(|plan| geometry.stripes(plan.bytes()) * 112 / 100 + 8).sum();
    let slots = slots + (slots / 5).max(INGEST_SLOTS_MIN);
    slots.div_ceil(geometry.members() as u64) * geometry.width() as u64
}

fn options(geometry: &Geometry, units: u64) -> VolumeOptions {
    let fields = geometry.fields();
    // Superblocks and catalogues, up to where units may begin.
    let head_bytes = 2 * CATALOGUE_BYTES + (2 << 20);
    VolumeOptions {
        members: Members::Count(fields.members),
        size_bytes: fields.members as u64 * (head_bytes + units * UNIT_BYTES as u64),
        symbol_bytes: Some(fields.symbol_bytes),
        row_symbols: Some(fields.row_symbols),
        unit_rows: Some(UNIT_ROWS),
        data_rows: Some(fields.data_rows),
        catalogue_bytes: Some(CATALOGUE_BYTES),
        sparse: true,
        ..VolumeOptions::default()
    }
}

fn superblock(path: &Path) -> Result<Superblock> {
    let mut block = vec![0; 4096];
    std::fs::File::open(path)?.read_exact_at(&mut block, 0)?;
    Ok(Superblock::decode(&block)?)
}

/// Writes one track. Only bytes that are not a function of their place are kept.
fn lay_down(volume: &Volume, disks: &ImmediateDisks, plan: &TrackPlan) -> Result<ObjectRecord> {
    let mut writer = volume.writer(Class::APERIODIC)?;
    disks.forget(true);
    let mut at = 0;
    while at < plan.bytes() {
        at = write_stripe(&mut writer, volume.geometry(), (plan.seed(), plan.bytes()), at)?;
    }
    disks.forget(false);
    Ok(writer.finish()?)
}

/// The checksums that a writer computed, in the order stripe, position, matrix.
fn sums(map: &ObjectMap) -> Arc<[u32]> {
    let geometry = *map.geometry();
    let units = (0..map.stripes()).flat_map(|stripe| (0..geometry.width()).map(move |p| (stripe, p)));
    units.flat_map(|(stripe, p)| (0..geometry.unit_rows()).map(move |row| map.sum(stripe, p, row))).collect()
}
