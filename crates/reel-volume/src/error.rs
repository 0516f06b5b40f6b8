//! Errors of a volume.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use reel_disk::DiskError;

use crate::catalogue::TitleRecordError;
use crate::geometry::GeometryError;
use crate::ids::VolumeId;

const HELP_NOT_EMPTY: &str = "choose another place, or use --force to overwrite it";
const HELP_HEALTHY: &str = "use --replace-healthy to replace it anyway, also if a scrub cannot repair it: its content is then computed from the other members";
const HELP_TOO_SMALL: &str = "use a larger disk";
const HELP_TOO_SHORT: &str = "use a larger disk or a new file, or use --force to extend this file";
const HELP_TARGET_SILENT: &str = "see why it hangs, or choose another disk; the volume is as it was";
const HELP_NOTHING_THERE: &str =
    "check the path, and whether its disk is mounted; --create makes a file of the size of a member there";
const HELP_MEMBERS_FAILED: &str = "see to the cause, for example space on their file systems, and open the volume again: until then nothing is written";
const HELP_BUSY: &str = "wait until it has ended, or stop it";
const HELP_UNLISTED: &str =
    "`reel volume find DIR` lists them, and with --write writes volume.toml from them";
const HELP_OUTPUT_EXISTS: &str = "choose another name, or use --force to replace it";
const HELP_PART_OF_VOLUME: &str = "choose another name, outside the directories of volumes";
const HELP_NOT_A_FILE: &str =
    "choose another name; `reel export` and `reel receive` write to a pipe or device with `- > PATH`";
const HELP_IS_MEMBER: &str = "choose another place. If its volume is wanted, `reel volume find` writes a lost volume.toml; only --overwrite-volume overwrites it";
const HELP_LOCKED: &str =
    "stop that program first, or use its API: two programs that use one volume would destroy it";
const HELP_CLAIMED: &str = "end that use first if this is the right device: what is on it would be destroyed";
const HELP_FULL: &str = "remove titles, or make a larger volume";
const HELP_CATALOGUE_FULL: &str = "remove titles, or make a volume with a larger catalogue";
const HELP_TITLE_EXISTS: &str = "remove it first or choose another id";
const HELP_TITLE_CHANGED: &str = "look at it again, and repeat the change if it is still wanted";
const HELP_NO_SUCH_TITLE: &str = "`reel titles` lists them";
const HELP_NO_MEMORY: &str = "give the arena more memory, or run fewer clients and jobs at once";

/// Why an operation on a volume failed.
///
/// The text says what happened, why, and what to do. [`VolumeError::help`] is the last of the three
/// by itself, and the text ends with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The geometry breaks a rule.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A title cannot be recorded as it is.
    #[error(transparent)]
    TitleRecord(#[from] TitleRecordError),
    /// A disk failed and no other disk can serve the request.
    #[error("{doing}: {source}")]
    Disk {
        /// The operation that failed.
        doing: String,
        /// The error of the disk.
        source: DiskError,
    },
    /// A file of the volume, not the content of a member, could not be used.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The kernel provides no random bytes.
    #[error("the system provides no random bytes, which a new volume needs for its id: {reason}")]
    Random {
        /// The error of the system.
        reason: String,
    },
    /// The request makes no sense for this volume.
    #[error("{problem}{}", after_semicolon(*.help))]
    Options {
        /// What is wrong.
        problem: String,
        /// What to do.
        help: Option<&'static str>,
    },
    /// The place for the new volume or member is not empty.
    #[error("{} {found}; {}", path.display(), HELP_NOT_EMPTY)]
    NotEmpty {
        /// The file, device or directory.
        path: PathBuf,
        /// What was found there.
        found: String,
    },
    /// The place for the new volume or member is a member of a volume.
    #[error("{} is already member {member} of the Reel volume {volume}; {}", path.display(), HELP_IS_MEMBER)]
    IsMember {
        /// The file or device.
        path: PathBuf,
        /// The number of the member.
        member: usize,
        /// Its volume.
        volume: VolumeId,
    },
    /// There is something where a command is to write its output.
    #[error("{} already exists; {}", path.display(), HELP_OUTPUT_EXISTS)]
    OutputExists {
        /// The path.
        path: PathBuf,
    },
    /// A command is to write its output over a part of a volume.
    #[error("{} {part}, which is not replaced; {}", path.display(), HELP_PART_OF_VOLUME)]
    PartOfVolume {
        /// The path.
        path: PathBuf,
        /// What it is to the volume.
        part: String,
    },
    /// A command is to put a file in the place of something else.
    #[error("{} is not a regular file, and is not replaced by one; {}", path.display(), HELP_NOT_A_FILE)]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The disk is too small for the new volume.
    #[error("there is not enough space for {}: {needed_bytes} bytes are needed and {free_bytes} are free; {help}", path.display())]
    DiskFull {
        /// The member that does not fit.
        path: PathBuf,
        /// Bytes of all members that are to be created there.
        needed_bytes: u64,
        /// Bytes that are free there.
        free_bytes: u64,
        /// What to do.
        help: &'static str,
    },
    /// The member to be replaced is in use and healthy.
    #[error("member {member} ({}) is in use and healthy; {}", path.display(), HELP_HEALTHY)]
    Healthy {
        /// The member.
        member: usize,
        /// Where it is.
        path: PathBuf,
    },
    /// A disk cannot take the place of a member.
    #[error("{} has {has_bytes} bytes and a member of this volume has {needed_bytes}; {}", path.display(), HELP_TOO_SMALL)]
    TooSmall {
        /// The disk.
        path: PathBuf,
        /// Bytes of a member.
        needed_bytes: u64,
        /// Bytes of the disk.
        has_bytes: u64,
    },
    /// An existing file that is to become a member is too short.
    #[error("{} has {has_bytes} bytes and a member of this volume has {needed_bytes}; {}", path.display(), HELP_TOO_SHORT)]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Bytes of a member.
        needed_bytes: u64,
        /// Bytes of the file.
        has_bytes: u64,
    },
    /// The disk that is to replace a member does not answer.
    #[error("{} has not answered for {waited_s} s, so the member was not replaced; {}", path.display(), HELP_TARGET_SILENT)]
    TargetSilent {
        /// The disk.
        path: PathBuf,
        /// How long the answer was awaited.
        waited_s: u64,
    },
    /// A member is to be replaced with a file that does not exist.
    #[error("there is nothing at {}; {}", path.display(), HELP_NOTHING_THERE)]
    NothingThere {
        /// The path.
        path: PathBuf,
    },
    /// Only one job of its kind may run at a time.
    #[error("a {running} of this volume is running; {}", HELP_BUSY)]
    Busy {
        /// The job that is running.
        running: &'static str,
    },
    /// There is no volume there.
    #[error("{} is not a Reel volume: {reason}; {help}", path.display())]
    NotAVolume {
        /// The directory.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
        /// What to do.
        help: &'static str,
    },
    /// There are members, and no file names them.
    #[error("{} holds {members} members of the Reel volume {volume}, but {reason}; {}", path.display(), HELP_UNLISTED)]
    Unlisted {
        /// The directory.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
        /// How many members of the volume are there.
        members: usize,
        /// The volume.
        volume: VolumeId,
    },
    /// Another process has the volume open.
    #[error("{} is in use by {holder}; {}", path.display(), HELP_LOCKED)]
    Locked {
        /// What is locked.
        path: PathBuf,
        /// The process that holds the lock, as far as known.
        holder: String,
    },
    /// Another process, perhaps of another host, is the owner of the volume.
    #[error("{} is in use by {owner}, which renews its owner record on the members; {}", path.display(), HELP_LOCKED)]
    Owned {
        /// The directory.
        path: PathBuf,
        /// The host and process.
        owner: String,
    },
    /// A device has another use.
    #[error("{} is in use by {holder}; {}", path.display(), HELP_CLAIMED)]
    Claimed {
        /// The device.
        path: PathBuf,
        /// What it is used by, as far as known.
        holder: String,
    },
    /// Fewer members are available than are needed to have all bytes.
    #[error("the volume in {} cannot be opened: {missing} of its {members} members cannot be used, and the volume tolerates the loss of {}:\n{details}; {advice}", path.display(), count_if_known(*.tolerated))]
    TooFewMembers {
        /// The directory.
        path: PathBuf,
        /// Members that cannot be used.
        missing: usize,
        /// Members of the volume.
        members: usize,
        /// Members that may be lost; unknown if no member could be read.
        tolerated: Option<usize>,
        /// One line for each member that is missing.
        details: String,
        /// What to do.
        advice: &'static str,
    },
    /// The catalogue copies do not show which one is in force.
    #[error("the volume in {} cannot be opened: {reason}; {help}", path.display())]
    Catalogue {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What to do.
        help: &'static str,
    },
    /// The volume is read-only.
    #[error("the volume is read-only: {reason}")]
    ReadOnly {
        /// Why.
        reason: String,
    },
    /// The volume is full.
    #[error(
        "the volume is full: {needed_bytes} bytes more are needed and {free_bytes} are free; {}",
        HELP_FULL
    )]
    Full {
        /// Object bytes that could not be placed.
        needed_bytes: u64,
        /// Object bytes that are free.
        free_bytes: u64,
    },
    /// The catalogue area is too small for another title.
    #[error(
        "the catalogue is full: it needs {needed_bytes} bytes and may take {area_bytes}; {}",
        HELP_CATALOGUE_FULL
    )]
    CatalogueFull {
        /// Bytes that the catalogue would take.
        needed_bytes: u64,
        /// Bytes of a catalogue area.
        area_bytes: u64,
    },
    /// An object would be longer or split into more runs of slots than the format allows.
    #[error("an object cannot be stored: {rule}")]
    ObjectLimit {
        /// The limit that it exceeds.
        rule: &'static str,
    },
    /// A record of an object whose slots this open volume does not keep.
    #[error(
        "the bytes of this object may have been overwritten: its record comes neither from a writer nor from the list of titles of this open volume"
    )]
    NotHeld,
    /// More members failed than parity makes up for.
    #[error(
        "too many members have failed while writing ({failed} of {members}, and the volume tolerates the loss of {tolerated}): {last}; {}",
        HELP_MEMBERS_FAILED
    )]
    MembersFailed {
        /// Members out of sync.
        failed: usize,
        /// Members of the volume.
        members: usize,
        /// Members that may be lost.
        tolerated: usize,
        /// The last error of each of them.
        last: String,
    },
    /// A title with that id exists.
    #[error("there is already a title {id:?}; {}", HELP_TITLE_EXISTS)]
    TitleExists {
        /// The id.
        id: String,
    },
    /// The title is not the one from which a change was made.
    #[error("the title {id:?} was changed by another request meanwhile; {}", HELP_TITLE_CHANGED)]
    TitleChanged {
        /// The id.
        id: String,
    },
    /// No title has that id.
    #[error("there is no title {id:?} in this volume; {}", HELP_NO_SUCH_TITLE)]
    NoSuchTitle {
        /// The id.
        id: String,
    },
    /// Stored bytes are lost.
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
        /// Members that may be lost.
        tolerated: usize,
        /// The members and what each of them said.
        causes: String,
    },
    /// A reader is used after it failed.
    #[error("this reader failed earlier: {reason}")]
    FailedBefore {
        /// The earlier error.
        reason: String,
    },
    /// No media memory became free in time.
    #[error("no media memory became free within {waited_ms} ms ({bytes} bytes needed); {}", HELP_NO_MEMORY)]
    NoMemory {
        /// The bytes that were needed.
        bytes: usize,
        /// How long the operation waited.
        waited_ms: u64,
    },
    /// The arena could not be allocated.
    #[error("the media memory could not be allocated: {0}")]
    Arena(#[from] reel_arena::ArenaError),
}

fn count_if_known(members: Option<usize>) -> String {
    members.map_or_else(|| "an unknown number of members".to_owned(), |members| members.to_string())
}

fn after_semicolon(help: Option<&str>) -> String {
    help.map(|help| format!("; {help}")).unwrap_or_default()
}

impl VolumeError {
    /// What to do about the error, if there is anything to do. The error's text ends with it.
    pub fn help(&self) -> Option<Cow<'static, str>> {
        let help = match self {
            VolumeError::Options { help, .. } => return help.map(Cow::Borrowed),
            VolumeError::Disk { source, .. } if source.is_no_space() => return source.help(),
            VolumeError::TooFewMembers { advice, .. } => advice,
            VolumeError::Catalogue { help, .. } => help,
            VolumeError::NotEmpty { .. } => HELP_NOT_EMPTY,
            VolumeError::OutputExists { .. } => HELP_OUTPUT_EXISTS,
            VolumeError::PartOfVolume { .. } => HELP_PART_OF_VOLUME,
            VolumeError::NotAFile { .. } => HELP_NOT_A_FILE,
            VolumeError::DiskFull { help, .. } => help,
            VolumeError::MembersFailed { .. } => HELP_MEMBERS_FAILED,
            VolumeError::Healthy { .. } => HELP_HEALTHY,
            VolumeError::TooSmall { .. } => HELP_TOO_SMALL,
            VolumeError::TooShort { .. } => HELP_TOO_SHORT,
            VolumeError::TargetSilent { .. } => HELP_TARGET_SILENT,
            VolumeError::NothingThere { .. } => HELP_NOTHING_THERE,
            VolumeError::Busy { .. } => HELP_BUSY,
            VolumeError::NotAVolume { help, .. } => help,
            VolumeError::Unlisted { .. } => HELP_UNLISTED,
            VolumeError::IsMember { .. } => HELP_IS_MEMBER,
            VolumeError::Locked { .. } => HELP_LOCKED,
            VolumeError::Owned { .. } => HELP_LOCKED,
            VolumeError::Claimed { .. } => HELP_CLAIMED,
            VolumeError::Full { .. } => HELP_FULL,
            VolumeError::CatalogueFull { .. } => HELP_CATALOGUE_FULL,
            VolumeError::TitleExists { .. } => HELP_TITLE_EXISTS,
            VolumeError::TitleChanged { .. } => HELP_TITLE_CHANGED,
            VolumeError::NoSuchTitle { .. } => HELP_NO_SUCH_TITLE,
            VolumeError::NoMemory { .. } => HELP_NO_MEMORY,
            _ => return None,
        };
        Some(Cow::Borrowed(help))
    }

    pub(crate) fn options(problem: String, help: impl Into<Option<&'static str>>) -> VolumeError {
        VolumeError::Options { problem, help: help.into() }
    }

    pub(crate) fn no_device(path: &Path) -> VolumeError {
        let problem = format!("there is no device {}", path.display());
        VolumeError::options(problem, "`lsblk` lists the devices; a file there would lie in memory")
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_their_help() {
        let path = PathBuf::from;
        let errors = [
            VolumeError::options("it is wrong".to_owned(), "do it right"),
            VolumeError::NotEmpty { path: path("a"), found: "is not empty".to_owned() },
            VolumeError::OutputExists { path: path("a") },
            VolumeError::PartOfVolume { path: path("a"), part: "is member 1".to_owned() },
            VolumeError::NotAFile { path: path("a") },
            VolumeError::DiskFull { path: path("a"), needed_bytes: 2, free_bytes: 1, help: "use another" },
            VolumeError::MembersFailed { failed: 2, members: 4, tolerated: 1, last: "it is full".to_owned() },
            VolumeError::Healthy { member: 1, path: path("a") },
            VolumeError::TooSmall { path: path("a"), needed_bytes: 2, has_bytes: 1 },
            VolumeError::TooShort { path: path("a"), needed_bytes: 2, has_bytes: 1 },
            VolumeError::TargetSilent { path: path("a"), waited_s: 30 },
            VolumeError::NothingThere { path: path("a") },
            VolumeError::Busy { running: "scrub" },
            VolumeError::NotAVolume { path: path("a"), reason: "it is empty".to_owned(), help: "fill it" },
            VolumeError::Unlisted {
                path: path("a"),
                reason: "it is empty".to_owned(),
                members: 5,
                volume: VolumeId([0; 16]),
            },
            VolumeError::IsMember { path: path("a"), member: 1, volume: VolumeId([0; 16]) },
            VolumeError::Locked { path: path("a"), holder: "another process".to_owned() },
            VolumeError::Owned { path: path("a"), owner: "process 1 on host b".to_owned() },
            VolumeError::Claimed { path: path("a"), holder: "swap".to_owned() },
            VolumeError::Catalogue { path: path("a"), reason: "it is lost".to_owned(), help: "find it" },
            VolumeError::Full { needed_bytes: 2, free_bytes: 1 },
            VolumeError::CatalogueFull { needed_bytes: 2, area_bytes: 1 },
            VolumeError::TitleExists { id: "a".to_owned() },
            VolumeError::TitleChanged { id: "a".to_owned() },
            VolumeError::NoSuchTitle { id: "a".to_owned() },
            VolumeError::NoMemory { bytes: 2, waited_ms: 1 },
        ];
        for error in errors {
            let (text, help) = (error.to_string(), error.help().expect("there is something to do"));
            assert!(text.ends_with(&format!("; {help}")), "{text}");
        }
    }
}
