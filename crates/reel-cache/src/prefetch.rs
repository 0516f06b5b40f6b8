//! Server push under client pull (Prism, section 4.3): what a client will request next is read
//! before the request.
//!
//! When a client takes a segment, the next one of its track is planned. It is read from the moment
//! at which the segment before it is due. So a client that runs ahead of its schedule requests it
//! first, and the plan costs nothing. Rows are held until the client has taken the segment, or
//! could have.

use crate::fetcher::Fetcher;
use crate::held::{Held, Plan};
use crate::key::TrackOfSession;
use crate::unit::Fetched;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// The prefetches of one core.
#[derive(Default)]
pub struct Prefetcher {
    tracks: HashMap<TrackOfSession, Track>,
    /// When each track is maintained next.
    agenda: BTreeSet<(u64, TrackOfSession)>,
    by_token: HashMap<u64, TrackOfSession>,
    next_token: u64,
    /// Segments read ahead, for metrics.
    pub started: u64,
}

#[derive(Default)]
struct Track {
    /// For a file that is read in pieces: the bytes of the newest plan.
    window: Range<u64>,
    /// Where the plan before it began.
    before: u64,
    /// The segment that the client takes now, if it was read ahead.
    current: Option<Held>,
    next: Option<Next>,
    agenda_ns: u64,
}

enum Next {
    Planned(Plan),
    Held(Held),
}

/// The bit that tells tokens of prefetches from tokens of connections.
const TOKEN_BIT: u64 = 1 << 63;

impl Prefetcher {
    /// Whether a [`Fetched`] with this token is for a prefetcher.
    pub fn is_for_prefetch(token: u64) -> bool {
        token & TOKEN_BIT != 0
    }

    /// The client of a track takes a segment. `plan` is the one it will take next, if there is one.
    /// What was held for the current segment stays until the client takes the next.
    pub fn plan(&mut self, name: TrackOfSession, plan: Option<Plan>) {
        let track = self.tracks.entry(name).or_default();
        let taken = match track.next.take() {
            Some(Next::Held(held)) => Some(held),
            _ => None,
        };
        if let Some(before) = std::mem::replace(&mut track.current, taken) {
            self.by_token.remove(&before.token);
        }
        track.next = plan.map(Next::Planned);
        self.schedule(name);
    }

    /// Where the next window of a file begins whose client has requested all bytes before `offset`.
    /// There is one when that offset is near the end of the newest window, or somewhere else.
    /// `None` while no window is needed.
    ///
    /// Windows are read whole. If they were read piece by piece, as clients request them, every
    /// piece would cost each disk another seek.
    pub fn next_window(
        &self,
        name: TrackOfSession,
        offset: u64,
        is_near: impl FnOnce(u64) -> bool,
    ) -> Option<u64> {
        let Some(track) = self.tracks.get(&name) else { return Some(offset) };
        if !(track.before..=track.window.end).contains(&offset) {
            return Some(offset);
        }
        is_near(track.window.end).then_some(track.window.end)
    }

    /// Reads `window` of a file ahead, as planned. What was read ahead before stays until the next
    /// window.
    pub fn plan_window(&mut self, name: TrackOfSession, window: Range<u64>, plan: Plan) {
        self.plan(name, Some(plan));
        if let Some(track) = self.tracks.get_mut(&name) {
            let follows = track.window.end == window.start && !track.window.is_empty();
            track.before = if follows { track.window.start } else { window.start };
            track.window = window;
        }
    }

    /// The client of a file has all bytes before `offset`. Gives back the memory that held only
    /// those.
    pub fn passed(&mut self, name: TrackOfSession, offset: u64) {
        let Some(track) = self.tracks.get_mut(&name) else { return };
        if let Some(held) = &mut track.current {
            held.passed(offset.saturating_sub(track.before));
        }
        if let Some(Next::Held(held)) = &mut track.next {
            held.passed(offset.saturating_sub(track.window.start));
        }
    }

    /// Does what is due by now.
    pub fn turn(&mut self, fetcher: &mut Fetcher, now_ns: u64) {
        while let Some(&(at_ns, name)) = self.agenda.first()
            && at_ns <= now_ns
        {
            self.agenda.pop_first();
            self.start_or_drop(name, fetcher, now_ns);
            self.schedule(name);
        }
    }

    /// When [`Prefetcher::turn`] has something to do next.
    pub fn next_ns(&self) -> Option<u64> {
        self.agenda.first().map(|(at_ns, _)| *at_ns)
    }

    /// Drops half of what is held, the half with the latest use, because others are short of
    /// memory. Reads under way are kept: to drop them would free no memory, and they would be made
    /// again.
    pub fn release(&mut self) {
        let here = |held: &Held| held.is_complete().then_some(held.release_ns);
        let held = |track: &Track| match &track.next {
            Some(Next::Held(held)) => here(held),
            _ => track.current.as_ref().and_then(here),
        };
        let tracks = self.tracks.iter();
        let mut names: Vec<(Reverse<u64>, TrackOfSession)> =
            tracks.filter_map(|(name, track)| Some((Reverse(held(track)?), *name))).collect();
        names.sort_unstable();
        names.truncate(names.len().div_ceil(2));
        for (_, name) in names {
            if let Some(track) = self.tracks.get_mut(&name) {
                let held = match track.next.take() {
                    Some(Next::Held(held)) => Some(held),
                    still => {
                        track.next = still;
                        track.current.take()
                    }
                };
                held.map(|held| self.by_token.remove(&held.token));
            }
            self.schedule(name);
        }
    }

    /// Takes a unit that was read ahead.
    pub fn fetched(&mut self, fetched: &Fetched) {
        let Some(track) = self.by_token.get(&fetched.connection).and_then(|name| self.tracks.get_mut(name))
        else {
            return;
        };
        let next = match &mut track.next {
            Some(Next::Held(held)) => Some(held),
            _ => None,
        };
        let mut held = track.current.iter_mut().chain(next);
        if let Some(held) = held.find(|held| held.token == fetched.connection) {
            held.keep(fetched);
        }
    }

    /// Tracks that are maintained.
    pub fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Whether no track is maintained.
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Starts what is planned for now, and drops what is over.
    fn start_or_drop(&mut self, name: TrackOfSession, fetcher: &mut Fetcher, now_ns: u64) {
        let Some(track) = self.tracks.get_mut(&name) else { return };
        let is_over = |held: &Held| held.release_ns <= now_ns;
        if track.current.as_ref().is_some_and(is_over)
            && let Some(held) = track.current.take()
        {
            self.by_token.remove(&held.token);
        }
        match track.next.take() {
            Some(Next::Planned(plan)) if plan.start_ns <= now_ns => {
                let token = TOKEN_BIT | self.next_token;
                self.next_token = (self.next_token + 1) & !TOKEN_BIT;
                // As much as there is memory for. The next window of a file begins where this one
                // ends.
                let held = Held::start(&plan, token, fetcher, now_ns);
                let bytes = held.as_ref().map_or(0, |held| held.bytes);
                track.window.end = track.window.end.min(track.window.start + bytes);
                if let Some(held) = held {
                    self.started += 1;
                    self.by_token.insert(token, name);
                    track.next = Some(Next::Held(held));
                }
            }
            Some(Next::Held(held)) if is_over(&held) => drop(self.by_token.remove(&held.token)),
            still => track.next = still,
        }
    }

    fn schedule(&mut self, name: TrackOfSession) {
        let Some(track) = self.tracks.get_mut(&name) else { return };
        self.agenda.remove(&(track.agenda_ns, name));
        let next_ns = track.next.as_ref().map(|next| match next {
            Next::Planned(plan) => plan.start_ns,
            Next::Held(held) => held.release_ns,
        });
        match next_ns.into_iter().chain(track.current.as_ref().map(|held| held.release_ns)).min() {
            Some(at_ns) => {
                track.agenda_ns = at_ns;
                self.agenda.insert((at_ns, name));
            }
            None => drop(self.tracks.remove(&name)),
        }
    }
}
