//! Simulated crashes: what the members hold at that moment is opened again elsewhere, and checked.
//! The run itself continues.

use crate::immediate::ImmediateDisks;
use crate::library::{directory, immediate_options, title_record, write_stripe};
use crate::maintenance::{Ingested, JobState, wrong_unit};
use crate::medium::{Medium, copy_head};
use crate::stored_titles::StoredTitles;
use anyhow::{Context, Result, bail, ensure};
use reel_qos::Class;
use reel_testkit::Rng;
use reel_volume::{MemberUse, RepairOptions, Volume};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the members hold when the server stops, in a directory of its own.
pub(crate) struct CrashImage {
    directory: tempfile::TempDir,
    media: Vec<Medium>,
}

impl CrashImage {
    /// Of the volume in `from`. `after_crash` says what a crash leaves of the member whose file
    /// this is, in another file, or that it is none; `blank` makes a disk that holds nothing in
    /// that, and says how much of the file to copy.
    pub(crate) fn of(
        from: &Path,
        mut after_crash: impl FnMut(&Path, &Path) -> Option<std::io::Result<Medium>>,
        mut blank: impl FnMut(&Path, &Path) -> (Medium, u64),
    ) -> Result<CrashImage> {
        let to = directory()?;
        std::fs::copy(from.join("volume.toml"), to.path().join("volume.toml"))?;
        let mut media = Vec::new();
        for path in members_of(from)? {
            let Some(name) = path.file_name() else { continue };
            let copy = to.path().join(name);
            media.push(match after_crash(&path, &copy) {
                Some(medium) => medium?,
                // One that is to become a member, or was.
                None => {
                    let (medium, head_bytes) = blank(&path, &copy);
                    copy_head(&path, &copy, head_bytes)?;
                    medium
                }
            });
        }
        Ok(CrashImage { directory: to, media })
    }

    /// Opens the volume, and checks that nothing is lost, incomplete or in the place of something
    /// else. `rebuild`: whether members that are out of use are rebuilt.
    pub(crate) fn inspect(
        self,
        stored: &Arc<StoredTitles>,
        jobs: &JobState,
        (rebuild, rng): (bool, &mut Rng),
    ) -> Result<()> {
        let disks = ImmediateDisks::new(self.media, Some(Arc::clone(stored)));
        let volume =
            Volume::open(self.directory.path(), immediate_options(&disks)).context("it does not open")?;
        let titles = present(&volume, jobs, stored)?;
        space_adds_up(&volume)?;
        holds(&volume, &disks, &titles).context("as it was opened")?;
        // What is written from here on lies in no title's place.
        let fresh = publish_one(&volume, "fresh", rng)?;
        let titles: Vec<&Ingested> = titles.into_iter().chain([&fresh]).collect();
        if rebuild {
            for member in 0..volume.geometry().members() {
                if volume.health().member(member) != MemberUse::InUse {
                    rebuild_one(&volume, member)?;
                }
            }
        }
        holds(&volume, &disks, &titles)?;
        match disks.broken() {
            Some(what) => bail!(what),
            None => Ok(()),
        }
    }
}

/// All files that are members, or may be.
fn members_of(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "reel") {
            paths.push(path);
        }
    }
    // Directories have no order, and runs must.
    paths.sort_unstable();
    Ok(paths)
}

/// The titles that were ingested and are there. All that were reported to be there are; the one
/// that was changing may be there or not.
fn present<'a>(volume: &Volume, jobs: &'a JobState, stored: &StoredTitles) -> Result<Vec<&'a Ingested>> {
    for number in 0..stored.titles().len() {
        ensure!(volume.title(&format!("film-{number}")).is_some(), "title {number} is gone");
    }
    let changing = jobs.changing.as_ref();
    let mut there = Vec::new();
    for title in &jobs.ingested {
        match volume.title(&title.id) {
            Some(_) => there.push(title),
            None => ensure!(changing.is_some_and(|one| one.id == title.id), "{} is gone", title.id),
        }
    }
    if let Some(title) = changing
        && volume.title(&title.id).is_some()
        && !there.iter().any(|other| other.id == title.id)
    {
        there.push(title);
    }
    let count = volume.titles().len() - stored.titles().len();
    ensure!(
        count == there.len(),
        "{count} titles that were ingested are there, and should be {}",
        there.len()
    );
    Ok(there)
}

/// Every slot is free or a title's.
fn space_adds_up(volume: &Volume) -> Result<()> {
    let status = volume.status();
    let slots: u64 =
        volume.titles().iter().flat_map(|title| title.extents().map(|e| e.slots).collect::<Vec<_>>()).sum();
    let taken_bytes = slots * volume.geometry().stripe_bytes() as u64;
    let (free_bytes, all_bytes) = (status.free_bytes, status.capacity_bytes);
    ensure!(
        taken_bytes + free_bytes == all_bytes,
        "{taken_bytes} bytes are taken, {free_bytes} free, of {all_bytes}"
    );
    Ok(())
}

/// Every member in use holds all that it should, parity included.
fn holds(volume: &Volume, disks: &ImmediateDisks, titles: &[&Ingested]) -> Result<()> {
    for member in (0..volume.geometry().members()).filter(|&member| volume.health().readable(member)) {
        let lacks = disks.with_medium(member, Medium::blank_units);
        ensure!(lacks == Some(0), "member {member} is in use and lacks {lacks:?} units");
        let wrong = disks.with_medium(member, |medium| {
            let unit_of = |unit| medium.intact_unit(unit);
            titles.iter().find_map(|title| wrong_unit(title, volume.geometry(), member, unit_of))
        });
        if let Some(wrong) = wrong.flatten() {
            bail!(wrong);
        }
    }
    Ok(())
}

/// One more small title.
fn publish_one(volume: &Volume, id: &str, rng: &mut Rng) -> Result<Ingested> {
    let geometry = volume.geometry();
    let (seed, bytes) = (rng.bits(), 3 * geometry.stripe_bytes() as u64 - 5);
    let mut writer = volume.writer(Class::APERIODIC)?;
    let mut at = 0;
    while at < bytes {
        at = write_stripe(&mut writer, geometry, (seed, bytes), at)?;
    }
    let object = writer.finish()?;
    let slots = object.extents.iter().flat_map(|extent| extent.first_slot..extent.first_slot + extent.slots);
    let fresh = Ingested { id: id.to_owned(), seed, bytes, slots: slots.collect() };
    volume.publish(title_record(fresh.id.clone(), vec![object])).context("it cannot be written")?;
    Ok(fresh)
}

fn rebuild_one(volume: &Volume, member: usize) -> Result<()> {
    let report = volume.rebuild(member, RepairOptions::default(), &mut |_| true);
    let report = report.with_context(|| format!("member {member} cannot be rebuilt"))?;
    ensure!(report.complete && report.lost_rows == 0, "member {member} was rebuilt in part: {report:?}");
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]
mod tests {
    use super::*;
    use crate::content::Unit;
    use crate::library::Library;
    use crate::scale::geometry;
    use crate::title::TitleSpec;
    use reel_cache::Depth;

    /// A small library with a title that was ingested, after the server has stopped.
    fn stopped() -> (Library, JobState) {
        let spec = TitleSpec {
            titles: 2,
            segments: (5, 5),
            rate_bps: (2_000_000, 2_000_000),
            renditions: 1,
            sound_permille: 0,
            languages: 1,
            shared: true,
        };
        let mut library =
            Library::make(geometry(4, 3).unwrap(), &spec, Depth::of(true), &mut Rng::new(1)).unwrap();
        let disks =
            ImmediateDisks::new(std::mem::take(&mut library.media), Some(Arc::clone(&library.stored)));
        let volume = Volume::open(library.directory.path(), immediate_options(&disks)).unwrap();
        let title = publish_one(&volume, "clip-0", &mut Rng::new(2)).unwrap();
        volume.remove(&title.id).unwrap();
        let title = publish_one(&volume, "clip-1", &mut Rng::new(3)).unwrap();
        drop(volume);
        library.media = disks.into_media();
        let mut jobs = JobState::default();
        jobs.ingested.push(title);
        (library, jobs)
    }

    fn found(library: &Library, jobs: &JobState) -> Result<()> {
        let after_crash = |from: &Path, to: &Path| {
            let medium = library.media.iter().find(|medium| medium.path() == from)?;
            Some(medium.after_crash(to, &mut Rng::new(4)))
        };
        let crash_image = CrashImage::of(library.directory.path(), after_crash, |_, _| unreachable!())?;
        crash_image.inspect(&library.stored, jobs, (true, &mut Rng::new(5)))
    }

    #[test]
    fn what_was_reported_as_present_must_be_there() {
        let (library, mut jobs) = stopped();
        found(&library, &jobs).unwrap();
        let mut other = jobs.ingested[0].clone();
        other.id = "clip-7".to_owned();
        jobs.ingested.push(other.clone());
        assert!(found(&library, &jobs).unwrap_err().to_string().contains("clip-7 is gone"));
        jobs.ingested.pop();
        jobs.changing = Some(other);
        found(&library, &jobs).expect("a title that was changing may be there or not");
        (jobs.changing, jobs.ingested) = (None, Vec::new());
        assert!(found(&library, &jobs).unwrap_err().to_string().contains("should be 0"));
    }

    #[test]
    fn a_wrong_byte_on_a_member_in_use_is_seen() {
        let (library, jobs) = stopped();
        let title = &jobs.ingested[0];
        let member = library.stored.geometry.place(title.slots[0], 1).member;
        let medium = &library.media[member];
        let unit_of = |unit| medium.intact_unit(unit);
        assert_eq!(wrong_unit(title, &library.stored.geometry, member, unit_of), None);
        let wrong = |unit| -> Unit {
            let mut rows = medium.intact_unit(unit);
            rows[100] ^= 1;
            rows
        };
        assert!(
            wrong_unit(title, &library.stored.geometry, member, wrong).unwrap().contains("does not hold")
        );
    }
}
