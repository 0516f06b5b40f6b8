//! How a request is delivered: its class, its deadlines, and what is read ahead for its client.

use crate::limits::{
    BEGIN_DEADLINE_NS, FILE_WINDOW_LEFT_NS, FILE_WINDOW_LEFT_STRIPES, FILE_WINDOW_STRIPES, PUSH_LEAD_NS,
};
use crate::playable::{MediaRequest, PlainFile, Playable};
use reel_admit::{Session, Sessions, TrackSpan};
use reel_cache::{Body, Due, MediaKind, Pace, Plan, Prefetcher, Ramp, TrackOfSession};
use reel_qos::limits::ROUND_NS;
use reel_qos::{AdmitError, Class, ClassTable, DEADLINE_NONE_NS, Kind};
use std::ops::Range;
use std::sync::Arc;

/// How a request is delivered.
#[derive(Clone, Debug)]
pub struct DeliveryPolicy {
    /// The class of its reads.
    pub class: Class,
    /// When its bytes are due in memory.
    pub due: Due,
    /// A title that is sent as one file: the schedule follows what its client takes.
    pub follows_client: bool,
    /// A stream that is sent by the clock: where it is says what other sessions may find in memory.
    pub passes_stream: bool,
    /// Other sessions play the same, so units are read to their ends.
    pub reads_on: bool,
    /// Nothing is read or sent before this time, because the session waits for its start.
    pub start_ns: u64,
    /// Bytes that its client plays in a second, if it is sent as it is played, in trains.
    pub paced_bytes_per_s: Option<u64>,
    /// When all of it is to be sent, as the network was charged for it. Without it, each byte is
    /// due on the network when it is due in memory.
    pub send_by_ns: Option<u64>,
    /// It is sent at this rate and no faster: a first segment for which the network has no room for
    /// more.
    pub spread_bytes_per_s: Option<u64>,
    /// Nothing is reserved for it, because there was no room where its session's client has jumped
    /// to, or for a better rendition.
    pub is_displaced: bool,
    /// What was decided, for whom; `None` if it belongs to no session. If the class of the session
    /// changes, it is decided again for what is left.
    pub decided: Option<Decided>,
}

/// A request of a session, and the class that the session had when it was decided on.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The class of the session.
    pub class: Class,
    /// The request.
    pub request: MediaRequest,
}

impl DeliveryPolicy {
    /// A person waits for it, and nothing is reserved for it.
    pub fn interactive() -> Self {
        Self::without_deadline(Class::INTERACTIVE)
    }

    /// An admitted session begins with it, or cannot continue without it. It comes before all
    /// interactive requests without a session.
    pub fn begins() -> Self {
        Self { due: Due::After(BEGIN_DEADLINE_NS), ..Self::interactive() }
    }

    /// No client waits for it at a fixed time.
    pub fn without_deadline(class: Class) -> Self {
        Self {
            class,
            due: Due::After(DEADLINE_NONE_NS),
            follows_client: false,
            passes_stream: false,
            reads_on: false,
            start_ns: 0,
            paced_bytes_per_s: None,
            send_by_ns: None,
            spread_bytes_per_s: None,
            is_displaced: false,
            decided: None,
        }
    }
}

/// How the streams of a session are read. Their due times are those of their own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTerms {
    /// The class of their reads.
    pub class: Class,
    /// Whether their reads have deadlines.
    pub has_deadlines: bool,
    /// Nothing is read before this time, because the session waits for its start.
    pub start_ns: u64,
}

impl StepTerms {
    /// Nothing is promised.
    pub(crate) fn unpromised(now_ns: u64) -> Self {
        Self { class: Class::APERIODIC, has_deadlines: false, start_ns: now_ns }
    }

    /// When a stream of this pace is due in memory.
    pub(crate) fn due(&self, pace: Pace) -> Due {
        if self.has_deadlines { Due::Paced(pace) } else { Due::After(DEADLINE_NONE_NS) }
    }

    /// How a stream of this pace begins.
    pub fn policy(&self, pace: Pace) -> DeliveryPolicy {
        let policy = DeliveryPolicy::without_deadline(self.class);
        DeliveryPolicy { due: self.due(pace), start_ns: self.start_ns, ..policy }
    }
}

/// The track number of a session's prefetches that stands for the title as one file.
const FILE: usize = usize::MAX;

/// When a stream that is sent by the clock ends, after the start of its session.
fn stream_ns(stream: &PlainFile) -> u64 {
    stream.times.last().map_or(0, |(_, stream_ns)| *stream_ns)
}

/// Where a window of a file that begins at `start` ends: at the end of a stripe, so that no unit is
/// read for two windows.
fn window_end(file: &Body, start: u64) -> u64 {
    let mut end = start;
    while let Some(part) = file.part_at(end) {
        let Some((map, kind, range)) = part.data_rows() else {
            end += part.bytes();
            continue;
        };
        let stripe_bytes = kind.stripe_bytes(map.geometry());
        let left = (FILE_WINDOW_STRIPES * stripe_bytes).saturating_sub(end - start);
        if left <= part.bytes() {
            let stripe_end = (range.start + left).next_multiple_of(stripe_bytes).min(range.end);
            return end + (stripe_end - range.start);
        }
        end += part.bytes();
    }
    end
}

/// Bytes of the stripes around `offset`.
fn stripe_bytes(file: &Body, offset: u64) -> u64 {
    let mut at = offset;
    while let Some(part) = file.part_at(at) {
        match part.data_rows() {
            Some((map, kind, _)) => return kind.stripe_bytes(map.geometry()),
            None => at += part.bytes(),
        }
    }
    0
}

/// Bytes in a second, if so many take so long.
fn bytes_per_s(bytes: u64, time_ns: u64) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(time_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// What decides on the policy of a session's request, at one moment.
pub(crate) struct Decision<'a, T> {
    pub(crate) sessions: &'a Sessions<T>,
    pub(crate) classes: &'a ClassTable,
    pub(crate) now_ns: u64,
}

impl<T: Playable> Decision<'_, T> {
    /// The policy of a session's request. Media is reserved in the ledger. Requests that prepare
    /// for it are interactive.
    pub(crate) fn of(
        &self,
        session: &Session<T>,
        request: &MediaRequest,
        prefetcher: &mut Prefetcher,
    ) -> Result<DeliveryPolicy, AdmitError> {
        let kind = self.classes.kind(session.class());
        if kind == Kind::Periodic && !self.is_of_form(session, request)? {
            // The reservation is for the bytes of another form. This one is delivered without a
            // reservation.
            return Ok(DeliveryPolicy::without_deadline(Class::APERIODIC));
        }
        self.note(session, request, kind);
        match (request, kind) {
            (_, Kind::Aperiodic) => Ok(DeliveryPolicy::without_deadline(session.class())),
            (MediaRequest::Segment { track, number, bytes }, Kind::Periodic) => {
                self.segment(session, *track, *number, *bytes, prefetcher)
            }
            (MediaRequest::File(range), Kind::Periodic) => {
                let policy = self.paced(session, range.start, range.start)?;
                self.read_file_ahead(session, range, prefetcher);
                Ok(policy)
            }
            (MediaRequest::Read { range, position }, Kind::Periodic) => {
                let policy = self.paced(session, range.start, *position)?;
                self.read_file_ahead(session, &(*position..range.end.max(*position)), prefetcher);
                if let Some(file) = session.playing().file() {
                    self.sessions.reads_until(session, file.shown_by_ns(range.end));
                }
                // The next read says where the client is. One that is paced would keep those behind
                // it waiting.
                Ok(DeliveryPolicy { follows_client: false, paced_bytes_per_s: None, ..policy })
            }
            (MediaRequest::Stream(offset), Kind::Periodic) => self.pushed(session, *offset),
            (MediaRequest::Slots, Kind::Periodic) => self.clocked(session, 0).map(|(policy, _)| policy),
            (MediaRequest::Parity(offset), Kind::Periodic) => Ok(self.pushed_parity(session, *offset)),
            (_, Kind::Interactive) => Ok(DeliveryPolicy::interactive()),
            (MediaRequest::Preparation, Kind::Periodic) => Ok(DeliveryPolicy::begins()),
        }
    }

    /// The policy for a title that is sent as one file from `from_offset` on, to a client that is
    /// at `at_offset` of it. It is computed again as the client takes bytes.
    pub(crate) fn paced(
        &self,
        session: &Session<T>,
        from_offset: u64,
        at_offset: u64,
    ) -> Result<DeliveryPolicy, AdmitError> {
        let Some(file) = session.playing().file() else { return Ok(DeliveryPolicy::interactive()) };
        let mut pace = Pace::new(Arc::clone(&file.times), from_offset, at_offset);
        let span = TrackSpan { kind: MediaKind::Video, from_ns: pace.media_ns, until_ns: pace.media_ns };
        let permit = self.sessions.request(session, None, &span, self.now_ns)?;
        let is_displaced = permit.is_displaced;
        if permit.class == Class::APERIODIC {
            // The schedule follows its client, so that it is promised again once there is room.
            let policy = DeliveryPolicy::without_deadline(permit.class);
            return Ok(DeliveryPolicy { is_displaced, follows_client: is_displaced, ..policy });
        }
        pace.due_ns = permit.due_ns;
        let duration_ns = file.times.last().map_or(0, |(_, media_ns)| *media_ns);
        self.sessions.plays(session, span.kind, &file.body, at_offset, duration_ns, self.now_ns);
        // A start or a seek is read with the other starts, as that of a segment is: the reservation
        // begins with the next round.
        Ok(DeliveryPolicy {
            class: permit.class,
            due: Due::Paced(pace),
            follows_client: true,
            passes_stream: false,
            reads_on: false,
            start_ns: permit.start_ns,
            paced_bytes_per_s: permit.rate_bps.map(|rate_bps| rate_bps / 8),
            send_by_ns: None,
            spread_bytes_per_s: None,
            is_displaced,
            decided: None,
        })
    }

    /// How the streams of a session are read when the one that is last is at this media time.
    pub(crate) fn step_terms(&self, session: &Session<T>, shown_ns: u64) -> Result<StepTerms, AdmitError> {
        if self.classes.kind(session.class()) != Kind::Periodic {
            session.is_at(shown_ns);
            return Ok(StepTerms { class: session.class(), has_deadlines: false, start_ns: self.now_ns });
        }
        let span = TrackSpan { kind: MediaKind::Video, from_ns: shown_ns, until_ns: shown_ns };
        let permit = self.sessions.request(session, None, &span, self.now_ns)?;
        let has_deadlines = permit.class != Class::APERIODIC;
        Ok(StepTerms { class: permit.class, has_deadlines, start_ns: permit.start_ns.max(self.now_ns) })
    }

    /// The policy for what is left of a delivery whose session has another class now: it is a part
    /// of the file from `from_offset` on, and its client has taken so many bytes of it. `None` if
    /// only the class changes.
    pub(crate) fn again(
        &self,
        session: &Session<T>,
        request: &MediaRequest,
        (from_offset, taken_bytes): (u64, u64),
        had: Class,
    ) -> Result<Option<DeliveryPolicy>, AdmitError> {
        match (request, self.classes.kind(session.class())) {
            (_, Kind::Aperiodic) => Ok(Some(DeliveryPolicy::without_deadline(session.class()))),
            (_, Kind::Interactive) => Ok(Some(DeliveryPolicy::interactive())),
            (_, Kind::Periodic) if !self.is_of_form(session, request)? => {
                Ok(Some(DeliveryPolicy::without_deadline(Class::APERIODIC)))
            }
            (MediaRequest::File(_), Kind::Periodic) => {
                self.paced(session, from_offset, from_offset + taken_bytes).map(Some)
            }
            // It keeps the times that it has.
            (_, Kind::Periodic) if self.classes.kind(had) == Kind::Periodic => Ok(None),
            (MediaRequest::Segment { track, number, bytes }, Kind::Periodic) => {
                let left_bytes = bytes.saturating_sub(taken_bytes);
                Ok(session.playing().segment(*track, *number).map(|segment| {
                    self.piece(session, segment.body.bytes(), segment.span.length_ns(), left_bytes)
                }))
            }
            (_, Kind::Periodic) => Ok(Some(DeliveryPolicy::begins())),
        }
    }

    /// Notes where a client is whose class has no deadlines, at byte `offset` of the title as one
    /// file.
    pub(crate) fn passes_file(&self, session: &Session<T>, offset: u64) {
        if let Some(file) = session.playing().file() {
            session.is_at(Pace::new(Arc::clone(&file.times), offset, offset).media_ns);
        }
    }

    /// Notes how the client of a session plays its title and, if its class has no deadlines, where
    /// it is.
    fn note(&self, session: &Session<T>, request: &MediaRequest, kind: Kind) {
        let is_unpromised = kind != Kind::Periodic;
        match request {
            MediaRequest::Segment { track, number, .. } => {
                session.plays_as_file(false);
                let segment = session.playing().segment(*track, *number).filter(|_| is_unpromised);
                segment.into_iter().for_each(|segment| session.is_at(segment.span.from_ns));
            }
            MediaRequest::File(range) | MediaRequest::Read { range, .. } => {
                session.plays_as_file(true);
                if is_unpromised {
                    self.passes_file(session, range.start);
                }
            }
            MediaRequest::Stream(_)
            | MediaRequest::Parity(_)
            | MediaRequest::Slots
            | MediaRequest::Preparation => {}
        }
    }

    /// Whether what is reserved for a session is of the form that is requested.
    fn is_of_form(&self, session: &Session<T>, request: &MediaRequest) -> Result<bool, AdmitError> {
        let Some(form) = request.form() else { return Ok(true) };
        let offers = session.playing().choices(form);
        self.sessions.reserves_one_of(session, offers.as_ref(), self.now_ns)
    }

    /// The policy for a part of a segment. Single pictures for fast play, and the rest of a segment
    /// that was cut off, are not a part of the schedule.
    fn piece(&self, session: &Session<T>, bytes: u64, duration_ns: u64, piece_bytes: u64) -> DeliveryPolicy {
        let piece_ns = u128::from(duration_ns) * u128::from(piece_bytes) / u128::from(bytes.max(1));
        let piece_ns = u64::try_from(piece_ns).unwrap_or(u64::MAX);
        match self.sessions.allows_piece(session, piece_ns, self.now_ns) {
            true => DeliveryPolicy::begins(),
            false => DeliveryPolicy::without_deadline(Class::APERIODIC),
        }
    }

    /// The policy for a stream that is sent by the clock from `offset` on.
    fn pushed(&self, session: &Session<T>, offset: u64) -> Result<DeliveryPolicy, AdmitError> {
        let (policy, is_promised) = self.clocked(session, offset)?;
        if is_promised {
            self.passes(session, offset);
        }
        Ok(DeliveryPolicy { passes_stream: is_promised, ..policy })
    }

    /// The policy for a stream whose times are those of the clock, from byte `offset` on. Also
    /// whether it is promised.
    fn clocked(&self, session: &Session<T>, offset: u64) -> Result<(DeliveryPolicy, bool), AdmitError> {
        let Some(stream) = session.playing().pushed().map(|pushed| &pushed.file) else {
            return Ok((DeliveryPolicy::interactive(), false));
        };
        let mut pace = Pace::new(Arc::clone(&stream.times), offset, offset);
        let permit = self.sessions.push(session, pace.media_ns..stream_ns(stream), self.now_ns)?;
        let is_displaced = permit.is_displaced;
        let policy = DeliveryPolicy::without_deadline(permit.class);
        if permit.class == Class::APERIODIC {
            return Ok((DeliveryPolicy { is_displaced, ..policy }, false));
        }
        pace.due_ns = permit.due_ns;
        Ok((DeliveryPolicy { due: Due::Paced(pace), start_ns: permit.start_ns, ..policy }, true))
    }

    /// Tells the audience that a stream is sent from byte `offset` on, and is read as far as it is
    /// sent within [`PUSH_LEAD_NS`]. Returns the byte at which to call this again, where the next
    /// stripe begins.
    pub(crate) fn passes(&self, session: &Session<T>, offset: u64) -> u64 {
        let Some(stream) = session.playing().pushed().map(|pushed| &pushed.file) else { return u64::MAX };
        let at_ns = Pace::new(Arc::clone(&stream.times), offset, offset).media_ns;
        let read =
            stream.times.partition_point(|(_, sent_ns)| *sent_ns <= at_ns.saturating_add(PUSH_LEAD_NS));
        let bytes = stream.body.bytes();
        let until = stream.times.get(read).map_or(bytes, |(offset, _)| *offset).min(bytes);
        if offset < until {
            let body = stream.body.slice(offset..until);
            self.sessions.passes(session, &body, stream_ns(stream), self.now_ns);
        }
        let next = stream.times.partition_point(|(start, _)| *start <= offset);
        stream.times.get(next).map_or(u64::MAX, |(start, _)| *start)
    }

    /// The policy for the parity of a stream, which is due with its data.
    fn pushed_parity(&self, session: &Session<T>, offset: u64) -> DeliveryPolicy {
        let pushed = session.playing().pushed().filter(|pushed| pushed.with_parity);
        let Some(parity) = pushed.map(|pushed| &pushed.parity) else { return DeliveryPolicy::interactive() };
        let mut pace = Pace::new(Arc::clone(&parity.times), offset, offset);
        pace.due_ns = self.sessions.due_ns(session, pace.media_ns, self.now_ns);
        let policy = DeliveryPolicy::without_deadline(session.class());
        DeliveryPolicy { due: Due::Paced(pace), start_ns: session.start_ns(self.now_ns), ..policy }
    }

    /// Has the next part of a title as one file read ahead, for a client that requests it piece by
    /// piece.
    fn read_file_ahead(&self, session: &Session<T>, requested: &Range<u64>, prefetcher: &mut Prefetcher) {
        let Some(file) = session.playing().file() else { return };
        let (times, file) = (&file.times, &file.body);
        let name = TrackOfSession { session: session.key(), track: FILE };
        let at = requested.end;
        let shown_ns = |offset| Pace::new(Arc::clone(times), 0, 0).media_ns(offset);
        prefetcher.passed(name, requested.start);
        let is_near = |end: u64| {
            end.saturating_sub(at) <= FILE_WINDOW_LEFT_STRIPES * stripe_bytes(file, at)
                || shown_ns(end).saturating_sub(shown_ns(at)) <= FILE_WINDOW_LEFT_NS
        };
        let Some(start) = prefetcher.next_window(name, at, is_near) else { return };
        let end = window_end(file, start);
        // A long answer is read ahead by its own reader.
        if start >= end || requested.end - requested.start > end - start {
            return;
        }
        let due_ns = |offset| self.sessions.due_ns(session, shown_ns(offset), self.now_ns);
        let plan = Plan {
            body: file.slice(start..end),
            class: session.class(),
            start_ns: self.now_ns,
            due_ns: due_ns(start),
            duration_ns: due_ns(end).saturating_sub(due_ns(start)),
        };
        prefetcher.plan_window(name, start..end, plan);
    }

    fn segment(
        &self,
        session: &Session<T>,
        track: usize,
        number: usize,
        requested_bytes: u64,
        prefetcher: &mut Prefetcher,
    ) -> Result<DeliveryPolicy, AdmitError> {
        let title = session.playing();
        let Some(segment) = title.segment(track, number) else { return Ok(DeliveryPolicy::begins()) };
        let (span, bytes) = (&segment.span, segment.body.bytes());
        let duration_ns = span.until_ns.saturating_sub(span.from_ns);
        if requested_bytes < bytes {
            return Ok(self.piece(session, bytes, duration_ns, requested_bytes));
        }
        let permit = self.sessions.request(session, segment.choice, span, self.now_ns)?;
        let is_displaced = permit.is_displaced;
        if permit.class == Class::APERIODIC {
            return Ok(DeliveryPolicy { is_displaced, ..DeliveryPolicy::without_deadline(permit.class) });
        }
        let reads_on =
            self.sessions.plays(session, span.kind, &segment.body, 0, segment.track_ns, self.now_ns);
        let next = title.segment(track, number + 1).and_then(|next| {
            let due_ns = self.sessions.due_ns(session, next.span.from_ns, self.now_ns);
            // A segment that is due at once is requested at once, so it is not planned. An example
            // is sound after a segment that began long before the pictures. A session that waits
            // for its start requests nothing before that.
            (due_ns > permit.start_ns + 2 * ROUND_NS).then(|| Plan {
                body: next.body,
                class: session.class(),
                start_ns: permit.due_ns,
                due_ns,
                duration_ns: next.span.until_ns.saturating_sub(next.span.from_ns),
            })
        });
        prefetcher.plan(TrackOfSession { session: session.key(), track }, next);
        let policy = DeliveryPolicy { class: permit.class, reads_on, ..DeliveryPolicy::begins() };
        let send_by_ns = Some(permit.send_by_ns);
        let policy = DeliveryPolicy { start_ns: permit.start_ns, send_by_ns, is_displaced, ..policy };
        if permit.begins {
            let until_ns = permit.spread_until_ns;
            let spread_ns = until_ns.map(|until_ns| until_ns.saturating_sub(self.now_ns).max(ROUND_NS));
            let spread_bytes_per_s = spread_ns.map(|spread_ns| bytes_per_s(bytes, spread_ns));
            return Ok(DeliveryPolicy { spread_bytes_per_s, ..policy });
        }
        let due = Due::Ramp(Ramp { due_ns: permit.due_ns, duration_ns, bytes });
        // A client that plays a lower rendition than it was promised may choose the higher one, so
        // it must be able to measure that its line carries it.
        let played = bytes_per_s(bytes, duration_ns);
        let paced_bytes_per_s = permit.rate_bps.map(|promised_bps| played.max(promised_bps / 8));
        Ok(DeliveryPolicy { due, paced_bytes_per_s, ..policy })
    }
}
