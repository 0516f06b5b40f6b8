//! The catalogue: which titles a volume holds and where their objects are stored, how it is
//! encoded, and which of the copies on the members is in force.

mod body;
mod header;
mod record;
mod selection;
#[cfg(test)]
mod selection_laws;

pub(crate) use body::{decode_body, encode_body};
pub(crate) use header::{BODY_AT, CommitHeader, Epoch, MemberSet};
pub use record::{
    Extent, ObjectEntry, ObjectRecord, Role, STREAM_INDEX_NUMBER, STREAM_NUMBER, STREAM_SUMS_NUMBER,
    SourceFile, Sums, TitleRecord, TitleRecordError, WARNINGS_NUMBER,
};
pub(crate) use selection::{Area, Candidate, Selection, SelectionError, select, write_quorum};

/// Entry point of the fuzzer, and used by nothing else. Any two blocks and any body are a commit or
/// an error, and what was read is written as it was. The checksums are set right before decoding,
/// since chance would never find them.
#[cfg(fuzzing)]
pub fn fuzz_catalogue(bytes: &[u8]) {
    let blocks = bytes.len().min(BODY_AT as usize);
    let (header, body) = bytes.split_at(blocks);
    header::fuzz_header(header);
    if let Ok(titles) = decode_body(body) {
        assert_eq!(encode_body(titles.iter()), body, "a body is written as it was read");
    }
}
