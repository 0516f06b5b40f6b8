//! `classes`: streams, browsers and downloads on the same disks (Prism section 5, figures 5, 6, 8
//! and 9).

mod admitted;
mod carried;
mod growth;
mod held;
mod shares;
mod tuning;

use crate::disk_set::{DiskSet, Kind, modelled};
use crate::film;
use crate::reel;
use crate::rival::{Against, Rival};
use crate::testbed::{Films, Testbed, Tuning};
use anyhow::Result;
use reel_report::{Chart, CommonOptions, Report};
use std::fs;
use std::path::PathBuf;

/// The options of `classes`.
#[derive(clap::Args)]
pub(crate) struct ClassesArguments {
    #[command(flatten)]
    common: CommonOptions,
    /// Only these parts of it.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Held, Part::Admitted, Part::Growth, Part::Shares])]
    parts: Vec<Part>,
    #[command(flatten)]
    against: Against,
    /// The most streams that are tried: each has a film of its own.
    #[arg(long, default_value_t = 400)]
    streams_max: usize,
    /// Where the search for the number of streams held begins.
    #[arg(long, default_value_t = 64)]
    streams_from: usize,
    /// Seconds at full admission.
    #[arg(long, default_value_t = 600)]
    admitted_seconds: u64,
}

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
    let (parts, set, rivals) = (&arguments.parts, Set::of(arguments)?, &arguments.against.rivals);
    rivals.installed()?;
    let rivals: Vec<Rival> = rivals.iter().collect();
    let arguments = &arguments.common;
    let mut report = Report::new("classes");
    report.charts = vec![
        Chart { case: "streams held", at: "streams", value: "late_percent" },
        Chart { case: "downloads grow", at: "downloads", value: "late_percent" },
        Chart { case: "downloads grow", at: "downloads", value: "interactive_p99_ms" },
    ];
    report.fill(arguments, |report| measure(arguments, &set, (parts, &rivals), report))
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
        let seconds = |usual| arguments.seconds.unwrap_or(usual);
        let full = Self {
            reel: reel::binary(arguments.reel.as_deref())?,
            seconds: seconds(20),
            runs: arguments.runs.unwrap_or(1),
            streams_max,
            streams_from,
            bulk: 160,
            bulk_seconds: 40,
            admitted_seconds,
            quick: arguments.quick,
        };
        if !full.quick {
            return Ok(full);
        }
        let (seconds, bulk, bulk_seconds, admitted_seconds) = (seconds(1), 10, 5, 2);
        Ok(Self { seconds, streams_max: 8, streams_from: 8, bulk, bulk_seconds, admitted_seconds, ..full })
    }
}

fn measure(
    arguments: &CommonOptions,
    set: &Set,
    (parts, rivals): (&[Part], &[Rival]),
    report: &mut Report,
) -> Result<()> {
    let dir = arguments.make_dir()?;
    // A stream reads for as long as a run takes, from its coming on.
    let stream = film::constant(&dir, set.seconds + 10, RATE_BPS)?;
    let bulk = film::constant(&dir, set.bulk_seconds, RATE_BPS)?;
    let bytes =
        fs::metadata(&stream)?.len() * set.streams_max as u64 + fs::metadata(&bulk)?.len() * set.bulk as u64;
    let kind = modelled(arguments, report)?;
    let disk_bytes = Films::disk_bytes(bytes, DISKS);
    report.note(format!(
        "{DISKS} {} of {} MiB each, {} films of {:.1} GB in all; Reel stripes them with one parity row, the rival has one ext4 \
         on each disk and puts films on them in turn",
        kind.words(),
        disk_bytes >> 20,
        set.streams_max + set.bulk,
        bytes as f64 / 1e9
    ));
    report.note(format!(
        "every stream reads a film of its own at {} Mb/s, a second of it at a time, each due 3 s after it is asked for; films leave the \
         page cache before every run, and the rival's belongs to a group of {} GiB, as much as Reel's media memory",
        RATE_BPS / 1_000_000,
        reel::MEMORY_BYTES >> 30
    ));
    let make = || -> Result<(DiskSet, Films)> {
        let disk_set = DiskSet::make(&dir, kind, DISKS, disk_bytes)?;
        let films =
            Films::make(&disk_set.dir().join("films"), (&stream, set.streams_max), (&bulk, set.bulk))?;
        Ok((disk_set, films))
    };
    let wanted = |part| parts.contains(&part);
    if wanted(Part::Admitted) {
        admitted::run(set, &dir, kind, report)?;
    }
    if wanted(Part::Carried) {
        if kind == Kind::Plain && !rivals.is_empty() {
            report
                .note("viewers carried: without rivals, which need disks with file systems, which need root");
        }
        carried::run(set, &dir, kind, if kind == Kind::Plain { &[] } else { rivals }, report)?;
    }
    let mut found = held::Found::default();
    if wanted(Part::Held) || wanted(Part::Growth) || wanted(Part::Shares) {
        let (disk_set, films) = make()?;
        let ours = Testbed::reel(&set.reel, disk_set, &films)?;
        if wanted(Part::Held) {
            held::reel(set, &ours, &films, report, &mut found)?;
        }
        if wanted(Part::Growth) {
            ours.probe(set.probe_seconds())?;
            growth::reel(set, &ours, &films, report)?;
        }
        if wanted(Part::Shares) {
            shares::reel(set, &ours, &films, report)?;
        }
    }
    if rivals.is_empty() {
        return Ok(());
    }
    if kind == Kind::Plain {
        report.note("skipped: rivals need disks with file systems, which need root");
    } else if wanted(Part::Held) || wanted(Part::Growth) {
        let (disk_set, films) = make()?;
        let theirs = Testbed::ext4(disk_set, &films, None)?;
        for &rival in rivals {
            beside(set, (&theirs, &films), (parts, rival), &mut found, report)?;
        }
    }
    Ok(())
}

/// One rival, as shipped and as an expert would tune it.
fn beside(
    set: &Set,
    (theirs, films): (&Testbed, &Films),
    (parts, rival): (&[Part], Rival),
    found: &mut held::Found,
    report: &mut Report,
) -> Result<()> {
    let wanted = |part| parts.contains(&part);
    let [shipped, tuned] = ["shipped", "tuned"].map(|how| format!("{} {how}", rival.name()));
    if wanted(Part::Held) {
        held::rival(set, theirs, films, report, (&shipped, Tuning::shipped(rival)), found)?;
    }
    let streams = (tuning::Streams::Files, rival);
    let tuned = (&*tuned, tuning::best(set, theirs, films, report, streams)?);
    if wanted(Part::Held) {
        held::rival(set, theirs, films, report, tuned, found)?;
        found.claim(rival, report);
    }
    if wanted(Part::Growth) {
        growth::rival(set, theirs, films, report, tuned)?;
    }
    Ok(())
}
