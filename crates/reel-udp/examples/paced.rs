//! Many flows of packets at a steady rate from one thread, as a front end that pushes would send
//! them.
//!
//! `paced from=ADDRESS to=ADDRESS flows=N rate=BITS_PER_SECOND seconds=S` sends RTP packets (RFC
//! 3550, RFC 2250: seven packets of a transport stream each) in N flows over one socket. All flows
//! share one payload, and each flow has headers of its own. The program prints counts, and how late
//! trains were, as JSON. With `file=PATH` the payload is that transport stream, and each flow sends
//! it once.

#![forbid(unsafe_code)]

use reel_arena::{Arena, ArenaConfig, Lease};
use reel_ring::{Ring, RingConfig};
use reel_udp::{FlowCounts, FlowId, Pacer, PacerCounts, Packets, UdpSender, UdpStep};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const HEADER_BYTES: usize = 12;
const PAYLOAD_BYTES: usize = 1316;
/// Packets that are handed over at once.
const PACKETS: usize = 140;
const PIECE_BYTES: usize = PACKETS * PAYLOAD_BYTES;
const BUFFER_BYTES: usize = PIECE_BYTES.next_multiple_of(64 * 4096);
/// Buffers of payload that is sent over and over: more than the cache of a processor holds.
const BUFFERS: usize = 512;
/// The send buffer that is asked for; without root the kernel's own bound holds.
const SEND_BUFFER_BYTES: usize = 64 << 20;

/// What a flow sends.
struct Flow {
    id: FlowId,
    source: u32,
    sequence: u16,
    /// The piece of the payload that comes next, and how many pieces there are to send.
    next: usize,
    end: usize,
}

fn main() -> Result<()> {
    let words: HashMap<String, String> = std::env::args()
        .filter_map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect();
    let word = |name: &str| words.get(name).ok_or(format!("{name}= is missing"));
    let (from, to): (SocketAddr, SocketAddr) = (word("from")?.parse()?, word("to")?.parse()?);
    let (flows, rate): (usize, NonZeroU64) = (word("flows")?.parse()?, word("rate")?.parse()?);
    let file = words.get("file").map(std::fs::read).transpose()?;
    let seconds: f64 = if file.is_some() { f64::MAX } else { word("seconds")?.parse()? };

    let pieces = file.as_ref().map_or(BUFFERS, |bytes| bytes.len().div_ceil(PIECE_BYTES));
    // Headers: two pieces of each flow wait or are with the device, in cells of 4 KiB.
    let buffer_count = pieces + flows * 4 / 64 + 2;
    let arena = Arena::new(ArenaConfig {
        buffer_bytes: BUFFER_BYTES,
        buffer_count,
        cells_per_buffer: 64,
        huge_pages: true,
    })?;
    let payload = payload(&arena, pieces, file.as_deref())?;
    // With the default slack of 50 us a timer may be late by that much, to save power.
    rustix::thread::set_current_timer_slack(std::num::NonZero::new(1))?;
    let ring = Ring::new(RingConfig { entries: 1024, ..RingConfig::default() }, Some(&arena))?;
    let begun_ns = now_ns();
    let socket = UdpSocket::bind(from)?;
    // What is lent stays in the buffer of the socket until the device has sent it.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES);
    let mut sender = UdpSender::new(Arc::new(socket.into()));
    let mut all = Vec::new();
    for number in 0..flows {
        // Flows begin one after another, as viewers do, not all at the same moment.
        let start_ns = begun_ns + 10_000_000 * number as u64 / flows as u64;
        let id = sender.open(to, Pacer::starting_at(rate, start_ns, begun_ns))?;
        let (next, end) = if file.is_some() { (0, pieces) } else { (number * 7 % pieces, usize::MAX) };
        all.push(Flow { id, source: number as u32 + 1, sequence: 0, next, end });
    }
    let cpu_begun = processor_time();
    let mut hands = Hands { ring, arena: &arena, payload: &payload, sender, rate, late_us: Vec::new() };
    hands.drive(&mut all, begun_ns.saturating_add((seconds * 1e9) as u64))?;
    print_summary(hands, &all, Duration::from_nanos(now_ns() - begun_ns), processor_time() - cpu_begun);
    Ok(())
}

/// What the loop works with.
struct Hands<'a> {
    ring: Ring,
    arena: &'a Arena,
    payload: &'a [Lease],
    sender: UdpSender,
    rate: NonZeroU64,
    /// How late trains were pushed, in microseconds.
    late_us: Vec<u32>,
}

impl Hands<'_> {
    /// Sends until the time is over or everything is sent.
    fn drive(&mut self, flows: &mut [Flow], end_ns: u64) -> Result<()> {
        let mut done = Vec::new();
        for flow in &mut *flows {
            self.refill(flow)?;
        }
        while now_ns() < end_ns && !(self.sender.is_idle() && flows.iter().all(|flow| flow.next == flow.end))
        {
            let wait = loop {
                match self.sender.step(now_ns()) {
                    UdpStep::Push { slot, op, due_ns } => {
                        self.late_us.push((now_ns().saturating_sub(due_ns) / 1000) as u32);
                        self.ring.push(slot.into(), op);
                    }
                    UdpStep::At(due_ns) => break Some(due_ns.min(end_ns).saturating_sub(now_ns())),
                    UdpStep::Idle => break None,
                }
            };
            self.ring.wait(wait.map(Duration::from_nanos), &mut done)?;
            for done in done.drain(..) {
                let slot = done.token as u32;
                self.sender.done(now_ns(), slot, done);
                // Slots are given in the order in which flows are opened.
                if let Some(flow) = flows.get_mut(slot as usize) {
                    self.refill(flow)?;
                }
            }
        }
        // Waits for what the device still has, so that it is counted.
        while self.ring.in_flight() > 0 {
            self.ring.wait(None, &mut done)?;
            done.drain(..).for_each(|done| self.sender.done(now_ns(), done.token as u32, done));
        }
        Ok(())
    }

    /// Offers more to a flow that has little left.
    fn refill(&mut self, flow: &mut Flow) -> Result<()> {
        let queued_bytes = |sender: &UdpSender, id| sender.flow(id).map_or(0, |state| state.queued_bytes);
        while flow.next < flow.end && queued_bytes(&self.sender, flow.id) < PIECE_BYTES / 2 {
            let payload = &self.payload[flow.next % self.payload.len()];
            let Some(headers) = headers(self.arena, flow, payload.len(), self.rate) else { break };
            let packets = Packets::headed(headers, HEADER_BYTES, payload.clone(), PAYLOAD_BYTES);
            self.sender.offer(flow.id, packets).map_err(|_| "a flow that is nearly empty took nothing")?;
            flow.next += 1;
        }
        Ok(())
    }
}

/// RTP headers of the packets of a payload, in a cell of the arena.
fn headers(arena: &Arena, flow: &mut Flow, payload_bytes: usize, rate: NonZeroU64) -> Option<Lease> {
    let count = payload_bytes.div_ceil(PAYLOAD_BYTES);
    let mut cell = arena.take(count * HEADER_BYTES)?;
    for (packet, header) in cell[..count * HEADER_BYTES].chunks_mut(HEADER_BYTES).enumerate() {
        let bytes = (flow.next * PIECE_BYTES + packet * PAYLOAD_BYTES) as u128;
        let timestamp = (bytes * 8 * 90_000 / u128::from(rate.get())) as u32;
        header[..2].copy_from_slice(&[0x80, 33]);
        header[2..4].copy_from_slice(&flow.sequence.to_be_bytes());
        header[4..8].copy_from_slice(&timestamp.to_be_bytes());
        header[8..].copy_from_slice(&flow.source.to_be_bytes());
        flow.sequence = flow.sequence.wrapping_add(1);
    }
    Some(cell.freeze().slice(0..count * HEADER_BYTES))
}

fn payload(arena: &Arena, pieces: usize, file: Option<&[u8]>) -> Result<Vec<Lease>> {
    let piece = |number: usize| {
        let mut buffer = arena.take(PIECE_BYTES).ok_or("the arena is too small")?;
        let bytes = match file {
            Some(file) => {
                let bytes = &file[number * PIECE_BYTES..file.len().min((number + 1) * PIECE_BYTES)];
                buffer[..bytes.len()].copy_from_slice(bytes);
                bytes.len()
            }
            None => {
                buffer.fill(number as u8);
                PIECE_BYTES
            }
        };
        Ok(buffer.freeze().slice(0..bytes))
    };
    (0..pieces).map(piece).collect()
}

fn print_summary(hands: Hands<'_>, flows: &[Flow], wall: Duration, cpu: Duration) {
    let Hands { sender, mut late_us, .. } = hands;
    let known: Vec<(FlowCounts, PacerCounts)> = flows
        .iter()
        .filter_map(|flow| sender.flow(flow.id))
        .map(|state| (state.counts, state.pace))
        .collect();
    let sum = |of: fn(&FlowCounts) -> u64| known.iter().map(|(counts, _)| of(counts)).sum::<u64>();
    late_us.sort_unstable();
    let late = |share: f64| late_us.get((late_us.len() as f64 * share) as usize).copied().unwrap_or(0);
    let behind_us = known.iter().map(|(_, pace)| pace.behind_ns_max / 1000).max().unwrap_or(0);
    let waited_ns: u64 = known.iter().map(|(_, pace)| pace.waited_ns).sum();
    println!(
        "{{\"packets\":{},\"bytes\":{},\"trains\":{},\"lent_bytes\":{},\"copied_after_all_bytes\":{},\"refused_packets\":{},\"waited_ns\":{},\
         \"late_p50_us\":{},\"late_p99_us\":{},\"late_p999_us\":{},\"behind_max_us\":{behind_us},\"seconds\":{},\"cpu_s\":{}}}",
        sum(|counts| counts.packets),
        sum(|counts| counts.bytes),
        sum(|counts| counts.trains),
        sum(|counts| counts.lent_bytes),
        sum(|counts| counts.copied_after_all_bytes),
        sum(|counts| counts.refused_packets),
        waited_ns,
        late(0.5),
        late(0.99),
        late(0.999),
        wall.as_secs_f64(),
        cpu.as_secs_f64()
    );
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time of this process, including that of the kernel for it.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
