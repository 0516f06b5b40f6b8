//! Pipe and Unix socket, each used as efficiently as possible.

use rustix::io::{read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, vmsplice};
use std::os::fd::OwnedFd;

/// Bytes that a pipe or socket is asked to hold, and that a reader of a stream takes at once.
const ROOM_BYTES: usize = 1 << 20;

/// The two ends of a way: the producer's and the consumer's. Both are blocking.
pub(crate) fn ends(way: &str) -> (OwnedFd, OwnedFd) {
    let sockets = |kind| {
        let (one, other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        // The kernel refuses more than the machine allows; then the buffer has that size.
        let _ = sockopt::set_socket_send_buffer_size_force(&one, ROOM_BYTES)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&one, ROOM_BYTES));
        (one, other)
    };
    match way {
        "pipe" | "vmsplice" => {
            let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            let _ = fcntl_setpipe_size(&writes, ROOM_BYTES);
            (writes, reads)
        }
        "pipe-64k" => {
            let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            (writes, reads)
        }
        "unix-stream" => sockets(SocketType::STREAM),
        "unix-seqpacket" => sockets(SocketType::SEQPACKET),
        other => panic!("unknown way: {other}"),
    }
}

/// Sends one whole message; returns the number of system calls.
pub(crate) fn put(way: &str, end: &OwnedFd, message: &[u8]) -> u64 {
    let (mut rest, mut calls) = (message, 0);
    while !rest.is_empty() {
        calls += 1;
        let put = if way == "vmsplice" {
            let piece = [IoSliceRaw::from_slice(rest)];
            // SAFETY: the piece lies in `rest`. The pages are only read, and are not changed until
            // the consumer has read them: this way is used only with messages that never change.
            unsafe { vmsplice(end, &piece, SpliceFlags::empty()) }.unwrap()
        } else {
            write(end, rest).unwrap()
        };
        rest = &rest[put..];
    }
    calls
}

/// The consumer's end.
pub(crate) struct Reader {
    end: OwnedFd,
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    keeps_borders: bool,
    pub(crate) kernel_calls: u64,
}

impl Reader {
    /// A reader of messages of `bytes`. Where the way has no message boundaries, one call takes
    /// many.
    pub(crate) fn new(way: &str, end: OwnedFd, bytes: usize) -> Reader {
        let keeps_borders = way == "unix-seqpacket";
        // What is taken at once should stay in the caches; a message must fit.
        let room = if keeps_borders { bytes } else { bytes.max(128 << 10) };
        Reader { end, buffer: vec![0; room], start: 0, filled: 0, keeps_borders, kernel_calls: 0 }
    }

    /// The next message; `None` at the end.
    pub(crate) fn next(&mut self, bytes: usize) -> Option<&[u8]> {
        if self.keeps_borders {
            (self.start, self.filled) = (0, 0);
        }
        while self.filled - self.start < bytes {
            if self.start + bytes > self.buffer.len() {
                self.buffer.copy_within(self.start..self.filled, 0);
                self.filled -= self.start;
                self.start = 0;
            }
            self.kernel_calls += 1;
            match read(&self.end, &mut self.buffer[self.filled..]).unwrap() {
                0 => return None,
                got => self.filled += got,
            }
        }
        self.start += bytes;
        Some(&self.buffer[self.start - bytes..self.start])
    }
}
