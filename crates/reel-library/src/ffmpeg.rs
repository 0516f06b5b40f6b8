//! One picture from ffmpeg: a frame of a film, or a cover made small.

use crate::input::Stop;
use crate::limits::{
    COVER_HEIGHT_MAX, PICTURE_ALLOCATION_BYTES_MAX, PICTURE_PIXELS_MAX, POSTER_BYTES_MAX,
    POSTER_CPU_SECONDS_MAX, POSTER_MEMORY_BYTES_MAX, POSTER_SECONDS_MAX, POSTER_WIDTH, STOP_LOOK,
};
use reel_media::{Cover, PictureFormat};
use reel_rt::limits::BACKGROUND_NICE;
use rustix::process::{Pid, Resource, Rlimit, prlimit, setpriority_process};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The containers that Reel reads, by their names in ffmpeg.
const FORMATS: &str = "mov,matroska,mpegts";
/// The formats of covers.
const PICTURE_FORMATS: &str = "jpeg_pipe,png_pipe";

/// A run of ffmpeg that is being composed.
pub(crate) struct Ffmpeg {
    command: Command,
    /// Any of these ends the run.
    stops: Vec<Stop>,
}

impl Ffmpeg {
    /// The program at a path, or of a name. Its run ends when one of `stops` is raised.
    pub(crate) fn new(program: &Path, stops: &[Stop]) -> Self {
        let mut command = Command::new(program);
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error"]);
        // The bytes of a film or a cover may be anything. These bound one picture before it is
        // allocated, the address space bounds all of them.
        command.args(["-max_alloc", &PICTURE_ALLOCATION_BYTES_MAX.to_string()]);
        command.args(["-max_pixels", &PICTURE_PIXELS_MAX.to_string()]);
        // One thread scales. Otherwise there is one for each processor, and each maps memory.
        command.args(["-filter_threads", "1"]);
        Self { command, stops: stops.to_vec() }
    }

    /// The key frame of a film at or before `at_s` seconds, as JPEG.
    pub(crate) fn frame(mut self, film: &Path, at_s: f64) -> Result<Vec<u8>, String> {
        self.command.args(["-skip_frame", "nokey", "-noaccurate_seek", "-ss", &format!("{at_s:.3}")]);
        self.film(film);
        // Square pixels first, otherwise anamorphic video looks squeezed. `V` leaves out covers.
        let scale = format!("scale=trunc(iw*sar/2)*2:ih,setsar=1,scale={POSTER_WIDTH}:-2");
        self.picture("0:V:0", &scale, None)
    }

    /// A cover as JPEG, not larger than a poster. Its bytes may be anything: what ffmpeg may open
    /// is bounded.
    pub(crate) fn cover(mut self, film: &Path, cover: &Cover) -> Result<Vec<u8>, String> {
        let scale = format!(
            "scale='min({POSTER_WIDTH},iw)':'min({COVER_HEIGHT_MAX},ih)':force_original_aspect_ratio=decrease,setsar=1"
        );
        match cover {
            Cover::Track(position) => {
                self.film(film);
                self.picture(&format!("0:v:{position}"), &scale, None)
            }
            Cover::Picture { format, bytes } => {
                let format = match format {
                    PictureFormat::Jpeg => "jpeg_pipe",
                    PictureFormat::Png => "png_pipe",
                };
                self.command.args(["-protocol_whitelist", "pipe", "-format_whitelist", PICTURE_FORMATS]);
                self.command.args(["-f", format, "-i", "pipe:0"]);
                self.picture("0:v:0", &scale, Some(bytes))
            }
        }
    }

    fn film(&mut self, film: &Path) {
        // ffmpeg detects the format of a file itself. A file that begins like a playlist could make
        // it show a frame of another film.
        // One thread decodes: a picture needs no more, and other processors have other work.
        self.command.args([
            "-threads",
            "1",
            "-protocol_whitelist",
            "file",
            "-format_whitelist",
            FORMATS,
            "-i",
        ]);
        // A file named `-x` or `concat:a` must be treated as a file.
        let mut url = OsString::from("file:");
        url.push(film);
        self.command.arg(url);
    }

    /// Runs the program for one picture. The child never reads from the terminal and is killed when
    /// it takes too long.
    fn picture(mut self, stream: &str, filter: &str, input: Option<&[u8]>) -> Result<Vec<u8>, String> {
        self.command.args(["-map", stream, "-frames:v", "1", "-an", "-sn", "-dn", "-vf", filter]);
        self.command.args(["-f", "image2pipe", "-c:v", "mjpeg", "-q:v", "4", "-threads", "1", "pipe:1"]);
        self.command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        self.command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = self.command.spawn().map_err(|e| format!("ffmpeg cannot be run: {e}"))?;
        bound(&child);
        let (Some(mut stdout), stdin) = (child.stdout.take(), child.stdin.take()) else {
            return Err("ffmpeg has no output".to_owned());
        };
        let (sender, receiver) = mpsc::channel();
        let (received, status) = thread::scope(|scope| {
            // Both pipes close with the child, which ends these threads.
            scope.spawn(move || {
                if let (Some(mut stdin), Some(input)) = (stdin, input) {
                    // A child that has seen enough reads no further.
                    let _ = stdin.write_all(input);
                }
            });
            scope.spawn(move || {
                let mut bytes = Vec::new();
                let read = stdout.by_ref().take(POSTER_BYTES_MAX + 1).read_to_end(&mut bytes);
                let _ = sender.send(read.map(|_| bytes));
            });
            let received = receive(&receiver, &self.stops);
            let whole = matches!(&received, Ok(Ok(bytes)) if bytes.len() as u64 <= POSTER_BYTES_MAX);
            if !whole {
                let _ = child.kill();
            }
            (received, wait(&mut child))
        });
        let status = status?;
        let bytes = received?.map_err(|e| format!("reading ffmpeg's output failed: {e}"))?;
        if bytes.len() as u64 > POSTER_BYTES_MAX {
            return Err("ffmpeg's picture is too large".to_owned());
        }
        if !status.success() || !bytes.starts_with(&[0xff, 0xd8]) {
            return Err(format!("ffmpeg produced no picture ({status})"));
        }
        Ok(bytes)
    }
}

/// Bounds what a child takes of processors and memory. One that has ended already needs no bounds.
fn bound(child: &Child) {
    let pid = Pid::from_child(child);
    let _ = setpriority_process(Some(pid), BACKGROUND_NICE);
    let seconds = Some(POSTER_CPU_SECONDS_MAX);
    let _ = prlimit(Some(pid), Resource::Cpu, Rlimit { current: seconds, maximum: seconds });
    let bytes = Some(POSTER_MEMORY_BYTES_MAX);
    let _ = prlimit(Some(pid), Resource::As, Rlimit { current: bytes, maximum: bytes });
}

/// Waits for the output of a child, until its time is over or a flag is raised.
fn receive<T>(receiver: &Receiver<T>, stops: &[Stop]) -> Result<T, String> {
    let until = Instant::now() + POSTER_SECONDS_MAX;
    loop {
        match receiver.recv_timeout(STOP_LOOK) {
            Ok(received) => return Ok(received),
            _ if stops.iter().any(Stop::is_stopped) => return Err("it is not wanted any more".to_owned()),
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
            Err(_) => return Err(format!("ffmpeg took longer than {} s", POSTER_SECONDS_MAX.as_secs())),
        }
    }
}

/// Waits for a child that has closed its output; a child that does not exit is killed.
fn wait(child: &mut Child) -> Result<ExitStatus, String> {
    for _ in 0..100 {
        if let Some(status) = child.try_wait().map_err(|e| format!("waiting for ffmpeg failed: {e}"))? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait().map_err(|e| format!("waiting for ffmpeg failed: {e}"))
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
        let jpeg =
            Ffmpeg::new(&script(dir.path(), "printf '\\377\\330picture'"), &[]).frame(Path::new("/x"), 1.0);
        assert_eq!(jpeg.expect("a picture"), b"\xff\xd8picture");
    }

    #[test]
    fn failures_are_told_apart() {
        let dir = tempfile::tempdir().expect("tempdir");
        let missing =
            Ffmpeg::new(&dir.path().join("none"), &[]).frame(Path::new("/x"), 1.0).expect_err("not there");
        assert!(missing.contains("cannot be run"), "{missing}");
        let failing = Ffmpeg::new(&script(dir.path(), "exit 3"), &[])
            .frame(Path::new("/x"), 1.0)
            .expect_err("no picture");
        assert!(failing.contains("no picture"), "{failing}");
        let endless = Ffmpeg::new(&script(dir.path(), "exec cat /dev/zero"), &[])
            .frame(Path::new("/x"), 1.0)
            .expect_err("endless");
        assert!(endless.contains("too large"), "{endless}");
    }

    #[test]
    fn its_processor_time_is_bounded_and_its_priority_low() {
        let dir = tempfile::tempdir().expect("tempdir");
        let bounds = "while [ \"$(ulimit -t)\" = unlimited ] || [ \"$(nice)\" != 19 ]; do sleep 0.01; done; \
                      printf '\\377\\330'; ulimit -t; nice";
        let told = Ffmpeg::new(&script(dir.path(), bounds), &[]).frame(Path::new("/x"), 1.0);
        let expected = format!("{POSTER_CPU_SECONDS_MAX}\n{BACKGROUND_NICE}\n");
        assert_eq!(told.expect("bounds").get(2..), Some(expected.as_bytes()));
    }

    #[test]
    fn its_memory_is_bounded() {
        let dir = tempfile::tempdir().expect("tempdir");
        let bounds =
            "while [ \"$(ulimit -v)\" = unlimited ]; do sleep 0.01; done; printf '\\377\\330'; ulimit -v";
        let told = Ffmpeg::new(&script(dir.path(), bounds), &[]).frame(Path::new("/x"), 1.0);
        let expected = format!("{}\n", POSTER_MEMORY_BYTES_MAX / 1024);
        assert_eq!(told.expect("bounds").get(2..), Some(expected.as_bytes()));
    }

    #[test]
    fn it_ends_when_its_picture_is_not_wanted_any_more() {
        let dir = tempfile::tempdir().expect("tempdir");
        let stop = Stop::default();
        let running = dir.path().join("running");
        let endless = format!("touch {}; exec sleep 1000", running.display());
        let ffmpeg = Ffmpeg::new(&script(dir.path(), &endless), &[Stop::default(), stop.clone()]);
        let ended = thread::spawn(move || ffmpeg.frame(Path::new("/x"), 1.0));
        while !running.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        stop.stop();
        let ended = ended.join().expect("no panic").expect_err("no picture");
        assert!(ended.contains("not wanted"), "{ended}");
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
        let picture = |path: &Path| Ffmpeg::new(Path::new("ffmpeg"), &[]).frame(path, 0.0);
        assert!(picture(&film("other.mp4")).is_ok());
        let mut bytes = b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nother.ts\n#EXT-X-ENDLIST\n".to_vec();
        bytes.resize(187, b'\n');
        bytes.extend(std::fs::read(film("other.ts")).expect("readable"));
        let both = dir.path().join("both.ts");
        std::fs::write(&both, bytes).expect("written");
        let taken = crate::ingest::probe(&crate::Input::new(&both), &Stop::default());
        assert!(taken.is_ok(), "{taken:?}");
        let shown = picture(&both).map(drop).expect_err("a picture of the other film");
        assert!(shown.contains("no picture"), "{shown}");
    }

    fn made(dir: &Path, name: &str, source: &str) -> Vec<u8> {
        let path = dir.join(name);
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", source, "-frames:v", "1"]);
        if name.ends_with(".mov") {
            command.args(["-c:v", "mjpeg"]);
        }
        command.arg(&path);
        assert!(command.status().expect("ffmpeg is installed").success());
        std::fs::read(path).expect("readable")
    }

    /// Width and height in the frame header of a JPEG file.
    fn size(jpeg: &[u8]) -> (u16, u16) {
        let at = jpeg.windows(2).position(|mark| matches!(mark, [0xff, 0xc0 | 0xc2])).expect("a header");
        let word = |at: usize| u16::from_be_bytes([jpeg[at], jpeg[at + 1]]);
        (word(at + 7), word(at + 5))
    }

    fn decoded(format: PictureFormat, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
        Ffmpeg::new(Path::new("ffmpeg"), &[]).cover(Path::new("/x"), &Cover::Picture { format, bytes })
    }

    #[test]
    fn covers_become_small_pictures() {
        let dir = tempfile::tempdir().expect("tempdir");
        let jpeg = made(dir.path(), "a.jpg", "testsrc2=size=1500x2250");
        assert_eq!(size(&decoded(PictureFormat::Jpeg, jpeg).expect("a picture")), (640, 960));
        let png = made(dir.path(), "a.png", "testsrc2=size=400x300,format=rgba");
        assert_eq!(size(&decoded(PictureFormat::Png, png.clone()).expect("a picture")), (400, 300));
        // One format named as the other, a cut, and noise.
        assert!(decoded(PictureFormat::Jpeg, png.clone()).is_err());
        assert!(decoded(PictureFormat::Png, png[..60].to_vec()).is_err());
        assert!(
            decoded(PictureFormat::Jpeg, [b"\xff\xd8\xff".as_slice(), &[0x5a; 1 << 20]].concat()).is_err()
        );
        assert!(decoded(PictureFormat::Png, b"#EXTM3U\n/etc/passwd\n".to_vec()).is_err());
    }

    /// The frame of a film of one colour, of so many pixels a side.
    fn frame_of(dir: &Path, side: u32) -> Result<Vec<u8>, String> {
        let name = format!("{side}.mov");
        made(dir, &name, &format!("color=c=red:size={side}x{side}:rate=1,format=yuvj420p"));
        Ffmpeg::new(Path::new("ffmpeg"), &[]).frame(&dir.join(name), 0.0)
    }

    #[test]
    fn frames_of_absurd_sizes_are_refused() {
        let dir = tempfile::tempdir().expect("tempdir");
        assert_eq!(size(&frame_of(dir.path(), 1024).expect("a picture")), (640, 640));
        let refused = frame_of(dir.path(), 8192).map(drop).expect_err("67 million pixels");
        assert!(refused.contains("no picture"), "{refused}");
    }

    #[test]
    fn covers_of_absurd_sizes_are_refused() {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut png = made(dir.path(), "a.png", "color=c=red:size=64x64");
        let small = decoded(PictureFormat::Png, png.clone());
        assert!(small.is_ok(), "{small:?}");
        // Width and height in the first chunk, which ffmpeg does not compare with its checksum.
        png[16..24].copy_from_slice(&[0, 0, 0x40, 0, 0, 0, 0x40, 0]);
        assert!(decoded(PictureFormat::Png, png).is_err());
        let thin = made(dir.path(), "b.png", "color=c=red:size=2x30000");
        if let Ok(picture) = decoded(PictureFormat::Png, thin) {
            let (width, height) = size(&picture);
            assert!(width <= 640 && height <= 960, "{width} x {height}");
        }
    }
}
