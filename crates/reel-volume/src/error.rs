//! What can go wrong with a volume.

use std::path::PathBuf;

use reel_disk::DiskError;

use crate::catalogue::TitleRecordError;
use crate::geometry::GeometryError;

/// Why a volume could not do what it was asked. The text says what happened, why, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The geometry breaks a rule.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A title cannot be recorded as it is.
    #[error(transparent)]
    TitleRecord(#[from] TitleRecordError),
    /// A disk failed where nothing can stand in for it.
    #[error("{doing}: {source}")]
    Disk {
        /// What was being done.
        doing: String,
        /// What the disk layer said.
        source: DiskError,
    },
    /// A file of the volume, not a member's content, could not be used.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kernel gives no random bytes.
    #[error("the system gives no random bytes, which a new volume needs for its name: {reason}")]
    Random {
        /// What the system said.
        reason: String,
    },
    /// What was asked for cannot be made into a volume.
    #[error("{0}")]
    Options(String),
    /// There is something already where the volume is to be made.
    #[error("{} {found}; choose another place, or say --force to lose what is there", path.display())]
    NotEmpty {
        /// The file, device or directory.
        path: PathBuf,
        /// What was found there.
        found: String,
    },
    /// The disk is too small for the volume that was asked for.
    #[error("there is not enough space for {}: {needed_bytes} bytes are needed and {free_bytes} are free; ask for a smaller --size or use another disk", path.display())]
    DiskFull {
        /// The member that does not fit.
        path: PathBuf,
        /// Bytes of all members to be made there.
        needed_bytes: u64,
        /// Bytes that are free there.
        free_bytes: u64,
    },
    /// A member that is in use and well was to be replaced.
    #[error("member {member} ({}) is in use and well; say --give-up to replace it all the same: what it holds is then computed anew from the other members", path.display())]
    Healthy {
        /// The member.
        member: usize,
        /// Where it is.
        path: PathBuf,
    },
    /// A disk cannot take the place of a member.
    #[error("{} has {has_bytes} bytes and a member of this volume has {needed_bytes}; use a larger disk", path.display())]
    TooSmall {
        /// The disk.
        path: PathBuf,
        /// Bytes of a member.
        needed_bytes: u64,
        /// Bytes of the disk.
        has_bytes: u64,
    },
    /// A file that is to take the place of a member was given a smaller size.
    #[error("{} has {has_bytes} bytes and a member of this volume has {needed_bytes}; use a larger disk or a new file, or say --force to have this file grow", path.display())]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Bytes of a member.
        needed_bytes: u64,
        /// Bytes of the file.
        has_bytes: u64,
    },
    /// One job of its kind at a time.
    #[error("a {running} of this volume is under way; wait until it has ended, or stop it")]
    Busy {
        /// What is under way.
        running: &'static str,
    },
    /// There is no volume there.
    #[error("{} is not a Reel volume: {reason}; `reel volume create` makes one", path.display())]
    NotAVolume {
        /// The directory.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// Another process has the volume open.
    #[error("{} is in use by {holder}; stop that first, or ask it: two programs on one volume would destroy it", path.display())]
    Locked {
        /// What is locked.
        path: PathBuf,
        /// Who holds it, as far as known.
        holder: String,
    },
    /// Fewer members than are needed to have all bytes.
    #[error("the volume in {} cannot be opened: {missing} of its {members} members cannot be used, and it can do without {}:\n{details}; {advice}", path.display(), count_if_known(*.tolerated))]
    TooFewMembers {
        /// The directory.
        path: PathBuf,
        /// Members that cannot be used.
        missing: usize,
        /// Members of the volume.
        members: usize,
        /// Members it can do without; unknown if no member could be read.
        tolerated: Option<usize>,
        /// One line for each that is missing.
        details: String,
        /// What to do.
        advice: &'static str,
    },
    /// The catalogue copies do not tell what is in force.
    #[error("the volume in {} cannot be opened: {reason}", path.display())]
    Catalogue {
        /// The directory.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The volume may only be read.
    #[error("the volume can only be read: {reason}")]
    ReadOnly {
        /// Why.
        reason: String,
    },
    /// No room.
    #[error(
        "the volume is full: {needed_bytes} bytes more are needed and {free_bytes} are free; remove titles, or make a larger volume"
    )]
    Full {
        /// Object bytes that could not be placed.
        needed_bytes: u64,
        /// Object bytes that are free.
        free_bytes: u64,
    },
    /// The catalogue has no room for another title.
    #[error(
        "the catalogue is full: it needs {needed_bytes} bytes and has room for {area_bytes}; remove titles, or make a volume with a larger catalogue"
    )]
    CatalogueFull {
        /// What the catalogue would take.
        needed_bytes: u64,
        /// What there is.
        area_bytes: u64,
    },
    /// An object would be longer or more scattered than the format allows.
    #[error("an object cannot be stored: {rule}")]
    ObjectLimit {
        /// The limit it runs into.
        rule: &'static str,
    },
    /// A record of an object that this open volume does not keep.
    #[error(
        "the bytes of this object are not kept: its record comes neither from a writer nor from the list of titles of this open volume"
    )]
    NotHeld,
    /// More members failed than parity makes up for.
    #[error(
        "too many members have failed while writing ({failed} of {members}, and the volume can do without {tolerated}); the last said: {last}"
    )]
    MembersFailed {
        /// Members out of sync.
        failed: usize,
        /// Members of the volume.
        members: usize,
        /// Members it can do without.
        tolerated: usize,
        /// The last error.
        last: String,
    },
    /// There is a title of that id.
    #[error("there is already a title {id:?}; remove it first or choose another id")]
    TitleExists {
        /// The id.
        id: String,
    },
    /// There is no title of that id.
    #[error("there is no title {id:?} in this volume; `reel titles` lists them")]
    NoSuchTitle {
        /// The id.
        id: String,
    },
    /// Stored bytes cannot be read any more.
    #[error(
        "{object}, stripe {stripe}, row {row}: the bytes are lost, because more than {tolerated} of its rows cannot be read ({causes})"
    )]
    Lost {
        /// Which object.
        object: String,
        /// Which stripe of it.
        stripe: u64,
        /// Which row of the unit.
        row: usize,
        /// Rows it can do without.
        tolerated: usize,
        /// The members and what each of them said.
        causes: String,
    },
    /// A reader that has failed is asked again.
    #[error("this reader has failed before: {reason}")]
    FailedBefore {
        /// What it said then.
        reason: String,
    },
    /// No memory for media came free in time.
    #[error(
        "no media memory came free within {waited_ms} ms ({bytes} bytes wanted); give the arena more memory or admit less"
    )]
    NoMemory {
        /// What was wanted.
        bytes: usize,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The arena could not be made.
    #[error("the media memory could not be set aside: {0}")]
    Arena(#[from] reel_arena::ArenaError),
}

fn count_if_known(members: Option<usize>) -> String {
    members.map_or_else(|| "a number that only a member could tell".to_owned(), |members| members.to_string())
}

impl VolumeError {
    pub(crate) fn disk(doing: impl Into<String>) -> impl FnOnce(DiskError) -> VolumeError {
        let doing = doing.into();
        move |source| VolumeError::Disk { doing, source }
    }

    pub(crate) fn file(
        path: impl Into<PathBuf>,
        what: &'static str,
    ) -> impl FnOnce(std::io::Error) -> VolumeError {
        let path = path.into();
        move |source| VolumeError::File { path, what, source }
    }
}
