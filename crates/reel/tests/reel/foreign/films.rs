//! The inputs: films that differ in container, codec, B-frames, frame rate, audio tracks and
//! length, made with ffmpeg.

use crate::foreign::rig::{cache_dir, run};
use crate::kept::made;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// One input and its special property.
pub(crate) struct Film {
    /// Name of the file; the title's id is its stem.
    pub(crate) file: &'static str,
    /// The special property.
    pub(crate) special: &'static str,
    /// ffmpeg's arguments between its inputs (video 0, tone 1, second tone 2, subtitles 3) and the
    /// output.
    arguments: &'static str,
    /// Whether it has video.
    pub(crate) video: bool,
    pub(crate) audio: usize,
    pub(crate) subtitles: usize,
    /// Players of the same machine that cannot decode it: `gstreamer`.
    pub(crate) not_for: &'static [&'static str],
}

impl Film {
    /// The title's id.
    pub(crate) fn id(&self) -> &'static str {
        self.file.split('.').next().unwrap()
    }

    /// The file, made on first use.
    pub(crate) fn path(&self) -> PathBuf {
        // Tests run side by side: one of them makes the film, the others wait for it.
        static MAKING: Mutex<()> = Mutex::new(());
        let _making = MAKING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let path = cache_dir().join(self.file);
        if !path.exists() {
            self.make(&path);
        }
        path
    }

    fn make(&self, path: &std::path::Path) {
        let dir = path.parent().unwrap();
        let subtitles = dir.join("subtitles.srt");
        made(&subtitles, |making| fs::write(making, SUBTITLES).unwrap());
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-loglevel", "error", "-y"]);
        let rate = self.arguments.split_whitespace().skip_while(|word| *word != "-r").nth(1).unwrap_or("25");
        ffmpeg.args(["-f", "lavfi", "-i", &format!("testsrc2=size=320x180:rate={rate}")]);
        ffmpeg.args(["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"]);
        ffmpeg.args(["-f", "lavfi", "-i", "sine=frequency=660:sample_rate=48000"]);
        ffmpeg.arg("-i").arg(&subtitles);
        ffmpeg.args(self.arguments.split_whitespace());
        made(path, |making| drop(run(ffmpeg.arg(making))));
    }
}

const SUBTITLES: &str = "1\n00:00:01,000 --> 00:00:02,500\nA first line\n\n\
    2\n00:00:03,000 --> 00:00:04,000\n<i>A second</i> line & more\n";

/// The inputs of the day: both containers, subtitles, B-frames, a transport stream.
const BY_DAY: [&str; 4] = ["b-frames.mp4", "two-languages.mov", "film-rate.mkv", "transport.ts"];

/// The inputs that foreign players get by day; at night they get all of [`FILMS`].
pub(crate) fn by_day() -> Vec<&'static Film> {
    FILMS.iter().filter(|film| BY_DAY.contains(&film.file)).collect()
}

/// All inputs.
pub(crate) const FILMS: &[Film] = &[
    Film {
        file: "b-frames.mp4",
        special: "H.264 with B-frames, faststart",
        arguments: "-map 0 -map 1 -t 10 -c:v libx264 -preset veryfast -bf 3 -g 50 -c:a aac -movflags +faststart",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &[],
    },
    Film {
        file: "moov-at-end.mp4",
        special: "29.97 frames per second, no B-frames, header at the end",
        arguments: "-map 0 -map 1 -t 9 -r 30000/1001 -c:v libx264 -preset ultrafast -g 60 -c:a aac",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &[],
    },
    Film {
        file: "fragmented.mp4",
        special: "fragmented already",
        arguments: "-map 0 -map 1 -t 8 -c:v libx264 -preset veryfast -bf 2 -g 25 -c:a aac -movflags frag_keyframe+empty_moov+default_base_moof",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &[],
    },
    Film {
        file: "two-languages.mov",
        special: "MOV with two languages and text subtitles",
        arguments: "-map 0 -map 1 -map 2 -map 3 -t 8 -c:v libx264 -preset veryfast -g 50 -c:a aac -c:s mov_text \
            -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu -metadata:s:s:0 language=eng",
        video: true,
        audio: 2,
        subtitles: 1,
        not_for: &[],
    },
    Film {
        file: "hevc-ac3.mp4",
        special: "HEVC with AC-3",
        arguments: "-map 0 -map 1 -t 6 -c:v libx265 -preset ultrafast -x265-params log-level=error:keyint=50 -tag:v hvc1 -c:a ac3",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &[],
    },
    Film {
        file: "av1-opus.mp4",
        special: "AV1 with Opus",
        arguments: "-map 0 -map 1 -t 5 -c:v libsvtav1 -preset 12 -g 50 -c:a libopus",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &["gstreamer"],
    },
    Film {
        file: "film-rate.mkv",
        special: "Matroska, 23.976 frames per second, B-frames, SubRip",
        arguments: "-map 0 -map 1 -map 3 -t 9 -r 24000/1001 -c:v libx264 -preset veryfast -bf 2 -g 48 -c:a aac -c:s srt -metadata:s:s:0 language=fra",
        video: true,
        audio: 1,
        subtitles: 1,
        not_for: &[],
    },
    Film {
        file: "vp9-opus.webm",
        special: "WebM, VP9 with Opus",
        arguments: "-map 0 -map 1 -t 5 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -c:a libopus",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &["gstreamer"],
    },
    Film {
        file: "h264-flac.mkv",
        special: "FLAC",
        arguments: "-map 0 -map 1 -t 6 -c:v libx264 -preset veryfast -g 50 -c:a flac",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &["gstreamer"],
    },
    Film {
        file: "variable-rate.mkv",
        special: "variable frame rate, MP3",
        arguments: "-map 0 -map 1 -t 7 -vf setpts='PTS+0.013/TB*mod(N\\,3)' -fps_mode vfr -c:v libx264 -preset veryfast -g 40 -c:a libmp3lame",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &["gstreamer"],
    },
    Film {
        file: "transport.ts",
        special: "MPEG-TS, B-frames",
        arguments: "-map 0 -map 1 -t 8 -c:v libx264 -preset veryfast -bf 2 -g 50 -c:a aac",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &[],
    },
    Film {
        file: "transport-hevc.ts",
        special: "MPEG-TS, HEVC with E-AC-3",
        arguments: "-map 0 -map 1 -t 6 -c:v libx265 -preset ultrafast -x265-params log-level=error:keyint=50 -c:a eac3",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &[],
    },
    Film {
        file: "sound-only.m4a",
        special: "no pictures",
        arguments: "-map 1 -t 12 -c:a aac -f mp4",
        video: false,
        audio: 1,
        subtitles: 0,
        not_for: &[],
    },
    Film {
        file: "silent.mp4",
        special: "no sound, 50 frames per second",
        arguments: "-map 0 -t 6 -r 50 -c:v libx264 -preset veryfast -g 100",
        video: true,
        audio: 0,
        subtitles: 0,
        not_for: &[],
    },
    Film {
        file: "longer.mp4",
        special: "a minute and a half: many segments, several stripes",
        arguments: "-map 0 -map 1 -t 90 -c:v libx264 -preset ultrafast -g 75 -b:v 1500k -c:a aac",
        video: true,
        audio: 1,
        subtitles: 0,
        not_for: &[],
    },
];
