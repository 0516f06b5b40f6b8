//! A player of segments with a buffer, and the viewer that controls it.

use super::screen::Screen;
use crate::limits::{
    BEGINS_WITH_NS, BUFFER_LEAST_NS, BUFFER_NS, LANGUAGE_PERMILLE, MOVING_SEGMENT_NS, SKIP_NS, STEPS_PERMILLE,
};
use crate::title::{Title, Track};
use reel_admit::limits::STEADY_REQUESTS;
use reel_cache::MediaKind;
use reel_testkit::Rng;
use std::sync::Arc;

/// The mean times of a viewer's actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayerSpec {
    /// Between two titles.
    pub think_ns: u64,
    /// Between two of: pause, seek, stop.
    pub restless_ns: u64,
    /// A pause.
    pub pause_ns: u64,
}

/// One viewer.
pub struct Player {
    spec: PlayerSpec,
    rng: Rng,
    title: Option<Arc<Title>>,
    /// Which of the renditions of its title it takes.
    choice: usize,
    /// The best one that it may take.
    offered: usize,
    /// Which of the languages of its title it plays.
    language: usize,
    lanes: Vec<Lane>,
    screen: Screen,
    /// What it keeps ahead.
    buffer_ns: u64,
    /// For how long it has stood still in all.
    pub stalled_ns: u64,
}

/// Pictures or sound.
struct Lane {
    kind: MediaKind,
    segment_ns: u64,
    segments: usize,
    /// The segment it asks for next, or is being given.
    next: usize,
    /// The first segment that must be in time again after a skip. The speed of a jump is not
    /// reserved, and the server sees only the requests after it.
    excused_until: usize,
    /// It has thrown away what it had, and continues where it is when this segment has come.
    refetched: Option<(usize, u64)>,
    /// Segments it has received since its last seek or pause, and whether they were once enough to
    /// show how far its buffer reaches. A skip before that looks like a larger buffer.
    untouched: usize,
    known: bool,
}

/// What a player wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// This segment of its title.
    Segment(usize),
    /// Nothing before then.
    Sleep(u64),
    /// Nothing any more: it has the end of it.
    Nothing,
}

/// What a viewer does with a player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerControl {
    /// Holds it still; what is buffered stays.
    Pause,
    /// Lets it continue.
    Resume,
    /// Jumps to a segment; what is buffered and under way is of no use.
    Seek,
    /// Jumps ahead to buffered media, without a request.
    Skip,
    /// Turns it off.
    Stop,
}

impl Default for PlayerSpec {
    fn default() -> Self {
        const SECOND_NS: u64 = 1_000_000_000;
        PlayerSpec { think_ns: 20 * SECOND_NS, restless_ns: 300 * SECOND_NS, pause_ns: 60 * SECOND_NS }
    }
}

impl Player {
    /// A viewer that plays nothing yet.
    pub fn new(spec: PlayerSpec, mut rng: Rng) -> Player {
        let buffer_ns = rng.range(BUFFER_LEAST_NS, BUFFER_NS + 1);
        Player {
            buffer_ns,
            spec,
            rng,
            title: None,
            choice: 0,
            offered: 0,
            language: 0,
            lanes: Vec::new(),
            screen: Screen::Waits { media_ns: 0 },
            stalled_ns: 0,
        }
    }

    /// What it watches.
    pub fn title(&self) -> Option<&Arc<Title>> {
        self.title.as_ref()
    }

    /// The segment of a media kind that it asks for next, or is being given.
    pub fn next_segment(&self, kind: MediaKind) -> usize {
        self.lane(kind).map_or(0, |lane| lane.next)
    }

    /// The rendition it takes now.
    pub fn choice(&self) -> usize {
        self.choice
    }

    /// What it takes of a media kind now: a rendition, or a language.
    pub fn takes(&self, kind: MediaKind) -> usize {
        if kind == MediaKind::Video { self.choice } else { self.language }
    }

    /// The media kinds that it requests, in this order. Players differ in the order, and change it
    /// from time to time.
    pub fn kinds(&mut self) -> Vec<MediaKind> {
        let mut kinds: Vec<MediaKind> = self.lanes.iter().map(|lane| lane.kind).collect();
        if self.rng.permille(500) {
            kinds.reverse();
        }
        kinds
    }

    /// A session was admitted, for rendition `offered` and all after it. The player begins at the
    /// start of the title or, sometimes, at another place.
    pub fn open(&mut self, title: Arc<Title>, offered: usize) {
        let lane = |track: &Arc<Track>| Lane {
            kind: track.kind,
            segment_ns: track.segment_ns,
            segments: track.segments(),
            next: 0,
            excused_until: 0,
            refetched: None,
            untouched: 0,
            known: false,
        };
        self.lanes = std::iter::once(title.best()).chain(title.sound.first()).map(lane).collect();
        (self.choice, self.offered) = (offered, offered);
        let segment = match self.rng.permille(300) {
            true => self.rng.below(title.best().segments() as u64),
            false => 0,
        };
        self.language = self.any_language(title.sound.len());
        self.title = Some(title);
        self.seek(segment);
    }

    /// Whether it plays another language from here on: some players from what they ask for next,
    /// others from what they show now, and throw away what they have of the one before.
    pub fn choose_language(&mut self, now_ns: u64) {
        let languages = self.title.as_ref().map_or(0, |title| title.sound.len());
        if languages < 2 || !self.rng.permille(LANGUAGE_PERMILLE) {
            return;
        }
        self.language = self.any_language(languages);
        let (plays, position_ns) =
            (matches!(self.screen, Screen::Plays { .. }), self.screen.position_ns(now_ns));
        let is_at_once = self.rng.permille(500) && plays;
        let lane = self.lanes.iter_mut().find(|lane| lane.kind == MediaKind::Audio);
        let Some(lane) = lane.filter(|lane| is_at_once && lane.have_ns() > position_ns) else { return };
        // Fits: below what it has.
        lane.next = (position_ns / lane.segment_ns) as usize;
        lane.refetched = Some((lane.next, position_ns));
        lane.excused_until = lane.next + 2;
    }

    fn any_language(&mut self, languages: usize) -> usize {
        if languages > 1 { self.rng.below(languages as u64) as usize } else { 0 }
    }

    /// Whether it takes another rendition from here on, as bandwidth comes and goes.
    pub fn choose_rendition(&mut self) {
        let Some(title) = &self.title else { return };
        let (last, roll) = (title.pictures.len() - 1, self.rng.below(1000));
        if roll < STEPS_PERMILLE && self.choice < last {
            self.choice += 1;
        } else if roll >= 1000 - STEPS_PERMILLE && self.choice > self.offered {
            self.choice -= 1 + self.rng.below((self.choice - self.offered) as u64) as usize;
        }
    }

    /// What it wants of a media kind at this moment, if nothing of it is under way.
    pub fn want(&self, kind: MediaKind, now_ns: u64) -> Want {
        let Some(lane) = self.lane(kind) else { return Want::Nothing };
        let ahead_ns = lane.have_ns().saturating_sub(self.screen.position_ns(now_ns));
        if lane.next >= lane.segments {
            return Want::Nothing;
        }
        let keeps_ns = self.buffer_ns.max(2 * lane.segment_ns);
        if ahead_ns + lane.segment_ns <= keeps_ns {
            return Want::Segment(lane.next);
        }
        // A paused player is woken when the simulation lets it continue.
        Want::Sleep(now_ns + (ahead_ns + lane.segment_ns - keeps_ns))
    }

    /// When it will have shown all of its title; `None` while something is still to be asked for.
    pub fn ends_ns(&self, now_ns: u64) -> Option<u64> {
        let has_all = self.lanes.iter().all(|lane| lane.next >= lane.segments);
        let end_ns = self.lanes.first().map_or(0, |lane| lane.segments as u64 * lane.segment_ns);
        has_all.then(|| match self.screen {
            Screen::Paused { .. } => now_ns + BUFFER_NS,
            _ => now_ns + end_ns.saturating_sub(self.screen.position_ns(now_ns)),
        })
    }

    /// Whether a start or a seek has not come to a picture yet.
    pub fn begins(&self) -> bool {
        matches!(self.screen, Screen::Waits { .. })
    }

    /// Whether it has received a segment of this media kind since its last seek or pause. It plays
    /// on then.
    pub fn continues(&self, kind: MediaKind) -> bool {
        self.lane(kind).is_some_and(|lane| lane.untouched > 0)
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        matches!(self.screen, Screen::Paused { .. })
    }

    /// It has all of the segment that it requested of a media kind. Returns how long it stood still
    /// for it, if it did.
    pub fn segment_received(&mut self, kind: MediaKind, now_ns: u64) -> Option<u64> {
        let late_ns = self.late_by(kind, now_ns);
        let (is_paused, position_ns) = (self.is_paused(), self.screen.position_ns(now_ns));
        let buffer_ns = self.buffer_ns;
        let lane = self.lanes.iter_mut().find(|lane| lane.kind == kind)?;
        let segment_ns = lane.have_ns();
        let refetched = lane.refetched.take().filter(|(segment, _)| *segment == lane.next);
        lane.next += 1;
        lane.untouched += 1;
        lane.known |= lane.untouched > (buffer_ns / lane.segment_ns) as usize + STEADY_REQUESTS as usize;
        match self.screen {
            Screen::Waits { media_ns } if self.lanes.iter().all(|lane| lane.may_begin(media_ns)) => {
                self.screen = Screen::Plays { since_ns: now_ns, media_ns };
            }
            Screen::Plays { .. } if let Some((_, media_ns)) = refetched => {
                self.screen = Screen::Plays { since_ns: now_ns, media_ns };
            }
            Screen::Plays { .. } if !is_paused && position_ns > segment_ns => {
                self.screen = Screen::Plays { since_ns: now_ns, media_ns: segment_ns };
            }
            _ => {}
        }
        self.stalled_ns += late_ns.unwrap_or(0);
        late_ns
    }

    /// The media kind that has stopped the picture for longest, and for how long; `None` while it
    /// plays, is paused or has just started.
    pub fn late_ns(&self, now_ns: u64) -> Option<(MediaKind, u64)> {
        let late = |lane: &Lane| Some((lane.kind, self.late_by(lane.kind, now_ns)?));
        self.lanes.iter().filter_map(late).max_by_key(|(_, late_ns)| *late_ns)
    }

    /// The time of the viewer's next action.
    pub fn next_control_ns(&mut self, now_ns: u64) -> u64 {
        let mean_ns = if matches!(self.screen, Screen::Paused { .. }) {
            self.spec.pause_ns
        } else {
            self.spec.restless_ns
        };
        now_ns + self.rng.wait_ns(mean_ns)
    }

    /// The viewer's next action.
    pub fn touch(&mut self, now_ns: u64) -> PlayerControl {
        self.lanes.iter_mut().for_each(|lane| lane.untouched = 0);
        let Some(segments) = self.title.as_ref().map(|title| title.best().segments() as u64) else {
            return PlayerControl::Stop;
        };
        let have_ns = self.lanes.iter().map(Lane::have_ns).min().unwrap_or(0);
        match self.screen {
            Screen::Paused { media_ns } => {
                self.screen = Screen::Plays { since_ns: now_ns, media_ns };
                PlayerControl::Resume
            }
            Screen::Plays { .. } if self.rng.permille(500) => {
                let media_ns = self.screen.position_ns(now_ns).min(have_ns);
                self.screen = Screen::Paused { media_ns };
                PlayerControl::Pause
            }
            Screen::Plays { .. } if self.rng.permille(300) && self.lanes.iter().all(|lane| lane.known) => {
                let media_ns = self.screen.position_ns(now_ns) + SKIP_NS;
                if media_ns < have_ns {
                    self.screen = Screen::Plays { since_ns: now_ns, media_ns };
                    self.lanes.iter_mut().for_each(|lane| lane.excused_until = lane.next + 2);
                    return PlayerControl::Skip;
                }
                self.seek((media_ns / MOVING_SEGMENT_NS).min(segments - 1));
                PlayerControl::Seek
            }
            _ if self.rng.permille(700) => {
                let segment = self.rng.below(segments);
                self.seek(segment);
                PlayerControl::Seek
            }
            _ => PlayerControl::Stop,
        }
    }

    /// It goes away; when it comes back.
    pub fn leave(&mut self, now_ns: u64) -> u64 {
        self.title = None;
        self.lanes.clear();
        now_ns + 1 + self.rng.wait_ns(self.spec.think_ns)
    }

    /// Goes to where a segment of the pictures begins; the sound of that time is needed, too.
    fn seek(&mut self, segment: u64) {
        let media_ns = segment * MOVING_SEGMENT_NS;
        for lane in &mut self.lanes {
            // Fits: below the segments of a title.
            lane.next = ((media_ns / lane.segment_ns) as usize).min(lane.segments - 1);
            lane.excused_until = 0;
            lane.refetched = None;
        }
        self.screen = Screen::Waits { media_ns };
    }

    /// How long it has shown nothing because this media kind is missing.
    fn late_by(&self, kind: MediaKind, now_ns: u64) -> Option<u64> {
        let Screen::Plays { .. } = self.screen else { return None };
        let lane = self.lane(kind)?;
        let is_due = (lane.excused_until..lane.segments).contains(&lane.next);
        let late_ns = self.screen.position_ns(now_ns).checked_sub(lane.have_ns())?;
        (is_due && late_ns > 0).then_some(late_ns)
    }

    fn lane(&self, kind: MediaKind) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.kind == kind)
    }
}

impl Lane {
    /// Whether it has enough to begin with at this media time.
    fn may_begin(&self, media_ns: u64) -> bool {
        self.have_ns() >= media_ns + BEGINS_WITH_NS || self.next >= self.segments
    }

    /// Up to which media time it has everything.
    fn have_ns(&self) -> u64 {
        self.next as u64 * self.segment_ns
    }
}
