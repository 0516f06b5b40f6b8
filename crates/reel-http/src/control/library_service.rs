//! What the API needs of the titles and of the volume under them.

use reel_library::{
    IngestError, IngestOptions, Ingested, Input, LibraryError, Poster, PosterKind, Progress, Stamp,
    TitleSummary,
};
use serde::Serialize;
use std::sync::Arc;

/// The titles of one volume. Every call may block on disks; the control plane makes them on blocking threads.
pub trait LibraryService: Send + Sync + 'static {
    /// All titles, in order of name.
    fn titles(&self) -> Vec<Arc<TitleSummary>>;

    /// One title.
    fn title(&self, id: &str) -> Result<Arc<TitleSummary>, LibraryError>;

    /// Whether there is such a title; does not block.
    fn has(&self, id: &str) -> bool;

    /// Whether a title was made from this very file; does not block.
    fn knows(&self, stamp: &Stamp) -> bool;

    /// Takes a title out of the catalogue. Who plays it may finish.
    fn remove(&self, id: &str) -> Result<(), LibraryError>;

    /// How a title's poster is stored, and a mark that changes with its bytes; does not block.
    fn poster_mark(&self, id: &str) -> Result<(PosterKind, String), LibraryError>;

    /// A title's poster.
    fn poster(&self, id: &str) -> Result<Poster, LibraryError>;

    /// Says whether a file could be taken, without taking it: its structure is read, its samples are not.
    fn probe(&self, input: &Input) -> Result<(), IngestError>;

    /// Takes one file as a title.
    fn ingest(
        &self,
        input: &Input,
        options: &IngestOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Ingested, IngestError>;

    /// Bytes free for titles; does not block.
    fn free_bytes(&self) -> u64;

    /// The state of the volume; does not block.
    fn volume(&self) -> VolumeReport;
}

/// The state of a volume, as `GET /api/v1/volume` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VolumeReport {
    /// Its identity, in hexadecimal.
    pub id: String,
    /// Titles can be added and removed.
    pub writable: bool,
    /// `ok`: every member is in order; `degraded`: titles play, but with less parity than made for; `failed`: some
    /// bytes cannot be read.
    pub state: &'static str,
    /// Bytes of titles it can hold in all, parity left out.
    pub bytes: u64,
    /// Of these, not in use.
    pub free_bytes: u64,
    /// Number of titles.
    pub titles: usize,
    /// How bytes are laid out.
    pub geometry: GeometryReport,
    /// Its members in order.
    pub members: Vec<MemberReport>,
}

/// The layout of a volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GeometryReport {
    /// Data rows of a matrix (D).
    pub data_rows: usize,
    /// Parity rows of a matrix (P): how many members may be lost.
    pub parity_rows: usize,
    /// Bytes of a symbol (E).
    pub symbol_bytes: usize,
    /// Symbols of a row (L).
    pub row_symbols: usize,
    /// Rows of a unit (M).
    pub unit_rows: usize,
    /// Bytes of a unit on its member.
    pub unit_bytes: usize,
    /// Object bytes of a stripe.
    pub stripe_bytes: usize,
}

/// The state of one member.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberReport {
    /// Its number, from 0.
    pub member: usize,
    /// Where it is.
    pub path: String,
    /// `present`, `swapped` or `repaired`: in use; `missing`, `truncated`, `damaged`, `foreign`, `stale` or `failed`:
    /// not in use.
    pub state: &'static str,
    /// Whether it is read and written.
    pub in_use: bool,
    /// The same in a sentence.
    pub text: String,
}
