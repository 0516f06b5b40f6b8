//! A volume with as many titles as a large collection has.

use super::rig::Rig;
use reel_qos::Class;
use reel_volume::{Members, ObjectEntry, Role, TitleRecord, VolumeOptions};
use std::io::Read;

/// Titles of the volume.
pub(crate) const TITLES: usize = 3000;

/// A volume with the smallest stripes: each title takes one.
pub(crate) fn options() -> VolumeOptions {
    VolumeOptions {
        members: Members::Count(2),
        parity: 1,
        size_bytes: 512 << 20,
        symbol_bytes: Some(1024),
        row_symbols: Some(8),
        unit_rows: Some(1),
        data_rows: Some(1),
        catalogue_bytes: Some(2 << 20),
        ..VolumeOptions::default()
    }
}

/// Fills up the volume with titles that have an index and no more: that of the film.
pub(crate) fn add_titles(rig: &Rig) {
    let volume = rig.library.volume();
    let film = rig.library.record("film").expect("the film");
    let object = film.object(Role::Index, 0).expect("its index");
    let mut index = Vec::new();
    let map = volume.map(object).expect("a map");
    volume.reader(map, 0..object.bytes, Class::APERIODIC).read_to_end(&mut index).expect("read");
    for number in 1..TITLES {
        let mut writer = volume.writer(Class::APERIODIC).expect("a writer");
        writer.write(&index).expect("written");
        let object = writer.finish().expect("written");
        let id = format!("title-{number}");
        let objects = vec![ObjectEntry { role: Role::Index, number: 0, object }];
        let title = TitleRecord { name: id.clone(), id, objects, ..TitleRecord::clone(&film) };
        volume.publish(title).expect("published");
    }
}
