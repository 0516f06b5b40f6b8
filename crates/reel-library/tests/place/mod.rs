//! A directory with a small volume in it.

use reel_library::Library;
use reel_volume::{Members, OpenOptions, Volume, VolumeOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A temporary directory for films, with a volume of five members.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// A volume of so many bytes in all.
    pub fn new(size_bytes: u64) -> Place {
        let place = Place { dir: tempfile::tempdir().expect("tempdir") };
        let options = VolumeOptions { members: Members::Count(5), size_bytes, ..VolumeOptions::default() };
        Volume::create(&place.volume_dir(), options).expect("created");
        place
    }

    /// Where films go.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where the volume is.
    pub fn volume_dir(&self) -> PathBuf {
        self.dir.path().join("volume")
    }

    /// The volume, opened.
    pub fn library(&self) -> Library {
        open(&self.volume_dir())
    }
}

/// Opens the volume in a directory.
pub fn open(volume_dir: &Path) -> Library {
    let volume = Volume::open(volume_dir, OpenOptions::default()).expect("opens");
    Library::new(Arc::new(volume))
}
