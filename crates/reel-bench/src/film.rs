//! A film of a given size, made with ffmpeg: noise that no codec can shrink much, so that it is quickly large.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An MP4 of at least `mib` MiB in `dir`; made once.
pub(crate) fn make(dir: &Path, mib: u64) -> Result<PathBuf> {
    let film = dir.join(format!("film-{mib}.mp4"));
    if film.exists() {
        return Ok(film);
    }
    let part = dir.join("part.mp4");
    // Ten seconds at 80 Mb/s.
    ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=1280x720:rate=30,noise=alls=60:allf=t",
        "-f",
        "lavfi",
        "-i",
        "sine=frequency=440",
        "-t",
        "10",
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-b:v",
        "80M",
        "-maxrate",
        "80M",
        "-bufsize",
        "80M",
        "-g",
        "60",
        "-pix_fmt",
        "yuv420p",
        "-c:a",
        "aac",
        &part.to_string_lossy(),
    ])?;
    let part_bytes = fs::metadata(&part)?.len();
    let loops = (mib << 20).div_ceil(part_bytes);
    let making = dir.join("making.mp4");
    ffmpeg(&[
        "-stream_loop",
        &loops.to_string(),
        "-i",
        &part.to_string_lossy(),
        "-c",
        "copy",
        "-movflags",
        "+faststart",
        &making.to_string_lossy(),
    ])?;
    fs::rename(&making, &film)?;
    fs::remove_file(&part)?;
    Ok(film)
}

fn ffmpeg(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-loglevel", "error", "-y"]).args(arguments).stdin(Stdio::null());
    let status = command.status().context("is ffmpeg installed? (apt install ffmpeg)")?;
    ensure!(status.success(), "ffmpeg failed: {status}");
    Ok(())
}
