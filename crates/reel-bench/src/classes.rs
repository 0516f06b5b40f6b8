//! `classes`: streams, browsers and downloads on the same disks (Prism section 5, figures 5, 6, 8 and 9).

mod admitted;
mod carried;
mod growth;
mod held;
mod shares;
mod tuning;

use crate::bay::{Bay, Kind, modelled};
use crate::film;
use crate::reel;
use crate::sheet::{Chart, Sheet};
use crate::stage::{Films, Stage, Tuning};
use crate::{ClassesArguments, ExperimentArguments};
use anyhow::Result;
use std::fs;
use std::path::PathBuf;

/// Disks of each server: Reel's five with parity, the rival's five with a file system each.
pub(crate) const DISKS: usize = 5;
/// Rate of a stream, on average.
pub(crate) const RATE_BPS: u64 = 6_000_000;
/// Downloads and browsers beside (Prism figure 5).
const BESIDE: usize = 10;

/// The experiment's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Streams held without admission (Prism figure 5).
    Held,
    /// No late byte at full admission.
    Admitted,
    /// Downloads grow (Prism figures 6 and 8).
    Growth,
    /// Shares of device time (Prism figure 9).
    Shares,
    /// The most viewers with nothing late.
    Carried,
}

/// Runs the experiments.
pub(crate) fn run(arguments: &ClassesArguments) -> Result<()> {
    let (parts, set, against) = (&arguments.parts, Set::of(arguments)?, !arguments.alone);
    let arguments = &arguments.common;
    let mut sheet = Sheet::new("classes");
    sheet.charts = vec![
        Chart { case: "streams held", at: "streams", value: "late_percent" },
        Chart { case: "downloads grow", at: "downloads", value: "late_percent" },
        Chart { case: "downloads grow", at: "downloads", value: "interactive_p99_ms" },
    ];
    sheet.fill(arguments, |sheet| measure(arguments, &set, (parts, against), sheet))
}

/// How much of it.
pub(crate) struct Set {
    pub(crate) reel: PathBuf,
    pub(crate) seconds: u64,
    pub(crate) runs: usize,
    /// The most streams that are tried: each has a film of its own.
    pub(crate) streams_max: usize,
    /// Where the search begins.
    pub(crate) streams_from: usize,
    pub(crate) bulk: usize,
    pub(crate) bulk_seconds: u64,
    /// Seconds at full admission.
    pub(crate) admitted_seconds: u64,
    pub(crate) quick: bool,
}

impl Set {
    /// Hard disks deserve a minute.
    pub(crate) fn probe_seconds(&self) -> u64 {
        if self.quick { 1 } else { 60 }
    }

    fn of(arguments: &ClassesArguments) -> Result<Self> {
        let (admitted_seconds, streams_max) = (arguments.admitted_seconds, arguments.streams_max);
        let streams_from = arguments.streams_from.clamp(1, streams_max);
        let arguments = &arguments.common;
        let reel = reel::binary(arguments.reel.as_deref())?;
        let runs = arguments.runs.unwrap_or(1);
        Ok(if arguments.quick {
            let seconds = arguments.seconds.unwrap_or(1);
            Self {
                reel,
                seconds,
                runs,
                streams_max: 8,
                streams_from: 8,
                bulk: 10,
                bulk_seconds: 5,
                admitted_seconds: 2,
                quick: true,
            }
        } else {
            let seconds = arguments.seconds.unwrap_or(20);
            Self {
                reel,
                seconds,
                runs,
                streams_max,
                streams_from,
                bulk: 160,
                bulk_seconds: 40,
                admitted_seconds,
                quick: false,
            }
        })
    }
}

fn measure(
    arguments: &ExperimentArguments,
    set: &Set,
    (parts, against): (&[Part], bool),
    sheet: &mut Sheet,
) -> Result<()> {
    fs::create_dir_all(&arguments.dir)?;
    let dir = fs::canonicalize(&arguments.dir)?;
    // A stream reads for as long as a run takes, from its coming on.
    let stream = film::constant(&dir, set.seconds + 10, RATE_BPS)?;
    let bulk = film::constant(&dir, set.bulk_seconds, RATE_BPS)?;
    let bytes =
        fs::metadata(&stream)?.len() * set.streams_max as u64 + fs::metadata(&bulk)?.len() * set.bulk as u64;
    let kind = modelled(arguments, sheet)?;
    let disk_bytes = Films::disk_bytes(bytes, DISKS);
    sheet.note(format!(
        "{DISKS} {} of {} MiB each, {} films of {:.1} GB in all; Reel stripes them with one parity row, the rival has one ext4 \
         on each disk and puts films on them in turn",
        kind.words(),
        disk_bytes >> 20,
        set.streams_max + set.bulk,
        bytes as f64 / 1e9
    ));
    sheet.note(format!(
        "every stream reads a film of its own at {} Mb/s, a second of it at a time, each due 3 s after it is asked for; films leave the \
         page cache before every run, and the rival's belongs to a group of {} GiB, as much as Reel's media memory",
        RATE_BPS / 1_000_000,
        reel::MEMORY_BYTES >> 30
    ));
    let make = || -> Result<(Bay, Films)> {
        let bay = Bay::make(&dir, kind, DISKS, disk_bytes)?;
        let films = Films::make(&bay.dir().join("films"), (&stream, set.streams_max), (&bulk, set.bulk))?;
        Ok((bay, films))
    };
    let wanted = |part| parts.contains(&part);
    if wanted(Part::Admitted) {
        admitted::run(set, &dir, kind, sheet)?;
    }
    if wanted(Part::Carried) {
        if kind == Kind::Plain && against {
            sheet.note(
                "viewers carried: without the rival, who needs disks with file systems, which need root",
            );
        }
        carried::run(set, &dir, kind, against && kind != Kind::Plain, sheet)?;
    }
    let mut found = held::Found::default();
    if wanted(Part::Held) || wanted(Part::Growth) || wanted(Part::Shares) {
        let (bay, films) = make()?;
        let ours = Stage::reel(&set.reel, bay, &films)?;
        if wanted(Part::Held) {
            held::reel(set, &ours, &films, sheet, &mut found)?;
        }
        if wanted(Part::Growth) {
            ours.probe(set.probe_seconds())?;
            growth::reel(set, &ours, &films, sheet)?;
        }
        if wanted(Part::Shares) {
            shares::reel(set, &ours, &films, sheet)?;
        }
    }
    if !against {
        return Ok(());
    }
    if kind == Kind::Plain {
        sheet.note("skipped: the rival needs disks with file systems, which need root");
    } else if wanted(Part::Held) || wanted(Part::Growth) {
        let (bay, films) = make()?;
        let theirs = Stage::ext4(bay, &films, None)?;
        if wanted(Part::Held) {
            held::rival(set, &theirs, &films, sheet, ("nginx shipped", Tuning::SHIPPED), &mut found)?;
        }
        let tuned = ("nginx tuned", tuning::best(set, &theirs, &films, sheet, tuning::Streams::Files)?);
        if wanted(Part::Held) {
            held::rival(set, &theirs, &films, sheet, tuned, &mut found)?;
            found.claim(sheet);
        }
        if wanted(Part::Growth) {
            growth::rival(set, &theirs, &films, sheet, tuned)?;
        }
    }
    Ok(())
}
