//! The kernel's questions (FUSE), answered from a tree.

use crate::asking::{Asking, Turn};
use crate::limits::{KEPT_TIME, NAME_BYTES_MAX};
use crate::node::Node;
use crate::nodes::Nodes;
use crate::opened::{Opened, OpenedTable, part};
use crate::server::{AskError, Server};
use crate::tree::{Tree, TreeError};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, Request,
};
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::SystemTime;

/// Answers the kernel. What needs the server is answered by another thread.
///
/// The mount is read-only: the kernel refuses every change by itself (`EROFS`).
pub(crate) struct FileSystem<S> {
    shown: Arc<Shown<S>>,
    asking: Asking,
}

/// What is shown, and what the kernel knows of it.
struct Shown<S> {
    tree: Tree<S>,
    nodes: Nodes,
    opened: OpenedTable,
    uid: u32,
    gid: u32,
    root_mode: u16,
    /// The time of all files.
    since: SystemTime,
}

impl<S: Server> FileSystem<S> {
    /// The files belong to the user of this process. Others see them if `allow_other` is set.
    pub(crate) fn new(server: S, asking: Asking, allow_other: bool) -> FileSystem<S> {
        let shown = Shown {
            tree: Tree::new(server),
            nodes: Nodes::default(),
            opened: OpenedTable::default(),
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            root_mode: if allow_other { 0o755 } else { 0o700 },
            since: SystemTime::now(),
        };
        FileSystem { shown: Arc::new(shown), asking }
    }

    /// Has another thread find an answer from the server, and give it. What needs no server is
    /// answered at once.
    fn answer<T>(
        &self,
        needs_server: bool,
        find: impl FnOnce(&Shown<S>, Turn) -> Result<T, TreeError> + Send + 'static,
        give: impl FnOnce(&Shown<S>, Result<T, Errno>) + Send + 'static,
    ) {
        let shown = Arc::clone(&self.shown);
        let answer = move |turn: Option<Turn>| {
            let Some(turn) = turn else { return give(&shown, Err(Errno::EAGAIN)) };
            let found = find(&shown, turn);
            give(&shown, found.map_err(|error| errno(&error)));
        };
        match needs_server {
            true => self.asking.put(answer),
            false => answer(Some(Turn::now())),
        }
    }
}

impl<S: Server> Shown<S> {
    fn node(&self, number: INodeNo) -> Result<Node, Errno> {
        self.nodes.node(number.0).ok_or(Errno::ENOENT)
    }

    fn give_entry(&self, found: Result<Node, Errno>, reply: ReplyEntry) {
        let told = found.and_then(|node| Ok((self.nodes.told(&node).ok_or(Errno::EIO)?, node)));
        match told {
            Ok((number, node)) => {
                reply.entry(&KEPT_TIME, &self.attributes(&node, INodeNo(number)), Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn give_opened(&self, found: Result<Opened, Errno>, reply: ReplyOpen) {
        // Sizes are not known before a file is opened, so the kernel must not believe them.
        let flags = match found {
            Ok(Opened::Text(_)) => FopenFlags::FOPEN_DIRECT_IO,
            _ => FopenFlags::empty(),
        };
        match found.and_then(|opened| self.opened.open(opened).ok_or(Errno::ENFILE)) {
            Ok(handle) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(error),
        }
    }

    fn attributes(&self, node: &Node, number: INodeNo) -> FileAttr {
        let (kind, perm) = match node {
            Node::Root => (FileType::Directory, self.root_mode),
            directory if directory.is_directory() => (FileType::Directory, 0o555),
            _ => (FileType::RegularFile, 0o444),
        };
        FileAttr {
            ino: number,
            size: 0,
            blocks: 0,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind,
            perm,
            // Directories are not counted; `find` knows that of 1.
            nlink: 1,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

impl<S: Server> Filesystem for FileSystem<S> {
    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (directory, name) = match (self.shown.node(parent), name.to_str()) {
            (Err(error), _) => return reply.error(error),
            // Newer kernels leave it to the file system.
            _ if name.len() > NAME_BYTES_MAX => return reply.error(Errno::ENAMETOOLONG),
            (_, None) => return reply.error(Errno::ENOENT),
            (Ok(directory), Some(name)) => (directory, name.to_owned()),
        };
        let needs_server = self.shown.tree.asks_for_entries(&directory);
        let find =
            move |shown: &Shown<S>, turn: Turn| shown.tree.lookup(&directory, &name, turn.put, turn.until);
        self.answer(needs_server, find, |shown, found| shown.give_entry(found, reply));
    }

    fn forget(&self, _request: &Request, number: INodeNo, times: u64) {
        self.shown.nodes.forgotten(number.0, times);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.shown.node(number) {
            Ok(node) => reply.attr(&KEPT_TIME, &self.shown.attributes(&node, number)),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let file = match self.shown.node(number) {
            Ok(file) => file,
            Err(error) => return reply.error(error),
        };
        let find = move |shown: &Shown<S>, turn: Turn| {
            let text = shown.tree.text(&file, turn.put, turn.until)?;
            Ok(Opened::Text(text.into()))
        };
        self.answer(true, find, |shown, found| shown.give_opened(found, reply));
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.shown.opened.get(handle.0) {
            Some(Opened::Text(text)) => reply.data(part(&text, offset, bytes)),
            _ => reply.error(Errno::EBADF),
        }
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.shown.opened.close(handle.0);
        reply.ok();
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let directory = match self.shown.node(number) {
            Ok(directory) => directory,
            Err(error) => return reply.error(error),
        };
        let needs_server = self.shown.tree.asks_for_entries(&directory);
        let find = move |shown: &Shown<S>, turn: Turn| {
            Ok(Opened::Listing(shown.tree.list(&directory, turn.put, turn.until)?.into()))
        };
        self.answer(needs_server, find, |shown, found| shown.give_opened(found, reply));
    }

    fn readdir(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let shown = &self.shown;
        let (Ok(directory), Some(Opened::Listing(entries))) =
            (shown.node(number), shown.opened.get(handle.0))
        else {
            return reply.error(Errno::EBADF);
        };
        let above = directory.directory();
        let dots = [(".", &directory), ("..", &above)];
        let all = dots.into_iter().chain(entries.iter().map(|node| (node.name(), node)));
        for (at, (name, node)) in all.enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            let kind = if node.is_directory() { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(shown.nodes.number(node)), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.shown.opened.close(handle.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, 4096, NAME_BYTES_MAX as u32, 4096);
    }
}

fn errno(error: &TreeError) -> Errno {
    match error {
        TreeError::NoEntry => Errno::ENOENT,
        TreeError::NoDirectory => Errno::ENOTDIR,
        TreeError::IsDirectory => Errno::EISDIR,
        TreeError::NoValue => Errno::ENODATA,
        TreeError::Asked(AskError::Late) => Errno::ETIMEDOUT,
        TreeError::Asked(AskError::Unreachable(_) | AskError::Unusable(_)) => Errno::EIO,
    }
}
