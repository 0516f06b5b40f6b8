//! The wire: a network that ends in this process, for measuring what sending really costs a server.
//!
//! Loopback and veth hand every byte to a receiver on the same machine. They copy what was sent
//! without a copy, and do for nothing what a network card would have to fetch. On the wire a
//! program at the device's egress hands the header of each segment to a sink and drops the segment;
//! the sink plays thousands of viewers that acknowledge as if they had it. docs/design/wire.md says
//! why, and how far it can be trusted.
//!
//! [`CostMeter`] measures what sending costs a server, on the wire and on loopback.
#![forbid(unsafe_code)]

mod bpf;
mod cost;
mod interrupts;
mod limits;
mod network;
mod response;
mod script;
mod segment;
mod sink;
pub mod sockets;
pub mod space;
mod tap;
mod tcp;
#[cfg(test)]
mod tcp_laws;
mod viewer;

pub use cost::{Cost, CostMeter, family};
pub use network::Link;
pub use script::{Pace, Request, Timed, Visit};
pub use space::Side;

use anyhow::{Context, Result, ensure};
use interrupts::Interrupts;
use limits::{DEVICE, PORT_FIRST, RUNS, SERVER, VIEWERS, VIEWERS_MAX};
use network::Line;
use rustix::net::{AddressFamily, Protocol, SocketType, connect, socket};
use rustix::process::geteuid;
use rustix::thread::{CpuSet, sched_setaffinity};
use sink::{Progress, Sink};
use space::VethPair;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tap::Tap;
use tcp::TcpOptions;
use viewer::{Viewer, ViewerOutcome};

/// Sockets of the raw protocol: IP headers are ours (raw(7), IPPROTO_RAW).
const RAW: u32 = 255;

/// The viewers of a run, and the link to each. Real sockets ignore link, window and steps: the
/// kernel has its own.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// One for each viewer.
    pub visits: Vec<Visit>,
    /// The link of each viewer.
    pub link: Link,
    /// The receive window of a viewer.
    pub window_bytes: u32,
    /// What one acknowledgement covers at most.
    pub step_bytes: u32,
    /// All losses follow from it.
    pub seed: u64,
    /// Ends the run even if not all viewers are done.
    pub most: Duration,
}

impl Crowd {
    /// For real sockets, which have a link and windows of their own.
    pub fn on_sockets(visits: Vec<Visit>, most: Duration) -> Self {
        let link = Link { round_trip_ns: 0, line_bps: None, loss: 0.0 };
        Self { visits, link, window_bytes: 0, step_bytes: 0, seed: 0, most }
    }
}

/// The outcome of a crowd.
#[derive(Debug, Default)]
pub struct CrowdOutcome {
    /// The whole run.
    pub took_s: f64,
    /// Bytes of response bodies.
    pub body_bytes: u64,
    /// Responses that came whole.
    pub responses: u64,
    /// Connections that viewers opened.
    pub connections: u64,
    /// Segments and super-segments.
    pub segments: u64,
    /// The payload in them.
    pub payload_bytes: u64,
    /// Payload that had arrived before.
    pub repeated_bytes: u64,
    /// Packets that viewers sent.
    pub packets: u64,
    /// Segments lost because the sink was too slow. Such a run is about the sink.
    pub overrun: u64,
    /// How late the sink was at most.
    pub sink_late_ms: f64,
    /// Viewers' packets that found the server's queue full.
    pub dropped: u64,
    /// Reasons of failed viewers, with the number of viewers.
    pub failures: BTreeMap<String, usize>,
    /// Viewers that were not done at the end.
    pub unfinished: usize,
    /// Media segments that arrived.
    pub shown_segments: u64,
    /// Media segments that arrived late.
    pub late_segments: u64,
    /// Bytes of late media segments.
    pub late_bytes: u64,
    /// How late the latest media segment was.
    pub latest_ms: f64,
    /// Media segments that were due and had not arrived at the end.
    pub missing_segments: u64,
    /// From the start to the first segment, for each timed player that got one, in milliseconds.
    pub startups_ms: Vec<f64>,
    /// Media that timed players got after all of them played.
    pub settled_media_s: f64,
    /// Bodies of requests whose body is kept.
    pub kept: Vec<(Request, Vec<u8>)>,
}

/// The wire. Dropping it removes it.
pub struct Wire {
    tap: Tap,
    interrupts: Arc<Interrupts>,
    raw: OwnedFd,
    cable: VethPair,
    processors: usize,
    runs: u32,
    ports: AtomicU16,
}

impl Wire {
    /// Makes the wire.
    ///
    /// # Errors
    /// Without root, `ip`, `unshare` or `clang`, and on Linux before 6.6.
    pub fn make() -> Result<Self> {
        ensure!(
            geteuid().is_root(),
            "the wire needs root: it makes network name spaces, a device and a BPF program"
        );
        let processors = thread::available_parallelism().map_or(1, NonZero::get).min(64);
        let cable = VethPair::make(&set(0..servers(processors)))?;
        let tap = Tap::attach(&cable.near)?;
        let interrupts = Arc::new(cable.near.inside(|| Interrupts::measure(&[DEVICE, "lo"]))?);
        let raw = cable.far.inside(|| {
            let raw =
                socket(AddressFamily::INET, SocketType::RAW, NonZero::new(RAW).map(Protocol::from_raw))?;
            connect(&raw, &SocketAddrV4::new(SERVER, 0))?;
            Ok(raw)
        })?;
        Ok(Self { tap, interrupts, raw, cable, processors, runs: 0, ports: AtomicU16::new(PORT_FIRST) })
    }

    /// An address for the next server. Each server has a port of its own, because one that is
    /// ending may hold its port for a while.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((SERVER, self.ports.fetch_add(1, Ordering::Relaxed)))
    }

    /// A meter of what a server with these processes costs, on the wire or on the loopback device
    /// beside it.
    pub fn meter(&self, server: Vec<u32>) -> CostMeter {
        CostMeter::new(Some(self.interrupts.clone()), server, self.cable.receivers.clone())
    }

    /// The kernel's threads that receive for the server.
    pub fn receivers(&self) -> impl Iterator<Item = u32> {
        self.cable.receivers.iter().map(|receiver| receiver.cast_unsigned())
    }

    /// Sets the congestion control of what is sent to viewers, on the wire alone.
    ///
    /// # Errors
    /// A name that the kernel does not know.
    pub fn use_congestion_control(&self, name: &str) -> Result<()> {
        self.cable.use_congestion_control(name)
    }

    /// The server's side, for work there while a crowd is on the wire.
    ///
    /// # Errors
    /// Those of duplicating a descriptor.
    pub fn side(&self) -> Result<Side> {
        self.cable.near.side()
    }

    /// Runs `act` in the server's name space, on any processor; its loopback device is used by
    /// nothing else.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn beside_server<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.cable.near.inside(act)
    }

    /// Runs `act` in the server's name space on the processors of the server: all but the last,
    /// which the sink uses.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn at_server<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.cable.near.inside(|| {
            stay_on(0..servers(self.processors))?;
            act()
        })
    }

    /// Runs `act` on the far side: real sockets there reach the server over the wire.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn far_away<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.cable.far.inside(act)
    }

    /// What the tap cost the sender while it was watched: nanoseconds, and the number of segments.
    ///
    /// # Errors
    /// Those of the kernel's statistics.
    pub fn tap_cost(&self) -> Result<(u64, u64)> {
        self.tap.ran()
    }

    /// Watches that cost until the descriptor is dropped. Watching itself costs a little.
    ///
    /// # Errors
    /// Those of the kernel's statistics.
    pub fn watch_cost(&self) -> Result<OwnedFd> {
        Tap::watch()
    }

    /// Runs a crowd against the server at `address`. `poll` is called several times a second with
    /// the bytes of bodies that have arrived; returning false ends the run.
    ///
    /// # Errors
    /// More viewers than the wire has addresses for, and those of the sink.
    pub fn run(
        &mut self,
        address: SocketAddr,
        crowd: Crowd,
        mut poll: impl FnMut(u64) -> bool,
    ) -> Result<CrowdOutcome> {
        ensure!(crowd.visits.len() <= VIEWERS_MAX as usize, "more than {VIEWERS_MAX} viewers");
        let tcp_options = TcpOptions { window_bytes: crowd.window_bytes, step_bytes: crowd.step_bytes };
        let host = address.to_string();
        self.runs += 1;
        let start_ns = sink::now_ns();
        let mut viewers = Vec::new();
        for (number, visit) in crowd.visits.into_iter().enumerate() {
            // Other addresses in each run, so that the server knows nothing of these viewers.
            let of = Ipv4Addr::from(u32::from(VIEWERS) + self.runs % RUNS * VIEWERS_MAX + number as u32);
            let line = Line::new(crowd.link, crowd.seed, number);
            viewers.push(Viewer::new(of, &host, visit, tcp_options, start_ns, line)?);
        }
        let (lost_before, dropped_before) = (self.tap.lost()?, self.cable.dropped()?);
        let progress = Progress::default();
        let last = self.processors - 1;
        let sink = Sink::new(&mut self.tap, &self.raw, address.port(), viewers)?;
        let started = Instant::now();
        let (came, counts) = thread::scope(|scope| {
            let running = scope.spawn(|| {
                stay_on(last..last + 1)?;
                sink.run(&progress)
            });
            while !running.is_finished() {
                let bytes = progress.body_bytes.load(Ordering::Relaxed);
                if !poll(bytes) || started.elapsed() > crowd.most {
                    progress.stop.store(true, Ordering::Relaxed);
                }
                thread::park_timeout(Duration::from_millis(20));
            }
            running.join().expect("the sink does not panic")
        })?;
        Ok(CrowdOutcome {
            took_s: started.elapsed().as_secs_f64(),
            segments: counts.segments,
            payload_bytes: counts.payload_bytes,
            packets: counts.packets,
            sink_late_ms: counts.latest_ns as f64 / 1e6,
            overrun: self.tap.lost()? - lost_before,
            dropped: self.cable.dropped()? - dropped_before,
            ..CrowdOutcome::of(came)
        })
    }
}

impl CrowdOutcome {
    fn of(viewers: Vec<ViewerOutcome>) -> Self {
        let mut outcome = Self::default();
        for viewer in viewers {
            outcome.body_bytes += viewer.body_bytes;
            outcome.responses += viewer.responses;
            outcome.connections += viewer.connections;
            outcome.repeated_bytes += viewer.repeated_bytes;
            outcome.unfinished += usize::from(!viewer.done);
            outcome.shown_segments += viewer.shown.segments;
            outcome.late_segments += viewer.shown.late_segments;
            outcome.late_bytes += viewer.shown.late_bytes;
            outcome.latest_ms = outcome.latest_ms.max(viewer.shown.latest_ns as f64 / 1e6);
            outcome.missing_segments += viewer.shown.missing_segments;
            outcome.startups_ms.extend(viewer.shown.startup_ns.map(|ns| ns as f64 / 1e6));
            outcome.settled_media_s += viewer.shown.settled_media_ns as f64 / 1e9;
            outcome.kept.extend(viewer.kept);
            if let Some(failure) = viewer.failure {
                *outcome.failures.entry(failure).or_default() += 1;
            }
        }
        outcome
    }
}

/// Processors of the server; the sink has the last one, if there is more than one.
fn servers(processors: usize) -> usize {
    processors.saturating_sub(1).max(1)
}

fn stay_on(processors: Range<usize>) -> Result<()> {
    sched_setaffinity(None, &set(processors)).context("keeping to some processors")
}

fn set(processors: Range<usize>) -> CpuSet {
    let mut set = CpuSet::new();
    processors.for_each(|processor| set.set(processor));
    set
}
