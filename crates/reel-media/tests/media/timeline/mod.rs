//! Timelines at random, written in every container, and read back: what is stored is what was
//! meant.

mod frames;
mod law;
mod meant;
mod mkv;
mod mp4;
mod night;
mod stored;
mod ts;

use meant::{Kinds, Part, part};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use stored::Stored;

/// So many pictures in order show that all are, also without decoding times.
const ORDER_PROOF: usize = 32;
/// Cases of each law by day.
const BY_DAY: u32 = 60;

/// Runs a law on many random inputs.
fn holds<S: Strategy>(cases: u32, inputs: S, law: impl Fn(S::Value) -> Result<(), String>) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&inputs, |input| law(input).map_err(TestCaseError::fail));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn in_mp4() -> impl Strategy<Value = (Part, i64, mp4::Shape)> {
    let shape =
        (any::<bool>(), any::<bool>(), 0..3i64, 1..40usize).prop_map(|(fragmented, fine, from, together)| {
            mp4::Shape {
                fragmented,
                sound_scale: if fine { 90_000 } else { 48_000 },
                media_from: from * 45_000,
                together,
            }
        });
    (part(Kinds { drift: false, alone: true }), prop_oneof![Just(0), 0..5900i64], shape)
}

fn is_right_in_mp4((part, late, shape): (Part, i64, mp4::Shape)) -> Result<(), String> {
    // The edit list states when each track begins, so zero is zero.
    let part = part.moved(late * 15 - part.start());
    let stored = Stored::of(mp4::write(&part, shape))?;
    law::shows(&stored, &part, 0, 0)?;
    if stored.warnings.is_empty() { Ok(()) } else { Err(format!("{:?}", stored.warnings)) }
}

fn in_matroska() -> impl Strategy<Value = (Part, mkv::Shape)> {
    let shape = (prop_oneof![Just(0), 0..100_000_000i64], any::<bool>(), 200..8000i64)
        .prop_map(|(from_ms, durations, cluster_ms)| mkv::Shape { from_ms, durations, cluster_ms });
    (part(Kinds { drift: true, alone: true }), shape)
}

fn is_right_in_matroska((part, shape): (Part, mkv::Shape)) -> Result<(), String> {
    let part = part.moved(-part.start());
    let stored = Stored::of(mkv::write(&part, shape))?;
    // Half a millisecond for each of a picture's time and zero, and half of one to bring pictures
    // of a stated rate to whole steps. If no rate is stated, the end of the last picture is as
    // inaccurate as two times.
    law::shows(&stored, &part, 0, if shape.durations { 140 } else { 180 })
}

fn in_ts() -> impl Strategy<Value = (Part, ts::Shape)> {
    (part(Kinds { drift: true, alone: true }), shape())
}

/// Half of the clocks wrap soon.
fn shape() -> impl Strategy<Value = ts::Shape> {
    let clock = prop_oneof![1 << 20..1i64 << 33, (1i64 << 33) - 900_000..1 << 33];
    (clock, -30_000..30_000i64, 1..7usize, 0..16u8, any::<bool>()).prop_map(
        |(clock, sound_lag, frames_each, counter, references)| ts::Shape {
            clock,
            sound_lag,
            frames_each,
            counter,
            references,
        },
    )
}

fn is_right_in_ts((part, shape): (Part, ts::Shape)) -> Result<(), String> {
    let stored = Stored::of(ts::write(&part, shape))?;
    law::shows(&stored, &part, part.start(), 1)?;
    let unexpected = |warning: &&String| !warning.starts_with("sound of stream 257 has");
    match stored.warnings.iter().find(unexpected) {
        None => Ok(()),
        Some(warning) => Err(warning.clone()),
    }
}

/// The clock of a part, as it follows that of the part before.
#[derive(Clone, Copy, Debug)]
enum Joint {
    /// Any other clock.
    Any(i64),
    /// Back by so many ticks from the end of the pictures before: by several pictures, so that the
    /// clock alone shows it.
    Back(i64),
}

fn in_joined_ts() -> impl Strategy<Value = Vec<(Part, ts::Shape, Joint)>> {
    let joint = prop_oneof![(0..1i64 << 33).prop_map(Joint::Any), (20_000..400_000i64).prop_map(Joint::Back)];
    prop::collection::vec((part(Kinds { drift: true, alone: false }), shape(), joint), 2..4)
}

/// Whether the first sample of each stream shows the joint. What continues the clock of its stream,
/// or follows it as after a pause, is no joint to a program that does not know the later samples.
fn is_seen(joint: Joint, before: &Part, part: &Part) -> bool {
    match joint {
        // Forward by less than this is a pause of one recording, whatever the counters.
        Joint::Any(_) => (part.start() - before.end()).rem_euclid(1 << 33) > 12 * meant::RATE,
        Joint::Back(_) => {
            let last = before.pictures.last().map(|picture| picture.dts);
            let sound_end = before.sound_end().unwrap_or(0);
            // Pictures without decoding times may be out of order, unless many were in order.
            let in_order = before.pictures.iter().all(|picture| picture.pts == picture.dts);
            (!in_order || before.pictures.len() > ORDER_PROOF)
                && part.pictures.first().map(|picture| picture.dts) < last
                && part.sound_start().is_some_and(|start| start < sound_end - meant::RATE / 10)
        }
    }
}

fn is_right_in_joined_ts(joined: Vec<(Part, ts::Shape, Joint)>) -> Result<(), String> {
    let mut bytes = Vec::new();
    let mut parts = Vec::new();
    let mut first_id = 0;
    let mut picture_end = 0;
    for (part, shape, joint) in joined {
        let part = part.numbered(first_id);
        first_id += (part.pictures.len() + part.sound.len()) as u32;
        let clock = match joint {
            Joint::Back(by) => picture_end - by - part.picture_start().unwrap_or(0),
            Joint::Any(clock) => clock,
        };
        let of_part = part.moved(clock);
        if parts.last().is_some_and(|before: &Part| !is_seen(joint, before, &of_part)) {
            continue;
        }
        let part_bytes = ts::write(&part, ts::Shape { clock, ..shape });
        if !bytes.is_empty() && ts::continues(&bytes, &part_bytes) {
            continue;
        }
        picture_end = of_part.picture_end().unwrap_or(0);
        bytes.extend(part_bytes);
        parts.push(of_part);
    }
    let stored = Stored::of(bytes)?;
    law::shows_parts(&stored, &parts)
}

#[test]
fn timelines_in_mp4() {
    holds(BY_DAY, in_mp4(), is_right_in_mp4);
}

#[test]
fn timelines_in_matroska() {
    holds(BY_DAY, in_matroska(), is_right_in_matroska);
}

#[test]
fn timelines_in_transport_streams() {
    holds(BY_DAY, in_ts(), is_right_in_ts);
}

#[test]
fn joined_timelines_in_transport_streams() {
    holds(BY_DAY, in_joined_ts(), is_right_in_joined_ts);
}

/// Frames from a time on, in equal steps.
fn sound(first_id: u32, from: i64, count: u32, step: i64) -> Vec<meant::Frame> {
    let of = |id: u32, at: i64| meant::Frame { id, dts: at, pts: at, key: true };
    (0..count).map(|n| of(first_id + n, from + i64::from(n) * step)).collect()
}

/// Joins two parts of thirty pictures, with these sounds.
fn is_right_joined(first: Vec<meant::Frame>, second: Vec<meant::Frame>) -> Result<(), String> {
    let shape = ts::Shape { clock: 1 << 20, sound_lag: 0, frames_each: 1, counter: 0, references: false };
    let first = Part { sound: first, ..Part::paused(3600, 0, 30) };
    let pictures = Part::paused(3600, 0, 30).numbered(400).pictures;
    let second = Part { step: 3600, pictures, sound: second };
    let later = ts::Shape { clock: shape.clock + first.end() + 30 * meant::RATE, ..shape };
    let bytes = [ts::write(&first, shape), ts::write(&second, later)].concat();
    law::shows_parts(&Stored::of(bytes)?, &[first, second])
}

/// The sound of the second part begins so many ticks before the end of that of the first, and has
/// frames in these steps.
fn is_right_with_overlap(overlap: i64, step: i64) -> Result<(), String> {
    let first = sound(100, 0, 60, meant::SOUND_FRAME);
    let from = 60 * meant::SOUND_FRAME - 30 * 3600 - overlap;
    is_right_joined(first, sound(300, from, 40, step))
}

// In steps of 15, whole samples.

#[test]
fn sound_that_begins_with_the_last_frame_before_a_joint_is_left_out() {
    for overlap in (7200..7200 + 2 * meant::SOUND_FRAME).step_by(15) {
        assert_eq!(is_right_with_overlap(overlap, meant::SOUND_FRAME), Ok(()), "{overlap}");
    }
}

#[test]
fn sound_that_is_late_by_an_overlap_loses_a_frame_if_its_time_stamps_come_ever_earlier() {
    for overlap in (0..meant::SOUND_FRAME).step_by(15) {
        for step in [meant::SOUND_FRAME, meant::SOUND_FRAME - 1] {
            assert_eq!(is_right_with_overlap(overlap, step), Ok(()), "{overlap} {step}");
        }
    }
}

#[test]
fn sound_after_a_joint_is_found_although_the_part_before_has_fewer_bytes() {
    // It begins after nearly all pictures of its part, and before the sound of the first ends.
    let first = sound(100, 247_680, 20, meant::SOUND_FRAME);
    assert_eq!(is_right_joined(first, sound(300, 105_000, 20, meant::SOUND_FRAME)), Ok(()));
}

#[test]
fn a_pause_near_the_end_is_not_the_length_of_a_picture() {
    let ts_shape = ts::Shape { clock: 1 << 20, sound_lag: 0, frames_each: 1, counter: 0, references: false };
    let mkv_shape = mkv::Shape { from_ms: 0, durations: false, cluster_ms: 1000 };
    for (b_frames, before) in [0, 2].into_iter().flat_map(|b_frames| (1..30).map(move |at| (b_frames, at))) {
        let part = Part::paused(3003, b_frames, before);
        assert_eq!(is_right_in_ts((part.clone(), ts_shape)), Ok(()), "{b_frames} {before}");
        assert_eq!(is_right_in_matroska((part, mkv_shape)), Ok(()), "{b_frames} {before}");
    }
}
