//! The wire: a network that ends in this process, for measuring what sending really costs a server.
//!
//! Loopback and veth hand every byte to a receiver on the same machine, so they copy what was sent without a copy, and give away
//! for nothing what a network card would have to fetch. On the wire a program at the device's egress hands the header of each segment to a
//! sink and drops the segment; the sink plays thousands of viewers who acknowledge as if they had it. docs/design/wire.md says why
//! and how far it can be trusted.

mod limits;
mod network;
mod response;
mod script;
mod segment;
mod sink;
pub(crate) mod sockets;
pub(crate) mod space;
mod tap;
mod tcp;
#[cfg(test)]
mod tcp_laws;
mod viewer;

pub(crate) use network::Way;
pub(crate) use script::{Pace, Timed, Want, Wish};
pub(crate) use space::Side;

use crate::cost::Meter;
use crate::interrupts::Interrupts;
use anyhow::{Context, Result, ensure};
use limits::{DEVICE, PORT_FIRST, RUNS, SERVER, VIEWERS, VIEWERS_MAX};
use network::Line;
use rustix::net::{AddressFamily, Protocol, SocketType, connect, socket};
use rustix::process::geteuid;
use rustix::thread::{CpuSet, sched_setaffinity};
use sink::{Gauge, Sink};
use space::Cable;
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
use tcp::Manner;
use viewer::{Came, Viewer};

/// Sockets of the raw protocol: IP headers are ours (raw(7), IPPROTO_RAW).
const RAW: u32 = 255;

/// Who comes, and over what. Sockets have a way, window and steps of their own.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    pub(crate) wishes: Vec<Wish>,
    pub(crate) way: Way,
    pub(crate) window_bytes: u32,
    /// What one acknowledgement covers at most.
    pub(crate) step_bytes: u32,
    pub(crate) seed: u64,
    /// Ends it even if not all are done.
    pub(crate) most: Duration,
}

/// What came of a crowd.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) took_s: f64,
    pub(crate) body_bytes: u64,
    pub(crate) responses: u64,
    pub(crate) connections: u64,
    /// Segments and super-segments, and the payload in them.
    pub(crate) segments: u64,
    pub(crate) payload_bytes: u64,
    /// Payload that had come before.
    pub(crate) repeated_bytes: u64,
    /// Viewers' packets.
    pub(crate) packets: u64,
    /// Segments lost because the sink was too slow. Such a run is about the sink.
    pub(crate) overrun: u64,
    pub(crate) sink_late_ms: f64,
    /// Viewers' packets that found the server's queue full.
    pub(crate) dropped: u64,
    /// Reasons of viewers who failed, with their number.
    pub(crate) failures: BTreeMap<String, usize>,
    pub(crate) unfinished: usize,
    pub(crate) shown_segments: u64,
    pub(crate) late_segments: u64,
    pub(crate) late_bytes: u64,
    pub(crate) latest_ms: f64,
    /// Segments that had not come at the end though they were due.
    pub(crate) missing_segments: u64,
    /// From coming to the first segment, of each timed player who got one, in milliseconds.
    pub(crate) startups_ms: Vec<f64>,
    /// Media that timed players got after everybody played.
    pub(crate) settled_media_s: f64,
    /// Bodies that were asked for to be kept.
    pub(crate) kept: Vec<(Want, Vec<u8>)>,
}

/// The wire. It goes with this value.
pub(crate) struct Wire {
    tap: Tap,
    interrupts: Arc<Interrupts>,
    raw: OwnedFd,
    cable: Cable,
    processors: usize,
    runs: u32,
    ports: AtomicU16,
}

impl Wire {
    /// Makes it.
    ///
    /// # Errors
    /// Without root, `ip`, `unshare` or `clang`, and on Linux before 6.6.
    pub(crate) fn lay() -> Result<Self> {
        ensure!(
            geteuid().is_root(),
            "the wire needs root: it makes network name spaces, a device and a BPF program"
        );
        let processors = thread::available_parallelism().map_or(1, NonZero::get).min(64);
        let cable = Cable::lay(&set(0..servers(processors)))?;
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

    /// An address for the next server. Each has a port of its own: one that is ending may hold its own for a while.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((SERVER, self.ports.fetch_add(1, Ordering::Relaxed)))
    }

    /// A meter of what a server of these processes costs, on the wire or on the loopback device beside it.
    pub(crate) fn meter(&self, server: Vec<u32>) -> Meter {
        Meter::new(self.interrupts.clone(), server, self.cable.receivers.clone())
    }

    /// The kernel's threads that receive for the server.
    pub(crate) fn receivers(&self) -> impl Iterator<Item = u32> {
        self.cable.receivers.iter().map(|receiver| receiver.cast_unsigned())
    }

    /// Has what is sent to viewers go by this congestion control from here on, on the wire alone.
    pub(crate) fn use_congestion_control(&self, name: &str) -> Result<()> {
        self.cable.use_congestion_control(name)
    }

    /// The server's side of it alone, for what goes on there while a crowd is on the wire.
    pub(crate) fn side(&self) -> Result<Side> {
        self.cable.near.side()
    }

    /// Does something where the server is, on any processor: its loopback device is nobody else's.
    pub(crate) fn beside_server<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.cable.near.inside(act)
    }

    /// Does something at the server's side, for example starts it there, on the processors that are the server's: all but the last, which
    /// is the sink's.
    pub(crate) fn at_server<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.cable.near.inside(|| {
            stay_on(0..servers(self.processors))?;
            act()
        })
    }

    /// Does something on the far side: real sockets there reach the server, and their bytes pass the wire.
    pub(crate) fn far_away<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.cable.far.inside(act)
    }

    /// What our looking at segments cost the sender while it was watched: nanoseconds, and how many segments.
    pub(crate) fn looked(&self) -> Result<(u64, u64)> {
        self.tap.ran()
    }

    /// Watches that cost until it is dropped; watching costs a little, too.
    pub(crate) fn watch_cost(&self) -> Result<OwnedFd> {
        Tap::watch()
    }

    /// Lets a crowd come to the server at `address`; `look` is called some ten times a second with the bytes of bodies that have come
    /// and ends it by returning false.
    pub(crate) fn run(
        &mut self,
        address: SocketAddr,
        crowd: Crowd,
        mut look: impl FnMut(u64) -> bool,
    ) -> Result<Seen> {
        ensure!(crowd.wishes.len() <= VIEWERS_MAX as usize, "more than {VIEWERS_MAX} viewers");
        let manner = Manner { window_bytes: crowd.window_bytes, step_bytes: crowd.step_bytes };
        let host = address.to_string();
        self.runs += 1;
        let start_ns = sink::now_ns();
        let mut viewers = Vec::new();
        for (number, wish) in crowd.wishes.into_iter().enumerate() {
            // Other addresses in each run: nothing of an earlier one is theirs.
            let of = Ipv4Addr::from(u32::from(VIEWERS) + self.runs % RUNS * VIEWERS_MAX + number as u32);
            let line = Line::new(crowd.way, crowd.seed, number);
            viewers.push(Viewer::new(of, &host, wish, manner, start_ns, line)?);
        }
        let (lost_before, dropped_before) = (self.tap.lost()?, self.cable.dropped()?);
        let gauge = Gauge::default();
        let last = self.processors - 1;
        let sink = Sink::new(&mut self.tap, &self.raw, address.port(), viewers)?;
        let started = Instant::now();
        let (came, counts) = thread::scope(|scope| {
            let running = scope.spawn(|| {
                stay_on(last..last + 1)?;
                sink.run(&gauge)
            });
            while !running.is_finished() {
                let bytes = gauge.body_bytes.load(Ordering::Relaxed);
                if !look(bytes) || started.elapsed() > crowd.most {
                    gauge.stop.store(true, Ordering::Relaxed);
                }
                thread::park_timeout(Duration::from_millis(20));
            }
            running.join().expect("the sink does not panic")
        })?;
        Ok(Seen {
            took_s: started.elapsed().as_secs_f64(),
            segments: counts.segments,
            payload_bytes: counts.payload_bytes,
            packets: counts.packets,
            sink_late_ms: counts.latest_ns as f64 / 1e6,
            overrun: self.tap.lost()? - lost_before,
            dropped: self.cable.dropped()? - dropped_before,
            ..Seen::of(came)
        })
    }
}

impl Seen {
    fn of(viewers: Vec<Came>) -> Self {
        let mut seen = Self::default();
        for came in viewers {
            seen.body_bytes += came.body_bytes;
            seen.responses += came.responses;
            seen.connections += came.connections;
            seen.repeated_bytes += came.repeated_bytes;
            seen.unfinished += usize::from(!came.done);
            seen.shown_segments += came.shown.segments;
            seen.late_segments += came.shown.late_segments;
            seen.late_bytes += came.shown.late_bytes;
            seen.latest_ms = seen.latest_ms.max(came.shown.latest_ns as f64 / 1e6);
            seen.missing_segments += came.shown.missing_segments;
            seen.startups_ms.extend(came.shown.startup_ns.map(|ns| ns as f64 / 1e6));
            seen.settled_media_s += came.shown.settled_media_ns as f64 / 1e9;
            seen.kept.extend(came.kept);
            if let Some(failure) = came.failure {
                *seen.failures.entry(failure).or_default() += 1;
            }
        }
        seen
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
