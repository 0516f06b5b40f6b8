//! Members, superblock, catalogue, allocation; striped, parity-protected reads and writes.
#![forbid(unsafe_code)]

mod catalogue;
mod encoding;
mod error;
mod geometry;
#[cfg(test)]
mod geometry_laws;
mod ids;
pub mod limits;
mod space;
mod superblock;

pub use catalogue::{
    Extent, ObjectEntry, ObjectRecord, Role, SourceFile, Sums, TitleRecord, TitleRecordError,
};
pub use encoding::EncodingError;
pub use error::VolumeError;
pub use geometry::{Geometry, GeometryError, GeometryFields, Location, UnitPlace};
pub use ids::{MemberId, VolumeId};
pub use superblock::{Superblock, SuperblockError};
