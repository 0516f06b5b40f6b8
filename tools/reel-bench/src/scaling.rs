//! `scaling`: one title as one file from one to four disks of data, compared with nginx on
//! one disk (MARS, table 1).
//!
//! A volume of Reel has one disk more than its disks of data, since the row of parity moves from
//! disk to disk. In normal operation no parity is read, and a transfer reads from all disks.

use crate::client::{fetch, length};
use crate::disk_set::{DiskSet, Kind, modelled};
use crate::film;
use crate::reel::{self, Settings};
use crate::rival::Rival;
use crate::testbed::{Films, Playing, Testbed, Tuning};
use anyhow::{Context, Result};
use reel_report::{Chart, Claim, CommonOptions, Report};
use std::fs;
use std::path::{Path, PathBuf};

/// Numbers of disks of data.
const DATA_DISKS: [usize; 4] = [1, 2, 3, 4];
/// The length of the longest transfer in the paper's table.
const FILM_MIB: u64 = 360;
const CASE: &str = "one download, disks of data";
/// The paper: two disks give 47 % more than one.
const TWO_DISKS_BAR: f64 = 1.47;

/// Runs it.
pub(crate) fn run(arguments: &CommonOptions) -> Result<()> {
    let mut report = Report::new("scaling");
    report.charts = vec![Chart { case: CASE, at: "disks of data", value: "mb_per_s" }];
    report.fill(arguments, |report| measure(arguments, report))
}

fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    let dir = arguments.make_dir()?;
    let (film_mib, runs, counts) =
        if arguments.quick { (24, 1, &DATA_DISKS[..2]) } else { (FILM_MIB, 3, &DATA_DISKS[..]) };
    let runs = arguments.runs.unwrap_or(runs);
    let taken = film::make(&dir, film_mib)?;
    let kind = modelled(arguments, report)?;
    report.note(format!(
        "{}; one download of {film_mib} MiB over one connection, nothing in memory before",
        kind.words()
    ));
    let program = reel::binary(arguments.reel.as_deref())?;
    for &data_disks in counts {
        let (disk_set, films) = disks_with_films(&dir, kind, data_disks + 1, &taken)?;
        let testbed = Testbed::reel(&program, disk_set, &films)?;
        testbed.probe(if arguments.quick { 1 } else { 10 })?;
        for run in 0..runs {
            let playing = testbed.start_reel(&Settings::with_admission())?;
            download((&testbed, &playing), &films, report, ("reel", data_disks, run))?;
        }
    }
    if kind == Kind::Plain {
        report.note("skipped: nginx needs disks with file systems, which need root");
    } else {
        let (disk_set, films) = disks_with_films(&dir, kind, 1, &taken)?;
        let testbed = Testbed::ext4(disk_set, &films, None)?;
        for run in 0..runs {
            let playing = testbed.start_rival(Tuning::shipped(Rival::Nginx))?;
            download((&testbed, &playing), &films, report, ("nginx", 1, run))?;
        }
    }
    claim(report);
    Ok(())
}

fn disks_with_films(dir: &Path, kind: Kind, disks: usize, film: &PathBuf) -> Result<(DiskSet, Films)> {
    let disk_bytes = Films::disk_bytes(2 * fs::metadata(film)?.len(), disks.max(2));
    let disk_set = DiskSet::make(dir, kind, disks, disk_bytes)?;
    let films = Films::make(&disk_set.dir().join("films"), (film, 1), (film, 1))?;
    Ok((disk_set, films))
}

fn download(
    (testbed, playing): (&Testbed, &Playing),
    films: &Films,
    report: &mut Report,
    (system, data_disks, run): (&str, usize, usize),
) -> Result<()> {
    let address = playing.server.address;
    let url = playing.downloads(films).into_iter().next().context("a film was made")?;
    let path = url.split_once("//").and_then(|(_, rest)| rest.find('/').map(|at| rest[at..].to_owned()));
    let path = path.context("a URL has a path")?;
    let bytes = length(address, &path)?;
    let (fetched, disks) = testbed.disk_set.watched(|| fetch(address, &path, bytes, 1, false))?;
    let mb_per_s = bytes as f64 / 1e6 / fetched.took_s;
    report.row(CASE, system, data_disks as f64, run, &[vec![("mb_per_s", mb_per_s)], disks].concat());
    Ok(())
}

fn claim(report: &mut Report) {
    let of = |report: &Report, disks: usize| report.median_or_nan(CASE, "reel", disks as f64, "mb_per_s");
    let one = of(report, 1);
    let words = "a download from 2 disks of data, times one from 1 (MARS, table 1)".to_owned();
    report.claim(Claim::at_least(words, of(report, 2) / one, TWO_DISKS_BAR));
    let rival = report.median_or_nan(CASE, "nginx", 1.0, "mb_per_s");
    if rival.is_finite() {
        let words = "a download from 1 disk of data, times one by nginx from 1 disk".to_owned();
        report.claim(Claim::at_least(words, one / rival, 1.0));
    }
}
