//! The state of each member, as found when the volume was opened.

use std::fmt;
use std::path::PathBuf;

/// Log target of messages that are also in [`crate::Volume::findings`] and
/// [`crate::Volume::replace`], for programs that show these themselves.
pub const MEMBERS_LOG: &str = "reel_volume::members";

/// The state of one member of an open volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The member's number.
    pub member: usize,
    /// Its path as in `volume.toml`, or where it was found.
    pub path: PathBuf,
    /// What state it is in.
    pub state: MemberState,
    /// What that means and what to do, in a sentence.
    pub text: String,
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemberState {
    /// In use.
    Present,
    /// In use, but at the path of another member: two were swapped. Harmless.
    Swapped,
    /// In use, but one of two copies of its metadata was damaged; repaired when the volume is
    /// opened for writing.
    Repaired,
    /// Nothing is at its path, or it cannot be opened.
    Missing,
    /// It exists, but this user may not open it, or its file system is read-only.
    Denied,
    /// Shorter than its superblock says.
    Truncated,
    /// Its superblock cannot be read.
    Damaged,
    /// It belongs to another volume, or to none.
    Foreign,
    /// It was missing while the volume was written.
    Stale,
    /// It failed while the volume was in use.
    Failed,
    /// It is new, or was missing, and does not hold everything yet: written, not read.
    Rebuilding,
}

impl MemberState {
    /// Whether a member in this state is read and written.
    pub fn in_use(self) -> bool {
        matches!(self, MemberState::Present | MemberState::Swapped | MemberState::Repaired)
    }

    /// The state in one word.
    pub fn name(self) -> &'static str {
        match self {
            MemberState::Present => "present",
            MemberState::Swapped => "swapped",
            MemberState::Repaired => "repaired",
            MemberState::Missing => "missing",
            MemberState::Denied => "denied",
            MemberState::Truncated => "truncated",
            MemberState::Damaged => "damaged",
            MemberState::Foreign => "foreign",
            MemberState::Stale => "stale",
            MemberState::Failed => "failed",
            MemberState::Rebuilding => "rebuilding",
        }
    }
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {} ({}): {}: {}", self.member, self.path.display(), self.state, self.text)
    }
}
