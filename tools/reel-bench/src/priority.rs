//! `priority`: one transfer of 400 MB beside readers of a lower class (MARS table 2).

use crate::classes::{DISKS, RATE_BPS};
use crate::client::{fetch, length, resolve};
use crate::disk_set::{DiskSet, Kind, modelled};
use crate::film;
use crate::reel::{self, Settings};
use crate::rival::Against;
use crate::testbed::{Films, Playing, Testbed, Tuning};
use anyhow::Result;
use reel_load::{Fleet, Plan, Reading};
use reel_report::{Chart, Claim, CommonOptions, Report};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// The options of `priority`.
#[derive(clap::Args)]
pub(crate) struct PriorityArguments {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    against: Against,
    /// Numbers of connections of the transfer, one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 32])]
    connections: Vec<usize>,
    /// Numbers of readers that are active at the same time, one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2, 3, 4, 5, 6])]
    readers: Vec<usize>,
}

/// MARS table 2.
const TRANSFER_BYTES: u64 = 400_000_000;
const CASE: &str = "transfer";
/// Readers may have a two-hundredth of the disks' time while the transfer wants all of it: each of
/// their reads also costs it the way back.
const SHARES: [u32; 3] = [10, 985, 5];
const TITLE: &str = "film-000";
/// Seconds that readers run before the transfer begins.
const AHEAD: Duration = Duration::from_secs(1);

/// Runs the experiment.
pub(crate) fn run(arguments: &PriorityArguments) -> Result<()> {
    let mut report = Report::new("priority");
    report.charts = vec![Chart { case: CASE, at: "background readers", value: "took_s" }];
    report.fill(&arguments.common, |report| measure(arguments, report))
}

fn measure(all: &PriorityArguments, report: &mut Report) -> Result<()> {
    let (arguments, connections) = (&all.common, &all.connections);
    all.against.rivals.installed()?;
    let reel = reel::binary(arguments.reel.as_deref())?;
    let dir = arguments.make_dir()?;
    let transfer_bytes = if arguments.quick { 4_000_000 } else { TRANSFER_BYTES };
    let seconds = |bytes: u64| (bytes * 8 / RATE_BPS * 5 / 4).max(5);
    let transfer = film::varying(&dir, seconds(transfer_bytes), RATE_BPS)?;
    let bulk = film::varying(&dir, seconds(transfer_bytes), RATE_BPS)?;
    let bulks = if arguments.quick { 2 } else { 8 };
    let bytes = fs::metadata(&transfer)?.len() + fs::metadata(&bulk)?.len() * bulks as u64;
    let kind = modelled(arguments, report)?;
    let make = || -> Result<(DiskSet, Films)> {
        let disk_set = DiskSet::make(&dir, kind, DISKS, Films::disk_bytes(bytes, DISKS))?;
        let films = Films::make(&disk_set.dir().join("films"), (&transfer, 1), (&bulk, bulks))?;
        Ok((disk_set, films))
    };
    report.note(format!(
        "{DISKS} {}; one transfer of {} MB over {connections:?} connections, begun when the readers run; readers fetch whole films \
         as fast as they come",
        kind.words(),
        transfer_bytes / 1_000_000
    ));
    report.note(format!(
        "Reel: the transfer has the class `interactive`, readers are aperiodic; of 1000 parts of the disks' time streams, the transfer and \
         readers have {SHARES:?}"
    ));
    let readers = if arguments.quick { &[0, 1] } else { all.readers.as_slice() };
    let runs = arguments.runs.unwrap_or(if arguments.quick { 1 } else { 3 });
    {
        let (disk_set, films) = make()?;
        let testbed = Testbed::reel(&reel, disk_set, &films)?;
        let settings = Settings::with_admission().shared(SHARES);
        for (run, connections, count) in cases(runs, connections, readers) {
            let playing = testbed.start_reel(&settings)?;
            let path =
                resolve(playing.server.address, &format!("/watch/{TITLE}/{TITLE}.mp4?class=interactive"))?;
            let system = format!("reel, {connections} conn.");
            one(
                report,
                &system,
                (&testbed, &playing),
                &films,
                &path,
                (count, run, transfer_bytes, connections),
            )?;
        }
    }
    if kind == Kind::Modelled && !all.against.rivals.is_empty() {
        let (disk_set, films) = make()?;
        let testbed = Testbed::ext4(disk_set, &films, None)?;
        for rival in all.against.rivals.iter() {
            let shipped = Tuning::shipped(rival);
            report.note(format!("{} shipped: {shipped}", rival.name()));
            for (run, connections, count) in cases(1, connections, readers) {
                let playing = testbed.start_rival(shipped)?;
                let system = format!("{}, {connections} conn.", rival.name());
                let (path, measured) = (format!("/0/{TITLE}.mp4"), (count, run, transfer_bytes, connections));
                one(report, &system, (&testbed, &playing), &films, &path, measured)?;
            }
        }
    }
    claim(report, connections, readers);
    Ok(())
}

/// One transfer beside `count` readers.
fn one(
    report: &mut Report,
    system: &str,
    (testbed, playing): (&Testbed, &Playing),
    films: &Films,
    path: &str,
    (count, run, most, connections): (usize, usize, u64, usize),
) -> Result<()> {
    let bytes = length(playing.server.address, path)?.min(most);
    let downloads = Reading { clients: count, urls: playing.downloads(films), ..Reading::default() };
    // Longer than any transfer: it ends when it is dropped.
    let duration = Some(Duration::from_secs(3600));
    let plan = Plan { downloads, duration, ..Plan::players(playing.streams(films, 1), 0) };
    let background = if count > 0 { Some(Fleet::start(plan)?) } else { None };
    sleep(AHEAD);
    let before = background.as_ref().map_or(0, |fleet| fleet.sample().download_bytes);
    let (fetched, disks) =
        testbed.disk_set.watched(|| fetch(playing.server.address, path, bytes, connections, false))?;
    let took_s = fetched.took_s;
    let read = background.as_ref().map_or(0, |fleet| fleet.sample().download_bytes) - before;
    drop(background);
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let mut values =
        vec![("took_s", took_s), ("mb_per_s", mb(bytes) / took_s), ("readers_mb_per_s", mb(read) / took_s)];
    values.extend(disks);
    report.row(CASE, system, count as f64, run, &values);
    Ok(())
}

/// Runs, connections and readers, the readers in turn.
fn cases(
    runs: usize,
    connections: &[usize],
    readers: &[usize],
) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..runs).flat_map(move |run| {
        connections
            .iter()
            .flat_map(move |&connections| readers.iter().map(move |&count| (run, connections, count)))
    })
}

/// Says nothing if it was not measured alone.
fn claim(report: &mut Report, connections: &[usize], readers: &[usize]) {
    if !readers.contains(&0) {
        return;
    }
    for connections in connections {
        let system = format!("reel, {connections} conn.");
        let median = |count: usize| report.median(CASE, &system, count as f64, "took_s").unwrap_or(0.0);
        let (alone, worst) = (median(0), readers.iter().map(|&count| median(count)).fold(0.0, f64::max));
        let claim = format!(
            "400 MB over {connections} connections beside {readers:?} readers: the slowest ({worst:.2} s) / alone ({alone:.2} s)"
        );
        report.claim(Claim::at_most(claim, worst / alone.max(1e-9), 1.05));
    }
}
