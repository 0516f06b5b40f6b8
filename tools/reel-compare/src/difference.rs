//! The first difference between what was decoded from the source and what was served.

use crate::bounds::{Bounds, EARLY_END_US, LATE_US, ROUNDING_US, START_US};
use crate::decoded::{Decoded, Picture};
use crate::sound::{Times, of_sound};
use std::fmt;

/// What differs first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A picture has other pixels, or another one is shown in its place.
    Picture {
        /// Its number, from 0.
        number: usize,
        /// When the source shows it, in microseconds after the first picture.
        at_us: i64,
    },
    /// A picture is shown at another time.
    PictureTime {
        /// Its number, from 0.
        number: usize,
        /// When the source shows it, in microseconds after the first picture.
        source_us: i64,
        /// When it is shown as served.
        served_us: i64,
    },
    /// The number of pictures.
    PictureCount {
        /// In the source.
        source: usize,
        /// As served.
        served: usize,
    },
    /// There are more pictures that are only decoded than the source has.
    Unseen {
        /// What the edit list of the source hides.
        source: usize,
        /// What is served before the first picture that is seen.
        served: usize,
    },
    /// The number of sound tracks.
    SoundTracks {
        /// In the source.
        source: usize,
        /// As served.
        served: usize,
    },
    /// The first loud part of the sound, or that behind a gap, is not found where it belongs.
    SoundStart {
        /// When it is heard in the source, in microseconds after the first picture.
        at_us: i64,
    },
    /// More samples are added before the sound, or fewer left of it, than the form needs.
    SoundEdge {
        /// Samples that are added; negative if some are missing.
        added: i64,
    },
    /// Something is heard in a gap of the source.
    SoundInGap {
        /// When it is heard as served, in microseconds after the first picture.
        at_us: i64,
    },
    /// A sample differs.
    Sound {
        /// When the source has it, in microseconds after the first picture.
        at_us: i64,
    },
    /// Sound is heard at another time than in the source.
    SoundTime {
        /// When the source has it, in microseconds after the first picture.
        at_us: i64,
        /// How much later it is heard as served; negative if earlier.
        late_us: i64,
    },
    /// The sound is shorter or longer.
    SoundLength {
        /// Samples of the source.
        source: usize,
        /// Samples as served.
        served: usize,
    },
    /// [`Difference`] of a sound track.
    OfTrack(usize, Box<Difference>),
}

/// The first difference of pictures, then of each sound track. `None` if there is none.
pub fn first_difference(source: &Decoded, served: &Decoded, bounds: Bounds) -> Option<Difference> {
    let late_us = source.pictures.first().map_or(0, |picture| picture.shown_us - source.start_us());
    let served_pictures = without_repeated(source, &served.pictures);
    if let Some(difference) = of_pictures(&source.pictures, served_pictures, late_us) {
        return Some(difference);
    }
    // An address says nothing of an edit list. Then both sides may replace equally many pictures.
    let hidden = source.not_shown.max(source.unseen);
    if served.unseen > hidden {
        return Some(Difference::Unseen { source: hidden, served: served.unseen });
    }
    if source.sounds.len() != served.sounds.len() {
        return Some(Difference::SoundTracks { source: source.sounds.len(), served: served.sounds.len() });
    }
    let times = Times {
        zeros: zeros(&source.pictures, &served.pictures),
        start_us: source.start_us(),
        end_us: source.end_us(),
    };
    source.sounds.iter().zip(&served.sounds).enumerate().find_map(|(track, (source, served))| {
        let difference = of_sound(source, served, &times, bounds)?;
        Some(Difference::OfTrack(track, Box::new(difference)))
    })
}

/// The times of the first picture in the source and as served. If a late one is shown earlier, that
/// as served is told by the second picture.
fn zeros(source: &[Picture], served: &[Picture]) -> Option<(i64, i64)> {
    let (first, served_first) = (source.first()?.shown_us, served.first()?.shown_us);
    let second = source.get(1).zip(served.get(1));
    let told = second.map_or(served_first, |(own, other)| other.shown_us - (own.shown_us - first));
    let is_moved = told - served_first > LATE_US - START_US;
    Some((first, if is_moved { told } else { served_first }))
}

/// Pictures as served, without one of the source that is repeated at the end because the sound of
/// the source is much longer.
fn without_repeated<'a>(source: &Decoded, served: &'a [Picture]) -> &'a [Picture] {
    let ends_early =
        source.pictures.last().is_some_and(|last| source.end_us() - last.shown_us > EARLY_END_US);
    let Some((own, more)) = served.split_at_checked(source.pictures.len()).filter(|_| ends_early) else {
        return served;
    };
    let is_repeated = |picture: &Picture| own.iter().rev().any(|other| other.sum == picture.sum);
    if more.iter().all(is_repeated) { own } else { served }
}

/// The first difference of pictures, which begin this much after the start of the title. Their
/// times count from the first picture.
pub fn of_pictures(source: &[Picture], served: &[Picture], late_us: i64) -> Option<Difference> {
    let (source_zero, served_zero) = zeros(source, served).unwrap_or_default();
    for (number, (picture, other)) in source.iter().zip(served).enumerate() {
        let (source_us, served_us) = (picture.shown_us - source_zero, other.shown_us - served_zero);
        if picture.sum != other.sum {
            return Some(Difference::Picture { number, at_us: source_us });
        }
        let is_moved = number == 0
            && source.len() > 1
            && late_us > LATE_US
            && (source_us - served_us - late_us).abs() <= START_US;
        if (source_us - served_us).abs() > ROUNDING_US && !is_moved {
            return Some(Difference::PictureTime { number, source_us, served_us });
        }
    }
    let (source, served) = (source.len(), served.len());
    (source != served).then_some(Difference::PictureCount { source, served })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Picture { number, at_us } => {
                write!(f, "picture {number} at {} differs", Seconds(*at_us))
            }
            Difference::PictureTime { number, source_us, served_us } => write!(
                f,
                "picture {number} is shown at {}, in the source at {}",
                Seconds(*served_us),
                Seconds(*source_us)
            ),
            Difference::PictureCount { source, served } => {
                write!(f, "{served} pictures, in the source {source}")
            }
            Difference::Unseen { source, served } => {
                write!(f, "{served} pictures are replaced at once, the source hides {source}")
            }
            Difference::SoundTracks { source, served } => {
                write!(f, "{served} sound tracks, in the source {source}")
            }
            Difference::SoundStart { at_us } => {
                write!(f, "what is heard from {} on is not found near that time", Seconds(*at_us))
            }
            Difference::SoundEdge { added } if *added < 0 => {
                write!(f, "{} samples are missing at the beginning", -added)
            }
            Difference::SoundEdge { added } => write!(f, "{added} samples are before the beginning"),
            Difference::SoundInGap { at_us } => {
                write!(f, "something is heard at {}, in a gap of the source", Seconds(*at_us))
            }
            Difference::Sound { at_us } => write!(f, "the sample at {} differs", Seconds(*at_us)),
            Difference::SoundTime { at_us, late_us } => {
                write!(f, "what is heard at {} comes {} late", Seconds(*at_us), Seconds(*late_us))
            }
            Difference::SoundLength { source, served } => {
                write!(f, "{served} samples, in the source {source}")
            }
            Difference::OfTrack(track, difference) => write!(f, "sound {track}: {difference}"),
        }
    }
}

/// Microseconds, shown as seconds.
struct Seconds(i64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.0 as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded::{Block, Sound};

    const RATE: u32 = 48_000;

    fn film() -> Decoded {
        let pictures = (0..100).map(|n| Picture { shown_us: n * 40_000, sum: n.to_string() }).collect();
        // Silence, then noise that repeats nowhere.
        let samples =
            (0..4 * RATE).map(|n| if n < RATE { 0 } else { (n.wrapping_mul(2_654_435_761) >> 16) as i16 });
        let blocks = vec![Block { first: 0, heard_us: 0 }];
        let sounds = vec![Sound { rate: RATE, samples: samples.collect(), blocks, is_opus: false }];
        Decoded { pictures, sounds, ..Decoded::default() }
    }

    fn after(change: impl FnOnce(&mut Decoded)) -> Option<Difference> {
        let mut served = film();
        change(&mut served);
        first_difference(&film(), &served, Bounds::FRAGMENTS)
    }

    fn of_track(difference: Difference) -> Option<Difference> {
        Some(Difference::OfTrack(0, Box::new(difference)))
    }

    #[test]
    fn another_zero_and_a_warm_up_are_no_difference() {
        let shifted = |served: &mut Decoded| {
            served.pictures.iter_mut().for_each(|picture| picture.shown_us += 1_400_000);
            let sound = &mut served.sounds[0];
            sound.samples.splice(0..0, [0; 1024]);
            sound.blocks[0].heard_us = 1_400_000 - 1024 * 1_000_000 / i64::from(RATE);
        };
        assert_eq!(after(shifted), None);
        assert_eq!(after(|_| {}), None);
        assert_eq!(after(|served| served.sounds[0].samples.truncate(4 * RATE as usize - 2000)), None);
    }

    #[test]
    fn exact_bounds_forgive_no_sample() {
        let exactly = |change: &dyn Fn(&mut Sound)| {
            let mut served = film();
            change(&mut served.sounds[0]);
            first_difference(&film(), &served, Bounds::EXACT)
        };
        assert_eq!(exactly(&|_| {}), None);
        let whole = 4 * RATE as usize;
        let expected = Difference::SoundLength { source: whole, served: whole - 1 };
        assert_eq!(exactly(&|sound| sound.samples.truncate(whole - 1)), of_track(expected));
        let sample_us = 1_000_000 / i64::from(RATE);
        let early = |sound: &mut Sound| {
            sound.samples.insert(0, 0);
            sound.blocks[0].heard_us = -sample_us;
        };
        assert_eq!(exactly(&early), of_track(Difference::SoundEdge { added: 1 }));
        let late = |sound: &mut Sound| {
            sound.samples.remove(0);
            sound.blocks[0].heard_us = sample_us;
        };
        assert_eq!(exactly(&late), of_track(Difference::SoundEdge { added: -1 }));
        let last = |sound: &mut Sound| sound.samples[whole - 1] ^= 0x40;
        assert!(
            matches!(exactly(&last), Some(Difference::OfTrack(0, of)) if matches!(*of, Difference::Sound { .. }))
        );
    }

    #[test]
    fn the_first_difference_of_pictures_is_found() {
        let other = |served: &mut Decoded| served.pictures[7].sum.push('x');
        assert_eq!(after(other), Some(Difference::Picture { number: 7, at_us: 280_000 }));
        let late = |served: &mut Decoded| served.pictures[7].shown_us += 2_000;
        let expected = Difference::PictureTime { number: 7, source_us: 280_000, served_us: 282_000 };
        assert_eq!(after(late), Some(expected));
        let doubled = |served: &mut Decoded| served.unseen = 1;
        assert_eq!(after(doubled), Some(Difference::Unseen { source: 0, served: 1 }));
        let trimmed = Decoded { not_shown: 3, ..film() };
        let served = Decoded { unseen: 2, ..film() };
        assert_eq!(first_difference(&trimmed, &served, Bounds::EXACT), None);
        let short = |served: &mut Decoded| served.pictures.truncate(99);
        assert_eq!(after(short), Some(Difference::PictureCount { source: 100, served: 99 }));
    }

    #[test]
    fn a_late_first_picture_may_be_shown_from_the_start_and_one_repeated_at_the_end() {
        let late = |us: i64| {
            let mut film = film();
            film.pictures.iter_mut().for_each(|picture| picture.shown_us += us);
            film
        };
        let (source, mut served) = (late(1_000_000), late(1_000_000));
        served.pictures[0].shown_us = 0;
        assert_eq!(first_difference(&source, &served, Bounds::EXACT), None);
        served.pictures[0].shown_us = 500_000;
        assert!(first_difference(&source, &served, Bounds::EXACT).is_some());
        let mut early = late(150_000);
        early.pictures[0].shown_us = 0;
        assert!(first_difference(&late(150_000), &early, Bounds::EXACT).is_some(), "not late");

        let short = |repeated: usize| {
            let mut film = film();
            film.sounds[0].samples.extend(vec![0; 6 * RATE as usize]);
            let last = Picture { shown_us: 9_950_000, ..film.pictures[75].clone() };
            film.pictures.extend(vec![last; repeated]);
            film
        };
        assert_eq!(first_difference(&short(0), &short(17), Bounds::EXACT), None);
        let count = Difference::PictureCount { source: 100, served: 117 };
        let repeated = Decoded { sounds: film().sounds, ..short(17) };
        assert_eq!(first_difference(&film(), &repeated, Bounds::EXACT), Some(count));
    }

    #[test]
    fn the_first_difference_of_sound_is_found() {
        assert_eq!(
            after(|served| served.sounds.clear()),
            Some(Difference::SoundTracks { source: 1, served: 0 })
        );
        let other = |served: &mut Decoded| served.sounds[0].samples[100_000] ^= 0x40;
        let at_us = 100_000 * 1_000_000 / i64::from(RATE);
        assert_eq!(after(other), of_track(Difference::Sound { at_us }));
        let early_in_all = |served: &mut Decoded| served.sounds[0].blocks[0].heard_us -= 60_000;
        let late_us = -60_000;
        let loud_us = 1_000_000;
        assert_eq!(after(early_in_all), of_track(Difference::SoundTime { at_us: loud_us, late_us }));
        // In step at the start, and late from the third second on.
        let late_then = |served: &mut Decoded| {
            served.sounds[0].blocks.push(Block { first: 2 * RATE as usize, heard_us: 2_050_000 });
        };
        let expected = Difference::SoundTime { at_us: 2_000_000, late_us: 50_000 };
        assert_eq!(after(late_then), of_track(expected));
        // A warm-up that is trimmed.
        let from = |sample: u32| {
            let mut film = film();
            film.sounds[0].samples.drain(..sample as usize);
            film.sounds[0].blocks[0].heard_us = i64::from(sample) * 1_000_000 / i64::from(RATE);
            film
        };
        assert_eq!(first_difference(&from(RATE), &from(RATE + 256), Bounds::FRAGMENTS), None);
        let gone = |served: &mut Decoded| served.sounds[0].samples.fill(0);
        assert_eq!(after(gone), of_track(Difference::SoundStart { at_us: loud_us }));
        let short = |served: &mut Decoded| served.sounds[0].samples.truncate(3 * RATE as usize);
        let expected = Difference::SoundLength { source: 4 * RATE as usize, served: 3 * RATE as usize };
        assert_eq!(after(short), of_track(expected));
    }
}
