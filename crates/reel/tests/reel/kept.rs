//! Files that are made once: films that are kept until the tests are built again, and others.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

/// The film of this name, which `make` writes if this build of the tests has not done so.
pub(crate) fn kept(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    // Tests run side by side: one of them makes the film, the others wait for it.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept-films").join(build());
    let path = dir.join(name);
    if !path.exists() {
        fs::create_dir_all(&dir).unwrap();
        made(&path, make);
    }
    path
}

/// Makes a file. Several test processes may do so at once: each makes its own, and the last rename
/// stays. In name spaces of their own, they may all have the same process id.
pub(crate) fn made(path: &Path, make: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir_in(path.parent().unwrap()).unwrap();
    let making = dir.path().join(path.file_name().unwrap());
    make(&making);
    fs::rename(&making, path).unwrap();
}

/// What distinguishes this build of the tests from others: a film may be another one there.
fn build() -> String {
    let built = fs::metadata(std::env::current_exe().unwrap()).unwrap().modified().unwrap();
    built.duration_since(UNIX_EPOCH).unwrap().as_nanos().to_string()
}
