//! A viewer's end of a TCP connection (RFC 9293), as far as one is needed that sends requests and
//! takes everything: no clock, no sockets. What it receives it never holds; it knows only how far
//! the bytes have come.

use super::limits::{ANSWER_NS, HELD_NS, HOLES_MAX, SEGMENT_BYTES, TOLD_MAX, TRIES_MAX};
use super::segment::{Packet, Segment, flag};

/// How a viewer takes what comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpOptions {
    /// What a server may send ahead of acknowledgements.
    pub(super) window_bytes: u32,
    /// A longer arrival is acknowledged in several steps. Receivers with GRO take up to 64 KiB at
    /// once.
    pub(super) step_bytes: u32,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TcpState {
    Opening,
    Open,
    /// We said that we are done.
    Closing,
    Closed,
    /// The server broke it off, or never answered.
    Broken(&'static str),
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    tcp_options: TcpOptions,
    state: TcpState,
    /// Of our first byte that is not acknowledged.
    sequence: u32,
    /// Our bytes that are not acknowledged.
    unanswered: Vec<u8>,
    /// Whether the end of our bytes was sent.
    ended: bool,
    /// Sequence number of the server's first byte.
    base: u32,
    /// The server's bytes that came without a hole.
    received: u64,
    /// What came behind holes: from, to; in order, apart.
    islands: Vec<(u64, u64)>,
    /// Where the server's bytes end, if it has said so.
    end: Option<u64>,
    /// Bytes that came and were not acknowledged yet, and until when that may wait.
    held_bytes: u64,
    held_until_ns: Option<u64>,
    /// When what is unanswered is sent again, and how often it was sent.
    again_ns: Option<u64>,
    tries: u32,
}

impl Connection {
    /// Begins one; `sequence` is the first number of our bytes.
    pub(super) fn open(now_ns: u64, sequence: u32, tcp_options: TcpOptions, out: &mut Vec<Packet>) -> Self {
        let mut connection = Self {
            tcp_options,
            state: TcpState::Opening,
            sequence,
            unanswered: Vec::new(),
            ended: false,
            base: 0,
            received: 0,
            islands: Vec::new(),
            end: None,
            held_bytes: 0,
            held_until_ns: None,
            again_ns: None,
            tries: 0,
        };
        connection.transmit(now_ns, out);
        connection
    }

    pub(super) fn state(&self) -> TcpState {
        self.state
    }

    /// The server's bytes that came without a hole.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// The place of a sequence number among the server's bytes; negative is before the first.
    pub(super) fn place(&self, sequence: u32) -> i64 {
        let expected = self.base.wrapping_add(self.received as u32);
        self.received as i64 + i64::from(sequence.wrapping_sub(expected).cast_signed())
    }

    /// Whether the server ends the connection after what it has sent.
    pub(super) fn server_ended(&self) -> bool {
        self.end.is_some_and(|end| self.received >= end)
    }

    /// Sends bytes, at once or when the connection is open.
    pub(super) fn send(&mut self, now_ns: u64, bytes: &[u8], out: &mut Vec<Packet>) {
        self.unanswered.extend_from_slice(bytes);
        if self.state == TcpState::Open {
            self.tries = 0;
            self.transmit(now_ns, out);
        }
    }

    /// Ends our side. What the server still sends is acknowledged.
    pub(super) fn close(&mut self, now_ns: u64, out: &mut Vec<Packet>) {
        match self.state {
            TcpState::Open => {
                self.state = TcpState::Closing;
                self.ended = true;
                self.tries = 0;
                self.transmit(now_ns, out);
            }
            TcpState::Opening => self.state = TcpState::Closed,
            _ => {}
        }
    }

    /// Breaks it off.
    pub(super) fn abandon(&mut self, out: &mut Vec<Packet>) {
        if !matches!(self.state, TcpState::Closed | TcpState::Broken(_)) {
            let mut packet = self.packet(flag::RST | flag::ACK, Vec::new());
            let sent = self.unanswered.len() as u32 + u32::from(self.ended);
            packet.sequence = self.sequence.wrapping_add(sent);
            packet.acknowledged = self.base.wrapping_add(self.received as u32);
            out.push(packet);
            self.stop(TcpState::Broken("abandoned"));
        }
    }

    /// A segment came.
    pub(super) fn arrived(&mut self, now_ns: u64, segment: &Segment, out: &mut Vec<Packet>) {
        if matches!(self.state, TcpState::Closed | TcpState::Broken(_)) {
            return;
        }
        if segment.has(flag::RST) {
            self.stop(TcpState::Broken("reset by the server"));
            return;
        }
        if self.state == TcpState::Opening {
            self.answered_syn(now_ns, segment, out);
            return;
        }
        if segment.has(flag::SYN) {
            // Our last step of the handshake was lost.
            self.acknowledge(self.received, out);
            return;
        }
        self.take_acknowledgement(now_ns, segment);
        let from = self.place(segment.sequence);
        let to = from + i64::from(segment.bytes);
        if segment.has(flag::FIN) && to >= 0 {
            self.end = Some(to as u64);
        }
        if segment.bytes > 0 || segment.has(flag::FIN) {
            self.take_bytes(now_ns, from.max(0) as u64, to.max(0) as u64, segment.has(flag::FIN), out);
        }
        if self.state == TcpState::Closing && self.server_ended() && self.unanswered.is_empty() && !self.ended
        {
            self.stop(TcpState::Closed);
        }
    }

    /// When `timer` is to be called next.
    pub(super) fn due_ns(&self) -> Option<u64> {
        [self.held_until_ns, self.again_ns].into_iter().flatten().min()
    }

    /// Time has passed.
    pub(super) fn timer(&mut self, now_ns: u64, out: &mut Vec<Packet>) {
        if self.held_until_ns.is_some_and(|until| until <= now_ns) {
            self.acknowledge(self.received, out);
        }
        if self.again_ns.is_some_and(|again| again <= now_ns) {
            if self.tries < TRIES_MAX {
                self.transmit(now_ns, out);
            } else if self.state == TcpState::Closing {
                self.stop(TcpState::Closed);
            } else {
                self.stop(TcpState::Broken("no answer from the server"));
            }
        }
    }

    fn answered_syn(&mut self, now_ns: u64, segment: &Segment, out: &mut Vec<Packet>) {
        if !segment.has(flag::SYN) || segment.acknowledged != self.sequence.wrapping_add(1) {
            return;
        }
        self.state = TcpState::Open;
        self.base = segment.sequence.wrapping_add(1);
        self.sequence = segment.acknowledged;
        (self.again_ns, self.tries) = (None, 0);
        if self.unanswered.is_empty() {
            self.acknowledge(0, out);
        } else {
            self.transmit(now_ns, out);
        }
    }

    fn take_acknowledgement(&mut self, now_ns: u64, segment: &Segment) {
        let taken = segment.acknowledged.wrapping_sub(self.sequence) as usize;
        let most = self.unanswered.len() + usize::from(self.ended);
        if !segment.has(flag::ACK) || taken == 0 || taken > most {
            return;
        }
        let bytes = taken.min(self.unanswered.len());
        self.unanswered.drain(..bytes);
        if taken > bytes {
            self.ended = false;
        }
        self.sequence = segment.acknowledged;
        self.tries = 0;
        let waits = !self.unanswered.is_empty() || self.ended;
        self.again_ns = waits.then_some(now_ns + ANSWER_NS);
    }

    fn take_bytes(&mut self, now_ns: u64, from: u64, to: u64, last: bool, out: &mut Vec<Packet>) {
        let before = self.received;
        if from > before {
            self.remember(from, to);
            self.acknowledge(before, out);
            return;
        }
        let had_islands = !self.islands.is_empty();
        self.received = before.max(to);
        while let Some(&(from, to)) = self.islands.first().filter(|island| island.0 <= self.received) {
            debug_assert!(from <= to);
            self.received = self.received.max(to);
            self.islands.remove(0);
        }
        self.held_bytes += self.received - before;
        let must = last || had_islands || self.received == before;
        if must || self.held_bytes >= u64::from(2 * SEGMENT_BYTES) {
            let step = u64::from(self.tcp_options.step_bytes.max(1));
            let mut to = before;
            loop {
                to = self.received.min(to + step);
                self.acknowledge(to, out);
                if to >= self.received {
                    break;
                }
            }
        } else if self.held_until_ns.is_none() {
            self.held_until_ns = Some(now_ns + HELD_NS);
        }
    }

    fn remember(&mut self, from: u64, to: u64) {
        if to <= from {
            return;
        }
        let (mut from, mut to) = (from, to);
        self.islands.retain(|island| {
            let apart = island.1 < from || island.0 > to;
            if !apart {
                (from, to) = (from.min(island.0), to.max(island.1));
            }
            apart
        });
        if self.islands.len() < HOLES_MAX {
            let at = self.islands.partition_point(|island| island.0 < from);
            self.islands.insert(at, (from, to));
        }
    }

    /// Tells that all bytes before `to` came.
    fn acknowledge(&mut self, to: u64, out: &mut Vec<Packet>) {
        let mut packet = self.packet(flag::ACK, Vec::new());
        // The end of the server's bytes takes one number of its own.
        let end = u64::from(to == self.received && self.server_ended());
        packet.acknowledged = self.base.wrapping_add((to + end) as u32);
        // The number after all we sent, our end included.
        let sent = self.unanswered.len() as u32 + u32::from(self.ended);
        packet.sequence = self.sequence.wrapping_add(sent);
        if to == self.received {
            (self.held_bytes, self.held_until_ns) = (0, None);
        }
        out.push(packet);
    }

    /// Sends what is not answered: a SYN, requests, our end. They are small: all of them go each
    /// time.
    fn transmit(&mut self, now_ns: u64, out: &mut Vec<Packet>) {
        let flags = match self.state {
            TcpState::Opening => flag::SYN,
            _ if self.ended => flag::ACK | flag::FIN,
            _ => flag::ACK | flag::PSH,
        };
        let payload = if self.state == TcpState::Opening { Vec::new() } else { self.unanswered.clone() };
        let mut packet = self.packet(flags, payload);
        packet.sequence = self.sequence;
        if self.state != TcpState::Opening {
            let end = u64::from(self.server_ended());
            packet.acknowledged = self.base.wrapping_add((self.received + end) as u32);
            (self.held_bytes, self.held_until_ns) = (0, None);
        }
        out.push(packet);
        self.again_ns = Some(now_ns + (ANSWER_NS << self.tries.min(6)));
        self.tries += 1;
    }

    fn packet(&self, flags: u8, payload: Vec<u8>) -> Packet {
        let number = |place: u64| self.base.wrapping_add(place as u32);
        let islands = self.islands.iter().take(TOLD_MAX).map(|&(from, to)| (number(from), number(to)));
        let window_bytes = self.tcp_options.window_bytes;
        Packet { flags, window_bytes, islands: islands.collect(), payload, ..Packet::default() }
    }

    fn stop(&mut self, state: TcpState) {
        self.state = state;
        (self.held_until_ns, self.again_ns) = (None, None);
    }
}
