//! What clients see: directories of titles, and their attributes.

use crate::handle::{Handles, NoHandle, Node, Space, TitleKey};
use crate::listing::{ListedTitle, Listing, file_number, now};
use crate::readers::Readers;
use nfs3_types::nfs3::{Nfs3Option, fattr3, ftype3, nfs_fh3, nfsstat3, nfstime3, post_op_attr, specdata3};
use nfs3_types::xdr_codec::Opaque;
use std::net::IpAddr;

/// The tree at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Tree<'a> {
    pub(crate) listing: &'a Listing,
    /// Whether the library still has these titles. If not, a title may be there that is not listed.
    pub(crate) is_fresh: bool,
    pub(crate) handles: &'a Handles,
    /// The file system that all files belong to.
    pub(crate) fsid: u64,
    /// Object bytes that are free in the volume.
    pub(crate) free_bytes: u64,
    /// What readers play.
    pub(crate) readers: &'a Readers,
    /// Who is asking.
    pub(crate) client: IpAddr,
    /// When.
    pub(crate) now_ns: u64,
}

/// Why a procedure has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The answer depends on titles that may have been added since the listing was made.
    AwaitListing,
    /// The arguments cannot be read.
    Garbage,
    Status(nfsstat3),
}

/// A directory entry.
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) name: Vec<u8>,
    /// From where the next page continues.
    pub(crate) cookie: u64,
    pub(crate) node: Node,
}

const ROOT_NUMBER: u64 = 1;
/// What directories claim to hold: one block.
const DIRECTORY_BYTES: u64 = 4096;
/// The cookies of the first two entries. Those behind them are numbers of files.
const SELF_COOKIE: u64 = 1;
const PARENT_COOKIE: u64 = 2;
/// The name of the directory that links lead to, in that of links. It is not listed. No link has
/// it: their names have an ending.
const LINKED: &[u8] = b"play";

impl From<nfsstat3> for Failure {
    fn from(status: nfsstat3) -> Self {
        Failure::Status(status)
    }
}

impl From<crate::xdr::Garbage> for Failure {
    fn from(_: crate::xdr::Garbage) -> Self {
        Failure::Garbage
    }
}

impl Tree<'_> {
    /// What a handle stands for.
    pub(crate) fn node(&self, handle: &[u8]) -> Result<Node, Failure> {
        self.handles.read(handle).map_err(|error| match error {
            NoHandle::Bad => nfsstat3::NFS3ERR_BADHANDLE.into(),
            NoHandle::Stale => nfsstat3::NFS3ERR_STALE.into(),
        })
    }

    /// The title of a key. One that is gone, or has other bytes now, is stale.
    pub(crate) fn title(&self, key: TitleKey) -> Result<&ListedTitle, Failure> {
        let gone = if self.is_fresh { nfsstat3::NFS3ERR_STALE.into() } else { Failure::AwaitListing };
        self.listing.title(key).ok_or(gone)
    }

    /// The attributes of a node.
    pub(crate) fn attributes(&self, node: Node) -> Result<fattr3, Failure> {
        Ok(match node {
            Node::Root | Node::Directory(_) => self.directory(node)?,
            Node::Title(space, key) => self.file(space, self.title(key)?),
        })
    }

    /// The same, as it is added to results.
    pub(crate) fn attributes_after(&self, node: Node) -> post_op_attr {
        self.attributes(node).map_or(Nfs3Option::None, Nfs3Option::Some)
    }

    pub(crate) fn handle(&self, node: Node) -> nfs_fh3 {
        nfs_fh3 { data: Opaque::owned(self.handles.of(node)) }
    }

    /// The node of this name in a directory.
    pub(crate) fn lookup(&self, directory: Node, name: &[u8]) -> Result<Node, Failure> {
        match (directory, name) {
            (Node::Title(..), _) => Err(nfsstat3::NFS3ERR_NOTDIR.into()),
            (_, b".") => Ok(directory),
            (Node::Directory(Space::Linked), b"..") => Ok(Node::Directory(Space::Open)),
            (_, b"..") => Ok(Node::Root),
            (Node::Root, name) => {
                Space::by_name(name).map(Node::Directory).ok_or(nfsstat3::NFS3ERR_NOENT.into())
            }
            // Where links lead.
            (Node::Directory(Space::Open), LINKED) => Ok(Node::Directory(Space::Linked)),
            (Node::Directory(space), name) => {
                self.fresh()?;
                let title = self.listing.named(space, name).ok_or(nfsstat3::NFS3ERR_NOENT)?;
                Ok(Node::Title(space, title.key))
            }
        }
    }

    /// The entries of a directory behind a cookie, in order.
    pub(crate) fn entries(
        &self,
        directory: Node,
        cookie: u64,
    ) -> Result<Box<dyn Iterator<Item = Entry> + '_>, Failure> {
        if !matches!(directory, Node::Title(..)) {
            // Also of directories of directories: the attributes of these say when they changed.
            self.fresh()?;
        }
        let own = match directory {
            Node::Title(..) => return Err(nfsstat3::NFS3ERR_NOTDIR.into()),
            Node::Root => ROOT_NUMBER,
            Node::Directory(space) => space_number(space),
        };
        let dots = [(SELF_COOKIE, ".", own, directory), (PARENT_COOKIE, "..", ROOT_NUMBER, Node::Root)];
        let dots =
            dots.into_iter().filter(move |(at, ..)| *at > cookie).map(|(cookie, name, number, node)| Entry {
                number,
                name: name.as_bytes().to_vec(),
                cookie,
                node,
            });
        let Node::Directory(space) = directory else {
            let spaces = Space::LISTED.into_iter().map(|space| Entry {
                number: space_number(space),
                name: space.name().as_bytes().to_vec(),
                cookie: space_number(space),
                node: Node::Directory(space),
            });
            return Ok(Box::new(dots.chain(spaces.filter(move |entry| entry.cookie > cookie))));
        };
        let titles = self.listing.after(cookie >> 3).iter().map(move |title| {
            let number = file_number(space, title.key.number);
            Entry {
                number,
                name: title.file_name(space),
                cookie: number,
                node: Node::Title(space, title.key),
            }
        });
        Ok(Box::new(dots.chain(titles)))
    }

    /// The names of titles may only be listed, or not be found, by a listing of all titles.
    pub(crate) fn fresh(&self) -> Result<(), Failure> {
        if self.is_fresh { Ok(()) } else { Err(Failure::AwaitListing) }
    }

    fn directory(&self, node: Node) -> Result<fattr3, Failure> {
        // Clients list a directory again when it has changed.
        self.fresh()?;
        let number = match node {
            Node::Directory(space) => space_number(space),
            Node::Root | Node::Title(..) => ROOT_NUMBER,
        };
        let links = 2 + if node == Node::Root { Space::LISTED.len() as u32 } else { 0 };
        let kind = (ftype3::NF3DIR, 0o555, links);
        Ok(self.node_attributes(kind, number, DIRECTORY_BYTES, self.listing.changed()))
    }

    /// The text about the readers of a title.
    pub(crate) fn status(&self, title: &ListedTitle) -> String {
        self.readers.status(self.client, title, self.now_ns)
    }

    fn file(&self, space: Space, title: &ListedTitle) -> fattr3 {
        let seconds = u32::try_from(title.published_s).unwrap_or(u32::MAX);
        let published = nfstime3 { seconds, nseconds: 0 };
        // What clients keep of links and texts is never up to date.
        let (kind, bytes, time) = match space {
            Space::Copy | Space::Play | Space::Linked => ((ftype3::NF3REG, 0o444, 1), title.bytes, published),
            Space::Open => ((ftype3::NF3LNK, 0o777, 1), target_of(title).len() as u64, now()),
            Space::Status => ((ftype3::NF3REG, 0o444, 1), self.status(title).len() as u64, now()),
        };
        self.node_attributes(kind, file_number(space, title.key.number), bytes, time)
    }

    fn node_attributes(
        &self,
        (type_, mode, nlink): (ftype3, u32, u32),
        fileid: u64,
        bytes: u64,
        time: nfstime3,
    ) -> fattr3 {
        fattr3 {
            type_,
            mode,
            nlink,
            uid: 0,
            gid: 0,
            size: bytes,
            used: bytes,
            rdev: specdata3::default(),
            fsid: self.fsid,
            fileid,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }
}

/// Where the link of a title leads, from its directory. Downwards: libnfs 4 follows no link with
/// `..`, and a client may have mounted the directory of links by itself.
pub(crate) fn target_of(title: &ListedTitle) -> Vec<u8> {
    [LINKED, b"/", &title.file_name(Space::Play)[..]].concat()
}

/// The file number of a directory of titles. Those of titles are greater, because their numbers
/// begin behind three bits.
fn space_number(space: Space) -> u64 {
    PARENT_COOKIE + space as u64
}
