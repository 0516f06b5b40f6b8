//! The player: what became of a stream, from when its bytes arrived. Pure: it is told the time.
//!
//! Byte b of a segment of S bytes that shows the media from t to t + d belongs to the media time
//! `t + d * b / S`. While the film plays, media time m is due at `epoch + m`. A byte that comes
//! after its media time was due is **late**; where the next byte is missing when its media time is
//! due, the film **stalls**. It continues when the segment under the picture is whole and
//! [`PlayerSettings::startup_ns`] are ready. Until then everything is still judged by the old
//! epoch; then the epoch moves by the length of the stall. After a start, a seek or a pause nothing
//! is due before the picture moves, and after a start or a seek it moves when as much is ready as a
//! segment lasts: a viewer that seeks to the end of a segment has not made the next one late.

use super::segment::{Arrived, Segment};
use reel_testkit::Media;
use std::rc::Rc;

/// How a player buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlayerSettings {
    /// Media that must lie ready before the film starts or continues; at least one segment always.
    pub(crate) startup_ns: u64,
    /// Media that is fetched ahead of the picture.
    pub(crate) buffer_ns: u64,
}

/// One viewer and one title.
#[derive(Debug)]
pub(crate) struct Player {
    settings: PlayerSettings,
    tracks: Vec<Track>,
    clock: Clock,
    /// Grows with every seek that throws away what was loaded: what was asked for before it is no
    /// longer wanted.
    generation: u64,
    opened_ns: u64,
    tally: Tally,
}

/// What a player counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// From opening to the first picture; `None` if there was none.
    pub(crate) startup_ns: Option<u64>,
    /// From each seek to the picture, where bytes had to be waited for.
    pub(crate) seeks_ns: Vec<u64>,
    pub(crate) stalls: u64,
    pub(crate) stalled_ns: u64,
    pub(crate) longest_stall_ns: u64,
    pub(crate) played_ns: u64,
    pub(crate) segments: u64,
    pub(crate) late_segments: u64,
    pub(crate) bytes: u64,
    pub(crate) late_bytes: u64,
    /// How late the latest byte was.
    pub(crate) latest_ns: u64,
    /// When the first byte was late.
    pub(crate) first_late_ns: Option<u64>,
}

/// What the film does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits for its first bytes, or for those after a seek.
    Starting,
    Playing,
    Stalled,
    Paused,
    /// Shown to its end.
    Ended,
}

/// What a track needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This segment, now.
    Fetch(usize),
    /// Nothing before this time.
    WaitUntil(u64),
    /// Nothing before the film continues or is somewhere else.
    WaitForChange,
    /// Nothing: all is loaded.
    Done,
}

/// Where the picture is. Epochs may lie before the clock's zero.
#[derive(Clone, Copy, Debug)]
enum Clock {
    Starting { since_ns: u64, position_ns: u64, after_seek: bool },
    Playing { epoch_ns: i64, since_ns: u64 },
    Stalled { epoch_ns: i64, since_ns: u64 },
    Paused { position_ns: u64 },
    Ended,
}

#[derive(Debug)]
struct Track {
    media: Rc<Media>,
    /// Media is whole up to here.
    covered_ns: u64,
    loading: Option<Segment>,
}

impl Player {
    /// A player that was opened at `opened_ns` and knows its tracks.
    pub(crate) fn new(settings: PlayerSettings, tracks: Vec<Rc<Media>>, opened_ns: u64) -> Self {
        let tracks = tracks.into_iter().map(|media| Track { media, covered_ns: 0, loading: None }).collect();
        let clock = Clock::Starting { since_ns: opened_ns, position_ns: 0, after_seek: false };
        Self { settings, tracks, clock, generation: 0, opened_ns, tally: Tally::default() }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.clock {
            Clock::Starting { .. } => Phase::Starting,
            Clock::Playing { .. } => Phase::Playing,
            Clock::Stalled { .. } => Phase::Stalled,
            Clock::Paused { .. } => Phase::Paused,
            Clock::Ended => Phase::Ended,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn duration_ns(&self) -> u64 {
        self.tracks.iter().map(|track| track.media.end_ns()).max().unwrap_or(0)
    }

    /// Lets time pass: a stall begins, or the film ends, at the exact time and not when it is
    /// polled.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        let Clock::Playing { epoch_ns, since_ns } = self.clock else { return };
        let (until_ns, then) = match self.ready_until_ns() {
            Some(media_ns) => {
                let at_ns = at(epoch_ns, media_ns);
                (at_ns, Clock::Stalled { epoch_ns, since_ns: at_ns })
            }
            None => (at(epoch_ns, self.duration_ns()), Clock::Ended),
        };
        let over = if matches!(then, Clock::Ended) { until_ns <= now_ns } else { until_ns < now_ns };
        if over {
            // The picture may have been put behind what is there by a pause: then it never moved.
            let until_ns = until_ns.max(since_ns);
            self.tally.played_ns += until_ns - since_ns;
            self.clock = match then {
                Clock::Stalled { epoch_ns, .. } => {
                    self.tally.stalls += 1;
                    Clock::Stalled { epoch_ns, since_ns: until_ns }
                }
                other => other,
            };
        }
    }

    /// What `track` needs next.
    pub(crate) fn next(&mut self, now_ns: u64, track: usize) -> Next {
        self.advance(now_ns);
        let position_ns = self.position_ns(now_ns);
        let buffer_ns = self.settings.buffer_ns.max(self.settings.startup_ns);
        let track = &self.tracks[track];
        if matches!(self.clock, Clock::Ended) || track.is_whole() {
            return Next::Done;
        }
        let segment = track.segment_at(track.covered_ns);
        // What is under the picture is always wanted, whatever the buffer.
        if track.covered_ns <= position_ns || track.covered_ns - position_ns < buffer_ns {
            return Next::Fetch(segment);
        }
        match self.clock {
            Clock::Playing { epoch_ns, .. } => {
                Next::WaitUntil(at(epoch_ns, track.covered_ns - buffer_ns) + 1)
            }
            _ => Next::WaitForChange,
        }
    }

    /// When the film will have been shown, or will stall, if nothing more comes.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        let Clock::Playing { epoch_ns, .. } = self.clock else { return None };
        Some(match self.ready_until_ns() {
            Some(media_ns) => at(epoch_ns, media_ns) + 1,
            None => at(epoch_ns, self.duration_ns()),
        })
    }

    /// From now on `track` is taken from another rendition.
    pub(crate) fn switch(&mut self, track: usize, media: Rc<Media>) {
        let track = &mut self.tracks[track];
        track.media = media;
        track.loading = None;
    }

    /// The body of a segment begins; its length, if the server says it.
    pub(crate) fn begin(&mut self, track: usize, segment: usize, bytes: Option<u64>) {
        let track = &mut self.tracks[track];
        let borders = &track.media.borders_ns;
        let (start_ns, end_ns) = (borders[segment], borders[segment + 1]);
        track.loading = Some(Segment::new(start_ns, end_ns, bytes));
    }

    /// Some of the segment's bytes are here.
    pub(crate) fn received(&mut self, now_ns: u64, track: usize, bytes: u64) {
        self.advance(now_ns);
        let epoch_ns = self.epoch_ns();
        let Some(loading) = &mut self.tracks[track].loading else { return };
        self.tally.bytes += bytes;
        let arrived = loading.received(now_ns, bytes, epoch_ns);
        self.tally.count(&arrived, now_ns);
    }

    /// The segment is whole.
    pub(crate) fn complete(&mut self, now_ns: u64, track: usize) {
        self.advance(now_ns);
        let track = &mut self.tracks[track];
        let Some(loading) = track.loading.take() else { return };
        track.covered_ns = loading.end_ns;
        let (late, whole) = loading.complete();
        self.tally.count(&whole, now_ns);
        self.tally.segments += 1;
        self.tally.late_segments += u64::from(late);
        self.proceed(now_ns);
    }

    /// The segment broke off; it will be asked for again.
    pub(crate) fn broke_off(&mut self, now_ns: u64, track: usize) {
        self.advance(now_ns);
        self.tracks[track].loading = None;
    }

    /// Stops the picture, if it moves.
    pub(crate) fn pause(&mut self, now_ns: u64) -> bool {
        self.advance(now_ns);
        let Clock::Playing { since_ns, .. } = self.clock else { return false };
        let position_ns = self.position_ns(now_ns);
        self.tally.played_ns += now_ns - since_ns;
        self.clock = Clock::Paused { position_ns };
        true
    }

    /// Ends a pause.
    pub(crate) fn resume(&mut self, now_ns: u64) {
        if let Clock::Paused { position_ns } = self.clock {
            self.clock = Clock::Playing { epoch_ns: epoch(now_ns, position_ns), since_ns: now_ns };
        }
    }

    /// Puts the picture elsewhere. What lies ready there is used; otherwise all is loaded again.
    pub(crate) fn seek(&mut self, now_ns: u64, to_ns: u64) {
        self.advance(now_ns);
        let from_ns = self.position_ns(now_ns);
        match self.clock {
            Clock::Playing { since_ns, .. } => self.tally.played_ns += now_ns - since_ns,
            Clock::Stalled { .. } => self.give_up(now_ns),
            _ => {}
        }
        let position_ns = to_ns.min(self.duration_ns().saturating_sub(1));
        let started = self.tally.startup_ns.is_some();
        self.clock = Clock::Starting { since_ns: now_ns, position_ns, after_seek: started };
        let loaded = |track: &Track| track.covered_ns > position_ns || track.is_whole();
        if started && position_ns >= from_ns && self.tracks.iter().all(loaded) {
            self.proceed(now_ns);
            return;
        }
        self.generation += 1;
        for track in &mut self.tracks {
            track.loading = None;
            let at_ns = position_ns.min(track.media.end_ns().saturating_sub(1));
            track.covered_ns = track.media.borders_ns[track.containing(at_ns)];
        }
    }

    /// Ends the account at `now_ns`: what is under way counts up to here.
    pub(crate) fn finish(mut self, now_ns: u64) -> Tally {
        self.advance(now_ns);
        match self.clock {
            Clock::Playing { since_ns, .. } => self.tally.played_ns += now_ns.saturating_sub(since_ns),
            Clock::Stalled { .. } => self.give_up(now_ns),
            _ => {}
        }
        self.tally
    }

    /// Ends a stall without the bytes that were waited for. They are late, though they never came:
    /// else a server that falls silent would have nothing late.
    fn give_up(&mut self, now_ns: u64) {
        let Clock::Stalled { epoch_ns, since_ns } = self.clock else { return };
        let now_ns = now_ns.max(since_ns);
        self.tally.end_stall(now_ns - since_ns);
        for track in &mut self.tracks {
            if track.is_whole() || at(epoch_ns, track.ready_until_ns()) >= now_ns {
                continue;
            }
            let late_bytes = track.loading.take().map_or(1, |loading| loading.overdue(now_ns, epoch_ns));
            let latest_ns = now_ns - since_ns;
            self.tally.count(&Arrived { late_bytes: late_bytes.max(1), latest_ns }, now_ns);
            self.tally.late_segments += 1;
        }
    }

    /// What was counted so far.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Starts or continues, if enough is there.
    fn proceed(&mut self, now_ns: u64) {
        let startup_ns = self.settings.startup_ns;
        let (position_ns, starting) = match self.clock {
            Clock::Starting { position_ns, .. } => (position_ns, true),
            Clock::Stalled { epoch_ns, since_ns } => (media_at(epoch_ns, since_ns), false),
            _ => return,
        };
        let ready = |track: &Track| {
            let ahead_ns = if starting { startup_ns.max(track.lasts_ns(position_ns)) } else { startup_ns };
            let enough = track.covered_ns >= position_ns.saturating_add(ahead_ns);
            track.is_whole() || (track.covered_ns > position_ns && enough)
        };
        if !self.tracks.iter().all(ready) {
            return;
        }
        match self.clock {
            Clock::Starting { since_ns, after_seek: true, .. } if now_ns == since_ns => {}
            Clock::Starting { since_ns, after_seek: true, .. } => self.tally.seeks_ns.push(now_ns - since_ns),
            Clock::Starting { .. } => {
                self.tally.startup_ns.get_or_insert(now_ns - self.opened_ns);
            }
            Clock::Stalled { since_ns, .. } => self.tally.end_stall(now_ns - since_ns),
            _ => {}
        }
        self.clock = Clock::Playing { epoch_ns: epoch(now_ns, position_ns), since_ns: now_ns };
    }

    fn position_ns(&self, now_ns: u64) -> u64 {
        match self.clock {
            Clock::Starting { position_ns, .. } | Clock::Paused { position_ns } => position_ns,
            Clock::Playing { epoch_ns, .. } => media_at(epoch_ns, now_ns),
            Clock::Stalled { epoch_ns, since_ns } => media_at(epoch_ns, since_ns),
            Clock::Ended => self.duration_ns(),
        }
    }

    /// By which arrivals are judged; `None` while nothing is due.
    fn epoch_ns(&self) -> Option<i64> {
        match self.clock {
            Clock::Playing { epoch_ns, .. } | Clock::Stalled { epoch_ns, .. } => Some(epoch_ns),
            _ => None,
        }
    }

    /// The media time of the first byte that is missing on any track; `None` if all is there.
    fn ready_until_ns(&self) -> Option<u64> {
        self.tracks.iter().filter(|track| !track.is_whole()).map(Track::ready_until_ns).min()
    }
}

impl Track {
    fn is_whole(&self) -> bool {
        self.covered_ns >= self.media.end_ns()
    }

    fn ready_until_ns(&self) -> u64 {
        self.loading.as_ref().map_or(self.covered_ns, Segment::ready_until_ns)
    }

    /// The segment that begins nearest to `media_ns`: borders of renditions may differ by the
    /// rounding of their playlists.
    fn segment_at(&self, media_ns: u64) -> usize {
        let borders = &self.media.borders_ns;
        let after = borders.partition_point(|border| *border < media_ns);
        let nearest = match after.checked_sub(1) {
            Some(before)
                if after == borders.len() || media_ns - borders[before] < borders[after] - media_ns =>
            {
                before
            }
            _ => after,
        };
        nearest.min(self.media.segments.len().saturating_sub(1))
    }

    /// How long the segment lasts in which `media_ns` lies.
    fn lasts_ns(&self, media_ns: u64) -> u64 {
        let segment = self.containing(media_ns);
        self.media.borders_ns[segment + 1] - self.media.borders_ns[segment]
    }

    /// The segment in which `media_ns` lies.
    fn containing(&self, media_ns: u64) -> usize {
        let after = self.media.borders_ns.partition_point(|border| *border <= media_ns);
        after.saturating_sub(1).min(self.media.segments.len().saturating_sub(1))
    }
}

impl Tally {
    fn count(&mut self, arrived: &Arrived, now_ns: u64) {
        if arrived.late_bytes > 0 {
            self.late_bytes += arrived.late_bytes;
            self.latest_ns = self.latest_ns.max(arrived.latest_ns);
            self.first_late_ns.get_or_insert(now_ns);
        }
    }

    fn end_stall(&mut self, lasted_ns: u64) {
        self.stalled_ns += lasted_ns;
        self.longest_stall_ns = self.longest_stall_ns.max(lasted_ns);
    }
}

fn epoch(now_ns: u64, position_ns: u64) -> i64 {
    // Both are far below 292 years.
    now_ns as i64 - position_ns as i64
}

/// When `media_ns` is due.
fn at(epoch_ns: i64, media_ns: u64) -> u64 {
    (epoch_ns + media_ns as i64).max(0) as u64
}

/// What is due at `now_ns`.
fn media_at(epoch_ns: i64, now_ns: u64) -> u64 {
    (now_ns as i64 - epoch_ns).max(0) as u64
}
