//! A picture for a title: a video frame if ffmpeg is installed, else a card.

use crate::card::card_svg;
use crate::limits::{POSTER_BYTES_MAX, POSTER_SECONDS_MAX, POSTER_WIDTH};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The kind of a poster, stored as the object number of the catalogue's `Artwork` role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PosterKind {
    /// A frame of the video: `image/jpeg`, object number 0.
    Jpeg,
    /// A generated card: `image/svg+xml`, object number 1.
    Svg,
}

impl PosterKind {
    /// The object number in the catalogue.
    pub const fn number(self) -> u32 {
        match self {
            PosterKind::Jpeg => 0,
            PosterKind::Svg => 1,
        }
    }

    /// The kind of an object number; `None` for one that this version does not know.
    pub const fn from_number(number: u32) -> Option<PosterKind> {
        match number {
            0 => Some(PosterKind::Jpeg),
            1 => Some(PosterKind::Svg),
            _ => None,
        }
    }

    /// The media type for `Content-Type`.
    pub const fn media_type(self) -> &'static str {
        match self {
            PosterKind::Jpeg => "image/jpeg",
            PosterKind::Svg => "image/svg+xml",
        }
    }

    /// The extension in `/img/{id}.{extension}`.
    pub const fn extension(self) -> &'static str {
        match self {
            PosterKind::Jpeg => "jpg",
            PosterKind::Svg => "svg",
        }
    }
}

/// A picture and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poster {
    /// The kind.
    pub kind: PosterKind,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// Makes the poster of a title: the key frame at or before `at_s` seconds, or a card. Never fails,
/// since a title without a picture is still a title. `video` is the file with the frame, `None` for
/// audio alone.
pub fn make_poster(name: &str, video: Option<&Path>, at_s: f64) -> Poster {
    if let Some(path) = video {
        match frame_jpeg(Path::new("ffmpeg"), path, at_s) {
            Ok(bytes) => return Poster { kind: PosterKind::Jpeg, bytes },
            Err(why) => {
                tracing::info!(file = %path.display(), %why, "no frame for the poster: a card is drawn instead")
            }
        }
    }
    Poster { kind: PosterKind::Svg, bytes: card_svg(name).into_bytes() }
}

/// The containers that Reel reads, by their names in ffmpeg.
const FORMATS: &str = "mov,matroska,mpegts";

/// Runs ffmpeg for one frame. The child never reads from the terminal and is killed when it takes
/// too long.
fn frame_jpeg(ffmpeg: &Path, video: &Path, at_s: f64) -> Result<Vec<u8>, String> {
    let mut child = Command::new(ffmpeg)
        .args(["-nostdin", "-hide_banner", "-loglevel", "error", "-skip_frame", "nokey", "-noaccurate_seek"])
        .args(["-ss", &format!("{at_s:.3}")])
        // ffmpeg detects the format of a file itself. A file that begins like a playlist could make
        // it show a frame of another film.
        .args(["-protocol_whitelist", "file", "-format_whitelist", FORMATS, "-i"])
        // A file named `-x` or `concat:a` must be treated as a file.
        .arg(as_file_url(video))
        .args(["-map", "0:v:0", "-frames:v", "1", "-an", "-sn", "-dn", "-vf"])
        // Square pixels first, otherwise anamorphic video looks squeezed.
        .arg(format!("scale=trunc(iw*sar/2)*2:ih,setsar=1,scale={POSTER_WIDTH}:-2"))
        .args(["-f", "image2pipe", "-c:v", "mjpeg", "-q:v", "4", "-threads", "1", "pipe:1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("ffmpeg cannot be run: {e}"))?;
    let Some(mut stdout) = child.stdout.take() else { return Err("ffmpeg has no output".to_owned()) };
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.by_ref().take(POSTER_BYTES_MAX + 1).read_to_end(&mut bytes);
        let _ = sender.send(read.map(|_| bytes));
    });
    let received = receiver.recv_timeout(POSTER_SECONDS_MAX);
    if received.is_err() {
        // The pipe closes with the child, which ends the reader.
        let _ = child.kill();
    }
    let bytes = match received {
        Ok(read) => read.map_err(|e| format!("reading ffmpeg's output failed: {e}")),
        Err(_) => Err(format!("ffmpeg took longer than {} s", POSTER_SECONDS_MAX.as_secs())),
    };
    if bytes.as_ref().is_ok_and(|bytes| bytes.len() as u64 > POSTER_BYTES_MAX) {
        let _ = child.kill();
    }
    let status = wait(&mut child)?;
    let _ = reader.join();
    let bytes = bytes?;
    if bytes.len() as u64 > POSTER_BYTES_MAX {
        return Err("ffmpeg's picture is too large".to_owned());
    }
    if !status.success() || !bytes.starts_with(&[0xff, 0xd8]) {
        return Err(format!("ffmpeg produced no picture ({status})"));
    }
    Ok(bytes)
}

/// Waits for a child that has closed its output; a child that does not exit is killed.
fn wait(child: &mut std::process::Child) -> Result<std::process::ExitStatus, String> {
    for _ in 0..100 {
        if let Some(status) = child.try_wait().map_err(|e| format!("waiting for ffmpeg failed: {e}"))? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait().map_err(|e| format!("waiting for ffmpeg failed: {e}"))
}

fn as_file_url(path: &Path) -> std::ffi::OsString {
    let mut url = std::ffi::OsString::from("file:");
    url.push(path);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(dir: &Path, text: &str) -> std::path::PathBuf {
        let path = dir.join("ffmpeg");
        // Written by a child process: a descriptor open for writing here could be inherited by
        // another test's child, and running the script would then fail with "text file busy".
        let written = Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\n%s\n' \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"])
            .arg(&path)
            .arg(text)
            .status();
        assert!(written.expect("sh runs").success());
        path
    }

    #[test]
    fn the_frame_is_the_output_of_the_program() {
        let dir = tempfile::tempdir().expect("tempdir");
        let jpeg = frame_jpeg(&script(dir.path(), "printf '\\377\\330picture'"), Path::new("/x"), 1.0);
        assert_eq!(jpeg.expect("a picture"), b"\xff\xd8picture");
    }

    #[test]
    fn failures_are_told_apart() {
        let dir = tempfile::tempdir().expect("tempdir");
        let missing = frame_jpeg(&dir.path().join("none"), Path::new("/x"), 1.0).expect_err("not there");
        assert!(missing.contains("cannot be run"), "{missing}");
        let failing =
            frame_jpeg(&script(dir.path(), "exit 3"), Path::new("/x"), 1.0).expect_err("no picture");
        assert!(failing.contains("no picture"), "{failing}");
        let endless =
            frame_jpeg(&script(dir.path(), "exec cat /dev/zero"), Path::new("/x"), 1.0).expect_err("endless");
        assert!(endless.contains("too large"), "{endless}");
    }

    /// A transport stream may begin with the end of a packet, and those bytes may look like a
    /// playlist.
    #[test]
    fn a_file_that_looks_like_a_playlist_shows_no_other_film() {
        let dir = tempfile::tempdir().expect("tempdir");
        let film = |name: &str| {
            let path = dir.path().join(name);
            let status = Command::new("ffmpeg")
                .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i"])
                .arg("color=c=red:size=64x64:rate=5:duration=2")
                .args(["-c:v", "libx264", "-pix_fmt", "yuv420p"])
                .arg(&path)
                .status();
            assert!(status.expect("ffmpeg is installed").success());
            path
        };
        let picture = |path: &Path| frame_jpeg(Path::new("ffmpeg"), path, 0.0);
        assert!(picture(&film("other.mp4")).is_ok());
        let mut bytes = b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nother.ts\n#EXT-X-ENDLIST\n".to_vec();
        bytes.resize(187, b'\n');
        bytes.extend(std::fs::read(film("other.ts")).expect("readable"));
        let both = dir.path().join("both.ts");
        std::fs::write(&both, bytes).expect("written");
        let taken = crate::ingest::probe(&crate::Input::new(&both));
        assert!(taken.is_ok(), "{taken:?}");
        let shown = picture(&both).map(drop).expect_err("a picture of the other film");
        assert!(shown.contains("no picture"), "{shown}");
    }

    #[test]
    fn without_video_there_is_a_card() {
        let poster = make_poster("Song", None, 10.0);
        assert_eq!(poster.kind, PosterKind::Svg);
        assert!(String::from_utf8(poster.bytes).expect("text").contains("Song"));
        for kind in [PosterKind::Jpeg, PosterKind::Svg] {
            assert_eq!(PosterKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(PosterKind::from_number(7), None);
    }
}
