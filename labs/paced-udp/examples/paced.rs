//! Many flows of packets at a steady rate from one thread, as a front end that pushes would send
//! them.
//!
//! `paced from=ADDRESS to=ADDRESS flows=N rate=BITS_PER_SECOND seconds=S` sends RTP packets (RFC
//! 3550, RFC 2250: seven packets of a transport stream each) over N sockets. All flows share one
//! payload, and each flow has headers of its own. The program prints counts, and how late trains
//! were, as JSON. With `file=PATH` the payload is that transport stream, and each flow sends it
//! once.

#![forbid(unsafe_code)]

use lab_paced_udp::{Packets, UdpSender, UdpStep};
use reel_arena::{Arena, ArenaConfig, Lease};
use reel_ring::{Ring, RingConfig};
use rustix::time::{ClockId, clock_gettime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
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

struct Flow {
    sender: UdpSender,
    source: u32,
    sequence: u16,
    /// The piece of the payload that comes next, and how many pieces there are to send.
    next: usize,
    end: usize,
    due_ns: u64,
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
    let mut ring = Ring::new(RingConfig { entries: 1024, ..RingConfig::default() }, Some(&arena))?;
    let begun_ns = now_ns();
    let mut all = Vec::new();
    for number in 0..flows {
        let socket = UdpSocket::bind(from)?;
        socket.connect(to)?;
        // Flows begin one after another, as viewers do, not all at the same moment.
        let start_ns = begun_ns + 10_000_000 * number as u64 / flows as u64;
        let sender = UdpSender::new(Arc::new(socket.into()), rate, start_ns);
        let (next, end) = if file.is_some() { (0, pieces) } else { (number * 7 % pieces, usize::MAX) };
        all.push(Flow { sender, source: number as u32 + 1, sequence: 0, next, end, due_ns: start_ns });
    }
    let cpu_begun = processor_time();
    let late_us = drive(&mut ring, &arena, &payload, &mut all, (rate, begun_ns, seconds))?;
    print_summary(&all, late_us, Duration::from_nanos(now_ns() - begun_ns), processor_time() - cpu_begun);
    Ok(())
}

/// Sends until the time is over or everything is sent. Returns how late trains were, in
/// microseconds.
fn drive(
    ring: &mut Ring,
    arena: &Arena,
    payload: &[Lease],
    flows: &mut [Flow],
    (rate, begun_ns, seconds): (NonZeroU64, u64, f64),
) -> Result<Vec<u32>> {
    let (mut late_us, mut done) = (Vec::new(), Vec::new());
    let mut agenda: BinaryHeap<Reverse<(u64, usize)>> =
        flows.iter().enumerate().map(|(number, flow)| Reverse((flow.due_ns, number))).collect();
    let end_ns = begun_ns.saturating_add((seconds * 1e9) as u64);
    loop {
        let now = now_ns();
        if now >= end_ns {
            break;
        }
        while let Some(&Reverse((due_ns, number))) =
            agenda.peek().filter(|Reverse((due_ns, _))| *due_ns <= now)
        {
            agenda.pop();
            // The flow may have got another time in the meantime.
            if flows[number].due_ns == due_ns {
                step(&mut flows[number], number, (ring, arena, payload, &mut agenda), rate, &mut late_us)?;
            }
        }
        if agenda.is_empty() && flows.iter().all(|flow| flow.next == flow.end && flow.sender.is_idle()) {
            break;
        }
        let wait =
            agenda.peek().map(|Reverse((due_ns, _))| Duration::from_nanos(due_ns.saturating_sub(now_ns())));
        ring.wait(wait, &mut done)?;
        for done in done.drain(..) {
            let number = done.token as usize;
            flows[number].sender.done(now_ns(), done);
            step(&mut flows[number], number, (ring, arena, payload, &mut agenda), rate, &mut late_us)?;
        }
    }
    // Waits for what the device still has, so that it is counted.
    while ring.in_flight() > 0 {
        ring.wait(None, &mut done)?;
        for done in done.drain(..) {
            flows[done.token as usize].sender.done(now_ns(), done);
        }
    }
    Ok(late_us)
}

type Hands<'a> = (&'a mut Ring, &'a Arena, &'a [Lease], &'a mut BinaryHeap<Reverse<(u64, usize)>>);

/// Does all that a flow has to do now.
fn step(
    flow: &mut Flow,
    number: usize,
    (ring, arena, payload, agenda): Hands<'_>,
    rate: NonZeroU64,
    late_us: &mut Vec<u32>,
) -> Result<()> {
    while flow.next < flow.end && flow.sender.queued_bytes() < PIECE_BYTES / 2 {
        let payload = &payload[flow.next % payload.len()];
        let Some(headers) = headers(arena, flow, payload.len(), rate) else { break };
        let packets = Packets::headed(headers, HEADER_BYTES, payload.clone(), PAYLOAD_BYTES);
        flow.sender.offer(packets).map_err(|_| "a sender that is nearly empty took nothing")?;
        flow.next += 1;
    }
    loop {
        let now = now_ns();
        match flow.sender.step(now) {
            UdpStep::Push(op) => {
                late_us.push((now.saturating_sub(flow.due_ns) / 1000) as u32);
                ring.push(number as u64, op);
            }
            UdpStep::At(due_ns) => {
                flow.due_ns = due_ns;
                agenda.push(Reverse((due_ns, number)));
                return Ok(());
            }
            UdpStep::Idle => return Ok(()),
        }
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

fn print_summary(flows: &[Flow], mut late_us: Vec<u32>, wall: Duration, cpu: Duration) {
    let sum = |of: fn(&UdpSender) -> u64| flows.iter().map(|flow| of(&flow.sender)).sum::<u64>();
    late_us.sort_unstable();
    let late = |share: f64| late_us.get((late_us.len() as f64 * share) as usize).copied().unwrap_or(0);
    let behind_us = flows.iter().map(|flow| flow.sender.pace().behind_ns_max / 1000).max().unwrap_or(0);
    println!(
        "{{\"packets\":{},\"bytes\":{},\"trains\":{},\"lent_bytes\":{},\"copied_after_all_bytes\":{},\"refused_packets\":{},\"waited_ns\":{},\
         \"late_p50_us\":{},\"late_p99_us\":{},\"late_p999_us\":{},\"behind_max_us\":{behind_us},\"seconds\":{},\"cpu_s\":{}}}",
        sum(|sender| sender.counts().packets),
        sum(|sender| sender.counts().bytes),
        sum(|sender| sender.counts().trains),
        sum(|sender| sender.counts().lent_bytes),
        sum(|sender| sender.counts().copied_after_all_bytes),
        sum(|sender| sender.counts().refused_packets),
        sum(|sender| sender.pace().waited_ns),
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
