//! A directory with a small volume in it.

use reel_library::Library;
use reel_volume::{GeometryPreset, Members, OpenOptions, Volume, VolumeError, VolumeOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

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
        let options = VolumeOptions {
            members: Members::Count(5),
            size_bytes,
            preset,
            catalogue_bytes: Some(64 << 10),
            ..VolumeOptions::default()
        };
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
///
/// The child of another test that is just being started also holds our locks until it executes
/// ffmpeg, so this waits.
pub(crate) fn open(volume_dir: &Path) -> Library {
    for _ in 0..500 {
        match Volume::open(volume_dir, OpenOptions::default()) {
            Ok(volume) => return Library::new(Arc::new(volume)),
            Err(VolumeError::Locked { .. }) => thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the volume stays locked");
}
