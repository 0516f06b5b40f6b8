//! The media packets that the decoder keeps.

use super::{Geometry, Recovery};
use crate::limits::{TIME_STAMP_STEP_MAX, WINDOW_MATRICES, WINDOW_PACKETS_MIN};
use crate::rtp::MP2T;

/// The sequence number of a packet without wrap-around.
pub(super) type Place = u64;

/// The place of sequence number 0 at the start: no place near it is below 0.
const PLACE_START: Place = 1 << 32;

/// The newest packets, by place. A slot is used again for the place one window later.
pub(super) struct Window {
    slots: Vec<Slot>,
    /// Packets of a matrix: how far the packets around a lost one may be.
    matrix_packets: u64,
    first: Place,
    highest: Place,
}

/// One packet. The place 0 is that of none.
#[derive(Clone, Default)]
pub(super) struct Slot {
    place: Place,
    pub(super) time_stamp: u32,
    pub(super) marker: bool,
    pub(super) payload: Vec<u8>,
}

impl Slot {
    /// What the packet adds to the recovery fields of its column.
    pub(super) fn recovery(&self) -> Recovery {
        Recovery {
            length: self.payload.len() as u16,
            payload_type: MP2T,
            marker: self.marker,
            time_stamp: self.time_stamp,
        }
    }
}

impl Window {
    pub(super) fn new(geometry: Geometry) -> Self {
        let matrix_packets = u64::from(geometry.packets());
        let packets = (WINDOW_MATRICES * matrix_packets).max(WINDOW_PACKETS_MIN).next_power_of_two();
        let slots = vec![Slot::default(); packets as usize];
        Self { slots, matrix_packets, first: PLACE_START, highest: PLACE_START }
    }

    /// Forgets all packets; the next one will have this sequence number.
    pub(super) fn restart(&mut self, sequence: u16) {
        self.slots.iter_mut().for_each(|slot| slot.place = 0);
        self.first = PLACE_START + u64::from(sequence);
        self.highest = self.first;
    }

    /// Number of packets.
    pub(super) fn packets(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The place with this sequence number that is nearest to the highest one.
    pub(super) fn place(&self, sequence: u16) -> Place {
        let distance = sequence.wrapping_sub(self.highest as u16) as i16;
        self.highest.wrapping_add_signed(distance.into())
    }

    /// Whether a packet at this place can be kept, and would not push out the highest one.
    pub(super) fn has_place(&self, place: Place) -> bool {
        place < self.highest + self.packets() && !self.is_past(place)
    }

    /// Whether the window has moved past this place.
    pub(super) fn is_past(&self, place: Place) -> bool {
        place + self.packets() <= self.highest
    }

    /// Whether the window began after this place.
    pub(super) fn is_before_first(&self, place: Place) -> bool {
        place < self.first
    }

    /// The packet at this place.
    pub(super) fn get(&self, place: Place) -> Option<&Slot> {
        Some(&self.slots[self.index(place)]).filter(|slot| slot.place == place)
    }

    /// Keeps a packet at a place that the window has.
    pub(super) fn insert(&mut self, place: Place, time_stamp: u32, marker: bool, payload: &[u8]) {
        let at = self.index(place);
        let slot = &mut self.slots[at];
        (slot.place, slot.time_stamp, slot.marker) = (place, time_stamp, marker);
        slot.payload.clear();
        slot.payload.extend_from_slice(payload);
        self.highest = self.highest.max(place);
    }

    /// Whether a packet at this place may have this time stamp, by those of the nearest packets
    /// before and after it. There must be one of them. A marker announces that a time stamp does
    /// not continue that of the packet before.
    pub(super) fn is_plausible(&self, place: Place, time_stamp: u32, marker: bool) -> bool {
        let reach = 1..=self.matrix_packets;
        let before = reach.clone().find_map(|distance| self.get(place - distance));
        let after = reach.clone().find_map(|distance| self.get(place + distance));
        let is_near = |slot: &Slot| {
            let step = time_stamp.wrapping_sub(slot.time_stamp).cast_signed();
            step.unsigned_abs() <= TIME_STAMP_STEP_MAX
        };
        (before.is_some() || after.is_some())
            && before.is_none_or(|slot| marker || is_near(slot))
            && after.is_none_or(|slot| slot.marker || is_near(slot))
    }

    fn index(&self, place: Place) -> usize {
        (place % self.packets()) as usize
    }
}
