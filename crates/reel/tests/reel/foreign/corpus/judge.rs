//! Compares what is served with what a film is expected to show.

use super::making::Truth;
use reel_compare::{Bounds, CompareError, Decoded, Picture, Sound, first_difference};

/// Sound may be early or late by one picture, at 25 pictures a second.
const SYNC_US: i64 = 40_000;
/// Frames after a loss have no time of their own until the next packet of the elementary stream,
/// and follow the frame before the loss: early by what was lost, up to three frames of 32 ms.
const AFTER_LOSS_US: i64 = 100_000;
/// Pictures may be rounded to the clock of a container.
const ROUNDING_US: i64 = 1_000;
/// The longest silence or pause that may be put between joined parts.
const JOINT_US: i64 = 400_000;
/// Samples that are searched for at once, and how far from one such place to the next.
const PROBE: usize = 1000;
const PROBE_STEP: usize = 4800;
/// How far sound is searched from where it belongs, in samples.
const SEARCH: usize = 5_000;

/// What a film is expected to show, decoded.
pub(crate) enum Expected {
    Whole(Decoded),
    Joined(Vec<Decoded>),
    Damaged(Decoded),
    Cut { cut: Decoded, whole: Decoded, missing: usize },
}

impl Expected {
    /// Decodes the truth about a film.
    pub(crate) fn of(file: &std::path::Path, truth: &Truth) -> Result<Expected, CompareError> {
        let decoded = |path: &std::path::Path| Decoded::of(&path.to_string_lossy());
        Ok(match truth {
            Truth::Itself => Expected::Whole(decoded(file)?),
            Truth::Of(other) => Expected::Whole(decoded(other)?),
            Truth::WithSoundOf(other) => {
                Expected::Whole(Decoded { sounds: decoded(other)?.sounds, ..decoded(file)? })
            }
            Truth::Damaged(other) => Expected::Damaged(decoded(other)?),
            Truth::Cut(other, missing) => {
                Expected::Cut { cut: decoded(file)?, whole: decoded(other)?, missing: *missing }
            }
            Truth::Joined(parts) => {
                Expected::Joined(parts.iter().map(|part| decoded(part)).collect::<Result<_, _>>()?)
            }
        })
    }

    /// What is wrong with what was served, if anything is. What is not whole has bounds of its own.
    pub(crate) fn wrong_with(&self, served: &Decoded, bounds: Bounds) -> Option<String> {
        match self {
            Expected::Whole(whole) => first_difference(whole, served, bounds).map(|found| found.to_string()),
            Expected::Joined(parts) => joined(parts, served).err(),
            Expected::Damaged(whole) => damaged(whole, served).err(),
            Expected::Cut { cut, whole, missing } => part(cut, whole, *missing, served).err(),
        }
    }
}

/// Every part is shown, one after the other, with its sound in step.
fn joined(parts: &[Decoded], served: &Decoded) -> Result<(), String> {
    let all: usize = parts.iter().map(|part| part.pictures.len()).sum();
    if served.pictures.len() != all {
        return Err(format!("{} pictures, in the parts {all}", served.pictures.len()));
    }
    let mut rest = &served.pictures[..];
    let mut before: Option<&Picture> = None;
    for (number, part) in parts.iter().enumerate() {
        let (own, later) = rest.split_at(part.pictures.len());
        rest = later;
        let (zero, source_zero) = (own[1].shown_us, part.pictures[1].shown_us);
        for (at, (picture, source)) in own.iter().zip(&part.pictures).enumerate() {
            if picture.sum != source.sum {
                return Err(format!("picture {at} of part {number} differs"));
            }
            let late_us = (picture.shown_us - zero) - (source.shown_us - source_zero);
            // The first picture of all may be shown from the start of the sound.
            if late_us.abs() > ROUNDING_US && ((number, at) != (0, 0) || late_us > 0) {
                return Err(format!("picture {at} of part {number} is {late_us} us late"));
            }
        }
        let step_us = before.map(|before| own[0].shown_us - before.shown_us);
        if step_us.is_some_and(|step| !(1..=JOINT_US).contains(&step)) {
            return Err(format!("part {number} begins {step_us:?} us after the last picture before it"));
        }
        before = own.last();
        for (source, served) in part.sounds.iter().zip(&served.sounds) {
            let lost = lost_sound(source, source_zero, served, zero, SYNC_US)?;
            // Sound that overlaps that of the part before is left out, and a decoder needs a few
            // frames to recover: the two together are less than half a second.
            if lost > 48_000 / 2 / PROBE_STEP {
                return Err(format!("{lost} places of the sound of part {number} are missing"));
            }
        }
    }
    Ok(())
}

/// Pictures are in order, those that are intact at their times, and few are missing. So for sound.
fn damaged(whole: &Decoded, served: &Decoded) -> Result<(), String> {
    let zero = |decoded: &Decoded| decoded.pictures.get(1).map_or(0, |picture| picture.shown_us);
    let (source_zero, served_zero) = (zero(whole), zero(served));
    // Each of three losses may take two pictures.
    if served.pictures.len() > whole.pictures.len() || served.pictures.len() + 6 < whole.pictures.len() {
        return Err(format!(
            "{} pictures, before the damage {}",
            served.pictures.len(),
            whole.pictures.len()
        ));
    }
    if let Some(at) = served.pictures.windows(2).position(|pair| pair[0].shown_us >= pair[1].shown_us) {
        return Err(format!("picture {at} is not shown before the next"));
    }
    for picture in &whole.pictures {
        let mut same = served.pictures.iter().filter(|other| other.sum == picture.sum);
        if let Some(other) = same.next().filter(|_| same.next().is_none()) {
            let late_us = (other.shown_us - served_zero) - (picture.shown_us - source_zero);
            if late_us.abs() > ROUNDING_US {
                return Err(format!("the picture of {} us is {late_us} us late", picture.shown_us));
            }
        }
    }
    for (source, served) in whole.sounds.iter().zip(&served.sounds) {
        let lost = lost_sound(source, source_zero, served, served_zero, AFTER_LOSS_US)?;
        // Each of three losses may take two frames of 32 ms, and its neighbour for overlap.
        if lost > 9 {
            return Err(format!("{lost} places of the sound are missing"));
        }
    }
    Ok(())
}

/// Whatever ffmpeg decodes from the cut film as from the whole one is shown, without up to
/// `missing` pictures at the end, and little else.
fn part(cut: &Decoded, whole: &Decoded, missing: usize, served: &Decoded) -> Result<(), String> {
    let is_of =
        |film: &Decoded, picture: &Picture| film.pictures.iter().any(|other| other.sum == picture.sum);
    let intact: Vec<&Picture> = cut.pictures.iter().filter(|picture| is_of(whole, picture)).collect();
    let in_served = |picture: &Picture| served.pictures.iter().find(|other| other.sum == picture.sum);
    // The first picture may be shown from the start of the sound, so the second one counts.
    let (source_zero, zero) = match intact.get(1) {
        Some(second) => match in_served(second) {
            Some(found) => (second.shown_us, found.shown_us),
            None => return Err("the second intact picture is missing".to_owned()),
        },
        None => (cut.sounds[0].heard_us(0), served.sounds[0].heard_us(0)),
    };
    for (place, picture) in intact[..intact.len() - missing.min(intact.len())].iter().enumerate() {
        let at_us = picture.shown_us - source_zero;
        match in_served(picture) {
            Some(found) if place == 0 && found.shown_us - zero <= at_us => {}
            None => return Err(format!("the intact picture of {at_us} us is missing")),
            Some(found) if (found.shown_us - zero - at_us).abs() > ROUNDING_US => {
                return Err(format!("the picture of {at_us} us is shown at {} us", found.shown_us - zero));
            }
            Some(_) => {}
        }
    }
    // The last picture, which is incomplete, and those that are decoded with it.
    let others = served.pictures.iter().filter(|picture| !is_of(whole, picture)).count();
    if others > 4 {
        return Err(format!("{others} pictures that are not in the film"));
    }
    for (source, served) in cut.sounds.iter().zip(&served.sounds) {
        let lost = lost_sound(source, source_zero, served, zero, SYNC_US)?;
        // A frame at each end, which may be incomplete; and what belongs to missing pictures, of
        // which there are at least ten a second.
        if lost > 2 + missing * 48_000 / 10 / PROBE_STEP {
            return Err(format!("{lost} places of the sound are missing"));
        }
    }
    Ok(())
}

/// Looks for the sound at many places; returns how many are missing.
fn lost_sound(
    source: &Sound,
    source_zero: i64,
    served: &Sound,
    zero: i64,
    sync_us: i64,
) -> Result<usize, String> {
    let mut lost = 0;
    // Without what a decoder makes of its warm-up.
    for from in (2 * PROBE_STEP..source.samples.len().saturating_sub(2 * PROBE_STEP)).step_by(PROBE_STEP) {
        let probe = &source.samples[from..from + PROBE];
        let due_us = source.heard_us(from) - source_zero + zero;
        let near = served.sample_at(due_us);
        let is_at = |at: &usize| {
            let found = served.samples.get(*at..at + PROBE);
            found.is_some_and(|found| is_alike(probe, found))
        };
        let nearest_first = (0..SEARCH).flat_map(|step| [near.saturating_sub(step), near + step]);
        match nearest_first.into_iter().find(is_at) {
            None => lost += 1,
            Some(at) => {
                let late_us = served.heard_us(at) - due_us;
                if late_us.abs() > sync_us {
                    return Err(format!("the sound of {due_us} us is {late_us} us late"));
                }
            }
        }
    }
    Ok(lost)
}

/// Whether the same noise is heard. Decoders of AC-3 add noise of their own, which depends on all
/// that they decoded before; the difference of two noises is larger than either.
fn is_alike(noise: &[i16], other: &[i16]) -> bool {
    let loudness: u64 = noise.iter().map(|sample| u64::from(sample.unsigned_abs())).sum();
    let mut difference = 0;
    noise.iter().zip(other).all(|(a, b)| {
        difference += u64::from(a.abs_diff(*b));
        difference <= loudness / 2
    })
}
