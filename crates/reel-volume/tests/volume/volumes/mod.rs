//! Small volumes in temporary directories, and titles whose bytes follow from their names.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

pub mod devices;
pub mod immediate;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reel_qos::Class;
use reel_testkit::Rng;
use reel_volume::{
    ArenaBudget, Members, ObjectEntry, ObjectRecord, OpenOptions, Role, SourceFile, TitleRecord, Volume,
    VolumeError, VolumeOptions,
};

/// A volume in a temporary directory, which is removed with it.
pub struct Scratch {
    pub directory: tempfile::TempDir,
}

impl Scratch {
    /// A volume of `members` files with rows of 4000 bytes, which are not whole blocks.
    pub fn new(members: usize) -> Scratch {
        Scratch::with(members, |_| {})
    }

    pub fn with(members: usize, change: impl FnOnce(&mut VolumeOptions)) -> Scratch {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options(members);
        change(&mut options);
        Volume::create(directory.path(), options).unwrap();
        Scratch { directory }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn member(&self, index: usize) -> PathBuf {
        self.path().join(format!("member-{index}.reel"))
    }

    /// A child process of another test inherits the locks of this process until it executes its
    /// program. This function waits for that.
    pub fn open(&self) -> Volume {
        for _ in 0..1000 {
            match self.try_open() {
                Err(VolumeError::Locked { .. }) => std::thread::sleep(Duration::from_millis(10)),
                opened => return opened.unwrap(),
            }
        }
        panic!("the volume stays locked");
    }

    pub fn try_open(&self) -> Result<Volume, VolumeError> {
        Volume::open(self.path(), open_options())
    }
}

pub fn open_options() -> OpenOptions {
    OpenOptions { arena: ArenaBudget { bytes: 1 << 20, huge_pages: false }, ..OpenOptions::default() }
}

pub fn options(members: usize) -> VolumeOptions {
    VolumeOptions {
        members: Members::Count(members),
        size_bytes: members as u64 * (8 << 20),
        symbol_bytes: Some(400),
        row_symbols: Some(10),
        unit_rows: Some(3),
        catalogue_bytes: Some(256 << 10),
        ..VolumeOptions::default()
    }
}

/// The bytes of an object, computed from its title and number.
pub fn bytes_of(title: &str, number: usize, length: usize) -> Vec<u8> {
    let seed = title.bytes().fold(number as u64 + 1, |seed, byte| seed.wrapping_mul(257) + u64::from(byte));
    Rng::new(seed).bytes(length)
}

/// Writes objects of these lengths and makes a title of them, not published yet.
pub fn title_of(volume: &Volume, id: &str, lengths: &[usize]) -> TitleRecord {
    try_title_of(volume, id, lengths).unwrap()
}

pub fn try_title_of(volume: &Volume, id: &str, lengths: &[usize]) -> Result<TitleRecord, VolumeError> {
    let mut objects = Vec::new();
    for (number, length) in lengths.iter().enumerate() {
        let mut writer = volume.writer(Class::APERIODIC)?;
        writer.write(&bytes_of(id, number, *length))?;
        objects.push(ObjectEntry { role: Role::Track, number: number as u32, object: writer.finish()? });
    }
    Ok(TitleRecord {
        id: id.to_owned(),
        name: format!("The film {id}"),
        added_unix_s: 1_790_000_000,
        source: SourceFile { file_name: format!("{id}.mp4"), bytes: 1, modified_unix_s: 2 },
        objects,
    })
}

pub fn publish(volume: &Volume, id: &str, lengths: &[usize]) {
    volume.publish(title_of(volume, id, lengths)).unwrap();
}

pub fn read_object(volume: &Volume, object: &ObjectRecord) -> Result<Vec<u8>, String> {
    let map = volume.map(object).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let mut reader = volume.reader(map, 0..u64::MAX, Class::INTERACTIVE);
    reader.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Reads every object of every title and compares it with what was written.
pub fn assert_all_right(volume: &Volume) {
    for title in volume.titles().iter() {
        for entry in &title.objects {
            let bytes = read_object(volume, &entry.object).unwrap();
            let expected = bytes_of(&title.id, entry.number as usize, entry.object.bytes as usize);
            assert!(bytes == expected, "object {} of {} has other bytes", entry.number, title.id);
        }
    }
}

/// All free memory of a volume, one buffer at a time.
pub fn all_memory(volume: &Volume) -> Vec<reel_arena::Buffer> {
    let arena = volume.arena();
    std::iter::from_fn(|| arena.take(arena.buffer_bytes())).collect()
}
