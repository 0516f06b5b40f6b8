//! The simplest way to send a file: a thread for each client that reads a piece and writes it,
//! through the page cache. Told to, it writes the pieces into another file instead.
//!
//! A process of its own, so that it is measured and bounded like any server. It knows as much of
//! HTTP as the receivers of an experiment say.

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::path::{Component, Path, PathBuf};
use std::thread;

/// How it is started.
#[derive(clap::Args)]
pub(crate) struct PumpArguments {
    /// The address to listen on.
    listen: SocketAddr,
    /// Whose files are sent.
    root: PathBuf,
    /// Tell the kernel that files are read in order, which doubles its read-ahead.
    #[arg(long)]
    in_order: bool,
    /// Bytes read and written at once.
    #[arg(long, default_value_t = PIECE_BYTES)]
    piece_bytes: usize,
    /// Let the kernel forget what was read, so that a film that is read again is read from disks.
    #[arg(long)]
    drop_behind: bool,
    /// Write films below this directory, in place of sending them.
    #[arg(long)]
    into: Option<PathBuf>,
}

/// Bytes read and written at once: what `cat` takes.
const PIECE_BYTES: usize = 128 << 10;
/// How often the kernel is told to forget what was read.
const FORGOTTEN_BYTES: u64 = 8 << 20;
/// A head of a request that is longer is none of ours.
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// Serves until it is ended from outside.
pub(crate) fn pump(arguments: &PumpArguments) -> Result<()> {
    let listener = TcpListener::bind(arguments.listen).context("listening")?;
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let stream = stream?;
            // A client that goes away in the middle is none of ours.
            scope.spawn(move || drop(answer(&stream, arguments)));
        }
        Ok(())
    })
}

fn answer(mut stream: &TcpStream, arguments: &PumpArguments) -> Result<()> {
    let mut head = BufReader::new(stream.take(HEAD_BYTES_MAX));
    let mut line = String::new();
    head.read_line(&mut line)?;
    let path = line.split(' ').nth(1).context("no path")?.trim_start_matches('/').to_owned();
    while line.trim() != "" {
        line.clear();
        ensure!(head.read_line(&mut line)? > 0, "no end of the head");
    }
    let path = Path::new(&path);
    ensure!(
        path.components().all(|part| matches!(part, Component::Normal(_))),
        "a path that leads elsewhere"
    );
    let file = File::open(arguments.root.join(path))?;
    let bytes = file.metadata()?.len();
    match &arguments.into {
        None => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n")?;
            copy(arguments, &file, &mut stream)
        }
        Some(into) => {
            copy(arguments, &file, &mut File::create(into.join(path.file_name().context("no name")?))?)?;
            Ok(write!(stream, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")?)
        }
    }
}

/// The loop itself.
fn copy(arguments: &PumpArguments, mut file: &File, to: &mut impl Write) -> Result<()> {
    if arguments.in_order {
        fadvise(file, 0, None, Advice::Sequential)?;
    }
    let mut piece = vec![0; arguments.piece_bytes];
    let (mut read, mut forgotten) = (0, 0);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&piece[..count])?;
        read += count as u64;
        if arguments.drop_behind && read - forgotten >= FORGOTTEN_BYTES {
            fadvise(file, forgotten, NonZeroU64::new(read - forgotten), Advice::DontNeed)?;
            forgotten = read;
        }
    }
}
