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

/// A film of `seconds` whose rate goes up and down around `rate_bps`: quiet scenes and noisy ones in turn. Made once.
pub(crate) fn varying(dir: &Path, seconds: u64, rate_bps: u64) -> Result<PathBuf> {
    let film = dir.join(format!("varying-{seconds}s-{}k.mp4", rate_bps / 1000));
    if film.exists() {
        return Ok(film);
    }
    // A minute is encoded and repeated; scenes of 10 s.
    let part = dir.join("varying-part.mp4");
    let scenes =
        "testsrc2=size=854x480:rate=25,noise=alls=18:allf=t,noise=alls=50:allf=t:enable='lt(mod(t,20),10)'";
    let (rate, peak) = (rate_bps.to_string(), (rate_bps * 2).to_string());
    ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        scenes,
        "-t",
        &seconds.min(60).to_string(),
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-b:v",
        &rate,
        "-maxrate",
        &peak,
        "-bufsize",
        &(rate_bps * 8).to_string(),
        "-g",
        "50",
        "-pix_fmt",
        "yuv420p",
        &part.to_string_lossy(),
    ])?;
    let making = dir.join("varying-making.mp4");
    ffmpeg(&[
        "-stream_loop",
        &(seconds.div_ceil(60) - 1).to_string(),
        "-i",
        &part.to_string_lossy(),
        "-c",
        "copy",
        "-t",
        &seconds.to_string(),
        "-movflags",
        "+faststart",
        &making.to_string_lossy(),
    ])?;
    fs::rename(&making, &film)?;
    fs::remove_file(&part)?;
    Ok(film)
}

/// A film of `seconds` at exactly `rate_bps`, every second of it: a constant-rate reader is then a player of it. Made once.
pub(crate) fn constant(dir: &Path, seconds: u64, rate_bps: u64) -> Result<PathBuf> {
    let film = dir.join(format!("constant-{seconds}s-{}k.mp4", rate_bps / 1000));
    if film.exists() {
        return Ok(film);
    }
    let making = dir.join("constant-making.mp4");
    let rate = rate_bps.to_string();
    ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=854x480:rate=25,noise=alls=30:allf=t",
        "-t",
        &seconds.to_string(),
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-b:v",
        &rate,
        "-minrate",
        &rate,
        "-maxrate",
        &rate,
        "-bufsize",
        &rate,
        "-x264-params",
        "nal-hrd=cbr:filler=1",
        "-g",
        "50",
        "-pix_fmt",
        "yuv420p",
        "-movflags",
        "+faststart",
        &making.to_string_lossy(),
    ])?;
    fs::rename(&making, &film)?;
    Ok(film)
}

/// `count` titles of the same film in `dir`, as links named `NAME-000.mp4` and so on. A server cannot know that they are equal.
pub(crate) fn titles(dir: &Path, film: &Path, name: &str, count: usize) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(dir)?;
    let mut titles = Vec::new();
    for number in 0..count {
        let title = dir.join(format!("{name}-{number:03}.mp4"));
        fs::hard_link(film, &title).with_context(|| format!("linking {}", title.display()))?;
        titles.push(title);
    }
    Ok(titles)
}

fn ffmpeg(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-loglevel", "error", "-y"]).args(arguments).stdin(Stdio::null());
    let status = command.status().context("is ffmpeg installed? (apt install ffmpeg)")?;
    ensure!(status.success(), "ffmpeg failed: {status}");
    Ok(())
}
