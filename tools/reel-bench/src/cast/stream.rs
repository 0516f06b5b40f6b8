//! The transport streams that are sent, made with ffmpeg.

use crate::film;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// A transport stream of `seconds` at a constant rate, nearly all of it pictures. Made once.
///
/// # Errors
/// Those of ffmpeg.
pub(super) fn make(dir: &Path, seconds: u64, rate_bps: u64) -> Result<PathBuf> {
    let name = format!("cast-{}m-{seconds}s.ts", rate_bps / 1_000_000);
    film::once(dir, &name, |making| {
        let pictures_bps = rate_bps / 100 * 92;
        let size = if rate_bps > 20_000_000 { "1280x720" } else { "640x360" };
        let source = format!("-f lavfi -i testsrc2=size={size}:rate=25,noise=alls=60:allf=t");
        let video = format!(
            "-c:v libx264 -preset ultrafast -b:v {pictures_bps} -minrate {pictures_bps} -maxrate {pictures_bps} -bufsize {} \
             -x264-params nal-hrd=cbr:filler=1 -g 25 -pix_fmt yuv420p",
            pictures_bps / 5
        );
        // Ten seconds are encoded and repeated.
        let part = dir.join(format!("part-{name}"));
        film::ffmpeg(&format!("{source} -t {} {video} -f mpegts", seconds.min(10)), &part)?;
        let format = format!("-t {seconds} -muxrate {rate_bps} -pat_period 0.08 -f mpegts");
        film::repeat(&part, seconds.div_ceil(10) - 1, &format, making)
    })
}
