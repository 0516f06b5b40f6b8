//! `viewers`: the highest number of viewers of 5 Mb/s with nothing late, Reel beside its rivals,
//! alone and with bulk downloads and an ingest beside.
//!
//! A number is carried if nothing is late by the viewers' own schedules, no viewer failed, and as
//! much arrived as was played while all viewers played: otherwise only their buffers last. Reel
//! refuses viewers whose film it cannot reserve; refused viewers are not carried. Numbers are
//! doubled while they are carried, then halved in between. All servers take turns.

mod disk;
mod measured_disks;
mod probe;
mod reservations;

use crate::film;
use crate::peers::material::{Material, MaterialSpec};
use crate::peers::{Net, OwnServer, System};
use crate::reel;
use crate::rival::Against;
use crate::search::{FINENESS, Search, doubled};
use anyhow::{Context, Result};
use clap::ValueEnum;
use disk::{Disk, Reading};
use probe::{BUFFER, Probe, Probed, Times};
use reel_report::{Chart, Claim, CommonOptions, Report};
use reel_wire::Wire;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::time::{Duration, Instant};

/// The options of `viewers`.
#[derive(clap::Args)]
pub(crate) struct ViewersArguments {
    #[command(flatten)]
    common: CommonOptions,
    /// The networks that servers send over.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Net::Wire, Net::Loopback])]
    nets: Vec<Net>,
    /// Other traffic: none, or ten downloads and films that are ingested.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Beside::Nothing, Beside::Bulk])]
    beside: Vec<Beside>,
    /// What is measured beside the rivals; `reel-open` admits every viewer.
    #[arg(long, value_enum, value_delimiter = ',', alias = "who", default_values_t = [OwnServer::Reel, OwnServer::ReelOpen])]
    servers: Vec<OwnServer>,
    #[command(flatten)]
    against: Against,
    /// Where the search begins.
    #[arg(long, default_value_t = 512)]
    viewers_from: usize,
    /// The most viewers that are tried.
    #[arg(long, default_value_t = 8192)]
    viewers_max: usize,
    /// Titles that are watched; two more are only downloaded.
    #[arg(long, default_value_t = 30)]
    titles: usize,
    /// Size of a title in MiB.
    #[arg(long, default_value_t = 256)]
    title_mib: u64,
    /// Memory of a server in MiB: Reel's arena; for a rival, all memory with the page cache. Less
    /// than all titles.
    #[arg(long, default_value_t = 4096)]
    memory_mib: u64,
    /// Reel's share of disk time for streams, in thousandths; interactive clients and downloads get
    /// the rest. Default: the server's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=998))]
    streams_permille: Option<u32>,
    /// Rate at which films arrive, in Mb/s.
    #[arg(long, default_value_t = 800)]
    ingest_mbps: u64,
    /// Round trip between the server and a viewer on the wire, in milliseconds.
    #[arg(long, default_value_t = 20)]
    rtt_ms: u64,
    /// Window of a viewer on the wire, in KiB.
    #[arg(long, default_value_t = 1024)]
    window_kib: u32,
    /// Seconds of `reel probe` at the beginning; 0: use the present profiles of the disks.
    #[arg(long, default_value_t = 10)]
    probe_seconds: u64,
    /// Time for the whole experiment, in seconds. No measurement is started that would exceed it; a
    /// search that is incomplete says so.
    #[arg(long, default_value_t = 3600)]
    budget_seconds: u64,
    /// Only make the titles.
    #[arg(long)]
    prepare: bool,
}

/// What viewers watch.
const RATE_BPS: u64 = 5_000_000;

/// What else runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Beside {
    /// Viewers alone.
    #[value(alias = "nobody")]
    Nothing,
    /// Ten downloads, and films that are ingested.
    Bulk,
}

struct Case {
    name: &'static str,
    net: Net,
    beside: Beside,
    /// Reel carries at least so many times what the best peer does.
    bar: f64,
}

const CASES: [Case; 4] = [
    Case { name: "wire, alone", net: Net::Wire, beside: Beside::Nothing, bar: 1.2 },
    Case { name: "wire, bulk beside", net: Net::Wire, beside: Beside::Bulk, bar: 2.0 },
    Case { name: "loopback, alone", net: Net::Loopback, beside: Beside::Nothing, bar: 1.2 },
    Case { name: "loopback, bulk beside", net: Net::Loopback, beside: Beside::Bulk, bar: 2.0 },
];

/// Reel carries at least this part of what the resource that stops it allows.
const ALLOWED_BAR: f64 = 0.9;

/// What fails while others use more processors than this says nothing of the server...
const OTHERS_CPUS_MAX: f64 = 1.0;
/// ...and is tried again, so often in a search.
const DISTURBED_MAX: usize = 2;

/// What a quick run tries: Reel, and the first setup of the first rival.
fn quick_selection(systems: &[System]) -> Vec<System> {
    let rival = systems.iter().copied().find(|system| system.is_rival());
    systems.iter().copied().filter(|&system| system == System::REEL).chain(rival).collect()
}

/// Memory of a server that is only tried: for a handful of viewers and an ingest, on a machine that
/// has other things to do.
const QUICK_MEMORY_MIB: u64 = 256;

/// Room on the disks for films that arrive while others are played, and where it is only tried.
const ARRIVING_BYTES: u64 = 3 << 30;
const QUICK_ARRIVING_BYTES: u64 = 512 << 20;

/// What it takes to start a server and to end it.
const STARTS: Duration = Duration::from_secs(5);

/// Runs the experiment.
pub(crate) fn run(arguments: &ViewersArguments) -> Result<()> {
    let mut report = Report::new("viewers");
    let charts = CASES.iter().map(|case| Chart { case: case.name, at: "viewers", value: "carried" });
    report.charts = charts.collect();
    report.fill(&arguments.common, |report| measure(arguments, report))
}

fn measure(arguments: &ViewersArguments, report: &mut Report) -> Result<()> {
    let common = &arguments.common;
    let reel = reel::binary(common.reel.as_deref())?;
    let dir = common.make_dir()?;
    let Some(wire) = crate::peers::wire(common.quick, report)? else { return Ok(()) };
    let mut systems = System::all(&arguments.servers, &arguments.against)?;
    if common.quick {
        systems = quick_selection(&systems);
    }
    raise_descriptors()?;
    let (title_mib, titles) = if common.quick { (24, 2) } else { (arguments.title_mib, arguments.titles) };
    let arriving_bytes = if common.quick { QUICK_ARRIVING_BYTES } else { ARRIVING_BYTES };
    let wanted = MaterialSpec {
        name: "viewers",
        rate_bps: RATE_BPS,
        film: film::constant,
        title_mib,
        titles,
        bulk: 2,
        arriving_bytes,
    };
    let material = Material::make(&dir, &reel, &wanted)?;
    if arguments.prepare {
        report.note("the titles are there; nothing was measured");
        return Ok(());
    }
    let probe_s = if common.quick { 1 } else { arguments.probe_seconds };
    if probe_s > 0 {
        report.note(measured_disks::measure(&reel, &material.volume, probe_s)?);
    }
    let memory_mib = if common.quick { QUICK_MEMORY_MIB } else { arguments.memory_mib };
    let film = fs::read(&material.film)?;
    let times = if common.quick { Times::quick() } else { Times::of(common.seconds.unwrap_or(8)) };
    report.note(format!(
        "films of {} Mb/s in segments of 4 s, {titles} titles of {title_mib} MiB, viewers at equal distances in them, so that none follows \
         another closely; {} MiB of memory for each server; on the wire {} ms there and back and windows of {} KiB; each number is \
         tried for {} s: viewers come over {} s, the picture moves {} s after a viewer came whatever has arrived, a viewer holds {} s at most, and \
         the last {} s are counted apart: what comes in them must be {} of what is played; TCP by {}",
        RATE_BPS / 1_000_000,
        memory_mib,
        arguments.rtt_ms,
        arguments.window_kib,
        times.all().as_secs_f64(),
        times.arrivals.as_secs_f64(),
        times.startup.as_secs_f64(),
        BUFFER.as_secs(),
        times.settled.as_secs_f64(),
        times.kept_up,
        fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default().trim()
    ));
    let shares = arguments
        .streams_permille
        .map(|permille| format!(", and {permille} thousandths of the disks for streams"));
    report.note(format!(
        "Reel with everything at its default but arena_bytes and sessions_max{}; \"reel, open\" also without admission. Refused is not carried",
        shares.unwrap_or_default()
    ));
    let disk = Disk::below(&material.dir)?;
    let probe =
        Probe { arguments, material: &material, film: &film, times, memory_bytes: memory_mib << 20, disk };
    let mut bench =
        Bench { arguments, systems, report, probe, wire, begun: Instant::now(), disk_bytes_per_s: 0.0 };
    let asked = |case: &&Case| arguments.nets.contains(&case.net) && arguments.beside.contains(&case.beside);
    // A quick run takes the case with everything in it: bulk beside.
    let in_quick_run = |case: &&Case| !common.quick || case.beside == Beside::Bulk;
    CASES.iter().filter(asked).filter(in_quick_run).try_for_each(|case| bench.case(case))
}

struct Bench<'a> {
    arguments: &'a ViewersArguments,
    systems: Vec<System>,
    report: &'a mut Report,
    probe: Probe<'a>,
    wire: Wire,
    begun: Instant,
    /// The highest rate that any system got from the disk in this case.
    disk_bytes_per_s: f64,
}

/// The search of one server.
struct Runner {
    system: System,
    search: Search,
    /// Numbers that were tried again since others were busy.
    disturbed: usize,
    /// At the most that were carried.
    best: Option<Probed>,
    /// At the least that were not.
    failed: Option<Probed>,
}

impl Bench<'_> {
    fn case(&mut self, case: &Case) -> Result<()> {
        let quick = self.arguments.common.quick;
        let (from, most) =
            if quick { (4, 8) } else { (self.arguments.viewers_from, self.arguments.viewers_max) };
        let files = disk::files_below(&self.probe.material.www)?;
        let lasts = Duration::from_millis(if quick { 100 } else { 2000 });
        let mut ceilings = [0.0; 2];
        for (ceiling, reading) in ceilings.iter_mut().zip([Reading::Direct, Reading::Cached]) {
            crate::peers::drop_caches(quick)?;
            *ceiling = disk::ceiling(&files, reading, lasts)?;
        }
        // The disk can do what any system gets; servers may still get more.
        self.disk_bytes_per_s = ceilings[0].max(ceilings[1]);
        self.report.note(format!(
            "{}: plain readers, 8 at once, 1 MiB each: {:.0} MB/s past the page cache, {:.0} through it; {:.0} viewers",
            case.name,
            ceilings[0] / 1e6,
            ceilings[1] / 1e6,
            self.disk_bytes_per_s * 8.0 / RATE_BPS as f64
        ));
        let runs = self.arguments.common.runs.unwrap_or(1);
        for run in 0..runs {
            let mut runners: Vec<_> = self
                .systems
                .iter()
                .map(|&system| Runner {
                    system,
                    search: Search::new(from, most, FINENESS, doubled),
                    disturbed: 0,
                    best: None,
                    failed: None,
                })
                .collect();
            // In turns, so that what the machine does meanwhile hits all alike.
            while runners.iter().any(|runner| runner.search.next().is_some()) && self.has_time() {
                for runner in &mut runners {
                    if self.has_time() {
                        self.one(case, runner, run)?;
                    }
                }
                if quick {
                    break;
                }
            }
            self.conclude(case, &runners);
        }
        Ok(())
    }

    fn has_time(&self) -> bool {
        let lasts = self.probe.times.all() + STARTS;
        self.begun.elapsed() + lasts <= Duration::from_secs(self.arguments.budget_seconds)
    }

    fn one(&mut self, case: &Case, runner: &mut Runner, run: usize) -> Result<()> {
        let Some(asked) = runner.search.next() else { return Ok(()) };
        let system = runner.system;
        let probed = self.probe.run(&mut self.wire, (case.net, case.beside), system, asked, run);
        let probed = probed.with_context(|| format!("{}, {system}, {asked} viewers", case.name))?;
        for (failure, count) in &probed.failures {
            self.report.note(format!("{}, {system}, {asked}: {count} viewers failed: {failure}", case.name));
        }
        self.report.row(case.name, &system.to_string(), asked as f64, run, &probed.values());
        self.disk_bytes_per_s = self.disk_bytes_per_s.max(probed.disk_bytes_per_s());
        let carried = probed.carried();
        let others = probed.others_cpus();
        if carried.is_none() && others > OTHERS_CPUS_MAX && runner.disturbed < DISTURBED_MAX {
            runner.disturbed += 1;
            self.report.note(format!(
                "{}, {system}, {asked}: others used {others:.1} processors meanwhile; tried again",
                case.name
            ));
            return Ok(());
        }
        runner.search.report(asked, carried);
        if carried.is_some_and(|carried| carried >= runner.search.carried) {
            runner.best = Some(probed);
        } else if runner.search.fails == Some(asked) {
            runner.failed = Some(probed);
        }
        Ok(())
    }

    /// What was found, what stopped it, and whether that is what was asked for.
    fn conclude(&mut self, case: &Case, runners: &[Runner]) {
        let disk_bytes_per_s = self.disk_bytes_per_s;
        for runner in runners {
            let Search { carried, fails, .. } = runner.search;
            let open = match fails {
                _ if runner.search.next().is_some() => ", the search was not over",
                None if runner.best.as_ref().is_none_or(|best| best.refused == 0) => {
                    ", the most that is tried"
                }
                _ => "",
            };
            let stops = match (&runner.failed, &runner.best) {
                (_, Some(best)) if best.refused > 0 => best.reservations.stop(),
                (Some(failed), _) => failed.stop(disk_bytes_per_s),
                (None, _) => "nothing".to_owned(),
            };
            self.report.note(format!(
                "{}: {} carries {carried}{open}; stopped by {stops}; not carried: {}",
                case.name,
                runner.system,
                fails.map_or("nothing that was tried".to_owned(), |fails| fails.to_string())
            ));
        }
        let rivals = runners.iter().filter(|runner| runner.system.is_rival());
        let best = rivals.max_by_key(|runner| runner.search.carried);
        let is_over = |runner: &Runner| runner.search.next().is_none();
        for ours in runners.iter().filter(|runner| runner.system.is_reel() && is_over(runner)) {
            let (system, carried) = (ours.system, ours.search.carried);
            if let Some(best) = best.filter(|_| runners.iter().filter(|of| of.system.is_rival()).all(is_over))
            {
                let most = best.search.carried;
                let ratio = carried as f64 / most.max(1) as f64;
                let claim = format!("{}: viewers, {system} {carried} / {} {most}", case.name, best.system);
                self.report.claim(Claim::at_least(claim, ratio, case.bar));
            }
            if let Some((allowed, resource)) =
                ours.best.as_ref().map(|best| best.allowed(RATE_BPS, disk_bytes_per_s))
            {
                let claim =
                    format!("{}: {system} {carried} / {allowed:.0} that {resource} allows", case.name);
                self.report.claim(Claim::at_least(claim, carried as f64 / allowed.max(1.0), ALLOWED_BAR));
            }
        }
    }
}

/// Each viewer has two connections at once for a moment, and so has the server, which has its
/// limits from us.
fn raise_descriptors() -> Result<()> {
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits })
        .context("raising the limit of open files")
}
