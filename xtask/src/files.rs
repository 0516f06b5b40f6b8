//! The files of the repository.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A text file that is, or is about to be, under version control.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

/// Directories that hold crates.
const HOMES: [&str; 3] = ["crates/", "labs/", "tools/"];

/// The crate's directory name and the path inside it; `None` for files of no crate.
pub(crate) fn crate_of(path: &str) -> Option<(&str, &str)> {
    HOMES.iter().find_map(|home| path.strip_prefix(home))?.split_once('/')
}

/// Every text file git knows of or would add; deleted and binary ones left out.
pub(crate) fn text_files(root: &Path) -> Result<Vec<TextFile>> {
    let mut files = Vec::new();
    for path in paths(root)? {
        let Ok(bytes) = fs::read(root.join(&path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(TextFile { path, text });
        }
    }
    Ok(files)
}

/// Paths of all files git knows of or would add.
pub(crate) fn paths(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    ensure!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut paths: Vec<String> =
        text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    // Git lists new files before known ones; what is made from the list must not depend on that.
    paths.sort_unstable();
    Ok(paths)
}
