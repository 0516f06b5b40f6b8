//! The catalogue: what titles a volume holds and where their objects lie; how it is encoded, and which of the
//! copies on the members is in force.

mod body;
mod header;
mod record;
mod selection;
#[cfg(test)]
mod selection_laws;

pub(crate) use body::{decode_body, encode_body};
pub(crate) use header::{BODY_AT, CommitHeader, Epoch, MemberSet};
pub use record::{Extent, ObjectEntry, ObjectRecord, Role, SourceFile, Sums, TitleRecord, TitleRecordError};
pub(crate) use selection::{Candidate, Selection, SelectionError, select, write_quorum};
