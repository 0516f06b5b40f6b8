//! How a request is delivered: its class, its deadlines, and what is read ahead for its client.

use crate::limits::{BEGIN_DEADLINE_NS, FILE_WINDOW_LEFT_NS, FILE_WINDOW_LEFT_STRIPES, FILE_WINDOW_STRIPES};
use crate::playable::{MediaRequest, Playable};
use reel_admit::{Session, Sessions, TrackSpan};
use reel_cache::{Body, Due, MediaKind, Pace, Part, Plan, Prefetcher, Ramp, TrackOfSession};
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
    /// Other sessions play the same, so units are read to their ends.
    pub reads_on: bool,
    /// Nothing is read or sent before this time, because the session waits for its start.
    pub start_ns: u64,
    /// Bytes that its client plays in a second, if it is sent as it is played, in trains.
    pub paced_bytes_per_s: Option<u64>,
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
            reads_on: false,
            start_ns: 0,
            paced_bytes_per_s: None,
        }
    }
}

/// The track number of a session's prefetches that stands for the title as one file.
const FILE: usize = usize::MAX;

/// Where a window of a file that begins at `start` ends: at the end of a stripe, so that no unit is
/// read for two windows.
fn window_end(file: &Body, start: u64) -> u64 {
    let mut end = start;
    while let Some(part) = file.part_at(end) {
        let Part::Object(map, range) = &part else {
            end += part.bytes();
            continue;
        };
        let stripe_bytes = map.geometry().stripe_bytes() as u64;
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
        match part {
            Part::Object(map, _) => return map.geometry().stripe_bytes() as u64,
            Part::Bytes(_, range) => at += range.len() as u64,
        }
    }
    0
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
        if let Some(form) = request.form().filter(|_| kind == Kind::Periodic)
            && !self.sessions.reserves_one_of(
                session,
                session.playing().choices(form).as_ref(),
                self.now_ns,
            )?
        {
            // The reservation is for the bytes of another form. This one is delivered without a
            // reservation.
            return Ok(DeliveryPolicy::without_deadline(Class::APERIODIC));
        }
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
        if permit.class == Class::APERIODIC {
            return Ok(DeliveryPolicy::without_deadline(permit.class));
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
            reads_on: false,
            start_ns: permit.start_ns,
            paced_bytes_per_s: permit.rate_bps.map(|rate_bps| rate_bps / 8),
        })
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
            // Single pictures for fast play, or the rest of a segment that was cut off: they are
            // not a part of the schedule.
            let piece_ns = u128::from(duration_ns) * u128::from(requested_bytes) / u128::from(bytes);
            let is_allowed =
                self.sessions.allows_piece(session, u64::try_from(piece_ns).unwrap_or(u64::MAX), self.now_ns);
            return Ok(if is_allowed {
                DeliveryPolicy::begins()
            } else {
                DeliveryPolicy::without_deadline(Class::APERIODIC)
            });
        }
        let permit = self.sessions.request(session, segment.choice, span, self.now_ns)?;
        if permit.class == Class::APERIODIC {
            return Ok(DeliveryPolicy::without_deadline(permit.class));
        }
        let reads_on =
            self.sessions.plays(session, span.kind, &segment.body, 0, segment.track_ns, self.now_ns);
        let next = title.segment(track, number + 1).and_then(|next| {
            let due_ns = self.sessions.due_ns(session, next.span.from_ns, self.now_ns);
            // A segment that is due at once is requested at once, so it is not planned. An example
            // is sound after a segment that began long before the pictures.
            (due_ns > self.now_ns + 2 * ROUND_NS).then(|| Plan {
                body: next.body,
                class: session.class(),
                start_ns: permit.due_ns,
                due_ns,
                duration_ns: next.span.until_ns.saturating_sub(next.span.from_ns),
            })
        });
        prefetcher.plan(TrackOfSession { session: session.key(), track }, next);
        let policy = DeliveryPolicy { class: permit.class, reads_on, ..DeliveryPolicy::begins() };
        let policy = DeliveryPolicy { start_ns: permit.start_ns, ..policy };
        if permit.begins {
            return Ok(policy);
        }
        let due = Due::Ramp(Ramp { due_ns: permit.due_ns, duration_ns, bytes });
        // A client that plays a lower rendition than it was promised may choose the higher one, so
        // it must be able to measure that its line carries it.
        let played = u128::from(bytes) * 1_000_000_000 / u128::from(duration_ns.max(1));
        let played = u64::try_from(played).unwrap_or(u64::MAX);
        let paced_bytes_per_s = permit.rate_bps.map(|promised_bps| played.max(promised_bps / 8));
        Ok(DeliveryPolicy { due, paced_bytes_per_s, ..policy })
    }
}
