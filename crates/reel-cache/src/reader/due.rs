//! When the bytes of a body are due, and how urgent the next one is. Pure.

use super::step::StripePiece;
use crate::limits::READ_TIME_MIN_NS;
use crate::window::{Depth, Window};
use reel_qos::DEADLINE_NONE_NS;
use std::sync::Arc;

/// When the bytes of a body are due in memory.
#[derive(Clone, Debug)]
pub enum Due {
    /// The first window of bytes at that time, and what follows as it is shown: see [`Ramp`].
    Ramp(Ramp),
    /// So long after they are requested.
    After(u64),
    /// Each stretch of the body at its own time, for a title sent as one file.
    Paced(Pace),
}

/// How urgent it is to send what a reader has next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It is due in memory at this time, and has to be sent by then.
    Due(u64),
    /// It was due in memory soon after it was requested.
    Waited,
    /// It has no due time.
    Unhurried,
}

/// A body that is shown for a while: a segment. What a reader holds at once is due at its start.
/// What follows can be read only as that is sent, and is due as much later as it is shown later.
#[derive(Clone, Copy, Debug)]
pub struct Ramp {
    /// When its start is due.
    pub due_ns: u64,
    /// How long it is shown.
    pub duration_ns: u64,
    /// Its length.
    pub bytes: u64,
}

/// When the stretches of a body are due: those of a title at the times at which they are shown.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Where stretches begin and the media time at which they are shown, in ascending order.
    pub times: Arc<[(u64, u64)]>,
    /// Where the body begins in that list.
    pub from_offset: u64,
    /// Media time `media_ns` is due at `due_ns`.
    pub media_ns: u64,
    /// See `media_ns`.
    pub due_ns: u64,
}

impl Due {
    /// Whether the bytes are due at no fixed time.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Due::After(DEADLINE_NONE_NS))
    }

    /// How urgent the byte at `offset` is.
    pub(super) fn urgency(&self, offset: u64) -> Urgency {
        match self {
            Due::Ramp(ramp) => Urgency::Due(ramp.due_ns(offset, 0)),
            Due::Paced(pace) => Urgency::Due(pace.due_ns(offset)),
            Due::After(DEADLINE_NONE_NS) => Urgency::Unhurried,
            Due::After(_) => Urgency::Waited,
        }
    }

    /// What is held at once of a body with these due times.
    pub(super) fn window(&self, depth: Depth, piece: &StripePiece) -> Window {
        let (bytes, duration_ns) = self.shown();
        depth.window(piece.map.geometry(), piece.kind, bytes, duration_ns)
    }

    /// Most buffers that its reader holds.
    pub(super) fn buffers_max(&self, depth: Depth, piece: &StripePiece) -> u64 {
        let (bytes, duration_ns) = self.shown();
        match self {
            Due::After(_) => 0,
            Due::Ramp(_) | Due::Paced(_) => {
                depth.buffers_max(piece.map.geometry(), piece.kind, bytes, duration_ns)
            }
        }
    }

    /// Buffers that its reader was counted with when memory was promised to its viewer.
    pub(super) fn promised_buffers(&self, depth: Depth, piece: &StripePiece) -> u64 {
        let (bytes, duration_ns) = self.shown();
        match self {
            Due::After(_) => 0,
            Due::Ramp(_) | Due::Paced(_) => {
                depth.promised_buffers(piece.map.geometry(), piece.kind, bytes, duration_ns)
            }
        }
    }

    /// How many bytes are shown for how long, where that is known.
    fn shown(&self) -> (u64, u64) {
        match self {
            Due::Ramp(ramp) => (ramp.bytes, ramp.duration_ns),
            Due::After(_) | Due::Paced(_) => (0, 0),
        }
    }

    /// When bytes read at `offset` are due for a reader that holds `window_bytes` at once.
    pub(super) fn of(&self, offset: u64, window_bytes: u64, now_ns: u64) -> u64 {
        let soonest_ns = now_ns.saturating_add(READ_TIME_MIN_NS);
        match self {
            Due::Ramp(ramp) => ramp.due_ns(offset, window_bytes).max(soonest_ns),
            Due::After(after_ns) => now_ns.saturating_add(*after_ns),
            Due::Paced(pace) => pace.due_ns(offset).max(soonest_ns),
        }
    }
}

impl Ramp {
    /// When the byte at `offset` is due for a reader that holds `window_bytes` at once.
    pub(crate) fn due_ns(&self, offset: u64, window_bytes: u64) -> u64 {
        let beyond = u128::from(offset.saturating_sub(window_bytes).min(self.bytes));
        let later_ns = u128::from(self.duration_ns) * beyond / u128::from(self.bytes.max(1));
        // The cast fits: the value is at most the duration.
        self.due_ns.saturating_add(later_ns as u64)
    }
}

impl Pace {
    /// The pace of a body that begins at `from_offset` in a list of `times`, for a client that is
    /// at `at_offset` of that list now, which may be before the body. The caller sets when that
    /// offset is due.
    pub fn new(times: Arc<[(u64, u64)]>, from_offset: u64, at_offset: u64) -> Self {
        let media_ns = media_ns(&times, at_offset);
        Self { times, from_offset, media_ns, due_ns: 0 }
    }

    /// The media time at which the byte at `offset` of the body is shown.
    pub fn media_ns(&self, offset: u64) -> u64 {
        media_ns(&self.times, self.from_offset.saturating_add(offset))
    }

    fn due_ns(&self, offset: u64) -> u64 {
        let ahead_ns = self.media_ns(offset).saturating_sub(self.media_ns);
        self.due_ns.saturating_add(ahead_ns)
    }
}

/// When the stretch that has this offset is shown.
fn media_ns(times: &[(u64, u64)], offset: u64) -> u64 {
    let after = times.partition_point(|(start, _)| *start <= offset);
    after.checked_sub(1).map_or(0, |stretch| times[stretch].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_due_as_it_is_shown_from_any_offset() {
        // A second for every 100 bytes; the body begins in the third.
        let times: Arc<[(u64, u64)]> = (0..50).map(|second| (second * 100, second * 1_000_000_000)).collect();
        for at_offset in [250, 1_250, 4_050] {
            let mut pace = Pace::new(Arc::clone(&times), 250, at_offset);
            pace.due_ns = 70_000_000_000;
            let within = at_offset - 250;
            assert_eq!(pace.due_ns(within), 70_000_000_000, "the client's offset");
            assert_eq!(pace.due_ns(within + 500), 75_000_000_000, "five seconds later");
        }
        // A read that has overtaken others is due when it is shown, and its client is where it was.
        let mut pace = Pace::new(times, 750, 250);
        assert_eq!(pace.media_ns, 2_000_000_000);
        pace.due_ns = 70_000_000_000;
        assert_eq!(pace.due_ns(0), 75_000_000_000);
    }
}
