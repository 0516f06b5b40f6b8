//! `transfers`: parallel downloads on disks with moving heads, beside a read/write loop and rivals
//! (dsplice, note 2).

mod effort;
mod program;
mod receiver;

use crate::disk_set::{DiskSet, Kind, modelled};
use crate::film;
use crate::fleet::{Mix, paced};
use crate::reel::{self, Settings, capacity};
use crate::rival::{Against, Rival, Setup};
use crate::testbed::{Films, Playing, ReadWriteLoop, Testbed, Tuning};
use anyhow::Result;
use receiver::receive;
use reel_report::{Chart, Claim, CommonOptions, Report};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The options of `transfers`.
#[derive(clap::Args)]
pub(crate) struct TransfersArguments {
    #[command(flatten)]
    common: CommonOptions,
    /// Only these parts of it.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Reel, Part::Viewers, Part::Loop, Part::Rivals])]
    parts: Vec<Part>,
    #[command(flatten)]
    against: Against,
}

/// Disks of each server: Reel's five with parity, the rivals' five with a file system each.
const DISKS: usize = 5;
/// Downloads at once: one, as many as in dsplice's table, and as many for each of the disks.
const DOWNLOADS: [usize; 3] = [1, 4, 4 * DISKS];
const CASE: &str = "downloads";
/// All downloads from films on one disk: what dsplice's table has.
const ONE_DISK: &str = "downloads on one disk";
const BESIDE: &str = "downloads beside viewers";
/// Rate of a viewer's film.
const RATE_BPS: u64 = 6_000_000;
/// Downloads get going before they are counted.
const AHEAD: Duration = Duration::from_secs(2);
/// What an expert would try for files read in order: the kernel's read-ahead, and telling it so.
const READ_AHEADS_KIB: [u64; 3] = [128, 1024, 4096];

/// The experiment's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Downloads from Reel.
    Reel,
    /// Reel's viewers beside downloads.
    Viewers,
    /// Downloads from a read/write loop.
    Loop,
    /// A program beside downloads and joins.
    Program,
    /// Downloads from the rivals.
    #[value(alias = "nginx")]
    Rivals,
}

/// How much of it.
struct Set {
    parts: Vec<Part>,
    rivals: Vec<Rival>,
    reel: PathBuf,
    seconds: u64,
    runs: usize,
    /// Size of a film that is downloaded; there is one for each of the most downloads.
    film_mib: u64,
    viewers: usize,
    probe_seconds: u64,
    downloads: &'static [usize],
    quick: bool,
}

/// Runs the experiment.
pub(crate) fn run(arguments: &TransfersArguments) -> Result<()> {
    if arguments.parts.contains(&Part::Rivals) {
        arguments.against.rivals.installed()?;
    }
    let rivals: Vec<Rival> = arguments.against.rivals.iter().collect();
    let (parts, arguments) = (arguments.parts.clone(), &arguments.common);
    let mut report = Report::new("transfers");
    report.charts = vec![
        Chart { case: CASE, at: "downloads", value: "mb_per_s" },
        Chart { case: CASE, at: "downloads", value: "least_share" },
    ];
    let seconds = arguments.seconds.unwrap_or(if arguments.quick { 1 } else { 10 });
    let mut set = Set {
        parts,
        rivals,
        reel: reel::binary(arguments.reel.as_deref())?,
        seconds,
        runs: arguments.runs.unwrap_or(1),
        // More than all disks give in that time, so that no download takes what another has taken.
        film_mib: 32 * (seconds + AHEAD.as_secs()),
        viewers: 24,
        probe_seconds: 15,
        downloads: &DOWNLOADS,
        quick: arguments.quick,
    };
    if set.quick {
        (set.film_mib, set.viewers, set.probe_seconds, set.downloads) = (12, 2, 1, &DOWNLOADS[..2]);
    }
    report.fill(arguments, |report| measure(arguments, &set, report))
}

fn measure(arguments: &CommonOptions, set: &Set, report: &mut Report) -> Result<()> {
    let dir = arguments.make_dir()?;
    let viewed = film::constant(&dir, set.seconds + 15, RATE_BPS)?;
    let taken = film::make(&dir, set.film_mib)?;
    let films_taken = set.downloads.iter().copied().max().unwrap_or(1).max(DISKS);
    let bytes =
        fs::metadata(&viewed)?.len() * set.viewers as u64 + fs::metadata(&taken)?.len() * films_taken as u64;
    let kind = modelled(arguments, report)?;
    let disk_bytes = Films::disk_bytes(bytes, DISKS);
    report.note(format!(
        "{DISKS} {} of {} MiB each; Reel stripes films over them with one parity row, a rival has an ext4 on each and films on them in \
         turn; {films_taken} films of {} MiB, every download takes one after the other for {} s; nothing is in memory before",
        kind.words(),
        disk_bytes >> 20,
        set.film_mib,
        set.seconds
    ));
    report.note(format!(
        "{} downloads are four for each disk, for every server; with {} a rival has each on a disk of its own",
        DOWNLOADS[2], DOWNLOADS[1]
    ));
    let make = || -> Result<(DiskSet, Films)> {
        let disk_set = DiskSet::make(&dir, kind, DISKS, disk_bytes)?;
        let films =
            Films::make(&disk_set.dir().join("films"), (&viewed, set.viewers), (&taken, films_taken))?;
        Ok((disk_set, films))
    };
    if set.wants(Part::Program) && kind == Kind::Modelled {
        program::measure(arguments, set, report)?;
    }
    if set.wants(Part::Reel) || set.wants(Part::Viewers) {
        let (disk_set, films) = make()?;
        measure_reel(set, &Testbed::reel(&set.reel, disk_set, &films)?, &films, report)?;
    }
    if kind == Kind::Plain {
        claim(report);
        report.note("skipped: rivals need disks with file systems, which need root");
        return Ok(());
    }
    if set.wants(Part::Loop) || set.wants(Part::Rivals) {
        let (disk_set, films) = make()?;
        measure_rivals(set, &Testbed::ext4(disk_set, &films, None)?, &films, report)?;
    }
    claim(report);
    Ok(())
}

impl Set {
    fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}

fn measure_reel(set: &Set, testbed: &Testbed, films: &Films, report: &mut Report) -> Result<()> {
    testbed.probe(set.probe_seconds)?;
    for run in (0..set.runs).filter(|_| set.wants(Part::Reel)) {
        for &downloads in set.downloads {
            let playing = testbed.start_reel(&Settings::with_admission())?;
            download(set, (testbed, &playing), films, report, (CASE, "reel", downloads, run))?;
        }
    }
    if set.wants(Part::Viewers) { viewers(set, testbed, films, report) } else { Ok(()) }
}

/// Viewers as many as are admitted, or as there are films for, beside downloads.
fn viewers(set: &Set, testbed: &Testbed, films: &Films, report: &mut Report) -> Result<()> {
    let mut late = 0.0_f64;
    for &downloads in [0].iter().chain(&set.downloads[1..]) {
        let playing = testbed.start_reel(&Settings::with_admission())?;
        let (most, stopped_by) = capacity(&playing.server, RATE_BPS)?;
        let streams = (most as usize).clamp(1, set.viewers);
        let mix =
            Mix { streams, aperiodic: downloads, interactive: 0, rate_bps: RATE_BPS, seconds: set.seconds };
        let (outcome, disks) = testbed.disk_set.watched(|| paced(&playing, films, mix))?;
        let late_bytes = outcome.late_bytes() as f64;
        late += late_bytes;
        let mut values = vec![
            ("viewers", streams as f64),
            ("late_bytes", late_bytes),
            ("refused", outcome.viewers.refused as f64),
            ("client_p99_ms", outcome.client.tick_late_ms.p99),
        ];
        if let Some(downloads) = &outcome.downloads {
            values.push(("mb_per_s", downloads.mbit_per_s / 8.0));
        }
        report.row(BESIDE, "reel", downloads as f64, 0, &[values, disks].concat());
        if downloads == 0 {
            report.note(format!(
                "{streams} viewers of the {most} that are admitted ({stopped_by} stops the next)"
            ));
        }
    }
    report.claim(Claim::at_most(
        "late bytes of viewers beside 0, 4 and 20 downloads, reel".into(),
        late,
        0.0,
    ));
    Ok(())
}

fn measure_rivals(set: &Set, testbed: &Testbed, films: &Films, report: &mut Report) -> Result<()> {
    let best = best(set, testbed, films, report)?;
    report.note(format!("loop at its best: {best}"));
    for run in 0..set.runs {
        for &downloads in set.downloads {
            let loops = [
                ("loop shipped", ReadWriteLoop::SHIPPED),
                ("loop best", best),
                ("loop of 1996", ReadWriteLoop::OF_1996),
            ];
            for (system, way) in loops.into_iter().filter(|_| set.wants(Part::Loop)) {
                let playing = testbed.start_loop("mq-deadline", way)?;
                download(set, (testbed, &playing), films, report, (CASE, system, downloads, run))?;
            }
            for (system, way) in
                loops.into_iter().filter(|_| set.wants(Part::Loop) && downloads <= films_on_a_disk(films))
            {
                let playing = testbed.start_loop("mq-deadline", way)?;
                download(set, (testbed, &playing), films, report, (ONE_DISK, system, downloads, run))?;
            }
            for &rival in set.rivals.iter().filter(|_| set.wants(Part::Rivals)) {
                for (system, tuning) in tunings(rival, best.read_ahead_kib) {
                    let playing = testbed.start_rival(tuning)?;
                    download(set, (testbed, &playing), films, report, (CASE, &system, downloads, run))?;
                }
            }
        }
    }
    Ok(())
}

/// A rival as it is shipped, and with the read-ahead that is best for the loop.
fn tunings(rival: Rival, read_ahead_kib: u64) -> [(String, Tuning); 2] {
    let setup = if rival == Rival::Nginx { Setup::Threads } else { rival.shipped() };
    let tuned = Tuning { scheduler: "mq-deadline", read_ahead_kib, setup };
    let name = rival.name();
    [(format!("{name} shipped"), Tuning::shipped(rival)), (format!("{name} tuned"), tuned)]
}

/// The way in which the loop is fastest with four downloads for each disk.
fn best(set: &Set, testbed: &Testbed, films: &Films, report: &mut Report) -> Result<ReadWriteLoop> {
    let mut best = (0.0, ReadWriteLoop::SHIPPED);
    if set.quick {
        return Ok(ReadWriteLoop { read_ahead_kib: 4096, in_order: true, piece_bytes: None });
    }
    for read_ahead_kib in READ_AHEADS_KIB {
        for in_order in [false, true] {
            let way = ReadWriteLoop { read_ahead_kib, in_order, piece_bytes: None };
            let playing = testbed.start_loop("mq-deadline", way)?;
            let downloads = paths(&playing, films, DOWNLOADS[2], 1);
            let received =
                receive(playing.server.address, &downloads, Duration::from_secs(1), Duration::from_secs(3))?;
            report.note(format!("calibration: {way}: {:.0} MB/s", received.mb_per_s()));
            if received.mb_per_s() > best.0 {
                best = (received.mb_per_s(), way);
            }
        }
    }
    Ok(best.1)
}

fn download(
    set: &Set,
    (testbed, playing): (&Testbed, &Playing),
    films: &Films,
    report: &mut Report,
    (case, system, downloads, run): (&'static str, &str, usize, usize),
) -> Result<()> {
    let paths = paths(playing, films, downloads, if case == ONE_DISK { DISKS } else { 1 });
    let window = Duration::from_secs(set.seconds);
    let (received, disks) =
        testbed.disk_set.watched(|| receive(playing.server.address, &paths, AHEAD, window))?;
    let (least, most) = received.shares();
    let values = vec![("mb_per_s", received.mb_per_s()), ("least_share", least), ("greatest_share", most)];
    report.row(case, system, downloads as f64, run, &[values, disks].concat());
    Ok(())
}

/// What each of so many downloads takes, one film after the other: with fewer than there are films,
/// every so many-th, so that no two take the same. A rival's begin on as many disks as there are,
/// or on one with `every` so many-th film.
fn paths(playing: &Playing, films: &Films, downloads: usize, every: usize) -> Vec<Vec<String>> {
    let root = format!("http://{}", playing.server.address);
    let all: Vec<String> = playing.downloads(films).into_iter().step_by(every).collect();
    let path = |url: &String| url.strip_prefix(&root).unwrap_or(url).to_owned();
    (0..downloads).map(|number| all.iter().skip(number).step_by(downloads).map(path).collect()).collect()
}

/// How many films a rival has on its first disk.
fn films_on_a_disk(films: &Films) -> usize {
    films.bulk.len().div_ceil(DISKS)
}

fn claim(report: &mut Report) {
    let in_case = |case: &str, system: &str, downloads: usize, value: &str| {
        report.median(case, system, downloads as f64, value).unwrap_or(0.0)
    };
    let median = |system: &str, downloads: usize, value: &str| in_case(CASE, system, downloads, value);
    let most =
        report.rows.iter().filter(|row| row.case == CASE).map(|row| row.at).fold(0.0, f64::max) as usize;
    let mut claims = Vec::new();
    let loops = ["loop shipped", "loop best", "loop of 1996"];
    let bar = 1.5;
    let rivals = ["nginx shipped", "nginx tuned", "caddy shipped", "caddy tuned"];
    for rival in loops.into_iter().chain(rivals) {
        let (ours, theirs) = (median("reel", most, "mb_per_s"), median(rival, most, "mb_per_s"));
        if ours == 0.0 || theirs == 0.0 {
            continue;
        }
        let claim = format!("{most} downloads on {DISKS} disks, MB/s: reel {ours:.0} / {rival} {theirs:.0}");
        claims.push(Claim::at_least(claim, ours / theirs.max(1e-9), bar));
    }
    for rival in loops {
        // Each of Reel's downloads is on all disks, so each of its disks serves all of them, as a
        // rival's one disk does.
        let four = DOWNLOADS[1];
        let ours = median("reel", four, "mb_per_s") / DISKS as f64;
        let theirs = in_case(ONE_DISK, rival, four, "mb_per_s");
        if ours == 0.0 || theirs == 0.0 {
            continue;
        }
        let claim =
            format!("{four} downloads on every disk, MB/s of a disk: reel {ours:.0} / {rival} {theirs:.0}");
        claims.push(Claim::at_least(claim, ours / theirs, bar));
    }
    if !report.rows.iter().any(|row| row.case == CASE && row.system == "reel") {
        return claims.into_iter().for_each(|claim| report.claim(claim));
    }
    let (four, one) = (median("reel", DOWNLOADS[1], "mb_per_s"), median("reel", 1, "mb_per_s"));
    // Runs are so long that a disk spends four fifths of its time on transfers.
    claims.push(Claim::at_least(
        format!("4 downloads {four:.0} MB/s / one alone {one:.0} MB/s, reel"),
        four / one.max(1e-9),
        0.8,
    ));
    for downloads in [DOWNLOADS[1], most] {
        let least = median("reel", downloads, "least_share");
        let claim = format!("{downloads} downloads: the one with the least / an equal share, reel");
        claims.push(Claim::at_least(claim, least, 0.9));
        let greatest = median("reel", downloads, "greatest_share");
        let claim = format!("{downloads} downloads: the one with the most / an equal share, reel");
        claims.push(Claim::at_most(claim, greatest, 1.1));
    }
    claims.into_iter().for_each(|claim| report.claim(claim));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_of_the_most_downloads_and_of_four() {
        let mut report = Report::new("test");
        for (system, rate) in [("reel", 300.0), ("loop shipped", 100.0), ("loop best", 250.0)] {
            for downloads in DOWNLOADS {
                let values = [("mb_per_s", rate), ("least_share", 0.95), ("greatest_share", 1.2)];
                report.row(CASE, system, downloads as f64, 0, &values);
            }
        }
        claim(&mut report);
        let holds: Vec<bool> = report.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, false, true, true, false, true, false]);
    }
}
