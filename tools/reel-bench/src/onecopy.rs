//! `onecopy`: what a crowd of viewers of one title costs the disks and the memory, beside what one
//! of them costs (Halvorsen 4.2).
//!
//! The crowd comes over a minute, so its viewers are at as many places of the film. **One wave
//! front** is what lies between the first and the last of them: the bytes that are shown in the
//! time over which they come, and in the time that players fetch ahead.

use crate::api;
use crate::classes::DISKS;
use crate::disk_set::{DiskSet, Kind};
use crate::film;
use crate::reel::{self, Settings};
use crate::testbed::{Films, Playing, Testbed};
use anyhow::{Context, Result, ensure};
use reel_load::{ArrivalShape, Arrivals, Fleet, Hls, Outcome, Plan, Reading, Viewing};
use reel_report::{Chart, Claim, CommonOptions, Report};
use std::fs;
use std::time::Duration;

/// The options of `onecopy`.
#[derive(clap::Args)]
pub(crate) struct OneCopyArguments {
    /// `--seconds` is the length of the film.
    #[command(flatten)]
    common: CommonOptions,
    /// Only these parts of it.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Crowd, Part::Beside])]
    parts: Vec<Part>,
    /// Viewers of the title.
    #[arg(long, default_value_t = 1000)]
    viewers: usize,
    /// Seconds over which they come.
    #[arg(long, default_value_t = 60)]
    arrive_seconds: u64,
    /// Seconds that players fetch ahead of the picture.
    #[arg(long, default_value_t = 8)]
    buffer_seconds: u64,
    /// Rate of the film, in Mb/s.
    #[arg(long, default_value_t = 4.0)]
    rate_mbps: f64,
    /// Downloads beside the crowd.
    #[arg(long, default_value_t = 4)]
    downloads: usize,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// The crowd alone, in as much memory as it may take.
    Crowd,
    /// The crowd beside downloads of other titles, which read much more than it.
    Beside,
}

/// Memory that is held against a wave front.
const MEMORY_MAX: f64 = 1.2;
/// Memory that viewers are given, in wave fronts: they fill it.
const MEMORY_GIVEN: f64 = 1.12;
/// Disk bytes that are held against one viewer's.
const DISK_MAX: f64 = 1.1;
/// One buffer of the default geometry: a unit.
const BUFFER_BYTES: u64 = 264 << 10;
/// What the reader of a download holds: four stripes of four units, and one being decoded.
const DOWNLOAD_BUFFERS: u64 = 4 * 4 + 5;
/// Titles that downloads read in turn.
const BULKS: usize = 4;

/// How much is played.
struct Crowd {
    viewers: usize,
    over: Duration,
    film_s: u64,
    rate_bps: u64,
    buffer: Duration,
    downloads: usize,
}

/// What a run cost.
struct Cost {
    outcome: Outcome,
    /// Read from the members for viewers, and for downloads.
    disk_bytes: f64,
    download_disk_bytes: f64,
    /// The same by the kernel's account of the process; all of it.
    process_bytes: f64,
    /// The most that was taken of the arena at the ends of seconds.
    memory_bytes: f64,
    /// The most that readers had reserved.
    reserved_bytes: f64,
}

/// Runs the experiment.
pub(crate) fn run(arguments: &OneCopyArguments) -> Result<()> {
    let mut report = Report::new("onecopy");
    report.charts = vec![
        Chart { case: "crowd", at: "viewers", value: "disk_mb" },
        Chart { case: "crowd beside downloads", at: "viewers", value: "disk_mb" },
    ];
    let common = &arguments.common;
    let mut crowd = Crowd {
        viewers: arguments.viewers,
        over: Duration::from_secs(arguments.arrive_seconds),
        film_s: common.seconds.unwrap_or(110),
        rate_bps: (arguments.rate_mbps * 1e6) as u64,
        buffer: Duration::from_secs(arguments.buffer_seconds),
        downloads: arguments.downloads,
    };
    if common.quick {
        (crowd.viewers, crowd.over, crowd.film_s) = (20, Duration::from_secs(3), 6);
        (crowd.rate_bps, crowd.buffer, crowd.downloads) = (8_000_000, Duration::from_secs(2), 2);
    }
    report.fill(common, |report| measure(arguments, common, &crowd, report))
}

fn measure(
    arguments: &OneCopyArguments,
    common: &CommonOptions,
    crowd: &Crowd,
    report: &mut Report,
) -> Result<()> {
    let reel = reel::binary(common.reel.as_deref())?;
    let dir = common.make_dir()?;
    let film = film::constant(&dir, crowd.film_s, crowd.rate_bps)?;
    let film_bytes = fs::metadata(&film)?.len();
    let disk_set =
        DiskSet::make(&dir, Kind::Plain, DISKS, Films::disk_bytes(film_bytes * (BULKS as u64 + 1), DISKS))?;
    let films = Films::make(&disk_set.dir().join("films"), (&film, 1), (&film, BULKS))?;
    let testbed = Testbed::reel(&reel, disk_set, &films)?;
    let ahead_s = (crowd.over + crowd.buffer).as_secs_f64().min(crowd.film_s as f64);
    let wave_bytes = film_bytes as f64 / crowd.film_s as f64 * ahead_s;
    report.note(format!(
        "{} viewers of one title of {} s and {:.1} MB come over {} s, evenly, and fetch {} s ahead; {DISKS} {}; one wave front is {:.1} MB; \
         no viewer is refused (admission is off), since each run has only the memory that it is to show",
        crowd.viewers,
        crowd.film_s,
        film_bytes as f64 / 1e6,
        crowd.over.as_secs(),
        crowd.buffer.as_secs(),
        Kind::Plain.words(),
        wave_bytes / 1e6,
    ));
    let (alone, spare_buffers) = one_viewer(&testbed, &films, crowd, film_bytes, report)?;
    for part in &arguments.parts {
        let held_by_downloads = match part {
            Part::Crowd => 0,
            Part::Beside => crowd.downloads as u64 * DOWNLOAD_BUFFERS,
        };
        let for_readers = (wave_bytes * MEMORY_GIVEN) as u64 / BUFFER_BYTES + held_by_downloads;
        let start = |spare_buffers: u64| {
            testbed.start_reel(
                &Settings::without_admission().in_memory((for_readers + spare_buffers) * BUFFER_BYTES),
            )
        };
        // What a server keeps from viewers depends on how much it has.
        let mut playing = start(spare_buffers)?;
        let kept = buffers_kept(&playing)?;
        if kept != spare_buffers {
            drop(playing);
            playing = start(kept)?;
        }
        let case = match part {
            Part::Crowd => "crowd",
            Part::Beside => "crowd beside downloads",
        };
        report.note(format!(
            "{case}: viewers have {MEMORY_GIVEN} wave fronts, {:.1} MB in {for_readers} buffers, of which downloads hold {held_by_downloads}; {} \
             more are for ingest and decoding",
            (for_readers * BUFFER_BYTES) as f64 / 1e6,
            buffers_kept(&playing)?
        ));
        let downloads = if *part == Part::Beside { crowd.downloads } else { 0 };
        let cost = watch(&playing, plan(&playing, &films, crowd, downloads))?;
        row(report, case, crowd.viewers, &cost);
        let viewers = &cost.outcome.viewers;
        let words = format!("{case} of {}", crowd.viewers);
        report.claim(Claim::at_most(
            format!("{words}: disk bytes / one viewer's"),
            cost.disk_bytes / alone,
            DISK_MAX,
        ));
        if *part == Part::Crowd {
            let share = cost.memory_bytes / wave_bytes;
            report.claim(Claim::at_most(format!("{words}: memory / one wave front"), share, MEMORY_MAX));
        }
        report.claim(Claim::at_most(format!("{words}: late bytes"), viewers.late_bytes as f64, 0.0));
        let missing = crowd.viewers as f64 - viewers.started as f64;
        report.claim(Claim::at_most(format!("{words}: viewers that saw nothing"), missing, 0.0));
    }
    Ok(())
}

/// What one viewer has read from the disks, and how many buffers a server keeps from viewers. The
/// viewer fetches the whole title at once.
fn one_viewer(
    testbed: &Testbed,
    films: &Films,
    crowd: &Crowd,
    film_bytes: u64,
    report: &mut Report,
) -> Result<(f64, u64)> {
    // Memory is no matter here: more than the film.
    let playing =
        testbed.start_reel(&Settings::without_admission().in_memory(film_bytes * 2 + (64 << 20)))?;
    let whole = Duration::from_secs(crowd.film_s * 2);
    let viewing = Viewing::Hls(Hls { buffer: whole, ..Hls::default() });
    let seconds = Duration::from_secs(if crowd.film_s < 20 { 2 } else { 5 });
    let plan = Plan { viewing, duration: Some(seconds), ..Plan::players(playing.playlists(films), 1) };
    let cost = watch(&playing, plan)?;
    row(report, "one viewer", 1, &cost);
    let got = cost.outcome.viewers.bytes as f64;
    ensure!(got > film_bytes as f64 * 0.9, "one viewer got {got} of {film_bytes} bytes in {seconds:?}");
    Ok((cost.disk_bytes, buffers_kept(&playing)?))
}

/// Buffers that a server keeps from viewers.
fn buffers_kept(playing: &Playing) -> Result<u64> {
    let page = api::text(playing.server.address, "/metrics")?;
    let buffers = sum(&page, "reel_arena_size_bytes", "")? as u64 / BUFFER_BYTES;
    Ok(buffers.saturating_sub(sum(&page, "reel_buffers_reservable", "")? as u64))
}

fn plan(playing: &Playing, films: &Films, crowd: &Crowd, downloads: usize) -> Plan {
    let urls = if downloads > 0 { playing.downloads(films) } else { Vec::new() };
    Plan {
        viewing: Viewing::Hls(Hls { buffer: crowd.buffer, ..Hls::default() }),
        downloads: Reading { clients: downloads, urls, ..Reading::default() },
        arrivals: Arrivals { over: crowd.over, shape: ArrivalShape::Uniform },
        // It ends when every viewer has seen the title once.
        ..Plan::players(playing.playlists(films), crowd.viewers)
    }
}

/// Plays a plan, and looks at the server's memory every second.
fn watch(playing: &Playing, plan: Plan) -> Result<Cost> {
    let address = playing.server.address;
    let before = api::text(address, "/metrics")?;
    let process_before = process_bytes(playing)?;
    let (mut memory_bytes, mut reserved) = (0.0, 0.0);
    let mut look = |page: &str| -> Result<()> {
        memory_bytes = f64::max(memory_bytes, sum(page, "reel_arena_taken_bytes", "")?);
        reserved = f64::max(reserved, sum(page, "reel_buffers_reserved", "")?);
        Ok(())
    };
    let mut looked = Ok(());
    let outcome = Fleet::start(plan)?.wait(|_| {
        if looked.is_ok() {
            looked = api::text(address, "/metrics").and_then(|page| look(&page));
        }
    })?;
    looked?;
    ensure!(!outcome.interrupted, "interrupted");
    let after = api::text(address, "/metrics")?;
    look(&after)?;
    let grown = |name: &str, label: &str| -> Result<f64> {
        Ok(sum(&after, name, label)? - sum(&before, name, label)?)
    };
    let download_disk_bytes = grown("reel_member_class_bytes_total", "class=\"aperiodic\"")?;
    Ok(Cost {
        disk_bytes: grown("reel_member_read_bytes_total", "")? - download_disk_bytes,
        download_disk_bytes,
        process_bytes: process_bytes(playing)? - process_before,
        memory_bytes,
        reserved_bytes: reserved * BUFFER_BYTES as f64,
        outcome,
    })
}

fn row(report: &mut Report, case: &str, viewers: usize, cost: &Cost) {
    let seen = &cost.outcome.viewers;
    let values = [
        ("disk_mb", cost.disk_bytes / 1e6),
        ("download_disk_mb", cost.download_disk_bytes / 1e6),
        ("process_read_mb", cost.process_bytes / 1e6),
        ("memory_mb", cost.memory_bytes / 1e6),
        ("reserved_mb", cost.reserved_bytes / 1e6),
        ("sent_mb", seen.bytes as f64 / 1e6),
        ("late_bytes", seen.late_bytes as f64),
        ("stalls", seen.stalls as f64),
        ("failed", seen.failed as f64),
        ("started", seen.started as f64),
        ("startup_p99_ms", seen.startup_ms.p99),
        ("client_p99_ms", cost.outcome.client.tick_late_ms.p99),
    ];
    report.row(case, "reel", viewers as f64, 0, &values);
}

/// The sum of a metric over all of its labels that contain `label`.
fn sum(page: &str, name: &str, label: &str) -> Result<f64> {
    let value = |line: &str| -> Option<f64> {
        let rest = line.strip_prefix(name)?;
        let rest = rest
            .strip_prefix(' ')
            .or_else(|| rest.strip_prefix('{').filter(|labels| labels.contains(label)))?;
        rest.rsplit(' ').next()?.parse().ok()
    };
    let values: Vec<f64> = page.lines().filter_map(value).collect();
    ensure!(!values.is_empty(), "the server tells no {name}");
    Ok(values.into_iter().sum())
}

/// Bytes that the server has fetched from storage, as the kernel counts them (proc(5),
/// `read_bytes`).
fn process_bytes(playing: &Playing) -> Result<f64> {
    let mut bytes = 0.0;
    for pid in playing.server.processes()? {
        let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
        let line = io.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        bytes += line.context("no read_bytes in /proc/PID/io")?.parse::<f64>()?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_by_label() {
        let page =
            "# HELP a Bytes.\na{member=\"0\",class=\"x\"} 1\na{member=\"1\",class=\"y\"} 2\nab 9\nb 4\n";
        assert_eq!(sum(page, "a", "").unwrap(), 3.0);
        assert_eq!(sum(page, "a", "class=\"y\"").unwrap(), 2.0);
        assert_eq!(sum(page, "b", "").unwrap(), 4.0);
        assert!(sum(page, "c", "").is_err());
    }
}
