//! Writes transport packets (ISO 13818-1 sections 2.4.3.2 and 2.4.3.4).

use super::super::PACKET_BYTES;
use crate::input::ts::packet::SYNC;

/// Bytes of the header of a packet.
const HEADER_BYTES: usize = 4;
/// Most payload of a packet.
pub(super) const PAYLOAD_BYTES: usize = PACKET_BYTES - HEADER_BYTES;
/// Where the clock reference is in a packet that has one.
const CLOCK_AT: usize = 6;
/// Bytes of a clock reference.
const CLOCK_BYTES: usize = 6;
const DISCONTINUITY: u8 = 0x80;
const RANDOM_ACCESS: u8 = 0x40;
const HAS_CLOCK: u8 = 0x10;

/// What a packet says beside its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// A PES packet or a section begins in it.
    pub(super) start: bool,
    /// Its clock and its counter do not continue those of a packet before it.
    pub(super) discontinuity: bool,
    /// Decoding can begin here.
    pub(super) random_access: bool,
    /// It has room for a clock reference, which [`set_clock`] writes.
    pub(super) clock: bool,
}

impl Marks {
    /// Bytes of the adaptation field that the marks need.
    fn field_bytes(self) -> usize {
        let clock = if self.clock { CLOCK_BYTES } else { 0 };
        if self.clock || self.random_access || self.discontinuity { 2 + clock } else { 0 }
    }
}

/// Appends a packet with as much of `payload` as there is room for, and stuffing if there is more
/// room. Returns how many bytes it took. `counter` is the continuity counter of this packet.
pub(super) fn write(pid: u16, marks: Marks, counter: u8, payload: &[u8], target: &mut Vec<u8>) -> usize {
    let taken = payload.len().min(PAYLOAD_BYTES - marks.field_bytes());
    let field = PAYLOAD_BYTES - taken;
    let [high, low] = (pid & 0x1fff).to_be_bytes();
    let control = if field > 0 { 0x20 } else { 0 } | if taken > 0 { 0x10 } else { 0 };
    target.extend([SYNC, high | if marks.start { 0x40 } else { 0 }, low, control | counter & 0xf]);
    let end = target.len() + field;
    if field > 0 {
        target.push((field - 1) as u8);
    }
    if field > 1 {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let first = flag(marks.discontinuity, DISCONTINUITY) | flag(marks.random_access, RANDOM_ACCESS);
        target.push(first | flag(marks.clock, HAS_CLOCK));
        // Stuffing, and room for the clock reference.
        target.resize(end, 0xff);
    }
    target.extend_from_slice(&payload[..taken]);
    taken
}

/// Writes the clock reference, in ticks of 27 MHz, into a packet that has room for it (section
/// 2.4.3.5).
pub(super) fn set_clock(packet: &mut [u8], ticks: u64) {
    let (base, extension) = ((ticks / 300) & ((1 << 33) - 1), ticks % 300);
    let field = base << 15 | 0x7e00 | extension;
    packet[CLOCK_AT..CLOCK_AT + CLOCK_BYTES].copy_from_slice(&field.to_be_bytes()[2..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ts::packet::Packet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_are_read_back(
            pid in 0_u16..0x2000, start: bool, discontinuity: bool, random_access: bool, clock: bool,
            counter in 0_u8..16, bytes in 0_usize..400, ticks in 0_u64..300 << 33,
        ) {
            let payload: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            let mut packet = Vec::new();
            let marks = Marks { start, discontinuity, random_access, clock };
            let taken = write(pid, marks, counter, &payload, &mut packet);
            if clock {
                set_clock(&mut packet, ticks);
            }
            let read = Packet::parse(packet.try_into().expect("188 bytes")).expect("valid");
            prop_assert_eq!((read.pid, read.start, read.counter), (pid, start, counter));
            prop_assert_eq!(read.discontinuity, discontinuity);
            prop_assert_eq!(read.is_marked_random_access(), random_access);
            prop_assert_eq!(read.clock(), clock.then_some(ticks));
            prop_assert_eq!(read.payload(), &payload[..taken]);
            prop_assert!(taken == bytes || taken >= PAYLOAD_BYTES - 8);
        }
    }
}
