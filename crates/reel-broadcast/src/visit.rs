//! A client: what it receives and when each segment is complete.

use crate::schedule::{ClientRule, Schedule};
use crate::table::{Repeat, Table};

/// What a client receives that joins at the start of a slot, and when it plays: the segment that is
/// played as number j (from 0) is played in slot `arrival + 1 + j`, one slot behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// The slot at whose start the client joins.
    pub arrival_slot: u64,
    /// All segments in the order in which they are played.
    pub segments: Vec<SegmentTimes>,
    /// What is received, by channel.
    pub tunings: Vec<Tuning>,
}

/// When a segment arrives and is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentTimes {
    /// The segment, from 1.
    pub segment: u32,
    /// The channel that it is received from.
    pub channel: u32,
    /// The slot in which it is received; it is complete at the end of the slot.
    pub received_slot: u64,
    /// The slot in which it is played.
    pub played_slot: u64,
}

/// A client receives a channel from the start of a slot until the end of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// The channel.
    pub channel: u32,
    /// The first slot.
    pub from_slot: u64,
    /// The slot after the last one.
    pub until_slot: u64,
}

impl Visit {
    /// Follows the schedule's rule for clients from a slot on. Slots are counted up to 2^63.
    pub fn new(schedule: &Schedule, arrival_slot: u64) -> Visit {
        let mut visit = Visit { arrival_slot, segments: Vec::new(), tunings: Vec::new() };
        match schedule.client_rule() {
            ClientRule::OneChannel => visit.receive_one(schedule),
            ClientRule::AllChannels => visit.receive_all(schedule),
            ClientRule::TwoTuners => visit.receive_two(schedule),
        }
        for (slot, times) in (arrival_slot + 1..).zip(&mut visit.segments) {
            times.played_slot = slot;
        }
        visit
    }

    /// The first segment that is not complete when it is played.
    pub fn late(&self) -> Option<SegmentTimes> {
        self.segments.iter().find(|times| times.received_slot >= times.played_slot).copied()
    }

    /// Segments in the client's memory, at most. Within a slot, segments arrive and are played at
    /// constant rates, so the most is at the end of a slot. A segment that is being played counts
    /// until its end.
    pub fn buffer_segments(&self) -> u32 {
        let mut arrived = vec![0_u32; self.segments.len() + 1];
        for times in &self.segments {
            let slot = (times.received_slot - self.arrival_slot) as usize;
            if let Some(count) = arrived.get_mut(slot) {
                *count += 1;
            }
        }
        let mut received = 0;
        let kept = (0_u32..).zip(arrived).map(|(played, arrived)| {
            received += arrived;
            received - played.min(received)
        });
        kept.max().unwrap_or(0)
    }

    /// Channels that are received at a time, at most.
    pub fn tuners(&self) -> u32 {
        let at = |slot| {
            let receives = |tuning: &&Tuning| (tuning.from_slot..tuning.until_slot).contains(&slot);
            self.tunings.iter().filter(receives).count() as u32
        };
        self.tunings.iter().map(|tuning| at(tuning.from_slot)).max().unwrap_or(0)
    }

    /// A staggered channel that begins now, or the linear one wherever it is.
    fn receive_one(&mut self, schedule: &Schedule) {
        let channels = || (0_u32..).zip(schedule.channels());
        let begins = |table: &Table| table.segment_at(self.arrival_slot) == Some(1);
        let Some((channel, table)) =
            channels().find(|(_, table)| begins(table)).or_else(|| channels().next())
        else {
            return;
        };
        let until_slot = self.arrival_slot + u64::from(schedule.segments());
        for slot in self.arrival_slot..until_slot {
            if let Some(segment) = table.segment_at(slot) {
                self.segments.push(SegmentTimes { segment, channel, received_slot: slot, played_slot: 0 });
            }
        }
        self.tunings.push(Tuning { channel, from_slot: self.arrival_slot, until_slot });
    }

    /// Each segment at its first sending.
    fn receive_all(&mut self, schedule: &Schedule) {
        for (channel, table) in (0_u32..).zip(schedule.channels()) {
            self.receive(channel, table, self.arrival_slot);
        }
        self.segments.sort_unstable_by_key(|times| times.segment);
    }

    /// Each channel from the last start of its loop that is in time. The series of sizes ensures
    /// that no three of these overlap, and that no start is before the arrival.
    fn receive_two(&mut self, schedule: &Schedule) {
        for (channel, table) in (0_u32..).zip(schedule.channels()) {
            let due_slot = self.arrival_slot + self.segments.len() as u64;
            let Some(first) = table.repeats().next() else { continue };
            let back = due_slot.saturating_sub(u64::from(first.period) - 1);
            self.receive(channel, table, first.slot_from(back));
        }
    }

    /// Each segment of a channel once, from a slot until the last one is there.
    fn receive(&mut self, channel: u32, table: &Table, from_slot: u64) {
        let mut until_slot = from_slot;
        for repeat in table.repeats() {
            let Repeat { segment, .. } = repeat;
            let received_slot = repeat.slot_from(from_slot);
            until_slot = until_slot.max(received_slot + 1);
            self.segments.push(SegmentTimes { segment, channel, received_slot, played_slot: 0 });
        }
        self.tunings.push(Tuning { channel, from_slot, until_slot });
    }
}
