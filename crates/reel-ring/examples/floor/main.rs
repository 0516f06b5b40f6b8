//! The least that any server must do: it only reads files and sends them, in the barest possible
//! loop. Experiments measure it beside real servers, to see how much of their cost is unavoidable.
//!
//! `floor ADDRESS DIRECTORY [MODE]`, where MODE is
//! - `ring` (default): io_uring, O_DIRECT reads into registered buffers, sends that copy;
//! - `ring-zc`: the same with zero-copy sends from the same buffers;
//! - `sendfile`, `write`, `zerocopy`: a thread for each connection, with sendfile(2), read(2) and
//!   write(2), or MSG_ZEROCOPY.
//!
//! It answers GET of files, whole or a range. It answers `GET /report` with what the kernel
//! reported about zero-copy sends, as `SENDS-WITHOUT-A-COPY SENDS-COPIED`. Any error ends the
//! connection.

mod http;
mod plain;
mod ring;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{env, io, thread};

/// What the kernel reported about zero-copy sends.
#[derive(Default)]
struct Reported {
    without_copy: AtomicU64,
    copied: AtomicU64,
}

fn main() -> io::Result<()> {
    let usage = || io::Error::other("floor ADDRESS DIRECTORY [ring|ring-zc|sendfile|write|zerocopy]");
    let mut words = env::args().skip(1);
    let address: SocketAddr = words.next().and_then(|word| word.parse().ok()).ok_or_else(usage)?;
    let root = PathBuf::from(words.next().ok_or_else(usage)?);
    let mode = words.next().unwrap_or_else(|| "ring".into());
    let listener = TcpListener::bind(address)?;
    let reported = Arc::new(Reported::default());
    let zero_copy = match mode.as_str() {
        "ring" => false,
        "ring-zc" => true,
        mode => {
            return plain::serve(
                &listener,
                &root,
                plain::SendMethod::named(mode).ok_or_else(usage)?,
                &reported,
            );
        }
    };
    let loops: Vec<_> = (0..thread::available_parallelism()?.get())
        .map(|_| {
            let (listener, root, reported) = (listener.try_clone(), root.clone(), reported.clone());
            thread::spawn(move || ring::serve(&listener?, &root, zero_copy, &reported))
        })
        .collect();
    for running in loops {
        running.join().map_err(|_| io::Error::other("a loop panicked"))??;
    }
    Ok(())
}
