//! Where tests keep temporary files: a directory for each run.
//!
//! It goes with the run. What a run has left that was killed goes with the next one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The name of a directory, before the number of the process that made it.
const NAME: &str = "reel-tests-";

/// The directory of this run.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// One below the directory for temporary files.
    pub(crate) fn new() -> Result<Self> {
        // Not below `target`: the path of a socket has at most 108 bytes.
        Self::below(&std::env::temp_dir())
    }

    fn below(directory: &Path) -> Result<Self> {
        remove_abandoned(directory);
        let path = directory.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the directories of runs that do not run any more, as far as that is allowed.
fn remove_abandoned(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_left_goes_with_the_next_one_and_what_others_use_stays() {
        let directory = tempfile::tempdir().unwrap();
        // The largest number of a process is 4194304.
        let [left, used, other] = ["reel-tests-9999999", "reel-tests-1", "films"].map(|name| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("film"), "x").unwrap();
            path
        });
        let scratch = Scratch::below(directory.path()).unwrap();
        let path = scratch.path().to_owned();
        assert!(path.is_dir() && !left.exists() && used.exists() && other.exists());
        drop(scratch);
        assert!(!path.exists());
    }
}
