//! Transport packets (ISO 13818-1 section 2.4.3): finding them, and taking them apart.

use crate::MediaError;
use crate::input::warnings::Warnings;
use crate::input::window::Window;
use crate::limits::WINDOW_BYTES;
use crate::times::{self, Places};

/// Bytes of a packet itself.
pub(crate) const PACKET_BYTES: usize = 188;
/// The first byte of every packet.
pub(crate) const SYNC: u8 = 0x47;
/// Distances between packets: plain, with the four-byte arrival time of discs before each, or with
/// checksums after each.
const STRIDES: [usize; 3] = [188, 192, 204];
/// Packets in a row that make it unlikely that arbitrary bytes pass for a transport stream.
const PROOF: usize = 8;
/// Fewer are enough for a file that is too short to have more.
const LEAST_PROOF: usize = 3;

/// One packet.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// Which stream it belongs to.
    pub(crate) pid: u16,
    /// A table section or PES packet begins in it.
    pub(crate) start: bool,
    /// The payload is encrypted.
    pub(crate) scrambled: bool,
    /// The counter and the clock may jump here.
    pub(crate) discontinuity: bool,
    /// continuity_counter.
    pub(crate) counter: u8,
    bytes: [u8; PACKET_BYTES],
    payload_at: usize,
}

impl Packet {
    /// Takes a packet apart; `None` if it is damaged or marked as such.
    pub(crate) fn parse(bytes: [u8; PACKET_BYTES]) -> Option<Self> {
        let [sync, flags, pid_low, control] = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if sync != SYNC || flags & 0x80 != 0 {
            return None;
        }
        let (adaptation, payload) = (control & 0x20 != 0, control & 0x10 != 0);
        let mut payload_at = 4;
        let mut discontinuity = false;
        if adaptation {
            let length = usize::from(bytes[4]);
            payload_at += 1 + length;
            if payload_at > PACKET_BYTES {
                return None;
            }
            discontinuity = length > 0 && bytes[5] & 0x80 != 0;
        }
        Some(Self {
            pid: (u16::from(flags & 0x1f) << 8) | u16::from(pid_low),
            start: flags & 0x40 != 0,
            scrambled: control & 0xc0 != 0,
            discontinuity,
            counter: control & 0xf,
            payload_at: if payload { payload_at } else { PACKET_BYTES },
            bytes,
        })
    }

    /// Whether every byte but those of the clock reference (PCR) is the same, as in packets that
    /// are sent twice.
    pub(crate) fn equals_but_for_clock(&self, other: &Self) -> bool {
        let clock = if self.has_clock() && other.has_clock() { 6..12 } else { 6..6 };
        let without = |bytes: &[u8; PACKET_BYTES]| {
            let mut bytes = *bytes;
            bytes[clock.clone()].fill(0);
            bytes
        };
        self.bytes == other.bytes || without(&self.bytes) == without(&other.bytes)
    }

    /// The programme clock reference (PCR) that it carries, in ticks of 27 MHz.
    pub(crate) fn clock(&self) -> Option<u64> {
        let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = self.bytes;
        let base = u64::from(u32::from_be_bytes([a, b, c, d])) << 1 | u64::from(e >> 7);
        let extension = u64::from(e & 1) << 8 | u64::from(f);
        self.has_clock().then_some(base * 300 + extension)
    }

    /// Whether it is marked as a place where decoding can begin.
    pub(crate) fn is_marked_random_access(&self) -> bool {
        self.bytes[3] & 0x20 != 0 && self.bytes[4] > 0 && self.bytes[5] & 0x40 != 0
    }

    /// Whether all of it is payload, but for a clock reference: it is not stuffed, as the last of a
    /// PES packet usually is.
    pub(crate) fn is_full(&self) -> bool {
        self.payload_at == 4 || (self.has_clock() && self.bytes[4] == 7)
    }

    fn has_clock(&self) -> bool {
        self.bytes[3] & 0x20 != 0 && self.bytes[4] >= 7 && self.bytes[5] & 0x10 != 0
    }

    /// The payload; empty if there is none.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.payload_at..]
    }
}

/// A walk over the packets of a file.
#[derive(Clone, Debug)]
pub(crate) struct Packets {
    position: u64,
    stride: u64,
    /// Packets that are damaged; the first is at this byte.
    damaged: Places,
    /// Stretches without packets; the first is at this byte.
    foreign: Places,
    /// The end of the first one, and their bytes.
    foreign_to: u64,
    foreign_bytes: u64,
}

impl Packets {
    /// Finds the first packet; `None` if the file is no transport stream.
    pub(crate) fn find(window: &mut Window) -> Result<Option<Self>, MediaError> {
        let bytes = window.peek(0, WINDOW_BYTES)?;
        for stride in STRIDES {
            for offset in 0..stride {
                let mut marks = (offset..bytes.len()).step_by(stride).take(PROOF);
                let whole = bytes.len().saturating_sub(offset) / stride;
                if whole.min(PROOF) >= LEAST_PROOF && marks.all(|at| bytes[at] == SYNC) {
                    return Ok(Some(Self {
                        position: offset as u64,
                        stride: stride as u64,
                        damaged: Places::default(),
                        foreign: Places::default(),
                        foreign_to: 0,
                        foreign_bytes: 0,
                    }));
                }
            }
        }
        Ok(None)
    }

    /// Bytes before the first packet that are no arrival time. To be asked before the walk.
    pub(crate) fn start_cut(&self) -> u64 {
        let arrival_time = if self.stride == 192 { 4 } else { 0 };
        self.position.saturating_sub(arrival_time)
    }

    /// How far the walk has come, in bytes of the file.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The next valid packet.
    pub(crate) fn next(&mut self, window: &mut Window) -> Result<Option<Packet>, MediaError> {
        while let Some(bytes) = self.next_bytes(window)? {
            match Packet::parse(bytes) {
                Some(packet) => return Ok(Some(packet)),
                None => self.damaged.add(i64::try_from(self.position - self.stride).ok()),
            }
        }
        Ok(None)
    }

    /// How many damaged places were passed.
    pub(crate) fn damaged_places(&self) -> u64 {
        self.damaged.count + self.foreign.count
    }

    /// Warns of damage, of which the first is at the time `near`, if that is known.
    pub(crate) fn report(&self, near: Option<&str>, warnings: &mut Warnings) {
        let near = near.map_or(String::new(), |at| format!(" (near {at})"));
        if let Some(byte) = self.damaged.first {
            let packets = times::counted(self.damaged.count, "damaged packet");
            warnings.add(format!("left out: {packets}, the first at byte {byte}{near}"));
        }
        if let Some(from) = self.foreign.first {
            let (to, bytes) = (self.foreign_to, self.foreign_bytes);
            let more = match self.foreign.count - 1 {
                0 => String::new(),
                more => format!(", and at {}, {bytes} bytes in all", times::counted(more, "more place")),
            };
            warnings.add(format!("damage skipped: no packets from byte {from} to {to}{near}{more}"));
        }
    }

    /// The bytes of the next packet, whatever is in it.
    pub(crate) fn next_bytes(
        &mut self,
        window: &mut Window,
    ) -> Result<Option<[u8; PACKET_BYTES]>, MediaError> {
        loop {
            let Ok(bytes) = <[u8; PACKET_BYTES]>::try_from(window.peek(self.position, PACKET_BYTES)?) else {
                self.position = window.bytes();
                return Ok(None);
            };
            if bytes[0] == SYNC {
                self.position += self.stride;
                return Ok(Some(bytes));
            }
            let from = self.position;
            self.position = self.find_again(window)?;
            if self.foreign.count == 0 {
                self.foreign_to = self.position;
            }
            self.foreign_bytes += self.position - from;
            self.foreign.add(i64::try_from(from).ok());
        }
    }

    /// The next position at which three packets follow each other, or the end.
    fn find_again(&self, window: &mut Window) -> Result<u64, MediaError> {
        let stride = usize::try_from(self.stride).unwrap_or(PACKET_BYTES);
        let mut at = self.position + 1;
        loop {
            let bytes = window.peek(at, WINDOW_BYTES)?;
            let reach = bytes.len().saturating_sub(2 * stride);
            let sound = |from: usize| (0..3).all(|index| bytes[from + index * stride] == SYNC);
            if let Some(found) = (0..reach).find(|from| sound(*from)) {
                return Ok(at + found as u64);
            }
            if reach == 0 || at + (bytes.len() as u64) >= window.bytes() {
                return Ok(window.bytes());
            }
            at += reach as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(head: [u8; 4], rest: &[u8]) -> [u8; PACKET_BYTES] {
        let mut bytes = [0xff; PACKET_BYTES];
        bytes[..4].copy_from_slice(&head);
        bytes[4..4 + rest.len()].copy_from_slice(rest);
        bytes
    }

    #[test]
    fn fields() {
        let parsed = Packet::parse(packet([0x47, 0x41, 0x00, 0x3b], &[2, 0x80, 0, 9])).unwrap();
        assert_eq!((parsed.pid, parsed.start, parsed.counter), (0x100, true, 11));
        assert!(parsed.discontinuity && !parsed.scrambled);
        assert_eq!((parsed.payload()[0], parsed.payload().len()), (9, 181));
        assert!(Packet::parse(packet([0x47, 0, 0, 0x80], &[])).unwrap().scrambled);
        assert!(Packet::parse(packet([0x47, 0, 0, 0x20], &[])).is_none(), "adaptation field of 255 bytes");
        assert!(Packet::parse(packet([0x47, 0x80, 0, 0x10], &[])).is_none(), "marked as damaged");
        assert!(Packet::parse(packet([0x47, 0, 0, 0x20], &[183])).unwrap().payload().is_empty());
    }
}
