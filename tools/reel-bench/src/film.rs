//! Films of a given size or rate, made with ffmpeg: noise that no codec can shrink much, so that
//! they are quickly large.

use anyhow::{Context, Result};
use reel_report::output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MP4 of at least `mib` MiB in `dir`; made once.
pub(crate) fn make(dir: &Path, mib: u64) -> Result<PathBuf> {
    once(dir, &format!("film-{mib}.mp4"), |making| {
        // Ten seconds at 80 Mb/s are repeated.
        let part = dir.join("part.mp4");
        let source =
            "-f lavfi -i testsrc2=size=1280x720:rate=30,noise=alls=60:allf=t -f lavfi -i sine=frequency=440";
        let video =
            "-c:v libx264 -preset ultrafast -b:v 80M -maxrate 80M -bufsize 80M -g 60 -pix_fmt yuv420p";
        ffmpeg(&format!("{source} -t 10 {video} -c:a aac"), &part)?;
        let loops = (mib << 20).div_ceil(fs::metadata(&part)?.len());
        repeat(&part, loops, "-movflags +faststart", making)
    })
}

/// A film of `seconds` whose rate goes up and down around `rate_bps`: quiet scenes and noisy ones
/// of 10 s in turn. Made once.
pub(crate) fn varying(dir: &Path, seconds: u64, rate_bps: u64) -> Result<PathBuf> {
    once(dir, &format!("varying-{seconds}s-{}k.mp4", rate_bps / 1000), |making| {
        // A minute is encoded and repeated.
        let part = dir.join("varying-part.mp4");
        let source = "-f lavfi -i testsrc2=size=854x480:rate=25,noise=alls=18:allf=t,noise=alls=50:allf=t:enable='lt(mod(t,20),10)'";
        let (peak_bps, buffer_bits) = (rate_bps * 2, rate_bps * 8);
        let video = format!(
            "-c:v libx264 -preset ultrafast -b:v {rate_bps} -maxrate {peak_bps} -bufsize {buffer_bits} -g 50 -pix_fmt yuv420p"
        );
        ffmpeg(&format!("{source} -t {} {video}", seconds.min(60)), &part)?;
        repeat(&part, seconds.div_ceil(60) - 1, &format!("-t {seconds}"), making)
    })
}

/// A film of `seconds` at exactly `rate_bps`, every second of it: a constant-rate reader is then a
/// player of it. Made once.
pub(crate) fn constant(dir: &Path, seconds: u64, rate_bps: u64) -> Result<PathBuf> {
    once(dir, &format!("constant-{seconds}s-{}k.mp4", rate_bps / 1000), |making| {
        let source = "-f lavfi -i testsrc2=size=854x480:rate=25,noise=alls=30:allf=t";
        let video = format!(
            "-c:v libx264 -preset ultrafast -b:v {rate_bps} -minrate {rate_bps} -maxrate {rate_bps} -bufsize {rate_bps}"
        );
        let format = "-x264-params nal-hrd=cbr:filler=1 -g 50 -pix_fmt yuv420p -movflags +faststart";
        ffmpeg(&format!("{source} -t {seconds} {video} {format}"), making)
    })
}

/// `count` titles of the same film in `dir`, as links named `NAME-000.mp4` and so on. A server
/// cannot know that they are equal.
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

/// The film of this name, made by `make` if it is not there. A film that is not whole never has its
/// name.
pub(crate) fn once(dir: &Path, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let film = dir.join(name);
    if !film.exists() {
        let making = dir.join(format!("making-{name}"));
        make(&making)?;
        fs::rename(&making, &film)?;
    }
    Ok(film)
}

/// Repeats a part so many times more, and removes the part.
pub(crate) fn repeat(part: &Path, times: u64, more: &str, to: &Path) -> Result<()> {
    let mut command = Command::new("ffmpeg");
    command.args(["-stream_loop", &times.to_string(), "-i"]).arg(part).args(["-c", "copy"]);
    run(command.args(more.split(' ')), to)?;
    Ok(fs::remove_file(part)?)
}

/// Encodes a file with these words, which have no spaces inside.
pub(crate) fn ffmpeg(words: &str, to: &Path) -> Result<()> {
    run(Command::new("ffmpeg").args(words.split(' ')), to)
}

fn run(command: &mut Command, to: &Path) -> Result<()> {
    command.args(["-nostdin", "-loglevel", "error", "-y"]).arg(to);
    output(command).context("is ffmpeg installed? (apt install ffmpeg)").map(drop)
}
