//! The state machine of one channel.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use reel_rtp::Packet;
use reel_rtp::fec::{Decoder, FecOutcome, FecPacket, Rejection};
use reel_rtp::limits::PAYLOAD_BYTES_MAX;
use reel_rtp::rtcp::{Compound, Control, SenderReport};

use crate::counts::Counts;
use crate::followed::{Followed, Source, Whose};
use crate::limits::{GOODBYE_NS, JUMP_PACKETS, LOSS_PACKETS_MAX, OUTPUT_PACKETS_MAX, SOURCE_PACKETS};
use crate::order::{Held, Order, Place, Popped, Put};
use crate::owned::Owned;
use crate::plan::{Plan, Port};

/// Bytes of a packet of a transport stream, and the first of them.
const TS_BYTES: usize = 188;
const TS_SYNC: u8 = 0x47;

/// Puts the packets of one channel in order and repairs lost ones. Pure: the caller gives it
/// datagrams with the times of their arrival, and takes payloads after each.
///
/// A packet is given out as soon as all before it are given out or given up. A missing packet is
/// given up when its FEC packet must have arrived: after two matrices, or after the repair window
/// of the description. Memory is bounded: two windows of at most 4096 packets (the packets in
/// order, and those of the FEC decoder), and the packets that the caller has not taken.
///
/// The sender that is followed stays: its address and its SSRC. Another one is followed when it has
/// sent some packets while the first one was silent.
pub struct Receiver {
    plan: Plan,
    followed: Followed,
    order: Order,
    decoder: Option<Decoder>,
    /// Packets of the followed source far from all others, which follow each other.
    jump: Vec<Owned>,
    output: VecDeque<Payload>,
    goodbye_ns: Option<u64>,
    /// The last report of the source that is followed, and when it arrived.
    report: Option<(SenderReport, u64)>,
    counts: Counts,
}

/// The payload of one packet: whole packets of a transport stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The time stamp of the packet, in ticks of 90 kHz.
    pub time_stamp: u32,
    /// Whether the packet was lost and repaired.
    pub is_repaired: bool,
    /// When it arrived.
    pub arrival_ns: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Receiver {
    /// A receiver of one channel.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self {
            followed: Followed::default(),
            order: Order::new(plan.hold()),
            decoder: plan.decoder(),
            jump: Vec::new(),
            output: VecDeque::new(),
            goodbye_ns: None,
            report: None,
            counts: Counts::default(),
            plan,
        }
    }

    /// What has happened since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes a datagram that arrived at a port of the channel. The times of calls do not decrease.
    pub fn push(&mut self, port: Port, bytes: &[u8], from: SocketAddr, now_ns: u64) {
        match port {
            Port::Media => self.push_media(bytes, from, now_ns),
            Port::Fec => self.push_fec(bytes, from, now_ns),
            Port::Rtcp => self.push_rtcp(bytes, from, now_ns),
        }
    }

    /// Says that nothing more has arrived until now: what is waited for no longer is given up.
    pub fn advance(&mut self, now_ns: u64) {
        let until_ns = if self.is_after_goodbye(now_ns) { u64::MAX } else { now_ns };
        self.give_out(until_ns);
    }

    /// The next payload, if it is there. The time is only counted.
    pub fn next(&mut self, now_ns: u64) -> Option<Payload> {
        let payload = self.output.pop_front()?;
        let delay_ns = now_ns.saturating_sub(payload.arrival_ns);
        self.counts.delivered += 1;
        self.counts.delivered_bytes += payload.bytes.len() as u64;
        self.counts.delay_sum_ns = self.counts.delay_sum_ns.saturating_add(delay_ns);
        self.counts.delay_max_ns = self.counts.delay_max_ns.max(delay_ns);
        Some(payload)
    }

    /// When [`Receiver::advance`] has something to do, if no datagram arrives before.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        let goodbye_ns = self.goodbye_ns.map(|goodbye_ns| goodbye_ns + GOODBYE_NS);
        self.order.due_ns().into_iter().chain(goodbye_ns).min()
    }

    /// Whether the source has said goodbye and everything was given out.
    #[must_use]
    pub fn has_ended(&self, now_ns: u64) -> bool {
        self.is_after_goodbye(now_ns) && self.output.is_empty() && self.order.due_ns().is_none()
    }

    /// The last report of the sender that was not taken, and when it arrived.
    pub(crate) fn take_report(&mut self) -> Option<(SenderReport, u64)> {
        self.report.take()
    }

    /// Gives up what is missing: [`Receiver::next`] then has all that has arrived.
    pub fn finish(&mut self) {
        self.flush();
    }

    fn push_media(&mut self, bytes: &[u8], from: SocketAddr, now_ns: u64) {
        let Some(packet) = self.usable(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        let source = Source { address: from, ssrc: packet.ssrc };
        if !self.plan.allows(from.ip()) {
            self.counts.foreign += 1;
            return;
        }
        if self.plan.ssrc.is_some_and(|ssrc| ssrc != packet.ssrc) {
            self.counts.undescribed += 1;
            return;
        }
        match self.followed.see(source, &packet, now_ns) {
            Whose::Followed => self.take_near(&packet, now_ns),
            Whose::Other => self.counts.foreign += 1,
            Whose::New(packets) => {
                // They were counted as foreign before, except the last one.
                self.counts.foreign -= packets.len() as u64 - 1;
                self.counts.restarts += u64::from(self.counts.received > 0);
                self.goodbye_ns = None;
                self.restart(&packets, now_ns);
            }
        }
    }

    /// The packet, if it has whole packets of a transport stream. FEC covers only plain packets.
    fn usable<'a>(&self, bytes: &'a [u8]) -> Option<Packet<'a>> {
        let packet = Packet::parse(bytes).ok()?;
        let is_usable = packet.payload_type == self.plan.payload_type
            && (packet.is_plain || self.decoder.is_none())
            && is_transport_stream(packet.payload);
        is_usable.then_some(packet)
    }

    /// Takes a packet of the followed source if it is near the others.
    fn take_near(&mut self, packet: &Packet<'_>, now_ns: u64) {
        // A goodbye after which packets are sent was not the source's.
        let is_alive = |goodbye_ns: u64| now_ns.saturating_sub(goodbye_ns) > GOODBYE_NS / 2;
        self.goodbye_ns = self.goodbye_ns.filter(|goodbye_ns| !is_alive(*goodbye_ns));
        if !self.order.has_place(self.order.place(packet.sequence)) {
            return self.take_far(packet, now_ns);
        }
        self.counts.late += self.jump.len() as u64;
        self.jump.clear();
        self.take(packet, now_ns, now_ns);
    }

    /// Keeps a packet far from the others until it is clear whether the source has jumped.
    fn take_far(&mut self, packet: &Packet<'_>, now_ns: u64) {
        let follows = |last: &Owned| last.sequence.wrapping_add(1) == packet.sequence;
        if !self.jump.last().is_some_and(follows) {
            self.counts.late += self.jump.len() as u64;
            self.jump.clear();
        }
        self.jump.push(Owned::new(packet, now_ns));
        let distance = self.order.distance(self.jump[0].sequence);
        // What is far behind may be on a long path; what is ahead has passed everything else.
        let needed = if distance > 0 { JUMP_PACKETS } else { SOURCE_PACKETS };
        if self.jump.len() < needed {
            return;
        }
        let packets = std::mem::take(&mut self.jump);
        self.flush();
        if (1..=LOSS_PACKETS_MAX).contains(&distance) {
            self.counts.lost += distance.unsigned_abs() as u64 - 1;
            self.counts.unrepaired += distance.unsigned_abs() as u64 - 1;
        } else {
            self.counts.restarts += 1;
        }
        self.restart(&packets, now_ns);
    }

    /// Gives out what is held, and begins with other packets.
    fn restart(&mut self, packets: &[Owned], now_ns: u64) {
        self.flush();
        self.counts.late += self.jump.len() as u64;
        self.jump.clear();
        let Some(first) = packets.first() else { return };
        let ahead = |packet: &&Owned| packet.sequence.wrapping_sub(first.sequence).cast_signed();
        let first = packets.iter().min_by_key(ahead).unwrap_or(first);
        self.order.restart(first.sequence);
        self.decoder = self.plan.decoder();
        for packet in packets {
            if self.order.has_place(self.order.place(packet.sequence)) {
                self.take(&packet.packet(), packet.arrival_ns, now_ns);
            } else {
                self.counts.late += 1;
            }
        }
    }

    fn take(&mut self, packet: &Packet<'_>, arrival_ns: u64, now_ns: u64) {
        let held = Held {
            time_stamp: packet.time_stamp,
            is_repaired: false,
            arrival_ns,
            payload: packet.payload.to_vec(),
        };
        let place = self.order.place(packet.sequence);
        self.make_room(place);
        match self.order.put(place, held, arrival_ns) {
            Put::Taken => self.counts.received += 1,
            Put::Overtaken => {
                self.counts.received += 1;
                self.counts.lost -= 1;
                self.counts.repaired -= 1;
            }
            Put::Duplicate => self.counts.duplicates += 1,
            Put::Late => self.counts.late += 1,
        }
        if let Some(decoder) = &mut self.decoder {
            // A late packet, too, can make another one repairable.
            decoder.push_media(packet);
            self.collect_repaired(now_ns);
        }
        self.advance(now_ns);
    }

    fn push_fec(&mut self, bytes: &[u8], from: SocketAddr, now_ns: u64) {
        let (Ok(packet), true) = (FecPacket::parse(bytes), self.decoder.is_some()) else {
            self.counts.malformed += 1;
            return;
        };
        if self.is_foreign(from.ip()) {
            self.counts.foreign += 1;
            return;
        }
        self.counts.fec += 1;
        let outcome = self.decoder.as_mut().map(|decoder| decoder.push_fec(&packet));
        // Those of packets before the first one that arrived are of no use, and nothing is wrong.
        let is_unused =
            matches!(outcome, Some(FecOutcome::Rejected(Rejection::NoMedia | Rejection::OutsideWindow)));
        if matches!(outcome, Some(FecOutcome::Rejected(_))) && !is_unused {
            self.counts.fec_rejected += 1;
        }
        self.collect_repaired(now_ns);
        self.advance(now_ns);
    }

    /// Takes what the decoder has repaired, unless it was given up before.
    fn collect_repaired(&mut self, now_ns: u64) {
        while let Some(repaired) = self.decoder.as_mut().and_then(Decoder::next_repaired) {
            if !is_transport_stream(&repaired.payload) {
                self.counts.fec_rejected += 1;
                continue;
            }
            let place = self.order.place(repaired.sequence);
            let held = Held {
                time_stamp: repaired.time_stamp,
                is_repaired: true,
                arrival_ns: self.order.noticed_ns(place).unwrap_or(now_ns),
                payload: repaired.payload,
            };
            if self.order.has_place(place) {
                self.make_room(place);
                self.order.put(place, held, now_ns);
            }
        }
    }

    fn push_rtcp(&mut self, bytes: &[u8], from: SocketAddr, now_ns: u64) {
        let Ok(compound) = Compound::parse(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        if self.is_foreign(from.ip()) {
            self.counts.foreign += 1;
            return;
        }
        let followed = self.followed.source().map(|source| source.ssrc);
        let Some(source) = self.plan.ssrc.or(followed) else { return };
        for control in compound.packets() {
            match control {
                Control::Goodbye(sources) if sources.iter().any(|ssrc| ssrc == source) => {
                    self.goodbye_ns.get_or_insert(now_ns);
                }
                Control::Report(report) if report.ssrc == source => self.report = Some((report, now_ns)),
                _ => {}
            }
        }
    }

    /// Whether an address is that of another sender. FEC and reports may come from another port
    /// than the media, and before the first media packet from any address.
    fn is_foreign(&self, address: IpAddr) -> bool {
        let is_other = |source: Source| source.address.ip() != address;
        !self.plan.allows(address) || self.followed.source().is_some_and(is_other)
    }

    fn is_after_goodbye(&self, now_ns: u64) -> bool {
        self.goodbye_ns.is_some_and(|goodbye_ns| goodbye_ns + GOODBYE_NS <= now_ns)
    }

    fn flush(&mut self) {
        self.give_out(u64::MAX);
    }

    /// Gives out what is in the way of a packet far ahead. What is missing there would be given up
    /// after it anyway.
    fn make_room(&mut self, place: Place) {
        while !self.order.has_room(place)
            && let Some(popped) = self.order.pop(u64::MAX)
        {
            self.take_popped(popped);
        }
    }

    fn give_out(&mut self, until_ns: u64) {
        while let Some(popped) = self.order.pop(until_ns) {
            self.take_popped(popped);
        }
    }

    fn take_popped(&mut self, popped: Popped) {
        let Popped::Packet(held) = popped else {
            self.counts.lost += 1;
            self.counts.unrepaired += 1;
            return;
        };
        self.counts.lost += u64::from(held.is_repaired);
        self.counts.repaired += u64::from(held.is_repaired);
        let Held { time_stamp, is_repaired, arrival_ns, payload: bytes } = held;
        self.output.push_back(Payload { time_stamp, is_repaired, arrival_ns, bytes });
        if self.output.len() > OUTPUT_PACKETS_MAX {
            self.output.pop_front();
            self.counts.overrun += 1;
        }
    }
}

/// Whether these are whole packets of a transport stream (RFC 2250, section 2).
fn is_transport_stream(payload: &[u8]) -> bool {
    let (packets, rest) = payload.as_chunks::<TS_BYTES>();
    let is_possible = !packets.is_empty() && rest.is_empty() && payload.len() <= PAYLOAD_BYTES_MAX;
    is_possible && packets.iter().all(|packet| packet[0] == TS_SYNC)
}
