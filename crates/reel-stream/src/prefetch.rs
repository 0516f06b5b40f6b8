//! Server push under client pull (Prism, section 4.3): what a client will ask for next is read before it asks.
//!
//! When a client takes a segment, the next one of its track is planned. It is read from the moment on at which the one before it is
//! due, so a client that runs ahead of its schedule comes first itself and the plan costs nothing. Rows are held until the
//! client has taken the segment, or could have.

use crate::body::{Body, Part};
use crate::budget::Reservation;
use crate::fetcher::{Fetched, Fetcher};
use crate::key::SessionKey;
use crate::limits::PREFETCH_HELD_NS;
use crate::reader::rows_by_position;
use crate::units::{UnitKey, UnitWant};
use reel_qos::Class;
use reel_volume::UnitRows;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// The prefetches of one core.
#[derive(Default)]
pub struct Prefetcher {
    tracks: HashMap<TrackOfSession, Track>,
    /// When to look at a track next.
    agenda: BTreeSet<(u64, TrackOfSession)>,
    by_token: HashMap<u64, TrackOfSession>,
    next_token: u64,
    /// Segments read ahead, for metrics.
    pub started: u64,
}

/// A track that a session plays.
pub type TrackOfSession = (SessionKey, usize);

/// What to read ahead.
pub struct Plan {
    /// The segment.
    pub body: Body,
    /// The class of its reads.
    pub class: Class,
    /// From when on.
    pub start_ns: u64,
    /// When its bytes are due in memory.
    pub due_ns: u64,
    /// How long it is shown.
    pub duration_ns: u64,
}

#[derive(Default)]
struct Track {
    /// Of a file that is read in pieces: the bytes of the newest plan.
    window: Range<u64>,
    /// The segment the client takes now, if it was read ahead.
    current: Option<Held>,
    next: Option<Next>,
    agenda_ns: u64,
}

enum Next {
    Planned(Plan),
    Held(Held),
}

struct Held {
    token: u64,
    rows: HashMap<UnitKey, UnitRows>,
    let_go_ns: u64,
    _reservation: Reservation,
}

/// The bit that tells the tokens of prefetches from those of connections.
const TOKEN_BIT: u64 = 1 << 63;

impl Prefetcher {
    /// Whether a [`Fetched`] of this token is for a prefetcher.
    pub fn is_for_prefetch(token: u64) -> bool {
        token & TOKEN_BIT != 0
    }

    /// The client of a track takes a segment; this is the one it will take next, if there is one. What was held for the one it takes
    /// stays until its next.
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
        self.put_on_agenda(name);
    }

    /// Where the next window of a file begins whose client is at `offset` now: when it comes to the newest one, and when it was somewhere
    /// else. `None` while that is ahead of it.
    ///
    /// Windows are read whole. Piece by piece, as clients ask, every piece would cost each disk another seek.
    pub fn next_window(&self, name: TrackOfSession, offset: u64) -> Option<u64> {
        let Some(track) = self.tracks.get(&name) else { return Some(offset) };
        let Range { start, end } = track.window;
        match offset {
            _ if offset >= start && offset <= end => Some(end),
            // In the window before it, or a little short of it.
            _ if offset < start && offset + 2 * (end - start) >= start => None,
            _ => Some(offset),
        }
    }

    /// Reads `window` of a file ahead, as planned. What was read ahead before it stays until the next one.
    pub fn plan_window(&mut self, name: TrackOfSession, window: Range<u64>, plan: Plan) {
        self.plan(name, Some(plan));
        if let Some(track) = self.tracks.get_mut(&name) {
            track.window = window;
        }
    }

    /// Does what is to be done by now.
    pub fn turn(&mut self, fetcher: &mut Fetcher, now_ns: u64) {
        while let Some(&(at_ns, name)) = self.agenda.first()
            && at_ns <= now_ns
        {
            self.agenda.pop_first();
            self.look_after(name, fetcher, now_ns);
            self.put_on_agenda(name);
        }
    }

    /// When [`Prefetcher::turn`] has something to do next.
    pub fn next_ns(&self) -> Option<u64> {
        self.agenda.first().map(|(at_ns, _)| *at_ns)
    }

    /// Lets go of all that is held: others are short of memory.
    pub fn release(&mut self) {
        let names: Vec<TrackOfSession> = self.by_token.drain().map(|(_, name)| name).collect();
        for name in names {
            if let Some(track) = self.tracks.get_mut(&name) {
                track.current = None;
                track.next = track.next.take().filter(|next| matches!(next, Next::Planned(_)));
            }
            self.put_on_agenda(name);
        }
    }

    /// Takes a unit that was read ahead. One that cannot be read is left to the client's own request, which tells of it.
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
        if let (Some(held), Ok(rows)) = (held.find(|held| held.token == fetched.connection), &fetched.result)
        {
            held.rows.insert(fetched.key, rows.clone());
        }
    }

    /// Tracks that are looked after.
    pub fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Whether nothing is looked after.
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Starts what is planned for now, lets go of what is over.
    fn look_after(&mut self, name: TrackOfSession, fetcher: &mut Fetcher, now_ns: u64) {
        let Some(track) = self.tracks.get_mut(&name) else { return };
        let is_over = |held: &Held| held.let_go_ns <= now_ns;
        if track.current.as_ref().is_some_and(is_over)
            && let Some(held) = track.current.take()
        {
            self.by_token.remove(&held.token);
        }
        match track.next.take() {
            Some(Next::Planned(plan)) if plan.start_ns <= now_ns => {
                let token = TOKEN_BIT | self.next_token;
                self.next_token = (self.next_token + 1) & !TOKEN_BIT;
                if let Some(held) = start(plan, token, fetcher, now_ns) {
                    self.started += 1;
                    self.by_token.insert(token, name);
                    track.next = Some(Next::Held(held));
                }
            }
            Some(Next::Held(held)) if is_over(&held) => drop(self.by_token.remove(&held.token)),
            still => track.next = still,
        }
    }

    fn put_on_agenda(&mut self, name: TrackOfSession) {
        let Some(track) = self.tracks.get_mut(&name) else { return };
        self.agenda.remove(&(track.agenda_ns, name));
        let next_ns = track.next.as_ref().map(|next| match next {
            Next::Planned(plan) => plan.start_ns,
            Next::Held(held) => held.let_go_ns,
        });
        match next_ns.into_iter().chain(track.current.as_ref().map(|held| held.let_go_ns)).min() {
            Some(at_ns) => {
                track.agenda_ns = at_ns;
                self.agenda.insert((at_ns, name));
            }
            None => drop(self.tracks.remove(&name)),
        }
    }
}

/// Asks for all of a segment; `None` if there is no memory for it, then its client's own request reads it.
fn start(plan: Plan, token: u64, fetcher: &mut Fetcher, now_ns: u64) -> Option<Held> {
    let stripes = wants(&plan);
    let units = stripes.iter().map(Vec::len).sum();
    // What sessions were promised counts their readers only: reading ahead must not take memory from those.
    let budget = fetcher.units().budget();
    let reservation = if budget.is_plentiful(units) { budget.reserve(units)? } else { return None };
    let mut rows = HashMap::with_capacity(units);
    for wants in stripes {
        let got = fetcher.request_stripe(&wants, token, now_ns);
        let ready = wants.iter().zip(got).filter_map(|(want, ready)| Some((want.key(), ready?)));
        rows.extend(ready);
    }
    let let_go_ns = plan.due_ns.saturating_add(plan.duration_ns).saturating_add(PREFETCH_HELD_NS);
    Some(Held { token, rows, let_go_ns, _reservation: reservation })
}

/// Every unit that the planned bytes touch, stripe by stripe and whole: a stripe that two parts share is read once.
fn wants(plan: &Plan) -> Vec<Vec<UnitWant>> {
    let mut stripes: BTreeMap<(u64, u64), BTreeMap<usize, UnitWant>> = BTreeMap::new();
    let mut at = 0;
    while let Some(part) = plan.body.part_at(at) {
        at += part.bytes();
        let Part::Object(map, range) = part else { continue };
        let stripe_bytes = map.geometry().stripe_bytes() as u64;
        for stripe in range.start / stripe_bytes..range.end.div_ceil(stripe_bytes) {
            let start = stripe * stripe_bytes;
            let within = range.start.max(start) - start..range.end.min(start + stripe_bytes) - start;
            let units = stripes.entry((map.id(), stripe)).or_default();
            for (position, _) in rows_by_position(&map, &within) {
                let (map, class, deadline_ns) = (Arc::clone(&map), plan.class, plan.due_ns);
                let rows = 0..map.geometry().unit_rows();
                units.insert(position, UnitWant { map, stripe, position, rows, class, deadline_ns });
            }
        }
    }
    stripes.into_values().map(|units| units.into_values().collect()).collect()
}
