//! Who plays which object from where: what the table of shared units needs to know of the sessions.

use crate::body::{Body, Part};
use crate::key::SessionKey;
use crate::limits::AUDIENCE_PARTS_MAX;
use crate::next_use::{Front, NextUse};
use crate::prefetch::TrackOfSession;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The fronts of all sessions, and what of their objects is in memory; shared by all cores, cheap to clone.
///
/// One short lock for a few look-ups in ordered sets: once a segment for each viewer, and once or twice a unit of 264 KiB. That
/// is some ten thousand times a second at 2 GB/s, as often as the arena's own.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    next_use: Arc<Mutex<NextUse>>,
}

/// Tracks of a session that can have a front of their own: of strands, or of a film as one file.
pub(crate) const TRACKS_MAX: usize = 4;

impl Audience {
    /// A session asks on one of its tracks for `body` from `offset` on, and will go on to play the objects that it finds there, each of
    /// which is shown for `duration_ns` in all.
    ///
    /// A film as one file is made of pieces of several objects in turn; of those, each has a front. Returns whether others play one of them, too.
    pub(crate) fn plays(
        &self,
        (session, track): TrackOfSession,
        (body, offset): (&Body, u64),
        duration_ns: u64,
        now_ns: u64,
    ) -> bool {
        let mut fronts: Vec<Front> = Vec::new();
        let mut at = offset;
        for _ in 0..AUDIENCE_PARTS_MAX {
            let Some(part) = body.part_at(at) else { break };
            at += part.bytes();
            let Part::Object(map, range) = part else { continue };
            if fronts.iter().any(|front| front.object == map.id()) {
                continue;
            }
            let stripe_bytes = map.geometry().stripe_bytes() as u64;
            let stripes = map.bytes().div_ceil(stripe_bytes).max(1);
            fronts.push(Front {
                object: map.id(),
                stripe: range.start / stripe_bytes,
                asked_ns: now_ns,
                stripe_ns: duration_ns / stripes,
            });
        }
        let mut next_use = self.lock();
        let mut is_shared = false;
        for (front, track) in fronts.into_iter().zip(track..TRACKS_MAX) {
            next_use.shows((session, track), front);
            is_shared |= next_use.viewers_of(front.object) > 1;
        }
        is_shared
    }

    /// A session is paused, or over.
    pub(crate) fn leaves(&self, session: SessionKey) {
        let mut next_use = self.lock();
        (0..TRACKS_MAX).for_each(|track| next_use.leaves((session, track)));
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, NextUse> {
        // A panic elsewhere leaves at worst a unit that is let go too early, or a stretch that is kept too long.
        self.next_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
