//! Where a tree may be mounted.

use crate::limits::LOOK_TIME;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;

/// An empty directory that nothing is mounted on.
#[derive(Debug)]
pub struct MountPoint {
    path: PathBuf,
}

/// Why nothing is mounted there, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// There is nothing.
    #[error("{0} does not exist; make the directory first: mkdir {0}")]
    Missing(String),
    /// It is something else.
    #[error("{0} is no directory; name an empty one")]
    NoDirectory(String),
    /// Something is in it, which would be hidden.
    #[error("{0} is not empty; name an empty directory")]
    NotEmpty(String),
    /// Something is mounted there.
    #[error("{0} is a mount point already; unmount it ({unmount}), or name another directory", unmount = unmount_command(.0))]
    Mounted(String),
    /// The program that answered for what is mounted there is gone.
    #[error("{0} is a mount whose program has ended; unmount it first: {unmount}", unmount = unmount_command(.0))]
    Dead(String),
    /// It cannot be looked at.
    #[error("cannot look at {0}: {1}")]
    Look(String, io::Error),
}

impl MountPoint {
    /// Checks that something can be mounted on a directory.
    ///
    /// # Errors
    /// It is no empty directory, or a mount point.
    pub fn check(directory: &Path) -> Result<MountPoint, PlaceError> {
        let shown = directory.display().to_string();
        let path = fs::canonicalize(directory).map_err(|error| of_look(error, &shown))?;
        // A program that answers for a mount may stand still, so it is not asked.
        let looked = statx(CWD, &path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        let looked = looked.map_err(|error| of_look(error.into(), &shown))?;
        let mount = StatxAttributes::MOUNT_ROOT;
        if looked.stx_attributes_mask.contains(mount) && looked.stx_attributes.contains(mount) {
            return Err(if is_dead(&path) { PlaceError::Dead(shown) } else { PlaceError::Mounted(shown) });
        }
        let mut entries = fs::read_dir(&path).map_err(|error| of_look(error, &shown))?;
        match entries.next() {
            None => Ok(MountPoint { path }),
            Some(_) => Err(PlaceError::NotEmpty(shown)),
        }
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// How something is unmounted.
pub(crate) fn unmount_command(directory: &str) -> String {
    format!("fusermount3 -u {directory}, or as root umount {directory}")
}

fn of_look(error: io::Error, shown: &str) -> PlaceError {
    let shown = shown.to_owned();
    match error.kind() {
        ErrorKind::NotFound => PlaceError::Missing(shown),
        ErrorKind::NotADirectory => PlaceError::NoDirectory(shown),
        ErrorKind::NotConnected => PlaceError::Dead(shown),
        _ => PlaceError::Look(shown, error),
    }
}

/// Whether no program answers for a mount any more. One that does not say in time may be alive.
fn is_dead(path: &Path) -> bool {
    let (say, said) = channel();
    let path = path.to_owned();
    let look = thread::Builder::new().name("reel-look".to_owned());
    let looking = look.spawn(move || {
        // It is asked: attributes may be answered from what the kernel remembers.
        let result = fs::read_dir(path);
        // If it is late, no thread waits for it.
        let _ = say.send(result.is_err_and(|error| error.kind() == ErrorKind::NotConnected));
    });
    looking.is_ok() && said.recv_timeout(LOOK_TIME).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_directory_will_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let said = |path: &Path| MountPoint::check(path).expect_err("it will not do").to_string();
        assert_eq!(MountPoint::check(dir.path()).expect("empty").path(), dir.path());
        fs::write(dir.path().join("file"), "").expect("written");
        assert!(
            said(&dir.path().join("none")).contains("none does not exist; make the directory first: mkdir ")
        );
        assert!(said(&dir.path().join("file")).contains("file is no directory; "));
        assert!(said(&dir.path().join("file/below")).contains("is no directory; "));
        assert!(said(dir.path()).contains(" is not empty; "));
        assert!(
            said(Path::new("/proc")).contains("/proc is a mount point already; unmount it (fusermount3 -u ")
        );
    }
}
