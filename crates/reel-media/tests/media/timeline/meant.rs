//! Timelines at random: when each picture and each frame of sound is meant to be shown. What is
//! compared with them is derived from nothing else.

use proptest::prelude::*;
use std::fmt;

/// Ticks per second of all times here.
pub(crate) const RATE: i64 = 90_000;
/// A frame of sound: 1024 samples at 48 kHz.
pub(crate) const SOUND_FRAME: i64 = 1920;

/// A picture or a frame of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Unique in its timeline, and part of its bytes.
    pub(crate) id: u32,
    pub(crate) dts: i64,
    pub(crate) pts: i64,
    pub(crate) key: bool,
}

/// A stretch with one clock.
#[derive(Clone)]
pub(crate) struct Part {
    /// Ticks of a picture.
    pub(crate) step: i64,
    /// In decoding order.
    pub(crate) pictures: Vec<Frame>,
    pub(crate) sound: Vec<Frame>,
}

impl Part {
    /// Thirty pictures, with a pause of six steps before one of them.
    pub(crate) fn paused(step: i64, b_frames: usize, before: usize) -> Part {
        let pictures = pictures(step, 30, 12, b_frames, &[(before, 6)]);
        Part { step, pictures, sound: Vec::new() }.numbered(0)
    }

    /// When its first picture is shown.
    pub(crate) fn picture_start(&self) -> Option<i64> {
        self.pictures.iter().map(|picture| picture.pts).min()
    }

    /// When its last picture ends.
    pub(crate) fn picture_end(&self) -> Option<i64> {
        self.pictures.iter().map(|picture| picture.pts + self.step).max()
    }

    /// When its sound begins.
    pub(crate) fn sound_start(&self) -> Option<i64> {
        self.sound.first().map(|frame| frame.pts)
    }

    /// When its sound ends.
    pub(crate) fn sound_end(&self) -> Option<i64> {
        self.sound.last().map(|frame| frame.pts + SOUND_FRAME)
    }

    /// When anything of it begins.
    pub(crate) fn start(&self) -> i64 {
        self.picture_start().into_iter().chain(self.sound_start()).min().unwrap_or(0)
    }

    /// When all of it has ended.
    pub(crate) fn end(&self) -> i64 {
        self.picture_end().into_iter().chain(self.sound_end()).max().unwrap_or(0)
    }

    /// The same, later.
    pub(crate) fn moved(&self, by: i64) -> Part {
        let moved = |frames: &[Frame]| {
            let later = |frame: &Frame| Frame { dts: frame.dts + by, pts: frame.pts + by, ..*frame };
            frames.iter().map(later).collect()
        };
        Part { step: self.step, pictures: moved(&self.pictures), sound: moved(&self.sound) }
    }

    /// The same frames with other numbers, from `first` on.
    pub(crate) fn numbered(mut self, first: u32) -> Part {
        let frames = self.pictures.iter_mut().chain(&mut self.sound);
        frames.zip(first..).for_each(|(frame, id)| frame.id = id);
        self
    }
}

/// In few lines: a failing timeline is to be read.
impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = |frames: &[Frame], step: i64| {
            let next = |a: &Frame, b: &Frame| (b.pts - a.pts - step).abs() < 2;
            let runs = frames.chunk_by(next).map(|run| format!("{}x{}", run[0].pts, run.len()));
            runs.collect::<Vec<_>>().join(" ")
        };
        let shown: Vec<String> = self
            .pictures
            .iter()
            .map(|p| format!("{}{}", if p.key { "I" } else { "" }, p.pts / self.step))
            .collect();
        let first = self.pictures.first().map(|picture| (picture.dts, picture.pts));
        write!(
            f,
            "step {} from {first:?}: {}; sound {}",
            self.step,
            shown.join(" "),
            steps(&self.sound, SOUND_FRAME)
        )
    }
}

/// What a part may have.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    /// Sound whose time stamps drift from the count of its samples.
    pub(crate) drift: bool,
    /// Sound or pictures alone.
    pub(crate) alone: bool,
}

prop_compose! {
    /// A part that begins near zero. Sound that begins before the pictures has negative times.
    pub(crate) fn part(kinds: Kinds)(
        step in prop::sample::select(vec![3600, 3003, 1800, 3750, 1500]),
        count in 30..150usize,
        key_distance in 5..60usize,
        b_frames in 0..4usize,
        pauses in prop::collection::vec((1..150usize, prop_oneof![3 => 1..60i64, 1 => 60..2000i64]), 0..3),
        sound_from in prop_oneof![3 => -2000..2000i64, 1 => -20_000..20_000i64],
        sound_longer in -3000..3000i64,
        gaps in prop::collection::vec((1..300usize, prop_oneof![3 => 2..80i64, 1 => 80..2000i64]), 0..3),
        drift in -40..40i64,
        alone in 0..12u32,
    ) -> Part {
        let pictures = pictures(step, count, key_distance, b_frames, &pauses);
        let end = pictures.iter().map(|picture| picture.pts).max().unwrap_or(0) + step;
        // Multiples of 15 are whole samples.
        let from = sound_from * 15;
        let until = end + sound_longer * 15;
        // Less than a frame in all.
        let is_short = until - from < 2000 * SOUND_FRAME;
        let drift = if kinds.drift && is_short && drift.abs() > 20 { drift } else { 0 };
        let sound = sound(from, until.max(from + 20 * SOUND_FRAME), &gaps, drift);
        match (kinds.alone, alone) {
            (true, 0) => Part { step, pictures, sound: Vec::new() },
            (true, 1) => Part { step, pictures: Vec::new(), sound },
            _ => Part { step, pictures, sound },
        }.numbered(0)
    }
}

/// Groups I P B B ...; `pauses` are numbers of pictures, and steps before them. The first is shown
/// at zero.
fn pictures(
    step: i64,
    count: usize,
    key_distance: usize,
    b_frames: usize,
    pauses: &[(usize, i64)],
) -> Vec<Frame> {
    let shown_at: Vec<i64> = (0..count)
        .map(|number| {
            let paused = pauses.iter().filter(|(at, _)| *at <= number).map(|(_, steps)| steps).sum::<i64>();
            (number as i64 + paused) * step
        })
        .collect();
    // Numbers in the order of presentation, in decoding order.
    let mut order = Vec::new();
    for group in (0..count).step_by(key_distance) {
        let end = (group + key_distance).min(count);
        order.push((group, true));
        let mut next = group + 1;
        while next < end {
            let anchor = (next + b_frames).min(end - 1);
            order.push((anchor, false));
            order.extend((next..anchor).map(|number| (number, false)));
            next = anchor + 1;
        }
    }
    let frame = |(place, (number, key)): (usize, (usize, bool))| {
        let dts = match (b_frames, place) {
            (0, _) => shown_at[place],
            (_, 0) => -step,
            _ => shown_at[place - 1],
        };
        Frame { id: 0, dts, pts: shown_at[number], key }
    };
    order.into_iter().enumerate().map(frame).collect()
}

/// Frames without gaps, except for `gaps`: numbers of frames, and frames that are left out before
/// them. `drift` is in ticks for 100 frames.
fn sound(from: i64, until: i64, gaps: &[(usize, i64)], drift: i64) -> Vec<Frame> {
    let mut at = from;
    let mut sound = Vec::new();
    while at + SOUND_FRAME <= until {
        let number = sound.len();
        at += gaps.iter().filter(|(place, _)| *place == number).map(|(_, frames)| frames).sum::<i64>()
            * SOUND_FRAME;
        let pts = at + number as i64 * drift / 100;
        sound.push(Frame { id: 0, dts: pts, pts, key: true });
        at += SOUND_FRAME;
    }
    sound
}
