//! Films made by ffmpeg, each made once, and what ffprobe shows of them.

use serde_json::Value;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A moving picture of two seconds, without sound.
pub(crate) const PICTURE: &[&str] = &["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=2"];
/// A tone of two seconds.
pub(crate) const TONE: &[&str] = &["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000:duration=2"];
/// Another tone.
pub(crate) const OTHER_TONE: &[&str] =
    &["-f", "lavfi", "-i", "sine=frequency=660:sample_rate=44100:duration=2"];
/// H.264 with B-frames and a key frame every half second.
pub(crate) const H264: &[&str] = &[
    "-c:v",
    "libx264",
    "-preset",
    "ultrafast",
    "-bf",
    "2",
    "-g",
    "12",
    "-pix_fmt",
    "yuv420p",
    "-threads",
    "1",
];

/// Makes a film with ffmpeg, or uses the one that an earlier run made with the same arguments.
pub(crate) fn film(extension: &str, arguments: &[&[&str]]) -> PathBuf {
    let arguments: Vec<&str> = arguments.concat();
    let mut hasher = DefaultHasher::new();
    arguments.hash(&mut hasher);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mp4");
    fs::create_dir_all(&directory).expect("the build's directory for temporary files can be written");
    let path = directory.join(format!("{:016x}.{extension}", hasher.finish()));
    if !path.exists() {
        // Tests run in parallel: each makes its own file, and the last rename wins.
        let making = tempfile::Builder::new().suffix(&format!(".{extension}")).tempfile_in(&directory);
        let making = making.expect("a temporary file").into_temp_path();
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-y", "-fflags", "+bitexact"]).args(&arguments);
        command.args(["-flags:v", "+bitexact", "-flags:a", "+bitexact"]).arg(&making);
        let made = command
            .output()
            .expect("ffmpeg must be installed to run these tests (Debian: apt install ffmpeg)");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "ffmpeg {arguments:?} failed: {said}");
        making.persist(&path).expect("the film can be named");
    }
    path
}

/// A text file for ffmpeg to read. Another content has another path, and so makes another film.
pub(crate) fn text(name: &str, content: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mp4/{:016x}", hasher.finish()));
    fs::create_dir_all(&directory).expect("the build's directory for temporary files can be written");
    let path = directory.join(name);
    let making = tempfile::NamedTempFile::new_in(&directory).expect("a temporary file");
    fs::write(making.path(), content).expect("a temporary file can be written");
    making.persist(&path).expect("the text can be named");
    path.to_str().expect("the build's directory has a plain name").to_owned()
}

/// A packet as ffprobe shows it, times in ticks of its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) pts: i64,
    pub(crate) dts: i64,
    pub(crate) duration: u32,
    pub(crate) key: bool,
    pub(crate) bytes: usize,
    pub(crate) position: Option<usize>,
}

/// What ffprobe shows of the stream with that index: ticks per second and packets.
pub(crate) fn shown(path: &Path, stream: usize) -> (u32, Vec<Shown>) {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-show_packets", "-show_streams", "-of", "json"]).arg(path);
    let output =
        command.output().expect("ffprobe must be installed to run these tests (Debian: apt install ffmpeg)");
    let json: Value = serde_json::from_slice(&output.stdout).expect("ffprobe prints JSON");
    let list = |name: &str| json[name].as_array().cloned().unwrap_or_default();
    let base = list("streams")[stream]["time_base"].as_str().unwrap_or_default().to_owned();
    let timescale = base.strip_prefix("1/").and_then(|ticks| ticks.parse().ok()).expect("a whole timescale");
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<usize>().ok());
    let packets =
        list("packets").into_iter().filter(|packet| packet["stream_index"] == stream).map(|packet| Shown {
            pts: packet["pts"].as_i64().expect("a presentation time"),
            dts: packet["dts"].as_i64().expect("a decoding time"),
            duration: packet["duration"].as_u64().unwrap_or(0) as u32,
            key: packet["flags"].as_str().is_some_and(|flags| flags.starts_with('K')),
            bytes: number(&packet["size"]).expect("a size"),
            position: number(&packet["pos"]),
        });
    (timescale, packets.collect())
}
