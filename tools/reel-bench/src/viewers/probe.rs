//! One number of viewers at one server: what came of it, and how much of the machine it took.

use super::ViewersArguments;
use super::disk::{Disk, DiskBytes};
use super::reservations::Reservations;
use super::{Beside, RATE_BPS};
use crate::arriving::Arriving;
use crate::client;
use crate::peers::System;
use crate::peers::material::Material;
use crate::peers::system::Launcher;
use crate::peers::{Net, drop_caches};
use crate::reel;
use crate::window::Window;
use anyhow::{Context, Result};
use reel_report::spread;
use reel_testkit::Url;
use reel_wire::{Cost, Crowd, CrowdOutcome, Link, Pace, Request, Timed, Visit, Wire, sockets};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// How long a number is tried, and what happens when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Viewers come over this time.
    pub(super) arrivals: Duration,
    /// The picture moves so long after a viewer came.
    pub(super) startup: Duration,
    /// From then until the first segment that did not fit the buffer is asked for.
    first_wait: Duration,
    /// The rest: all viewers play.
    pub(super) settled: Duration,
    /// The part of what is played then that must come then.
    pub(super) kept_up: f64,
}

/// What a player holds: two segments. With more, an overload shows only after minutes.
pub(super) const BUFFER: Duration = Duration::from_secs(8);
/// The part of what is played that must come while it is played: else only their buffers last.
const KEPT_UP: f64 = 0.97;
const DOWNLOADS: u64 = 10;
/// A peer that reads past the page cache breaks off ranges that do not begin at a block.
const BLOCK_BYTES: u64 = 4096;

/// What streams leave is halved between people and downloads.
fn shares(streams_permille: u32) -> [u32; 3] {
    let rest = 1000 - streams_permille;
    [streams_permille, rest / 2, rest - rest / 2]
}

impl Times {
    /// Viewers come over the time of a segment, so that their requests are spread evenly
    /// afterwards. A player's first wait is one too, since it holds two.
    pub(super) fn of(settled_s: u64) -> Self {
        let segment = Duration::from_secs(4);
        let settled = Duration::from_secs(settled_s);
        Self { arrivals: segment, startup: segment, first_wait: segment, settled, kept_up: KEPT_UP }
    }

    /// For a check that the probe works: too short for any client to request anything in the last
    /// second.
    pub(super) fn quick() -> Self {
        let second = Duration::from_secs(1);
        Self {
            arrivals: second / 2,
            startup: second,
            first_wait: Duration::ZERO,
            settled: second,
            kept_up: 0.0,
        }
    }

    pub(super) fn all(&self) -> Duration {
        self.before_settled() + self.settled
    }

    fn before_settled(&self) -> Duration {
        self.arrivals + self.startup + self.first_wait
    }
}

/// What numbers are tried with.
pub(super) struct Probe<'a> {
    pub(super) arguments: &'a ViewersArguments,
    pub(super) material: &'a Material,
    /// The film that arrives.
    pub(super) film: &'a [u8],
    pub(super) times: Times,
    /// Memory of each server.
    pub(super) memory_bytes: u64,
    pub(super) disk: Disk,
}

/// What came of a number.
pub(super) struct Probed {
    asked: usize,
    pub(super) refused: usize,
    /// Reasons of failed viewers, without the refused ones.
    pub(super) failures: BTreeMap<String, usize>,
    seen: CrowdOutcome,
    took_s: f64,
    /// Processors of the server, and what it used of them while all viewers played.
    processors: f64,
    used: Cost,
    disk: (f64, f64),
    /// Bytes a second of downloads and of films that arrived.
    others_bytes_per_s: f64,
    arrived_bytes_per_s: f64,
    /// Part of what was played that came.
    kept_up: f64,
    must_keep_up: f64,
    pub(super) reservations: Reservations,
}

impl Probe<'_> {
    pub(super) fn run(
        &self,
        wire: &mut Wire,
        (net, beside): (Net, Beside),
        system: System,
        asked: usize,
        run: usize,
    ) -> Result<Probed> {
        let Self { arguments, material, .. } = self;
        drop_caches(arguments.common.quick)?;
        let launched = self.launcher().start(system, wire, net)?;
        let (server, address) = (&launched.server, launched.server.address);
        if system.is_reel() {
            wire.beside_server(|| reel::settle(server))?;
        }
        let mut visits = self.viewers(system, address, asked)?;
        if beside == Beside::Bulk {
            visits.extend(wire.beside_server(|| self.downloads(system, address))?);
        }
        let crowd = self.crowd(visits, run);
        let meter = wire.meter(server.processes()?);
        let (stop, arrived) = (AtomicBool::new(false), AtomicU64::new(0));
        let arriving = Arriving {
            film: self.film,
            rate_bps: arguments.ingest_mbps * 1_000_000,
            stop: &stop,
            bytes: &arrived,
        };
        let mut reservations = Ok(Reservations::default());
        let mut window = Window::new(self.times.before_settled(), self.times.settled, || {
            Ok((meter.read()?, self.disk.passed()?, arrived.load(Ordering::Relaxed)))
        });
        // What runs beside the server during the measurement uses the wire's name space only.
        let side = wire.side()?;
        let seen = thread::scope(|scope| {
            let arrives = || match system.is_reel() {
                true => side.inside(|| arriving.upload(address)),
                false => arriving.copy(std::slice::from_ref(&material.www)),
            };
            let arriving = (beside == Beside::Bulk).then(|| scope.spawn(arrives));
            let seen = match net {
                Net::Wire => wire.run(address, crowd, |bytes| window.poll(bytes)),
                Net::Loopback => side.inside(|| sockets::run(address, crowd, |bytes| window.poll(bytes))),
            };
            if system.is_reel() {
                // Viewers have gone, and their sessions are not forgotten yet.
                reservations = side.inside(|| Reservations::fetch(address));
            }
            stop.store(true, Ordering::Relaxed);
            let ended = arriving.map(|arriving| arriving.join().expect("an ingest does not panic"));
            ended.unwrap_or(Ok(())).context("a film that arrives")?;
            seen
        })?;
        let (took_s, bytes, ((before, disk_before, arrived_before), (used, disk, arrived))) =
            window.result()?;
        let client_s = used.client_s - before.client_s;
        let used = used.since(&before);
        let processors = processors(net, client_s / took_s);
        let (refused, failures) = sort_failures(&seen);
        let admitted = (asked - refused.min(asked)) as f64;
        let media_bytes = seen.settled_media_s * RATE_BPS as f64 / 8.0;
        Ok(Probed {
            asked,
            refused,
            failures,
            took_s,
            processors,
            used,
            disk: disk_rates(disk_before, disk, took_s),
            // Viewers' own bytes are known by whole segments only.
            others_bytes_per_s: match beside {
                Beside::Nothing => 0.0,
                Beside::Bulk => (bytes as f64 - media_bytes).max(0.0) / took_s,
            },
            arrived_bytes_per_s: (arrived - arrived_before) as f64 / took_s,
            kept_up: seen.settled_media_s / (admitted * took_s).max(1e-9),
            must_keep_up: self.times.kept_up,
            reservations: reservations?,
            seen,
        })
    }

    fn launcher(&self) -> Launcher<'_> {
        Launcher {
            material: self.material,
            memory_bytes: self.memory_bytes,
            floor: None,
            admission: true,
            shares: self.arguments.streams_permille.map(shares),
            is_bounded: !self.arguments.common.quick,
        }
    }

    fn crowd(&self, visits: Vec<Visit>, run: usize) -> Crowd {
        let arguments = self.arguments;
        Crowd {
            visits,
            link: Link { round_trip_ns: arguments.rtt_ms * 1_000_000, line_bps: None, loss: 0.0 },
            window_bytes: arguments.window_kib << 10,
            step_bytes: 64 << 10,
            seed: run as u64,
            most: 2 * self.times.all(),
        }
    }

    /// Viewers at equal distances in all titles, so far from the ends that they do not come to
    /// them. They come in an order that has nothing to do with where they are.
    fn viewers(&self, system: System, address: SocketAddr, count: usize) -> Result<Vec<Visit>> {
        let titles = self.material.titles;
        let title_ns = (self.film.len() as u64 * 8).saturating_mul(1_000_000_000) / RATE_BPS;
        let room_ns = title_ns.saturating_sub((self.times.all() + 2 * BUFFER).as_nanos() as u64);
        let in_title = count.div_ceil(titles) as u64;
        let visit = |number: usize| {
            let (title, place) = (number % titles, (number / titles) as u64);
            // Titles are a little apart, too.
            let apart_ns = room_ns / in_title * title as u64 / titles as u64;
            let timed = Timed {
                startup_ns: self.times.startup.as_nanos() as u64,
                buffer_ns: BUFFER.as_nanos() as u64,
                from_ns: room_ns / in_title * place + apart_ns,
                settled_ns: self.times.before_settled().as_nanos() as u64,
            };
            let playlist = Url::parse(&format!("http://{address}{}", self.material.playlist(system, title)))?;
            let turn = (number as u64 * 7919) % count as u64;
            let begins_ns = self.times.arrivals.as_nanos() as u64 * turn / count as u64;
            Ok(Visit::Film { playlist, pace: Pace::Timed(timed), begins_ns, keep: false })
        };
        (0..count).map(visit).collect()
    }

    /// Downloads that begin at different places of films that no viewer watches, and go round.
    fn downloads(&self, system: System, address: SocketAddr) -> Result<Vec<Visit>> {
        let paths = [0, 1].map(|number| self.material.download(system, number));
        let mut visits = Vec::new();
        for number in 0..DOWNLOADS {
            let path = &paths[number as usize % paths.len()];
            let bytes = client::length(address, path)?;
            let start = bytes * number / DOWNLOADS / BLOCK_BYTES * BLOCK_BYTES;
            let want = |range| Request { target: path.clone(), range: Some(range), keep: false };
            // More than the fastest line takes while a number is tried.
            let rounds = std::iter::repeat_with(|| want(0..bytes)).take(1000);
            visits.push(Visit::Pieces(std::iter::once(want(start..bytes)).chain(rounds).collect()));
        }
        Ok(visits)
    }
}

impl Probed {
    /// How many viewers were carried: all that were admitted; `None` if something was late.
    pub(super) fn carried(&self) -> Option<usize> {
        let Self { seen, failures, .. } = self;
        let fine = seen.late_segments == 0 && seen.missing_segments == 0 && failures.is_empty();
        // A sink that lost segments has seen nothing.
        (fine && self.kept_up >= self.must_keep_up && seen.overrun == 0)
            .then(|| self.asked - self.refused.min(self.asked))
    }

    /// What the disk did for all programs.
    pub(super) fn disk_bytes_per_s(&self) -> f64 {
        self.disk.0 + self.disk.1
    }

    /// Processors that unrelated programs used.
    pub(super) fn others_cpus(&self) -> f64 {
        self.used.others_s() / self.took_s
    }

    pub(super) fn values(&self) -> Vec<(&'static str, f64)> {
        let Self { seen, used, took_s, reservations, .. } = self;
        let mut startups = seen.startups_ms.clone();
        startups.sort_by(f64::total_cmp);
        let p99 = startups.get((startups.len() * 99 / 100).min(startups.len().saturating_sub(1)));
        let mut values = vec![
            ("carried", self.carried().unwrap_or(0) as f64),
            ("refused", self.refused as f64),
            ("late_segments", seen.late_segments as f64),
            ("late_bytes", seen.late_bytes as f64),
            ("latest_ms", seen.latest_ms),
            ("missing_segments", seen.missing_segments as f64),
            ("kept_up", self.kept_up),
            ("startup_p50_ms", spread(&mut startups.clone()).1),
            ("startup_p99_ms", p99.copied().unwrap_or(0.0)),
            ("server_cpus", used.sender_s() / took_s),
            ("client_cpus", used.client_s / took_s),
            ("others_cpus", self.others_cpus()),
            ("disk_read_mb_per_s", self.disk.0 / 1e6),
            ("disk_written_mb_per_s", self.disk.1 / 1e6),
            ("downloads_mb_per_s", self.others_bytes_per_s / 1e6),
            ("arrived_mb_per_s", self.arrived_bytes_per_s / 1e6),
            ("overrun", seen.overrun as f64),
            // Of viewers' packets on the wire: a viewer that loses a request there asks again after
            // a second.
            ("dropped", seen.dropped as f64),
            ("sink_late_ms", seen.sink_late_ms),
        ];
        if reservations.arena > 0.0 {
            values.extend([
                ("promised_member", reservations.member),
                ("promised_core", reservations.core),
                ("promised_arena", reservations.arena),
                ("followers", reservations.followers),
                ("kept_arena", reservations.kept),
            ]);
        }
        values
    }

    /// What was used up most where a number was not carried.
    pub(super) fn stop(&self, disk_bytes_per_s: f64) -> String {
        let disk = self.disk_bytes_per_s() / disk_bytes_per_s.max(1.0);
        let processor = self.used.sender_s() / self.took_s / self.processors;
        let (name, part) = if disk > processor { ("the disk", disk) } else { ("the processors", processor) };
        let (other, less) = if disk > processor { ("processors", processor) } else { ("disk", disk) };
        format!("{name} (used to {:.0} %, {other} to {:.0} %)", part * 100.0, less * 100.0)
    }

    /// How many viewers the scarcest resource allows, and which resource it is. It is the disk, at
    /// the highest rate that any system got from it less what others get, or the server's
    /// processors, at the cost of a viewer here.
    pub(super) fn allowed(&self, rate_bps: u64, disk_bytes_per_s: f64) -> (f64, &'static str) {
        let others = self.others_bytes_per_s + self.arrived_bytes_per_s;
        let disk = (disk_bytes_per_s - others) * 8.0 / rate_bps as f64;
        let carried = self.carried().unwrap_or(0) as f64;
        let processors = carried * self.processors * self.took_s / self.used.sender_s().max(1e-9);
        if disk < processors { (disk, "the disk") } else { (processors, "the processors") }
    }
}

/// Processors that a server can use beside clients that take `clients` of them.
fn processors(net: Net, clients: f64) -> f64 {
    let all = thread::available_parallelism().map_or(1, usize::from) as f64;
    match net {
        Net::Wire => (all - 1.0).max(1.0),
        Net::Loopback => all - clients,
    }
}

/// Who was refused, and other failures.
fn sort_failures(seen: &CrowdOutcome) -> (usize, BTreeMap<String, usize>) {
    let (refused, failures): (BTreeMap<_, _>, BTreeMap<_, _>) =
        seen.failures.clone().into_iter().partition(|(failure, _)| failure.ends_with("answered 503"));
    (refused.values().sum(), failures)
}

/// Bytes a second read and written.
fn disk_rates(before: DiskBytes, after: DiskBytes, took_s: f64) -> (f64, f64) {
    let rate = |before: u64, after: u64| (after - before) as f64 / took_s;
    (rate(before.read_bytes, after.read_bytes), rate(before.written_bytes, after.written_bytes))
}
