//! Streams in step: one session, one begin and one clock for a set.
//!
//! ```text
//!   due = media time + clock     for all streams
//!   clock: stands while one stream is behind another one: its next byte is due and is not there,
//!          or its reader holds what was due and gives nothing back;
//!          or while all of them are still
//! ```

use super::{Batch, Offer, Outlet, Stream, StreamId, Streams, front};
use crate::limits::{STEP_LATE_NS, STEP_PAUSE_NS, STEP_STALL_NS};
use reel_admit::Session;
use reel_arena::mms::Ending;
use reel_cache::Pace;
use reel_cache::limits::SEND_BYTES_MAX;
use reel_play::limits::BEGIN_DEADLINE_NS;
use reel_play::{Cut, Engine, NetworkPath, NewDelivery, Playable, StepSource, StepTerms, StepTimes};
use reel_qos::Class;
use reel_ring::Chunk;
use std::collections::VecDeque;
use std::sync::Arc;

/// How a set in step begins.
pub struct StepOpening<T, O> {
    /// The session of all streams.
    pub session: Arc<Session<T>>,
    /// The media time at which all begin.
    pub from_ns: u64,
    /// How they are read.
    pub terms: StepTerms,
    /// What they are of, and the outlets that they are sent to.
    pub sources: Vec<(StepSource, O)>,
}

/// The clock of a set.
pub(super) struct Step {
    streams: Vec<StreamId>,
    /// Media time `shown_ns`, with which all began, is due at `due_ns`. What comes before it is due
    /// then, too.
    shown_ns: u64,
    due_ns: u64,
    terms: StepTerms,
    /// The class of the session for which the terms are.
    session_class: Class,
    /// Where the stream is that is last, as the session knows it.
    last_ns: u64,
    /// All readers are still.
    is_paused: bool,
}

/// How a stream keeps to the clock.
#[derive(Clone, Copy)]
struct Lag {
    /// How long ago the first byte was due that its reader is not done with.
    late_ns: u64,
    /// The same of the first byte that was not offered; 0 if all was.
    next_ns: u64,
    /// For how long its reader has given nothing back.
    still_ns: u64,
}

/// What a stream has beside other streams if it is in step.
pub(super) struct InStep {
    /// Its set.
    pub(super) step: u64,
    times: StepTimes,
    /// The beginning of the file that is sent first, and where in the file the rest begins.
    head_bytes: u64,
    from: u64,
    /// Messages that were offered and that the reader is not done with: where they end, in bytes of
    /// the stream, and their media times.
    offered: VecDeque<(u64, u64)>,
    /// The next byte was due and was not there.
    is_late: bool,
    /// Its reader holds what was due, and gives nothing back.
    is_held: bool,
    /// When its reader last gave something back, or it began.
    moved_ns: u64,
}

impl Step {
    fn due_ns(&self, shown_ns: u64) -> u64 {
        self.due_ns.saturating_add(shown_ns.saturating_sub(self.shown_ns))
    }

    /// The clock as a reader of a stream needs it.
    fn pace(&self, in_step: &InStep) -> Pace {
        let (media_ns, due_ns) = (self.shown_ns, self.due_ns);
        let from_offset = in_step.from - in_step.head_bytes;
        Pace { times: Arc::clone(in_step.times.stretches()), from_offset, media_ns, due_ns }
    }
}

impl InStep {
    /// The position in the file of a byte of the stream.
    pub(super) fn position(&self, offset: u64) -> u64 {
        if offset < self.head_bytes { offset } else { self.from + (offset - self.head_bytes) }
    }

    /// The media time of a byte of the stream.
    fn shown_ns(&self, offset: u64, step: &Step) -> u64 {
        if offset < self.head_bytes { step.shown_ns } else { self.times.shown_ns(self.position(offset)) }
    }

    /// Offers the next message, which begins with these bytes. Returns how many bytes were taken.
    pub(super) fn offer(&mut self, step: &Step, chunk: &Chunk, offset: u64, outlet: &mut impl Outlet) -> u64 {
        let position = self.position(offset);
        let Cut { bytes, shown_ns } = match self.head_bytes.checked_sub(offset) {
            // The cast fits: it is at most the length of the chunk.
            Some(left @ 1..) => Cut { bytes: left.min(chunk.len() as u64) as usize, shown_ns: step.shown_ns },
            _ => self.times.cut(position, chunk),
        };
        let message = front(chunk, bytes);
        let offer = Offer { chunk: &message, position, due_ns: step.due_ns(shown_ns) };
        let taken = outlet.offer_in_step(&offer, shown_ns).min(bytes as u64);
        if taken > 0 {
            self.offered.push_back((offset + taken, shown_ns));
            self.is_late = false;
        }
        taken
    }

    /// The reader is done with all bytes before this one.
    pub(super) fn let_go(&mut self, done_bytes: u64, now_ns: u64) {
        while self.offered.front().is_some_and(|(end, _)| *end <= done_bytes) {
            self.offered.pop_front();
            (self.is_held, self.moved_ns) = (false, now_ns);
        }
    }
}

impl<O: Outlet> Stream<O> {
    /// How the stream keeps to the clock; `None` if its reader has all.
    fn lag(&self, step: &Step, now_ns: u64) -> Option<Lag> {
        let in_step = self.in_step.as_ref()?;
        let late_ns = |shown_ns| now_ns.saturating_sub(step.due_ns(shown_ns));
        let all_offered = self.offered_bytes >= self.left_bytes;
        let next_ns = || late_ns(in_step.shown_ns(self.done_bytes + self.offered_bytes, step));
        Some(Lag {
            late_ns: late_ns(self.last_ns(step)?),
            next_ns: if all_offered { 0 } else { next_ns() },
            still_ns: now_ns.saturating_sub(in_step.moved_ns),
        })
    }

    /// Where its reader is; `None` if it has all.
    fn last_ns(&self, step: &Step) -> Option<u64> {
        let in_step = self.in_step.as_ref().filter(|_| self.left_bytes > 0)?;
        let held = in_step.offered.front().map(|(_, shown_ns)| *shown_ns);
        Some(held.unwrap_or_else(|| in_step.shown_ns(self.done_bytes, step)).max(step.shown_ns))
    }
}

impl<O: Outlet> Streams<O> {
    /// Opens a set whose streams are in step. Nothing is read yet. The media time with which they
    /// begin is due at all of them [`BEGIN_DEADLINE_NS`] after the start of their session.
    pub fn open_in_step<T: Playable>(
        &mut self,
        engine: &mut Engine<T>,
        opening: StepOpening<T, O>,
        now_ns: u64,
    ) -> Vec<StreamId> {
        let StepOpening { session, from_ns, terms, sources } = opening;
        let number = self.next_step;
        self.next_step += 1;
        let due_ns = terms.start_ns.max(now_ns).saturating_add(BEGIN_DEADLINE_NS);
        let mut step = Step {
            streams: Vec::new(),
            shown_ns: from_ns,
            due_ns,
            terms,
            session_class: session.class(),
            last_ns: from_ns,
            is_paused: false,
        };
        for (source, outlet) in sources {
            let StepSource { body, head_bytes, from, times, .. } = source;
            let (offered, is_late, is_held) = (VecDeque::new(), false, false);
            let moved_ns = due_ns;
            let in_step =
                InStep { step: number, times, head_bytes, from, offered, is_late, is_held, moved_ns };
            let policy = terms.policy(step.pace(&in_step));
            let session = Some(Arc::clone(&session));
            let (file_offset, path) = (from, NetworkPath::Local);
            let new = NewDelivery {
                tag: 0,
                session,
                policy,
                body,
                preamble_bytes: 0,
                file_offset,
                in_runs: false,
                path,
            };
            step.streams.push(self.insert(engine, new, outlet, SEND_BYTES_MAX, Some(in_step), now_ns));
        }
        let set = step.streams.clone();
        self.steps.insert(number, step);
        set
    }

    /// The streams that are in step with these, and those.
    pub fn in_step_with(&self, set: &[StreamId]) -> Vec<StreamId> {
        let of = |id: &StreamId| {
            let in_step = self.streams.get(id).and_then(|stream| stream.in_step.as_ref());
            let step = in_step.and_then(|in_step| self.steps.get(&in_step.step));
            step.map_or_else(|| vec![*id], |step| step.streams.clone())
        };
        let mut all: Vec<StreamId> = set.iter().flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Drops what the readers of a set and of all that is in step with it have finished with, and
    /// has the clocks stand for those that are late.
    pub(super) fn keep_step<T: Playable>(
        &mut self,
        set: &[StreamId],
        engine: &mut Engine<T>,
        batch: &mut Batch,
        now_ns: u64,
    ) {
        let step = |id| self.streams.get(id)?.in_step.as_ref().map(|in_step| in_step.step);
        let mut steps: Vec<u64> = set.iter().filter_map(step).collect();
        steps.sort_unstable();
        steps.dedup();
        for number in steps {
            if let Some(mut step) = self.steps.remove(&number) {
                self.keep_one_step(&mut step, engine, batch, now_ns);
                self.steps.insert(number, step);
            }
        }
    }

    fn keep_one_step<T: Playable>(
        &mut self,
        step: &mut Step,
        engine: &mut Engine<T>,
        batch: &mut Batch,
        now_ns: u64,
    ) {
        let (mut lags, mut last) = (Vec::new(), None);
        for id in &step.streams {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            if batch.has_ended(*id) || !stream.let_go(*id, engine, batch, now_ns) {
                continue;
            }
            lags.extend(stream.lag(step, now_ns).map(|lag| (*id, lag)));
            let place = stream.last_ns(step).map(|shown_ns| (shown_ns, stream.delivery));
            last = last.into_iter().chain(place).min();
        }
        let behind_ns = self.behind_ns(step, &lags);
        let mut changes = behind_ns > 0;
        step.due_ns = step.due_ns.saturating_add(behind_ns);
        if let Some((last_ns, delivery)) = last
            && let Some(class) = engine.session_class(delivery)
            && (last_ns != step.last_ns || class != step.session_class)
        {
            (step.last_ns, step.session_class) = (last_ns, class);
            if let Some(terms) = engine.step_passes(delivery, last_ns, now_ns) {
                changes |= terms.class != step.terms.class;
                step.terms = terms;
            }
        }
        for id in step.streams.iter().filter(|_| changes) {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            let Some(in_step) = &stream.in_step else { continue };
            engine.set_step(stream.delivery, step.terms, step.pace(in_step));
            if behind_ns > 0 {
                stream.outlet.clock_moved(behind_ns);
            }
        }
    }

    /// By how much the clock has to be moved. All may be late by the same time: that of a program
    /// that is busy for a moment keeps them in step.
    fn behind_ns(&mut self, step: &mut Step, lags: &[(StreamId, Lag)]) -> u64 {
        let all = || lags.iter().map(|(_, lag)| *lag);
        let common_ns = all().map(|lag| lag.late_ns).min().unwrap_or(0);
        let still_ns = all().map(|lag| lag.still_ns).min().unwrap_or(0);
        step.is_paused |= common_ns > STEP_PAUSE_NS && still_ns > STEP_PAUSE_NS;
        step.is_paused &= still_ns > 0;
        let mut most_ns = 0;
        for (id, lag) in lags {
            let in_step = self.streams.get_mut(id).and_then(|stream| stream.in_step.as_mut());
            let Some(in_step) = in_step else { continue };
            let [held_ns, next_ns] =
                [lag.late_ns, lag.next_ns].map(|late_ns| late_ns.saturating_sub(common_ns));
            in_step.is_late |= next_ns > STEP_LATE_NS;
            in_step.is_held |= held_ns > STEP_LATE_NS && lag.still_ns > STEP_STALL_NS;
            if in_step.is_held || in_step.is_late {
                most_ns = most_ns.max(if in_step.is_held { held_ns } else { next_ns });
            }
        }
        most_ns + if step.is_paused { common_ns } else { 0 }
    }

    /// A stream was closed: the others continue without it.
    pub(super) fn leave_step(&mut self, id: StreamId, number: u64) {
        if let Some(step) = self.steps.get_mut(&number) {
            step.streams.retain(|other| *other != id);
            if step.streams.is_empty() {
                self.steps.remove(&number);
            }
        }
    }
}

impl Batch {
    pub(super) fn has_ended(&self, id: StreamId) -> bool {
        self.ended.iter().any(|(other, _): &(StreamId, Ending)| *other == id)
    }
}
