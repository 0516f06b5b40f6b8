//! `nfs`: a player that reads a film by NFS beside other readers, from Reel and from nfs-ganesha
//! (Prism, figures 10 and 11).
//!
//! Both serve the same films from modelled disks, in a network name space of the experiment's own:
//! ganesha needs a port mapper.

mod client;
mod files;
mod ganesha;
mod over_http;
mod reading;
mod trace;

use crate::disk_set::{DiskSet, Kind, modelled};
use crate::film;
use crate::reel::{self, Settings};
use crate::server::free_address;
use crate::testbed::{Films, Testbed};
use anyhow::{Context, Result};
use client::Mount;
use files::{Files, Who};
use ganesha::Ganesha;
use over_http::OverHttp;
use reading::{Load, Seen, read_beside};
use reel_report::{Chart, Claim, CommonOptions, Report};
use reel_wire::space::{Space, ip};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The options of `nfs`.
#[derive(clap::Args)]
pub(crate) struct NfsArguments {
    /// `--seconds` is how long players play in each case (30).
    #[command(flatten)]
    common: CommonOptions,
    /// Readers without a deadline of figure 10, one number after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [80, 160, 240])]
    loads: Vec<usize>,
    /// Readers without a deadline of figure 11, one number after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 12, 16, 20])]
    readers: Vec<usize>,
    /// Clients for which a person waits of figure 7, one number after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16])]
    people: Vec<usize>,
    /// Reel alone.
    #[arg(long)]
    alone: bool,
}

const DISKS: usize = 3;
const RATE_BPS: u64 = 8_000_000;
/// Films that are read without a deadline, and their length: more than a server has memory for.
const BULKS: usize = 6;
const BULK_S: u64 = 900;

/// Clients that read at once.
struct Case {
    figure: &'static str,
    way: Way,
    players: usize,
    people: usize,
    readers: usize,
    /// What the figure is drawn over.
    at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Nfs,
    Http,
}

const FIGURE_10: &str = "figure 10";
const FIGURE_11: &str = "figure 11";
const FIGURE_7: [(&str, Way); 2] = [("figure 7 by NFS", Way::Nfs), ("figure 7 by HTTP", Way::Http)];
/// Of figure 7: its players, and its readers without a deadline.
const BESIDE_PEOPLE: (usize, usize) = (3, 8);
const PLAYERS_MAX: usize = 3;

/// Runs it.
pub(crate) fn run(arguments: &NfsArguments) -> Result<()> {
    let mut report = Report::new("nfs");
    let (readers, people) = ("readers without a deadline", "clients for which a person waits");
    report.charts = vec![
        Chart { case: FIGURE_10, at: readers, value: "late" },
        Chart { case: FIGURE_11, at: readers, value: "interactive_p99_ms" },
        Chart { case: FIGURE_7[0].0, at: people, value: "interactive_median_ms" },
    ];
    report.fill(&arguments.common, |report| {
        if !rustix::process::geteuid().is_root() {
            report.note("skipped: modelled disks and a network name space need root");
            return Ok(());
        }
        let space = Space::make()?;
        space.inside(|| ip(&["link", "set", "lo", "up"]))?;
        space.inside(|| measure(arguments, report))
    })
}

fn measure(all: &NfsArguments, report: &mut Report) -> Result<()> {
    let common = &all.common;
    let reel = reel::binary(common.reel.as_deref())?;
    let dir = common.make_dir()?;
    let seconds = common.seconds.unwrap_or(if common.quick { 4 } else { 30 });
    let stream = film::varying(&dir, seconds + 30, RATE_BPS)?;
    let bulk = film::varying(&dir, if common.quick { 10 } else { BULK_S }, RATE_BPS)?;
    let bytes = fs::metadata(&stream)?.len() * PLAYERS_MAX as u64 + fs::metadata(&bulk)?.len() * BULKS as u64;
    let kind = modelled(common, report)?;
    let make = || -> Result<(DiskSet, Films)> {
        let disk_set = DiskSet::make(&dir, kind, DISKS, Films::disk_bytes(bytes, DISKS))?;
        let films = Films::make(&disk_set.dir().join("films"), (&stream, PLAYERS_MAX), (&bulk, BULKS))?;
        Ok((disk_set, films))
    };
    report.note(format!(
        "{DISKS} {}; players read films of {} Mb/s in blocks of {} KiB by their frames, with a buffer of 2.5 s, for {seconds} s; readers \
         without a deadline read 64 KiB at random places of {BULKS} films one after another; clients for which a person waits read \
         4 to 12 KiB at random, {} ms apart; figure 7 has {} players and {} readers",
        kind.words(),
        RATE_BPS as f64 / 1e6,
        client::BLOCK_BYTES / 1024,
        reading::PAUSE.as_millis(),
        BESIDE_PEOPLE.0,
        BESIDE_PEOPLE.1
    ));
    let runs = common.runs.unwrap_or(1);
    let lasts = Duration::from_secs(seconds);
    {
        let (disk_set, films) = make()?;
        let testbed = Testbed::reel(&reel, disk_set, &films)?;
        if kind == Kind::Modelled {
            testbed.probe(if common.quick { 1 } else { 5 })?;
        }
        for run in 0..runs {
            for case in cases(all) {
                let seen = play_from_reel(&testbed, &case, lasts, &films)?;
                report.row(case.figure, "reel", case.at as f64, run, &seen.values());
            }
        }
    }
    if kind == Kind::Modelled && !all.alone {
        let (disk_set, films) = make()?;
        let testbed = Testbed::ext4(disk_set, &films, None)?;
        for run in 0..runs {
            for case in cases(all).into_iter().filter(|case| case.way == Way::Nfs) {
                let ganesha = Ganesha::start(&testbed)?;
                let connect = |who| Ok(Box::new(ganesha.mount()?.by(who)) as Box<dyn Files>);
                let seen = read_beside(&case.load(lasts, &films), ganesha.process()?, &connect)?;
                report.row(case.figure, "ganesha", case.at as f64, run, &seen.values());
            }
        }
    }
    claims(all, report, all.alone || kind != Kind::Modelled);
    Ok(())
}

fn play_from_reel(testbed: &Testbed, case: &Case, lasts: Duration, films: &Films) -> Result<Seen> {
    let nfs = free_address()?;
    let playing = testbed.start_reel(&Settings { nfs: Some(nfs), ..Settings::with_admission() })?;
    let (way, http) = (case.way, playing.server.address);
    let connect = |who| -> Result<Box<dyn Files>> {
        Ok(match way {
            Way::Http => Box::new(OverHttp::connect(http, who)?),
            Way::Nfs => {
                let path = if who == Who::Reader { "/copy" } else { "/play" };
                Box::new(Mount::of(nfs, nfs, path)?.by(who))
            }
        })
    };
    let server = *playing.server.processes()?.first().context("the server has ended")?;
    read_beside(&case.load(lasts, films), server, &connect)
}

impl Case {
    fn load<'a>(&self, lasts: Duration, films: &'a Films) -> Load<'a> {
        Load { players: self.players, people: self.people, readers: self.readers, lasts, films }
    }
}

/// All cases in their order.
fn cases(all: &NfsArguments) -> Vec<Case> {
    let some = |counts: &[usize]| {
        counts[..if all.common.quick { 2.min(counts.len()) } else { counts.len() }].to_vec()
    };
    let mut cases = Vec::new();
    for (figure, readers, players, people) in [(FIGURE_10, &all.loads, 1, 0), (FIGURE_11, &all.readers, 2, 3)]
    {
        cases.extend(some(readers).into_iter().map(|readers| Case {
            figure,
            way: Way::Nfs,
            players,
            people,
            readers,
            at: readers,
        }));
    }
    for (figure, way) in FIGURE_7 {
        let (players, readers) = BESIDE_PEOPLE;
        let case = |people| Case { figure, way, players, people, readers, at: people };
        cases.extend(some(&all.people).into_iter().map(case));
    }
    cases
}

fn claims(all: &NfsArguments, report: &mut Report, is_alone: bool) {
    let late_of = |report: &Report, system: &str| -> f64 {
        let of_system = report.rows.iter().filter(|row| row.system == system);
        of_system.filter_map(|row| row.values.get("late")).sum()
    };
    let late = late_of(report, "reel");
    report.claim(Claim::at_most("blocks of players late, Reel".to_owned(), late, 0.0));
    let of = |report: &Report, figure: &str, at: usize, system: &str, value: &str| {
        report.median_or_nan(figure, system, at as f64, value)
    };
    let (least, most) = (all.readers.iter().min(), all.readers.iter().max());
    if let (Some(&least), Some(&most), false) = (least, most, all.common.quick) {
        let p99 = |report: &Report, at| of(report, FIGURE_11, at, "reel", "interactive_p99_ms");
        let growth = p99(report, most) / p99(report, least);
        let claim = format!("interactive p99 beside {most} readers / beside {least}, Reel");
        report.claim(Claim::at_most(claim, growth, 1.25));
    }
    // The short films of a quick run lie in memory, where nothing waits for a disk.
    let figures = if all.common.quick { &[][..] } else { &FIGURE_7[..] };
    for &(figure, _) in figures {
        let people = cases(all).into_iter().filter(|case| case.figure == figure);
        let ratio = people.map(|case| {
            let median = |value| of(report, figure, case.at, "reel", value);
            median("interactive_median_ms") / median("readers_median_ms")
        });
        let most = ratio.fold(0.0, f64::max);
        let claim = format!("{figure}: median response of people / of readers, the largest, Reel");
        report.claim(Claim::at_most(claim, most, 0.5));
    }
    if is_alone {
        return;
    }
    let late = late_of(report, "ganesha");
    report.claim(Claim::at_least("blocks of players late, ganesha".to_owned(), late, 1.0));
    let most = cases(all).iter().filter(|case| case.figure == FIGURE_11).map(|case| case.at).max();
    let cpu = |system| of(report, FIGURE_11, most.unwrap_or(0), system, "cpu_s_per_gb");
    let cpu = cpu("reel") / cpu("ganesha");
    report.claim(Claim::at_most("processor time for a GB, Reel / ganesha".to_owned(), cpu, 1.0));
}

/// The name of the file of a film.
fn file_name(film: &Path) -> Result<&str> {
    film.file_name().and_then(|name| name.to_str()).context("a film without a name")
}
