//! A directory with a small volume in it.

use reel_fixture::{five_members, open_volume};
use reel_library::Library;
use reel_volume::{GeometryPreset, OpenOptions, Volume, VolumeOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A temporary directory for media files, with a volume of five members.
pub(crate) struct TestLibrary {
    dir: tempfile::TempDir,
}

impl TestLibrary {
    /// A volume of `size_bytes` in all.
    pub(crate) fn new(size_bytes: u64) -> TestLibrary {
        TestLibrary::with(size_bytes, GeometryPreset::default())
    }

    /// The same with this geometry.
    pub(crate) fn with(size_bytes: u64, preset: GeometryPreset) -> TestLibrary {
        let test_library = TestLibrary { dir: tempfile::tempdir().expect("tempdir") };
        let options = VolumeOptions { preset, ..five_members(size_bytes) };
        Volume::create(test_library.volume_dir(), options).expect("created");
        test_library
    }

    /// The directory for media files.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The directory of the volume.
    pub(crate) fn volume_dir(&self) -> PathBuf {
        self.dir.path().join("volume")
    }

    /// The opened volume.
    pub(crate) fn library(&self) -> Library {
        open(&self.volume_dir())
    }
}

/// Opens the volume in a directory.
pub(crate) fn open(volume_dir: &Path) -> Library {
    Library::new(Arc::new(open_volume(volume_dir, &OpenOptions::default())))
}
