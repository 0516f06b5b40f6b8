//! A player of a file in a mounted file system, its kernel, and the viewer that controls it.

use super::PlayerSpec;
use super::read_ahead::{ReadAhead, ReadAheadSpec};
use super::screen::Screen;
use crate::limits::{BEGINS_WITH_NS, FILE_BUFFER_NS, MOUNTED_CONNECTIONS, MOUNTED_READ_BYTES, MOUNTED_READS};
use crate::scale::OBJECT_SCALE;
use crate::title::{Title, Track};
use reel_testkit::Rng;
use std::ops::Range;
use std::sync::Arc;

/// One viewer whose player reads a file of a mounted file system.
pub struct Mounted {
    spec: PlayerSpec,
    rng: Rng,
    /// What the player keeps ahead of the screen.
    buffer_ns: u64,
    ahead: ReadAhead,
    title: Option<Arc<Title>>,
    screen: Screen,
    /// When the viewer acts next.
    control_ns: u64,
}

/// What a viewer does with a player of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountedControl {
    /// Holds it still.
    Pause,
    /// Lets it continue.
    Resume,
    /// Continues elsewhere.
    Seek,
    /// Lets a thumbnailer look at another film.
    Look,
    /// Turns it off.
    Stop,
}

impl Mounted {
    /// A mount and a player that plays nothing yet.
    pub fn new(spec: PlayerSpec, mut rng: Rng) -> Mounted {
        let ahead = ReadAheadSpec {
            read_bytes: (rng.pick(&MOUNTED_READ_BYTES) / OBJECT_SCALE).max(1),
            reads: rng.range(MOUNTED_READS.0, MOUNTED_READS.1 + 1),
            connections: rng.range(MOUNTED_CONNECTIONS.0, MOUNTED_CONNECTIONS.1 + 1),
        };
        Mounted {
            buffer_ns: rng.range(FILE_BUFFER_NS.0, FILE_BUFFER_NS.1 + 1),
            ahead: ReadAhead::new(ahead),
            spec,
            rng,
            title: None,
            screen: Screen::Waits { media_ns: 0 },
            control_ns: 0,
        }
    }

    /// What it plays.
    pub fn title(&self) -> Option<&Arc<Title>> {
        self.title.as_ref()
    }

    /// It plays a film from its start or, sometimes, from another place.
    pub fn open(&mut self, title: Arc<Title>) {
        let media_ns = if self.rng.permille(300) { self.rng.below(title.best().duration_ns()) } else { 0 };
        self.title = Some(title);
        self.seek(media_ns);
    }

    /// The reads that its kernel sends now, each with its lane, in the order in which they reach
    /// the server.
    pub fn sends(&mut self, now_ns: u64) -> Vec<(usize, Range<u64>)> {
        let Some(taken) = self.taken(now_ns) else { return Vec::new() };
        self.ahead.sends(taken, &mut self.rng)
    }

    /// When the kernel sends the next read, if nothing comes before that. `None` if that is not
    /// known yet.
    pub fn sends_next_ns(&self, now_ns: u64) -> Option<u64> {
        let (Some(track), Screen::Plays { .. }) = (self.track(), self.screen) else { return None };
        let shown_ns = track.media_ns(self.ahead.sends_next_at().max(1)).saturating_sub(self.buffer_ns);
        let position_ns = self.screen.position_ns(now_ns);
        (shown_ns >= position_ns).then(|| now_ns + (shown_ns - position_ns) + 1_000_000)
    }

    /// A read has come. Returns for how long the player has stood still, if it did.
    pub fn received(&mut self, lane: usize, now_ns: u64) -> Option<u64> {
        let late_ns = self.late_ns(now_ns);
        if !self.ahead.received(lane) {
            return None;
        }
        if late_ns.is_some() {
            self.stands_still();
        }
        self.begin(now_ns);
        late_ns
    }

    /// For how long the player has stood still, if it did not wait for a start or a seek.
    pub fn late_ns(&self, now_ns: u64) -> Option<u64> {
        let Screen::Plays { .. } = self.screen else { return None };
        let (position_ns, have_ns) = (self.screen.position_ns(now_ns), self.have_ns());
        (position_ns > have_ns && !self.ahead.has_all()).then(|| position_ns - have_ns)
    }

    /// What it had has come to its end: it waits, as after a seek, until there is enough.
    pub fn stands_still(&mut self) {
        self.screen = Screen::Waits { media_ns: self.have_ns() };
    }

    /// Whether it waits for the pictures of a start, a seek, or the end of what it had.
    pub fn begins(&self) -> bool {
        matches!(self.screen, Screen::Waits { .. })
    }

    /// Whether it plays and its buffer is full.
    pub fn is_full(&self, now_ns: u64) -> bool {
        let is_full = self.have_ns() >= self.screen.position_ns(now_ns) + self.buffer_ns;
        !self.begins() && (is_full || self.ahead.has_all())
    }

    /// When it will have shown all of its film; `None` while something is missing.
    pub fn ends_ns(&self, now_ns: u64) -> Option<u64> {
        let end_ns = self.track().filter(|_| self.ahead.has_all())?.duration_ns();
        let Screen::Plays { .. } = self.screen else { return None };
        Some(now_ns + end_ns.saturating_sub(self.screen.position_ns(now_ns)))
    }

    /// The time of the viewer's next action.
    pub fn next_control_ns(&mut self, now_ns: u64) -> u64 {
        let is_paused = matches!(self.screen, Screen::Paused { .. });
        let mean_ns = if is_paused { self.spec.pause_ns } else { self.spec.restless_ns };
        self.control_ns = now_ns + 1 + self.rng.wait_ns(mean_ns);
        self.control_ns
    }

    /// The viewer's next action, if it is the time of one.
    pub fn control(&mut self, now_ns: u64) -> Option<MountedControl> {
        let duration_ns = self.track().filter(|_| self.control_ns == now_ns)?.duration_ns();
        let roll = self.rng.below(1000);
        Some(match self.screen {
            Screen::Paused { media_ns } => {
                self.screen = Screen::Plays { since_ns: now_ns, media_ns };
                MountedControl::Resume
            }
            Screen::Plays { .. } if roll < 350 => {
                let media_ns = self.screen.position_ns(now_ns).min(self.have_ns());
                self.screen = Screen::Paused { media_ns };
                MountedControl::Pause
            }
            _ if roll < 650 => {
                let media_ns = self.rng.below(duration_ns);
                self.seek(media_ns);
                MountedControl::Seek
            }
            _ if roll < 850 => MountedControl::Look,
            _ => MountedControl::Stop,
        })
    }

    /// The reads of a thumbnailer that looks at the beginning and the end of a file of so many
    /// bytes.
    pub fn looks_at(&self, bytes: u64) -> Vec<Range<u64>> {
        let read_bytes = self.ahead.read_bytes();
        let starts = [0, read_bytes, bytes.saturating_sub(2 * read_bytes), bytes.saturating_sub(read_bytes)];
        let reads = starts.into_iter().map(|start| start..bytes.min(start + read_bytes));
        reads.filter(|range| range.start < range.end).collect()
    }

    /// It goes away; when it comes back. Its kernel finishes what it reads.
    pub fn leave(&mut self, now_ns: u64) -> u64 {
        self.title = None;
        self.ahead.seek(0, 0);
        (self.screen, self.control_ns) = (Screen::Waits { media_ns: 0 }, 0);
        now_ns + 1 + self.rng.wait_ns(self.spec.think_ns)
    }

    fn seek(&mut self, media_ns: u64) {
        let Some(track) = self.title.as_ref().map(|title| Arc::clone(title.best())) else { return };
        self.ahead.seek(track.offset_at(media_ns), track.map.bytes());
        self.screen = Screen::Waits { media_ns };
    }

    /// Begins to show what it waited for, if there is enough.
    fn begin(&mut self, now_ns: u64) {
        let Screen::Waits { media_ns } = self.screen else { return };
        if self.have_ns() >= media_ns + BEGINS_WITH_NS || self.ahead.has_all() {
            self.screen = Screen::Plays { since_ns: now_ns, media_ns };
        }
    }

    /// Up to which byte the player has taken what its kernel has: as far as its buffer reaches.
    fn taken(&self, now_ns: u64) -> Option<u64> {
        let reaches_ns = self.screen.position_ns(now_ns) + self.buffer_ns;
        Some(self.track()?.offset_at(reaches_ns).min(self.ahead.front()))
    }

    /// Up to which media time it has everything.
    fn have_ns(&self) -> u64 {
        self.track().map_or(0, |track| track.media_ns(self.ahead.front()))
    }

    fn track(&self) -> Option<&Arc<Track>> {
        self.title.as_ref().map(|title| title.best())
    }
}
