//! A client of a broadcast keeps only packets of the described one, each in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use reel_receive::{Broadcast, BroadcastClient, Plan, Played, Port, SYMBOL_BYTES, Tune};
use reel_rtp::rtcp::{Cname, SenderReport, write_goodbye, write_report};
use reel_rtp::sdp::SlotSchedule;
use reel_rtp::{HEADER_BYTES, HeaderTemplate, NtpTime};

const SLOT_NS: u64 = 200_000_000;
const MATRIX: u64 = 16;
/// A time of day at which a slot begins.
const BEGINS_UNIX_NS: u64 = 1_900_000_000_000_000_000;
const SOURCES: [u32; 2] = [7, 8];
const STAMPS: [u32; 2] = [0xffff_0000, 5];
/// How far the sender is ahead, in nanoseconds: by the bytes after the last step.
const AHEAD_NS: [i64; 4] = [0, 3_000_000_000, -30_000_000_000, 3_600_000_000_000];

/// Reads the bytes as a script. Each step has four bytes: what arrives on which channel,
/// milliseconds since the step before, and the number of a packet. Returns how many packets of the
/// title were played.
pub fn broadcast(bytes: &[u8]) -> u64 {
    let (steps, rest) = bytes.as_chunks::<4>();
    let ahead_ns = AHEAD_NS[rest.len()];
    let mut sender = Sender { unix_ns: BEGINS_UNIX_NS, broadcast: described() };
    let plan = Plan::from_url("rtp://239.1.1.1:5000").expect("an address");
    let zero_unix_ns = BEGINS_UNIX_NS.saturating_add_signed(-ahead_ns);
    let client = BroadcastClient::new(sender.broadcast.clone(), vec![plan.clone(), plan], zero_unix_ns, 0);
    let mut checked = Checked { client, joined: BTreeSet::new(), kept: BTreeMap::new(), next: 0, played: 0 };
    for [kind, milliseconds, high, low] in steps {
        sender.unix_ns += u64::from(*milliseconds) * 1_000_000;
        let now_ns = sender.unix_ns - BEGINS_UNIX_NS;
        checked.look(now_ns);
        let channel = usize::from(kind >> 4 & 1);
        let number = u64::from(u16::from_be_bytes([*high, *low]));
        let (port, datagram) = match kind % 8 {
            0..4 => (Port::Media, sender.media(channel, 0, number, SOURCES[channel], 0)),
            // Of another slot, of another source, and of no packet.
            4 => (Port::Media, sender.media(channel, i64::from(*high as i8), number, SOURCES[channel], 0)),
            5 => (Port::Media, sender.media(channel, 0, number, u32::from(*high), u32::from(*low))),
            6 => (Port::Media, sender.media(channel, 0, number, SOURCES[channel], 1)),
            _ => (Port::Rtcp, Some(sender.report(channel, *high, i64::from(*low as i8)))),
        };
        let from = SocketAddr::from(([10, 0, 0, kind >> 7], 5000));
        if let Some(datagram) = datagram.filter(|_| checked.joined.contains(&channel)) {
            checked.client.push(channel, port, &datagram, from, now_ns);
        }
        checked.look(now_ns);
    }
    checked.ends();
    checked.played
}

/// Three segments on two channels.
fn described() -> Broadcast {
    let told = SlotSchedule {
        scheme: "rfs".to_owned(),
        slot_ns: SLOT_NS,
        epoch: NtpTime::from_unix_ns(0),
        matrix_packets: MATRIX,
        packets: 3 * MATRIX * 7,
        sources: SOURCES.to_vec(),
        time_stamps: STAMPS.to_vec(),
        first_matrices: vec![0, 1, 2],
        first_slot: 0,
    };
    Broadcast::new(told, SOURCES.len()).expect("it can be followed")
}

struct Sender {
    unix_ns: u64,
    broadcast: Broadcast,
}

impl Sender {
    /// A packet of a slot near the present one, with a time stamp that is moved by so many ticks.
    /// One of another source, or with a moved time stamp, has a payload of no packet.
    fn media(&self, channel: usize, slots: i64, number: u64, ssrc: u32, moved: u32) -> Option<Vec<u8>> {
        let slot = (self.unix_ns / SLOT_NS).saturating_add_signed(slots);
        let sent = self.broadcast.visit(slot).segments;
        let sent =
            sent.iter().find(|times| times.received_slot == slot && times.channel as usize == channel)?;
        let symbols = self.broadcast.segment_symbols(sent.segment)?;
        let count = symbols.end - symbols.start;
        let number = number % count;
        let at = ticks(slot * SLOT_NS) + ticks(number * SLOT_NS / (count + MATRIX));
        let time_stamp = STAMPS[channel].wrapping_add(at as u32).wrapping_add(moved);
        let sequence = (slot * 3 * MATRIX + number) as u16;
        let mut header = [0; HEADER_BYTES];
        HeaderTemplate::mp2t(ssrc).write(sequence, time_stamp, false, &mut header);
        let is_right = ssrc == SOURCES[channel] && moved == 0;
        Some([&header[..], &payload(if is_right { symbols.start + number } else { u64::MAX })].concat())
    }

    /// A report, or a goodbye, whose time of day is wrong by so many seconds.
    fn report(&self, channel: usize, kind: u8, wrong_s: i64) -> Vec<u8> {
        let time_stamp = STAMPS[channel].wrapping_add(ticks(self.unix_ns) as u32);
        let time = NtpTime::from_unix_ns(self.unix_ns.saturating_add_signed(wrong_s * 1_000_000_000));
        let report = SenderReport { ssrc: SOURCES[channel], time, time_stamp, packets: 1, payload_bytes: 1 };
        let (write, cname) = (if kind == 1 { write_goodbye } else { write_report }, Cname::new("a@b"));
        let mut bytes = Vec::new();
        write(&report, &cname.expect("a name"), &mut bytes);
        bytes
    }
}

fn ticks(ns: u64) -> u64 {
    (u128::from(ns) * 9 / 100_000) as u64
}

/// Whole packets of a transport stream that tell their place.
fn payload(symbol: u64) -> Vec<u8> {
    let mut bytes = vec![0x47; SYMBOL_BYTES];
    bytes[4..12].copy_from_slice(&symbol.to_be_bytes());
    bytes
}

/// A client, and what it has to keep.
struct Checked {
    client: BroadcastClient,
    joined: BTreeSet<usize>,
    kept: BTreeMap<u64, Vec<u8>>,
    next: u64,
    played: u64,
}

impl Checked {
    fn look(&mut self, now_ns: u64) {
        while let Some(tune) = self.client.tune(now_ns) {
            let is_change = match tune {
                Tune::Join(channel) => self.joined.insert(channel),
                Tune::Leave(channel) => self.joined.remove(&channel),
            };
            assert!(is_change, "{tune:?}");
        }
        self.client.advance(now_ns);
        while let Some(kept) = self.client.next_kept() {
            assert!(kept.bytes == payload(kept.symbol), "packet {} is wrong", kept.symbol);
            assert_eq!(self.kept.insert(kept.symbol, kept.bytes), None);
        }
        loop {
            let played = self.client.play(now_ns, 5);
            if !self.plays(played) {
                break;
            }
        }
        let _ = (self.client.expects(now_ns), self.client.is_outdated(now_ns), self.client.has_ended(now_ns));
    }

    fn ends(&mut self) {
        loop {
            let played = self.client.play_last(5);
            if !self.plays(played) {
                break;
            }
        }
        assert_eq!(self.client.arrived(), self.kept.len() as u64);
    }

    /// Whether something was played.
    fn plays(&mut self, played: Played) -> bool {
        let (symbols, has_arrived) = match played {
            Played::Arrived(symbols) => (symbols, true),
            Played::Missing(symbols) => (symbols, false),
            Played::Wait | Played::End => return false,
        };
        assert_eq!(symbols.start, self.next);
        assert!((1..=5).contains(&(symbols.end - symbols.start)) && symbols.end <= 3 * MATRIX);
        for symbol in symbols.clone() {
            assert_eq!(self.kept.contains_key(&symbol), has_arrived, "packet {symbol}");
        }
        self.played += if has_arrived { symbols.end - symbols.start } else { 0 };
        self.next = symbols.end;
        true
    }
}
