//! The kernel's questions (FUSE), answered from a tree.

use crate::asking::{Asking, Turn};
use crate::limits::{KEPT_TIME, NAME_BYTES_MAX, WRITTEN_BYTES_MAX};
use crate::media::Media;
use crate::node::{BranchFile, Node, StreamFile};
use crate::nodes::Nodes;
use crate::opened::{Opened, OpenedTable, part};
use crate::server::{AskError, Server};
use crate::stream::Owner;
use crate::streaming::{self, Streaming};
use crate::tree::{Tree, TreeError};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Answers the kernel. What needs the server is answered by another thread.
///
/// Only files of streams and shares of classes can be written.
pub(crate) struct FileSystem<S> {
    shown: Arc<Shown<S>>,
    asking: Asking,
}

/// What is shown, and what the kernel knows of it.
struct Shown<S> {
    tree: Tree<Arc<S>>,
    streaming: Arc<Streaming<S>>,
    nodes: Nodes,
    opened: OpenedTable,
    uid: u32,
    gid: u32,
    root_mode: u16,
    /// The time of all files.
    since: SystemTime,
}

impl<S: Server + Media> FileSystem<S> {
    /// The files belong to the user of this process, and streams to who makes them. Other users see
    /// them if `allow_other` is set.
    pub(crate) fn new(
        server: Arc<S>,
        streaming: Arc<Streaming<S>>,
        asking: Asking,
        allow_other: bool,
    ) -> FileSystem<S> {
        let shown = Shown {
            tree: Tree::new(server),
            streaming,
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
        find: impl FnOnce(&Shown<S>, Turn) -> Result<T, Errno> + Send + 'static,
        give: impl FnOnce(&Shown<S>, Result<T, Errno>) + Send + 'static,
    ) {
        let shown = Arc::clone(&self.shown);
        let answer = move |turn: Option<Turn>| {
            let Some(turn) = turn else { return give(&shown, Err(Errno::EAGAIN)) };
            let found = find(&shown, turn);
            give(&shown, found);
        };
        match needs_server {
            true => self.asking.put(answer),
            false => answer(Some(Turn::now())),
        }
    }
}

impl<S: Server + Media> Shown<S> {
    fn node(&self, number: INodeNo) -> Result<Node, Errno> {
        self.nodes.node(number.0).ok_or(Errno::ENOENT)
    }

    fn give_entry(&self, found: Result<Node, Errno>, reply: ReplyEntry) {
        let told = found.and_then(|node| {
            let attributes = self.attributes(&node)?;
            self.nodes.told(&node).ok_or(Errno::EIO)?;
            Ok((kept_time(&node), attributes))
        });
        match told {
            Ok((kept, attributes)) => reply.entry(&kept, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    /// What has a name in a directory.
    fn lookup(&self, directory: &Node, name: &str, turn: Turn) -> Result<Node, Errno> {
        let found = match directory {
            Node::Streams if name == "clone" => Some(Node::Clone),
            Node::Streams => {
                let number = name.parse::<u64>().ok().filter(|number| number.to_string() == name);
                number.map(Node::Stream).filter(|node| self.attributes(node).is_ok())
            }
            Node::Stream(number) => {
                let file = StreamFile::ALL.into_iter().find(|file| file.name() == name);
                let file = file.map(|file| Node::OfStream(*number, file));
                file.or_else(|| (name == "out").then_some(Node::Out(*number)))
            }
            Node::Out(number) => {
                let branch = name.parse::<usize>().ok().filter(|branch| branch.to_string() == name);
                branch
                    .map(|branch| Node::Branch(*number, branch))
                    .filter(|node| self.attributes(node).is_ok())
            }
            Node::Branch(number, branch) => {
                let file = BranchFile::ALL.into_iter().find(|file| file.name() == name);
                file.map(|file| Node::OfStream(*number, StreamFile::OfBranch(*branch, file)))
            }
            _ => {
                Some(self.tree.lookup(directory, name, turn.put, turn.until).map_err(|error| errno(&error))?)
            }
        };
        found.ok_or(Errno::ENOENT)
    }

    /// What is in a directory.
    fn list(&self, directory: &Node, turn: Turn) -> Result<Vec<Node>, Errno> {
        match directory {
            Node::Streams => {
                let streams = self.streaming.numbers().into_iter().map(Node::Stream);
                Ok([Node::Clone].into_iter().chain(streams).collect())
            }
            Node::Stream(number) => {
                self.attributes(directory)?;
                let files = StreamFile::ALL.map(|file| Node::OfStream(*number, file));
                Ok(files.into_iter().chain([Node::Out(*number)]).collect())
            }
            Node::Out(number) => {
                let branches = self.streaming.branches(*number).ok_or(Errno::ENOENT)?;
                Ok((0..branches).map(|branch| Node::Branch(*number, branch)).collect())
            }
            Node::Branch(number, branch) => {
                self.attributes(directory)?;
                let of_branch = |file| Node::OfStream(*number, StreamFile::OfBranch(*branch, file));
                Ok(BranchFile::ALL.map(of_branch).to_vec())
            }
            _ => self.tree.list(directory, turn.put, turn.until).map_err(|error| errno(&error)),
        }
    }

    /// Opens a file for this user.
    fn open(&self, file: &Node, owner: Owner, turn: Turn) -> Result<Opened, Errno> {
        match file {
            Node::Clone => {
                let number = self.streaming.add(owner).map_err(|problem| streaming::errno(&problem))?;
                Ok(Opened::Text(format!("{number}\n").into()))
            }
            Node::OfStream(number, StreamFile::Data) => {
                self.streaming.open_data(*number, turn).map_err(|problem| streaming::errno(&problem))?;
                Ok(Opened::OfStream(*number, StreamFile::Data, "".into()))
            }
            Node::OfStream(number, file) => {
                let text =
                    self.streaming.open(*number, *file).map_err(|problem| streaming::errno(&problem))?;
                Ok(Opened::OfStream(*number, *file, text.into()))
            }
            _ => {
                let text = self.tree.text(file, turn.put, turn.until).map_err(|error| errno(&error))?;
                Ok(Opened::Text(text.into()))
            }
        }
    }

    /// Writes to a file that is open.
    fn write(&self, file: &Node, written: &[u8], turn: Turn) -> Result<(), Errno> {
        let done = match file {
            Node::OfStream(number, file) => self.streaming.write((*number, *file), written, &self.tree, turn),
            _ => self.tree.write(file, written, turn.put, turn.until).inspect_err(|problem| {
                // There is no file that tells why.
                let file = format!("{}/{}", file.directory().name(), file.name());
                tracing::warn!(file, "what was written is refused: {problem}");
            }),
        };
        done.map_err(|problem| streaming::errno(&problem))
    }

    /// What was opened is closed.
    fn close(&self, handle: u64) {
        if let Some(Opened::OfStream(number, file, _)) = self.opened.close(handle) {
            self.streaming.closed(number, file);
        }
    }

    fn give_opened(&self, found: Result<Opened, Errno>, reply: ReplyOpen) {
        // Sizes are not known before a file is opened, so the kernel must not believe them.
        let flags = match found {
            Ok(Opened::OfStream(_, StreamFile::Data, _)) => {
                FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_STREAM
            }
            Ok(Opened::Text(_) | Opened::OfStream(..)) => FopenFlags::FOPEN_DIRECT_IO,
            _ => FopenFlags::empty(),
        };
        let opened = found.and_then(|opened| {
            let of_stream = match &opened {
                Opened::OfStream(number, file, _) => Some((*number, *file)),
                _ => None,
            };
            self.opened.open(opened).ok_or_else(|| {
                of_stream.inspect(|(number, file)| self.streaming.closed(*number, *file));
                Errno::ENFILE
            })
        });
        match opened {
            Ok(handle) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(error),
        }
    }

    /// The attributes of what is there; a stream may be closed.
    fn attributes(&self, node: &Node) -> Result<FileAttr, Errno> {
        let (kind, perm) = match node {
            Node::Root => (FileType::Directory, self.root_mode),
            Node::Stream(_) | Node::Out(_) | Node::Branch(..) => (FileType::Directory, 0o700),
            directory if directory.is_directory() => (FileType::Directory, 0o555),
            Node::OfStream(_, file) => {
                let (read, written) = (file.is_read(), file.is_written());
                (FileType::RegularFile, if read { 0o400 } else { 0 } | if written { 0o200 } else { 0 })
            }
            Node::Value(.., field) if field.is_written() => (FileType::RegularFile, 0o644),
            _ => (FileType::RegularFile, 0o444),
        };
        let owner = match node {
            Node::Branch(number, branch) | Node::OfStream(number, StreamFile::OfBranch(branch, _))
                if self.streaming.branches(*number).is_none_or(|branches| *branch >= branches) =>
            {
                return Err(Errno::ENOENT);
            }
            Node::Stream(number)
            | Node::Out(number)
            | Node::Branch(number, _)
            | Node::OfStream(number, _) => self.streaming.owner(*number).ok_or(Errno::ENOENT)?,
            _ => Owner { uid: self.uid, gid: self.gid },
        };
        Ok(FileAttr {
            ino: INodeNo(self.nodes.number(node)),
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
            uid: owner.uid,
            gid: owner.gid,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        })
    }
}

impl<S: Server + Media> Filesystem for FileSystem<S> {
    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (directory, name) = match (self.shown.node(parent), name.to_str()) {
            (Err(error), _) => return reply.error(error),
            // Newer kernels leave it to the file system.
            _ if name.len() > NAME_BYTES_MAX => return reply.error(Errno::ENAMETOOLONG),
            (_, None) => return reply.error(Errno::ENOENT),
            (Ok(directory), Some(name)) => (directory, name.to_owned()),
        };
        let needs_server = self.shown.tree.asks_for_entries(&directory);
        let find = move |shown: &Shown<S>, turn: Turn| shown.lookup(&directory, &name, turn);
        self.answer(needs_server, find, |shown, found| shown.give_entry(found, reply));
    }

    fn forget(&self, _request: &Request, number: INodeNo, times: u64) {
        self.shown.nodes.forgotten(number.0, times);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let known =
            self.shown.node(number).and_then(|node| Ok((kept_time(&node), self.shown.attributes(&node)?)));
        match known {
            Ok((kept, attributes)) => reply.attr(&kept, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = self.shown.node(number).and_then(|node| match node {
            // Shells cut a file before they write to it.
            Node::OfStream(_, file) if file.is_written() && size.is_some() => {
                let is_other = mode.is_some() || uid.is_some() || gid.is_some();
                if is_other { Err(Errno::EPERM) } else { self.shown.attributes(&node) }
            }
            Node::Value(.., field) if field.is_written() => match size {
                Some(_) if mode.is_none() && uid.is_none() && gid.is_none() => self.shown.attributes(&node),
                _ => Err(Errno::EPERM),
            },
            Node::Stream(_) | Node::Out(_) | Node::Branch(..) | Node::OfStream(..) => Err(Errno::EPERM),
            _ => Err(Errno::EROFS),
        });
        match set {
            Ok(attributes) => reply.attr(&Duration::ZERO, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let owner = Owner { uid: request.uid(), gid: request.gid() };
        let is_operator = [0, self.shown.uid].contains(&owner.uid);
        let may_open = |file: &Node| may_open(file, flags.acc_mode(), is_operator);
        let file = self.shown.node(number).and_then(|file| may_open(&file).map(|()| file));
        let file = match file {
            Ok(file) => file,
            Err(error) => return reply.error(error),
        };
        let needs_server = match &file {
            Node::Clone => false,
            Node::OfStream(_, file) => *file == StreamFile::Data,
            _ => true,
        };
        let find = move |shown: &Shown<S>, turn: Turn| shown.open(&file, owner, turn);
        self.answer(needs_server, find, |shown, found| shown.give_opened(found, reply));
    }

    fn write(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        _offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (node, opened) = (self.shown.node(number), self.shown.opened.get(handle.0));
        let (Ok(node), Some(Opened::Text(_) | Opened::OfStream(..))) = (node, opened) else {
            return reply.error(Errno::EBADF);
        };
        // What is too long is refused; no more of it is kept meanwhile.
        let (written, bytes) = (data[..data.len().min(WRITTEN_BYTES_MAX + 1)].to_vec(), data.len() as u32);
        let write = move |shown: &Shown<S>, turn: Turn| shown.write(&node, &written, turn);
        self.answer(true, write, move |_, done| match done {
            Ok(()) => reply.written(bytes),
            Err(error) => reply.error(error),
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // The kernel asks no more: what is written is done in `write`, with its error.
        reply.error(Errno::ENOSYS);
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
            Some(Opened::OfStream(number, StreamFile::Data, _)) => {
                self.shown.streaming.read(number, bytes, reply);
            }
            Some(Opened::Text(text) | Opened::OfStream(_, _, text)) => {
                reply.data(part(&text, offset, bytes));
            }
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
        self.shown.close(handle.0);
        reply.ok();
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let directory = match self.shown.node(number) {
            Ok(directory) => directory,
            Err(error) => return reply.error(error),
        };
        let needs_server = self.shown.tree.asks_for_entries(&directory);
        let find =
            move |shown: &Shown<S>, turn: Turn| Ok(Opened::Listing(shown.list(&directory, turn)?.into()));
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
        let dots = [(".".into(), &directory), ("..".into(), &above)];
        let all = dots.into_iter().chain(entries.iter().map(|node| (node.name(), node)));
        for (at, (name, node)) in all.enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            let kind = if node.is_directory() { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(shown.nodes.number(node)), at as u64 + 1, kind, &*name) {
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
        self.shown.close(handle.0);
        reply.ok();
    }

    // Nothing is made or removed but by writing to files of streams.

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn create(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        reply.error(Errno::EROFS);
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, 4096, NAME_BYTES_MAX as u32, 4096);
    }
}

/// How long the kernel may keep what it is told of a file. A stream may be closed at any time.
fn kept_time(node: &Node) -> Duration {
    match node {
        Node::Stream(_) | Node::Out(_) | Node::Branch(..) | Node::OfStream(..) => Duration::ZERO,
        _ => KEPT_TIME,
    }
}

/// Whether a file can be opened in this way, by root or the user who has mounted or by others. The
/// kernel compares modes, but not for root.
fn may_open(file: &Node, mode: OpenAccMode, is_operator: bool) -> Result<(), Errno> {
    let reads = mode != OpenAccMode::O_WRONLY;
    let writes = mode != OpenAccMode::O_RDONLY;
    match file {
        Node::OfStream(_, file) if (reads && !file.is_read()) || (writes && !file.is_written()) => {
            Err(Errno::EACCES)
        }
        Node::OfStream(..) => Ok(()),
        Node::Value(.., field) if field.is_written() && writes => {
            if is_operator {
                Ok(())
            } else {
                Err(Errno::EACCES)
            }
        }
        _ if writes => Err(Errno::EROFS),
        _ => Ok(()),
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
