//! Which session plays which object from where: what the table of shared units needs to know of the
//! sessions.

use crate::body::Body;
use crate::key::{SessionKey, TrackOfSession};
use crate::limits::AUDIENCE_PARTS_MAX;
use crate::next_use::{Front, NextUse};
use crate::shared_tracks::{SharedTrack, SharedTracks, Start};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The fronts of all sessions, and which units of their objects are in memory. All cores share it;
/// a clone is cheap.
///
/// One short lock for a few look-ups in ordered sets: once a segment for each viewer, and once or
/// twice for each unit of 264 KiB. That is some ten thousand times a second at 2 GB/s, as often as
/// the arena takes its own lock.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    next_use: Arc<Mutex<NextUse>>,
}

/// Most tracks of a session that can have a front of their own: those of each media kind, or a
/// title as one file.
pub(crate) const TRACKS_MAX: usize = 4;

impl Audience {
    /// A session requests `body` from `offset` on, on one of its tracks, and will continue to play
    /// the objects found there. They are shown for `duration_ns` in all.
    ///
    /// A title as one file is made of pieces of several objects in turn. Each of those objects has
    /// a front. Returns whether units are to be read to their ends. That is so if others play one
    /// of the objects, too, or if `is_roomy` and others may come.
    pub fn plays(
        &self,
        TrackOfSession { session, track }: TrackOfSession,
        body: &Body,
        offset: u64,
        duration_ns: u64,
        is_roomy: bool,
        now_ns: u64,
    ) -> bool {
        let mut fronts: Vec<Front> = Vec::new();
        let mut at = offset;
        for _ in 0..AUDIENCE_PARTS_MAX {
            let Some(part) = body.part_at(at) else { break };
            at += part.bytes();
            // Parity has no front: no session follows another one in it.
            let Some((map, kind, range)) = part.data_rows() else { continue };
            if fronts.iter().any(|front| front.object == map.id()) {
                continue;
            }
            let stripe_bytes = kind.stripe_bytes(map.geometry());
            let stripes = kind.object_bytes(map).div_ceil(stripe_bytes).max(1);
            fronts.push(Front {
                object: map.id(),
                stripe: range.start / stripe_bytes,
                asked_ns: now_ns,
                stripe_ns: duration_ns / stripes,
                offset: kind.stored_at(map.geometry(), range.start),
                until_stripe: (range.end.max(range.start + 1) - 1) / stripe_bytes,
                is_whole: false,
            });
        }
        let mut next_use = self.lock();
        let mut reads_on = is_roomy;
        let shown: Vec<(Front, usize)> = fronts.into_iter().zip(track..TRACKS_MAX).collect();
        for &(front, track) in &shown {
            next_use.set_front(TrackOfSession { session, track }, front);
            reads_on |= next_use.viewers_of(front.object) > 1;
        }
        if reads_on {
            shown.iter().for_each(|&(_, track)| next_use.reads_on(TrackOfSession { session, track }));
        }
        reads_on
    }

    /// Puts a session at its start position, behind another session that shares its reservation.
    /// The condition is that all units between them are in memory, and that the other session reads
    /// what it has requested to the ends of the units. From then on those units stay: the check and
    /// evictions exclude each other. Returns what is to be put back if the shared reservation
    /// cannot grow after all.
    pub fn follows(
        &self,
        session: SessionKey,
        ahead: GroupMember,
        starts: &[Start<'_>],
        now_ns: u64,
    ) -> Option<SessionPosition> {
        let mut next_use = self.lock();
        let is_held = |start: &Start<'_>| next_use.is_held_to(ahead.session, start.track, start.offset);
        if starts.is_empty() || !next_use.has(ahead) || !starts.iter().all(is_held) {
            return None;
        }
        let before = next_use.position_of(session);
        next_use.place(session, Some(ahead.group), starts, now_ns);
        Some(before)
    }

    /// Puts sessions that share a reservation behind other such sessions, where they are: `leader`
    /// is the first of them, and `ahead` the next session that plays the same. If all units between
    /// them are in memory, `merge` is called. It returns how many rounds of the longer interval are
    /// charged for, or that the two cannot be joined. All of this happens under one lock, so that
    /// the units between them stay in memory until they are kept.
    pub fn meet(
        &self,
        leader: SessionKey,
        all: &[SessionKey],
        ahead: GroupMember,
        shared: &SharedTracks,
        merge: impl FnOnce() -> Option<u64>,
    ) {
        let mut next_use = self.lock();
        let is_held = |(slot, track): (usize, &SharedTrack)| {
            let Some(front) = next_use.front(TrackOfSession { session: leader, track: slot }) else {
                return false;
            };
            front.object == track.map.id() && next_use.is_held_to(ahead.session, track, front.offset)
        };
        if !next_use.has(ahead) || !shared.tracks().all(is_held) {
            return;
        }
        let Some(rounds) = merge() else { return };
        for (_, track) in shared.tracks() {
            next_use.keeps(track.map.id(), ahead.group, track.stripes_in(rounds));
        }
        for &session in all {
            let SessionPosition { fronts, .. } = next_use.position_of(session);
            next_use.goes(session);
            next_use.joins(session, Some(ahead.group));
            next_use.set_fronts(session, fronts);
        }
    }

    /// Puts a session at its start position, if that is known, in a shared reservation of this
    /// width. Units that lie so far before its viewers are kept for them.
    pub fn begins(
        &self,
        session: SessionKey,
        GroupWidth { group, rounds }: GroupWidth,
        starts: &[Start<'_>],
        now_ns: u64,
    ) {
        let mut next_use = self.lock();
        // What the session does not share it continues to play, from where it will send requests.
        let SessionPosition { fronts, .. } = next_use.position_of(session);
        // A shared reservation without sessions gives up what is kept for it.
        next_use.goes(session);
        for start in starts {
            next_use.keeps(start.track.map.id(), group, start.track.stripes_in(rounds));
        }
        next_use.place(session, Some(group), starts, now_ns);
        let others = fronts.into_iter().filter(|(slot, _)| starts.iter().all(|start| start.slot != *slot));
        next_use.set_fronts(session, others);
    }

    /// Puts a session back where it was.
    pub fn returns(&self, session: SessionKey, before: SessionPosition) {
        let mut next_use = self.lock();
        next_use.goes(session);
        next_use.joins(session, before.group);
        next_use.set_fronts(session, before.fronts);
    }

    /// A session is paused, or has ended.
    pub fn leaves(&self, session: SessionKey) {
        let mut next_use = self.lock();
        next_use.goes(session);
        next_use.joins(session, None);
    }

    /// Whether a thread panicked while it changed the list.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.next_use.is_poisoned()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, NextUse> {
        // After a panic elsewhere the worst case is a unit that is evicted too early, or an
        // interval that is kept too long.
        self.next_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session of a shared reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The session.
    pub session: SessionKey,
    /// The number of the shared reservation.
    pub group: u64,
}

/// How long the intervals of a shared reservation are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupWidth {
    /// The number of the shared reservation.
    pub group: u64,
    /// Rounds that are charged for.
    pub rounds: u64,
}

/// Where a session is, and in which shared reservation.
#[derive(Debug)]
pub struct SessionPosition {
    group: Option<u64>,
    fronts: Vec<(usize, Front)>,
}

impl NextUse {
    /// Whether all units of a track, from a byte on to the front of the session that plays it
    /// ahead, are in memory, and whether that session reads what it has requested to the ends of
    /// the units.
    fn is_held_to(&self, ahead: SessionKey, track: &SharedTrack, offset: u64) -> bool {
        let SharedTrack { map, with_parity, .. } = track;
        let mut fronts =
            (0..TRACKS_MAX).filter_map(|track| self.front(TrackOfSession { session: ahead, track }));
        let Some(front) = fronts.find(|front| front.object == map.id()) else { return false };
        offset <= front.offset && front.is_whole && self.holds(map, offset..front.offset, *with_parity)
    }

    fn position_of(&self, session: SessionKey) -> SessionPosition {
        let front = |track| Some((track, self.front(TrackOfSession { session, track })?));
        let fronts = (0..TRACKS_MAX).filter_map(front);
        SessionPosition { group: self.group_of(session), fronts: fronts.collect() }
    }

    fn goes(&mut self, session: SessionKey) {
        (0..TRACKS_MAX).for_each(|track| self.leaves(TrackOfSession { session, track }));
    }

    fn set_fronts(&mut self, session: SessionKey, fronts: impl IntoIterator<Item = (usize, Front)>) {
        for (track, front) in fronts {
            self.set_front(TrackOfSession { session, track }, front);
        }
    }

    /// Whether a session is in a shared reservation.
    fn has(&self, GroupMember { session, group }: GroupMember) -> bool {
        self.group_of(session) == Some(group)
    }

    fn place(&mut self, session: SessionKey, group: Option<u64>, starts: &[Start<'_>], now_ns: u64) {
        self.goes(session);
        self.joins(session, group);
        for start in starts {
            let map = &start.track.map;
            let stripe = start.offset / map.geometry().stripe_bytes() as u64;
            let front = Front {
                object: map.id(),
                stripe,
                asked_ns: now_ns,
                stripe_ns: start.track.stripe_ns(),
                offset: start.offset,
                until_stripe: stripe,
                // The session has requested nothing yet, so nothing of that is missing.
                is_whole: true,
            };
            self.set_front(TrackOfSession { session, track: start.slot }, front);
        }
    }
}
