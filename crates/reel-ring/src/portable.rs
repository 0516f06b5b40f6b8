use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags};

use crate::error::RingError;
use crate::limits::{DONE_PER_WAIT_MAX, PORTABLE_EVENTS_PER_WAIT, SEND_CHUNKS_MAX};
use crate::op::{Chunk, Done, Op};
use crate::slab::{Key, Slab};
use crate::train::{Train, TrainMessage};
use crate::waker::Waker;

mod files;

use files::FileThreads;

/// The driver for systems without io_uring: epoll for sockets, a few threads for files.
pub(crate) struct PortableDriver {
    epoll: OwnedFd,
    waker: Waker,
    slab: Slab<Entry>,
    /// Socket operations to try at the next `wait`.
    ready: VecDeque<Key>,
    /// Socket operations that wait for their descriptor, with what they wait for.
    waiting: HashMap<RawFd, Vec<(Key, Want)>>,
    files: FileThreads,
    ended: Vec<Done>,
}

/// An operation in flight; `None` while a file thread has it.
struct Entry {
    op: Option<Op>,
    polled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Read,
    Write,
}

/// The key of the waker's eventfd in epoll; no descriptor is that large.
const KEY_WAKE: u64 = u64::MAX;

impl PortableDriver {
    pub(crate) fn new(waker: Waker) -> Result<PortableDriver, RingError> {
        let refused = |step| move |e: Errno| RingError::System { step, source: e.into() };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused("epoll_create1"))?;
        epoll::add(&epoll, waker.fd(), epoll::EventData::new_u64(KEY_WAKE), epoll::EventFlags::IN)
            .map_err(refused("epoll_ctl"))?;
        Ok(PortableDriver {
            epoll,
            files: FileThreads::new(waker.clone()),
            waker,
            slab: Slab::new(),
            ready: VecDeque::new(),
            waiting: HashMap::new(),
            ended: Vec::new(),
        })
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.slab.len() + self.ended.len()
    }

    pub(crate) fn push(&mut self, token: u64, op: Op) {
        if matches!(op, Op::Read { .. } | Op::Write { .. } | Op::Sync { .. }) {
            let key = self.slab.insert(token, Entry { op: None, polled: false });
            if let Err((op, error)) = self.files.push(key, op) {
                self.end(key, Some(op), Err(error), None);
            }
        } else {
            let key = self.slab.insert(token, Entry { op: Some(op), polled: false });
            self.ready.push_back(key);
        }
    }

    pub(crate) fn cancel(&mut self, token: u64) {
        let Some(key) = self.slab.find(token) else { return };
        let cancelled = || Err(Errno::CANCELED.into());
        if let Some(op) = self.files.cancel(key) {
            self.end(key, Some(op), cancelled(), None);
            return;
        }
        let op = self.slab.get_mut(key).and_then(|entry| entry.op.as_ref());
        let Some(fd) = op.and_then(socket_of).map(AsRawFd::as_raw_fd) else { return };
        // If the key is still among the ready ones, it is skipped there, since it is no longer
        // known.
        self.forget_waiting(fd, key);
        self.end(key, None, cancelled(), None);
    }

    pub(crate) fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done>) -> Result<(), RingError> {
        let end = done.len() + DONE_PER_WAIT_MAX;
        self.try_ready();
        self.take_from_files();
        let busy = !self.ended.is_empty() || !self.ready.is_empty() || timeout == Some(Duration::ZERO);
        let sleeps = !busy && self.waker.fall_asleep();
        let result = self.poll(if sleeps { timeout } else { Some(Duration::ZERO) });
        self.waker.check_calls();
        result?;
        self.try_ready();
        self.take_from_files();
        let room = end.saturating_sub(done.len()).min(self.ended.len());
        done.extend(self.ended.drain(..room));
        Ok(())
    }

    /// Asks the kernel which descriptors are ready, and makes their operations ready.
    fn poll(&mut self, timeout: Option<Duration>) -> Result<(), RingError> {
        // epoll counts in milliseconds. Rounding up avoids a busy loop for the last fraction.
        let timeout = timeout.map(|t| {
            let millis = t.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i64;
            Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 }
        });
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); PORTABLE_EVENTS_PER_WAIT];
        let events = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(e) => return Err(RingError::Wait { source: e.into() }),
        };
        for event in events {
            let (data, flags) = (event.data.u64(), event.flags);
            if data == KEY_WAKE {
                let mut count = [0u8; 8];
                let _ = rustix::io::read(self.waker.fd(), &mut count);
                continue;
            }
            self.make_ready(data as RawFd, flags);
        }
        Ok(())
    }

    fn make_ready(&mut self, fd: RawFd, flags: epoll::EventFlags) {
        let Some(list) = self.waiting.get_mut(&fd) else { return };
        let broken = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        let readable = broken || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP);
        let writable = broken || flags.contains(epoll::EventFlags::OUT);
        let mut awaited = Vec::new();
        list.retain(|&(key, want)| {
            let hit = if want == Want::Read { readable } else { writable };
            if hit {
                awaited.push(key);
            }
            !hit
        });
        let Some(any) = awaited.first().copied() else { return };
        let Some(socket) = self.socket(any) else { return };
        // Reducing the interest of a registered descriptor cannot fail.
        let _ = self.update_interest(&socket);
        for key in awaited {
            let Some(entry) = self.slab.get_mut(key) else { continue };
            entry.polled = true;
            match entry.op {
                Some(Op::AwaitReadable { .. } | Op::AwaitWritable { .. }) => {
                    self.end(key, None, Ok(flags.bits() as usize), None);
                }
                _ => self.ready.push_back(key),
            }
        }
    }

    /// Tries each ready operation once. Those that would block wait for their descriptor.
    fn try_ready(&mut self) {
        for _ in 0..self.ready.len() {
            let Some(key) = self.ready.pop_front() else { return };
            let Some(Entry { op: Some(op), polled }) = self.slab.get_mut(key) else { continue };
            match attempt(op, *polled) {
                Attempt::Ended(result, accepted) => self.end(key, None, result, accepted),
                Attempt::Wait(want) => {
                    let Some(socket) = socket_of(op).cloned() else { continue };
                    self.waiting.entry(socket.as_raw_fd()).or_default().push((key, want));
                    if let Err(error) = self.update_interest(&socket) {
                        self.forget_waiting(socket.as_raw_fd(), key);
                        self.end(key, None, Err(error), None);
                    }
                }
            }
        }
    }

    fn take_from_files(&mut self) {
        for (key, op, result) in self.files.take_ended() {
            self.end(key, Some(op), result, None);
        }
    }

    fn forget_waiting(&mut self, fd: RawFd, key: Key) {
        let Some(list) = self.waiting.get_mut(&fd) else { return };
        list.retain(|(waiting, _)| *waiting != key);
        let Some(socket) = self.socket(key) else { return };
        let _ = self.update_interest(&socket);
    }

    fn socket(&mut self, key: Key) -> Option<Arc<OwnedFd>> {
        socket_of(self.slab.get_mut(key)?.op.as_ref()?).cloned()
    }

    /// Tells epoll what the operations of this descriptor wait for; if nothing, removes it.
    fn update_interest(&mut self, socket: &Arc<OwnedFd>) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        let list = self.waiting.get(&fd).map_or(&[][..], Vec::as_slice);
        if list.is_empty() {
            self.waiting.remove(&fd);
            // It may never have been added; either way it is not registered now.
            let _ = epoll::delete(&self.epoll, socket);
            return Ok(());
        }
        let mut flags = epoll::EventFlags::empty();
        for (_, want) in list {
            flags |= match want {
                Want::Read => epoll::EventFlags::IN | epoll::EventFlags::RDHUP,
                Want::Write => epoll::EventFlags::OUT,
            };
        }
        let data = epoll::EventData::new_u64(fd as u64);
        match epoll::modify(&self.epoll, socket, data, flags) {
            Err(Errno::NOENT) => Ok(epoll::add(&self.epoll, socket, data, flags)?),
            result => Ok(result?),
        }
    }

    fn end(&mut self, key: Key, op: Option<Op>, result: io::Result<usize>, accepted: Option<OwnedFd>) {
        let Some((token, entry)) = self.slab.remove(key) else { return };
        if let Some(op) = op.or(entry.op) {
            self.ended.push(Done { token, result, op, accepted });
        }
    }
}

enum Attempt {
    Ended(io::Result<usize>, Option<OwnedFd>),
    Wait(Want),
}

fn attempt(op: &mut Op, polled: bool) -> Attempt {
    match op {
        Op::Accept { listener } => {
            let nonblocking = rustix::fs::fcntl_getfl(&*listener)
                .and_then(|flags| rustix::fs::fcntl_setfl(&*listener, flags | OFlags::NONBLOCK));
            match nonblocking.and_then(|()| rustix::net::accept_with(&*listener, SocketFlags::CLOEXEC)) {
                Ok(socket) => Attempt::Ended(Ok(0), Some(socket)),
                Err(Errno::AGAIN | Errno::INTR) => Attempt::Wait(Want::Read),
                Err(e) => Attempt::Ended(Err(e.into()), None),
            }
        }
        Op::Receive { socket, buffer } => {
            match rustix::net::recv(&*socket, spare_capacity(buffer), RecvFlags::DONTWAIT) {
                Ok((n, _)) => Attempt::Ended(Ok(n), None),
                Err(Errno::AGAIN | Errno::INTR) => Attempt::Wait(Want::Read),
                Err(e) => Attempt::Ended(Err(e.into()), None),
            }
        }
        // epoll does not report when memory is released, and the slower driver is not worth a
        // second mechanism: it copies.
        Op::Send { socket, chunks } | Op::SendZeroCopy { socket, chunks, .. } => {
            Attempt::Ended(send(socket, chunks), None)
        }
        Op::Train(train) => Attempt::Ended(send_train(train), None),
        Op::AwaitReadable { .. } if !polled => Attempt::Wait(Want::Read),
        Op::AwaitWritable { .. } if !polled => Attempt::Wait(Want::Write),
        _ => Attempt::Ended(Ok(0), None),
    }
}

fn send(socket: &OwnedFd, chunks: &[Chunk]) -> io::Result<usize> {
    let _accounts: Vec<_> = chunks.iter().filter_map(Chunk::sending).collect();
    let pieces: Vec<IoSlice<'_>> =
        chunks.iter().take(SEND_CHUNKS_MAX).map(|chunk| IoSlice::new(chunk)).collect();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(rustix::net::sendmsg(socket, &pieces, &mut SendAncillaryBuffer::default(), flags)?)
}

fn send_train(train: &Train) -> io::Result<usize> {
    let _accounts: Vec<_> = train.chunks.iter().filter_map(Chunk::sending).collect();
    let message = TrainMessage::new(train);
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the message and the bytes it points to, which the train's chunks own, outlive the
    // call, which only reads them.
    let sent = unsafe { libc::sendmsg(train.socket.as_raw_fd(), message.header(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn socket_of(op: &Op) -> Option<&Arc<OwnedFd>> {
    match op {
        Op::Lent { .. } => None,
        Op::Accept { listener: fd }
        | Op::Receive { socket: fd, .. }
        | Op::Send { socket: fd, .. }
        | Op::SendZeroCopy { socket: fd, .. }
        | Op::AwaitWritable { socket: fd }
        | Op::AwaitReadable { socket: fd }
        | Op::Train(Train { socket: fd, .. })
        | Op::Read { file: fd, .. }
        | Op::Write { file: fd, .. }
        | Op::Sync { file: fd } => Some(fd),
    }
}
