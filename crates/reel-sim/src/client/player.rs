//! A player of segments with a buffer, and the person before it.

use crate::limits::{BUFFER_LEAST_NS, BUFFER_NS, SEGMENT_NS, SKIP_NS};
use crate::rng::Rng;
use crate::shelf::{Shelf, Title};
use reel_stream::limits::STEADY_ASKS;
use std::sync::Arc;

/// How people watch: the means of what they do.
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
    /// The segment it asks for next, or is being given.
    next: usize,
    show: Show,
    /// The first segment that has to be in time again after a skip: how fast a jump is nobody promises, and the server sees only what is
    /// asked for after it.
    excused_until: usize,
    /// Segments it has taken since somebody touched it, and whether they were once enough to see from how far its buffer reaches: a skip before that
    /// cannot be told from a larger buffer.
    untouched: usize,
    known: bool,
    /// What it keeps ahead.
    buffer_ns: u64,
    /// For how long it has stood still in all.
    pub stalled_ns: u64,
}

/// What is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Show {
    /// Waits for the first segment of a start, a seek, or after a stall.
    Waits,
    /// Media time `media_ns` was shown at `since_ns`.
    Plays { since_ns: u64, media_ns: u64 },
    /// Stands still.
    Paused { media_ns: u64 },
}

/// What a player wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// This segment of its title.
    Segment(usize),
    /// Nothing before then.
    Sleep(u64),
    /// Nothing: the title is over.
    Leave,
}

/// What a person does to a player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Holds it still; what is buffered stays.
    Pause,
    /// Lets it go on.
    Resume,
    /// Jumps to a segment; what is buffered and under way is of no use.
    Seek,
    /// Jumps ahead to what is buffered: nobody is asked for that.
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
    /// A viewer who watches nothing yet.
    pub fn new(spec: PlayerSpec, mut rng: Rng) -> Player {
        let buffer_ns = rng.range(BUFFER_LEAST_NS, BUFFER_NS + 1);
        Player {
            buffer_ns,
            spec,
            rng,
            title: None,
            next: 0,
            show: Show::Waits,
            excused_until: 0,
            untouched: 0,
            known: false,
            stalled_ns: 0,
        }
    }

    /// What it watches.
    pub fn title(&self) -> Option<&Arc<Title>> {
        self.title.as_ref()
    }

    /// The segment it asks for next, or is being given.
    pub fn next_segment(&self) -> usize {
        self.next
    }

    /// Chooses a title, to be watched from its start or, now and then, from somewhere in it.
    pub fn choose(&mut self, shelf: &Shelf) -> Arc<Title> {
        let title = Arc::clone(shelf.choose(&mut self.rng));
        self.next = if self.rng.permille(300) { self.rng.below(title.segments() as u64) as usize } else { 0 };
        title
    }

    /// It has been let in to what it chose.
    pub fn open(&mut self, title: Arc<Title>) {
        (self.title, self.show) = (Some(title), Show::Waits);
        (self.excused_until, self.untouched, self.known) = (0, 0, false);
    }

    /// What it wants at this moment, if nothing is under way.
    pub fn want(&self, now_ns: u64) -> Want {
        let Some(title) = &self.title else { return Want::Leave };
        let have_ns = self.next as u64 * SEGMENT_NS;
        let ahead_ns = have_ns.saturating_sub(self.position_ns(now_ns));
        if self.next >= title.segments() {
            return match self.show {
                _ if ahead_ns == 0 => Want::Leave,
                Show::Paused { .. } => Want::Sleep(now_ns + BUFFER_NS),
                _ => Want::Sleep(now_ns + ahead_ns),
            };
        }
        if ahead_ns + SEGMENT_NS <= self.buffer_ns {
            return Want::Segment(self.next);
        }
        // A paused player is woken by whoever lets it go on.
        Want::Sleep(now_ns + (ahead_ns + SEGMENT_NS - self.buffer_ns))
    }

    /// Whether the segment that comes next begins a start, a seek, or goes on after a stall.
    pub fn begins(&self) -> bool {
        self.show == Show::Waits
    }

    /// Whether it stands still because somebody wants it to.
    pub fn is_paused(&self) -> bool {
        matches!(self.show, Show::Paused { .. })
    }

    /// When the next segment must be shown, if the player is left alone.
    pub fn due_ns(&self, now_ns: u64) -> u64 {
        let ahead_ns = (self.next as u64 * SEGMENT_NS).saturating_sub(self.position_ns(now_ns));
        now_ns + if self.begins() { SEGMENT_NS / 4 } else { ahead_ns }
    }

    /// It has all of the segment it asked for. How long it stood still for it, if it did.
    pub fn has(&mut self, now_ns: u64) -> Option<u64> {
        let segment_ns = self.next as u64 * SEGMENT_NS;
        let late_ns = self.late_ns(now_ns);
        self.next += 1;
        self.untouched += 1;
        self.known |= self.untouched > (self.buffer_ns / SEGMENT_NS) as usize + STEADY_ASKS as usize;
        if self.show == Show::Waits || (!self.is_paused() && self.position_ns(now_ns) > segment_ns) {
            self.show = Show::Plays { since_ns: now_ns, media_ns: segment_ns };
        }
        self.stalled_ns += late_ns.unwrap_or(0);
        late_ns
    }

    /// For how long it has shown nothing for want of the next segment; `None` while it shows something, is paused or has just begun.
    pub fn late_ns(&self, now_ns: u64) -> Option<u64> {
        let Show::Plays { .. } = self.show else { return None };
        self.title.as_ref().filter(|title| (self.excused_until..title.segments()).contains(&self.next))?;
        self.position_ns(now_ns).checked_sub(self.next as u64 * SEGMENT_NS).filter(|late_ns| *late_ns > 0)
    }

    /// When the person does something next.
    pub fn next_touch_ns(&mut self, now_ns: u64) -> u64 {
        let mean_ns =
            if matches!(self.show, Show::Paused { .. }) { self.spec.pause_ns } else { self.spec.restless_ns };
        now_ns + self.rng.wait_ns(mean_ns)
    }

    /// The person does something; what it is.
    pub fn touch(&mut self, now_ns: u64) -> Touch {
        self.untouched = 0;
        let Some(segments) = self.title.as_ref().map(|title| title.segments() as u64) else {
            return Touch::Stop;
        };
        match self.show {
            Show::Paused { media_ns } => {
                self.show = Show::Plays { since_ns: now_ns, media_ns };
                Touch::Resume
            }
            Show::Plays { .. } if self.rng.permille(500) => {
                let media_ns = self.position_ns(now_ns).min(self.next as u64 * SEGMENT_NS);
                self.show = Show::Paused { media_ns };
                Touch::Pause
            }
            Show::Plays { .. } if self.rng.permille(300) && self.known => {
                let media_ns = self.position_ns(now_ns) + SKIP_NS;
                if media_ns < self.next as u64 * SEGMENT_NS {
                    self.show = Show::Plays { since_ns: now_ns, media_ns };
                    self.excused_until = self.next + 2;
                    return Touch::Skip;
                }
                self.next = ((media_ns / SEGMENT_NS) as usize).min(segments as usize - 1);
                (self.show, self.excused_until) = (Show::Waits, 0);
                Touch::Seek
            }
            _ if self.rng.permille(700) => {
                self.next = self.rng.below(segments) as usize;
                (self.show, self.excused_until) = (Show::Waits, 0);
                Touch::Seek
            }
            _ => Touch::Stop,
        }
    }

    /// It goes away; when it comes back.
    pub fn leave(&mut self, now_ns: u64) -> u64 {
        self.title = None;
        now_ns + 1 + self.rng.wait_ns(self.spec.think_ns)
    }

    /// The media time on the screen.
    fn position_ns(&self, now_ns: u64) -> u64 {
        match self.show {
            Show::Waits => self.next as u64 * SEGMENT_NS,
            Show::Plays { since_ns, media_ns } => media_ns + (now_ns - since_ns),
            Show::Paused { media_ns } => media_ns,
        }
    }
}
