//! nginx: as its experts would set it up for large files, and as Debian ships it.

use crate::server::{Server, free_address};
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How nginx reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Debian's `nginx.conf`: sendfile, everything else at its default.
    Shipped,
    /// `sendfile on`: the worker waits for the disk.
    Sendfile,
    /// `sendfile on; aio threads`: a pool waits for the disk.
    Threads,
    /// `sendfile off`, large buffers: what TLS makes of sendfile, without its small reads.
    Buffers,
    /// The same with `aio threads`.
    BufferThreads,
    /// `directio; aio threads`: past the page cache, in pieces of 1 MiB.
    Direct,
}

impl Reading {
    /// What an expert would try where every byte is sealed, so that nothing can be sent straight from a file. Without `directio`: with it,
    /// nginx 1.22 breaks off ranges that do not begin at a block (pread: invalid argument), and took more time where it did not.
    pub(crate) const EXPERT_TLS: [Self; 3] = [Self::Sendfile, Self::Buffers, Self::BufferThreads];

    /// What an expert would try.
    pub(crate) const EXPERT: [Self; 3] = [Self::Sendfile, Self::Threads, Self::Direct];

    fn directives(self) -> &'static str {
        match self {
            Self::Shipped => "sendfile on; tcp_nopush on;",
            Self::Sendfile => {
                "sendfile on; sendfile_max_chunk 1m; tcp_nopush on; tcp_nodelay on; open_file_cache max=4096;"
            }
            Self::Threads => {
                "sendfile on; aio threads; sendfile_max_chunk 1m; tcp_nopush on; tcp_nodelay on; open_file_cache max=4096;"
            }
            Self::Buffers => "sendfile off; output_buffers 2 512k; tcp_nodelay on; open_file_cache max=4096;",
            Self::BufferThreads => {
                "sendfile off; aio threads; output_buffers 2 512k; tcp_nodelay on; open_file_cache max=4096;"
            }
            Self::Direct => {
                "sendfile off; aio threads; directio 512; output_buffers 2 1m; tcp_nodelay on; open_file_cache max=4096;"
            }
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Shipped => "sendfile as shipped",
            Self::Sendfile => "sendfile",
            Self::Threads => "sendfile with aio threads",
            Self::Buffers => "large buffers",
            Self::BufferThreads => "large buffers with aio threads",
            Self::Direct => "directio with aio threads",
        })
    }
}

/// Starts nginx over the files of `root`, with its own files in `run`.
pub(crate) fn nginx(root: &Path, run: &Path, workers: usize, reading: Reading) -> Result<Server> {
    nginx_at(free_address()?, root, run, workers, reading)
}

/// The same at a given address.
pub(crate) fn nginx_at(
    address: SocketAddr,
    root: &Path,
    run: &Path,
    workers: usize,
    reading: Reading,
) -> Result<Server> {
    nginx_with(address, root, run, workers, reading, None)
}

/// The same over TLS 1.3, if there are a certificate and a key.
pub(crate) fn nginx_with(
    address: SocketAddr,
    root: &Path,
    run: &Path,
    workers: usize,
    reading: Reading,
    tls: Option<(&Path, &Path)>,
) -> Result<Server> {
    fs::create_dir_all(run)?;
    let run = fs::canonicalize(run)?;
    let root = fs::canonicalize(root)?;
    let (run, root, directives) = (run.display(), root.display(), reading.directives());
    let ssl = match tls {
        None => String::new(),
        Some((certificate, key)) => format!(
            " ssl; ssl_protocols TLSv1.3; ssl_certificate {}; ssl_certificate_key {}",
            fs::canonicalize(certificate)?.display(),
            fs::canonicalize(key)?.display()
        ),
    };
    let text = format!(
        "daemon off; worker_processes {workers}; pid {run}/nginx.pid; error_log {run}/error.log; user root;\n\
         worker_rlimit_nofile 16384; events {{ worker_connections 8192; }}\n\
         http {{ access_log off; types {{ video/mp4 mp4; application/vnd.apple.mpegurl m3u8; }}\n\
         {directives}\n\
         client_body_temp_path {run}/body; proxy_temp_path {run}/proxy; fastcgi_temp_path {run}/fastcgi;\n\
         uwsgi_temp_path {run}/uwsgi; scgi_temp_path {run}/scgi;\n\
         server {{ listen {address}{ssl}; root {root}; }} }}\n"
    );
    let config = format!("{run}/nginx.conf");
    fs::write(&config, text).with_context(|| format!("writing {config}"))?;
    let mut command = Command::new("nginx");
    command.args(["-e", &format!("{run}/error.log"), "-c", &config]);
    let server = Server::start(command, address).context("is nginx installed? (apt install nginx-light)")?;
    // It listens before it has its workers, whose time is measured.
    let started = Instant::now();
    while server.processes()?.len() <= workers && started.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(5));
    }
    Ok(server)
}
