//! What opening a volume found out about each member.

use std::fmt;
use std::path::PathBuf;

/// Log target of what [`crate::Volume::findings`] and [`crate::Volume::replace`] tell too, for programs that show it themselves.
pub const MEMBERS_LOG: &str = "reel_volume::members";

/// The state of one member of an open volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The member's number.
    pub member: usize,
    /// Where `volume.toml` says it is, or where it was found.
    pub path: PathBuf,
    /// What state it is in.
    pub state: MemberState,
    /// What that means and what to do, in a sentence.
    pub text: String,
}

/// What state a member is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemberState {
    /// In use.
    Present,
    /// In use, but it lies where another member should: somebody swapped two. Harmless.
    Swapped,
    /// In use, but a part of it that is kept twice was damaged; repaired when the volume is opened for writing.
    Repaired,
    /// There is nothing at its path, or it cannot be opened.
    Missing,
    /// It is there, but this user may not open it, or its file system may not be written.
    Denied,
    /// Shorter than its superblock says.
    Truncated,
    /// Its superblock cannot be read.
    Damaged,
    /// It belongs to another volume, or to none.
    Foreign,
    /// It was away while the volume was written.
    Stale,
    /// It failed while the volume was in use.
    Failed,
    /// It is new, or was away, and does not hold everything yet: written, not read.
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
