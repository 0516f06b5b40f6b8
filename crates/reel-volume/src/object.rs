//! Where every row of one object is stored and what its checksum is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reel_code::Code;

use crate::catalogue::Extent;
use crate::counters::VolumeCounters;
use crate::geometry::Geometry;
use crate::hold::Hold;

/// The map of one object. As long as it exists, the slots of its object are not reused.
pub struct ObjectMap {
    id: u64,
    name: String,
    geometry: Geometry,
    code: Code,
    bytes: u64,
    /// The extents, each with the number of its first stripe.
    runs: Vec<(u64, Extent)>,
    sums: Arc<[u32]>,
    data_offset: u64,
    counters: Arc<VolumeCounters>,
    _hold: Hold,
}

/// The parts that a map is made of.
pub(crate) struct ObjectParts {
    pub(crate) name: String,
    pub(crate) geometry: Geometry,
    pub(crate) code: Code,
    pub(crate) bytes: u64,
    pub(crate) extents: Vec<Extent>,
    pub(crate) sums: Vec<u32>,
    pub(crate) data_offset: u64,
    pub(crate) counters: Arc<VolumeCounters>,
    pub(crate) hold: Hold,
}

/// The layout of an object in a simulation, where there is no catalogue.
#[derive(Clone, Debug)]
pub struct ObjectLayout {
    /// The value of [`ObjectMap::id`]. The caller chooses it, unlike that of real maps, so that a
    /// run can be repeated within one process.
    pub id: u64,
    /// A description of the object, for messages.
    pub name: String,
    /// The geometry of the volume.
    pub geometry: Geometry,
    /// The code of the volume.
    pub code: Code,
    /// The object's length.
    pub bytes: u64,
    /// Its slots, in order.
    pub extents: Vec<Extent>,
    /// CRC-32C of every row, data and parity, in the order stripe, position, matrix.
    pub sums: Arc<[u32]>,
    /// The byte of every member at which its units begin.
    pub data_offset: u64,
    /// Where reads of the object are counted.
    pub counters: Arc<VolumeCounters>,
}

impl ObjectMap {
    /// The map of an object with this layout. For simulations and tests: nothing keeps its slots
    /// from being reused, and its id must differ from those of all maps that it is used with.
    ///
    /// # Panics
    /// If there are fewer slots than the bytes need, or the number of checksums is not that of the
    /// rows.
    pub fn simulated(layout: ObjectLayout) -> ObjectMap {
        let stripes = layout.geometry.stripes(layout.bytes);
        let slots: u64 = layout.extents.iter().map(|extent| extent.slots).sum();
        assert!(slots >= stripes, "{} has {stripes} stripes and {slots} slots", layout.name);
        let rows = stripes * layout.geometry.stripe_rows() as u64;
        assert_eq!(layout.sums.len() as u64, rows, "{} has {rows} rows", layout.name);
        ObjectMap {
            id: layout.id,
            name: layout.name,
            geometry: layout.geometry,
            code: layout.code,
            bytes: layout.bytes,
            runs: runs(layout.extents),
            sums: layout.sums,
            data_offset: layout.data_offset,
            counters: layout.counters,
            _hold: Hold::default(),
        }
    }

    /// The caller has checked the parts: as many slots as the bytes need, one checksum for each
    /// row.
    pub(crate) fn new(parts: ObjectParts) -> ObjectMap {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        ObjectMap {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name: parts.name,
            geometry: parts.geometry,
            code: parts.code,
            bytes: parts.bytes,
            runs: runs(parts.extents),
            sums: parts.sums.into(),
            data_offset: parts.data_offset,
            counters: parts.counters,
            _hold: parts.hold,
        }
    }

    /// Identifies this map within the process and is never used again, unlike slots and titles.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A description of the object, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object's length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The geometry of its volume.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The code of its volume.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The object's stripes.
    pub fn stripes(&self) -> u64 {
        self.geometry.stripes(self.bytes)
    }

    /// The slot of a stripe.
    ///
    /// # Panics
    /// If the object has no such stripe.
    pub fn slot(&self, stripe: u64) -> u64 {
        assert!(
            stripe < self.stripes(),
            "{} has {} stripes, not one numbered {stripe}",
            self.name,
            self.stripes()
        );
        let run = self.runs.partition_point(|(first, _)| *first <= stripe) - 1;
        let (first_stripe, extent) = self.runs[run];
        extent.first_slot + (stripe - first_stripe)
    }

    /// The member that holds a position of a stripe, and the byte of the member at which its unit
    /// starts.
    ///
    /// # Panics
    /// If the object has no such stripe or position.
    pub fn unit_at(&self, stripe: u64, position: usize) -> (usize, u64) {
        let place = self.geometry.place(self.slot(stripe), position);
        (place.member, self.data_offset + place.unit * self.geometry.unit_bytes() as u64)
    }

    /// The checksum of a row.
    ///
    /// # Panics
    /// If that is behind the last checksum of the object.
    pub fn sum(&self, stripe: u64, position: usize, matrix: usize) -> u32 {
        self.sums[self.geometry.sum_index(stripe, position, matrix) as usize]
    }

    pub(crate) fn counters(&self) -> &VolumeCounters {
        &self.counters
    }
}

/// Extents in order, each with the number of its first stripe.
fn runs(extents: Vec<Extent>) -> Vec<(u64, Extent)> {
    let mut first_stripe = 0;
    let mut runs = Vec::with_capacity(extents.len());
    for extent in extents {
        runs.push((first_stripe, extent));
        first_stripe += extent.slots;
    }
    runs
}

impl fmt::Debug for ObjectMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectMap")
            .field("name", &self.name)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
