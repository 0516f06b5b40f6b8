//! The most viewers with nothing late on disks with moving heads: alone, and with bulk downloads
//! and films that arrive beside.

use super::held::{SHARES, search, values};
use super::{BESIDE, DISKS, Set, tuning};
use crate::arriving::Arriving;
use crate::disk_set::{DiskSet, Kind};
use crate::film;
use crate::fleet::{Mix, players};
use crate::reel::{Settings, capacity};
use crate::rival::Rival;
use crate::segments;
use crate::testbed::{Films, Playing, Testbed};
use anyhow::{Context, Result};
use reel_load::Outcome;
use reel_report::{Claim, Report};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Rate of a film.
const RATE_BPS: u64 = 5_000_000;
/// Rate at which films arrive: of a few cameras.
const ARRIVES_BPS: u64 = 80_000_000;

/// Of a hundred viewers, 99 see a picture by then: players that wait for their first segment have
/// nothing late.
const STARTUP_MS_MAX: f64 = 10_000.0;

struct Case {
    name: &'static str,
    /// Ten downloads and films that arrive.
    bulk_beside: bool,
    /// Reel carries at least so many times what the best rival does.
    bar: f64,
}

const CASES: [Case; 2] = [
    Case { name: "viewers carried, alone", bulk_beside: false, bar: 1.2 },
    Case { name: "viewers carried, bulk beside", bulk_beside: true, bar: 2.0 },
];

/// Who carried how many in which case.
type Found = BTreeMap<(&'static str, &'static str), usize>;

/// Reel as delivered and without admission, then each rival at its best.
pub(super) fn run(set: &Set, dir: &Path, kind: Kind, rivals: &[Rival], report: &mut Report) -> Result<()> {
    // No viewer comes to the end of its film.
    let stream = film::constant(dir, set.seconds + 40, RATE_BPS)?;
    let bulk = film::constant(dir, set.bulk_seconds, RATE_BPS)?;
    let bytes =
        fs::metadata(&stream)?.len() * set.streams_max as u64 + fs::metadata(&bulk)?.len() * set.bulk as u64;
    report.note(format!(
        "where viewers are carried, nothing may be late, no viewer fail, and 99 in a hundred see a picture within {} s; HLS players of films of {} Mb/s, one for each, the same segments from \
         both; beside: {BESIDE} downloads, and films that arrive at {} Mb/s, by upload through Reel and as files that grow on the rival's disks; \
         Reel \"open\" admits every viewer, with shares of {SHARES:?}",
        STARTUP_MS_MAX / 1e3,
        RATE_BPS / 1_000_000,
        ARRIVES_BPS / 1_000_000
    ));
    let make = || -> Result<(DiskSet, Films)> {
        let disk_set = DiskSet::make(dir, kind, DISKS, Films::disk_bytes(bytes, DISKS))?;
        let films =
            Films::make(&disk_set.dir().join("films"), (&stream, set.streams_max), (&bulk, set.bulk))?;
        Ok((disk_set, films))
    };
    let arrives = fs::read(&bulk)?;
    let mut found = Found::new();
    let (disk_set, films) = make()?;
    let testbed = Testbed::reel(&set.reel, disk_set, &films)?;
    testbed.probe(set.probe_seconds())?;
    let saved = if rivals.is_empty() { None } else { Some(save(&testbed, &films, dir)?) };
    let mut trial = Trial { set, testbed, films, arrives: &arrives };
    for case in &CASES {
        found.insert((case.name, "reel"), trial.delivered(case, report)?);
        let open = Settings::without_admission().shared(SHARES);
        let most = trial.most(case, "reel, open", report, |testbed| testbed.start_reel(&open))?;
        found.insert((case.name, "reel, open"), most);
    }
    let Some(saved) = saved else { return Ok(()) };
    drop(trial);
    let (disk_set, films) = make()?;
    let testbed = Testbed::ext4(disk_set, &films, Some(&saved))?;
    fs::remove_dir_all(&saved)?;
    trial = Trial { set, testbed, films, arrives: &arrives };
    for &rival in rivals {
        let Trial { testbed, films, .. } = &trial;
        let tuning = tuning::best(set, testbed, films, report, (tuning::Streams::Segments, rival))?;
        report.note(format!("{}: {tuning}", rival.name()));
        for case in &CASES {
            let most = trial.most(case, rival.name(), report, |testbed| testbed.start_rival(tuning))?;
            found.insert((case.name, rival.name()), most);
        }
        CASES.iter().for_each(|case| claim(case, rival, &found, report));
    }
    Ok(())
}

/// The segments of a film, as Reel sends them, in a directory of their own.
fn save(testbed: &Testbed, films: &Films, dir: &Path) -> Result<PathBuf> {
    let saved = dir.join("carried-segments");
    if saved.exists() {
        // Of a run that was ended, perhaps of another film.
        fs::remove_dir_all(&saved)?;
    }
    let playing = testbed.start_reel(&Settings::without_admission())?;
    let film = films.streams.first().and_then(|film| film.file_stem()).context("no film")?;
    let playlist = format!("/watch/{}/master.m3u8", film.to_string_lossy());
    segments::save(playing.server.address, &playlist, &saved)?;
    Ok(saved)
}

fn claim(case: &Case, rival: Rival, found: &Found, report: &mut Report) {
    let of = |system| found.get(&(case.name, system)).copied().unwrap_or(0);
    let theirs = of(rival.name());
    for system in ["reel", "reel, open"] {
        let carried = of(system);
        let claim = format!("{}: {system} {carried} / {} {theirs}", case.name, rival.name());
        report.claim(Claim::at_least(claim, carried as f64 / theirs.max(1) as f64, case.bar));
    }
}

/// Films on disks, and what is played from them.
struct Trial<'a> {
    set: &'a Set,
    testbed: Testbed,
    films: Films,
    arrives: &'a [u8],
}

impl Trial<'_> {
    /// More viewers come than Reel can reserve for; how many are admitted, if nothing is late to
    /// them.
    fn delivered(&self, case: &Case, report: &mut Report) -> Result<usize> {
        let playing = self.testbed.start_reel(&Settings::with_admission())?;
        let (can, stopped_by) = capacity(&playing.server, RATE_BPS)?;
        report.note(format!("Reel promises {can} viewers; then {stopped_by} is used up"));
        let asked = usize::try_from(can)?.saturating_mul(5) / 4 + 2;
        let outcome = self.play(case, ("reel", &playing), asked.min(self.set.streams_max), report)?;
        let admitted = usize::try_from(outcome.viewers.admitted)?;
        Ok(if has_nothing_late(&outcome) { admitted } else { 0 })
    }

    /// The highest number with nothing late.
    fn most(
        &self,
        case: &Case,
        system: &str,
        report: &mut Report,
        start: impl Fn(&Testbed) -> Result<Playing>,
    ) -> Result<usize> {
        search(self.set, |streams| {
            let playing = start(&self.testbed)?;
            Ok(has_nothing_late(&self.play(case, (system, &playing), streams, report)?))
        })
    }

    fn play(
        &self,
        case: &Case,
        (system, playing): (&str, &Playing),
        streams: usize,
        report: &mut Report,
    ) -> Result<Outcome> {
        let (stop, arrived) = (AtomicBool::new(false), AtomicU64::new(0));
        let arriving = Arriving { film: self.arrives, rate_bps: ARRIVES_BPS, stop: &stop, bytes: &arrived };
        let arrives = || match self.testbed.file_systems() {
            Some(dirs) => arriving.copy(&dirs),
            None => arriving.upload(playing.server.address),
        };
        let mix = Mix {
            streams,
            aperiodic: if case.bulk_beside { BESIDE } else { 0 },
            interactive: 0,
            rate_bps: RATE_BPS,
            seconds: self.set.seconds,
        };
        let (outcome, mut disks) = thread::scope(|scope| {
            let thread = case.bulk_beside.then(|| scope.spawn(arrives));
            let played = self.testbed.disk_set.watched(|| players(playing, &self.films, mix));
            stop.store(true, Ordering::Relaxed);
            let ended = thread.map(|thread| thread.join().expect("an ingest does not panic"));
            ended.unwrap_or(Ok(())).context("a film that arrives")?;
            played
        })?;
        let viewers = &outcome.viewers;
        disks.extend([
            ("arrived_mb", arrived.load(Ordering::Relaxed) as f64 / 1e6),
            ("segments", viewers.segments as f64),
            ("late_segments", viewers.late_segments as f64),
            ("stalls", viewers.stalls as f64),
            ("startup_p99_ms", viewers.startup_ms.p99),
        ]);
        report.row(case.name, system, streams as f64, 0, &[values(&outcome), disks].concat());
        Ok(outcome)
    }
}

/// Whether all admitted viewers soon saw a picture, and nothing was late.
fn has_nothing_late(outcome: &Outcome) -> bool {
    let viewers = &outcome.viewers;
    let has_begun = viewers.started == viewers.admitted && viewers.startup_ms.p99 <= STARTUP_MS_MAX;
    let is_fine = viewers.failed == 0 && viewers.late_segments == 0 && viewers.stalls == 0;
    viewers.admitted > 0 && has_begun && is_fine
}
