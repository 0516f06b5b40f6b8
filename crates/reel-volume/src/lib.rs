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
mod catalogue;
mod check;
mod commit;
mod counters;
mod create;
mod encoding;
mod error;
mod fill;
mod finding;
mod geometry;
#[cfg(test)]
mod geometry_laws;
mod health;
mod hold;
mod ids;
mod layout;
pub mod limits;
mod lock;
mod manifest;
mod members;
mod object;
mod open;
mod reader;
mod rebuild;
mod replace;
mod scrub;
mod space;
mod superblock;
mod unit_read;
#[cfg(test)]
mod unit_read_laws;
mod volume;
mod waits;
mod writer;

pub use access::WriteObserver;
#[cfg(fuzzing)]
pub use catalogue::fuzz_catalogue;
pub use catalogue::{
    Extent, ObjectEntry, ObjectRecord, Role, SourceFile, Sums, TitleRecord, TitleRecordError,
};
pub use check::{CheckProgress, CheckReport, MemberReport, TitleReport};
pub use commit::CommitStatus;
pub use counters::{Counter, VolumeCounters};
pub use create::{Members, VolumeOptions, VolumeSummary};
pub use encoding::EncodingError;
pub use error::VolumeError;
pub use finding::{Finding, MEMBERS_LOG, MemberState};
pub use geometry::{Geometry, GeometryError, GeometryFields, Location, UnitAddress};
pub use health::{Health, MemberUse};
pub use hold::Hold;
pub use ids::{MemberId, VolumeId};
pub use object::{ObjectLayout, ObjectMap};
pub use open::{ArenaBudget, OpenOptions, Simulated};
pub use reader::ObjectReader;
pub use rebuild::{RebuildReport, RepairOptions};
pub use replace::Replacement;
pub use superblock::{Superblock, SuperblockError};
pub use unit_read::{UnitFetch, UnitRead, UnitRows, UnitStep};
pub use volume::{Volume, VolumeStatus};
pub use waits::CooperativeWait;
pub use writer::ObjectWriter;
