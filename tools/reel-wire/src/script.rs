//! What a viewer asks for, one response after another. Pure.
//!
//! The player of `reel-load` stalls, seeks and changes renditions. This one takes one rendition by
//! a schedule that never moves, so that all servers are given the same work.

use super::response::Answer;
use anyhow::{Context, Result, bail, ensure};
use reel_testkit::{Media, Playlist, Url};
use std::ops::Range;

/// Redirects that are followed for one request, as browsers do.
const REDIRECTS_MAX: usize = 20;

/// One request for a file or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Path and query.
    pub target: String,
    /// The bytes that are asked for; `None`: all.
    pub range: Option<Range<u64>>,
    /// Whether its bytes are handed over and kept, not only counted.
    pub keep: bool,
}

/// How a viewer takes a film.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// The next segment as soon as the last one is there, from the beginning again after the last.
    Flat,
    /// As a player: begins with `startup_ns` of film, holds up to `buffer_ns`, then waits.
    Playing {
        /// Media that must be there before the picture moves.
        startup_ns: u64,
        /// Media that is held at most.
        buffer_ns: u64,
    },
    /// As a player whose schedule does not depend on the server.
    Timed(Timed),
}

/// The schedule of a timed player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// The picture moves this long after the player came, whatever it has received by then.
    pub startup_ns: u64,
    /// Media that is held at most.
    pub buffer_ns: u64,
    /// The player begins with the segment of this media time.
    pub from_ns: u64,
    /// What arrives later than this after the crowd's start is counted separately: all players play
    /// by then.
    pub settled_ns: u64,
}

/// What a viewer does.
#[derive(Clone, Debug)]
pub enum Visit {
    /// These requests, one after another.
    Pieces(Vec<Request>),
    /// A film by HLS: the first rendition, pictures only.
    Film {
        /// The address of its playlist.
        playlist: Url,
        /// How fast it is taken.
        pace: Pace,
        /// When the viewer begins, after the crowd.
        begins_ns: u64,
        /// Whether all of it is kept.
        keep: bool,
    },
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Get(Request),
    /// Ask again then.
    WaitUntil(u64),
    Done,
}

/// Media bytes that were late, and how much was shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PlaybackCounts {
    pub(super) segments: u64,
    pub(super) late_segments: u64,
    pub(super) late_bytes: u64,
    pub(super) latest_ns: u64,
    /// Segments that had not come at the end though they were due.
    pub(super) missing_segments: u64,
    /// From coming to the first segment; of timed players.
    pub(super) startup_ns: Option<u64>,
    /// Media that came after all viewers played; of timed players.
    pub(super) settled_media_ns: u64,
}

/// The progress of a viewer's visit.
#[derive(Debug)]
pub(super) struct Script {
    visit: Visit,
    /// Pieces that were asked for; or segments of the film.
    next: usize,
    at: Url,
    media: Option<Media>,
    /// Whether what must be read before the segments was asked for.
    begun: bool,
    redirects: usize,
    /// The segment that the viewer began with.
    first: usize,
    /// When the film's first picture was shown, less what was skipped: before the clock's zero, for
    /// a viewer that began far into the film.
    epoch_ns: Option<i64>,
    pub(super) shown: PlaybackCounts,
}

impl Script {
    /// A viewer's way, by a clock that shows `start_ns` when the crowd comes.
    pub(super) fn new(mut visit: Visit, start_ns: u64) -> Result<Self> {
        let at = match &mut visit {
            Visit::Film { playlist, begins_ns, pace, .. } => {
                *begins_ns += start_ns;
                if let Pace::Timed(timed) = pace {
                    timed.settled_ns += start_ns;
                }
                playlist.clone()
            }
            Visit::Pieces(_) => Url::parse("http://wire/")?,
        };
        Ok(Self {
            visit,
            next: 0,
            at,
            media: None,
            begun: false,
            redirects: 0,
            first: 0,
            epoch_ns: None,
            shown: PlaybackCounts::default(),
        })
    }

    /// What to do at `now_ns`.
    pub(super) fn step(&self, now_ns: u64) -> Result<Step> {
        let (pace, begins_ns, keep) = match &self.visit {
            Visit::Pieces(wants) => return Ok(wants.get(self.next).cloned().map_or(Step::Done, Step::Get)),
            Visit::Film { pace, begins_ns, keep, .. } => (*pace, *begins_ns, *keep),
        };
        if now_ns < begins_ns {
            return Ok(Step::WaitUntil(begins_ns));
        }
        let Some(media) = &self.media else {
            return Ok(Step::Get(Request { target: self.at.target.clone(), range: None, keep: true }));
        };
        let piece = match &media.init {
            Some(init) if !self.begun => init,
            _ => match (media.segments.get(self.next), pace) {
                (Some(piece), _) => piece,
                (None, Pace::Flat) => &media.segments[0],
                (None, Pace::Playing { .. } | Pace::Timed(_)) => return Ok(Step::Done),
            },
        };
        let buffer_ns = match pace {
            Pace::Flat => None,
            Pace::Playing { buffer_ns, .. } => Some(buffer_ns),
            // Before the picture moves, what fits the buffer may be fetched.
            Pace::Timed(timed) => {
                let held_ns = media.borders_ns.get(self.next + 1).copied().unwrap_or(0);
                let first_ns = media.borders_ns[self.first];
                Some(timed.buffer_ns).filter(|buffer_ns| held_ns - first_ns > *buffer_ns)
            }
        };
        if let (Some(buffer_ns), Some(epoch_ns)) = (buffer_ns, self.epoch_ns) {
            // The segment may be fetched when the film is so near that it still fits the buffer.
            let end_ns = media.borders_ns.get(self.next + 1).copied().unwrap_or(0);
            let may_ns = at(epoch_ns, end_ns).saturating_sub(buffer_ns);
            if now_ns < may_ns {
                return Ok(Step::WaitUntil(may_ns));
            }
        }
        let target = piece.url(&self.at)?.target;
        Ok(Step::Get(Request { target, range: piece.range.map(|(from, count)| from..from + count), keep }))
    }

    /// What was asked for is there.
    pub(super) fn answered(&mut self, now_ns: u64, answer: &Answer) -> Result<()> {
        let status = answer.head.status;
        if let Visit::Pieces(_) = self.visit {
            ensure!(matches!(status, 200 | 206), "the server answered {status}");
            self.next += 1;
            return Ok(());
        }
        if let (300..400, Some(location)) = (status, &answer.head.location) {
            self.redirects += 1;
            ensure!(self.redirects <= REDIRECTS_MAX, "redirected more than {REDIRECTS_MAX} times");
            self.at = self.at.join(location)?;
            return Ok(());
        }
        ensure!(matches!(status, 200 | 206), "the server answered {status}");
        let Some(media) = &self.media else {
            let body = answer.body.as_deref().context("a playlist that was not kept")?;
            return self.read_playlist(std::str::from_utf8(body)?);
        };
        if !self.begun && media.init.is_some() {
            self.begun = true;
            return Ok(());
        }
        self.took_segment(now_ns, answer.head.body_bytes);
        Ok(())
    }

    fn read_playlist(&mut self, text: &str) -> Result<()> {
        match Playlist::parse(text)? {
            Playlist::Master(master) => {
                let variant = master.variants.first().context("a title without renditions")?;
                self.at = self.at.join(&variant.uri)?;
            }
            Playlist::Media(media) => {
                if media.segments.is_empty() {
                    bail!("a playlist without segments");
                }
                if let Visit::Film { pace: Pace::Timed(timed), begins_ns, .. } = &self.visit {
                    let later = media.borders_ns.partition_point(|border| *border <= timed.from_ns);
                    self.first = later.saturating_sub(1).min(media.segments.len() - 1);
                    self.next = self.first;
                    let moves_ns = (begins_ns + timed.startup_ns) as i64;
                    self.epoch_ns = Some(moves_ns - media.borders_ns[self.first] as i64);
                }
                self.media = Some(media);
            }
        }
        Ok(())
    }

    /// Nothing more comes: what is missing though it is due is late, too.
    pub(super) fn ended(&mut self, now_ns: u64) {
        let Visit::Film { pace: Pace::Timed(timed), begins_ns, .. } = &self.visit else { return };
        let (Some(media), Some(epoch_ns)) = (&self.media, self.epoch_ns) else {
            self.shown.missing_segments += u64::from(now_ns > begins_ns + timed.startup_ns);
            return;
        };
        let missing = &media.borders_ns[self.next..media.segments.len()];
        let due = missing.iter().take_while(|begins_ns| at(epoch_ns, **begins_ns) < now_ns);
        self.shown.missing_segments += due.count() as u64;
    }

    fn took_segment(&mut self, now_ns: u64, bytes: u64) {
        let Some(media) = &self.media else { return };
        let segment = self.next.min(media.segments.len() - 1);
        self.shown.segments += 1;
        self.next = segment + 1;
        let Visit::Film { pace, begins_ns, .. } = &self.visit else { return };
        let startup_ns = match pace {
            Pace::Flat => {
                if self.next >= media.segments.len() {
                    self.next = 0;
                }
                return;
            }
            Pace::Playing { startup_ns, .. } => *startup_ns,
            Pace::Timed(timed) => {
                self.shown.startup_ns.get_or_insert(now_ns.saturating_sub(*begins_ns));
                if now_ns >= timed.settled_ns {
                    self.shown.settled_media_ns += media.borders_ns[segment + 1] - media.borders_ns[segment];
                }
                // Its epoch is known before anything comes.
                u64::MAX
            }
        };
        match self.epoch_ns {
            None if media.borders_ns[segment + 1] >= startup_ns => self.epoch_ns = Some(now_ns as i64),
            None => {}
            Some(epoch_ns) => {
                // A segment is shown from its beginning; all of it counts as late if its end came
                // after that.
                let due_ns = at(epoch_ns, media.borders_ns[segment]);
                if now_ns > due_ns {
                    self.shown.late_segments += 1;
                    self.shown.late_bytes += bytes;
                    self.shown.latest_ns = self.shown.latest_ns.max(now_ns - due_ns);
                }
            }
        }
    }
}

/// When media time `media_ns` is shown.
fn at(epoch_ns: i64, media_ns: u64) -> u64 {
    epoch_ns.saturating_add_unsigned(media_ns).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::super::response::Head;
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const MASTER: &str = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000\nvideo.m3u8\n";
    const MEDIA: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:4,\na.m4s\n#EXTINF:4,\nb.m4s\n\
                         #EXTINF:4,\nc.m4s\n#EXT-X-ENDLIST\n";

    fn answer(status: u16, location: Option<&str>, body: &str) -> Answer {
        let body_bytes = body.len() as u64;
        let location = location.map(str::to_owned);
        let head = Head { status, head_bytes: 1, body_bytes, location, closes: false };
        Answer { head, body: Some(body.into()) }
    }

    fn film(pace: Pace) -> Script {
        let playlist = Url::parse("http://wire/watch/film").expect("a url");
        Script::new(Visit::Film { playlist, pace, begins_ns: 2, keep: false }, 3).expect("a script")
    }

    fn asks(script: &Script, now_ns: u64) -> String {
        match script.step(now_ns).expect("a step") {
            Step::Get(want) => format!("{}{}", want.target, if want.keep { " kept" } else { "" }),
            Step::WaitUntil(at) => format!("wait {at}"),
            Step::Done => "done".into(),
        }
    }

    fn to_first_segment(script: &mut Script) {
        assert_eq!(asks(script, 0), "wait 5");
        assert_eq!(asks(script, 5), "/watch/film kept");
        script.answered(5, &answer(307, Some("/s/key/master.m3u8"), "")).expect("a redirect");
        assert_eq!(asks(script, 6), "/s/key/master.m3u8 kept");
        script.answered(6, &answer(200, None, MASTER)).expect("a master playlist");
        script.answered(7, &answer(200, None, MEDIA)).expect("a media playlist");
        assert_eq!(asks(script, 8), "/s/key/init.mp4");
        script.answered(8, &answer(200, None, "init")).expect("what comes first");
        assert_eq!(asks(script, 9), "/s/key/a.m4s");
    }

    #[test]
    fn a_flat_viewer_goes_round() {
        let mut script = film(Pace::Flat);
        to_first_segment(&mut script);
        let mut asked = Vec::new();
        for now_ns in 10..15 {
            asked.push(asks(&script, now_ns));
            script.answered(now_ns, &answer(200, None, "media")).expect("a segment");
        }
        assert_eq!(asked, ["/s/key/a.m4s", "/s/key/b.m4s", "/s/key/c.m4s", "/s/key/a.m4s", "/s/key/b.m4s"]);
        assert_eq!(script.shown, PlaybackCounts { segments: 5, ..PlaybackCounts::default() });
    }

    #[test]
    fn a_player_waits_for_room_and_notices_what_is_late() {
        let mut script = film(Pace::Playing { startup_ns: 4 * SECOND_NS, buffer_ns: 6 * SECOND_NS });
        to_first_segment(&mut script);
        script.answered(10 * SECOND_NS, &answer(200, None, "first")).expect("a segment");
        // The film began at 10 s; the second segment ends at 8 s of it, and 6 s may be held.
        assert_eq!(asks(&script, 10 * SECOND_NS), format!("wait {}", 12 * SECOND_NS));
        assert_eq!(asks(&script, 12 * SECOND_NS), "/s/key/b.m4s");
        script.answered(14 * SECOND_NS, &answer(200, None, "just in time")).expect("a segment");
        assert_eq!(script.shown.late_bytes, 0);
        script.answered(18 * SECOND_NS + 1, &answer(200, None, "late")).expect("a segment");
        let late = PlaybackCounts {
            segments: 3,
            late_segments: 1,
            late_bytes: 4,
            latest_ns: 1,
            ..PlaybackCounts::default()
        };
        assert_eq!(script.shown, late);
        assert_eq!(asks(&script, 20 * SECOND_NS), "done");
    }

    #[test]
    fn a_timed_player_keeps_its_schedule_whatever_arrives() {
        let timed = Timed {
            startup_ns: 2 * SECOND_NS,
            buffer_ns: 4 * SECOND_NS,
            from_ns: 5 * SECOND_NS,
            settled_ns: 4 * SECOND_NS,
        };
        let mut script = film(Pace::Timed(timed));
        script.answered(5, &answer(200, None, MASTER)).expect("a master playlist");
        script.answered(6, &answer(200, None, MEDIA)).expect("a media playlist");
        script.answered(7, &answer(200, None, "init")).expect("what comes first");
        // Second 5 of the film lies in its second segment, which is due 2 s after the viewer came
        // (at 5 ns).
        assert_eq!(asks(&script, 8), "/watch/b.m4s");
        script.answered(2 * SECOND_NS + 6, &answer(200, None, "late")).expect("a segment");
        assert_eq!((script.shown.late_bytes, script.shown.latest_ns), (4, 1));
        assert_eq!(script.shown.startup_ns, Some(2 * SECOND_NS + 1));
        // The third ends 8 s after where the viewer began: 4 s of it fit when the picture has moved
        // for 4.
        assert_eq!(asks(&script, 3 * SECOND_NS), format!("wait {}", 6 * SECOND_NS + 5));
        let mut without = film(Pace::Timed(timed));
        without.answered(5, &answer(200, None, MEDIA)).expect("a media playlist");
        script.answered(6 * SECOND_NS + 5, &answer(200, None, "in time")).expect("a segment");
        script.ended(100 * SECOND_NS);
        let shown = script.shown;
        assert_eq!((shown.segments, shown.late_segments, shown.missing_segments), (2, 1, 0));
        assert_eq!(shown.settled_media_ns, 4 * SECOND_NS, "only what came after the fourth second");
        // Two segments were due when it ended, the second of them 6 s after the viewer came.
        without.ended(6 * SECOND_NS + 5);
        assert_eq!(without.shown.missing_segments, 1);
        without.ended(6 * SECOND_NS + 6);
        assert_eq!(without.shown.missing_segments, 1 + 2);
    }

    #[test]
    fn a_refusal_is_an_error() {
        assert!(film(Pace::Flat).answered(9, &answer(503, None, "")).is_err());
    }
}
