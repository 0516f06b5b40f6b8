//! Films of a few seconds, made once for all tests.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::kept::made;

/// Six seconds of video and audio, about 200 kB.
pub(crate) fn short() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| make("short.mp4", &["-t", "6", "-c:v", "libx264", "-preset", "ultrafast"])).clone()
}

/// Sixteen seconds with a quarter of the pixels.
pub(crate) fn longer() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let coding = ["-t", "16", "-s", "320x180", "-c:v", "libx264", "-preset", "ultrafast"];
    MADE.get_or_init(|| make("longer.mp4", &coding)).clone()
}

/// Six seconds with a quarter of the pixels.
pub(crate) fn short_small() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let coding = ["-t", "6", "-s", "320x180", "-c:v", "libx264", "-preset", "ultrafast"];
    MADE.get_or_init(|| make("short-small.mp4", &coding)).clone()
}

/// Six seconds as a transport stream of 2 Mb/s with frequent tables.
pub(crate) fn short_stream() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let coding =
        ["-t", "6", "-c:v", "libx264", "-preset", "veryfast", "-muxrate", "2M", "-pat_period", "0.05"];
    MADE.get_or_init(|| make("short-stream.ts", &coding)).clone()
}

/// Twelve seconds as a transport stream of 1.5 Mb/s, with a key frame in each half second.
pub(crate) fn broadcast_stream() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let coding = ["-t", "12", "-c:v", "libx264", "-preset", "veryfast", "-g", "12", "-muxrate", "1500k"];
    MADE.get_or_init(|| make("broadcast.ts", &coding)).clone()
}

/// Half a minute as a transport stream of 1.5 Mb/s, with a key frame in each half second.
pub(crate) fn half_minute_stream() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let coding = ["-t", "30", "-c:v", "libx264", "-preset", "veryfast", "-g", "12", "-muxrate", "1500k"];
    MADE.get_or_init(|| make("half-minute.ts", &coding)).clone()
}

/// Ten minutes as a transport stream of 300 kb/s, with a key frame in each two seconds.
pub(crate) fn long_stream() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let coding = ["-t", "600", "-vf", "scale=160:90,fps=5", "-g", "10", "-c:v", "libx264"];
    let coding = [&coding[..], &["-preset", "ultrafast", "-muxrate", "300k"]].concat();
    MADE.get_or_init(|| make("long-stream.ts", &coding)).clone()
}

/// Twenty seconds of noise, more than a small volume holds.
pub(crate) fn large() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let coding =
        ["-t", "20", "-vf", "noise=alls=80:allf=t", "-c:v", "libx264", "-preset", "ultrafast", "-qp", "8"];
    MADE.get_or_init(|| make("large.mp4", &coding)).clone()
}

fn make(name: &str, coding: &[&str]) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cli-films");
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    if path.exists() {
        return path;
    }
    made(&path, |making| {
        let status = Command::new("ffmpeg")
            .args(["-nostdin", "-loglevel", "error", "-y"])
            .args([
                "-f",
                "lavfi",
                "-i",
                "testsrc2=size=640x360:rate=25",
                "-f",
                "lavfi",
                "-i",
                "sine=frequency=330",
            ])
            .args(["-g", "50", "-pix_fmt", "yuv420p"])
            .args(coding)
            .args(["-c:a", "aac", "-shortest"])
            .arg(making)
            .stdin(Stdio::null())
            .status()
            .expect("ffmpeg makes the films of these tests; scripts/setup test installs it");
        assert!(status.success());
    });
    path
}
