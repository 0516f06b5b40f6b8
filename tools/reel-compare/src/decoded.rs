//! What ffmpeg decodes from a file or an address: every picture and every sample of sound.

use crate::{CompareError, run};
use std::ops::Range;
use std::process::Command;

/// Everything of a file that is compared. The sound is held in memory, 0.35 GB for an hour of a
/// track.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    /// Those that can be seen, in the order in which they are shown.
    pub pictures: Vec<Picture>,
    /// Pictures before them, of which each is replaced within a millisecond. Fragments cannot hide
    /// pictures from browsers in another way.
    pub unseen: usize,
    /// Pictures that a file says are decoded and not shown (edit list). Not known of an address.
    pub not_shown: usize,
    /// In the order of the tracks.
    pub sounds: Vec<Sound>,
}

/// A decoded picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// When it is shown, as ffmpeg counts the time of the file.
    pub shown_us: i64,
    /// A checksum of its pixels.
    pub sum: String,
}

/// The decoded sound of a track, mixed down to one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sound {
    /// Samples in a second.
    pub rate: u32,
    /// All samples, one after the other, whatever lies between their times.
    pub samples: Vec<i16>,
    /// The times of the samples.
    pub blocks: Vec<Block>,
    /// Whether it is coded as Opus: what is decoded first depends on where a decoder begins.
    pub is_opus: bool,
}

/// Samples without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The index of the first.
    pub first: usize,
    /// When it is heard, as ffmpeg counts the time of the file.
    pub heard_us: i64,
}

impl Decoded {
    /// Decodes the first picture track, if there is one, and all sound tracks.
    ///
    /// # Errors
    ///
    /// ffmpeg cannot be run or cannot decode.
    pub fn of(input: &str) -> Result<Decoded, CompareError> {
        let Tracks { has_pictures, opus, not_shown } = Tracks::of(input)?;
        if !input.ends_with(".mpd") {
            let mut decoded = Decoded { not_shown, ..decode(input, has_pictures, 0..opus.len())? };
            decoded.sounds.iter_mut().zip(opus).for_each(|(sound, is_opus)| sound.is_opus = is_opus);
            return Ok(decoded);
        }
        // ffmpeg ends a manifest with the shortest of the tracks that it decodes together.
        let pictures = if has_pictures { decode(input, true, 0..0)? } else { Decoded::default() };
        let tracks = opus.into_iter().enumerate();
        let sounds = tracks.map(|(track, is_opus)| Ok(Sound { is_opus, ..sound(input, track)? }));
        Ok(Decoded { sounds: sounds.collect::<Result<_, CompareError>>()?, ..pictures })
    }
}

impl Decoded {
    /// When the first picture is shown or the first sound heard.
    pub fn start_us(&self) -> i64 {
        let sounds = self.sounds.iter().map(|sound| sound.heard_us(0));
        sounds.chain(self.pictures.first().map(|picture| picture.shown_us)).min().unwrap_or(0)
    }

    /// When the last picture is shown, or the sound ends if that is later.
    pub fn end_us(&self) -> i64 {
        let sounds = self.sounds.iter().map(|sound| sound.heard_us(sound.samples.len()));
        sounds.chain(self.pictures.last().map(|picture| picture.shown_us)).max().unwrap_or(0)
    }
}

impl Sound {
    /// When a sample is heard, in microseconds.
    pub fn heard_us(&self, sample: usize) -> i64 {
        let next = self.blocks.partition_point(|block| block.first <= sample);
        let Some(block) = next.checked_sub(1).and_then(|at| self.blocks.get(at)) else { return 0 };
        block.heard_us + (sample - block.first) as i64 * 1_000_000 / i64::from(self.rate.max(1))
    }

    /// The index of the sample that is heard at a time, as near as there is one.
    pub fn sample_at(&self, us: i64) -> usize {
        let next = self.blocks.partition_point(|block| block.heard_us <= us);
        let Some(block) = next.checked_sub(1).and_then(|at| self.blocks.get(at)) else { return 0 };
        block.first + ((us - block.heard_us) * i64::from(self.rate) / 1_000_000) as usize
    }
}

/// What a file has.
struct Tracks {
    has_pictures: bool,
    /// For each sound track, whether it is coded as Opus.
    opus: Vec<bool>,
    /// See [`Decoded::not_shown`].
    not_shown: usize,
}

impl Tracks {
    fn of(input: &str) -> Result<Tracks, CompareError> {
        let mut entries = "stream=codec_type,codec_name:stream_disposition=attached_pic".to_owned();
        if !input.contains("://") {
            entries.push_str(":packet=codec_type,flags");
        }
        let mut ffprobe = Command::new("ffprobe");
        ffprobe.args(["-loglevel", "error", "-show_entries", &entries, "-of", "json", input]);
        let output = run(&mut ffprobe)?.stdout;
        let unexpected = || CompareError::Unexpected { program: "ffprobe", line: "no streams".into() };
        let parsed: serde_json::Value = serde_json::from_slice(&output).map_err(|_| unexpected())?;
        let streams = parsed["streams"].as_array().ok_or_else(unexpected)?;
        let is = |entry: &serde_json::Value, kind| entry["codec_type"] == kind;
        let moves = |stream: &serde_json::Value| stream["disposition"]["attached_pic"] != 1;
        let discards = |packet: &serde_json::Value| {
            is(packet, "video") && packet["flags"].as_str().is_some_and(|flags| flags.contains('D'))
        };
        let sounds = streams.iter().filter(|stream| is(stream, "audio"));
        Ok(Tracks {
            has_pictures: streams.iter().any(|stream| is(stream, "video") && moves(stream)),
            opus: sounds.map(|stream| stream["codec_name"] == "opus").collect(),
            not_shown: parsed["packets"].as_array().into_iter().flatten().filter(|it| discards(it)).count(),
        })
    }
}

/// A picture that is replaced sooner is not seen: screens show at most 480 pictures a second.
const SEEN_US: i64 = 1_000;

/// The pictures of a file that can be seen, in the order in which they are shown.
///
/// # Errors
///
/// ffmpeg cannot be run or cannot decode.
pub fn pictures(input: &str) -> Result<Vec<Picture>, CompareError> {
    Ok(decode(input, true, 0..0)?.pictures)
}

/// The sound of a track, by its number among the sound tracks.
///
/// # Errors
///
/// ffmpeg cannot be run or cannot decode.
pub fn sound(input: &str, track: usize) -> Result<Sound, CompareError> {
    Ok(decode(input, false, track..track + 1)?.sounds.pop().unwrap_or_default())
}

/// Decodes with one run of ffmpeg.
fn decode(input: &str, has_pictures: bool, sounds: Range<usize>) -> Result<Decoded, CompareError> {
    let dir = tempfile::tempdir()?;
    let pictures_file = dir.path().join("pictures");
    let sound_files = |track: usize| {
        (dir.path().join(format!("samples-{track}")), dir.path().join(format!("times-{track}")))
    };
    let mut ffmpeg = Command::new("ffmpeg");
    // Without -copyts, ffmpeg takes times of HLS that do not follow from the usual duration of a
    // picture for mistakes and replaces them.
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-y", "-copyts", "-i", input]);
    if has_pictures {
        ffmpeg.args(["-map", "0:V:0", "-fps_mode", "passthrough", "-enc_time_base", "-1", "-f", "framemd5"]);
        ffmpeg.arg(&pictures_file);
    }
    for track in sounds.clone() {
        let map = format!("0:a:{track}");
        let (samples, times) = sound_files(track);
        ffmpeg.args(["-map", &map, "-ac", "1", "-f", "s16le"]).arg(samples);
        ffmpeg.args(["-map", &map, "-ac", "1", "-f", "framemd5"]).arg(times);
    }
    run(&mut ffmpeg)?;
    let mut decoded = Decoded::default();
    if has_pictures {
        let frames = frames(&std::fs::read_to_string(pictures_file)?)?;
        let pictures = frames.into_iter().map(|frame| Picture { shown_us: frame.pts_us, sum: frame.sum });
        (decoded.unseen, decoded.pictures) = seen(pictures.collect());
    }
    for track in sounds {
        let (samples, times) = sound_files(track);
        decoded.sounds.push(sound_of(&std::fs::read(samples)?, &std::fs::read_to_string(times)?)?);
    }
    Ok(decoded)
}

fn sound_of(bytes: &[u8], times: &str) -> Result<Sound, CompareError> {
    let samples = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    let mut sound = Sound { samples, ..Sound::default() };
    let mut first = 0;
    for frame in frames(times)? {
        sound.rate = frame.ticks_per_s;
        let block = Block { first, heard_us: frame.pts_us };
        // Times of one sample more or less are the rounding of a container.
        let sample_us = 1_000_000 / i64::from(sound.rate.max(1)) + 1;
        if sound.blocks.is_empty() || (sound.heard_us(first) - block.heard_us).abs() > sample_us {
            sound.blocks.push(block);
        }
        first += frame.bytes / 2;
    }
    Ok(sound)
}

/// How many pictures at the beginning the next one replaces at once, and the others.
fn seen(mut pictures: Vec<Picture>) -> (usize, Vec<Picture>) {
    let first = pictures.windows(2).position(|pair| pair[1].shown_us - pair[0].shown_us >= SEEN_US);
    let unseen = pictures.drain(..first.unwrap_or(0)).count();
    (unseen, pictures)
}

/// A line of `framemd5`.
struct Frame {
    pts_us: i64,
    ticks_per_s: u32,
    bytes: usize,
    sum: String,
}

fn frames(text: &str) -> Result<Vec<Frame>, CompareError> {
    let mut base = (1, 1);
    let mut frames = Vec::new();
    for line in text.lines() {
        let unexpected = || CompareError::Unexpected { program: "ffmpeg", line: line.to_owned() };
        if let Some(timebase) = line.strip_prefix("#tb 0: ") {
            base = ratio(timebase).ok_or_else(unexpected)?;
        }
        if line.starts_with('#') {
            continue;
        }
        let fields: Vec<_> = line.split(',').map(str::trim).collect();
        let [_, _, pts, _, bytes, sum] = fields[..] else { return Err(unexpected()) };
        let pts: i64 = pts.parse().map_err(|_| unexpected())?;
        frames.push(Frame {
            pts_us: pts * 1_000_000 * base.0 / base.1,
            ticks_per_s: u32::try_from(base.1 / base.0.max(1)).map_err(|_| unexpected())?,
            bytes: bytes.parse().map_err(|_| unexpected())?,
            sum: sum.to_owned(),
        });
    }
    Ok(frames)
}

fn ratio(text: &str) -> Option<(i64, i64)> {
    let (numerator, denominator) = text.split_once('/')?;
    let denominator: i64 = denominator.trim().parse().ok()?;
    (denominator > 0).then_some((numerator.parse().ok()?, denominator))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pictures_at(times_us: &[i64]) -> Vec<Picture> {
        times_us.iter().map(|time| Picture { shown_us: *time, sum: time.to_string() }).collect()
    }

    #[test]
    fn pictures_that_are_replaced_at_once_are_not_seen() {
        let at = |times_us: &[i64]| seen(pictures_at(times_us));
        assert_eq!(at(&[0, 20, 40, 60, 40_000]), (3, pictures_at(&[60, 40_000])));
        assert_eq!(at(&[0, 40_000, 40_001]), (0, pictures_at(&[0, 40_000, 40_001])));
        assert_eq!(at(&[7]), (0, pictures_at(&[7])));
        assert_eq!(at(&[]), (0, vec![]));
    }
}
