//! Runs ffmpeg with its progress.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// One run of ffmpeg.
pub(super) struct Job {
    /// Everything after the general options.
    pub(super) arguments: Vec<String>,
    /// Length of the resulting film.
    pub(super) duration_ms: u64,
}

/// Runs `job`; `progress` gets the milliseconds of film made so far.
///
/// # Errors
/// If ffmpeg is not installed, or ends with an error (the message has the end of its output).
pub(super) fn run(job: &Job, progress: &mut dyn FnMut(u64)) -> Result<(), Failure> {
    let mut child = Command::new("ffmpeg")
        .args(["-nostdin", "-hide_banner", "-nostats", "-loglevel", "error", "-y", "-progress", "pipe:1"])
        .args(&job.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            Failure::failed(format!("cannot run ffmpeg, which generates the sample films: {error}"))
                .help("install it (apt-get install ffmpeg), or use a directory of films with --media DIR")
        })?;
    let complaints = child.stderr.take().map(|stderr| std::thread::spawn(move || read_tail(stderr)));
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(done_ms) = progress_ms(&line) {
                progress(done_ms.min(job.duration_ms));
            }
        }
    }
    let status = child.wait().map_err(|error| Failure::failed(format!("cannot wait for ffmpeg: {error}")))?;
    let complaints = complaints.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if status.success() {
        return Ok(());
    }
    Err(Failure::failed(format!("ffmpeg ended with {status}: {}", complaints.trim()))
        .help("use a directory of films with --media DIR, which does not need ffmpeg"))
}

/// A font for titles, if this machine has one of the usual ones.
pub(super) fn title_font() -> Option<&'static str> {
    const FONTS: [&str; 4] = [
        "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
        "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
        "/usr/share/fonts/truetype/freefont/FreeSans.ttf",
        "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf",
    ];
    FONTS.into_iter().find(|font| Path::new(font).is_file())
}

/// `out_time_us=1234567` is 1234 ms.
fn progress_ms(line: &str) -> Option<u64> {
    line.strip_prefix("out_time_us=")?.trim().parse::<u64>().ok().map(|us| us / 1000)
}

/// The last 2000 characters of ffmpeg's error output.
fn read_tail(mut stderr: impl Read) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut piece) {
        bytes.extend_from_slice(&piece[..count]);
        let excess = bytes.len().saturating_sub(2000);
        bytes.drain(..excess);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_lines_are_read() {
        assert_eq!(progress_ms("out_time_us=1234567"), Some(1234));
        assert_eq!(progress_ms("out_time_us=N/A"), None);
        assert_eq!(progress_ms("frame=12"), None);
    }

    #[test]
    fn only_the_end_of_the_output_is_kept() {
        let text = format!("{}the end", "x".repeat(100_000));
        let tail = read_tail(text.as_bytes());
        assert_eq!(tail.len(), 2000);
        assert!(tail.ends_with("the end"));
    }
}
