//! What it costs to send films to HLS viewers.
//!
//! Viewers take one segment after another. Cold: each viewer has a title of its own, and all titles
//! together are several times what a server may keep in memory. Hot: one title that fits. What
//! counts is the processor time of the whole machine less the client's, per GB of media that
//! arrived, over a window in which all viewers are served.

use super::material::{Material, MaterialSpec};
use super::profile::Profile;
use super::system::Launcher;
use super::{Net, PeersArguments, System, Titles, drop_caches};
use crate::film;
use crate::reel;
use crate::rival::Setup;
use crate::window::Window;
use anyhow::{Context, Result};
use reel_report::{Claim, Report, spread};
use reel_testkit::Url;
use reel_wire::{Cost, Crowd, CrowdOutcome, Link, Pace, Visit, Wire, sockets};
use std::fs;
use std::time::Duration;

/// Rate of the films: 4K for living rooms is twice, a telephone a quarter of it.
const RATE_BPS: u64 = 8_000_000;

/// How long viewers play before anything is measured.
const AHEAD: Duration = Duration::from_secs(2);

/// One network and one heat, with the bar for both.
pub(super) struct Case {
    pub(super) name: &'static str,
    net: Net,
    titles: Titles,
    /// Reel's processor time may be this share of the best rival's.
    bar: f64,
}

pub(super) const CASES: [Case; 4] = [
    Case { name: "wire, cold", net: Net::Wire, titles: Titles::Cold, bar: 0.6 },
    Case { name: "wire, hot", net: Net::Wire, titles: Titles::Hot, bar: 0.8 },
    Case { name: "loopback, cold", net: Net::Loopback, titles: Titles::Cold, bar: 1.2 },
    Case { name: "loopback, hot", net: Net::Loopback, titles: Titles::Hot, bar: 1.2 },
];

pub(super) fn measure(arguments: &PeersArguments, wire: &mut Wire, report: &mut Report) -> Result<()> {
    let common = &arguments.common;
    let systems = System::all(&arguments.servers, &arguments.against)?;
    let reel = reel::binary(common.reel.as_deref())?;
    let dir = common.make_dir()?;
    let (title_mib, viewers) = if common.quick { (8, 4) } else { (arguments.title_mib, arguments.viewers) };
    let titles = arguments.title_count.unwrap_or(viewers).clamp(1, viewers);
    if let Some(name) = &arguments.congestion {
        wire.use_congestion_control(name)?;
    }
    let film = film::varying;
    let wanted = MaterialSpec {
        name: "peers",
        rate_bps: RATE_BPS,
        film,
        title_mib,
        titles,
        bulk: 0,
        arriving_bytes: 0,
    };
    let material = Material::make(&dir, &reel, &wanted)?;
    report.note(format!(
        "{viewers} viewers; {titles} titles of {title_mib} MiB (cold: in turn, hot: the first for all); {} MiB of memory for a server; on the \
         wire {} ms there and back, windows of {} KiB, lines of {} Mb/s (0: no bound), loss {}; TCP by {}",
        arguments.memory_mib,
        arguments.rtt_ms,
        arguments.window_kib,
        arguments.line_mbps,
        arguments.loss,
        arguments.congestion.clone().map_or_else(machine_congestion_control, Ok)?
    ));
    let mut bench = Bench { arguments, systems, report, material, viewers, wire };
    for case in
        CASES.iter().filter(|c| arguments.nets.contains(&c.net) && arguments.titles.contains(&c.titles))
    {
        bench.case(case)?;
    }
    Ok(())
}

struct Bench<'a> {
    arguments: &'a PeersArguments,
    systems: Vec<System>,
    report: &'a mut Report,
    material: Material,
    viewers: usize,
    wire: &'a mut Wire,
}

impl Bench<'_> {
    fn case(&mut self, case: &Case) -> Result<()> {
        let quick = self.arguments.common.quick;
        let runs = self.arguments.common.runs.unwrap_or(if quick { 1 } else { 5 });
        let mut ratios: Vec<(System, f64)> = Vec::new();
        for run in 0..runs {
            let mut costs = Vec::new();
            for system in self.systems.clone() {
                // nginx turns O_DIRECT off for the end of a file, for all requests that share its
                // descriptor: with one title for all viewers they fail. No expert would choose it
                // for titles in memory either.
                if system == System::Rival(Setup::Direct) && case.titles == Titles::Hot {
                    continue;
                }
                costs.push((
                    system,
                    self.one(case, system, run).with_context(|| format!("{}, {system}", case.name))?,
                ));
            }
            if let Some(&(_, ours)) = costs.iter().find(|cost| cost.0 == System::REEL) {
                ratios.extend(
                    costs
                        .iter()
                        .filter(|cost| cost.0.is_rival())
                        .map(|&(system, cost)| (system, ours / cost)),
                );
            }
        }
        // The best rival is the one that leaves Reel the highest median ratio.
        let rivals = self.systems.iter().filter(|system| system.is_rival());
        let best = rivals
            .map(|&system| {
                let mut of: Vec<_> =
                    ratios.iter().filter(|ratio| ratio.0 == system).map(|ratio| ratio.1).collect();
                (spread(&mut of).1, system)
            })
            .filter(|(ratio, _)| ratio.is_finite())
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((ratio, system)) = best.filter(|_| !ratios.is_empty()) {
            let claim = format!("{}: processor time per GB, Reel / {system}", case.name);
            self.report.claim(Claim::at_most(claim, ratio, case.bar));
        }
        Ok(())
    }

    /// One run of one server; what a GB cost.
    fn one(&mut self, case: &Case, system: System, run: usize) -> Result<f64> {
        let arguments = self.arguments;
        drop_caches(arguments.common.quick)?;
        let launcher = Launcher {
            material: &self.material,
            memory_bytes: arguments.memory_mib << 20,
            floor: arguments.floor.as_deref(),
            admission: false,
            shares: None,
            is_bounded: !arguments.common.quick,
        };
        let launched = launcher.start(system, self.wire, case.net)?;
        let address = launched.server.address;
        let mut visits = Vec::new();
        for number in 0..self.viewers {
            let title = if case.titles == Titles::Hot { 0 } else { number % self.material.titles };
            let playlist = Url::parse(&format!("http://{address}{}", self.material.playlist(system, title)))?;
            // A little apart, because real viewers do not all begin within a millisecond.
            let begins_ns = number as u64 * 500_000_000 / self.viewers as u64;
            visits.push(Visit::Film { playlist, pace: Pace::Flat, begins_ns, keep: false });
        }
        let seconds = arguments.common.seconds.unwrap_or(if arguments.common.quick { 1 } else { 10 });
        let crowd = Crowd {
            visits,
            link: Link {
                round_trip_ns: arguments.rtt_ms * 1_000_000,
                line_bps: (arguments.line_mbps > 0).then_some(arguments.line_mbps * 1_000_000),
                loss: arguments.loss,
            },
            window_bytes: arguments.window_kib << 10,
            step_bytes: 64 << 10,
            seed: run as u64,
            most: Duration::from_secs(600),
        };
        let meter = self.wire.meter(launched.server.processes()?);
        let mut window = Window::new(AHEAD, Duration::from_secs(seconds), || meter.read());
        let profile = if arguments.profile {
            let processes = launched.server.processes()?.into_iter().chain(self.wire.receivers());
            let all: Vec<_> = processes.collect();
            Some(Profile::take(&all, (AHEAD, seconds), &self.material.dir)?)
        } else {
            None
        };
        let seen = match case.net {
            Net::Wire => self.wire.run(address, crowd, |bytes| window.poll(bytes))?,
            Net::Loopback => {
                let stop = || sockets::run(address, crowd, |bytes| window.poll(bytes));
                self.wire.beside_server(stop)?
            }
        };
        let (took_s, bytes, (before, used)) = window.result()?;
        let used = used.since(&before);
        if let Some(profile) = profile {
            let functions = profile.top_functions()?;
            self.report.note(format!(
                "{}, {system}: percent of the server's time by function: {functions}",
                case.name
            ));
        }
        drop(launched);
        self.row(case, (system, run), &seen, (took_s, bytes, used))
    }

    fn row(
        &mut self,
        case: &Case,
        (system, run): (System, usize),
        seen: &CrowdOutcome,
        (took_s, bytes, used): (f64, u64, Cost),
    ) -> Result<f64> {
        for (failure, count) in &seen.failures {
            self.report
                .note(format!("{}, {system}, run {run}: {count} viewers failed: {failure}", case.name));
        }
        let gb = bytes as f64 / 1e9;
        let mut values = used.values(gb, took_s).to_vec();
        values.push(("mb_per_s", gb * 1e3 / took_s));
        if case.net == Net::Wire {
            values.extend([
                ("segment_kb", seen.payload_bytes as f64 / 1e3 / seen.segments.max(1) as f64),
                ("acks_per_segment", seen.packets as f64 / seen.segments.max(1) as f64),
                ("repeated_percent", 100.0 * seen.repeated_bytes as f64 / seen.payload_bytes.max(1) as f64),
                ("overrun", seen.overrun as f64),
                ("dropped", seen.dropped as f64),
            ]);
        }
        self.report.row(case.name, &system.to_string(), self.viewers as f64, run, &values);
        Ok(used.sender_s() / gb)
    }
}

fn machine_congestion_control() -> Result<String> {
    let name = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    Ok(name.context("reading TCP's settings")?.trim().to_owned())
}
