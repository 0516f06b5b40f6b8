//! `priority`: one transfer of 400 MB beside readers of a lower class (MARS table 2).

use crate::PriorityArguments;
use crate::bay::{Bay, Kind, modelled};
use crate::classes::{DISKS, RATE_BPS};
use crate::client::{fetch, length, resolve};
use crate::film;
use crate::load::{Fleet, Plan, Reading};
use crate::reel::{self, Settings};
use crate::report::{Claim, spread};
use crate::sheet::{Chart, Sheet};
use crate::stage::{Films, Playing, Stage, Tuning};
use anyhow::Result;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// MARS table 2.
const TRANSFER_BYTES: u64 = 400_000_000;
const CASE: &str = "transfer";
/// Readers may have a two-hundredth of the disks' time while the transfer wants all of it: each of their reads also costs it the way back.
const SHARES: [u32; 3] = [10, 985, 5];
const TITLE: &str = "film-000";
/// Seconds that readers run before the transfer begins.
const AHEAD: Duration = Duration::from_secs(1);

/// Runs the experiment.
pub(crate) fn run(arguments: &PriorityArguments) -> Result<()> {
    let mut sheet = Sheet::new("priority");
    sheet.charts = vec![Chart { case: CASE, at: "background readers", value: "took_s" }];
    sheet.fill(&arguments.common, |sheet| measure(arguments, sheet))
}

fn measure(all: &PriorityArguments, sheet: &mut Sheet) -> Result<()> {
    let (arguments, connections) = (&all.common, &all.connections);
    let reel = reel::binary(arguments.reel.as_deref())?;
    fs::create_dir_all(&arguments.dir)?;
    let dir = fs::canonicalize(&arguments.dir)?;
    let transfer_bytes = if arguments.quick { 4_000_000 } else { TRANSFER_BYTES };
    let seconds = |bytes: u64| (bytes * 8 / RATE_BPS * 5 / 4).max(5);
    let transfer = film::varying(&dir, seconds(transfer_bytes), RATE_BPS)?;
    let bulk = film::varying(&dir, seconds(transfer_bytes), RATE_BPS)?;
    let bulks = if arguments.quick { 2 } else { 8 };
    let bytes = fs::metadata(&transfer)?.len() + fs::metadata(&bulk)?.len() * bulks as u64;
    let kind = modelled(arguments, sheet)?;
    let make = || -> Result<(Bay, Films)> {
        let bay = Bay::make(&dir, kind, DISKS, Films::disk_bytes(bytes, DISKS))?;
        let films = Films::make(&bay.dir().join("films"), (&transfer, 1), (&bulk, bulks))?;
        Ok((bay, films))
    };
    sheet.note(format!(
        "{DISKS} {}; one transfer of {} MB over {connections:?} connections, begun when the readers run; readers fetch whole films \
         as fast as they come",
        kind.words(),
        transfer_bytes / 1_000_000
    ));
    sheet.note(format!(
        "Reel: the transfer has the class `interactive`, readers are aperiodic; of 1000 parts of the disks' time streams, the transfer and \
         readers have {SHARES:?}"
    ));
    let readers = if arguments.quick { &[0, 1] } else { all.readers.as_slice() };
    let runs = arguments.runs.unwrap_or(if arguments.quick { 1 } else { 3 });
    {
        let (bay, films) = make()?;
        let stage = Stage::reel(&reel, bay, &films)?;
        let settings = Settings::promised().shared(SHARES);
        for (run, connections, count) in cases(runs, connections, readers) {
            let playing = stage.start_reel(&settings)?;
            let path =
                resolve(playing.server.address, &format!("/watch/{TITLE}/{TITLE}.mp4?class=interactive"))?;
            let who = format!("reel, {connections} conn.");
            one(sheet, &who, (&stage, &playing), &films, &path, (count, run, transfer_bytes, connections))?;
        }
    }
    if kind == Kind::Modelled && !all.alone {
        let (bay, films) = make()?;
        let stage = Stage::ext4(bay, &films, None)?;
        sheet.note(format!("nginx shipped: {}", Tuning::SHIPPED));
        for (run, connections, count) in cases(1, connections, readers) {
            let playing = stage.start_nginx(Tuning::SHIPPED)?;
            let (who, path) = (format!("nginx, {connections} conn."), format!("/0/{TITLE}.mp4"));
            one(sheet, &who, (&stage, &playing), &films, &path, (count, run, transfer_bytes, connections))?;
        }
    }
    claim(sheet, connections, readers);
    Ok(())
}

/// One transfer beside `count` readers.
fn one(
    sheet: &mut Sheet,
    who: &str,
    (stage, playing): (&Stage, &Playing),
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
        stage.bay.watched(|| fetch(playing.server.address, path, bytes, connections, false))?;
    let took_s = fetched.took_s;
    let read = background.as_ref().map_or(0, |fleet| fleet.sample().download_bytes) - before;
    drop(background);
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let mut values =
        vec![("took_s", took_s), ("mb_per_s", mb(bytes) / took_s), ("readers_mb_per_s", mb(read) / took_s)];
    values.extend(disks);
    sheet.row(CASE, who, count as f64, run, &values);
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
fn claim(sheet: &mut Sheet, connections: &[usize], readers: &[usize]) {
    if !readers.contains(&0) {
        return;
    }
    for connections in connections {
        let who = format!("reel, {connections} conn.");
        let median = |count: usize| {
            let rows = sheet.rows.iter().filter(|row| row.who == who && row.at == count as f64);
            spread(&mut rows.filter_map(|row| row.values.get("took_s").copied()).collect::<Vec<_>>()).1
        };
        let (alone, worst) = (median(0), readers.iter().map(|&count| median(count)).fold(0.0, f64::max));
        let claim = format!(
            "400 MB over {connections} connections beside {readers:?} readers: the slowest ({worst:.2} s) / alone ({alone:.2} s)"
        );
        sheet.claim(Claim::at_most(claim, worst / alone.max(1e-9), 1.05));
    }
}
