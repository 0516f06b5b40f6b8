//! `wire`: whether the wire is what it claims to be, before a measurement uses it.
//!
//! Every way of sending is tried: what viewers keep must be the file, with and without losses; what
//! the kernel reports of zero-copy sends must be "not copied"; and what a segment costs the sender
//! for our looking at it is said.

use crate::rival::{Against, Setup, Site};
use crate::server::{Server, free_address};
use anyhow::{Context, Result, ensure};
use reel_report::{Claim, CommonOptions, Report, example};
use reel_wire::{Crowd, CrowdOutcome, Link, Request, Visit, Wire, sockets};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The options of `wire`.
#[derive(clap::Args)]
pub(crate) struct WireArguments {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    against: Against,
    /// The bare server, the example `floor` of reel-ring; default: in `examples` beside this
    /// program.
    #[arg(long)]
    floor: Option<PathBuf>,
}

const FILE: &str = "wire.bin";
const VIEWERS: u64 = 16;
/// The ways of the bare server, and whether they are to send without a copy.
const FLOORS: [(&str, bool); 5] =
    [("sendfile", false), ("write", false), ("zerocopy", true), ("ring", false), ("ring-zc", true)];

/// Runs the check.
pub(crate) fn run(arguments: &WireArguments) -> Result<()> {
    Report::new("wire").fill(&arguments.common, |report| measure(arguments, report))
}

fn measure(arguments: &WireArguments, report: &mut Report) -> Result<()> {
    let quick = arguments.common.quick;
    let dir = arguments.common.make_dir()?;
    let Some(mut wire) = crate::peers::wire(quick, report)? else { return Ok(()) };
    arguments.against.rivals.installed()?;
    let mut check = Check {
        wire: &mut wire,
        report,
        root: dir.join("wire-www"),
        bytes: if quick { 8 } else { 64 } << 20,
        quick,
    };
    fs::create_dir_all(&check.root)?;
    let bytes: Vec<u8> =
        (0..check.bytes).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    fs::write(check.root.join(FILE), bytes)?;
    check.all(&dir, arguments)?;
    fs::remove_dir_all(&check.root)?;
    Ok(())
}

struct Check<'a> {
    wire: &'a mut Wire,
    report: &'a mut Report,
    root: PathBuf,
    /// Of the file.
    bytes: u64,
    quick: bool,
}

impl Check<'_> {
    fn all(&mut self, dir: &Path, arguments: &WireArguments) -> Result<()> {
        // A pool of threads sends as its server does without it.
        let setups = arguments.against.rivals.iter().flat_map(|rival| rival.expert());
        for &setup in setups.filter(|&&setup| setup != Setup::Threads) {
            let run = dir.join(setup.rival().name());
            self.one(setup.label(), |address, root| {
                Site { workers: 3, ..Site::new(root, &run) }.start_at(address, setup)
            })?;
        }
        let floor = match bare(arguments.floor.as_deref()) {
            Ok(floor) => floor,
            Err(error) => {
                self.report.note(format!("skipped: the bare server; {error:#}"));
                return Ok(());
            }
        };
        for (mode, zero_copy) in FLOORS {
            let start = |address: SocketAddr, root: &Path| {
                let mut command = Command::new(&floor);
                command.arg(address.to_string()).arg(root).arg(mode).stderr(Stdio::null());
                Server::start(command, address)
            };
            let system = format!("floor {mode}");
            let server = self.one(&system, start)?;
            if zero_copy {
                let text = self.wire.far_away(|| report(server.address))?;
                drop(server);
                self.copied(&system, "the wire", &text)?;
                let server = start(free_address()?, &self.root)?;
                sockets::run(server.address, self.crowd(1, false, 0.0), |_| true)?;
                self.copied(&system, "loopback", &report(server.address)?)?;
            }
        }
        Ok(())
    }

    /// One server: what is kept, with and without losses, then what sending costs. It is still
    /// there afterwards.
    fn one(
        &mut self,
        system: &str,
        start: impl Fn(SocketAddr, &Path) -> Result<Server> + Sync,
    ) -> Result<Server> {
        let start = |wire: &Wire, root: &Path| wire.at_server(|| start(wire.address(), root));
        for loss in [0.0, 0.01] {
            let server = start(self.wire, &self.root)?;
            let seen = self.wire.run(server.address, self.crowd(1, true, loss), |_| true)?;
            let right = self.right(&seen)?;
            let claim = format!("{system}, loss {loss}: share of the file that came as it is");
            self.report.claim(Claim::at_least(claim, right as f64 / self.bytes as f64, 1.0));
            self.failures(system, &seen);
        }
        let server = start(self.wire, &self.root)?;
        let rounds = if self.quick { 2 } else { 64 };
        let crowd = self.crowd(rounds, false, 0.0);
        let meter = self.wire.meter(server.processes()?);
        let before = (meter.read()?, self.wire.tap_cost()?);
        let watching = self.wire.watch_cost()?;
        let seen = self.wire.run(server.address, crowd, |_| true)?;
        drop(watching);
        let used = meter.read()?.since(&before.0);
        let (ns, times) = self.wire.tap_cost()?;
        let looks = (times - before.1.1).max(1) as f64;
        self.failures(system, &seen);
        let claim = format!("{system}: bytes of bodies counted / asked for");
        let asked = (rounds as u64 * self.bytes) as f64;
        self.report.claim(Claim::within(claim, seen.body_bytes as f64 / asked, 1.0, 0.0));
        let gb = seen.body_bytes as f64 / 1e9;
        let values = [
            ("mb_per_s", gb * 1e3 / seen.took_s),
            ("segment_kb", seen.payload_bytes as f64 / 1e3 / seen.segments as f64),
            ("look_ns", (ns - before.1.0) as f64 / looks),
            ("look_s_per_gb", (ns - before.1.0) as f64 / 1e9 / gb),
            ("overrun", seen.overrun as f64),
            ("dropped", seen.dropped as f64),
            ("sink_late_ms", seen.sink_late_ms),
        ];
        let values = [&values[..], &used.values(gb, seen.took_s)].concat();
        self.report.row("cost", system, 0.0, 0, &values);
        Ok(server)
    }

    fn crowd(&self, rounds: usize, keep: bool, loss: f64) -> Crowd {
        let share = self.bytes / VIEWERS;
        let pieces = |number: u64| {
            let range = Some(number * share..(number + 1) * share);
            vec![Request { target: format!("/{FILE}"), range, keep }; rounds]
        };
        Crowd {
            visits: (0..VIEWERS).map(|number| Visit::Pieces(pieces(number))).collect(),
            link: Link { round_trip_ns: 10_000_000, line_bps: None, loss },
            window_bytes: 1 << 20,
            step_bytes: 64 << 10,
            seed: 1,
            most: Duration::from_secs(60),
        }
    }

    /// How many of the bytes that were kept are the file's.
    fn right(&self, seen: &CrowdOutcome) -> Result<u64> {
        let file = fs::read(self.root.join(FILE))?;
        let mut right = 0;
        for (want, body) in &seen.kept {
            let range = want.range.clone().context("a piece without its range")?;
            if file.get(range.start as usize..range.end as usize) == Some(body) {
                right += body.len() as u64;
            }
        }
        Ok(right)
    }

    fn failures(&mut self, system: &str, seen: &CrowdOutcome) {
        for (failure, count) in &seen.failures {
            self.report.note(format!("{system}: {count} viewers failed: {failure}"));
        }
    }

    /// What the kernel reported of zero-copy sends: on the wire none may have been copied; loopback
    /// is told beside.
    fn copied(&mut self, system: &str, on: &str, report: &str) -> Result<()> {
        let (free, copied) = report.split_once(' ').context("an unexpected report of the bare server")?;
        let (free, copied): (u64, u64) = (free.parse()?, copied.parse()?);
        ensure!(free + copied > 0, "{system} reports no zero-copy sends at all");
        self.report.note(format!(
            "{system} on {on}: of {} zero-copy sends the kernel reports {copied} copied",
            free + copied
        ));
        if on != "loopback" {
            let claim =
                format!("{system} on {on}: share of zero-copy sends that the kernel reports as copied");
            self.report.claim(Claim::at_most(claim, copied as f64 / (free + copied) as f64, 0.0));
        }
        Ok(())
    }
}

/// The bare server: what was named, or what lies beside this program.
pub(crate) fn bare(named: Option<&Path>) -> Result<PathBuf> {
    named.map_or_else(|| example("reel-ring", "floor"), |named| Ok(named.to_owned()))
}

fn report(address: SocketAddr) -> Result<String> {
    let want = Request { target: "/report".into(), range: None, keep: true };
    let crowd = Crowd::on_sockets(vec![Visit::Pieces(vec![want])], Duration::from_secs(10));
    let seen = sockets::run(address, crowd, |_| true)?;
    let (_, body) = seen.kept.into_iter().next().context("the bare server does not report")?;
    Ok(String::from_utf8(body)?)
}
