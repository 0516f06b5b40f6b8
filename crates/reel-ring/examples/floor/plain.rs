//! A thread for each connection, with plain system calls.

use crate::Reported;
use crate::http::{Files, Request, head};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::{mem, thread};

const BUFFER_BYTES: usize = 256 << 10;
/// Buffers of a connection that sends without a copy: what may be sent and not acknowledged.
const BUFFERS: usize = 8;

/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED` (errqueue.h).
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// How a file is sent.
#[derive(Clone, Copy)]
pub(crate) enum SendMethod {
    Sendfile,
    Write,
    ZeroCopy,
}

impl SendMethod {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "sendfile" => Some(Self::Sendfile),
            "write" => Some(Self::Write),
            "zerocopy" => Some(Self::ZeroCopy),
            _ => None,
        }
    }
}

pub(crate) fn serve(
    listener: &TcpListener,
    root: &Path,
    way: SendMethod,
    reported: &Reported,
) -> io::Result<()> {
    thread::scope(|scope| {
        loop {
            let (stream, _) = listener.accept()?;
            scope.spawn(move || {
                // A failure ends only this connection.
                let _ = Connection::new(stream, way, reported).and_then(|connection| connection.run(root));
            });
        }
    })
}

struct Connection<'a> {
    stream: TcpStream,
    way: SendMethod,
    reported: &'a Reported,
    buffers: Vec<Vec<u8>>,
    /// Zero-copy sends that were begun, and those that were reported.
    sent: u32,
    done: u32,
}

impl<'a> Connection<'a> {
    fn new(stream: TcpStream, way: SendMethod, reported: &'a Reported) -> io::Result<Self> {
        let one: libc::c_int = 1;
        let count = match way {
            SendMethod::Sendfile => 0,
            SendMethod::Write => 1,
            SendMethod::ZeroCopy => BUFFERS,
        };
        if count > 1 {
            // SAFETY: the option's value is an int that outlives the call.
            let set = unsafe {
                libc::setsockopt(
                    stream.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_ZEROCOPY,
                    (&raw const one).cast(),
                    size_of_val(&one) as libc::socklen_t,
                )
            };
            if set != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let buffers = (0..count).map(|_| vec![0; BUFFER_BYTES]).collect();
        Ok(Self { stream, way, reported, buffers, sent: 0, done: 0 })
    }

    fn run(mut self, root: &Path) -> io::Result<()> {
        let mut files = Files::new(root, 0);
        let mut asked = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return self.settle(0);
            }
            asked.extend_from_slice(&piece[..count]);
            let Some(request) = Request::read(&asked) else { continue };
            asked.clear();
            if request.path == "/report" {
                let (free, copied) = (&self.reported.without_copy, &self.reported.copied);
                let text = format!("{} {}", free.load(Ordering::Relaxed), copied.load(Ordering::Relaxed));
                write!(self.stream, "{}{text}", head(&request, text.len() as u64))?;
                continue;
            }
            let (file, range) = files.find(&request)?;
            self.more(head(&request, range.end - range.start).as_bytes())?;
            self.file(&file, range)?;
        }
    }

    /// Sends bytes that more bytes will follow.
    fn more(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the bytes live until the call returns.
        let sent = unsafe {
            libc::send(self.stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_MORE)
        };
        if sent == bytes.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn file(&mut self, file: &File, range: Range<u64>) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let count = (range.end - at).min(BUFFER_BYTES as u64) as usize;
            at += match self.way {
                SendMethod::Sendfile => {
                    let mut from = at as libc::off_t;
                    // SAFETY: both descriptors are open and the offset outlives the call.
                    let sent = unsafe {
                        libc::sendfile(self.stream.as_raw_fd(), file.as_raw_fd(), &mut from, count)
                    };
                    u64::try_from(sent).map_err(|_| io::Error::last_os_error())?
                }
                SendMethod::Write => {
                    file.read_exact_at(&mut self.buffers[0][..count], at)?;
                    self.stream.write_all(&self.buffers[0][..count])?;
                    count as u64
                }
                SendMethod::ZeroCopy => {
                    // The oldest send's buffer: its send must be reported before the buffer is
                    // written again.
                    self.settle(BUFFERS as u32 - 1)?;
                    let buffer = self.sent as usize % BUFFERS;
                    file.read_exact_at(&mut self.buffers[buffer][..count], at)?;
                    self.send_without_copy(buffer, count)?;
                    count as u64
                }
            };
        }
        Ok(())
    }

    fn send_without_copy(&mut self, buffer: usize, count: usize) -> io::Result<()> {
        let mut from = 0;
        while from < count {
            let bytes = &self.buffers[buffer][from..count];
            let fd = self.stream.as_raw_fd();
            // SAFETY: the kernel reads the buffer until it reports the send; `settle` waits for
            // that before the buffer is written again, and before the connection and its buffers
            // are freed.
            let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_ZEROCOPY) };
            let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
            from += sent;
            if from < count {
                // Each call is reported by a number of its own, and a buffer has only one.
                return Err(io::Error::other("the kernel sent only a part"));
            }
            self.sent += 1;
        }
        Ok(())
    }

    /// Waits until no more than `left` sends are unreported.
    fn settle(&mut self, left: u32) -> io::Result<()> {
        while self.sent - self.done > left {
            let mut waits = libc::pollfd { fd: self.stream.as_raw_fd(), events: 0, revents: 0 };
            // SAFETY: one pollfd on the stack of this function.
            if unsafe { libc::poll(&mut waits, 1, 30_000) } <= 0 {
                // The kernel may use the buffers for an unknown time, so they are never freed.
                mem::forget(mem::take(&mut self.buffers));
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.take_report()?;
        }
        Ok(())
    }

    fn take_report(&mut self) -> io::Result<()> {
        let mut control = [0_u64; 32];
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: the message points to memory that outlives the call.
        let got = unsafe { libc::recvmsg(self.stream.as_raw_fd(), &mut message, libc::MSG_ERRQUEUE) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel filled the message in.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(&message) };
        while !next.is_null() {
            // SAFETY: IP_RECVERR, the only kind that arrives here, carries a sock_extended_err,
            // which may be unaligned.
            let report = unsafe { libc::CMSG_DATA(next).cast::<libc::sock_extended_err>().read_unaligned() };
            if report.ee_origin == ORIGIN_ZEROCOPY {
                let count = report.ee_data.wrapping_sub(report.ee_info) + 1;
                self.done += count;
                let copied = report.ee_code & CODE_COPIED != 0;
                let counter = if copied { &self.reported.copied } else { &self.reported.without_copy };
                counter.fetch_add(u64::from(count), Ordering::Relaxed);
            }
            // SAFETY: `next` is a header of this message.
            next = unsafe { libc::CMSG_NXTHDR(&message, next) };
        }
        Ok(())
    }
}
