//! Sound of a stream: which frames are a description of their own, and when each frame is heard.

use super::audio::Described;
use super::clock::RATE;
use super::stream::Unit;
use crate::input::warnings::Warnings;
use crate::times::{self, Places};
use crate::{Description, limits};
use std::collections::VecDeque;

/// Divides the frames of a stream into runs that are coded alike. A run that is too short is left
/// out: damaged headers look like one.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    current: Option<Described>,
    /// The newest frames, if they differ from `current` and it is not yet known whether that lasts.
    trial: Option<Trial>,
    /// Changes that were made.
    pub(crate) changes: Changes,
    /// Ticks of sound that are left out, and where the first of them is.
    pub(crate) left_out: LeftOut,
    /// The frame before was left out.
    within: bool,
}

/// Where the descriptions of a stream change.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// How many there are.
    pub(crate) count: usize,
    /// The time of the first ones, and what changes.
    pub(crate) named: Vec<(i64, String)>,
}

/// Sound that is left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// Where it begins.
    pub(crate) first: Option<i64>,
    /// Its length, in 90 kHz ticks.
    pub(crate) ticks: i64,
}

#[derive(Debug)]
struct Trial {
    described: Described,
    units: Vec<Unit>,
    ticks: i64,
}

impl Changes {
    /// Notes a change.
    pub(crate) fn add(&mut self, at: i64, to: String) {
        self.count += 1;
        if self.named.len() < limits::TS_CHANGE_WARNINGS {
            self.named.push((at, to));
        }
    }
}

impl LeftOut {
    fn add(&mut self, at: Option<i64>, ticks: i64) {
        self.first = self.first.or(at);
        self.ticks = self.ticks.saturating_add(ticks);
    }
}

impl Runs {
    /// How the frames that were given are coded.
    pub(crate) fn current(&self) -> Option<&Described> {
        self.current.as_ref()
    }

    /// Whether the next frame need not follow the last one that was given.
    pub(crate) fn is_apart(&self) -> bool {
        self.within || self.trial.is_some()
    }

    /// Takes a frame of `ticks`, and how it is coded, if it can be decoded at all. Frames whose
    /// description is settled are appended to `units`.
    pub(crate) fn push(
        &mut self,
        described: Option<Described>,
        unit: Unit,
        ticks: i64,
        units: &mut VecDeque<Unit>,
    ) {
        let at = unit.pts;
        let fits = |described: &Described| match &self.current {
            Some(current) => {
                described.codec == current.codec
                    && (self.changes.count < limits::OUT_CHANGES || described.is_like(current))
            }
            None => true,
        };
        let Some(described) = described.filter(fits) else {
            self.abandon();
            self.left_out.add(at, ticks);
            self.within = true;
            return;
        };
        if self.current.as_ref().is_some_and(|current| described.is_like(current)) {
            self.abandon();
            self.within = false;
            units.push_back(unit);
            return;
        }
        if self.trial.as_ref().is_none_or(|trial| !described.is_like(&trial.described)) {
            self.abandon();
            self.trial = Some(Trial { described, units: Vec::new(), ticks: 0 });
        }
        let lasts = self.trial.as_mut().is_some_and(|trial| {
            trial.units.push(unit);
            trial.ticks += ticks;
            trial.ticks >= limits::TS_SOUND_LASTS_TICKS
        });
        if lasts {
            self.accept(units);
        }
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self, units: &mut VecDeque<Unit>) {
        // A short stream is better than none.
        if self.current.is_none() {
            self.accept(units);
        }
        self.abandon();
    }

    /// The newest frames are a run of their own.
    fn accept(&mut self, units: &mut VecDeque<Unit>) {
        let Some(mut trial) = self.trial.take() else { return };
        let Described { config, audio, .. } = trial.described.clone();
        if self.current.is_some() {
            let at = trial.units.iter().find_map(|unit| unit.pts).unwrap_or(0);
            self.changes.add(at, format!("{} channels at {} Hz", audio.channels, audio.sample_rate));
            if let Some(first) = trial.units.first_mut() {
                first.change = Some(Box::new(Description { config, video: None, audio: Some(audio) }));
            }
        }
        self.current = Some(trial.described);
        self.within = false;
        units.extend(trial.units);
    }

    /// The newest frames are too few to be a run.
    fn abandon(&mut self) {
        if let Some(trial) = self.trial.take() {
            let at = trial.units.iter().find_map(|unit| unit.pts);
            self.left_out.add(at, trial.ticks);
            self.within = true;
        }
    }
}

/// The times of a sound track, in ticks of its timescale: the sample rate of its first frames.
/// Frames of another rate are counted in their own samples, so that rounding does not add up.
#[derive(Debug)]
pub(crate) struct SoundLine {
    timescale: u32,
    /// Where counting began; `None` before the first frame.
    anchor: Option<i64>,
    /// Samples since then.
    samples: i64,
    /// Samples per second.
    rate: u32,
    /// End of the frames that were given.
    end: i64,
    /// A change whose first frame was not given.
    change: Option<Box<Description>>,
    /// Gaps and overlaps of a tenth of a second at least, and how long they are in all.
    gaps: (Places, i64),
    overlaps: (Places, i64),
}

/// The place of a frame, in ticks.
#[derive(Debug)]
pub(crate) struct Placed {
    /// When it is heard.
    pub(crate) pts: i64,
    /// How long.
    pub(crate) duration: u32,
    /// How the track is coded from here on, if that changes.
    pub(crate) change: Option<Box<Description>>,
}

impl SoundLine {
    /// For a track.
    pub(crate) fn new(timescale: u32) -> Self {
        Self {
            timescale,
            anchor: None,
            samples: 0,
            rate: timescale,
            end: 0,
            change: None,
            gaps: Default::default(),
            overlaps: Default::default(),
        }
    }

    /// The place of a frame that the stream states at `stated`, in 90 kHz ticks after zero; `None`
    /// if sound was already given for that time.
    pub(crate) fn place(&mut self, stated: Option<i64>, unit: &mut Unit) -> Option<Placed> {
        let change = unit.change.take().or(self.change.take());
        let stated = stated.map(|ticks| scaled(ticks, self.timescale, RATE));
        let next = self.anchor.map(|_| self.next());
        if self.rate != unit.rate {
            (self.anchor, self.samples, self.rate) = (next, 0, unit.rate);
        }
        let length = scaled(i64::from(unit.duration), self.timescale, self.rate);
        match (next, stated) {
            (Some(next), Some(stated)) if (stated - next).abs() > length => {
                self.note(next, stated - next);
                (self.anchor, self.samples) = (Some(stated), 0);
            }
            (Some(_), _) => {}
            (None, stated) => self.anchor = Some(stated.unwrap_or(0)),
        }
        let pts = self.next();
        self.samples += i64::from(unit.duration);
        let after = self.next();
        if next.is_some() && pts <= self.end - length {
            self.change = change;
            return None;
        }
        self.end = after;
        Some(Placed { pts, duration: u32::try_from(after - pts).unwrap_or(0), change })
    }

    /// Sound continues so many ticks after its end at `next`, or before it.
    fn note(&mut self, next: i64, ticks: i64) {
        let (places, sum) = if ticks > 0 { &mut self.gaps } else { &mut self.overlaps };
        if ticks.abs() * 10 >= i64::from(self.timescale) {
            places.add(Some(next));
            *sum = sum.saturating_add(ticks.abs());
        }
    }

    /// Warns of gaps and overlaps.
    pub(crate) fn report(&self, pid: u16, warnings: &mut Warnings) {
        for ((places, sum), name) in [(&self.gaps, "gap"), (&self.overlaps, "overlap")] {
            if places.count > 0 {
                let first = times::at(places.first.unwrap_or(0), self.timescale);
                let (count, sum) = (times::counted(places.count, name), times::lasting(*sum, self.timescale));
                warnings
                    .add(format!("sound of stream {pid} has {count}, the first at {first}: {sum} in all"));
            }
        }
    }

    /// Where the next frame belongs.
    fn next(&self) -> i64 {
        self.anchor.unwrap_or(0) + scaled(self.samples, self.timescale, self.rate)
    }
}

/// `value` of `from` per second as a count of `to` per second, rounded.
fn scaled(value: i64, to: u32, from: u32) -> i64 {
    let from = i128::from(from.max(1));
    let exact = i128::from(value) * i128::from(to);
    i64::try_from((exact + from / 2).div_euclid(from)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Audio, Codec};

    const FRAME: i64 = 1920;

    fn described(channels: u16) -> Option<Described> {
        let audio = Audio { channels, sample_rate: 48_000, sample_bits: 16, priming: 0 };
        Some(Described { codec: Codec::Ac3, config: Vec::new(), audio })
    }

    fn unit(pts: Option<i64>, rate: u32) -> Unit {
        let (change, data) = (None, Vec::new());
        Unit { stream: 0, pts, dts: 0, sync: true, duration: 1024, rate, data, change }
    }

    /// Channels of frames, and how many frames are left out and where the changes are among those
    /// that remain.
    fn run(channels: &[u16]) -> (usize, Vec<(usize, u16)>) {
        let (mut runs, mut units) = (Runs::default(), VecDeque::new());
        for (number, channels) in channels.iter().enumerate() {
            let frame = unit(Some(number as i64 * FRAME), 48_000);
            runs.push(described(*channels), frame, FRAME, &mut units);
        }
        runs.finish(&mut units);
        let changes = units.iter().enumerate().filter_map(|(at, unit)| {
            let audio = unit.change.as_ref()?.audio.as_ref()?;
            Some((at, audio.channels))
        });
        assert_eq!((channels.len() - units.len()) as i64, runs.left_out.ticks / FRAME);
        (channels.len() - units.len(), changes.collect())
    }

    #[test]
    fn a_change_is_made_if_it_lasts() {
        let (two, six) = ([2; 40], [6; 40]);
        assert_eq!(run(&[&two[..], &six].concat()), (0, vec![(40, 6)]));
        assert_eq!(run(&[&two[..], &six, &two].concat()), (0, vec![(40, 6), (80, 2)]));
        assert_eq!(run(&[&two[..], &[6; 2], &two].concat()), (2, vec![]), "damaged headers");
        assert_eq!(run(&[&[6; 3][..], &two].concat()), (3, vec![]), "the end of something else");
        assert_eq!(run(&[&two[..], &[6; 3]].concat()), (3, vec![]));
        assert_eq!(run(&[&two[..], &[1, 6, 1, 6], &six].concat()), (3, vec![(40, 6)]));
        assert_eq!(run(&[2; 3]), (0, vec![]), "a short stream");
    }

    #[test]
    fn changes_have_a_limit() {
        let many: Vec<u16> = (0..limits::OUT_CHANGES + 10).flat_map(|run| [1 + run as u16 % 2; 24]).collect();
        let (left_out, changes) = run(&many);
        assert_eq!((changes.len(), left_out), (limits::OUT_CHANGES, 5 * 24));
    }

    #[test]
    fn another_rate_does_not_drift() {
        let mut line = SoundLine::new(48_000);
        let mut place = |rate| line.place(None, &mut unit(None, rate)).unwrap();
        assert_eq!(place(48_000).pts, 0);
        for frame in 0..10_000i64 {
            let placed = place(44_100);
            let exact = 1024.0 + frame as f64 * 1024.0 * 48_000.0 / 44_100.0;
            assert!((placed.pts as f64 - exact).abs() <= 0.5, "{frame}: {} {exact}", placed.pts);
        }
        let back = place(48_000);
        assert_eq!((back.pts, back.duration), (1024 + (10_000 * 1024 * 48 + 22) * 10 / 441, 1024));
    }
}
