//! ffmpeg makes the films and checks the results; it shares no code with this crate.
#![allow(dead_code, reason = "every test file uses its part")]

pub(crate) mod web;

use reel_media::Source;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A directory of films that is deleted when it is dropped.
pub(crate) struct FilmDir(tempfile::TempDir);

impl FilmDir {
    pub(crate) fn new() -> FilmDir {
        FilmDir(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs ffmpeg with `arguments` (split at blanks; `{dir}` is the directory) to make `name`.
    pub(crate) fn make(&self, name: &str, arguments: &str) -> PathBuf {
        let path = self.path(name);
        let arguments = arguments.replace("{dir}", &self.0.path().to_string_lossy());
        make_once(ffmpeg().args(["-y", "-fflags", "+bitexact"]).args(arguments.split_whitespace()), &path);
        path
    }
}

/// Has ffmpeg write a film, unless another test of this process had the same made already: then it
/// is copied. Films that are made of files are always made.
pub(crate) fn make_once(ffmpeg: &mut Command, path: &Path) {
    type Films = Mutex<HashMap<String, Arc<OnceLock<Vec<u8>>>>>;
    static FILMS: OnceLock<Films> = OnceLock::new();
    let arguments: Vec<String> = ffmpeg.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut inputs = (0..arguments.len()).filter(|at| arguments[*at] == "-i");
    let is_drawn = inputs.all(|at| at >= 2 && arguments[at - 2..at] == ["-f", "lavfi"]);
    if !is_drawn {
        run(ffmpeg.arg(path));
        return;
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let key = format!("{extension} {}", arguments.join(" "));
    let films = FILMS.get_or_init(Mutex::default);
    let film = Arc::clone(films.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
    let mut is_made = false;
    let bytes = film.get_or_init(|| {
        is_made = true;
        run(ffmpeg.arg(path));
        std::fs::read(path).expect("the film")
    });
    if !is_made {
        std::fs::write(path, bytes).expect("writable");
    }
}

struct FileSource(File, u64);

impl Source for FileSource {
    fn bytes(&self) -> u64 {
        self.1
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(target, offset)
    }
}

pub(crate) fn source(path: &Path) -> Box<dyn Source> {
    let file = File::open(path).expect("a file");
    let bytes = file.metadata().expect("a file").len();
    Box::new(FileSource(file, bytes))
}

/// The decoded pictures of a stream: when each is shown, and its checksum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecodedPictures {
    pub(crate) frames: Vec<(f64, String)>,
}

impl DecodedPictures {
    pub(crate) fn of(path: &Path, stream: &str) -> DecodedPictures {
        // The player applies display rotation; without it the decoder's own pictures are compared.
        let mut command = ffmpeg();
        command.args(["-noautorotate", "-copyts", "-i"]).arg(path);
        command.args([
            "-map",
            stream,
            "-fps_mode",
            "passthrough",
            "-enc_time_base",
            "-1",
            "-f",
            "framemd5",
            "-",
        ]);
        let output = run(&mut command);
        let text = String::from_utf8(output.stdout).expect("text");
        let (mut scale, zero) = ((1.0, 1.0), zero(path));
        let mut frames = Vec::new();
        for line in text.lines() {
            if let Some(base) = line.strip_prefix("#tb 0: ") {
                let (a, b) = base.split_once('/').expect("a fraction");
                scale = (a.parse().unwrap(), b.parse().unwrap());
            } else if !line.starts_with('#') {
                let fields: Vec<&str> = line.split(',').map(str::trim).collect();
                let pts: f64 = fields[2].parse().unwrap();
                frames.push((pts * scale.0 / scale.1 - zero, fields[5].to_owned()));
            }
        }
        DecodedPictures { frames }
    }

    pub(crate) fn assert_same(&self, other: &DecodedPictures, what: &str) {
        assert_eq!(self.frames.len(), other.frames.len(), "{what}: number of frames");
        // Players count from the first picture or from zero, so the distances must agree, to a
        // millisecond.
        for (i, (a, b)) in self.frames.iter().zip(&other.frames).enumerate() {
            assert_eq!(a.1, b.1, "{what}: frame {i}");
            assert!((a.0 - b.0).abs() < 0.0011, "{what}: frame {i} is shown at {} instead of {}", b.0, a.0);
        }
    }
}

/// The decoded sound of a stream as 16-bit samples.
#[derive(Clone, PartialEq)]
pub(crate) struct DecodedSound {
    pub(crate) pcm: Vec<u8>,
}

impl DecodedSound {
    pub(crate) fn of(path: &Path, stream: &str) -> DecodedSound {
        let mut command = ffmpeg();
        // Everything before zero is warm-up. ffmpeg leaves it out of classic files by itself. For
        // fragmented files, even its own, it shows the right times but outputs everything.
        command.arg("-copyts").arg("-i").arg(path);
        command.args(["-map", stream, "-af", "atrim=start=0", "-c:a", "pcm_s16le", "-f", "s16le", "-"]);
        DecodedSound { pcm: run(&mut command).stdout }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.pcm.len()
    }

    /// The other one may continue for `tail` samples: what Matroska discards of the last packet.
    pub(crate) fn assert_same(&self, other: &DecodedSound, tail: usize, what: &str) {
        let first = first_difference(&self.pcm, &other.pcm);
        assert_eq!(first, None, "{what}: first differing byte of {} and {}", self.pcm.len(), other.pcm.len());
        let allowed = self.pcm.len()..=self.pcm.len() + 2 * tail;
        assert!(
            allowed.contains(&other.pcm.len()),
            "{what}: {} bytes of sound, not {allowed:?}",
            other.pcm.len()
        );
    }
}

/// The first place where two byte strings differ, as far as both go.
pub(crate) fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    // Without optimization, a comparison of whole slices is many times as fast as one of each byte.
    let common = a.len().min(b.len());
    if a[..common] == b[..common] {
        return None;
    }
    a.iter().zip(b).position(|(a, b)| a != b)
}

/// The time at which the title starts in the file's own clock, because a transport stream's clock
/// starts anywhere.
fn zero(path: &Path) -> f64 {
    if path.extension().is_none_or(|extension| extension != "ts") {
        return 0.0;
    }
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-show_entries", "format=start_time", "-of", "csv=p=0"]).arg(path);
    String::from_utf8(run(&mut command).stdout).expect("text").trim().parse().expect("seconds")
}

/// ffmpeg without messages, on two threads.
pub(crate) fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-threads", "2"]);
    command
}

/// Runs a program to its end; if it fails, the test fails.
pub(crate) fn run(command: &mut Command) -> Output {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{program} is needed for tests: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
