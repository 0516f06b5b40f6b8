//! What must hold of every stored timeline. Everything is derived from the timeline that was meant.

use super::meant::{Part, SOUND_FRAME};
use super::stored::{Found, Stored};

/// Two samples at 48 kHz, and what time stamps drift from one frame to the next.
const ROUNDING: i64 = 5;

/// Pictures that begin later are shown from zero on.
const LATE: i64 = 18_000;

/// Everything of a part is stored, at its time after `zero`, exact to `exact` ticks for pictures
/// and to a frame for sound; the length is the end of the last picture or sound.
pub(crate) fn shows(stored: &Stored, part: &Part, zero: i64, exact: i64) -> Result<(), String> {
    let ids = |found: &[Found]| found.iter().map(|found| found.id).collect::<Vec<_>>();
    let meant: Vec<u32> = part.pictures.iter().map(|picture| picture.id).collect();
    if ids(&stored.pictures) != meant {
        return Err(format!("pictures {:?}\nmeant {meant:?}", ids(&stored.pictures)));
    }
    let meant: Vec<u32> = part.sound.iter().map(|frame| frame.id).collect();
    if ids(&stored.sound) != meant {
        return Err(format!("sound {:?}\nmeant {meant:?}", ids(&stored.sound)));
    }
    for (place, (found, picture)) in stored.pictures.iter().zip(&part.pictures).enumerate() {
        let late = found.pts - (picture.pts - zero);
        let is_from_zero = place == 0 && is_moved_to_zero(found, part, zero, exact);
        if late.abs() > exact && !is_from_zero {
            return Err(format!("picture {} is {late} ticks late", picture.id));
        }
    }
    for (found, frame) in stored.sound.iter().zip(&part.sound) {
        let late = found.pts - (frame.pts - zero);
        if late.abs() > SOUND_FRAME + exact {
            return Err(format!("sound {} is {late} ticks late", frame.id));
        }
    }
    in_order(stored)?;
    // Sound may be placed a frame early or late.
    let [least, most] = [-SOUND_FRAME, SOUND_FRAME].map(|late| {
        let sound_end = part.sound_end().map(|end| end + late);
        part.picture_end().into_iter().chain(sound_end).max().unwrap_or(0) - zero
    });
    if !(least - exact..=most + exact).contains(&stored.length) {
        return Err(format!("{} ticks long, meant {least} to {most}", stored.length));
    }
    Ok(())
}

/// Whether a first picture is shown from zero on because all pictures are late.
fn is_moved_to_zero(found: &Found, part: &Part, zero: i64, exact: i64) -> bool {
    let is_late = part.picture_start().unwrap_or(0) - zero >= LATE - exact;
    found.pts == 0 && is_late
}

/// No picture and no sound takes the place of another.
fn in_order(stored: &Stored) -> Result<(), String> {
    for found in [&stored.pictures, &stored.sound] {
        let mut shown: Vec<i64> = found.iter().map(|found| found.pts).collect();
        shown.sort_unstable();
        if let Some(pair) = shown.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!("two at {}", pair[0]));
        }
    }
    Ok(())
}

/// Parts with clocks of their own are shown one after the other: all pictures, each part with its
/// own times and its sound in step, without a longer pause than sound needs. Sound is left out only
/// where the parts before have sound, and both is said.
pub(crate) fn shows_parts(stored: &Stored, parts: &[Part]) -> Result<(), String> {
    in_order(stored)?;
    let meant: Vec<u32> = parts.iter().flat_map(|part| &part.pictures).map(|picture| picture.id).collect();
    let found: Vec<u32> = stored.pictures.iter().map(|found| found.id).collect();
    if found != meant {
        return Err(format!("pictures {found:?}\nmeant {meant:?}"));
    }
    let mut pictures = &stored.pictures[..];
    let mut sound = &stored.sound[..];
    // Where the part before ended, and its sound.
    let (mut end, mut sound_end) = (0, 0);
    // When the picture after the last one can be decoded.
    let mut decoded = 0;
    let mut left_out = 0;
    for (number, part) in parts.iter().enumerate() {
        let (own, rest) = pictures.split_at(part.pictures.len());
        pictures = rest;
        // The first picture of all may be shown from zero on.
        let shift = own[1].pts - part.pictures[1].pts;
        for (place, (found, picture)) in own.iter().zip(&part.pictures).enumerate() {
            let late = found.pts - (picture.pts + shift);
            let is_from_zero =
                (number, place) == (0, 0) && is_moved_to_zero(found, part, part.start(), ROUNDING);
            if late != 0 && !is_from_zero {
                return Err(format!("picture {} of part {number} is {late} ticks late", picture.id));
            }
        }
        let begin = part.picture_start().unwrap_or(0) + shift;
        if number > 0 {
            // What sound before the first picture needs after the sound before, and what decoding
            // needs: each picture is decoded a step after the one before.
            let of_sound = sound_end - (part.sound_start().unwrap_or(i64::MAX / 2) + shift);
            let pause = begin - end;
            let of_decoding = decoded - (end - (part.pictures[0].pts - part.pictures[0].dts));
            let needed = of_decoding.max(of_sound + pause + SOUND_FRAME).max(0);
            if pause < 0 || pause > needed {
                return Err(format!("part {number} begins {pause} ticks after the end, needed {needed}"));
            }
        }
        let before = (number > 0).then_some(sound_end);
        left_out +=
            shows_sound(&mut sound, part, shift, before).map_err(|what| format!("part {number}: {what}"))?;
        end = part.picture_end().unwrap_or(0) + shift;
        decoded = part.pictures.last().map_or(0, |last| last.dts) + part.step + shift;
        sound_end = part.sound_end().map_or(sound_end, |own| (own + shift).max(sound_end));
    }
    if !sound.is_empty() {
        return Err(format!("{} frames of sound too many", sound.len()));
    }
    if left_out > 0 && !stored.warns_of("joined") {
        return Err(format!("{left_out} frames of sound are left out without a word"));
    }
    let length = end.max(sound_end);
    if (stored.length - length).abs() > SOUND_FRAME + ROUNDING {
        return Err(format!("{} ticks long, meant {length}", stored.length));
    }
    Ok(())
}

/// The sound of a part is in step. Returns how many frames are left out, for which the sound of the
/// parts before is the reason, which ended at `before`. Takes the rest from the beginning of
/// `sound`.
fn shows_sound(sound: &mut &[Found], part: &Part, shift: i64, before: Option<i64>) -> Result<usize, String> {
    let (mut left_out, mut late) = (0, 0);
    for frame in &part.sound {
        let at = frame.pts + shift;
        if let Some(found) = sound.first().filter(|found| found.id == frame.id) {
            late = found.pts - at;
            if late.abs() > SOUND_FRAME + ROUNDING {
                return Err(format!("sound {} is {late} ticks late", frame.id));
            }
            *sound = &sound[1..];
            continue;
        }
        // Sound that begins before the end of that before it.
        let is_before = before.is_some_and(|end| at < end + SOUND_FRAME);
        // If that is by less than a frame, all of it is late by as much. With time stamps that come
        // ever earlier, it is late by a whole frame at some place, and a frame is left out there.
        let is_late = before.is_some() && left_out == 0 && (late - SOUND_FRAME).abs() <= ROUNDING;
        if !is_before && !is_late {
            return Err(format!("sound {} at {at} is missing", frame.id));
        }
        left_out += 1;
    }
    Ok(left_out)
}
