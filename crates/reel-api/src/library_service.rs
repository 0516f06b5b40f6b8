//! What the API needs of the titles and of the volume under them.

use reel_disk::MemberActivity;
use reel_library::{
    AddedStream, IngestError, IngestOptions, Ingested, Input, KnownTitles, LibraryError, Poster, PosterKind,
    Progress, Stop, StreamError, SubtitleError, SubtitleFile, TitleSummary, Watcher,
};
use reel_volume::MemberState;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// The titles of one volume. Every call may block on disks; the control plane makes them on
/// blocking threads.
pub trait LibraryService: KnownTitles + Send + Sync + 'static {
    /// All titles, in order of name.
    fn titles(&self) -> Vec<Arc<TitleSummary>>;

    /// A person looks at the list of titles. Wakes disks that may sleep; returns at once.
    fn looked_at(&self) {}

    /// One title.
    ///
    /// # Errors
    /// There is no such title, or its index cannot be read.
    fn title(&self, id: &str) -> Result<Arc<TitleSummary>, LibraryError>;

    /// Whether there is such a title; does not block.
    fn has(&self, id: &str) -> bool;

    /// A watcher of a directory whose files become titles.
    fn watcher(&self, dir: &Path) -> Watcher;

    /// Gives a title another name. Its id stays.
    ///
    /// # Errors
    /// There is no such title, or the volume cannot be written.
    fn rename(&self, id: &str, name: &str) -> Result<(), LibraryError>;

    /// Takes a title out of the catalogue. Sessions that play it may finish.
    ///
    /// # Errors
    /// There is no such title, or the volume cannot be written.
    fn remove(&self, id: &str) -> Result<(), LibraryError>;

    /// Adds subtitles to a title, whose id stays. Sessions that play it continue without them.
    /// Returns what the person who adds them should know.
    ///
    /// # Errors
    /// There is no such title, the file cannot be taken, or the volume cannot be written.
    fn add_subtitles(&self, id: &str, file: &SubtitleFile) -> Result<Vec<String>, SubtitleError>;

    /// Makes the form `ts` of a title, whose id stays. Sessions that play it continue. `progress`
    /// is called with the nanoseconds of the title that are done, and all of them.
    ///
    /// # Errors
    /// There is no such title, it has this form, a transport stream cannot carry it, the volume
    /// cannot be written, or `stop` was raised.
    fn add_stream(
        &self,
        id: &str,
        stop: &Stop,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<AddedStream, StreamError>;

    /// The kind of a title's poster, and a mark that changes with its bytes; does not block.
    ///
    /// # Errors
    /// There is no such title.
    fn poster_mark(&self, id: &str) -> Result<(PosterKind, String), LibraryError>;

    /// A title's poster.
    ///
    /// # Errors
    /// There is no such title, or the poster cannot be read.
    fn poster(&self, id: &str) -> Result<Poster, LibraryError>;

    /// Checks whether a file could be taken, without taking it: its structure is read, its samples
    /// are not. Ends when `stop` is raised.
    ///
    /// # Errors
    /// The file cannot be read, or what its structure shows is not supported.
    fn probe(&self, input: &Input, stop: &Stop) -> Result<(), IngestError>;

    /// Takes files as one title: the first is the film, the others renditions of it.
    ///
    /// # Errors
    /// The files cannot be taken, there is no space for it, or the volume cannot be written.
    fn ingest(
        &self,
        inputs: &[Input],
        options: &IngestOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Ingested, IngestError>;

    /// Bytes free for titles; does not block.
    fn free_bytes(&self) -> u64;

    /// The state of the volume; does not block.
    fn volume(&self) -> VolumeReport;
}

/// The state of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Volume")]
pub struct VolumeReport {
    /// Its identity, in hexadecimal.
    pub id: String,
    /// Titles can be added and removed.
    pub writable: bool,
    /// Why they cannot.
    pub read_only: Option<String>,
    /// How much of it works.
    pub state: VolumeState,
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

/// How much of a volume works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VolumeState {
    /// Every member is in order.
    Ok,
    /// Titles play, with less parity than the volume was made for.
    Degraded,
    /// Some bytes cannot be read, or only until the server ends.
    Failed,
}

/// The layout of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Geometry")]
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "VolumeMember")]
pub struct MemberReport {
    /// Its number, from 0.
    pub member: usize,
    /// Where it is.
    pub path: String,
    /// How it is.
    pub state: MemberStateCode,
    /// Whether it is read and written.
    pub in_use: bool,
    /// Whether it is in use only because no other member can be spared.
    #[serde(skip)]
    pub is_suspect: bool,
    /// Whether it answers.
    pub activity: ActivityCode,
    /// The same in a sentence.
    pub text: String,
}

/// Whether a member answers its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "MemberActivity")]
pub enum ActivityCode {
    /// It answers.
    #[default]
    Active,
    /// It has had no request for two minutes; its disk may sleep.
    Idle,
    /// It was idle, and its first request since waits: its disk spins up.
    Waking,
    /// It has requests and has answered none for 10 s, or 30 s if it was idle.
    Silent,
}

impl From<MemberActivity> for ActivityCode {
    fn from(activity: MemberActivity) -> ActivityCode {
        match activity {
            MemberActivity::Active => ActivityCode::Active,
            MemberActivity::Idle => ActivityCode::Idle,
            MemberActivity::Waking => ActivityCode::Waking,
            MemberActivity::Silent => ActivityCode::Silent,
        }
    }
}

/// How a member is. It is in use if it is `present`, `swapped` or `repaired`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "MemberState")]
pub enum MemberStateCode {
    /// In order.
    Present,
    /// In order, at the path of another member.
    Swapped,
    /// In order; a part of it that is kept twice was damaged and is repaired.
    Repaired,
    /// Nothing is at its path, or it cannot be opened.
    Missing,
    /// It is there, but the server may not open or write it.
    Denied,
    /// It is too short.
    Truncated,
    /// Its superblock cannot be read.
    Damaged,
    /// It belongs to another volume, or to none.
    Foreign,
    /// The volume was written while it was missing.
    Stale,
    /// It failed while it was in use.
    Failed,
    /// What it lacks is being written to it.
    Rebuilding,
}

impl From<MemberState> for MemberStateCode {
    fn from(state: MemberState) -> MemberStateCode {
        match state {
            MemberState::Present => MemberStateCode::Present,
            MemberState::Swapped => MemberStateCode::Swapped,
            MemberState::Repaired => MemberStateCode::Repaired,
            MemberState::Missing => MemberStateCode::Missing,
            MemberState::Denied => MemberStateCode::Denied,
            MemberState::Truncated => MemberStateCode::Truncated,
            MemberState::Damaged => MemberStateCode::Damaged,
            MemberState::Foreign => MemberStateCode::Foreign,
            MemberState::Stale => MemberStateCode::Stale,
            MemberState::Rebuilding => MemberStateCode::Rebuilding,
            // Also a state that this page of the API does not know yet: it is not in use either.
            _ => MemberStateCode::Failed,
        }
    }
}
