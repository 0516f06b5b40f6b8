//! The position of a viewer on the clock. Pure.
//!
//! ```text
//!   media time   0 .... t(k) ............ t(k+1)
//!   clock        epoch  epoch + t(k)
//! ```
//! Segment k must be shown at epoch + t(k), and is due in memory `SEND_LEAD_NS` before that.
//!
//! Clients request ahead of the clock as far as their buffers reach. What they request keeps its
//! position on the clock. Two kinds of requests move the epoch. A request that does not continue
//! from the one before is a seek. A request for what should have been shown by now comes from a
//! client that was paused.
//!
//! A viewer that jumps within the player's buffer causes no request at that position. The player
//! only requests sooner what follows the buffer. A buffer does not grow, so a client that requests
//! farther ahead than its buffer reaches has jumped, and the epoch moves, too. Otherwise the
//! client's bytes would be due long after the viewer wants to see them, which would stay unnoticed
//! while the disks are fast.
//!
//! A change of language or quality is not a seek. The player discards its buffer of one media kind
//! and requests that kind again from what is shown now on, while the other kind continues. The
//! viewer has jumped only if the other kind comes back as well.

use crate::fetched::Fetched;
use crate::limits::{
    BUFFER_UNSEEN_NS, JOIN_NS, JOINING_NS, LATE_STAYS_NS, LATE_TOLERATED_NS, MOVE_COST_NS, PAUSE_GRACE_NS,
    POINT_NS, REACH_TOLERATED_NS, SEND_LEAD_NS, STEADY_REQUESTS, STEADY_WITHIN_NS,
};
use reel_cache::MediaKind;
use reel_qos::limits::ROUND_NS;

/// The schedule of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    /// Set with the first request for media.
    anchor: Option<Anchor>,
    /// How far the client's buffer has been seen to reach, before and after any seek. This is the
    /// most, while `Requested` has the least since the last move.
    reach_ns: [Option<i128>; 3],
    /// The farthest that the client has ever requested ahead of what is shown. Its buffer reaches
    /// as far, although it may not have been seen full.
    farthest_ns: [i128; 3],
    /// What the client has requested in segments, also before a seek.
    fetched: [Fetched; 3],
    /// Where the tracks end that the client plays, as far as they are known.
    ends_ns: [Option<u64>; 3],
}

#[derive(Clone, Debug)]
struct Anchor {
    /// Clock time of media time 0. It is before the clock's own zero after a seek far into a title
    /// soon after boot.
    epoch_ns: i128,
    /// Where the client's requests began.
    media_ns: u64,
    /// What it requested since then: pictures, sound, text.
    requested: [Option<Requested>; 3],
    /// The media kind that came back last to what is shown.
    back: Option<Back>,
    /// The media time up to which the bytes were requested of a title that is read as one file, in
    /// pieces. It is beyond the client's position.
    read_until_ns: u64,
}

/// A media kind that was requested again from what is shown now on.
#[derive(Clone, Copy, Debug)]
struct Back {
    kind: MediaKind,
    /// Media time from which it continues.
    from_ns: u64,
    /// Clock time of the request.
    at_ns: u64,
}

/// What was requested of one media kind.
#[derive(Clone, Debug)]
struct Requested {
    until_ns: u64,
    /// Where its last request began.
    from_ns: u64,
    /// Clock time of its last request.
    at_ns: u64,
    /// How far ahead of what is shown that request was, and how many requests in a row were equally
    /// far ahead.
    ahead_ns: i128,
    steady: u32,
    /// How far ahead the client requests when its buffer is full, which is as far as the buffer
    /// reaches. The least is kept, since a short pause makes the distance look smaller.
    reach_ns: Option<i128>,
}

/// A part of a track that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSpan {
    /// Pictures, sound or text.
    pub kind: MediaKind,
    /// Media time of its start.
    pub from_ns: u64,
    /// Media time of its end.
    pub until_ns: u64,
}

/// How a request continues what its client requested before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuity {
    /// It continues from what was requested before.
    OnSchedule,
    /// It belongs to a start or a seek that another request has shown, or begins another language
    /// or quality of what is shown. Nothing moves, and the viewer waits for it.
    Joins,
    /// It continues from what was requested before, but the schedule has to move. Its client was
    /// paused, was kept waiting, or has jumped over what it had. It is read in the periodic class.
    /// In the class of the starts it would wait behind a flood of them.
    Shifts {
        /// The media time that is now.
        media_ns: u64,
    },
    /// The schedule has to move, so that this media time is now.
    Moves {
        /// The media time.
        media_ns: u64,
    },
}

impl Continuity {
    /// The media time that is now, if the schedule has to move.
    pub(crate) fn moves_to(self) -> Option<u64> {
        match self {
            Continuity::Shifts { media_ns } | Continuity::Moves { media_ns } => Some(media_ns),
            Continuity::OnSchedule | Continuity::Joins => None,
        }
    }
}

impl Schedule {
    /// The schedule of a client that shows `media_ns` now, and has requested each media kind up to
    /// these times.
    pub(crate) fn resumed(media_ns: u64, until_ns: [Option<u64>; 3], now_ns: u64) -> Schedule {
        let requested = until_ns.map(|until_ns| {
            let until_ns = until_ns?.max(media_ns);
            Some(Requested {
                until_ns,
                from_ns: until_ns,
                at_ns: now_ns,
                ahead_ns: 0,
                steady: 0,
                reach_ns: None,
            })
        });
        let epoch_ns = i128::from(now_ns) - i128::from(media_ns);
        let anchor = Anchor { epoch_ns, media_ns, requested, back: None, read_until_ns: 0 };
        Schedule { anchor: Some(anchor), ..Schedule::default() }
    }

    /// Up to which media time each media kind was requested.
    pub(crate) fn until_ns(&self) -> [Option<u64>; 3] {
        let requested = |anchor: &Anchor| {
            anchor
                .requested
                .each_ref()
                .map(|requested| requested.as_ref().map(|requested| requested.until_ns))
        };
        self.anchor.as_ref().map_or([None; 3], requested)
    }

    /// Whether anything was requested yet.
    pub(crate) fn is_started(&self) -> bool {
        self.anchor.is_some()
    }

    /// How `span` continues what was requested before.
    pub(crate) fn continuity(&self, span: &TrackSpan, now_ns: u64) -> Continuity {
        let moved = Continuity::Moves { media_ns: span.from_ns };
        let Some(anchor) = &self.anchor else { return moved };
        // If there are pictures, only they decide whether the client jumped or was paused. Sound
        // has its own pace and its own segment borders. If two media kinds moved the schedule, each
        // would make the other early or late.
        let leads = span.kind == MediaKind::Video || anchor.requested[MediaKind::Video.index()].is_none();
        let ahead_ns = anchor.ahead_ns(span, now_ns);
        let Some(before) = &anchor.requested[span.kind.index()] else {
            // Sound and pictures of one position do not begin at the same time.
            let is_near = span.from_ns.abs_diff(anchor.media_ns) <= JOIN_NS;
            let is_due = ahead_ns <= i128::from(SEND_LEAD_NS + ROUND_NS);
            return match is_near && !anchor.begins_before(span) && ahead_ns + i128::from(JOIN_NS) >= 0 {
                false => moved,
                true if anchor.is_new(now_ns) && !span.is_point() && is_due => Continuity::Joins,
                true => Continuity::OnSchedule,
            };
        };
        let reach_ns = before.reach_ns.or(self.reach_ns[span.kind.index()]);
        let is_late = ahead_ns + i128::from(LATE_TOLERATED_NS) < 0;
        match anchor.continues(before, span) {
            false if self.comes_back(anchor, before, span, now_ns) => match anchor.jumps_back(span, now_ns) {
                Some(media_ns) => Continuity::Shifts { media_ns },
                None => Continuity::Joins,
            },
            false => moved,
            true if leads && (is_late || is_beyond(reach_ns, ahead_ns)) => {
                Continuity::Shifts { media_ns: span.from_ns }
            }
            true => Continuity::OnSchedule,
        }
    }

    /// Media time of `span`, which continues in this way, that is beyond what was
    /// promised. The promise is the title once and at its pace. What was requested before is beyond
    /// it, and so is what moves the schedule.
    pub(crate) fn beyond_ns(&self, span: &TrackSpan, continuity: Continuity) -> u64 {
        let Some(anchor) = &self.anchor else { return 0 };
        match continuity {
            Continuity::Moves { .. } => MOVE_COST_NS,
            // It is due at once, and is read in the class of what was promised.
            Continuity::Shifts { .. } => span.length_ns().max(MOVE_COST_NS),
            Continuity::OnSchedule | Continuity::Joins => {
                let requested = anchor.requested[span.kind.index()].as_ref();
                let until_ns = requested.map_or(0, |requested| requested.until_ns);
                match span.kind {
                    // A client that goes back reads that part again, and from then on in order.
                    _ if span.is_point() => {
                        requested.map_or(0, |requested| requested.from_ns).saturating_sub(span.from_ns)
                    }
                    _ if span.until_ns > until_ns => 0,
                    // All subtitles of another language are some kilobytes.
                    MediaKind::Text => MOVE_COST_NS,
                    MediaKind::Video | MediaKind::Audio => span.length_ns(),
                }
            }
        }
    }

    /// Whether `span` could also continue from what was requested before, although it comes earlier
    /// than the client's buffer seemed to reach, or later than it would be shown. Also whether it
    /// comes back to what is shown.
    pub(crate) fn may_stay(&self, span: &TrackSpan, now_ns: u64) -> bool {
        let Some(anchor) = &self.anchor else { return false };
        let before = anchor.requested[span.kind.index()].as_ref();
        let is_near = anchor.ahead_ns(span, now_ns) + i128::from(LATE_STAYS_NS) >= 0;
        is_near
            && before.is_some_and(|before| {
                anchor.continues(before, span) || self.comes_back(anchor, before, span, now_ns)
            })
    }

    /// Whether a media kind is requested again from what is shown now on, or from a later position,
    /// up to where it was requested before. A player continues with what it has until it can show
    /// something in its place. A player that has jumped ahead while the server was at capacity is
    /// ahead of its schedule. A client that plays only one media kind has jumped.
    fn comes_back(&self, anchor: &Anchor, before: &Requested, span: &TrackSpan, now_ns: u64) -> bool {
        let other = match span.kind {
            MediaKind::Video => MediaKind::Audio,
            MediaKind::Audio => MediaKind::Video,
            MediaKind::Text => return false,
        };
        let Some(other) = &anchor.requested[other.index()] else { return false };
        let (shown_ns, tolerated_ns) = (i128::from(now_ns) - anchor.epoch_ns, i128::from(LATE_TOLERATED_NS));
        let by_schedule_ns = shown_ns - self.behind_ns(anchor, span.length_ns(), now_ns);
        let by_buffer_ns = i128::from(other.until_ns) - i128::from(BUFFER_UNSEEN_NS);
        let is_shown = i128::from(span.until_ns) + tolerated_ns > by_schedule_ns.min(by_buffer_ns);
        !span.is_point() && span.from_ns < before.until_ns && is_shown
    }

    /// The most by which the client can be behind the schedule. A client that was paused for less
    /// time than its buffer reaches has nothing late, so the schedule did not move. At the last
    /// request for a media kind, the delay was the difference between its distance ahead and the
    /// farthest distance ever. Since then, the delay has grown by the time the client was silent,
    /// less one segment. Each media kind gives such a bound. The kind that is requested at its own
    /// pace gives the smaller and better one.
    fn behind_ns(&self, anchor: &Anchor, segment_ns: u64, now_ns: u64) -> i128 {
        let of_kind = |kind: MediaKind| {
            let requested = anchor.requested[kind.index()].as_ref()?;
            let silent_ns = now_ns.saturating_sub(requested.at_ns).saturating_sub(segment_ns);
            Some((self.farthest_ns[kind.index()] - requested.ahead_ns).max(0) + i128::from(silent_ns))
        };
        [MediaKind::Video, MediaKind::Audio].into_iter().filter_map(of_kind).min().unwrap_or(0)
    }

    /// Makes `media_ns` be now. The current round counts as a whole, so that nothing is due later
    /// than its viewer needs it.
    pub(crate) fn anchor(&mut self, media_ns: u64, now_ns: u64) {
        let round_start_ns = now_ns / ROUND_NS * ROUND_NS;
        let epoch_ns = i128::from(round_start_ns) - i128::from(media_ns / ROUND_NS * ROUND_NS);
        // Sound may have been requested a moment ago in the same seek. If it reaches beyond the
        // beginning of the pictures, it continues from there.
        let same_seek = self.anchor.take().filter(|before| before.is_new(now_ns));
        let sound = same_seek.and_then(|before| before.requested[MediaKind::Audio.index()].clone());
        let sound =
            sound.filter(|sound| (media_ns..=media_ns.saturating_add(JOIN_NS)).contains(&sound.until_ns));
        let mut requested = [const { None }; 3];
        requested[MediaKind::Audio.index()] =
            sound.map(|sound| Requested { ahead_ns: 0, steady: 0, reach_ns: None, ..sound });
        self.anchor = Some(Anchor { epoch_ns, media_ns, requested, back: None, read_until_ns: 0 });
    }

    /// Makes `media_ns` be now, for a client that continues from what it requested before. All
    /// media kinds continue from their own positions.
    pub(crate) fn shift(&mut self, media_ns: u64, now_ns: u64) {
        let before = self.anchor.take();
        self.anchor(media_ns, now_ns);
        if let (Some(before), Some(anchor)) = (before, &mut self.anchor) {
            let continues =
                |requested: Requested| Requested { ahead_ns: 0, steady: 0, reach_ns: None, ..requested };
            anchor.requested = before.requested.map(|requested| requested.map(continues));
            anchor.read_until_ns = before.read_until_ns;
        }
    }

    /// Notes that `span` is being answered.
    pub(crate) fn requested(&mut self, span: &TrackSpan, now_ns: u64) {
        let Some(anchor) = &mut self.anchor else { return };
        let ahead_ns = anchor.ahead_ns(span, now_ns);
        let read_until_ns = if span.is_point() { anchor.read_until_ns } else { 0 };
        let begins =
            || Requested { until_ns: 0, from_ns: 0, at_ns: now_ns, ahead_ns, steady: 0, reach_ns: None };
        let requested = anchor.requested[span.kind.index()].get_or_insert_with(begins);
        let was_read = (requested.until_ns..=read_until_ns).contains(&span.from_ns);
        let follows = requested.continues_with(span) || was_read;
        let is_new = requested.until_ns == 0;
        if !is_new && !follows {
            *requested = begins();
            anchor.back = Some(Back { kind: span.kind, from_ns: span.from_ns, at_ns: now_ns });
        }
        requested.note(span, ahead_ns, now_ns);
        if !span.is_point() {
            let farthest_ns = &mut self.farthest_ns[span.kind.index()];
            *farthest_ns = ahead_ns.max(*farthest_ns);
        }
        let reach_ns = &mut self.reach_ns[span.kind.index()];
        *reach_ns = (*reach_ns).max(requested.reach_ns);
        self.fetched(span, follows && !is_new);
    }

    /// Notes that the client will have this, whether or not it was promised. `follows` says whether
    /// it continues what was requested before.
    pub(crate) fn fetched(&mut self, span: &TrackSpan, follows: bool) {
        if !span.is_point() {
            self.fetched[span.kind.index()].requested(span, follows);
        }
    }

    /// Notes that the bytes up to this media time are being read, beyond the client's position.
    pub(crate) fn reads_until(&mut self, media_ns: u64) {
        if let Some(anchor) = &mut self.anchor {
            anchor.read_until_ns = anchor.read_until_ns.max(media_ns);
        }
    }

    /// For how long the client may be silent after it would have shown all it requested, if it had
    /// nothing ahead when its schedule began. A client that reads a file in pieces has: what its
    /// kernel and its player hold is more or less media time as the rate of the file changes.
    pub(crate) fn grace_ns(&self) -> u64 {
        let reads = self.anchor.as_ref().is_some_and(|anchor| anchor.read_until_ns > 0);
        if reads { BUFFER_UNSEEN_NS } else { PAUSE_GRACE_NS }
    }

    /// Notes where the track of a media kind ends.
    pub(crate) fn ends(&mut self, kind: MediaKind, end_ns: u64) {
        self.ends_ns[kind.index()] = Some(end_ns);
    }

    /// Whether the client has requested all pictures and all sound from where it began to the end.
    /// After a jump, what it has played before belongs to that: it requests one of the two first.
    pub(crate) fn is_complete(&self) -> bool {
        let Some(anchor) = &self.anchor else { return false };
        let is_complete = |kind: MediaKind| {
            let requested = anchor.requested[kind.index()].as_ref();
            let Some(end_ns) = self.ends_ns[kind.index()] else { return requested.is_none() };
            requested.is_some_and(|requested| requested.until_ns >= end_ns)
                || self.fetched[kind.index()].covers(anchor.media_ns, end_ns)
        };
        let kinds = [MediaKind::Video, MediaKind::Audio];
        kinds.iter().any(|kind| self.ends_ns[kind.index()].is_some()) && kinds.into_iter().all(is_complete)
    }

    /// When bytes of this media time must be in memory.
    pub(crate) fn due_ns(&self, media_ns: u64, now_ns: u64) -> u64 {
        let Some(anchor) = &self.anchor else { return now_ns };
        let due_ns = anchor.epoch_ns + i128::from(media_ns) - i128::from(SEND_LEAD_NS);
        u64::try_from(due_ns.max(i128::from(now_ns))).unwrap_or(u64::MAX)
    }

    /// When the client will have shown all it requested. It has nothing left at that time and sends
    /// a request, unless it is paused or gone.
    pub(crate) fn dry_ns(&self) -> Option<u64> {
        let anchor = self.anchor.as_ref()?;
        Some(u64::try_from(anchor.epoch_ns + i128::from(anchor.until_ns())).unwrap_or(u64::MAX))
    }

    /// The media time shown now, if the client plays.
    pub(crate) fn position_ns(&self, now_ns: u64) -> u64 {
        let Some(anchor) = &self.anchor else { return 0 };
        u64::try_from((i128::from(now_ns) - anchor.epoch_ns).max(0)).unwrap_or(u64::MAX)
    }

    /// The same for a client that may be paused or gone: it shows nothing beyond what it has
    /// requested.
    pub(crate) fn shown_ns(&self, now_ns: u64) -> u64 {
        self.position_ns(now_ns).min(self.anchor.as_ref().map_or(0, Anchor::until_ns))
    }
}

impl Anchor {
    /// Whether a request follows the last one of its media kind. What was read of a file in pieces
    /// ends where its client continues.
    fn continues(&self, before: &Requested, span: &TrackSpan) -> bool {
        let was_read = (before.until_ns..=self.read_until_ns).contains(&span.from_ns);
        before.continues_with(span) || span.is_point() && was_read
    }

    /// Where what was requested ends.
    fn until_ns(&self) -> u64 {
        let [pictures, sound, _] =
            self.requested.each_ref().map(|requested| requested.as_ref().map(|requested| requested.until_ns));
        let until_ns = match (pictures, sound) {
            // A client that takes only one of the two from here on still plays.
            (Some(pictures), Some(sound)) => pictures.max(sound),
            (one, other) => one.or(other).unwrap_or(self.media_ns),
        };
        until_ns.max(self.read_until_ns)
    }

    /// Whether the schedule was put where sound begins, in an earlier round than the pictures that
    /// are requested now. A client seeks to a time that both segments hold, so the schedule belongs
    /// where the later one begins.
    fn begins_before(&self, span: &TrackSpan) -> bool {
        span.kind == MediaKind::Video && span.from_ns / ROUND_NS > self.media_ns / ROUND_NS
    }

    /// Whether a start or a seek is so recent that its client may still have nothing to show.
    fn is_new(&self, now_ns: u64) -> bool {
        i128::from(now_ns) - self.epoch_ns - i128::from(self.media_ns) <= i128::from(JOINING_NS)
    }

    /// The media time of the pictures from now on, if the other media kind came back a moment ago.
    /// Then the viewer has not changed the language but jumped, with a player that discards its
    /// whole buffer.
    fn jumps_back(&self, span: &TrackSpan, now_ns: u64) -> Option<u64> {
        let other = self.back.filter(|back| back.kind != span.kind)?;
        let is_picture = span.kind == MediaKind::Video;
        (now_ns.saturating_sub(other.at_ns) <= JOINING_NS).then_some(if is_picture {
            span.from_ns
        } else {
            other.from_ns
        })
    }

    /// The time from now until `span` would be shown; negative if `span` is late.
    fn ahead_ns(&self, span: &TrackSpan, now_ns: u64) -> i128 {
        self.epoch_ns + i128::from(span.from_ns) - i128::from(now_ns)
    }
}

impl Requested {
    /// Whether a request follows the last one, repeats it, or overtook one that was sent together
    /// with it.
    fn continues_with(&self, span: &TrackSpan) -> bool {
        let length_ns = if span.is_point() { POINT_NS } else { span.length_ns() };
        span.from_ns <= self.until_ns.saturating_add(length_ns)
            && span.from_ns.saturating_add(2 * length_ns) >= self.until_ns
    }

    fn note(&mut self, span: &TrackSpan, ahead_ns: i128, now_ns: u64) {
        self.at_ns = now_ns;
        let same = (ahead_ns - self.ahead_ns).abs() <= i128::from(STEADY_WITHIN_NS);
        self.steady = if same { self.steady + 1 } else { 1 };
        self.ahead_ns = ahead_ns;
        // For a title that is sent as one file, the position also includes what fits into sockets.
        if self.steady >= STEADY_REQUESTS && !span.is_point() {
            self.reach_ns = Some(self.reach_ns.unwrap_or(ahead_ns).min(ahead_ns));
        }
        self.until_ns = self.until_ns.max(span.until_ns);
        self.from_ns = span.from_ns;
    }
}

impl TrackSpan {
    /// How long it is shown.
    pub fn length_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }

    /// Whether it is no segment but a position in a title that is sent as one file.
    pub(crate) fn is_point(&self) -> bool {
        self.length_ns() == 0
    }
}

fn is_beyond(reach_ns: Option<i128>, ahead_ns: i128) -> bool {
    reach_ns.is_some_and(|reach_ns| ahead_ns > reach_ns + i128::from(REACH_TOLERATED_NS))
}

#[cfg(test)]
mod pieces;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    /// A clock that is not at the border of a round.
    const NOW_NS: u64 = 1_000 * SECOND_NS + SECOND_NS / 2;

    fn segment(number: u64) -> TrackSpan {
        let from_ns = number * 4 * SECOND_NS;
        TrackSpan { kind: MediaKind::Video, from_ns, until_ns: from_ns + 4 * SECOND_NS }
    }

    /// Requests segments one after another, at once.
    fn playing(first: u64, count: u64) -> Schedule {
        let mut schedule = Schedule::default();
        for number in first..first + count {
            if let Continuity::Moves { media_ns } = schedule.continuity(&segment(number), NOW_NS) {
                assert_eq!(number, first, "a continuing request does not move the schedule");
                schedule.anchor(media_ns, NOW_NS);
            }
            schedule.requested(&segment(number), NOW_NS);
        }
        schedule
    }

    #[test]
    fn a_client_that_requests_ahead_does_not_move_its_deadlines() {
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
        // 15 follows, 14 is requested again, 13 and 16 may have overtaken each other on the
        // network.
        let places = [
            (15, false),
            (14, false),
            (13, false),
            (16, false),
            (17, true),
            (12, true),
            (40, true),
            (3, true),
        ];
        for (number, is_seek) in places {
            let continuity = schedule.continuity(&segment(number), NOW_NS);
            assert_eq!(matches!(continuity, Continuity::Moves { .. }), is_seek, "segment {number}");
        }
    }

    /// A client whose buffer of 20 s is full requests one segment after another as it shows them.
    fn steady(segments: std::ops::Range<u64>, schedule: &mut Schedule, shown_first_ns: u64) -> u64 {
        let mut now_ns = shown_first_ns;
        for number in segments {
            assert_eq!(
                schedule.continuity(&segment(number), now_ns),
                Continuity::OnSchedule,
                "segment {number}"
            );
            schedule.requested(&segment(number), now_ns);
            now_ns += 4 * SECOND_NS;
        }
        now_ns
    }

    #[test]
    fn a_jump_within_the_buffer_shows_in_earlier_requests() {
        let mut schedule = playing(0, 5);
        let now_ns = steady(5..12, &mut schedule, NOW_NS);
        // Ten seconds are jumped over, so there is room for two and a half segments.
        assert_eq!(
            schedule.continuity(&segment(12), now_ns - SECOND_NS),
            Continuity::OnSchedule,
            "a bit of jitter"
        );
        let jumped_ns = now_ns - 3 * SECOND_NS;
        let Continuity::Shifts { media_ns } = schedule.continuity(&segment(12), jumped_ns) else {
            panic!("it stayed")
        };
        assert_eq!(media_ns, segment(12).from_ns);
        schedule.shift(media_ns, jumped_ns);
        assert_eq!(schedule.due_ns(media_ns, jumped_ns), jumped_ns);
        // The buffer fills again, which is no jump.
        for number in 12..17 {
            assert_eq!(schedule.continuity(&segment(number), jumped_ns).moves_to(), None, "segment {number}");
            schedule.requested(&segment(number), jumped_ns);
        }
    }

    #[test]
    fn a_buffer_reaches_as_far_after_a_seek_as_before_it() {
        let mut schedule = playing(0, 5);
        let now_ns = steady(5..9, &mut schedule, NOW_NS);
        let Continuity::Moves { media_ns } = schedule.continuity(&segment(100), now_ns) else {
            panic!("it stayed")
        };
        schedule.anchor(media_ns, now_ns);
        for number in 100..106 {
            assert_eq!(schedule.continuity(&segment(number), now_ns).moves_to(), None, "segment {number}");
            schedule.requested(&segment(number), now_ns);
        }
        // Ten seconds are jumped over before the client has requested anything at its own pace.
        assert!(matches!(schedule.continuity(&segment(106), now_ns), Continuity::Shifts { .. }));
    }

    #[test]
    fn a_title_in_one_file_is_requested_in_uneven_steps() {
        let point = |second| TrackSpan {
            until_ns: second * SECOND_NS,
            from_ns: second * SECOND_NS,
            kind: MediaKind::Video,
        };
        let mut schedule = Schedule::default();
        schedule.anchor(0, NOW_NS);
        for (after, second) in [(0, 0), (1, 6), (2, 7), (3, 8), (4, 16), (5, 24), (6, 20)] {
            assert_eq!(
                schedule.continuity(&point(second), NOW_NS + after * SECOND_NS),
                Continuity::OnSchedule,
                "{second}"
            );
            schedule.requested(&point(second), NOW_NS + after * SECOND_NS);
        }
        assert!(matches!(schedule.continuity(&point(40), NOW_NS + 7 * SECOND_NS), Continuity::Moves { .. }));
    }

    #[test]
    fn a_short_pause_is_no_jump_and_hides_none() {
        let mut schedule = playing(0, 5);
        let now_ns = steady(5..9, &mut schedule, NOW_NS);
        let now_ns = steady(9..13, &mut schedule, now_ns + 6 * SECOND_NS);
        let jumped_ns = now_ns - 3 * SECOND_NS;
        assert!(matches!(schedule.continuity(&segment(13), jumped_ns), Continuity::Shifts { .. }));
    }

    #[test]
    fn a_link_that_recovers_is_no_jump() {
        let mut schedule = playing(0, 1);
        let mut now_ns = NOW_NS;
        for (number, took_ms) in
            (1..20).zip([3000, 4500, 3400, 4900, 2800, 2000, 1000, 300].into_iter().cycle())
        {
            now_ns += took_ms * 1_000_000;
            assert_eq!(
                schedule.continuity(&segment(number), now_ns),
                Continuity::OnSchedule,
                "segment {number}"
            );
            schedule.requested(&segment(number), now_ns);
        }
    }

    #[test]
    fn sound_joins_pictures_at_any_position() {
        let schedule = playing(10, 1);
        let sound = TrackSpan { kind: MediaKind::Audio, ..segment(10) };
        assert_eq!(schedule.continuity(&sound, NOW_NS), Continuity::Joins);
    }

    fn sound(number: u64) -> TrackSpan {
        let from_ns = number * 6 * SECOND_NS;
        TrackSpan { kind: MediaKind::Audio, from_ns, until_ns: from_ns + 6 * SECOND_NS }
    }

    #[test]
    fn a_seek_is_put_where_the_pictures_begin_whichever_media_kind_comes_first() {
        // The segments begin at 1338 s and at 1340 s; 1340 s is what is shown.
        for sound_first in [true, false] {
            let mut schedule = Schedule::default();
            let asks = if sound_first { [sound(223), segment(335)] } else { [segment(335), sound(223)] };
            for span in asks {
                match schedule.continuity(&span, NOW_NS) {
                    Continuity::Moves { media_ns } => schedule.anchor(media_ns, NOW_NS),
                    continuity => assert_eq!((continuity, span.kind), (Continuity::Joins, MediaKind::Audio)),
                }
                schedule.requested(&span, NOW_NS);
            }
            let due_ns = NOW_NS / ROUND_NS * ROUND_NS + 3 * SECOND_NS;
            assert_eq!(schedule.due_ns(segment(336).from_ns, NOW_NS), due_ns, "sound first: {sound_first}");
            // It comes when the first segment of sound is there, and the viewer does not wait for
            // it.
            assert_eq!(schedule.continuity(&sound(224), NOW_NS + 2 * SECOND_NS), Continuity::OnSchedule);
            assert_eq!(schedule.continuity(&sound(224), NOW_NS), Continuity::OnSchedule);
        }
    }

    #[test]
    fn sound_beside_pictures_is_neither_early_nor_late() {
        let mut schedule = playing(0, 5);
        let now_ns = steady(5..12, &mut schedule, NOW_NS);
        for number in 0..4 {
            schedule.requested(&sound(number), NOW_NS + number * 6 * SECOND_NS);
        }
        // Far ahead of its own pace, and then far behind after its pictures have continued.
        for at_ns in [NOW_NS + 6 * SECOND_NS, now_ns + 30 * SECOND_NS] {
            assert_eq!(schedule.continuity(&sound(4), at_ns), Continuity::OnSchedule);
        }
        assert!(
            matches!(schedule.continuity(&sound(40), now_ns), Continuity::Moves { .. }),
            "a seek is seen in any media kind"
        );
    }

    #[test]
    fn sound_continues_at_its_position_when_pictures_shift_the_schedule() {
        let mut schedule = playing(0, 5);
        let now_ns = steady(5..12, &mut schedule, NOW_NS);
        // Sound has got far ahead of the pictures, as in players whose connections recover.
        (0..12).for_each(|number| schedule.requested(&sound(number), now_ns));
        let jumped_ns = now_ns - 3 * SECOND_NS;
        let Continuity::Shifts { media_ns } = schedule.continuity(&segment(12), jumped_ns) else {
            panic!("it stayed")
        };
        schedule.shift(media_ns, jumped_ns);
        schedule.requested(&segment(12), jumped_ns);
        let later_ns = jumped_ns + 2 * SECOND_NS;
        assert_eq!(schedule.continuity(&sound(12), later_ns), Continuity::OnSchedule);
        schedule.requested(&sound(12), later_ns);
        assert_eq!(schedule.continuity(&segment(13), later_ns), Continuity::OnSchedule);
        assert_eq!(schedule.due_ns(media_ns, jumped_ns), jumped_ns);
    }

    /// Pictures and sound in segments of 4 s, requested as far as 28 s ahead until 72 s, and the
    /// clock when 43.5 s are shown.
    fn with_full_buffers() -> (Schedule, u64) {
        let mut schedule = playing(0, 1);
        for number in 0..18_u64 {
            let now_ns = NOW_NS + number.saturating_sub(7) * 4 * SECOND_NS;
            for span in [segment(number), TrackSpan { kind: MediaKind::Audio, ..segment(number) }] {
                assert_eq!(schedule.continuity(&span, now_ns).moves_to(), None);
                schedule.requested(&span, now_ns);
            }
        }
        (schedule, NOW_NS + 43 * SECOND_NS)
    }

    #[test]
    fn another_language_or_quality_of_what_is_shown_moves_nothing() {
        for kind in [MediaKind::Audio, MediaKind::Video] {
            let (mut schedule, now_ns) = with_full_buffers();
            let due_ns = schedule.due_ns(72 * SECOND_NS, now_ns);
            let again = |number| TrackSpan { kind, ..segment(number) };
            assert_eq!(schedule.continuity(&again(10), now_ns), Continuity::Joins, "the viewer waits for it");
            schedule.requested(&again(10), now_ns);
            for number in 11..18 {
                assert_eq!(schedule.continuity(&again(number), now_ns), Continuity::OnSchedule, "{number}");
                schedule.requested(&again(number), now_ns);
            }
            for kind in [MediaKind::Audio, MediaKind::Video] {
                let next = TrackSpan { kind, ..segment(18) };
                assert_eq!(schedule.continuity(&next, now_ns), Continuity::OnSchedule);
            }
            assert_eq!(schedule.due_ns(72 * SECOND_NS, now_ns), due_ns);
        }
    }

    /// Both media kinds continue with this segment.
    fn both(schedule: &mut Schedule, number: u64, now_ns: u64) {
        for span in [segment(number), TrackSpan { kind: MediaKind::Audio, ..segment(number) }] {
            assert_eq!(schedule.continuity(&span, now_ns), Continuity::OnSchedule, "{number}");
            schedule.requested(&span, now_ns);
        }
    }

    /// As [`with_full_buffers`], and then at the client's own pace until 96 s were requested and
    /// 67.5 s are shown.
    fn at_its_own_pace() -> (Schedule, u64) {
        let (mut schedule, mut now_ns) = with_full_buffers();
        for number in 18..24 {
            both(&mut schedule, number, now_ns);
            now_ns += 4 * SECOND_NS;
        }
        (schedule, now_ns)
    }

    #[test]
    fn a_client_paused_for_less_than_its_buffer_changes_the_language_in_place() {
        let again = TrackSpan { kind: MediaKind::Audio, ..segment(17) };
        let (mut schedule, now_ns) = at_its_own_pace();
        // The client has 28 s in its buffer and was paused for 24 s. At 92 s of its schedule it
        // shows 68 s, and has requested nothing yet.
        let now_ns = now_ns + 24 * SECOND_NS;
        assert_eq!(schedule.continuity(&again, now_ns), Continuity::Joins);
        // The same after a request for pictures, and after requests for both kinds.
        let pictures = segment(24);
        assert_eq!(schedule.continuity(&pictures, now_ns), Continuity::OnSchedule);
        schedule.requested(&pictures, now_ns);
        assert_eq!(schedule.continuity(&again, now_ns), Continuity::Joins);
        let sound = TrackSpan { kind: MediaKind::Audio, ..segment(24) };
        schedule.requested(&sound, now_ns);
        assert_eq!(schedule.continuity(&again, now_ns), Continuity::Joins);
        assert!(matches!(
            schedule.continuity(&TrackSpan { kind: MediaKind::Audio, ..segment(15) }, now_ns),
            Continuity::Moves { .. }
        ));
    }

    #[test]
    fn a_client_paused_at_its_start_changes_the_language_in_place() {
        let mut schedule = playing(0, 3);
        (0..3).for_each(|number| {
            schedule.requested(&TrackSpan { kind: MediaKind::Audio, ..segment(number) }, NOW_NS)
        });
        // The client had 8 s in its buffer when it had shown 4 s, and was paused for 7 s. It has
        // requested at its own pace only since then.
        for number in 3..11 {
            let now_ns = NOW_NS + (number * 4 - 1) * SECOND_NS;
            for kind in [MediaKind::Video, MediaKind::Audio] {
                let span = TrackSpan { kind, ..segment(number) };
                assert_eq!(schedule.continuity(&span, now_ns), Continuity::OnSchedule, "{number}");
                schedule.requested(&span, now_ns);
            }
        }
        // At 43 s of its schedule the client shows 36 s.
        let again = TrackSpan { kind: MediaKind::Audio, ..segment(8) };
        assert_eq!(schedule.continuity(&again, NOW_NS + 43 * SECOND_NS), Continuity::Joins);
    }

    #[test]
    fn a_client_paused_before_its_buffer_was_full_and_again_for_longer_changes_the_language_in_place() {
        let mut schedule = playing(0, 3);
        (0..3).for_each(|number| {
            schedule.requested(&TrackSpan { kind: MediaKind::Audio, ..segment(number) }, NOW_NS)
        });
        let mut now_ns = NOW_NS + 8 * SECOND_NS;
        for number in 3..10 {
            both(&mut schedule, number, now_ns);
            now_ns += 4 * SECOND_NS;
        }
        // The client's buffer holds 12 s, of which the schedule saw 8 s. It was paused for longer
        // than both.
        now_ns += 13 * SECOND_NS;
        let Continuity::Shifts { media_ns } = schedule.continuity(&segment(10), now_ns) else {
            panic!("it stayed")
        };
        schedule.shift(media_ns, now_ns);
        schedule.requested(&segment(10), now_ns);
        let again = TrackSpan { kind: MediaKind::Audio, ..segment(7) };
        assert_eq!(
            schedule.continuity(&again, now_ns),
            Continuity::Joins,
            "28 s are shown, and 40 by the schedule"
        );
    }

    #[test]
    fn a_client_that_has_jumped_ahead_at_capacity_changes_the_language_in_place() {
        let (mut schedule, now_ns) = at_its_own_pace();
        // The client has jumped from 67.5 s to 84 s, within its buffer, and fills the buffer again.
        // What cannot be promised sooner stays where it was.
        for number in 24..28 {
            if number > 24 {
                assert!(matches!(schedule.continuity(&segment(number), now_ns), Continuity::Shifts { .. }));
            }
            for span in [segment(number), TrackSpan { kind: MediaKind::Audio, ..segment(number) }] {
                schedule.requested(&span, now_ns);
            }
        }
        let again = TrackSpan { kind: MediaKind::Audio, ..segment(21) };
        assert_eq!(schedule.continuity(&again, now_ns), Continuity::Joins);
    }

    #[test]
    fn both_media_kinds_come_back_only_after_a_jump() {
        for [first, second] in [[MediaKind::Audio, MediaKind::Video], [MediaKind::Video, MediaKind::Audio]] {
            let (mut schedule, now_ns) = with_full_buffers();
            let of = |kind, number| TrackSpan { kind, ..segment(number) };
            assert_eq!(schedule.continuity(&of(first, 12), now_ns), Continuity::Joins);
            schedule.requested(&of(first, 12), now_ns);
            let continuity = schedule.continuity(&of(second, 12), now_ns);
            assert_eq!(continuity, Continuity::Shifts { media_ns: segment(12).from_ns });
            assert!(schedule.may_stay(&of(second, 12), now_ns), "at capacity it may stay");
            schedule.shift(segment(12).from_ns, now_ns);
            schedule.requested(&of(second, 12), now_ns);
            assert_eq!(schedule.due_ns(segment(12).from_ns, now_ns), now_ns);
            for kind in [first, second] {
                assert_eq!(schedule.continuity(&of(kind, 13), now_ns), Continuity::OnSchedule);
            }
        }
    }

    #[test]
    fn a_jump_far_back_or_ahead_of_what_is_shown_is_a_seek_in_either_media_kind() {
        let (schedule, now_ns) = at_its_own_pace();
        for (kind, number) in [(MediaKind::Audio, 14), (MediaKind::Video, 14), (MediaKind::Audio, 36)] {
            let span = TrackSpan { kind, ..segment(number) };
            assert_eq!(schedule.continuity(&span, now_ns), Continuity::Moves { media_ns: span.from_ns });
        }
    }

    #[test]
    fn a_client_that_continues_with_one_media_kind_has_not_run_dry() {
        let mut schedule = playing(0, 1);
        schedule.requested(&sound(0), NOW_NS);
        (1..20).for_each(|number| schedule.requested(&segment(number), NOW_NS));
        assert_eq!(schedule.dry_ns(), Some(1_080 * SECOND_NS));
    }

    #[test]
    fn a_client_that_was_paused_moves_the_schedule() {
        let schedule = playing(0, 2);
        let later_ns = NOW_NS + 60 * SECOND_NS;
        assert_eq!(
            schedule.continuity(&segment(2), later_ns),
            Continuity::Shifts { media_ns: segment(2).from_ns }
        );
    }

    #[test]
    fn a_client_that_is_paused_shows_no_more_than_it_has() {
        let schedule = playing(10, 2);
        assert_eq!(Schedule::default().shown_ns(NOW_NS), 0);
        assert_eq!(schedule.shown_ns(NOW_NS + 3 * SECOND_NS), 43 * SECOND_NS + SECOND_NS / 2);
        assert_eq!(schedule.shown_ns(NOW_NS + 3_600 * SECOND_NS), 48 * SECOND_NS);
    }

    #[test]
    fn a_seek_far_into_a_title_soon_after_boot_works() {
        let mut schedule = Schedule::default();
        schedule.anchor(5_000 * SECOND_NS, SECOND_NS);
        assert_eq!(schedule.position_ns(SECOND_NS), 5_000 * SECOND_NS);
        assert_eq!(schedule.due_ns(5_000 * SECOND_NS, SECOND_NS), SECOND_NS);
        assert_eq!(schedule.dry_ns(), Some(SECOND_NS));
    }
}
