//! A volume, a server, and commands run to their end.

use crate::foreign::films::{FILMS, Film, by_day};
use crate::held_prices::hold_prices;
use crate::media_memory;
use reel_compare::Server;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Films are made once and kept between runs.
pub(crate) fn cache_dir() -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("films");
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Runs a command that must succeed; returns its standard output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = outcome(command);
    assert!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command to its end, with any result.
pub(crate) fn outcome(command: &mut Command) -> Output {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("cannot run {program}: {error}; scripts/setup test installs it"))
}

/// The binary under test.
pub(crate) fn reel() -> Command {
    Command::new(env!("CARGO_BIN_EXE_reel"))
}

/// A new volume in `dir` with every given film. What a read of its members takes is the same on
/// every machine.
pub(crate) fn volume(dir: &Path, films: &[PathBuf]) -> PathBuf {
    let volume = dir.join("volume");
    run(reel().args(["volume", "create"]).arg(&volume).args(["--size", "900M"]));
    hold_prices(&volume);
    for film in films {
        run(reel().arg("ingest").arg(&volume).arg(film));
    }
    volume
}

/// Serves a volume on a free port, with little media memory unless the options name a
/// configuration.
pub(crate) fn start(volume: &Path, more: &[&str]) -> Server {
    start_as_usual(volume, &[more, &media_memory::little(more)].concat())
}

/// The same with the media memory that a server has by itself.
pub(crate) fn start_as_usual(volume: &Path, more: &[&str]) -> Server {
    Server::start(Path::new(env!("CARGO_BIN_EXE_reel")), volume, more).unwrap()
}

/// The server that the tests of the day share, with the films of [`by_day`]. It ends with the test
/// process.
pub(crate) fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| serve("shared-volume", &by_day()))
}

/// The server that the tests of the night share, with every film of [`FILMS`].
pub(crate) fn shared_at_night() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| serve("shared-volume-at-night", &FILMS.iter().collect::<Vec<_>>()))
}

fn serve(directory: &str, films: &[&Film]) -> Server {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(directory);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    let films: Vec<_> = films.iter().map(|film| film.path()).collect();
    start(&volume(&dir, &films), &[])
}
