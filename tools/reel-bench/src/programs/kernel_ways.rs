//! Programs that are joined by a pipe or a Unix socket, each used as efficiently as it can be.
//!
//! An end is found by its name in a directory, so that any two programs can have one. What one
//! writer writes to several readers is written several times: no such way copies for it.

use super::program::{Ends, Input, Output, Words};
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use rustix::io::{Errno, read, write};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
    sockopt,
};
use rustix::pipe::fcntl_setpipe_size;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelWay {
    Pipe,
    Stream,
    Seqpacket,
}

/// Bytes that a pipe or socket is asked to hold.
const ROOM_BYTES: usize = 1 << 20;
/// What a reader takes at once where messages have no borders: it should stay in the caches.
const PIECE_BYTES: usize = 128 << 10;
/// Longest wait for the other programs.
const BEGIN_MAX: Duration = Duration::from_secs(60);

/// Opens the ends of a program. Each waits until its other end is open.
pub(super) fn open_ends(way: KernelWay, place: &Path, words: &Words) -> Result<Ends> {
    let mut ends = Ends::default();
    // Readers listen before any of them waits for its writer.
    let mut waiting = Vec::new();
    for name in &words.inputs {
        waiting.push(Waiting::new(way, place.join(name))?);
    }
    for waiting in waiting {
        let (end, bytes) = (waiting.accept()?, words.bytes);
        ends.inputs.push(Box::new(Reader::new(end, way == KernelWay::Seqpacket, bytes)));
    }
    for name in &words.outputs {
        for path in writer_paths(place, name, words.readers) {
            let end = await_end(|| writing_end(way, &path))?;
            ends.outputs.push(Box::new(Writer { end: Some(end) }));
        }
    }
    Ok(ends)
}

/// A stream has an end of its own for each reader: `NAME-0` and so on.
fn writer_paths(place: &Path, name: &str, readers: usize) -> impl Iterator<Item = PathBuf> {
    (0..readers).map(move |reader| place.join(format!("{name}-{reader}")))
}

/// An end that was made, and that no program writes to yet.
enum Waiting {
    Pipe(PathBuf),
    Socket(OwnedFd),
}

impl Waiting {
    fn new(way: KernelWay, path: PathBuf) -> Result<Waiting> {
        let Some(kind) = kind(way) else {
            mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR)?;
            return Ok(Waiting::Pipe(path));
        };
        let listener = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        bind(&listener, &SocketAddrUnix::new(&path)?)?;
        listen(&listener, 1)?;
        Ok(Waiting::Socket(listener))
    }

    fn accept(self) -> Result<OwnedFd> {
        match self {
            Waiting::Pipe(path) => {
                let end = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
                fcntl_setpipe_size(&end, ROOM_BYTES)?;
                Ok(end)
            }
            Waiting::Socket(listener) => Ok(accept_with(&listener, SocketFlags::CLOEXEC)?),
        }
    }
}

fn kind(way: KernelWay) -> Option<SocketType> {
    match way {
        KernelWay::Pipe => None,
        KernelWay::Stream => Some(SocketType::STREAM),
        KernelWay::Seqpacket => Some(SocketType::SEQPACKET),
    }
}

fn writing_end(way: KernelWay, path: &Path) -> rustix::io::Result<OwnedFd> {
    let Some(kind) = kind(way) else {
        return open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    };
    let end = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    connect(&end, &SocketAddrUnix::new(path)?)?;
    // The kernel refuses more than the machine allows; then the buffer has that size.
    let _ = sockopt::set_socket_send_buffer_size_force(&end, ROOM_BYTES)
        .or_else(|_| sockopt::set_socket_send_buffer_size(&end, ROOM_BYTES));
    Ok(end)
}

/// Tries until the reader has made its end.
fn await_end(open: impl Fn() -> rustix::io::Result<OwnedFd>) -> Result<OwnedFd> {
    let begun = Instant::now();
    loop {
        match open() {
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN) if begun.elapsed() < BEGIN_MAX => {
                sleep(Duration::from_millis(1));
            }
            opened => return opened.context("the other end of a way"),
        }
    }
}

struct Writer {
    end: Option<OwnedFd>,
}

impl Output for Writer {
    fn put(&mut self, message: &[u8]) -> Result<()> {
        let end = self.end.as_ref().context("the end was closed")?;
        let mut rest = message;
        while !rest.is_empty() {
            rest = &rest[write(end, rest)?..];
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.end = None;
        Ok(())
    }
}

/// The reading end. Where messages have no borders, one call takes many.
struct Reader {
    end: OwnedFd,
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    keeps_borders: bool,
    bytes: usize,
}

impl Reader {
    fn new(end: OwnedFd, keeps_borders: bool, bytes: usize) -> Reader {
        let room = if keeps_borders { bytes } else { bytes.max(PIECE_BYTES) };
        Reader { end, buffer: vec![0; room], start: 0, filled: 0, keeps_borders, bytes }
    }
}

impl Input for Reader {
    fn next(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if self.keeps_borders {
            (self.start, self.filled) = (0, 0);
        }
        while self.filled - self.start < self.bytes {
            if self.start + self.bytes > self.buffer.len() {
                self.buffer.copy_within(self.start..self.filled, 0);
                (self.start, self.filled) = (0, self.filled - self.start);
            }
            match read(&self.end, &mut self.buffer[self.filled..])? {
                0 if self.start == self.filled => return Ok(false),
                0 => bail!("the stream ended within a message"),
                got => self.filled += got,
            }
        }
        take(&self.buffer[self.start..self.start + self.bytes]);
        self.start += self.bytes;
        ensure!(self.start <= self.filled, "more was taken than had come");
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn words(text: &str) -> Words {
        Words::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    /// What one writer hands to two readers, by each way.
    #[test]
    fn messages_come_whole_and_in_order_by_each_way() {
        for way in [KernelWay::Pipe, KernelWay::Stream, KernelWay::Seqpacket] {
            let place = std::env::temp_dir().join(format!("reel-ways-{}-{way:?}", std::process::id()));
            std::fs::create_dir_all(&place).unwrap();
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let (place, words) = (place.clone(), words(&format!("read 3 0 0 a-{reader} - 1")));
                    thread::spawn(move || {
                        let mut ends = open_ends(way, &place, &words).unwrap();
                        let mut all = Vec::new();
                        while ends.inputs[0].next(&mut |message| all.push(message.to_vec())).unwrap() {}
                        all
                    })
                })
                .collect();
            let mut ends = open_ends(way, &place, &words("write 3 0 0 - a 2")).unwrap();
            for message in [b"abc", b"def", b"ghi"] {
                ends.outputs.iter_mut().for_each(|output| output.put(message).unwrap());
            }
            ends.outputs.iter_mut().for_each(|output| output.end().unwrap());
            for reader in readers {
                assert_eq!(reader.join().unwrap(), [b"abc", b"def", b"ghi"], "{way:?}");
            }
            std::fs::remove_dir_all(&place).unwrap();
        }
    }
}
