//! One loop of io_uring: accept, receive, read into registered buffers, send from them.

use crate::Reported;
use crate::http::{Files, Request, head};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Connections of one loop.
const CONNECTIONS: usize = 128;
const BUFFER_BYTES: usize = 256 << 10;
/// Buffers of a connection. Without a copy, the kernel uses them until the peer has acknowledged
/// them.
const BUFFERS: usize = 6;
/// O_DIRECT reads begin and end at multiples of this.
const BLOCK_BYTES: u64 = 4096;
/// Send buffer of a socket that sends without a copy. The kernel charges a piece of a huge page
/// together with everything before it in the page, 1 MiB on average. With the usual few MiB a
/// sender would nearly always wait for room.
const SEND_BYTES: i32 = 512 << 20;
/// `IORING_SEND_ZC_REPORT_USAGE` and `IORING_NOTIF_USAGE_ZC_COPIED` (io_uring.h).
const REPORT_USAGE: u16 = 1 << 3;
const USAGE_COPIED: u32 = 1 << 31;

pub(crate) fn serve(
    listener: &TcpListener,
    root: &Path,
    zero_copy: bool,
    reported: &Reported,
) -> io::Result<()> {
    let ring =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(8192).build(2048)?;
    let memory = Memory::map(CONNECTIONS * BUFFERS * BUFFER_BYTES)?;
    let pieces: Vec<_> = (0..memory.bytes.div_ceil(1 << 30))
        .map(|piece| libc::iovec {
            iov_base: memory.at(piece << 30).cast(),
            iov_len: (memory.bytes - (piece << 30)).min(1 << 30),
        })
        .collect();
    // SAFETY: the memory outlives the ring, because it is never unmapped.
    unsafe { ring.submitter().register_buffers(&pieces)? };
    let connections = (0..CONNECTIONS).map(|_| None).collect();
    let files = Files::new(root, libc::O_DIRECT);
    let mut server = Loop { ring, memory, files, connections, zero_copy, reported };
    server.accept(listener)?;
    loop {
        server.ring.submit_and_wait(1)?;
        let done: Vec<_> = server
            .ring
            .completion()
            .map(|entry| (entry.user_data(), entry.result(), entry.flags()))
            .collect();
        for (tag, result, flags) in done {
            server.done(listener, Tag::from(tag), result, flags)?;
        }
    }
}

struct Loop<'a> {
    ring: IoUring,
    memory: Memory,
    files: Files,
    connections: Vec<Option<Connection>>,
    zero_copy: bool,
    reported: &'a Reported,
}

struct Connection {
    socket: OwnedFd,
    asked: Box<[u8; 4096]>,
    asked_bytes: usize,
    head: Vec<u8>,
    body: Option<Body>,
    buffers: [State; BUFFERS],
    /// Operations in the ring. A connection that ends is removed when there are none.
    in_flight: usize,
    ended: bool,
}

/// A file that is being sent.
struct Body {
    file: Rc<File>,
    /// The next block to read, in whole blocks, and the requested end.
    read_at: u64,
    wanted: Range<u64>,
    /// Position of the next byte to send.
    send_at: u64,
    sending: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Free,
    Reading {
        at: u64,
    },
    /// The bytes of the buffer that are to be sent.
    Ready {
        at: u64,
        from: usize,
        to: usize,
    },
    Sending {
        from: usize,
        to: usize,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Accept,
    Receive,
    Head,
    Read,
    Send,
}

#[derive(Clone, Copy)]
struct Tag {
    kind: Kind,
    connection: usize,
    buffer: usize,
}

impl From<u64> for Tag {
    fn from(word: u64) -> Self {
        let kind = [Kind::Accept, Kind::Receive, Kind::Head, Kind::Read, Kind::Send][(word >> 32) as usize];
        Self { kind, connection: (word & 0xFFFF) as usize, buffer: (word >> 16 & 0xFFFF) as usize }
    }
}

impl Tag {
    fn word(self) -> u64 {
        (self.kind as u64) << 32 | (self.buffer as u64) << 16 | self.connection as u64
    }
}

impl Loop<'_> {
    fn push(&mut self, entry: squeue::Entry, tag: Tag) -> io::Result<()> {
        let entry = entry.user_data(tag.word());
        if tag.kind != Kind::Accept
            && let Some(connection) = &mut self.connections[tag.connection]
        {
            connection.in_flight += 1;
        }
        loop {
            // SAFETY: what the entry points to (a buffer of the mapped memory, or a box of its
            // connection) lives until the operation ends.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        let fd = types::Fd(listener.as_raw_fd());
        let accept = opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut()).build();
        self.push(accept, Tag { kind: Kind::Accept, connection: 0, buffer: 0 })
    }

    fn done(&mut self, listener: &TcpListener, tag: Tag, result: i32, flags: u32) -> io::Result<()> {
        let number = tag.connection;
        if tag.kind == Kind::Accept {
            if result >= 0 {
                // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
                let socket = unsafe { OwnedFd::from_raw_fd(result) };
                self.accepted(socket)?;
            }
            return self.accept(listener);
        }
        let Some(connection) = &mut self.connections[number] else { return Ok(()) };
        if !(tag.kind == Kind::Send && cqueue::more(flags)) {
            connection.in_flight -= 1;
        }
        if tag.kind == Kind::Send && cqueue::notif(flags) {
            let copied = result as u32 & USAGE_COPIED != 0;
            let counter = if copied { &self.reported.copied } else { &self.reported.without_copy };
            counter.fetch_add(1, Ordering::Relaxed);
            connection.buffers[tag.buffer] = State::Free;
        } else {
            connection.took(tag, result, cqueue::more(flags));
        }
        self.proceed(number)
    }

    fn accepted(&mut self, socket: OwnedFd) -> io::Result<()> {
        // Without a copy, the last buffer waits for acknowledgements that a peer may delay (RFC
        // 1122, 4.2.3.2 to 4.2.3.4).
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        if self.zero_copy {
            let bytes: libc::c_int = SEND_BYTES;
            let size = size_of_val(&bytes) as libc::socklen_t;
            // SAFETY: the option's value is an int that outlives the call.
            let set = unsafe {
                let value = (&raw const bytes).cast();
                libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, value, size)
            };
            if set != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let socket = OwnedFd::from(stream);
        // A connection beyond the limit is closed.
        let Some(number) = self.connections.iter().position(Option::is_none) else { return Ok(()) };
        self.connections[number] = Some(Connection {
            socket,
            asked: Box::new([0; 4096]),
            asked_bytes: 0,
            head: Vec::new(),
            body: None,
            buffers: [State::Free; BUFFERS],
            in_flight: 0,
            ended: false,
        });
        self.receive(number)
    }

    fn receive(&mut self, number: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[number] else { return Ok(()) };
        let fd = types::Fd(connection.socket.as_raw_fd());
        let room = &mut connection.asked[connection.asked_bytes..];
        let receive = opcode::Recv::new(fd, room.as_mut_ptr(), room.len() as u32).build();
        self.push(receive, Tag { kind: Kind::Receive, connection: number, buffer: 0 })
    }

    fn proceed(&mut self, number: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[number] else { return Ok(()) };
        if connection.ended {
            if connection.in_flight == 0 {
                self.connections[number] = None;
            }
            return Ok(());
        }
        if connection.body.is_none() && connection.in_flight == 0 {
            let Some(request) = Request::read(&connection.asked[..connection.asked_bytes]) else {
                return self.receive(number);
            };
            connection.asked_bytes = 0;
            if self.begin(number, &request).is_err() {
                self.connections[number] = None;
                return Ok(());
            }
        }
        self.read(number)?;
        self.send(number)
    }

    fn begin(&mut self, number: usize, request: &Request) -> io::Result<()> {
        let Some(connection) = &mut self.connections[number] else { return Ok(()) };
        if request.path == "/report" {
            let (free, copied) = (&self.reported.without_copy, &self.reported.copied);
            let text = format!("{} {}", free.load(Ordering::Relaxed), copied.load(Ordering::Relaxed));
            connection.head = (head(request, text.len() as u64) + &text).into_bytes();
        } else {
            let (file, wanted) = self.files.find(request)?;
            connection.head = head(request, wanted.end - wanted.start).into_bytes();
            let read_at = wanted.start / BLOCK_BYTES * BLOCK_BYTES;
            let send_at = wanted.start;
            connection.body = Some(Body { file, read_at, wanted, send_at, sending: true });
        }
        let fd = types::Fd(connection.socket.as_raw_fd());
        let more = if connection.body.is_some() { libc::MSG_MORE } else { 0 };
        let send = opcode::Send::new(fd, connection.head.as_ptr(), connection.head.len() as u32);
        let send = send.flags(more | libc::MSG_WAITALL | libc::MSG_NOSIGNAL).build();
        self.push(send, Tag { kind: Kind::Head, connection: number, buffer: 0 })
    }

    /// Reads into every free buffer.
    fn read(&mut self, number: usize) -> io::Result<()> {
        for buffer in 0..BUFFERS {
            let Some(connection) = &mut self.connections[number] else { return Ok(()) };
            let Some(body) = connection.body.as_mut().filter(|body| body.read_at < body.wanted.end) else {
                break;
            };
            if connection.buffers[buffer] != State::Free {
                continue;
            }
            let at = body.read_at;
            body.read_at += BUFFER_BYTES as u64;
            connection.buffers[buffer] = State::Reading { at };
            let bytes = (body.wanted.end - at).next_multiple_of(BLOCK_BYTES).min(BUFFER_BYTES as u64);
            let fd = types::Fd(body.file.as_raw_fd());
            let (place, piece) = self.memory.buffer(number * BUFFERS + buffer);
            let read = opcode::ReadFixed::new(fd, place, bytes as u32, piece).offset(at).build();
            self.push(read, Tag { kind: Kind::Read, connection: number, buffer })?;
        }
        Ok(())
    }

    /// Sends the next bytes, if they have been read and no send is in flight.
    fn send(&mut self, number: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[number] else { return Ok(()) };
        let Some(body) = connection.body.as_mut().filter(|body| !body.sending) else { return Ok(()) };
        let next = connection.buffers.iter().position(
            |state| matches!(state, State::Ready { at, from, .. } if at + *from as u64 == body.send_at),
        );
        let Some(buffer) = next else { return Ok(()) };
        let State::Ready { from, to, .. } = connection.buffers[buffer] else { return Ok(()) };
        body.sending = true;
        connection.buffers[buffer] = State::Sending { from, to };
        let fd = types::Fd(connection.socket.as_raw_fd());
        let (place, piece) = self.memory.buffer(number * BUFFERS + buffer);
        let (place, bytes) = (place.wrapping_add(from).cast_const(), (to - from) as u32);
        let last = body.send_at + u64::from(bytes) == body.wanted.end;
        // A send that waits for more bytes is not acknowledged, and its buffer not returned, before
        // more bytes come.
        let more = if last || self.zero_copy { 0 } else { libc::MSG_MORE };
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL | more;
        let send = if self.zero_copy {
            let send = opcode::SendZc::new(fd, place, bytes).buf_index(Some(piece));
            send.flags(flags).zc_flags(REPORT_USAGE).build()
        } else {
            opcode::Send::new(fd, place, bytes).flags(flags).build()
        };
        self.push(send, Tag { kind: Kind::Send, connection: number, buffer })
    }
}

impl Connection {
    fn took(&mut self, tag: Tag, result: i32, more: bool) {
        if result < 0 || (result == 0 && tag.kind == Kind::Receive) {
            self.ended = true;
            return;
        }
        let bytes = result as usize;
        match (tag.kind, &mut self.body, self.buffers[tag.buffer]) {
            (Kind::Receive, _, _) => {
                self.asked_bytes += bytes;
                self.ended = self.asked_bytes == self.asked.len();
            }
            (Kind::Head, body, _) => {
                if let Some(body) = body {
                    body.sending = false;
                }
            }
            (Kind::Read, Some(body), State::Reading { at }) => {
                let from = body.wanted.start.saturating_sub(at) as usize;
                let to = body.wanted.end.saturating_sub(at).min(BUFFER_BYTES as u64) as usize;
                self.ended = bytes < to;
                self.buffers[tag.buffer] = State::Ready { at, from, to };
            }
            (Kind::Send, Some(body), State::Sending { from, to }) => {
                self.ended = bytes < to - from;
                if !more {
                    self.buffers[tag.buffer] = State::Free;
                }
                body.sending = false;
                body.send_at += bytes as u64;
                if body.send_at == body.wanted.end {
                    self.body = None;
                }
            }
            _ => self.ended = true,
        }
    }
}

/// Memory that is never unmapped.
struct Memory {
    start: *mut u8,
    bytes: usize,
}

impl Memory {
    fn map(bytes: usize) -> io::Result<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Uses larger pages where the kernel has them; without them everything works, only slower.
        // SAFETY: the range is the mapping made above.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
        Ok(Self { start: start.cast(), bytes })
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.start.wrapping_add(offset)
    }

    /// A buffer and the registered piece that contains it.
    fn buffer(&self, number: usize) -> (*mut u8, u16) {
        let offset = number * BUFFER_BYTES;
        (self.at(offset), (offset >> 30) as u16)
    }
}
