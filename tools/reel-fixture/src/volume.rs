//! A small volume with known bytes.

use crate::core::{ClientBehaviour, Core};
use reel_cache::{Body, Part, RowKind, Units};
use reel_disk::{ClassStats, DisksConfig, Faults, MemberStats};
use reel_qos::{Class, DiskPrice};
use reel_testkit::Rng;
use reel_volume::{
    ArenaBudget, GeometryFields, Health, MemberUse, Members, ObjectEntry, ObjectMap, OpenOptions, Role,
    SourceFile, TitleRecord, Volume, VolumeOptions,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Members of the volume.
pub const MEMBERS: usize = 4;
/// Bytes of a stripe: three data rows of 4000 bytes, three matrices.
pub const STRIPE_BYTES: usize = 36_000;
/// The smallest arena for a volume of this geometry: four stripes of four units.
pub const BUFFERS: usize = 16;

const GEOMETRY: GeometryFields = GeometryFields {
    symbol_bytes: 400,
    row_symbols: 10,
    unit_rows: 3,
    data_rows: MEMBERS - 1,
    parity_rows: 1,
    members: MEMBERS,
};

/// A volume whose members fail on request.
pub struct VolumeFixture {
    /// The volume.
    pub volume: Volume,
    /// The faults of its members.
    pub faults: Faults,
    /// Its objects.
    pub objects: Vec<Arc<ObjectMap>>,
    /// The bytes of each object.
    pub bytes: Vec<Vec<u8>>,
    /// How its members were used when it was made.
    uses: Vec<MemberUse>,
    _directory: tempfile::TempDir,
}

impl VolumeFixture {
    /// Objects of these lengths in `arena_bytes` of memory, or in the smallest arena.
    pub fn new(lengths: &[usize], arena_bytes: usize, lost_member: Option<usize>) -> VolumeFixture {
        Self::with_geometry(GEOMETRY, lengths, arena_bytes, lost_member)
    }

    /// The same on a volume of this geometry.
    pub fn with_geometry(
        geometry: GeometryFields,
        lengths: &[usize],
        arena_bytes: usize,
        lost_member: Option<usize>,
    ) -> VolumeFixture {
        let directory = tempfile::tempdir().unwrap();
        let options = VolumeOptions {
            members: Members::Count(geometry.members),
            parity: geometry.parity_rows,
            size_bytes: geometry.members as u64 * (8 << 20),
            symbol_bytes: Some(geometry.symbol_bytes),
            row_symbols: Some(geometry.row_symbols),
            unit_rows: Some(geometry.unit_rows),
            data_rows: Some(geometry.data_rows),
            catalogue_bytes: Some(256 << 10),
            ..VolumeOptions::default()
        };
        Volume::create(directory.path(), options).unwrap();
        let faults = Faults::default();
        let open = || {
            let disks = DisksConfig { faults: Some(faults.clone()), ..DisksConfig::default() };
            let arena = ArenaBudget { bytes: arena_bytes, huge_pages: false };
            Volume::open(directory.path(), OpenOptions { arena, disks, ..OpenOptions::default() }).unwrap()
        };
        let bytes: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(seed, length)| Rng::new(seed as u64).bytes(*length)).collect();
        let mut volume = open();
        publish(&volume, &bytes);
        if let Some(member) = lost_member {
            drop(volume);
            std::fs::remove_file(directory.path().join(format!("member-{member}.reel"))).unwrap();
            volume = open();
        }
        let title = volume.title("film").unwrap();
        let objects = title.objects.iter().map(|entry| volume.map(&entry.object).unwrap()).collect();
        let uses = (0..geometry.members).map(|member| volume.health().member(member)).collect();
        VolumeFixture { volume, faults, objects, bytes, uses, _directory: directory }
    }

    /// The members are not rotational: a read costs next to nothing.
    pub fn on_flash(self) -> VolumeFixture {
        let price = DiskPrice {
            read_request_ns: 100_000,
            read_mib_ns: 400_000,
            write_request_ns: 100_000,
            write_mib_ns: 400_000,
            independent_limits: false,
        };
        (0..self.members()).for_each(|member| self.volume.disks().set_price(member, price.into()));
        self
    }

    /// A table of units that leaves `spare_buffers` to other users.
    pub fn units(&self, spare_buffers: usize) -> Units {
        self.units_with(spare_buffers, self.health())
    }

    /// All members are as they were when the volume was made, whatever they did before. The volume
    /// itself takes one out whose fault also fails the writes of the heartbeat, which come with
    /// time.
    pub fn health(&self) -> Health {
        Health::tolerating(self.uses.iter().copied(), 1)
    }

    /// The same, over members in this state.
    pub fn units_with(&self, spare_buffers: usize, health: Health) -> Units {
        let volume = &self.volume;
        Units::new(volume.arena().clone(), volume.disks().clone(), health, spare_buffers)
    }

    /// All of an object.
    pub fn whole(&self, object: usize) -> Body {
        Body::new([Part::Object(Arc::clone(&self.objects[object]), 0..self.bytes[object].len() as u64)])
    }

    /// All parity rows of an object.
    pub fn whole_parity(&self, object: usize) -> Body {
        let map = &self.objects[object];
        Body::new([Part::Parity(Arc::clone(map), 0..RowKind::Parity.object_bytes(map))])
    }

    /// The bytes of all parity rows of an object, by a plain computation.
    pub fn parity_bytes(&self, object: usize) -> Vec<u8> {
        let geometry = self.volume.geometry();
        let mut data = self.bytes[object].clone();
        data.resize(data.len().next_multiple_of(geometry.stripe_bytes()), 0);
        let parity_of = |matrix: &[u8]| {
            let mut parity = vec![0; geometry.row_bytes()];
            for row in matrix.chunks(geometry.row_bytes()) {
                parity.iter_mut().zip(row).for_each(|(parity, byte)| *parity ^= byte);
            }
            parity
        };
        data.chunks(geometry.data_rows() * geometry.row_bytes()).flat_map(parity_of).collect()
    }

    /// Reads of each member for viewers so far, and their bytes. Each second the owner of the
    /// volume reads the owner records of some members, in another class. They do not count.
    pub fn reads(&self) -> Vec<(u64, u64)> {
        let of_viewers = |stats: &MemberStats| {
            let ClassStats { requests, bytes, .. } = stats.classes[Class::PERIODIC.index()];
            (requests, bytes)
        };
        self.volume.disks().stats().iter().map(of_viewers).collect()
    }

    fn members(&self) -> usize {
        self.volume.geometry().members()
    }

    /// Twenty viewers play the first object to its end, five of them on each of four threads.
    pub fn play_on_four_cores(&self, units: &Units) {
        std::thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || {
                    let mut core = Core::new(units, seed);
                    for _ in 0..5 {
                        core.watch_in_time(self.whole(0), self.bytes[0].clone());
                    }
                    assert_eq!(core.play(ClientBehaviour::default()).complete, 5);
                });
            }
        });
    }

    /// Buffers of the arena that are held. Waits a moment for answers that are still on their way.
    pub fn buffers_taken(&self) -> usize {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let taken = self.volume.arena().usage().buffers_taken;
            if taken == 0 || Instant::now() > until {
                return taken;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn publish(volume: &Volume, objects: &[Vec<u8>]) {
    let entry = |(number, bytes): (usize, &Vec<u8>)| {
        let mut writer = volume.writer(Class::APERIODIC).unwrap();
        writer.write(bytes).unwrap();
        ObjectEntry { role: Role::Track, number: number as u32, object: writer.finish().unwrap() }
    };
    let title = TitleRecord {
        id: "film".to_owned(),
        name: "The film".to_owned(),
        added_unix_s: 1_790_000_000,
        source: SourceFile { file_name: "film.mp4".to_owned(), bytes: 1, modified_unix_s: 2 },
        objects: objects.iter().enumerate().map(entry).collect(),
    };
    volume.publish(title).unwrap();
}
