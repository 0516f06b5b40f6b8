//! One step of a reader's window: bytes in memory, or the wanted rows of one stripe.

use crate::budget::Reservation;
use crate::fetcher::Fetcher;
use crate::limits::SEND_CHUNKS_MAX;
use crate::row_kind::RowKind;
use crate::unit::{Fetched, PositionRows, UnitKey, UnitWant};
use reel_disk::Requester;
use reel_qos::Class;
use reel_ring::Chunk;
use reel_volume::{ObjectMap, UnitRows, VolumeError};
use std::ops::Range;
use std::sync::Arc;

/// What is sent in one piece of the plan.
pub(super) enum Step {
    Bytes(Arc<[u8]>, Range<usize>),
    Stripe(StripeStep),
}

/// For whom a unit is read, and when it is due.
#[derive(Clone, Copy)]
pub(super) struct ReadTurn {
    pub(super) connection: u64,
    pub(super) requester: Option<Requester>,
    pub(super) class: Class,
    pub(super) deadline_ns: u64,
}

/// Bytes of rows of one kind in one stripe.
pub(super) struct StripePiece {
    pub(super) map: Arc<ObjectMap>,
    pub(super) kind: RowKind,
    pub(super) stripe: u64,
    /// The bytes, counted from the start of the stripe.
    pub(super) range: Range<u64>,
}

/// The wanted rows of one stripe, and the memory for them.
pub(super) struct StripeStep {
    /// What is still to be sent.
    pub(super) piece: StripePiece,
    units: Vec<UnitNeed>,
    reservation: Arc<Reservation>,
}

struct UnitNeed {
    position: usize,
    rows: Range<usize>,
    have: Option<UnitRows>,
    /// It is to be requested again.
    is_given_up: bool,
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
            Step::Stripe(stripe) => stripe.piece.range.start += bytes,
        }
    }
}

impl StripePiece {
    /// The bytes `range` of the rows of this kind of an object, to the end of the stripe in which
    /// they begin.
    pub(super) fn first_of(map: Arc<ObjectMap>, kind: RowKind, range: &Range<u64>) -> Self {
        let stripe_bytes = kind.stripe_bytes(map.geometry());
        let stripe = range.start / stripe_bytes;
        let start = stripe * stripe_bytes;
        let range = range.start - start..range.end.min(start + stripe_bytes) - start;
        Self { map, kind, stripe, range }
    }

    /// The rows at each position that it touches.
    pub(super) fn rows_by_position(&self) -> Vec<PositionRows> {
        self.kind.rows_by_position(self.map.geometry(), &self.range)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl StripeStep {
    /// `units`: the wanted rows of each, and those rows if they were in memory.
    pub(super) fn new(
        piece: StripePiece,
        units: impl Iterator<Item = (PositionRows, Option<UnitRows>)>,
        reservation: Arc<Reservation>,
    ) -> Self {
        let need =
            |(PositionRows { position, rows }, have)| UnitNeed { position, rows, have, is_given_up: false };
        let units = units.map(need).collect();
        let mut step = Self { piece, units, reservation };
        step.settle();
        step
    }

    /// Takes a unit if it belongs to this step and has not come yet. An error means that no member
    /// and no decoding gives these bytes.
    pub(super) fn take(&mut self, fetched: &Fetched) -> Result<(), Arc<VolumeError>> {
        let Some(unit) = self.unit_of(&fetched.key).filter(|unit| unit.have.is_none()) else {
            return Ok(());
        };
        if fetched.is_given_up() {
            unit.is_given_up = true;
            return Ok(());
        }
        let rows = fetched.result.clone()?;
        // Two steps may want different rows of one unit. Each takes the answer that covers its own
        // rows.
        if rows.rows().start <= unit.rows.start && unit.rows.end <= rows.rows().end {
            unit.have = Some(rows);
            self.settle();
        }
        Ok(())
    }

    /// Requests again the units that another thread has given up.
    pub(super) fn request_again(
        &mut self,
        fetcher: &mut Fetcher,
        ReadTurn { connection, requester, class, deadline_ns }: ReadTurn,
        now_ns: u64,
    ) {
        if !self.units.iter().any(|unit| unit.is_given_up) {
            return;
        }
        let (stripe, reservation) = (self.piece.stripe, Arc::clone(&self.reservation));
        for unit in self.units.iter_mut().filter(|unit| unit.is_given_up) {
            unit.is_given_up = false;
            let (map, position, rows) = (Arc::clone(&self.piece.map), unit.position, unit.rows.clone());
            let want = UnitWant { map, stripe, position, rows, class, deadline_ns, requester };
            let wants = std::slice::from_ref(&want);
            let got = fetcher.request_stripe(wants, connection, Some(&reservation), now_ns);
            unit.have = got.into_iter().next().flatten();
        }
        self.settle();
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
        self.piece.bytes()
    }

    /// Bytes of a whole stripe, of the rows that are sent.
    pub(super) fn stripe_bytes(&self) -> u64 {
        self.piece.kind.stripe_bytes(self.piece.map.geometry())
    }

    /// Appends what is in memory without a gap. `true` if that was all of the stripe.
    pub(super) fn chunks(&self, chunks: &mut Vec<Chunk>, left_bytes: &mut usize) -> bool {
        let (geometry, kind) = (self.piece.map.geometry(), self.piece.kind);
        let row_bytes = kind.row_bytes(geometry);
        let Range { start: mut at, end } = self.piece.range;
        while at < end {
            if *left_bytes == 0 || chunks.len() >= SEND_CHUNKS_MAX {
                return false;
            }
            let Some(row) = self.row(at / row_bytes) else { return false };
            let run = kind.run_of_row(geometry, at % row_bytes);
            // Fits: at most the length of a run.
            let bytes = (end - at).min(run.len() as u64) as usize;
            let bytes = bytes.min(*left_bytes);
            chunks.push(Chunk::Lease(row.slice(run.start..run.start + bytes)));
            *left_bytes -= bytes;
            at += bytes as u64;
        }
        true
    }

    pub(super) fn front_is_ready(&self) -> bool {
        self.row(self.piece.range.start / self.piece.kind.row_bytes(self.piece.map.geometry())).is_some()
    }

    /// Row `index` of the stripe in the order of sending, if its unit is in memory.
    fn row(&self, index: u64) -> Option<reel_arena::Lease> {
        let (position, row) = self.piece.kind.place(self.piece.map.geometry(), index);
        let unit = self.units.iter().find(|unit| unit.position == position)?;
        Some(unit.have.as_ref()?.row(row))
    }

    /// When all units have come, the units they were computed from are not needed any more.
    fn settle(&mut self) {
        if self.is_complete() {
            let beyond = self.reservation.buffers().saturating_sub(self.units.len());
            self.reservation.give_back(beyond);
        }
    }

    fn unit_of(&mut self, key: &UnitKey) -> Option<&mut UnitNeed> {
        if key.object != self.piece.map.id() || key.stripe != self.piece.stripe {
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
