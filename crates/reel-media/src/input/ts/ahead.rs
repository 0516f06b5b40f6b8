//! What comes next in a transport stream, looked at before it is read for its content.

use super::changes::Tables;
use super::clock::{Ahead, RATE, nearest};
use super::packet::{Packet, Packets};
use super::pes::{Pes, Piece};
use super::stream::Stream;
use super::{HashMap, PAT_PID};
use crate::input::window::Window;
use crate::limits;

/// A counter that breaks at a step of the clock does so at the latest after so long. Each stream
/// has packets in a second.
const BREAK_TICKS: i64 = RATE as i64;

/// From where a stream looks ahead.
pub(super) struct Lookout<'a> {
    pub(super) window: &'a mut Window,
    pub(super) packets: Packets,
    pub(super) by_pid: &'a HashMap<u16, usize>,
    pub(super) tables: &'a Tables,
    /// The packet that was read last.
    pub(super) from: &'a Packet,
    /// The streams before and after the one that looks.
    pub(super) others: [&'a [Stream]; 2],
    /// Bytes that may still be read ahead.
    pub(super) scan_bytes: &'a mut u64,
}

impl Lookout<'_> {
    /// The next time stamps of each stream, as far as they are near and may be read.
    pub(super) fn look(mut self) -> Ahead {
        let mut found = Ahead::default();
        let begin = self.packets.position();
        let limit = begin.saturating_add(limits::TS_JOINT_BYTES.min(*self.scan_bytes));
        // Counters of the packets so far.
        let mut counters = vec![(self.from.pid, self.from.counter)];
        let mut own: Option<i64> = None;
        let mut is_near = true;
        while self.packets.position() < limit && found.stamps.len() < self.by_pid.len() {
            // An error is reported when the packet is read for its content.
            let Ok(Some(packet)) = self.packets.next(self.window) else { break };
            let stream = self.by_pid.get(&packet.pid);
            if is_near && (stream.is_some() || packet.pid == PAT_PID) {
                found.is_broken |= self.breaks(&packet, &mut counters);
            }
            let Some(stream) = stream.filter(|_| packet.start && !packet.scrambled) else { continue };
            let Piece::Payload(Some(stamps), _) = Pes::default().push(packet.payload(), true) else {
                continue;
            };
            if packet.pid == self.from.pid {
                let first = *own.get_or_insert(stamps.dts);
                is_near &= nearest(stamps.dts, first) - first < BREAK_TICKS;
            }
            if found.stamps.iter().all(|(other, _)| other != stream) {
                found.stamps.push((*stream, stamps));
            }
        }
        *self.scan_bytes = self.scan_bytes.saturating_sub(self.packets.position() - begin);
        found
    }

    /// Whether the counter of a packet ahead does not continue.
    fn breaks(&self, packet: &Packet, counters: &mut Vec<(u16, u8)>) -> bool {
        if packet.payload().is_empty() {
            return packet.discontinuity;
        }
        if let Some((_, counter)) = counters.iter_mut().find(|(pid, _)| *pid == packet.pid) {
            let steps = packet.counter.wrapping_sub(std::mem::replace(counter, packet.counter)) & 0xf;
            return steps > 1 || packet.discontinuity;
        }
        counters.push((packet.pid, packet.counter));
        if packet.pid == PAT_PID {
            return self.tables.breaks_at(packet);
        }
        self.others.iter().copied().flatten().any(|other| other.pid == packet.pid && other.breaks_at(packet))
    }
}
