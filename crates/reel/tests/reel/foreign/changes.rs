//! Chromium plays films whose decoder configuration changes on the way, with hls.js, dash.js, Shaka
//! and the page of Reel: `web/test/players` against a real server.

use crate::foreign::browser::assert_script_passes;
use crate::foreign::rig::{cache_dir, reel, run, start};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A part of a film: pictures and a tone, coded as `codecs` says, from `offset_s` on.
fn part(dir: &Path, name: &str, codecs: &str, seconds: u32, offset_s: f64) -> PathBuf {
    let path = dir.join(name);
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i"]);
    ffmpeg.args(["testsrc2=size=640x360:rate=25", "-f", "lavfi", "-i", "sine=440:sample_rate=48000"]);
    ffmpeg.args(["-t", &seconds.to_string()]).args(codecs.split_whitespace());
    ffmpeg.args(["-streamid", "0:256", "-streamid", "1:257", "-output_ts_offset", &format!("{offset_s}")]);
    run(ffmpeg.arg(&path));
    path
}

/// A film that changes on the way.
pub(crate) struct Changing {
    pub(crate) name: &'static str,
    /// How each part of three seconds is coded.
    pub(crate) parts: &'static [&'static str],
    /// Seconds between parts in which there is neither picture nor sound.
    pub(crate) pause_s: f64,
}

impl Changing {
    /// Parts that follow each other at once.
    pub(crate) const fn at_once(name: &'static str, parts: &'static [&'static str]) -> Self {
        Self { name, parts, pause_s: 0.0 }
    }

    fn make(&self, dir: &Path) -> PathBuf {
        let video = "-c:v libx264 -preset ultrafast -threads 1 -bf 2 -g 25";
        let bytes = self.parts.iter().enumerate().flat_map(|(n, codecs)| {
            let offset_s = n as f64 * (3.08 + self.pause_s);
            let path = part(dir, &format!("{n}.ts"), &format!("{video} {codecs}"), 3, offset_s);
            std::fs::read(path).unwrap()
        });
        let path = dir.join(format!("{}.ts", self.name));
        std::fs::write(&path, bytes.collect::<Vec<u8>>()).unwrap();
        path
    }
}

/// A file of Matroska with VP9 and Opus, whose pictures become smaller after three seconds.
fn changing_vp9(dir: &Path) -> PathBuf {
    // 32 bytes of the file, then frames: their length and their number in 12 bytes each.
    let part = |size: &str| {
        let path = dir.join(format!("{size}.ivf"));
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i"]);
        ffmpeg.args([&format!("testsrc2=size={size}:rate=25:duration=3")]);
        ffmpeg.args("-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25".split(' '));
        run(ffmpeg.arg(&path));
        std::fs::read(path).unwrap()
    };
    let (mut film, mut second) = (part("640x360"), part("320x180").split_off(32));
    let mut at = 0;
    while at < second.len() {
        let bytes = u32::from_le_bytes(second[at..at + 4].try_into().unwrap()) as usize;
        let number = u64::from_le_bytes(second[at + 4..at + 12].try_into().unwrap()) + 75;
        second[at + 4..at + 12].copy_from_slice(&number.to_le_bytes());
        at += 12 + bytes;
    }
    film.extend(second);
    let (joined, path) = (dir.join("joined.ivf"), dir.join("size-of-vp9.mkv"));
    std::fs::write(&joined, film).unwrap();
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-y", "-i"]).arg(joined);
    ffmpeg.args("-f lavfi -i sine=440:sample_rate=48000:duration=6 -c:v copy -c:a libopus".split(' '));
    run(ffmpeg.arg(&path));
    path
}

/// Fails unless every player plays each of these films to its end.
pub(crate) fn assert_played(films: &[Changing], with_vp9: bool) {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let volume = crate::foreign::rig::volume(dir.path(), &[]);
    let joined = films.iter().map(|film| film.make(dir.path()));
    for film in joined.chain(with_vp9.then(|| changing_vp9(dir.path()))) {
        run(reel().arg("ingest").arg(&volume).arg(film));
    }
    let server = start(&volume, &[]);
    assert_script_passes("test:players", &[], &server);
}

pub(crate) const CHANNELS: Changing = Changing::at_once("channels", &["-c:a aac -ac 2", "-c:a aac -ac 6"]);

/// Pictures and sound change at the same place.
const SIZE_AND_CHANNELS: Changing =
    Changing::at_once("size-and-channels", &["-c:a aac -ac 2", "-c:a aac -ac 6 -s 320x180"]);

/// The profile of the pictures changes.
const PROFILE: Changing =
    Changing::at_once("profile", &["-c:a aac -profile:v main", "-c:a aac -preset veryfast -profile:v high"]);

/// Nothing changes, but a second is missing.
const GAP: Changing = Changing { name: "gap", parts: &["-c:a aac", "-c:a aac"], pause_s: 1.0 };

/// Six seconds have pictures and no sound. Chromium plays sound without pauses, so such a gap puts
/// sound farther ahead of the pictures than the script allows, unless the gap holds silence
/// (docs/design/changes.md).
const GAP_OF_SOUND: Changing =
    Changing::at_once("gap-of-sound", &["-c:a aac", WITHOUT_SOUND, WITHOUT_SOUND, "-c:a aac"]);
const WITHOUT_SOUND: &str = "-c:a aac -bsf:a noise=drop=1";

#[test]
fn players_pass_a_change_of_pictures_and_sound() {
    assert_played(&[SIZE_AND_CHANNELS, PROFILE], false);
}

#[test]
fn players_pass_gaps_and_a_change_of_vp9() {
    assert_played(&[GAP, GAP_OF_SOUND], true);
}
