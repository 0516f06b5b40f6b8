//! Films that are made once, and kept until the tests are built again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

/// The film of this name, which `make` writes if this build of the tests has not done so.
pub(crate) fn kept(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    // Tests run side by side: one of them makes the film, the others wait for it. Other processes
    // may make the same film at once: the last rename stays.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept-films").join(build());
    let path = dir.join(name);
    if !path.exists() {
        fs::create_dir_all(&dir).unwrap();
        let making = dir.join(format!("{}-{name}", std::process::id()));
        make(&making);
        fs::rename(&making, &path).unwrap();
    }
    path
}

/// What distinguishes this build of the tests from others: a film may be another one there.
fn build() -> String {
    let built = fs::metadata(std::env::current_exe().unwrap()).unwrap().modified().unwrap();
    built.duration_since(UNIX_EPOCH).unwrap().as_nanos().to_string()
}
