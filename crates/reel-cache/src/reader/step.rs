//! One step of a reader's window: bytes in memory, or the wanted rows of one stripe.

use crate::budget::Reservation;
use crate::limits::SEND_CHUNKS_MAX;
use crate::unit::{Fetched, UnitKey};
use reel_ring::Chunk;
use reel_volume::{ObjectMap, UnitRows, VolumeError};
use std::ops::Range;
use std::sync::Arc;

/// What is sent in one piece of the plan.
pub(super) enum Step {
    Bytes(Arc<[u8]>, Range<usize>),
    Stripe(StripeStep),
}

/// The wanted rows of one stripe, and the memory for them.
pub(super) struct StripeStep {
    pub(super) map: Arc<ObjectMap>,
    stripe: u64,
    /// What is still to be sent, counted from the start of the stripe.
    range: Range<u64>,
    units: Vec<UnitNeed>,
    reservation: Arc<Reservation>,
}

struct UnitNeed {
    position: usize,
    rows: Range<usize>,
    have: Option<UnitRows>,
}

impl Step {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Step::Bytes(_, range) => range.len() as u64,
            Step::Stripe(stripe) => stripe.bytes(),
        }
    }

    pub(super) fn advance(&mut self, bytes: u64) {
        match self {
            // The cast fits: never more than the length of the range.
            Step::Bytes(_, range) => range.start += bytes as usize,
            Step::Stripe(stripe) => stripe.range.start += bytes,
        }
    }
}

impl StripeStep {
    /// `units`: positions, the wanted rows of each, and those rows if they were in memory.
    pub(super) fn new(
        (map, stripe): (Arc<ObjectMap>, u64),
        range: Range<u64>,
        units: impl Iterator<Item = ((usize, Range<usize>), Option<UnitRows>)>,
        reservation: Arc<Reservation>,
    ) -> Self {
        let units = units.map(|((position, rows), have)| UnitNeed { position, rows, have }).collect();
        let mut step = Self { map, stripe, range, units, reservation };
        step.settle();
        step
    }

    /// Takes a unit if it belongs to this step and has not come yet. An error means that no member
    /// and no decoding gives these bytes.
    pub(super) fn take(&mut self, fetched: &Fetched) -> Result<(), Arc<VolumeError>> {
        let Some(unit) = self.unit_of(&fetched.key).filter(|unit| unit.have.is_none()) else {
            return Ok(());
        };
        let rows = fetched.result.clone()?;
        // Two steps may want different rows of one unit. Each takes the answer that covers its own
        // rows.
        if rows.rows().start <= unit.rows.start && unit.rows.end <= rows.rows().end {
            unit.have = Some(rows);
            self.settle();
        }
        Ok(())
    }

    /// Whether all units have come.
    pub(super) fn is_complete(&self) -> bool {
        self.units.iter().all(|unit| unit.have.is_some())
    }

    /// Buffers that the step may hold.
    pub(super) fn buffers(&self) -> usize {
        self.reservation.buffers()
    }

    /// The buffers of them that are drawn from the promise to its viewer.
    pub(super) fn drawn_buffers(&self) -> usize {
        if self.reservation.is_promised() { self.buffers() } else { 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Appends what is in memory without a gap. `true` if that was all of the stripe.
    pub(super) fn chunks(&self, chunks: &mut Vec<Chunk>, left_bytes: &mut usize) -> bool {
        let row_bytes = self.map.geometry().row_bytes() as u64;
        let mut at = self.range.start;
        while at < self.range.end {
            if *left_bytes == 0 || chunks.len() >= SEND_CHUNKS_MAX {
                return false;
            }
            let Some(row) = self.row(at / row_bytes) else { return false };
            // The casts fit: both lie inside one row.
            let from = (at % row_bytes) as usize;
            let row_left = (self.range.end - at).min(row_bytes - at % row_bytes) as usize;
            let bytes = row_left.min(*left_bytes);
            chunks.push(Chunk::Lease(row.slice(from..from + bytes)));
            *left_bytes -= bytes;
            at += bytes as u64;
        }
        true
    }

    pub(super) fn front_is_ready(&self) -> bool {
        self.row(self.range.start / self.map.geometry().row_bytes() as u64).is_some()
    }

    /// Row `index` of the stripe in object order, if its unit is in memory.
    fn row(&self, index: u64) -> Option<reel_arena::Lease> {
        let data_rows = self.map.geometry().data_rows() as u64;
        // The casts fit: both are below the small counts of the geometry.
        let (matrix, position) = ((index / data_rows) as usize, (index % data_rows) as usize);
        let unit = self.units.iter().find(|unit| unit.position == position)?;
        Some(unit.have.as_ref()?.row(matrix))
    }

    /// When all units have come, the units they were computed from are not needed any more.
    fn settle(&mut self) {
        if self.is_complete() {
            let beyond = self.reservation.buffers().saturating_sub(self.units.len());
            self.reservation.give_back(beyond);
        }
    }

    fn unit_of(&mut self, key: &UnitKey) -> Option<&mut UnitNeed> {
        if key.object != self.map.id() || key.stripe != self.stripe {
            return None;
        }
        self.units.iter_mut().find(|unit| unit.position == key.position)
    }
}

impl Drop for StripeStep {
    /// Reads under way occupy their buffers until they are answered, although the reader is gone.
    fn drop(&mut self) {
        let arrived = self.units.iter().filter(|unit| unit.have.is_some()).count();
        let owed =
            if arrived == self.units.len() { 0 } else { self.reservation.buffers().saturating_sub(arrived) };
        self.reservation.lend_until_answered(owed);
    }
}
