//! A removed title is not ingested again, whenever the power fails.

use reel_fixture::five_members;
use reel_library::{Library, Stamp};
use reel_volume::{OpenOptions, SourceFile, TitleRecord, Volume, WriteObserver};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Records, at every write to a member, the removals that are on disk by then.
#[derive(Default)]
struct RecordsOnDisk {
    removed: PathBuf,
    observing: AtomicBool,
    seen: Mutex<Vec<String>>,
}

impl WriteObserver for RecordsOnDisk {
    fn write(&self, _: usize, _: u64, _: &[u8]) -> u64 {
        if self.observing.load(Ordering::Acquire) {
            let text = std::fs::read_to_string(&self.removed).unwrap_or_default();
            self.seen.lock().expect("whole").push(text);
        }
        0
    }

    fn sync(&self, _: usize) -> u64 {
        0
    }

    fn done(&self, _: u64, _: bool) {}
}

#[test]
fn a_title_is_remembered_before_it_is_gone() {
    let directory = tempfile::tempdir().expect("tempdir");
    Volume::create(directory.path(), five_members(80 << 20)).expect("created");
    let observer =
        Arc::new(RecordsOnDisk { removed: directory.path().join("removed.txt"), ..RecordsOnDisk::default() });
    let options = OpenOptions { observer: Some(observer.clone()), ..OpenOptions::default() };
    let volume = Arc::new(Volume::open(directory.path(), options).expect("opened"));
    let source = SourceFile { file_name: "film.mp4".to_owned(), bytes: 17, modified_unix_s: 2 };
    let stamp = Stamp { file_name: source.file_name.clone(), bytes: 17, modified_unix_s: 2 };
    let (id, name) = ("film".to_owned(), "Film".to_owned());
    let title = TitleRecord { id, name, added_unix_s: 1, source, objects: Vec::new() };
    volume.publish(title).expect("published");
    let library = Library::new(volume);
    observer.observing.store(true, Ordering::Release);
    library.remove("film").expect("removed");
    observer.observing.store(false, Ordering::Release);
    let seen = observer.seen.lock().expect("whole");
    assert!(!seen.is_empty() && seen.iter().all(|text| text.contains("17 2 film.mp4")), "{seen:?}");
    assert!(library.knows(&stamp));
}
