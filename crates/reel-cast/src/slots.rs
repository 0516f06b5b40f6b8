//! What the channels of a cast send in some slots, for people.

use crate::on_air::OnAir;
use reel_broadcast::Visit;
use std::net::SocketAddr;

/// Some slots of a schedule, and the client that joins at the next one.
#[derive(Clone, Debug)]
pub struct SlotsReport {
    /// The length of a slot, in nanoseconds.
    pub slot_ns: u64,
    /// The number of segments.
    pub segments: u32,
    /// How many slots have passed since 1970, with a fraction; `None` while nothing is sent.
    pub now_slot: Option<f64>,
    /// The first of the slots.
    pub first_slot: u64,
    /// The group of each channel, and its segments in these slots.
    pub channels: Vec<(SocketAddr, Vec<Option<u32>>)>,
    /// What a client receives that joins at the next slot, in all slots.
    pub visit: Visit,
}

impl OnAir {
    /// So many slots from `first_slot` on, or those around the present one; `None` without a
    /// schedule. Slots are counted up to 2^63.
    pub(crate) fn slots(&self, first_slot: Option<u64>, slots: u32, now_ns: u64) -> Option<SlotsReport> {
        let broadcast = self.broadcast.as_ref()?;
        let (schedule, slot_ns) = (broadcast.schedule(), broadcast.slot_ns().max(1));
        let unix_ns = self.day.unix_ns(now_ns);
        let now_slot = self.run().map(|_| unix_ns as f64 / slot_ns as f64);
        let present = unix_ns / slot_ns;
        let first_slot = first_slot.unwrap_or(present.saturating_sub(u64::from(slots / 4)));
        let arrival = unix_ns.div_ceil(slot_ns);
        let channels = schedule.channels().iter().enumerate().map(|(number, table)| {
            let segments = (first_slot..first_slot.saturating_add(u64::from(slots)))
                .map(|slot| table.segment_at(slot))
                .collect();
            (self.config.port_above(number, 0), segments)
        });
        Some(SlotsReport {
            slot_ns,
            segments: schedule.segments(),
            now_slot,
            first_slot,
            channels: channels.collect(),
            visit: Visit::new(schedule, arrival),
        })
    }
}
