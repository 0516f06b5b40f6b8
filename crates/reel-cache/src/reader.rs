//! A body on its way to one client: what to request next, and what can be sent now.
//!
//! ```text
//!   body     [.. sent ..|---------- window ----------|...... not planned yet ......]
//!                        step        step      step
//!                        ^ chunks() come from here
//! ```
//! A step is bytes in memory or the wanted rows of one stripe. The step of a stripe holds a
//! [`Reservation`] for every buffer it may need, so a reader that has started a stripe can always
//! finish it. The front step is always planned, and further ones as far as was promised
//! (`window.rs`). Steps beyond that are planned only while there is plenty of memory, and where
//! they are worth it.

mod due;
mod step;

pub use due::{Due, Pace, Ramp, Urgency};

use crate::body::{Body, Part};
use crate::budget::{PromisedBuffers, QueuePosition, Reservation, Waiting};
use crate::fetcher::Fetcher;
use crate::limits::{
    READER_REFILL_STRIPES, READER_STEPS_MAX, READER_STRIPES_MAX, RUN_STEPS_MAX, SEND_BYTES_MAX,
    SEND_CHUNKS_MAX,
};
use crate::runs::{Run, RunLimits};
use crate::unit::{Fetched, PositionRows, UnitWant};
use crate::window::Window;
use reel_disk::Requester;
use reel_qos::{Class, DiskPrice};
use reel_ring::Chunk;
use reel_volume::VolumeError;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use step::{ReadTurn, Step, StripePiece, StripeStep};

/// What a reader can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderState {
    /// [`Reader::chunks`] returns something.
    Ready,
    /// The reader waits for units that are on their way, or for more of its body.
    AwaitUnits,
    /// The reader waits until others give memory back. Call [`Reader::fill`] again then.
    AwaitMemory,
    /// Everything was sent.
    Done,
}

/// The sending side of one body.
pub struct Reader {
    body: Body,
    /// Bytes before the first one of `body`, which were sent and are not needed any more.
    dropped_bytes: u64,
    /// More is to be appended to `body`.
    grows: bool,
    sent_bytes: u64,
    /// Bytes after the sent ones that `window` covers.
    planned_bytes: u64,
    window: VecDeque<Step>,
    class: Class,
    due: Due,
    connection: u64,
    requester: Option<Requester>,
    /// Units are read to their ends.
    reads_on: bool,
    /// How much is requested at once while the bytes are due at no fixed time. `None` if that is
    /// always a short window.
    run: Option<Run>,
    /// The window is being filled. When it is full, nothing is planned until most of it was sent.
    is_filling: bool,
    /// What its viewer was promised, for all bodies that it plays together.
    promised: Option<Arc<PromisedBuffers>>,
    /// Set while the front step finds no memory.
    waiting: Option<Waiting>,
}

impl Reader {
    /// A reader that sends `body` to `connection`.
    pub fn new(body: Body, class: Class, due: Due, connection: u64) -> Self {
        Self {
            body,
            dropped_bytes: 0,
            grows: false,
            sent_bytes: 0,
            planned_bytes: 0,
            window: VecDeque::new(),
            class,
            due,
            connection,
            requester: None,
            reads_on: false,
            run: None,
            is_filling: true,
            promised: None,
            waiting: None,
        }
    }

    /// The same reader, whose reads without deadlines wait for the turn of a client, and not for
    /// one of its connection.
    #[must_use]
    pub fn on_behalf_of(self, requester: Option<Requester>) -> Self {
        Self { requester, ..self }
    }

    /// The same reader for a viewer with promised memory. Buffers are drawn from the promise as
    /// long as some of it is left.
    #[must_use]
    pub fn promised(self, promised: Option<Arc<PromisedBuffers>>) -> Self {
        Self { promised, ..self }
    }

    /// The same reader. If `reads_on`, each unit is read from the first wanted row to its end,
    /// because what follows is needed next: by the client, and by sessions that follow it. Segments
    /// do not end where units do. Without this, viewers of two segments would read one unit twice,
    /// each another part.
    pub fn reading_on(self, reads_on: bool) -> Self {
        Self { reads_on, ..self }
    }

    /// The same reader. While its bytes are due at no fixed time, it requests them in runs, as long
    /// as its client takes them. The owner of the reader has to [release](Reader::release) it if
    /// the client stops taking bytes.
    #[must_use]
    pub fn in_runs(self) -> Self {
        Self { run: Some(Run::default()), ..self }
    }

    /// The body is still being made: when all of it was sent, the reader waits for more of it.
    pub fn stay_open(&mut self) {
        self.grows = true;
    }

    /// More of a body that is still being made. What was sent of it is dropped.
    pub fn append(&mut self, more: Body) {
        let left = self.sent_bytes - self.dropped_bytes..self.body.bytes();
        self.body = self.body.slice(left).then(more);
        self.dropped_bytes = self.sent_bytes;
    }

    /// Whether more is to be appended to the body.
    pub fn grows(&self) -> bool {
        self.grows
    }

    /// No more is appended to the body.
    pub fn complete(&mut self) {
        self.grows = false;
    }

    /// Its viewer is promised memory from now on.
    pub fn promise(&mut self, promised: Option<Arc<PromisedBuffers>>) {
        self.promised = promised;
    }

    /// What is requested from now on has another class and other due times: the session was
    /// admitted again, or has no promise any more.
    pub fn set_terms(&mut self, class: Class, due: Due) {
        if let Some(run) = self.run.as_mut().filter(|_| !due.is_open()) {
            run.forget();
        }
        (self.class, self.due) = (class, due);
    }

    /// What is requested from now on has another class, and the same due times.
    pub fn set_class(&mut self, class: Class) {
        self.class = class;
    }

    /// The connection that it sends to.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Whether its viewer is promised memory now.
    pub fn is_promised(&self) -> bool {
        self.promised.as_ref().is_some_and(|promised| promised.buffers() > 0)
    }

    /// Its position among the readers that wait for memory, while it waits. An owner of several
    /// readers has to try them in this order.
    pub fn queue_position(&self) -> Option<QueuePosition> {
        self.waiting.as_ref().map(Waiting::position)
    }

    /// Bytes sent.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes not yet sent.
    pub fn unsent_bytes(&self) -> u64 {
        self.dropped_bytes + self.body.bytes() - self.sent_bytes
    }

    /// How urgent the byte is that is sent next.
    pub fn urgency(&self) -> Urgency {
        self.due.urgency(self.sent_bytes)
    }

    /// When the byte at `offset` of the body is due in memory; `None` if at no fixed time.
    pub fn due_ns(&self, offset: u64) -> Option<u64> {
        match self.due.urgency(offset) {
            Urgency::Due(due_ns) => Some(due_ns),
            Urgency::Waited | Urgency::Unhurried => None,
        }
    }

    /// Requests what comes next, as far as memory allows.
    pub fn fill(&mut self, fetcher: &mut Fetcher, now_ns: u64) -> ReaderState {
        let deadline_ns = self.due.of(self.sent_bytes, 0, now_ns);
        let turn = ReadTurn {
            connection: self.connection,
            requester: self.requester,
            class: self.class,
            deadline_ns,
        };
        for step in &mut self.window {
            if let Step::Stripe(stripe) = step {
                stripe.request_again(fetcher, turn, now_ns);
            }
        }
        // What is promised is requested a window at a time, when most of the last one was sent.
        // Neighbours on the disks are then read in one go. A client that takes all it can get is
        // always given more, in runs if those are worth it.
        let waits = self.state() == ReaderState::AwaitUnits;
        let left_stripes = match &mut self.run {
            Some(run) if self.due.is_open() => {
                if waits {
                    run.waits();
                }
                run.left_stripes()
            }
            _ if matches!(self.due, Due::After(_)) => READER_STRIPES_MAX as u64,
            _ => READER_REFILL_STRIPES as u64,
        };
        if !self.is_filling && self.stripes_ahead() < left_stripes {
            self.is_filling = true;
            if let Some(run) = &mut self.run {
                run.refills();
            }
        }
        while self.is_filling && self.planned_bytes < self.unsent_bytes() {
            let (steps_max, stripes_max) = self.window_max();
            if self.window.len() >= steps_max {
                break;
            } else if self.stripes_ahead() >= stripes_max {
                self.is_filling = false;
            } else if !self.plan(fetcher, now_ns) {
                // A run ends where memory does. The least that any reader has is still requested.
                self.is_filling = self.stripes_ahead() < READER_STRIPES_MAX as u64;
                break;
            }
        }
        self.state()
    }

    /// Most steps of the window, and most stripes.
    fn window_max(&self) -> (usize, u64) {
        match &self.run {
            Some(run) if run.is_long() => (RUN_STEPS_MAX, run.window_stripes()),
            _ => (READER_STEPS_MAX, READER_STRIPES_MAX as u64),
        }
    }

    /// Whether it holds more than readers with deadlines do, because its client took it.
    pub fn has_long_run(&self) -> bool {
        self.run.as_ref().is_some_and(Run::is_long)
    }

    /// What can be sent now, in order: at most `bytes_max`, within the limits of one send.
    pub fn chunks(&self, bytes_max: usize) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        let mut left_bytes = bytes_max.min(SEND_BYTES_MAX);
        for step in &self.window {
            let whole = match step {
                Step::Bytes(bytes, range) => {
                    let end = range.end.min(range.start + left_bytes);
                    chunks.push(Chunk::Bytes(Arc::clone(bytes), range.start..end));
                    left_bytes -= end - range.start;
                    end == range.end
                }
                Step::Stripe(stripe) => stripe.chunks(&mut chunks, &mut left_bytes),
            };
            if !whole || left_bytes == 0 || chunks.len() >= SEND_CHUNKS_MAX {
                break;
            }
        }
        chunks
    }

    /// `bytes` of the chunks were taken by the client's socket.
    pub fn advance(&mut self, bytes: u64) {
        assert!(bytes <= self.planned_bytes, "more bytes were sent than chunks() returned");
        self.planned_bytes -= bytes;
        self.sent_bytes += bytes;
        let mut left = bytes;
        while left > 0 {
            let Some(step) = self.window.front_mut() else { break };
            let taken = left.min(step.bytes());
            step.advance(taken);
            left -= taken;
            if step.bytes() == 0 {
                self.window.pop_front();
            }
        }
    }

    /// Takes a unit that came.
    ///
    /// # Errors
    ///
    /// No member and no decoding gives these bytes.
    pub fn fetched(&mut self, fetched: &Fetched) -> Result<ReaderState, Arc<VolumeError>> {
        for step in &mut self.window {
            if let Step::Stripe(stripe) = step {
                stripe.take(fetched)?;
            }
        }
        Ok(self.state())
    }

    /// Gives all memory back, because the client is slow and others wait. The next [`Reader::fill`]
    /// requests again what was not sent. Does nothing while units are on their way.
    pub fn release(&mut self, fetcher: &Fetcher) {
        let complete = |step: &Step| match step {
            Step::Bytes(..) => true,
            Step::Stripe(stripe) => stripe.is_complete(),
        };
        if !self.window.is_empty() && self.window.iter().all(complete) {
            self.window.clear();
            self.planned_bytes = 0;
            if let Some(run) = &mut self.run {
                run.forget();
            }
            fetcher.units().counters().releases.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives back what was read before it was urgent, when others wait for memory. The units stay
    /// in the table until their memory is needed. Not to be called while chunks are being sent.
    pub fn give_back_early(&mut self, fetcher: &Fetcher) {
        let units = fetcher.units();
        while self.window.len() > 1
            && let Some(Step::Stripe(last)) = self.window.back()
            && last.is_complete()
            && !self.due.window(units.depth(), &last.piece).is_urgent(self.planned_bytes - last.bytes())
            && units.budget().is_helped_by(self.is_promised())
        {
            self.planned_bytes -= last.bytes();
            self.window.pop_back();
        }
    }

    /// What can be done next.
    pub fn state(&self) -> ReaderState {
        if self.unsent_bytes() == 0 {
            return if self.grows { ReaderState::AwaitUnits } else { ReaderState::Done };
        }
        match self.window.front() {
            None => ReaderState::AwaitMemory,
            Some(Step::Bytes(..)) => ReaderState::Ready,
            Some(Step::Stripe(stripe)) if stripe.front_is_ready() => ReaderState::Ready,
            Some(Step::Stripe(_)) => ReaderState::AwaitUnits,
        }
    }

    /// Plans one more step; `false` if there is no memory for it.
    fn plan(&mut self, fetcher: &mut Fetcher, now_ns: u64) -> bool {
        let offset = self.sent_bytes + self.planned_bytes;
        let Some(part) = self.body.part_at(offset - self.dropped_bytes) else { return false };
        if let Part::Bytes(bytes, range) = part {
            self.planned_bytes += range.len() as u64;
            self.window.push_back(Step::Bytes(bytes, range));
            return true;
        }
        let Some((map, kind, range)) = part.rows() else { return false };
        let piece = StripePiece::first_of(Arc::clone(map), kind, &range);
        let window = self.due.window(fetcher.units().depth(), &piece);
        let deadline_ns = self.due.of(offset, window.bytes(), now_ns);
        let mut wanted = piece.rows_by_position();
        if matches!(self.due, Due::Paced(_)) || self.has_long_run() || self.reads_on {
            // What follows is needed next: by the next part of a title as one file, which meets
            // this one within a unit, or by sessions that follow. What lies before is not needed:
            // what was read ahead begins at the first byte needed, too.
            wanted.iter_mut().for_each(|unit| unit.rows.end = piece.map.geometry().unit_rows());
        }
        let buffers = wanted.len() + decoding_buffers(fetcher, &piece, &wanted);
        let Some(reservation) = self.reserve(fetcher, buffers, window, &piece) else { return false };
        let want = |unit: &PositionRows| UnitWant {
            map: Arc::clone(&piece.map),
            stripe: piece.stripe,
            position: unit.position,
            rows: unit.rows.clone(),
            class: self.class,
            deadline_ns,
            requester: self.requester,
        };
        let wants: Vec<UnitWant> = wanted.iter().map(want).collect();
        let reservation = Arc::new(reservation);
        let got = fetcher.request_stripe(&wants, self.connection, Some(&reservation), now_ns);
        self.planned_bytes += piece.bytes();
        let step = StripeStep::new(piece, wanted.into_iter().zip(got), reservation);
        self.window.push_back(Step::Stripe(step));
        self.run_planned(fetcher);
        true
    }

    /// Chooses the next run when all of this one was requested.
    fn run_planned(&mut self, fetcher: &Fetcher) {
        let (Some(run), Some(Step::Stripe(step))) = (&mut self.run, self.window.back()) else { return };
        if !self.due.is_open() {
            return;
        }
        let units = fetcher.units();
        run.planned(units.runs(), || {
            let (disks, geometry) = (units.disks(), step.piece.map.geometry());
            let price = (0..disks.members()).map(|member| disks.price(member)).reduce(DiskPrice::slower);
            let stripe_buffers =
                if units.is_degraded() { geometry.width() } else { step.piece.kind.units(geometry) };
            let limits = RunLimits {
                run_bytes: price.map_or(0, |price| price.run_bytes()),
                unit_bytes: geometry.unit_bytes() as u64,
                unit_ns: price.map_or(0, |price| price.transfer_ns(geometry.unit_bytes() as u64)),
                stripe_buffers: stripe_buffers as u64,
                buffers: units.budget().total() as u64,
            };
            (disks.classes().kind(self.class), limits)
        });
    }

    /// Memory for a piece of a stripe, for a reader with such a window.
    fn reserve(
        &mut self,
        fetcher: &Fetcher,
        buffers: usize,
        window: Window,
        piece: &StripePiece,
    ) -> Option<Reservation> {
        let (budget, depth) = (fetcher.units().budget(), fetcher.units().depth());
        // More than all buffers would never become free. A reader that holds all of them competes
        // with no other reader for the spare buffers.
        let buffers = buffers.min(budget.total());
        if self.window.is_empty() {
            return budget.reserve_first(self.promised.as_deref(), &mut self.waiting, buffers);
        }
        let is_his = (self.held_buffers() + buffers) as u64 <= self.due.buffers_max(depth, piece);
        if is_his && window.is_urgent(self.planned_bytes) {
            // Not more than was counted for this body: the rest of the promise is for what else its
            // viewer plays.
            let is_promised =
                (self.drawn_buffers() + buffers) as u64 <= self.due.promised_buffers(depth, piece);
            let promised = self.promised.as_ref().filter(|_| is_promised);
            return promised
                .and_then(|promised| promised.draw(buffers))
                .or_else(|| self.ahead(fetcher, buffers));
        }
        let is_worth_it = is_his || matches!(self.due, Due::After(_)) || depth.is_rotational();
        let beyond = self.stripes_ahead() >= READER_STRIPES_MAX as u64;
        let enough = if beyond { budget.is_ample(buffers) } else { budget.is_plentiful(buffers) };
        if is_worth_it && enough { self.ahead(fetcher, buffers) } else { None }
    }

    /// Memory beyond the front step and the promise. Readers with a promise get it lent, others get
    /// what is left over.
    fn ahead(&self, fetcher: &Fetcher, buffers: usize) -> Option<Reservation> {
        let budget = fetcher.units().budget();
        if self.is_promised() { budget.lend(buffers) } else { budget.reserve(buffers) }
    }

    /// Buffers that the window may hold.
    pub fn held_buffers(&self) -> usize {
        let buffers = |step: &Step| match step {
            Step::Bytes(..) => 0,
            Step::Stripe(stripe) => stripe.buffers(),
        };
        self.window.iter().map(buffers).sum()
    }

    /// The buffers of the window that are drawn from the promise to its viewer.
    fn drawn_buffers(&self) -> usize {
        let buffers = |step: &Step| match step {
            Step::Bytes(..) => 0,
            Step::Stripe(stripe) => stripe.drawn_buffers(),
        };
        self.window.iter().map(buffers).sum()
    }

    /// How many stripes' worth of bytes the window holds. Stripes of data count in a body that has
    /// parity beside them.
    fn stripes_ahead(&self) -> u64 {
        let stripe_bytes = self.window.iter().filter_map(|step| match step {
            Step::Bytes(..) => None,
            Step::Stripe(stripe) => Some(stripe.stripe_bytes()),
        });
        stripe_bytes.max().map_or(0, |bytes| self.planned_bytes / bytes)
    }
}

/// Buffers that a stripe needs on top of those of its `wanted` units if some of those are lost: for
/// the units they are computed from. Wanted units are shared with the decoding through the table.
/// Where that is not possible, because others are reading other rows of them, the spare buffers
/// serve.
fn decoding_buffers(fetcher: &Fetcher, piece: &StripePiece, wanted: &[PositionRows]) -> usize {
    let (bypass, map) = (fetcher.units().bypass(), &piece.map);
    let is_bypassed = |unit: &&PositionRows| bypass.is_bypassed(map.unit_at(piece.stripe, unit.position).0);
    match wanted.iter().filter(is_bypassed).count() {
        0 => 0,
        lost => map.geometry().data_rows() + lost - wanted.len(),
    }
}
