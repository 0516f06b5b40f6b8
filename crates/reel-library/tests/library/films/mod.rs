//! Small media files made with ffmpeg, and what ffmpeg decodes from them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a file of `seconds` at `dir/name`; `options` determine its content (encoders, mappings,
/// more).
pub(crate) fn make(dir: &Path, name: &str, seconds: u32, options: &[&str]) -> PathBuf {
    let path = dir.join(name);
    let picture = format!("testsrc2=size=320x180:rate=25:duration={seconds}");
    let sound = format!("sine=frequency=440:sample_rate=48000:duration={seconds}");
    let mut command = Command::new("ffmpeg");
    command
        .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", &picture, "-f", "lavfi", "-i", &sound]);
    command.args(["-threads", "1", "-preset", "ultrafast"]).args(options).arg(&path);
    let output = command.output().expect("ffmpeg is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

/// Runs ffmpeg with `arguments`, split at blanks, to make `dir/name`.
pub(crate) fn compose(dir: &Path, name: &str, arguments: &str) -> PathBuf {
    let path = dir.join(name);
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y"]).args(arguments.split_whitespace()).arg(&path);
    let output = command.output().expect("ffmpeg is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

/// H.264 with B-frames and a key frame every second, AAC.
pub(crate) const H264_AAC: &[&str] = &[
    "-c:v",
    "libx264",
    "-preset",
    "veryfast",
    "-g",
    "25",
    "-bf",
    "2",
    "-pix_fmt",
    "yuv420p",
    "-c:a",
    "aac",
    "-shortest",
];

/// The hash of every decoded frame of a stream (`v:0`, `a:0`, ...).
pub(crate) fn frames(file: &Path, stream: &str) -> Vec<String> {
    let output = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-i"])
        .arg(file)
        .args(["-map", &format!("0:{stream}"), "-fps_mode", "passthrough", "-f", "framemd5", "-"])
        .output()
        .expect("ffmpeg is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let hash = |line: &str| line.rsplit(',').next().map(|hash| hash.trim().to_owned());
    text.lines().filter(|line| !line.starts_with('#')).filter_map(hash).collect()
}
