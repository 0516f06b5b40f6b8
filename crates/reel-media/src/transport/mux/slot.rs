//! One slot: its packets in their order, and the clock references in them.

use super::SLOT_TICKS;
use super::lane::Lane;
use super::packet::{self, PAYLOAD_BYTES};
use super::tables::Tables;
use crate::limits;
use crate::transport::PACKET_BYTES;

/// A slot that is being made. Its packets are evenly spread over its time.
pub(super) struct Slot<'s, 'a> {
    /// Slots before it.
    number: u64,
    /// The first one has the clock.
    lanes: &'s mut [Lane<'a>],
    tables: &'s mut Tables,
    tables_half: &'s mut Option<u64>,
    packets: Vec<u8>,
    /// Packets with clock references.
    clocks: Vec<usize>,
    /// Packets that the slot will have, about.
    expected: usize,
    /// Whether the middle has passed.
    is_second_half: bool,
}

impl<'s, 'a> Slot<'s, 'a> {
    pub(super) fn new(
        number: u64,
        lanes: &'s mut [Lane<'a>],
        tables: &'s mut Tables,
        tables_half: &'s mut Option<u64>,
    ) -> Slot<'s, 'a> {
        let (packets, clocks) = (Vec::new(), Vec::new());
        Slot { number, lanes, tables, tables_half, packets, clocks, expected: 0, is_second_half: false }
    }

    /// The packets. A clock reference is in the first one, in one in the middle, and in one before
    /// the tables of each key frame.
    pub(super) fn make(&mut self) -> Vec<u8> {
        let until = (self.number + 1) * SLOT_TICKS;
        let wanted =
            self.lanes.iter_mut().map(|lane| lane.plan(until).div_ceil(PAYLOAD_BYTES as u64)).sum::<u64>();
        let tables = if self.are_tables_due() { self.tables.packets() } else { 0 };
        self.expected = usize::try_from(wanted).unwrap_or(usize::MAX / 2) + tables + 1;
        self.begin_half();
        while let Some(lane) = self.next_lane() {
            if !self.is_second_half && self.count() * 2 >= self.expected {
                self.is_second_half = true;
                self.begin_half();
                continue;
            }
            if self.lanes[lane].is_at_key() {
                self.write_clock();
                self.write_tables();
            }
            self.lanes[lane].write(false, &mut self.packets);
        }
        if !self.is_second_half {
            self.is_second_half = true;
            self.begin_half();
        }
        self.set_clocks();
        std::mem::take(&mut self.packets)
    }

    /// A clock reference, and the tables if they are due.
    fn begin_half(&mut self) {
        match self.lanes.first_mut() {
            Some(lane) if lane.left() > 0 && !lane.is_at_key() => {
                self.clocks.push(self.packets.len() / PACKET_BYTES);
                lane.write(true, &mut self.packets);
            }
            _ => self.write_clock(),
        }
        if self.are_tables_due() {
            self.write_tables();
        }
    }

    /// The lane that is to be sent next: the one with the largest part of its bytes left.
    fn next_lane(&self) -> Option<usize> {
        let waiting = self.lanes.iter().enumerate().filter(|(_, lane)| lane.left() > 0);
        waiting
            .max_by_key(|(number, lane)| (lane.part_left(), std::cmp::Reverse(*number)))
            .map(|(number, _)| number)
    }

    fn count(&self) -> usize {
        self.packets.len() / PACKET_BYTES
    }

    /// The half of a slot that is being made, counted from the beginning of the stream.
    fn half(&self) -> u64 {
        2 * self.number + u64::from(self.is_second_half)
    }

    fn are_tables_due(&self) -> bool {
        self.tables_half.is_none_or(|last| self.half() >= last + limits::MUX_TABLES_HALVES)
    }

    fn write_tables(&mut self) {
        self.tables.write(&mut self.packets);
        *self.tables_half = Some(self.half());
    }

    fn write_clock(&mut self) {
        if let Some(lane) = self.lanes.first_mut() {
            self.clocks.push(self.packets.len() / PACKET_BYTES);
            lane.write_clock(&mut self.packets);
        }
    }

    /// Each clock reference says when its packet comes.
    fn set_clocks(&mut self) {
        let count = self.count() as u64;
        for number in &self.clocks {
            let ticks = self.number * SLOT_TICKS + SLOT_TICKS * *number as u64 / count;
            packet::set_clock(&mut self.packets[number * PACKET_BYTES..][..PACKET_BYTES], ticks);
        }
    }
}
