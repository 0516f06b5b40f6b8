//! The files and directories that there are.

use crate::limits::NAME_BYTES_MAX;
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
        matches!(self, Node::Root | Node::Group(_) | Node::Thing(..))
    }

    /// The directory that it is in; that of the root is the root.
    pub fn directory(&self) -> Node {
        match self {
            Node::Root | Node::Capacity | Node::Group(_) => Node::Root,
            Node::Thing(group, _) => Node::Group(*group),
            Node::Value(group, thing, _) => Node::Thing(*group, thing.clone()),
        }
    }

    /// Its name in the directory that it is in; empty for the root.
    pub fn name(&self) -> &str {
        match self {
            Node::Root => "",
            Node::Capacity => "capacity",
            Node::Group(group) => group.name(),
            Node::Thing(_, thing) => thing,
            Node::Value(_, _, field) => field.name(),
        }
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
