//! What ffmpeg decodes: every video frame and every audio sample.

use crate::foreign::rig::run;
use std::process::Command;

/// Decoded frames: the display time in microseconds after the first, and the checksum of the
/// pixels.
pub(crate) fn pictures(input: &str) -> Vec<(i64, String)> {
    let text = run(Command::new("ffmpeg").args([
        "-nostdin",
        "-loglevel",
        "error",
        "-i",
        input,
        "-map",
        "0:v:0",
        "-fps_mode",
        "passthrough",
        "-enc_time_base",
        "-1",
        "-f",
        "framemd5",
        "-",
    ]));
    let mut base = (1, 1);
    let mut pictures = Vec::new();
    for line in text.lines() {
        if let Some(timebase) = line.strip_prefix("#tb 0: ") {
            let (numerator, denominator) = timebase.split_once('/').unwrap();
            base = (numerator.parse::<i64>().unwrap(), denominator.trim().parse::<i64>().unwrap());
        }
        if line.starts_with('#') {
            continue;
        }
        let fields: Vec<_> = line.split(',').map(str::trim).collect();
        let pts: i64 = fields[2].parse().unwrap();
        pictures.push((pts * 1_000_000 * base.0 / base.1, fields[5].to_owned()));
    }
    let first = pictures.first().map_or(0, |picture| picture.0);
    pictures.iter_mut().for_each(|picture| picture.0 -= first);
    pictures
}

/// Decoded audio of a track as 16-bit samples, mixed down to one channel.
pub(crate) fn sound(input: &str, track: usize) -> Vec<i16> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args([
        "-nostdin",
        "-loglevel",
        "error",
        "-i",
        input,
        "-map",
        &format!("0:a:{track}"),
        "-ac",
        "1",
        "-f",
        "s16le",
        "-",
    ]);
    let output = crate::foreign::rig::outcome(&mut ffmpeg);
    assert!(output.status.success(), "{ffmpeg:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}

/// Fails with the first difference unless both have the same frames at the same times, within the
/// rounding of containers.
pub(crate) fn assert_same_pictures(source: &[(i64, String)], served: &[(i64, String)], what: &str) {
    for (number, (source, served)) in source.iter().zip(served).enumerate() {
        assert_eq!(source.1, served.1, "{what}: picture {number} differs");
        assert!(
            (source.0 - served.0).abs() <= 1_000,
            "{what}: picture {number} is due at {} us, served at {}",
            source.0,
            served.0
        );
    }
    assert_eq!(source.len(), served.len(), "{what}: number of pictures");
}

/// Fails unless both have the same audio, apart from at most `warm_up_max` leading samples of the
/// served one. ffmpeg trims the decoder's warm-up of a plain file; in segments (also its own) it
/// only gives it times before zero. At the end codecs may leave a last block that one container
/// trims and the other does not.
pub(crate) fn assert_same_sound(source: &[i16], served: &[i16], warm_up_max: usize, what: &str) {
    const LAST_BLOCK: usize = 4096;
    const PROBE: usize = 4800;
    assert!(source.len() > 48_000 && served.len() > 48_000, "{what}: hardly any audio");
    let alike = |a: i16, b: i16| a.abs_diff(b) <= 1;
    let starts_at = |skip: &usize| (0..PROBE).all(|index| alike(source[index], served[skip + index]));
    let skip = (0..=warm_up_max).find(starts_at);
    let served =
        &served[skip.unwrap_or_else(|| panic!("{what}: the audio does not start like the source's"))..];
    assert!(
        source.len().abs_diff(served.len()) <= LAST_BLOCK,
        "{what}: {} samples, served {}",
        source.len(),
        served.len()
    );
    let compared = source.len().min(served.len()).saturating_sub(LAST_BLOCK);
    let differs = (0..compared).find(|&index| !alike(source[index], served[index]));
    assert_eq!(differs, None, "{what}: the first sample that differs");
}
