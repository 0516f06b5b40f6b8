//! A sender: packets of a transport stream with random bytes, their FEC, and a network that loses,
//! delays and repeats them.

use std::net::SocketAddr;

use reel_receive::{FecPlan, Payload, Plan, Port, Receiver};
use reel_rtp::fec::{FEC_HEADERS_BYTES, FecHeader, Geometry, Recovery};
use reel_rtp::rtcp::{Cname, SenderReport, write_goodbye};
use reel_rtp::{HEADER_BYTES, HeaderTemplate, MP2T, NtpTime};
use reel_testkit::Rng;

/// Time between two media packets.
pub(crate) const SPACING_NS: u64 = 2_000_000;

/// A datagram on its way.
#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    pub(crate) at_ns: u64,
    pub(crate) port: Port,
    pub(crate) bytes: Vec<u8>,
    /// The number of a media packet, or of a column.
    pub(crate) number: usize,
}

/// A source, and everything that it sends.
pub(crate) struct Sender {
    pub(crate) address: SocketAddr,
    pub(crate) ssrc: u32,
    pub(crate) geometry: Geometry,
    pub(crate) payloads: Vec<Vec<u8>>,
    first: u16,
    stamp: u32,
}

pub(crate) fn geometry(columns: u16, rows: u16) -> Geometry {
    Geometry::new(columns, rows).unwrap()
}

pub(crate) fn plan(geometry: Geometry) -> Plan {
    let mut plan = Plan::from_url("rtp://239.1.1.1:5000").unwrap();
    let repair_window_ns = 2 * u64::from(geometry.packets()) * SPACING_NS;
    plan.fec = Some(FecPlan { address: "239.1.1.1:5002".parse().unwrap(), geometry, repair_window_ns });
    plan
}

impl Sender {
    /// A sender of whole matrices whose first packet has this sequence number.
    pub(crate) fn new(geometry: Geometry, matrices: usize, first: u16, seed: u64) -> Sender {
        let mut random = Rng::new(seed);
        let count = usize::from(geometry.packets()) * matrices;
        let payload = |random: &mut Rng| {
            let packets = random.range(1, 2) as usize;
            let mut bytes = random.bytes(188 * packets);
            bytes.iter_mut().step_by(188).for_each(|byte| *byte = 0x47);
            bytes
        };
        Sender {
            address: SocketAddr::from(([10, 0, 0, 1], random.range(1024, 60_000) as u16)),
            ssrc: random.below(1 << 32) as u32,
            geometry,
            payloads: (0..count).map(|_| payload(&mut random)).collect(),
            first,
            stamp: random.below(1 << 32) as u32,
        }
    }

    fn stamp(&self, number: usize) -> u32 {
        self.stamp.wrapping_add(number as u32 * 180)
    }

    pub(crate) fn media(&self, number: usize) -> Datagram {
        let mut header = [0; HEADER_BYTES];
        let sequence = self.first.wrapping_add(number as u16);
        HeaderTemplate::mp2t(self.ssrc).write(sequence, self.stamp(number), number == 0, &mut header);
        let bytes = [&header[..], &self.payloads[number]].concat();
        Datagram { at_ns: number as u64 * SPACING_NS, port: Port::Media, bytes, number }
    }

    /// The media packets of a column; columns are numbered through all matrices.
    pub(crate) fn members(&self, column: usize) -> impl Iterator<Item = usize> + use<> {
        let (columns, rows) = (usize::from(self.geometry.columns()), usize::from(self.geometry.rows()));
        let first = column / columns * columns * rows + column % columns;
        (0..rows).map(move |row| first + row * columns)
    }

    pub(crate) fn columns(&self) -> usize {
        self.payloads.len() / usize::from(self.geometry.rows())
    }

    /// The FEC packet of a column, which is sent during the next matrix.
    pub(crate) fn fec(&self, column: usize) -> Datagram {
        let (mut recovery, mut parity) = (Recovery::default(), Vec::new());
        for number in self.members(column) {
            let payload = &self.payloads[number];
            let (length, time_stamp) = (payload.len() as u16, self.stamp(number));
            recovery.add(&Recovery { length, payload_type: MP2T, marker: number == 0, time_stamp });
            parity.resize(parity.len().max(payload.len()), 0);
            parity.iter_mut().zip(payload).for_each(|(sum, byte)| *sum ^= byte);
        }
        let first = self.members(column).next().unwrap();
        let header =
            FecHeader { base: self.first.wrapping_add(first as u16), geometry: self.geometry, recovery };
        let mut headers = [0; FEC_HEADERS_BYTES];
        let sent = usize::from(self.geometry.packets()) + column * usize::from(self.geometry.rows());
        header.write(column as u16, self.stamp(sent), &mut headers);
        let bytes = [&headers[..], &parity].concat();
        Datagram { at_ns: sent as u64 * SPACING_NS + 1, port: Port::Fec, bytes, number: column }
    }

    pub(crate) fn goodbye(&self, at_ns: u64) -> Datagram {
        let report =
            SenderReport { ssrc: self.ssrc, time: NtpTime(0), time_stamp: 0, packets: 0, payload_bytes: 0 };
        let mut bytes = Vec::new();
        write_goodbye(&report, &Cname::new("cast@test").unwrap(), &mut bytes);
        Datagram { at_ns, port: Port::Rtcp, bytes, number: 0 }
    }

    /// Everything, in the order of sending.
    pub(crate) fn all(&self) -> Vec<Datagram> {
        let media = (0..self.payloads.len()).map(|number| self.media(number));
        let mut all: Vec<Datagram> =
            media.chain((0..self.columns()).map(|column| self.fec(column))).collect();
        all.sort_by_key(|datagram| datagram.at_ns);
        all
    }
}

/// A network between sender and receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    pub(crate) loss_permille: u64,
    pub(crate) repeat_permille: u64,
    /// Each datagram is delayed by up to this.
    pub(crate) delay_ns: u64,
}

impl Network {
    pub(crate) fn carry(&self, mut sent: Vec<Datagram>, random: &mut Rng) -> Vec<Datagram> {
        sent.retain(|_| random.below(1000) >= self.loss_permille);
        let mut again = sent.clone();
        again.retain(|_| random.below(1000) < self.repeat_permille);
        sent.append(&mut again);
        sent.iter_mut().for_each(|datagram| datagram.at_ns += random.below(self.delay_ns + 1));
        sent.sort_by_key(|datagram| datagram.at_ns);
        sent
    }
}

/// Gives datagrams of a sender to a receiver, and takes what is ready after each, and whenever the
/// receiver asks for it.
pub(crate) fn give(receiver: &mut Receiver, sender: &Sender, datagrams: &[Datagram]) -> Vec<Payload> {
    let mut taken = Vec::new();
    for datagram in datagrams {
        while let Some(due_ns) = receiver.due_ns().filter(|due_ns| *due_ns <= datagram.at_ns) {
            let before = receiver.counts();
            receiver.advance(due_ns);
            taken.extend(std::iter::from_fn(|| receiver.next(due_ns)));
            if receiver.counts() == before {
                break;
            }
        }
        receiver.push(datagram.port, &datagram.bytes, sender.address, datagram.at_ns);
        taken.extend(std::iter::from_fn(|| receiver.next(datagram.at_ns)));
    }
    taken
}

/// Takes what is left when nothing arrives any more.
pub(crate) fn take_rest(receiver: &mut Receiver) -> Vec<Payload> {
    receiver.finish();
    std::iter::from_fn(|| receiver.next(0)).collect()
}
