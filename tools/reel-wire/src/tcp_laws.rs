//! Laws of a viewer's connection, with a simple server of the same protocol and a line that loses
//! and reorders.

use super::network::{Line, Link};
use super::response::Response;
use super::segment::{Packet, Segment, flag};
use super::tcp::{Connection, TcpOptions, TcpState};
use reel_testkit::Rng;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const MANNER: TcpOptions = TcpOptions { window_bytes: 1 << 20, step_bytes: 64 << 10 };
/// The server's first sequence number: so near the end that numbers wrap around.
const FIRST: u32 = u32::MAX - 30_000;

/// A server that sends `bytes` when it is asked, in super-segments, and sends again what is not
/// acknowledged: at the third equal acknowledgement, or after a while.
struct Server {
    bytes: Vec<u8>,
    open: bool,
    asked: bool,
    acknowledged: u64,
    sent: u64,
    equal: u32,
    again_ns: u64,
    client: u32,
    ended: bool,
    client_ended: bool,
    resent: u64,
}

impl Server {
    fn segment(&self, flags: u8, from: u64, bytes: u64) -> Segment {
        let text = self.bytes[from as usize..(from + bytes) as usize].to_vec();
        let sequence = FIRST.wrapping_add(1).wrapping_add(from as u32);
        Segment { flags, sequence, acknowledged: self.client, bytes: bytes as u32, text }
    }

    fn take(&mut self, now_ns: u64, packet: &Packet, out: &mut Vec<Segment>) {
        if packet.flags & flag::SYN != 0 {
            self.client = packet.sequence.wrapping_add(1);
            let mut answer = self.segment(flag::SYN | flag::ACK, 0, 0);
            answer.sequence = FIRST;
            out.push(answer);
            return;
        }
        self.open = true;
        if packet.sequence == self.client {
            self.client = self.client.wrapping_add(packet.payload.len() as u32);
            self.asked |= !packet.payload.is_empty();
            if packet.flags & flag::FIN != 0 {
                self.client = self.client.wrapping_add(1);
                self.client_ended = true;
            }
        }
        let place = packet.acknowledged.wrapping_sub(FIRST.wrapping_add(1));
        let acknowledged = u64::from(place).min(self.bytes.len() as u64 + 1);
        if acknowledged > self.acknowledged {
            (self.acknowledged, self.equal, self.again_ns) = (acknowledged, 0, now_ns + 300 * MS);
        } else if acknowledged == self.acknowledged && self.sent > acknowledged {
            self.equal += 1;
            if self.equal == 3 {
                // What the viewer has behind the hole need not be sent again.
                let hole = packet.islands.first().map_or(1460, |island| {
                    u64::from(island.0.wrapping_sub(FIRST.wrapping_add(1))).saturating_sub(acknowledged)
                });
                let bytes = hole.min(64_000).min((self.bytes.len() as u64).saturating_sub(acknowledged));
                self.resent += bytes;
                out.push(self.segment(flag::ACK, acknowledged, bytes));
            }
        }
        self.send(now_ns, out);
        if !packet.payload.is_empty() || packet.flags & flag::FIN != 0 {
            out.push(self.segment(flag::ACK, 0, 0));
        }
    }

    fn send(&mut self, now_ns: u64, out: &mut Vec<Segment>) {
        let all = self.bytes.len() as u64;
        while self.asked && self.sent < all && self.sent - self.acknowledged.min(self.sent) < 256_000 {
            let bytes = (all - self.sent).min(40_000);
            out.push(self.segment(flag::ACK | flag::PSH, self.sent, bytes));
            self.sent += bytes;
            self.again_ns = now_ns + 300 * MS;
        }
        if self.client_ended && self.acknowledged >= all && !self.ended {
            self.ended = true;
            self.again_ns = now_ns + 300 * MS;
            out.push(self.segment(flag::ACK | flag::FIN, all, 0));
        }
    }

    fn timer(&mut self, now_ns: u64, out: &mut Vec<Segment>) {
        let all = self.bytes.len() as u64;
        if now_ns < self.again_ns {
            return;
        }
        self.again_ns = now_ns + 300 * MS;
        if self.acknowledged < self.sent.min(all) {
            let bytes = (all - self.acknowledged).min(1460);
            self.resent += bytes;
            self.equal = 0;
            out.push(self.segment(flag::ACK, self.acknowledged, bytes));
        } else if self.ended && self.acknowledged <= all {
            out.push(self.segment(flag::ACK | flag::FIN, all, 0));
        }
    }
}

/// What came of one transfer: the state, the body, when it ended, and what the server sent again.
fn transfer(seed: u64, loss: f64, reorder: bool) -> (TcpState, Option<Vec<u8>>, u64, u64) {
    let mut rng = Rng::new(seed);
    let body: Vec<u8> = (0..200_000 + rng.below(400_000)).map(|at| (at ^ at >> 8) as u8).collect();
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend(&body);
    let mut server = Server {
        bytes,
        open: false,
        asked: false,
        acknowledged: 0,
        sent: 0,
        equal: 0,
        again_ns: u64::MAX,
        client: 0,
        ended: false,
        client_ended: false,
        resent: 0,
    };
    let mut line = Line::new(Link { round_trip_ns: 20 * MS, line_bps: Some(200_000_000), loss }, seed, 0);
    let (mut packets, mut segments) = (Vec::new(), Vec::new());
    let mut coming: BTreeMap<(u64, u64), Segment> = BTreeMap::new();
    let mut connection = Connection::open(0, u32::MAX - 20, MANNER, &mut packets);
    connection.send(0, b"GET / HTTP/1.1\r\n\r\n", &mut packets);
    let mut response = Response::awaited(0, true);
    let (mut order, mut answer) = (0, None);
    for now_ns in (0..120_000 * MS).step_by(MS as usize) {
        for packet in packets.drain(..) {
            if !line.lost() {
                server.take(now_ns, &packet, &mut segments);
            }
        }
        server.timer(now_ns, &mut segments);
        for segment in segments.drain(..) {
            line.carry(now_ns, segment, |due_ns, segment| {
                let late_ns = if reorder { rng.below(15) * MS } else { 0 };
                order += 1;
                coming.insert((due_ns + late_ns, order), segment);
            });
        }
        while let Some(entry) = coming.first_entry().filter(|entry| entry.key().0 <= now_ns) {
            let segment = entry.remove();
            if answer.is_none() && !segment.text.is_empty() {
                response.text(connection.place(segment.sequence), &segment.text).expect("a response");
            }
            connection.arrived(now_ns, &segment, &mut packets);
            if answer.is_none() {
                answer = response.whole(connection.received()).expect("a response");
                if answer.is_some() {
                    connection.close(now_ns, &mut packets);
                }
            }
        }
        if connection.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            connection.timer(now_ns, &mut packets);
        }
        let over = matches!(connection.state(), TcpState::Closed | TcpState::Broken(_));
        if over && packets.is_empty() {
            return (
                connection.state(),
                answer.and_then(|a| a.body).filter(|b| *b == body),
                now_ns,
                server.resent,
            );
        }
    }
    (connection.state(), None, u64::MAX, server.resent)
}

#[test]
fn what_is_sent_comes_whatever_the_line_loses_or_reorders() {
    for seed in 0..150 {
        let loss = [0.0, 0.002, 0.01, 0.05][seed as usize % 4];
        let (state, body, _, _) = transfer(seed, loss, seed % 3 == 0);
        assert!(body.is_some(), "seed {seed}, loss {loss}: other bytes, or none; {state:?}");
        assert_eq!(state, TcpState::Closed, "seed {seed}, loss {loss}");
    }
}

#[test]
fn a_line_without_losses_needs_nothing_twice() {
    for seed in 0..20 {
        let (_, body, took_ns, resent) = transfer(seed, 0.0, false);
        assert!(body.is_some());
        assert_eq!(resent, 0, "seed {seed}");
        // Handshake, request, and 256,000 bytes in each round trip of 20 ms; an end on both sides.
        assert!(took_ns < 300 * MS, "seed {seed}: {} ms", took_ns / MS);
    }
}

#[test]
fn holes_are_told_so_that_only_they_are_sent_again() {
    let mut resent = 0;
    for seed in 0..40 {
        resent += transfer(seed, 0.01, false).3;
    }
    // 16 MB with one segment in a hundred lost: what is sent again is of the order of what was
    // lost, far from all.
    assert!(resent > 0 && resent < 3_000_000, "{resent}");
}

#[test]
fn a_server_that_is_not_there_is_given_up() {
    let mut packets = Vec::new();
    let mut connection = Connection::open(0, 1, MANNER, &mut packets);
    let mut now_ns = 0;
    while let Some(due_ns) = connection.due_ns() {
        assert!(due_ns >= now_ns);
        now_ns = due_ns;
        connection.timer(now_ns, &mut packets);
    }
    assert!(matches!(connection.state(), TcpState::Broken(_)));
    assert!(packets.len() > 3 && packets.iter().all(|packet| packet.flags == flag::SYN));
}

#[test]
fn a_reset_ends_it_at_once() {
    let mut packets = Vec::new();
    let mut connection = Connection::open(0, 1, MANNER, &mut packets);
    let reset = Segment { flags: flag::RST, sequence: 0, acknowledged: 2, bytes: 0, text: Vec::new() };
    connection.arrived(5, &reset, &mut packets);
    assert!(matches!(connection.state(), TcpState::Broken(_)));
    assert_eq!(connection.due_ns(), None);
}
