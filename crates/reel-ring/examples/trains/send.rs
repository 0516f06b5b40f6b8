//! Sends for a while and computes the cost.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reel_arena::{Arena, ArenaConfig, Buffer, Lease};
use reel_ring::{Chunk, DriverChoice, Op, Ring, RingConfig, Train};

use crate::calls;
use crate::{HEADER_BYTES, PACKET_BYTES, PAYLOAD_BYTES, Words};

const BUFFER_BYTES: usize = 1 << 20;
/// Packets of a buffer; the rest of the buffer is unused.
const PACKETS: usize = BUFFER_BYTES / PACKET_BYTES;
/// Distance in bytes from headers that lie apart to the first payload.
const APART_BYTES: usize = PACKETS * HEADER_BYTES;

/// What was sent in a run.
#[derive(Default)]
struct SendCounts {
    packets: u64,
    trains: u64,
    lent_bytes: u64,
    copied_bytes: u64,
    refused: u64,
}

/// Sends the packets of a buffer, and returns a buffer that nothing uses.
trait SendMethod {
    fn send(&mut self, buffer: Buffer, account: &mut SendCounts) -> io::Result<Buffer>;
}

pub(crate) fn run(words: &Words) -> io::Result<()> {
    let (from, to): (SocketAddr, SocketAddr) = (words.get("from")?, words.get("to")?);
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    calls::widen(socket.as_raw_fd())?;
    let (train, seconds, memory_mib) =
        (words.get::<usize>("packets")?, words.get::<f64>("seconds")?, words.get::<usize>("memory")?);
    let arena = Arena::new(ArenaConfig {
        buffer_bytes: BUFFER_BYTES,
        buffer_count: memory_mib,
        cells_per_buffer: 1,
        huge_pages: true,
    })
    .map_err(io::Error::other)?;
    let way: String = words.get("way")?;
    let apart = way.ends_with("-apart");
    let mut way: Box<dyn SendMethod> = match way.as_str() {
        "lent" | "lent-apart" | "lent-unregistered" | "copied" | "copied-apart" => {
            let registered = way != "lent-unregistered";
            let config = RingConfig { entries: 1024, driver: DriverChoice::Uring };
            let ring = Ring::new(config, registered.then_some(&arena)).map_err(io::Error::other)?;
            Box::new(ByRing {
                ring,
                socket: Arc::new(socket.into()),
                train,
                apart,
                lend: way.starts_with("lent"),
            })
        }
        "sendmsg" => Box::new(ByCall { socket, train, call: calls::sendmsg }),
        "sendmmsg" => Box::new(ByCall { socket, train, call: calls::sendmmsg }),
        "sendto" => Box::new(ByCall { socket, train, call: calls::sendto }),
        _ => return Err(io::Error::other("unknown way")),
    };
    let mut buffers = std::iter::from_fn(|| arena.take(BUFFER_BYTES)).collect::<Vec<_>>();
    // Touches every page before the clock starts.
    buffers
        .iter_mut()
        .flat_map(|buffer| buffer.chunks_mut(8))
        .enumerate()
        .for_each(|(i, bytes)| bytes.fill(i as u8));
    tell(measure(way.as_mut(), buffers, apart, Duration::from_secs_f64(seconds))?);
    Ok(())
}

fn measure(
    way: &mut dyn SendMethod,
    buffers: Vec<Buffer>,
    apart: bool,
    time: Duration,
) -> io::Result<(SendCounts, Duration, Duration)> {
    let mut account = SendCounts::default();
    let mut buffers = std::collections::VecDeque::from(buffers);
    let mut sequence = 0;
    let (begun, cpu_begun) = (Instant::now(), calls::processor_time());
    while begun.elapsed() < time {
        let Some(mut buffer) = buffers.pop_front() else { break };
        head(&mut buffer, apart, &mut sequence);
        buffers.push_back(way.send(buffer, &mut account)?);
    }
    Ok((account, begun.elapsed(), calls::processor_time() - cpu_begun))
}

/// Writes the headers of all packets of a buffer: the part that differs from packet to packet, as
/// for RTP.
fn head(buffer: &mut Buffer, apart: bool, sequence: &mut u32) {
    for packet in 0..PACKETS {
        let at = if apart { packet * HEADER_BYTES } else { packet * PACKET_BYTES };
        let header = &mut buffer[at..at + HEADER_BYTES];
        header[..2].copy_from_slice(&[0x80, 33]);
        header[2..4].copy_from_slice(&(*sequence as u16).to_be_bytes());
        header[4..8].copy_from_slice(&(sequence.wrapping_mul(118)).to_be_bytes());
        header[8..].copy_from_slice(&0x5ee1_u32.to_be_bytes());
        *sequence = sequence.wrapping_add(1);
    }
}

struct ByRing {
    ring: Ring,
    socket: Arc<OwnedFd>,
    train: usize,
    apart: bool,
    lend: bool,
}

impl SendMethod for ByRing {
    fn send(&mut self, buffer: Buffer, account: &mut SendCounts) -> io::Result<Buffer> {
        let lease = buffer.freeze();
        for first in (0..PACKETS).step_by(self.train) {
            let packets = first..(first + self.train).min(PACKETS);
            let train = Train {
                socket: Arc::clone(&self.socket),
                to: None,
                chunks: chunks(&lease, self.apart, packets),
                packet_bytes: PACKET_BYTES as u16,
                zero_copy: self.lend,
            };
            self.ring.push(first as u64, Op::Train(train));
        }
        let mut done = Vec::new();
        while self.ring.in_flight() > 0 {
            self.ring.wait(None, &mut done).map_err(io::Error::other)?;
            for done in done.drain(..) {
                match (done.op, done.result) {
                    (Op::Lent { chunks, copied }, _) => {
                        let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
                        *(if copied { &mut account.copied_bytes } else { &mut account.lent_bytes }) += bytes;
                    }
                    (_, Ok(bytes)) => {
                        account.packets += bytes.div_ceil(PACKET_BYTES) as u64;
                        account.trains += 1;
                    }
                    // The port is unreachable, or the socket's buffer is full: counted, and done.
                    (_, Err(_)) => account.refused += 1,
                }
            }
        }
        lease.try_into_buffer().map_err(|_| io::Error::other("the ring has kept a lease"))
    }
}

fn chunks(lease: &Lease, apart: bool, packets: std::ops::Range<usize>) -> Vec<Chunk> {
    let part = |from: usize, bytes: usize| Chunk::Lease(lease.slice(from..from + bytes));
    if !apart {
        return vec![part(packets.start * PACKET_BYTES, packets.len() * PACKET_BYTES)];
    }
    packets
        .flat_map(|packet| {
            let payload = part(APART_BYTES + packet * PAYLOAD_BYTES, PAYLOAD_BYTES);
            [part(packet * HEADER_BYTES, HEADER_BYTES), payload]
        })
        .collect()
}

struct ByCall {
    socket: UdpSocket,
    train: usize,
    call: calls::Call,
}

impl SendMethod for ByCall {
    fn send(&mut self, buffer: Buffer, account: &mut SendCounts) -> io::Result<Buffer> {
        let bytes = &buffer[..PACKETS * PACKET_BYTES];
        for train in bytes.chunks(self.train * PACKET_BYTES) {
            match (self.call)(&self.socket, train) {
                Ok(packets) => {
                    account.packets += packets as u64;
                    account.trains += 1;
                }
                Err(_) => account.refused += 1,
            }
        }
        Ok(buffer)
    }
}

fn tell((account, wall, cpu): (SendCounts, Duration, Duration)) {
    let SendCounts { packets, trains, lent_bytes, copied_bytes, refused } = account;
    println!(
        "{{\"packets\":{packets},\"bytes\":{},\"trains\":{trains},\"lent_bytes\":{lent_bytes},\"copied_bytes\":{copied_bytes},\
         \"refused\":{refused},\"seconds\":{},\"cpu_s\":{}}}",
        packets * PACKET_BYTES as u64,
        wall.as_secs_f64(),
        cpu.as_secs_f64()
    );
}
