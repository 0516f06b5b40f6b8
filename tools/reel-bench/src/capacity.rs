//! `capacity`: what Reel says a healthy volume carries, against the number of players at which the
//! first byte is late.
//!
//! Every viewer is admitted, and nothing else runs. Players come evenly over the length of a film
//! and begin another one when theirs has ended, so after that the volume carries the same at any
//! time, as long as the measurement continues: a few viewers too many for the disks lives on what
//! was read ahead for a while. A film is as long as it takes the server to forget it, and there is
//! one for each player.

use crate::classes::DISKS;
use crate::disk_set::{DiskSet, Kind, modelled};
use crate::film;
use crate::fleet::{Mix, players_plan, run as play};
use crate::reel::{self, Settings};
use crate::search::{Search, ninth_more};
use crate::testbed::{Films, Testbed};
use anyhow::{Context, Result};
use clap::ValueEnum;
use reel_load::{ArrivalShape, Arrivals, Hls, Viewing};
use reel_report::{Chart, Claim, CommonOptions, Report};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The options of `capacity`.
#[derive(clap::Args)]
pub(crate) struct CapacityArguments {
    #[command(flatten)]
    common: CommonOptions,
    /// The kinds of member that are measured.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Members::Disks, Members::Flash, Members::Throttled])]
    members: Vec<Members>,
    /// Seconds of `reel probe` at the beginning.
    #[arg(long, default_value_t = 60)]
    probe_seconds: u64,
    /// Precision of the search: it ends when the interval is at most one part in so many of the
    /// result.
    #[arg(long, default_value_t = 50)]
    fineness: usize,
    /// Only these numbers of players, instead of a search.
    #[arg(long, value_delimiter = ',')]
    players: Vec<usize>,
}

/// What viewers watch.
const RATE_BPS: u64 = 6_000_000;

/// How long a film lasts: ten segments. Until it is read again, much more has passed through memory
/// than there is of it beside what players hold. (What is left over serves its part of the viewers
/// even so: it is not known which will be asked for, and a cycle is kinder to that than to the
/// order of last use.)
const FILM_S: u64 = 40;

/// What players hold: the segment that is shown and the one that is fetched. With more, an overload
/// shows only after minutes.
const BUFFER: Duration = Duration::from_secs(4);

/// How often a number is tried again at which the fleet itself was as late as what came late.
const DISTURBED_MAX: usize = 1;

/// Kinds of member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Members {
    /// Modelled hard disks: seeks cost more than transfers.
    #[value(alias = "arms")]
    Disks,
    /// Loop devices limited in bytes only, like solid state disks.
    Flash,
    /// Loop devices limited in bytes and in requests, like cloud volumes.
    Throttled,
}

/// What was seen with a number of players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing was late.
    Well,
    Late,
    /// Something was, by no more than the players' own threads were.
    LateFleet,
}

struct Trial {
    name: &'static str,
    kind: Kind,
    /// As many as there can be players.
    films: usize,
    /// Of the server: far less than all films, more than all players hold.
    memory_bytes: u64,
}

/// Runs the experiment.
pub(crate) fn run(arguments: &CapacityArguments) -> Result<()> {
    let mut report = Report::new("capacity");
    let charts = arguments.members.iter().map(|members| members.trial().name);
    report.charts = charts.map(|case| Chart { case, at: "players", value: "late_bytes" }).collect();
    let common = &arguments.common;
    report.fill(common, |report| {
        let possible = modelled(common, report)?;
        if possible == Kind::Plain {
            let trial = Trial { kind: Kind::Plain, ..Members::Flash.trial() };
            return measure(arguments, &trial, report);
        }
        arguments.members.iter().try_for_each(|members| measure(arguments, &members.trial(), report))
    })
}

impl Members {
    fn trial(self) -> Trial {
        let throttled = |read_iops| Kind::Throttled { read_bps: 20_000_000, read_iops };
        let (name, kind, films, memory_bytes) = match self {
            Self::Disks => ("modelled disks", Kind::Modelled, 420, 2 << 30),
            Self::Flash => ("flash", throttled(20_000), 160, 704 << 20),
            Self::Throttled => ("throttled", throttled(100), 160, 704 << 20),
        };
        Trial { name, kind, films, memory_bytes }
    }
}

fn measure(arguments: &CapacityArguments, trial: &Trial, report: &mut Report) -> Result<()> {
    let common = &arguments.common;
    let reel = reel::binary(common.reel.as_deref())?;
    let dir = common.make_dir()?;
    let quick = common.quick;
    let seconds = common.seconds.unwrap_or(if quick { 2 } else { 180 });
    let (testbed, films, rate_bps) = testbed(&dir, &reel, trial, quick)?;
    testbed.probe(if quick { 1 } else { arguments.probe_seconds })?;
    let predicted = predict(&testbed, trial, rate_bps, report)?;
    // As many players as films: two at one place of a film cost the disks one.
    let (from, most) = if quick { (2, 2) } else { (predicted.clamp(1, trial.films), trial.films) };
    let mut search = Search::new(from, most, arguments.fineness, ninth_more);
    let mut asked = arguments.players.iter().map(|&players| players.min(trial.films)).peekable();
    let is_asked = asked.peek().is_some();
    let mut disturbed = 0;
    while let Some(viewers) = if is_asked { asked.peek().copied() } else { search.next() } {
        let seen = play_for(&testbed, &films, trial, (viewers, seconds), report)?;
        if seen == Seen::LateFleet && disturbed < DISTURBED_MAX {
            disturbed += 1;
            report.note(format!("{}: {viewers} players again: the fleet itself was as late", trial.name));
            continue;
        }
        disturbed = 0;
        asked.next();
        search.report(viewers, (seen == Seen::Well).then_some(viewers));
        if quick {
            break;
        }
    }
    let name = trial.name;
    match search.fails {
        Some(late) => report.claim(Claim::at_least(
            format!("{name}: predicted {} / first late byte at {late}", predicted),
            predicted as f64 / late as f64,
            0.9,
        )),
        None => report.note(format!(
            "{name}: nothing was late up to {} players, which were all that were tried",
            search.carried
        )),
    }
    if is_asked && search.carried == 0 {
        report.note(format!("{name}: fewer players were not tried, so nothing is said of what is carried"));
        return Ok(());
    }
    report.claim(Claim::at_most(
        format!("{name}: predicted {} / most without a late byte {}", predicted, search.carried),
        predicted as f64 / search.carried.max(1) as f64,
        1.0,
    ));
    Ok(())
}

fn predict(testbed: &Testbed, trial: &Trial, rate_bps: u64, report: &mut Report) -> Result<usize> {
    let volume = testbed.volume().context("a testbed of Reel has a volume")?;
    let answer = volume.capacity(&Settings::with_admission().in_memory(trial.memory_bytes), rate_bps)?;
    let carried = answer["viewers_carried"].as_u64().context("no viewers that are carried in the answer")?;
    let stopped = |field: &str| match (answer[field]["resource"].as_str(), answer[field]["member"].as_u64()) {
        (Some(resource), Some(member)) => format!("{resource} {member}"),
        (Some(resource), None) => resource.to_owned(),
        (None, _) => "nothing".to_owned(),
    };
    let stopped_by = stopped("carried_stopped_by");
    report.note(format!(
        "{}: {DISKS} {}, {} films of {FILM_S} s and {:.2} Mb/s, {} MiB of memory; Reel says it carries {carried}, then {stopped_by} is used \
         up; it promises {}, then {} is used up",
        trial.name,
        trial.kind.words(),
        trial.films,
        rate_bps as f64 / 1e6,
        trial.memory_bytes >> 20,
        answer["viewers"],
        stopped("stopped_by"),
    ));
    Ok(usize::try_from(carried)?)
}

/// Plays so many viewers for so many seconds after the last of them has come.
fn play_for(
    testbed: &Testbed,
    films: &Films,
    trial: &Trial,
    (viewers, seconds): (usize, u64),
    report: &mut Report,
) -> Result<Seen> {
    let playing = testbed.start_reel(&Settings::without_admission().in_memory(trial.memory_bytes))?;
    let mix = Mix { streams: viewers, aperiodic: 0, interactive: 0, rate_bps: RATE_BPS, seconds };
    let mut plan = players_plan(&playing, films, mix)?;
    let over = Duration::from_secs(seconds.min(FILM_S));
    plan.viewing = Viewing::Hls(Hls { buffer: BUFFER, ..Hls::default() });
    plan.arrivals = Arrivals { over, shape: ArrivalShape::Uniform };
    plan.duration = Some(over + Duration::from_secs(seconds));
    let (outcome, disk) = testbed.disk_set.watched(|| play(&plan))?;
    let (seen, fleet_ms) = (&outcome.viewers, &outcome.client.tick_late_ms);
    let mut values = vec![
        ("late_bytes", seen.late_bytes as f64),
        ("late_segments", seen.late_segments as f64),
        ("latest_ms", seen.latest_s * 1e3),
        ("first_late_s", seen.first_late_s.unwrap_or(-1.0)),
        ("segments", seen.segments as f64),
        ("failed", seen.failed as f64),
        ("startup_p50_ms", seen.startup_ms.p50),
        ("startup_p99_ms", seen.startup_ms.p99),
        ("media_mbps", seen.mbit_per_s),
        ("client_p99_ms", fleet_ms.p99),
        ("client_max_ms", fleet_ms.max),
    ];
    values.extend(disk);
    report.row(trial.name, "reel", viewers as f64, 0, &values);
    Ok(match seen.late_bytes {
        _ if seen.failed > 0 => Seen::Late,
        0 => Seen::Well,
        // What came late while the fleet slept says nothing of the server.
        _ if seen.latest_s * 1e3 <= fleet_ms.max => Seen::LateFleet,
        _ => Seen::Late,
    })
}

/// Films on disks, and their rate: what was asked for and what their containers add.
fn testbed(dir: &Path, reel: &Path, trial: &Trial, quick: bool) -> Result<(Testbed, Films, u64)> {
    let length_s = if quick { 5 } else { FILM_S };
    let film = film::constant(dir, length_s, RATE_BPS)?;
    let count = if quick { 2 } else { trial.films };
    let film_bytes = fs::metadata(&film)?.len();
    let disk_bytes = Films::disk_bytes(film_bytes * (count as u64 + 1), DISKS);
    let disk_set = DiskSet::make(dir, trial.kind, DISKS, disk_bytes)?;
    let films = Films::make(&disk_set.dir().join("films"), (&film, count), (&film, 1))?;
    Ok((Testbed::reel(reel, disk_set, &films)?, films, film_bytes * 8 / length_s))
}
