//! The modelled disks as files of a small file system (FUSE), so that everything that opens a path
//! can use them.

use super::kernel::unmount;
use super::member::{Answer, Change, Counts, Member, Work};
use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL,
    TimeOrNow, WriteFlags,
};
use reel_testkit::DiskModel;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The largest request the kernel sends: four units of a volume, or the read-ahead of a tuned file
/// system.
const REQUEST_BYTES: u32 = 1 << 20;
/// Requests under way at once; the default of 12 would be a second queue in front of the disks'.
const BACKGROUND: u16 = 1024;
const BLOCK_BYTES: u32 = 4096;
/// How long the kernel may keep names and sizes: they never change.
const TTL: Duration = Duration::from_secs(3600);

/// Mounted disks; dropping them unmounts.
pub(super) struct DiskFiles {
    session: Option<BackgroundSession>,
    disks: Arc<Vec<Member>>,
    at: PathBuf,
}

impl DiskFiles {
    /// Mounts one file of `bytes` for each of `backing`, which are made if they are not there.
    pub(super) fn mount(at: &Path, backing: &[PathBuf], bytes: u64) -> Result<Self> {
        fs::create_dir_all(at)?;
        let mut disks = Vec::new();
        for (number, path) in backing.iter().enumerate() {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            file.set_len(bytes)?;
            disks.push(Member::start(number, DiskModel::disk_7200(bytes), file)?);
        }
        let disks = Arc::new(disks);
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("reel-bench".into())];
        config.acl = SessionACL::All;
        config.n_threads = Some(2);
        let system = DiskSystem { disks: disks.clone(), bytes };
        let session = Session::new(system, at, &config)
            .and_then(Session::spawn)
            .with_context(|| format!("mounting the modelled disks at {} (FUSE; needs root)", at.display()))?;
        Ok(Self { session: Some(session), disks, at: at.to_owned() })
    }

    /// The paths of the disks.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        (0..self.disks.len()).map(|number| self.at.join(name(number))).collect()
    }

    /// Changes how one disk behaves; `false` if there is no such disk.
    pub(super) fn change(&self, number: usize, change: Change) -> bool {
        self.disks.get(number).map(|disk| disk.ask(Work::Change(change))).is_some()
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.disks.iter().map(|disk| &*disk.counts)
    }
}

impl Drop for DiskFiles {
    fn drop(&mut self) {
        // A disk that stalls would keep the unmounting waiting.
        self.disks.iter().for_each(|disk| disk.ask(Work::Change(Change::Instant)));
        if let Some(session) = self.session.take() {
            unmount(&self.at);
            // It is unmounted: the threads end by themselves, and joining tells how.
            if let Err(error) = session.join() {
                eprintln!("reel-bench: the modelled disks ended badly: {error}");
            }
        }
        // Somebody may have put something there; then it stays.
        let _ = fs::remove_dir(&self.at);
    }
}

struct DiskSystem {
    disks: Arc<Vec<Member>>,
    bytes: u64,
}

impl DiskSystem {
    fn disk(&self, ino: INodeNo) -> Option<&Member> {
        self.disks.get(usize::try_from(ino.0).ok()?.checked_sub(2)?)
    }

    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            _ => self.disk(ino).map(|_| (FileType::RegularFile, 0o600, self.bytes))?,
        };
        Some(FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: BLOCK_BYTES,
        })
    }
}

impl Filesystem for DiskSystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without them the kernel sends one direct request after the other, and no queue forms in
        // the disk.
        let wanted = InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_ASYNC_READ;
        config
            .add_capabilities(wanted)
            .map_err(|missing| io::Error::other(format!("this kernel's FUSE lacks {missing:?}")))?;
        let refused = |least: u16| io::Error::other(format!("the kernel refuses, {least} is its bound"));
        config.set_max_background(BACKGROUND).map_err(refused)?;
        config.set_congestion_threshold(BACKGROUND).map_err(refused)?;
        config
            .set_max_write(REQUEST_BYTES)
            .map_err(|most| io::Error::other(format!("requests of at most {most} bytes")))?;
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.strip_prefix("disk-")?.parse::<u64>().ok());
        match number.and_then(|number| self.attributes(INodeNo(number + 2))) {
            Some(attributes) if parent == INodeNo::ROOT => reply.entry(&TTL, &attributes, Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
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
        match self.attributes(ino) {
            // A disk keeps its size.
            Some(attributes) if size.is_none_or(|size| size == attributes.size) => {
                reply.attr(&TTL, &attributes)
            }
            Some(_) => reply.error(Errno::EPERM),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.disk(ino) {
            // No page cache in between, whatever the opener asked for.
            Some(_) => {
                reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_KEEP_CACHE)
            }
            None => reply.error(Errno::EISDIR),
        }
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = u64::from(size).min(self.bytes.saturating_sub(offset)) as usize;
        match self.disk(ino) {
            Some(_) if bytes == 0 => reply.data(&[]),
            Some(disk) => disk.ask(Work::Read { offset, bytes, answer: Box::new(Reading(reply)) }),
            None => reply.error(Errno::EISDIR),
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let end = offset.checked_add(data.len() as u64);
        match self.disk(ino) {
            Some(_) if end.is_none_or(|end| end > self.bytes) => reply.error(Errno::ENOSPC),
            Some(disk) => {
                let bytes = data.len() as u32;
                let answer = Box::new(Writing(reply, bytes));
                disk.ask(Work::Write { offset, data: data.to_vec(), answer });
            }
            None => reply.error(Errno::EISDIR),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        // A write is answered when it is in its place.
        reply.ok();
    }

    fn readdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        for number in offset..self.disks.len() as u64 {
            let name = name(number as usize);
            if reply.add(INodeNo(number + 2), number + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let blocks = self.bytes / u64::from(BLOCK_BYTES) * self.disks.len() as u64;
        reply.statfs(blocks, 0, 0, self.disks.len() as u64, 0, BLOCK_BYTES, 32, BLOCK_BYTES);
    }
}

struct Reading(ReplyData);

impl Answer for Reading {
    fn done(self: Box<Self>, data: io::Result<&[u8]>) {
        match data {
            Ok(data) => self.0.data(data),
            Err(_) => self.0.error(Errno::EIO),
        }
    }
}

struct Writing(ReplyWrite, u32);

impl Answer for Writing {
    fn done(self: Box<Self>, data: io::Result<&[u8]>) {
        match data {
            Ok(_) => self.0.written(self.1),
            Err(_) => self.0.error(Errno::EIO),
        }
    }
}

fn name(number: usize) -> String {
    format!("disk-{number}")
}
