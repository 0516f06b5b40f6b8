//! Titles and objects as the catalogue records them.

use crate::geometry::Geometry;
use crate::hold::Hold;
use crate::limits::{
    EXTENTS_MAX, INLINE_SUMS_MAX, NAME_BYTES_MAX, OBJECT_BYTES_MAX, SUMS_DEPTH_MAX, TITLE_ID_BYTES_MAX,
    TITLE_OBJECTS_MAX,
};

/// A title: one film or song with all its objects. The volume does not interpret the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TitleRecord {
    /// Its id in URLs and commands, unique in the volume: 1 to 64 of `a-z`, `0-9` and `-`.
    pub id: String,
    /// Its name for display.
    pub name: String,
    /// When it was published, in seconds since 1970-01-01 UTC.
    pub added_unix_s: u64,
    /// The file it was made from.
    pub source: SourceFile,
    /// Its objects.
    pub objects: Vec<ObjectEntry>,
}

/// The file that a title was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, without directories.
    pub file_name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was last modified, in seconds since 1970-01-01 UTC; 0 if not known.
    pub modified_unix_s: u64,
}

/// One object of a title and its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// The purpose of the object.
    pub role: Role,
    /// Which of the objects with the same role: for a track, the number of the track.
    pub number: u32,
    /// Where its bytes are stored.
    pub object: ObjectRecord,
}

/// The purpose of an object of a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The index of the title.
    Index,
    /// Sample tables for virtual files.
    Tables,
    /// The stored bytes of one track.
    Track,
    /// A poster or other picture.
    Artwork,
}

/// The number of the stored transport stream of a title among its objects of role
/// [`Role::Track`]: far from the numbers of tracks.
pub const STREAM_NUMBER: u32 = 1 << 31;

/// The number of the index of that stream among the objects of role [`Role::Index`].
pub const STREAM_INDEX_NUMBER: u32 = 1;

/// The number of the partial checksums of that stream among the objects of role [`Role::Index`].
pub const STREAM_SUMS_NUMBER: u32 = 2;

/// The number of the warnings of its ingest among the objects of role [`Role::Index`].
pub const WARNINGS_NUMBER: u32 = 3;

/// Where the bytes of an object are stored and how they are checked. Immutable once published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRecord {
    /// Its length.
    pub bytes: u64,
    /// The runs of slots which hold its stripes, in the order of the stripes.
    pub extents: Vec<Extent>,
    /// The checksums of its rows.
    pub sums: Sums,
    /// Keeps the slots from being reused while the record, a clone of it or a map of it exists.
    /// Empty in a record that comes neither from a writer nor from the volume's list of titles.
    pub hold: Hold,
}

/// A run of neighbouring slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The first slot.
    pub first_slot: u64,
    /// How many there are, at least one.
    pub slots: u64,
}

/// CRC-32C of each row, data and parity, in the order stripe, position, matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sums {
    /// In the record itself, for objects of at most 64 rows.
    Inline(Vec<u32>),
    /// In an object of their own, as little-endian numbers of four bytes.
    Object(Box<ObjectRecord>),
}

/// A title that cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the title {id:?} cannot be published: {rule}")]
pub struct TitleRecordError {
    /// Its id.
    pub id: String,
    /// The rule it breaks.
    pub rule: &'static str,
}

impl TitleRecord {
    /// The object with this role and number.
    pub fn object(&self, role: Role, number: u32) -> Option<&ObjectRecord> {
        self.objects
            .iter()
            .find(|entry| entry.role == role && entry.number == number)
            .map(|entry| &entry.object)
    }

    /// The bytes of all its objects.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|entry| entry.object.bytes).sum()
    }

    /// Every run of slots the title occupies, those of its checksums included.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.objects.iter().flat_map(|entry| entry.object.all_extents())
    }

    /// Checks what can be checked without the rest of the catalogue.
    ///
    /// # Errors
    /// If the title breaks a rule of the format; the error names the rule.
    pub fn check(&self, geometry: &Geometry, slots: u64) -> Result<(), TitleRecordError> {
        self.rule_broken(geometry, slots)
            .map_or(Ok(()), |rule| Err(TitleRecordError { id: self.id.clone(), rule }))
    }

    fn rule_broken(&self, geometry: &Geometry, slots: u64) -> Option<&'static str> {
        let id_bytes = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if self.id.is_empty() || self.id.len() > TITLE_ID_BYTES_MAX || !self.id.bytes().all(id_bytes) {
            return Some("its id must be 1 to 64 of the characters a-z, 0-9 and -");
        }
        if self.name.len() > NAME_BYTES_MAX || self.source.file_name.len() > NAME_BYTES_MAX {
            return Some("its name and its file's name must be at most 4096 bytes each");
        }
        if self.objects.len() > TITLE_OBJECTS_MAX {
            return Some("it has more than 1024 objects");
        }
        let mut roles: Vec<(Role, u32)> =
            self.objects.iter().map(|entry| (entry.role, entry.number)).collect();
        roles.sort_unstable();
        if roles.windows(2).any(|pair| pair[0] == pair[1]) {
            return Some("two of its objects have the same role and number");
        }
        self.objects.iter().find_map(|entry| entry.object.rule_broken(geometry, slots, SUMS_DEPTH_MAX))
    }
}

impl ObjectRecord {
    /// Every run of slots the object occupies, those of its checksums included.
    pub fn all_extents(&self) -> Vec<Extent> {
        let mut extents = self.extents.clone();
        let mut sums = &self.sums;
        while let Sums::Object(object) = sums {
            extents.extend_from_slice(&object.extents);
            sums = &object.sums;
        }
        extents
    }

    /// The first slot, which identifies an object as long as it exists; `None` for an empty object.
    pub fn first_slot(&self) -> Option<u64> {
        self.extents.first().map(|extent| extent.first_slot)
    }

    fn rule_broken(&self, geometry: &Geometry, slots: u64, depth: usize) -> Option<&'static str> {
        if self.bytes > OBJECT_BYTES_MAX {
            return Some("one of its objects is longer than 16 TiB");
        }
        if self.extents.len() > EXTENTS_MAX {
            return Some("one of its objects is split into more than 65,536 runs of slots");
        }
        let stripes = geometry.stripes(self.bytes);
        let mut held = 0u64;
        for extent in &self.extents {
            let end = extent.first_slot.checked_add(extent.slots);
            if extent.slots == 0 || end.is_none_or(|end| end > slots) {
                return Some("one of its objects is stored outside the volume");
            }
            held = held.saturating_add(extent.slots);
        }
        if held != stripes {
            return Some("one of its objects does not have the number of slots that its length needs");
        }
        let rows = stripes * geometry.stripe_rows() as u64;
        match &self.sums {
            Sums::Inline(sums)
                if sums.len() as u64 == rows && sums.len() <= INLINE_SUMS_MAX.max(geometry.stripe_rows()) =>
            {
                None
            }
            Sums::Inline(_) => Some("one of its objects has a wrong number of checksums"),
            Sums::Object(_) if depth == 0 => Some("the checksums of one of its objects are nested too deep"),
            Sums::Object(object) if object.bytes != rows * 4 => {
                Some("one of its objects has a wrong number of checksums")
            }
            Sums::Object(object) => object.rule_broken(geometry, slots, depth - 1),
        }
    }
}

impl Role {
    pub(crate) fn number(self) -> u8 {
        match self {
            Role::Index => 1,
            Role::Tables => 2,
            Role::Track => 3,
            Role::Artwork => 4,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Role> {
        [Role::Index, Role::Tables, Role::Track, Role::Artwork]
            .into_iter()
            .find(|role| role.number() == number)
    }
}
