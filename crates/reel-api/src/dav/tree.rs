//! The directories and files, and their paths.

use super::answer::{FileFacts, Resource};
use super::escape::push_segment;
use crate::rfc3339::rfc3339;
use reel_library::{TitleSummary, entity_tag};
use reel_serve::last_modified;

/// The directory of everything.
const ROOT: &str = "/dav";
/// What the name of a file ends with, and that of the file for its entity tag.
const SUFFIX: &str = ".mp4";
const TAGGED_FILE: &str = "mp4";

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node<'a> {
    Root,
    Directory(Space),
    /// The file of the title with this id, whether there is one or not.
    File(Space, &'a str),
}

/// A directory of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// Files that are played.
    Play,
    /// Files that are copied.
    Copy,
}

impl<'a> Node<'a> {
    /// What a path names, with or without the slash at the end of a directory.
    pub(super) fn of(path: &'a str) -> Option<Node<'a>> {
        let rest = path.strip_prefix(ROOT)?;
        let Some(rest) = rest.strip_prefix('/') else { return rest.is_empty().then_some(Node::Root) };
        if rest.is_empty() {
            return Some(Node::Root);
        }
        let (space, file) = rest.split_once('/').unwrap_or((rest, ""));
        let space = Space::ALL.into_iter().find(|known| known.name() == space)?;
        if file.is_empty() {
            return Some(Node::Directory(space));
        }
        let id = file.strip_suffix(SUFFIX)?;
        (!id.is_empty() && !id.contains('/')).then_some(Node::File(space, id))
    }
}

impl Space {
    pub(super) const ALL: [Space; 2] = [Space::Play, Space::Copy];

    fn name(self) -> &'static str {
        match self {
            Space::Play => "play",
            Space::Copy => "copy",
        }
    }

    /// The directory as a resource.
    pub(super) fn resource(self) -> Resource {
        let name = self.name();
        Resource { href: format!("{ROOT}/{name}/"), name: name.to_owned(), file: None }
    }

    /// The file of a title in the directory; `None` if it has none.
    pub(super) fn file(self, title: &TitleSummary) -> Option<Resource> {
        let bytes = title.plain_file.as_ref()?.bytes;
        let mut href = format!("{ROOT}/{}/", self.name());
        push_segment(&mut href, &title.id);
        href.push_str(SUFFIX);
        let file = FileFacts {
            bytes,
            etag: entity_tag(&title.stamp, TAGGED_FILE),
            last_modified: last_modified(title.added_unix_s),
            created: rfc3339(title.added_unix_s),
        };
        Some(Resource { href, name: title.name.clone(), file: Some(file) })
    }
}

/// The directory of everything as a resource.
pub(super) fn root() -> Resource {
    Resource { href: format!("{ROOT}/"), name: "Reel".to_owned(), file: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_directories_may_end_with_a_slash_and_those_of_files_may_not() {
        for (path, node) in [
            ("/dav", Some(Node::Root)),
            ("/dav/", Some(Node::Root)),
            ("/dav/play", Some(Node::Directory(Space::Play))),
            ("/dav/play/", Some(Node::Directory(Space::Play))),
            ("/dav/copy/a.mp4", Some(Node::File(Space::Copy, "a"))),
            ("/dav/copy/a.mp4/", None),
            ("/dav/copy/a", None),
            ("/dav/copy/.mp4", None),
            ("/dav/copy//a.mp4", None),
            ("/dav//", None),
            ("/dav/other/", None),
            ("/dave", None),
        ] {
            assert_eq!(Node::of(path), node, "{path}");
        }
    }
}
