//! How much media memory servers of tests have. The kernel clears all of it at the start of a
//! server, which takes a third of a second for the usual 800 MiB.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::kept::made;

/// A configuration that has this and no more: enough for a hundred viewers.
const LITTLE: &str = "arena_bytes = \"128M\"\n";

/// The options of `reel serve` that give a server little media memory. None if it is given a
/// configuration already.
pub(crate) fn little(arguments: &[&str]) -> Vec<&'static str> {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    if arguments.contains(&"--config") {
        return Vec::new();
    }
    let file = MADE.get_or_init(make);
    vec!["--config", file.to_str().unwrap()]
}

fn make() -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("little.toml");
    made(&file, |making| fs::write(making, LITTLE).unwrap());
    file
}
