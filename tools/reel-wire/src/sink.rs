//! The world behind the wire: one thread that reads what the tap hands over, plays all viewers, and
//! puts their packets into the server's stack through a raw socket at the far end of the cable.

use super::limits::{BATCH_PACKETS, TURN_NS};
use super::segment::{Name, Packet, Segment};
use super::tap::Tap;
use super::viewer::{Sent, Viewer, ViewerOutcome};
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use rustix::time::{ClockId, clock_gettime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Records that are taken before viewers get their turn.
const TURN_RECORDS: usize = 4096;

/// What others may see of a sink that runs.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) body_bytes: AtomicU64,
    pub(super) stop: AtomicBool,
}

/// What the sink counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Segments and super-segments that left the server.
    pub(super) segments: u64,
    pub(super) payload_bytes: u64,
    /// Packets of viewers.
    pub(super) packets: u64,
    /// From when a segment left until the sink had it, the longest, in nanoseconds.
    pub(super) latest_ns: u64,
}

/// The sink with its viewers.
pub(super) struct Sink<'a> {
    tap: &'a mut Tap,
    out: PacketSender,
    viewers: Vec<Viewer>,
    queue: Queue,
    sent: Sent,
    counts: Counts,
    live: usize,
    /// The address of the first viewer.
    first: u32,
}

impl<'a> Sink<'a> {
    /// `socket` is a raw one at the far end, connected to the server.
    pub(super) fn new(
        tap: &'a mut Tap,
        socket: &'a OwnedFd,
        port: u16,
        viewers: Vec<Viewer>,
    ) -> Result<Self> {
        let first = viewers.first().map_or(0, |viewer| u32::from(viewer.address()));
        let socket = socket.try_clone().context("a second handle of the raw socket")?;
        let live = viewers.len();
        let queue = Queue { heap: BinaryHeap::new(), order: 0, timers_ns: vec![u64::MAX; live] };
        let out = PacketSender { socket, port, bytes: Vec::new(), ends: Vec::new(), sent: 0 };
        Ok(Self { tap, out, viewers, queue, sent: Sent::new(), counts: Counts::default(), live, first })
    }

    /// Plays until all are done or it is told to stop.
    pub(super) fn run(mut self, progress: &Progress) -> Result<(Vec<ViewerOutcome>, Counts)> {
        // Records that an earlier run left belong to no viewer.
        while self.tap.records.next().is_some() {}
        for number in 0..self.viewers.len() {
            let now_ns = now_ns();
            self.with(number, now_ns, |viewer, out| {
                viewer.begin(now_ns, out);
                0
            })?;
        }
        while self.live > 0 && !progress.stop.load(Ordering::Relaxed) {
            let began_ns = now_ns();
            self.take_records();
            let bytes = self.act()?;
            self.out.flush()?;
            if bytes > 0 {
                progress.body_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            // What comes meanwhile is acknowledged in one go, as by a card that gathers interrupts.
            let wait_ns = (began_ns + TURN_NS).saturating_sub(now_ns());
            sleep(Duration::from_nanos(wait_ns));
        }
        self.counts.packets = self.out.sent;
        let ended_ns = now_ns();
        for viewer in &mut self.viewers {
            let address = viewer.address();
            viewer.abandon(&mut self.sent);
            self.sent.drain(..).for_each(|(port, packet)| self.out.push(Name { address, port }, &packet));
        }
        self.out.flush()?;
        let came = self.viewers.into_iter().map(|viewer| viewer.finish(ended_ns));
        Ok((came.collect(), self.counts))
    }

    fn take_records(&mut self) {
        let mut took = 0;
        while took < TURN_RECORDS
            && let Some(item) = self.tap.records.next()
        {
            took += 1;
            let Some((at_ns, name, segment)) = Segment::read(&item) else { continue };
            drop(item);
            self.counts.segments += 1;
            self.counts.payload_bytes += u64::from(segment.bytes);
            if took == 1 {
                self.counts.latest_ns = self.counts.latest_ns.max(now_ns().saturating_sub(at_ns));
            }
            let number = u32::from(name.address).wrapping_sub(self.first) as usize;
            let queue = &mut self.queue;
            if let Some(viewer) = self.viewers.get_mut(number) {
                viewer.carry(at_ns, segment, |due_ns, segment| {
                    queue.push(due_ns, number, Some((name.port, segment)));
                });
            }
        }
    }

    /// Does what is due; returns the bytes of bodies it brought.
    fn act(&mut self) -> Result<u64> {
        let mut bytes = 0;
        let mut now = now_ns();
        while let Some(event) = self.queue.pop(now) {
            let number = event.viewer;
            bytes += match event.arrival {
                Some((port, segment)) => {
                    self.with(number, now, |viewer, out| viewer.arrived(now, port, &segment, out))?
                }
                None if self.queue.timers_ns[number] == event.due_ns => {
                    self.queue.timers_ns[number] = u64::MAX;
                    self.with(number, now, |viewer, out| {
                        viewer.timer(now, out);
                        0
                    })?
                }
                None => 0,
            };
            if self.out.ends.len() >= BATCH_PACKETS {
                self.out.flush()?;
                now = now_ns();
            }
        }
        Ok(bytes)
    }

    fn with(
        &mut self,
        number: usize,
        now_ns: u64,
        act: impl FnOnce(&mut Viewer, &mut Sent) -> u64,
    ) -> Result<u64> {
        let viewer = &mut self.viewers[number];
        let was_done = viewer.is_done();
        let bytes = act(viewer, &mut self.sent);
        let address = viewer.address();
        for (port, packet) in self.sent.drain(..) {
            if !viewer.loses() {
                self.out.push(Name { address, port }, &packet);
            }
        }
        if viewer.is_done() && !was_done {
            self.live -= 1;
        }
        if let Some(due_ns) = viewer.due_ns().map(|due| due.max(now_ns))
            && due_ns < self.queue.timers_ns[number]
        {
            self.queue.timers_ns[number] = due_ns;
            self.queue.push(due_ns, number, None);
        }
        Ok(bytes)
    }
}

/// What is to come, in order of its time.
struct Queue {
    heap: BinaryHeap<Reverse<Event>>,
    order: u64,
    /// The timer of each viewer that counts; others in the heap are stale.
    timers_ns: Vec<u64>,
}

struct Event {
    due_ns: u64,
    order: u64,
    viewer: usize,
    /// To which port what comes; `None`: the viewer's timer.
    arrival: Option<(u16, Segment)>,
}

impl Queue {
    fn push(&mut self, due_ns: u64, viewer: usize, arrival: Option<(u16, Segment)>) {
        self.order += 1;
        self.heap.push(Reverse(Event { due_ns, order: self.order, viewer, arrival }));
    }

    fn due_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |event| event.0.due_ns)
    }

    fn pop(&mut self, now_ns: u64) -> Option<Event> {
        if self.due_ns() > now_ns {
            return None;
        }
        self.heap.pop().map(|event| event.0)
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due_ns, self.order).cmp(&(other.due_ns, other.order))
    }
}

/// Packets on their way into the server's stack.
struct PacketSender {
    socket: OwnedFd,
    port: u16,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    sent: u64,
}

impl PacketSender {
    fn push(&mut self, from: Name, packet: &Packet) {
        packet.write(from, self.port, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    fn flush(&mut self) -> Result<()> {
        let mut start = 0;
        for ends in self.ends.chunks(BATCH_PACKETS) {
            let slices: Vec<_> = ends
                .iter()
                .map(|&end| {
                    let slice = [IoSlice::new(&self.bytes[start..end])];
                    start = end;
                    slice
                })
                .collect();
            let mut controls: Vec<_> = ends.iter().map(|_| SendAncillaryBuffer::default()).collect();
            let mut messages: Vec<_> = slices
                .iter()
                .zip(&mut controls)
                .map(|(slice, control)| MMsgHdr::new(slice, control))
                .collect();
            let mut done = 0;
            while done < messages.len() {
                match sendmmsg(&self.socket, &mut messages[done..], SendFlags::empty()) {
                    Ok(count) => done += count,
                    Err(Errno::INTR) => {}
                    // A full queue loses a packet, as networks do; its sender sends it again.
                    Err(Errno::NOBUFS | Errno::AGAIN) => done += 1,
                    Err(error) => return Err(error).context("sending the viewers' packets"),
                }
            }
        }
        self.sent += self.ends.len() as u64;
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }
}

/// The clock that the tap's records carry.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
