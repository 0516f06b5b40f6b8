//! The files and directories that there are.

use crate::limits::NAME_BYTES_MAX;
use std::borrow::Cow;
use std::sync::Arc;

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The directory of all.
    Root,
    /// The file that tells how many more viewers there can be.
    Capacity,
    /// A directory with a directory for each thing of a kind.
    Group(Group),
    /// The directory of one thing, by its name.
    Thing(Group, Arc<str>),
    /// A file with one value of a thing.
    Value(Group, Arc<str>, Field),
    /// The directory of all streams.
    Streams,
    /// The file that makes a stream.
    Clone,
    /// The directory of a stream, by its number.
    Stream(u64),
    /// The directory of the branches of a stream.
    Out(u64),
    /// The directory of a branch, by its number.
    Branch(u64, usize),
    /// A file of a stream, or of one of its branches.
    OfStream(u64, StreamFile),
}

/// A file of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamFile {
    /// The id of its title.
    Title,
    /// The name of its class.
    Class,
    /// The rate in bits per second at which it is given, at most.
    Rate,
    /// The media time where its reader is.
    Position,
    /// Takes commands.
    Ctl,
    /// What it does.
    State,
    /// What went wrong last.
    Error,
    /// The answer of the server that refused it.
    Refusal,
    /// Its bytes.
    Data,
    /// A file of the branch of this number.
    OfBranch(usize, BranchFile),
}

/// A file of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BranchFile {
    /// Where it goes.
    Dest,
    /// How far it is.
    State,
    /// Bytes that its destination has.
    Bytes,
    /// Bytes among those that were late.
    Late,
    /// Bytes that it gets without a pause.
    Run,
    /// How long the pauses are.
    Pause,
    /// Why it has ended.
    Error,
}

/// A kind of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Titles, by id.
    Titles,
    /// Members of the volume, by number.
    Members,
    /// Classes of traffic, by name.
    Classes,
}

/// What a file tells of its thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Of a title: its name for people.
    Name,
    /// Of a title: playing time in seconds.
    Seconds,
    /// Of a title: bits per second, on average.
    Rate,
    /// Of a member: how it is.
    State,
    /// Of a member: microseconds of its time for a request and for a MiB.
    Price,
    /// Of a class: how it is served.
    Kind,
    /// Of a class: its share of every disk, in thousandths.
    Share,
}

impl Node {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        use Node::{Branch, Group, Out, Root, Stream, Streams, Thing};
        matches!(self, Root | Group(_) | Thing(..) | Streams | Stream(_) | Out(_) | Branch(..))
    }

    /// The directory that it is in; that of the root is the root.
    pub fn directory(&self) -> Node {
        match self {
            Node::Root | Node::Capacity | Node::Group(_) | Node::Streams => Node::Root,
            Node::Clone | Node::Stream(_) => Node::Streams,
            Node::OfStream(number, StreamFile::OfBranch(branch, _)) => Node::Branch(*number, *branch),
            Node::OfStream(number, _) | Node::Out(number) => Node::Stream(*number),
            Node::Branch(number, _) => Node::Out(*number),
            Node::Thing(group, _) => Node::Group(*group),
            Node::Value(group, thing, _) => Node::Thing(*group, thing.clone()),
        }
    }

    /// Its name in the directory that it is in; empty for the root.
    pub fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            Node::Root => "",
            Node::Capacity => "capacity",
            Node::Group(group) => group.name(),
            Node::Thing(_, thing) => thing,
            Node::Value(_, _, field) => field.name(),
            Node::Streams => "streams",
            Node::Clone => "clone",
            Node::Stream(number) => return Cow::Owned(number.to_string()),
            Node::Out(_) => "out",
            Node::Branch(_, branch) => return Cow::Owned(branch.to_string()),
            Node::OfStream(_, file) => file.name(),
        })
    }
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 3] = [Group::Titles, Group::Members, Group::Classes];

    /// The name of its directory.
    pub fn name(self) -> &'static str {
        match self {
            Group::Titles => "titles",
            Group::Members => "members",
            Group::Classes => "classes",
        }
    }

    /// What is told of each of its things.
    pub fn fields(self) -> &'static [Field] {
        match self {
            Group::Titles => &[Field::Name, Field::Seconds, Field::Rate],
            Group::Members => &[Field::State, Field::Price],
            Group::Classes => &[Field::Kind, Field::Share],
        }
    }
}

impl Field {
    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Field::Name => "name",
            Field::Seconds => "seconds",
            Field::Rate => "rate",
            Field::State => "state",
            Field::Price => "price",
            Field::Kind => "kind",
            Field::Share => "share",
        }
    }
}

impl StreamFile {
    /// All files of a stream itself.
    pub const ALL: [StreamFile; 9] = [
        StreamFile::Title,
        StreamFile::Class,
        StreamFile::Rate,
        StreamFile::Position,
        StreamFile::Ctl,
        StreamFile::State,
        StreamFile::Error,
        StreamFile::Refusal,
        StreamFile::Data,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            StreamFile::Title => "title",
            StreamFile::Class => "class",
            StreamFile::Rate => "rate",
            StreamFile::Position => "position",
            StreamFile::Ctl => "ctl",
            StreamFile::State => "state",
            StreamFile::Error => "error",
            StreamFile::Refusal => "refusal",
            StreamFile::Data => "data",
            StreamFile::OfBranch(_, file) => file.name(),
        }
    }

    /// Whether it can be read.
    pub fn is_read(self) -> bool {
        self != StreamFile::Ctl
    }

    /// Whether it can be written.
    pub fn is_written(self) -> bool {
        use StreamFile::{Class, Ctl, OfBranch, Position, Rate, Title};
        matches!(self, Title | Class | Rate | Position | Ctl | OfBranch(_, BranchFile::Dest))
    }
}

impl BranchFile {
    /// All files of a branch.
    pub const ALL: [BranchFile; 7] = [
        BranchFile::Dest,
        BranchFile::State,
        BranchFile::Bytes,
        BranchFile::Late,
        BranchFile::Run,
        BranchFile::Pause,
        BranchFile::Error,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            BranchFile::Dest => "dest",
            BranchFile::State => "state",
            BranchFile::Bytes => "bytes",
            BranchFile::Late => "late",
            BranchFile::Run => "run",
            BranchFile::Pause => "pause",
            BranchFile::Error => "error",
        }
    }
}

/// Whether a text can be the name of a file, and be shown by a terminal.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && !matches!(text, "." | "..")
        && !text.contains(|c: char| c == '/' || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_no_names() {
        for name in ["", ".", "..", "a/b", "/", "a\0", "a\nb", "\u{1b}[2J", "\u{85}", &"x".repeat(256)] {
            assert!(!is_name(name), "{name:?}");
        }
        for name in ["a", "...", ".a", "a b", "\u{e9}", "-rf", &"x".repeat(255)] {
            assert!(is_name(name), "{name:?}");
        }
    }
}
