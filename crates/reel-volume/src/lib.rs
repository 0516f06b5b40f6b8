//! Members, superblock, catalogue, allocation; striped, parity-protected reads and writes.
//!
//! A [`Volume`] is made of N members. An object is cut into stripes. A stripe is stored on D + P
//! members with a checksum for every row, so the volume tolerates the loss, failure or wrong data
//! of any P members. Titles, which name objects, are published in one step. `docs/volume-format.md`
//! lists every byte on the members and argues why a crash at any moment leaves either the old or
//! the new set of titles.
//!
//! Pure parts: [`Geometry`], [`UnitRead`], the encoding of superblock and catalogue, the selection
//! of the catalogue in force, the map of free slots. The other modules do the disk I/O.
#![forbid(unsafe_code)]

mod access;
mod answers;
mod backing;
mod catalogue;
mod check;
mod claim;
mod commit;
mod consent;
mod content;
mod counters;
mod create;
mod encoding;
mod error;
mod fill;
mod find;
mod finding;
mod geometry;
#[cfg(test)]
mod geometry_laws;
mod health;
mod hold;
mod ids;
mod late;
mod layout;
pub mod limits;
mod lock;
mod manifest;
mod members;
mod memory_file;
mod new_disk;
mod object;
mod open;
mod output;
mod owner;
mod patience;
mod presence;
mod reader;
mod rebuild;
mod replace;
mod reserve;
mod scrub;
mod signature;
mod space;
mod spin_up;
mod superblock;
mod target;
mod unit_read;
#[cfg(test)]
mod unit_read_laws;
mod volume;
mod waits;
mod wake;
mod writer;

pub use access::WriteObserver;
#[cfg(fuzzing)]
pub use catalogue::fuzz_catalogue;
pub use catalogue::{
    Extent, ObjectEntry, ObjectRecord, Role, STREAM_INDEX_NUMBER, STREAM_NUMBER, STREAM_SUMS_NUMBER,
    SourceFile, Sums, TitleRecord, TitleRecordError, WARNINGS_NUMBER,
};
pub use check::{CheckProgress, CheckReport, MemberReport, TitleReport};
pub use commit::CommitStatus;
pub use counters::{Counter, VolumeCounters};
pub use create::{Members, VolumeOptions, VolumeSummary};
pub use encoding::EncodingError;
pub use error::VolumeError;
pub use find::{FoundMember, find_members, list_members};
pub use finding::{Finding, MEMBERS_LOG, MemberState};
pub use geometry::{Geometry, GeometryError, GeometryFields, GeometryPreset, Location, UnitAddress};
pub use health::{Health, MemberUse};
pub use hold::Hold;
pub use ids::{MemberId, VolumeId, VolumeSecret};
pub use object::{ObjectLayout, ObjectMap};
pub use open::{ArenaBudget, OpenOptions, Simulated};
pub use output::{Output, ensure_output};
pub use reader::ObjectReader;
pub use rebuild::{RebuildReport, RepairOptions};
pub use replace::Replacement;
pub use superblock::{Superblock, SuperblockError};
pub use unit_read::{UnitFetch, UnitRead, UnitRows, UnitStep};
pub use volume::{Volume, VolumeStatus};
pub use waits::CooperativeWait;
pub use wake::WakeOccasion;
pub use writer::ObjectWriter;
