//! A small volume with one title in it.

use reel_fixture::{five_members, open_volume};
use reel_library::{IngestOptions, Input, Library};
use reel_volume::{OpenOptions, Volume};
use std::process::Command;
use std::sync::Arc;

/// The members of its volume.
pub(crate) const MEMBERS: usize = 5;

/// A library with a title, and the directory that it lies in.
pub(crate) struct Film {
    pub(crate) library: Arc<Library>,
    pub(crate) id: String,
    /// The title as one file.
    pub(crate) file: Vec<u8>,
    _dir: tempfile::TempDir,
}

impl Film {
    pub(crate) fn new() -> Film {
        let dir = tempfile::tempdir().expect("a directory");
        let (source, volume) = (dir.path().join("film.mp4"), dir.path().join("volume"));
        let picture = "testsrc2=size=640x360:rate=25:duration=6";
        let made = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", picture, "-c:v", "libx264"])
            .args(["-preset", "ultrafast", "-g", "25", "-pix_fmt", "yuv420p"])
            .arg(&source)
            .output()
            .expect("ffmpeg is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Volume::create(&volume, five_members(96 << 20)).expect("created");
        let volume = open_volume(&volume, &OpenOptions::default());
        let library = Arc::new(Library::new(Arc::new(volume)));
        let ingested =
            library.ingest(&[Input::new(&source)], &IngestOptions::default(), &mut |_| {}).expect("ingested");
        let (id, mut file) = (ingested.id, Vec::new());
        library.export(&id, &mut file, &mut |_, _| {}).expect("exported");
        Film { library, id, file, _dir: dir }
    }
}
