//! Where a viewer is on the clock: pure.
//!
//! ```text
//!   media time   0 .... t(k) ............ t(k+1)
//!   clock        epoch  epoch + t(k)                 <- segment k is due here, SEND_LEAD before it must be shown
//! ```
//! Clients ask ahead of the clock as far as their buffers go; what they ask for keeps its place on it. A request that does not go
//! on from the one before is a seek, and one for what should have been shown by now comes from a client that was paused: both
//! move the epoch.

use crate::limits::{ASKED_BACK_NS, ASKED_GAP_NS, LATE_TOLERATED_NS, SEND_LEAD_NS};
use reel_qos::limits::ROUND_NS;

/// The schedule of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    /// Set with the first request for media.
    anchor: Option<Anchor>,
}

#[derive(Clone, Debug)]
struct Anchor {
    /// Clock time of media time 0; before the clock's own zero if the film is seeked far into soon after boot.
    epoch_ns: i128,
    /// Where the client began to ask.
    media_ns: u64,
    /// Up to where it asked since then: pictures, sound, text.
    asked_until_ns: [Option<u64>; 3],
}

/// What a track is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strand {
    /// Pictures.
    Picture,
    /// Sound.
    Sound,
    /// Text, asked for once and whole.
    Text,
}

/// A stretch of a track that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Pictures, sound or text.
    pub strand: Strand,
    /// Media time of its start.
    pub from_ns: u64,
    /// Media time of its end.
    pub until_ns: u64,
}

/// How a request stands to the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It goes on from what was asked before.
    OnSchedule,
    /// The schedule has to move, so that this media time is now.
    Moved {
        /// The media time.
        media_ns: u64,
    },
}

impl Schedule {
    /// Whether anything was asked for yet.
    pub(crate) fn is_started(&self) -> bool {
        self.anchor.is_some()
    }

    /// How `ask` stands to what was asked before.
    pub(crate) fn place(&self, ask: &Ask, now_ns: u64) -> Place {
        let moved = Place::Moved { media_ns: ask.from_ns };
        let Some(anchor) = &self.anchor else { return moved };
        let before = anchor.asked_until_ns[slot(ask.strand)].unwrap_or(anchor.media_ns);
        let goes_on = ask.from_ns <= before.saturating_add(ASKED_GAP_NS)
            && ask.from_ns.saturating_add(ASKED_BACK_NS) >= before;
        let shown_ns = i128::from(now_ns) - anchor.epoch_ns;
        let is_late = shown_ns > i128::from(ask.from_ns) + i128::from(LATE_TOLERATED_NS);
        if goes_on && !is_late { Place::OnSchedule } else { moved }
    }

    /// Makes `media_ns` be now; the round under way counts whole, so that nothing is due later than its viewer needs it.
    pub(crate) fn anchor(&mut self, media_ns: u64, now_ns: u64) {
        let round_start_ns = now_ns / ROUND_NS * ROUND_NS;
        let epoch_ns = i128::from(round_start_ns) - i128::from(media_ns / ROUND_NS * ROUND_NS);
        self.anchor = Some(Anchor { epoch_ns, media_ns, asked_until_ns: [None; 3] });
    }

    /// Notes that `ask` is being answered.
    pub(crate) fn asked(&mut self, ask: &Ask) {
        if let Some(anchor) = &mut self.anchor {
            let until_ns = &mut anchor.asked_until_ns[slot(ask.strand)];
            *until_ns = Some(until_ns.unwrap_or(0).max(ask.until_ns));
        }
    }

    /// When bytes of this media time must be in memory.
    pub(crate) fn due_ns(&self, media_ns: u64, now_ns: u64) -> u64 {
        let Some(anchor) = &self.anchor else { return now_ns };
        let due_ns = anchor.epoch_ns + i128::from(media_ns) - i128::from(SEND_LEAD_NS);
        u64::try_from(due_ns.max(i128::from(now_ns))).unwrap_or(u64::MAX)
    }

    /// When the client will have shown all it asked for. It has nothing left then and asks, unless it is paused or gone.
    pub(crate) fn dry_ns(&self) -> Option<u64> {
        let anchor = self.anchor.as_ref()?;
        let [pictures, sound, _] = anchor.asked_until_ns;
        let until_ns = match (pictures, sound) {
            (Some(pictures), Some(sound)) => pictures.min(sound),
            (one, other) => one.or(other).unwrap_or(anchor.media_ns),
        };
        Some(u64::try_from(anchor.epoch_ns + i128::from(until_ns)).unwrap_or(u64::MAX))
    }

    /// The media time shown now, if the client plays.
    pub(crate) fn position_ns(&self, now_ns: u64) -> u64 {
        let Some(anchor) = &self.anchor else { return 0 };
        u64::try_from((i128::from(now_ns) - anchor.epoch_ns).max(0)).unwrap_or(u64::MAX)
    }
}

fn slot(strand: Strand) -> usize {
    match strand {
        Strand::Picture => 0,
        Strand::Sound => 1,
        Strand::Text => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    /// A clock that is not at the border of a round.
    const NOW_NS: u64 = 1_000 * SECOND_NS + SECOND_NS / 2;

    fn segment(number: u64) -> Ask {
        let from_ns = number * 4 * SECOND_NS;
        Ask { strand: Strand::Picture, from_ns, until_ns: from_ns + 4 * SECOND_NS }
    }

    /// Asks for segments one after another, at once.
    fn playing(first: u64, count: u64) -> Schedule {
        let mut schedule = Schedule::default();
        for number in first..first + count {
            if let Place::Moved { media_ns } = schedule.place(&segment(number), NOW_NS) {
                assert_eq!(number, first, "what goes on does not move");
                schedule.anchor(media_ns, NOW_NS);
            }
            schedule.asked(&segment(number));
        }
        schedule
    }

    #[test]
    fn a_client_may_run_ahead_and_its_bytes_stay_due_where_they_were() {
        let schedule = playing(0, 10);
        let due_ns = schedule.due_ns(segment(9).from_ns, NOW_NS);
        assert_eq!(due_ns, 1_000 * SECOND_NS + 36 * SECOND_NS - SEND_LEAD_NS);
        assert_eq!(schedule.dry_ns(), Some(1_040 * SECOND_NS));
    }

    #[test]
    fn nothing_is_due_in_the_past() {
        assert_eq!(playing(0, 1).due_ns(0, NOW_NS), NOW_NS);
    }

    #[test]
    fn a_jump_in_either_direction_is_a_seek() {
        let schedule = playing(10, 5);
        for (number, is_seek) in [(15, false), (14, false), (13, false), (16, false), (40, true), (3, true)] {
            let place = schedule.place(&segment(number), NOW_NS);
            assert_eq!(matches!(place, Place::Moved { .. }), is_seek, "segment {number}");
        }
    }

    #[test]
    fn sound_joins_pictures_wherever_they_are() {
        let schedule = playing(10, 1);
        let sound = Ask { strand: Strand::Sound, ..segment(10) };
        assert_eq!(schedule.place(&sound, NOW_NS), Place::OnSchedule);
    }

    #[test]
    fn a_client_that_was_paused_moves_the_schedule() {
        let schedule = playing(0, 2);
        let later_ns = NOW_NS + 60 * SECOND_NS;
        assert_eq!(schedule.place(&segment(2), later_ns), Place::Moved { media_ns: segment(2).from_ns });
    }

    #[test]
    fn far_into_a_film_soon_after_boot() {
        let mut schedule = Schedule::default();
        schedule.anchor(5_000 * SECOND_NS, SECOND_NS);
        assert_eq!(schedule.position_ns(SECOND_NS), 5_000 * SECOND_NS);
        assert_eq!(schedule.due_ns(5_000 * SECOND_NS, SECOND_NS), SECOND_NS);
        assert_eq!(schedule.dry_ns(), Some(SECOND_NS));
    }
}
