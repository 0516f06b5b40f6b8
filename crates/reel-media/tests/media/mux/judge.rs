//! Takes a transport stream apart, independently of the crate under test, and checks what receivers
//! rely on.

use reel_media::transport::{PACKET_BYTES, TICKS_PER_S};
use std::collections::HashMap;

/// A PES packet.
#[derive(Clone, Debug)]
pub(super) struct Pes {
    pub(super) pid: u16,
    first_packet: usize,
    last_packet: usize,
    /// In 90 kHz ticks.
    pub(super) pts: u64,
    pub(super) dts: u64,
    pub(super) random_access: bool,
    bytes: usize,
}

/// A stream that was taken apart.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// Packets with clock references, and their times in ticks of 27 MHz.
    pub(super) clocks: Vec<(usize, u64)>,
    pub(super) pes: Vec<Pes>,
    /// Packets in which tables begin.
    programmes: Vec<usize>,
    maps: Vec<usize>,
    packets: usize,
}

const MAP_PID: u16 = 0x1000;

fn stamp(bytes: &[u8]) -> u64 {
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|at| u64::from(bytes[at]));
    (a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1
}

impl Judged {
    /// Takes a stream apart, and checks its counters and the structure of its packets.
    pub(super) fn of(stream: &[u8]) -> Judged {
        let mut judged = Judged { packets: stream.len() / PACKET_BYTES, ..Judged::default() };
        let mut counters: HashMap<u16, u8> = HashMap::new();
        let mut open: HashMap<u16, usize> = HashMap::new();
        for (number, packet) in stream.chunks(PACKET_BYTES).enumerate() {
            assert_eq!((packet.len(), packet[0]), (PACKET_BYTES, 0x47), "packet {number}");
            let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
            let (field, payload) = (packet[3] & 0x20 != 0, packet[3] & 0x10 != 0);
            let counter = packet[3] & 0xf;
            let due = counters.get(&pid).map(|last| (last + u8::from(payload)) & 0xf);
            assert!(due.is_none_or(|due| due == counter), "counter of {pid} in packet {number}");
            counters.insert(pid, counter);
            let flags = if field && packet[4] > 0 { packet[5] } else { 0 };
            if flags & 0x10 != 0 {
                let base = packet[6..10].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) << 1;
                let extension = u64::from(packet[10] & 1) << 8 | u64::from(packet[11]);
                judged.clocks.push((number, (base | u64::from(packet[10] >> 7)) * 300 + extension));
            }
            let at = if field { 5 + usize::from(packet[4]) } else { 4 };
            assert!(at < PACKET_BYTES || !payload, "packet {number}");
            judged.take(number, pid, packet[1] & 0x40 != 0, flags & 0x40 != 0, &packet[at..], &mut open);
        }
        judged
    }

    fn take(
        &mut self,
        number: usize,
        pid: u16,
        start: bool,
        random_access: bool,
        payload: &[u8],
        open: &mut HashMap<u16, usize>,
    ) {
        match pid {
            0 if start => self.programmes.push(number),
            MAP_PID if start => self.maps.push(number),
            0 | MAP_PID => {}
            _ if start => {
                assert_eq!(payload[..3], [0, 0, 1], "packet {number}");
                let pts = stamp(&payload[9..]);
                let dts = if payload[7] & 0x40 != 0 { stamp(&payload[14..]) } else { pts };
                open.insert(pid, self.pes.len());
                let (first_packet, last_packet, bytes) = (number, number, payload.len());
                self.pes.push(Pes { pid, first_packet, last_packet, pts, dts, random_access, bytes });
            }
            _ if !payload.is_empty() => {
                let pes = &mut self.pes[open[&pid]];
                pes.last_packet = number;
                pes.bytes += payload.len();
            }
            _ => {}
        }
    }

    /// When a packet begins, by the clock references beside it.
    fn ticks_at(&self, packet: usize) -> f64 {
        let after = self.clocks.partition_point(|(number, _)| *number <= packet);
        let last = self.clocks.len() - 1;
        let (from, to) = (self.clocks[(after - 1).min(last - 1)], self.clocks[after.min(last).max(1)]);
        from.1 as f64 + (packet - from.0) as f64 * (to.1 - from.1) as f64 / (to.0 - from.0) as f64
    }

    /// The longest time between two of these packets, in ms.
    fn longest_ms(&self, packets: &[usize]) -> f64 {
        let times: Vec<f64> = packets.iter().map(|packet| self.ticks_at(*packet)).collect();
        let longest = times.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max);
        longest * 1000.0 / TICKS_PER_S as f64
    }

    /// Everything that receivers rely on.
    pub(super) fn check(&self) {
        assert_eq!(self.clocks[0].0, 0);
        assert!(self.clocks.windows(2).all(|two| two[0].1 < two[1].1));
        let clocks: Vec<usize> = self.clocks.iter().map(|(number, _)| *number).collect();
        assert!(self.longest_ms(&clocks) < 50.0, "references: {} ms", self.longest_ms(&clocks));
        // Clock references are whole ticks.
        let table_ms = 100.0 + 1000.0 / TICKS_PER_S as f64;
        assert!(
            self.longest_ms(&self.programmes) <= table_ms,
            "PAT: {} ms",
            self.longest_ms(&self.programmes)
        );
        assert!(self.longest_ms(&self.maps) <= table_ms, "PMT: {} ms", self.longest_ms(&self.maps));
        let mut last: HashMap<u16, u64> = HashMap::new();
        for pes in &self.pes {
            let dts = pes.dts as f64 * 300.0;
            let (first, end) = (self.ticks_at(pes.first_packet), self.ticks_at(pes.last_packet + 1));
            assert!(end <= dts, "{} ticks late: {pes:?}", end - dts);
            assert!(dts - first <= TICKS_PER_S as f64, "{} ticks early: {pes:?}", dts - first);
            assert!(pes.pts >= pes.dts);
            let before = last.insert(pes.pid, pes.dts);
            assert!(before.is_none_or(|before| before <= pes.dts), "{pes:?}");
        }
        self.check_keys();
    }

    /// Tables stand directly before each key frame.
    fn check_keys(&self) {
        let pictures = |pes: &&Pes| pes.pid == 0x100 && pes.random_access;
        let Some(video) = self.pes.iter().find(|pes| pes.pid == 0x100) else { return };
        assert!(video.random_access, "the first picture is a key frame");
        if self.pes.iter().filter(|pes| pes.pid == 0x100).all(|pes| pes.random_access) {
            return;
        }
        for key in self.pes.iter().filter(pictures) {
            let map = self.maps.iter().rfind(|map| **map < key.first_packet).expect("a map before it");
            let programmes = self.programmes.iter().rfind(|at| **at < *map).expect("a table before it");
            assert!(key.first_packet - programmes <= 6, "{key:?}");
        }
    }

    /// When each PES packet is decoded, in seconds, and its bytes.
    pub(super) fn decoded(&self) -> Vec<(f64, usize)> {
        self.pes.iter().map(|pes| (pes.dts as f64 / 90_000.0, pes.bytes)).collect()
    }

    /// The most bytes in a time, over the whole stream, in bits per second.
    pub(super) fn peak_bps(&self, window_s: f64) -> f64 {
        let window = window_s * TICKS_PER_S as f64;
        let times: Vec<f64> = (0..=self.packets).map(|packet| self.ticks_at(packet)).collect();
        let mut from = 0;
        let mut peak = 0;
        for to in 0..times.len() {
            while times[to] - times[from] > window {
                from += 1;
            }
            peak = peak.max(to - from);
        }
        (peak * PACKET_BYTES * 8) as f64 / window_s
    }
}
