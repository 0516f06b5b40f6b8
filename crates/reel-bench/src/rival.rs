//! nginx: as its experts would set it up for large files, and as Debian ships it.

use crate::server::{Server, free_address};
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// How nginx reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Debian's `nginx.conf`: sendfile, everything else at its default.
    Shipped,
    /// `sendfile on`: the worker waits for the disk.
    Sendfile,
    /// `sendfile on; aio threads`: a pool waits for the disk.
    Threads,
    /// `directio; aio threads`: past the page cache, in pieces of 1 MiB.
    Direct,
}

impl Reading {
    /// What an expert would try.
    pub(crate) const EXPERT: [Self; 3] = [Self::Sendfile, Self::Threads, Self::Direct];

    fn directives(self) -> &'static str {
        match self {
            Self::Shipped => "sendfile on; tcp_nopush on;",
            Self::Sendfile => {
                "sendfile on; sendfile_max_chunk 1m; tcp_nopush on; tcp_nodelay on; open_file_cache max=1024;"
            }
            Self::Threads => {
                "sendfile on; aio threads; sendfile_max_chunk 1m; tcp_nopush on; tcp_nodelay on; open_file_cache max=1024;"
            }
            Self::Direct => {
                "sendfile off; aio threads; directio 512; output_buffers 2 1m; tcp_nodelay on; open_file_cache max=1024;"
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
    fs::create_dir_all(run)?;
    let run = fs::canonicalize(run)?;
    let root = fs::canonicalize(root)?;
    let (run, root, directives) = (run.display(), root.display(), reading.directives());
    let text = format!(
        "daemon off; worker_processes {workers}; pid {run}/nginx.pid; error_log {run}/error.log; user root;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; types {{ video/mp4 mp4; application/vnd.apple.mpegurl m3u8; }}\n\
         {directives}\n\
         client_body_temp_path {run}/body; proxy_temp_path {run}/proxy; fastcgi_temp_path {run}/fastcgi;\n\
         uwsgi_temp_path {run}/uwsgi; scgi_temp_path {run}/scgi;\n\
         server {{ listen {address}; root {root}; }} }}\n"
    );
    let config = format!("{run}/nginx.conf");
    fs::write(&config, text).with_context(|| format!("writing {config}"))?;
    let mut command = Command::new("nginx");
    command.args(["-e", &format!("{run}/error.log"), "-c", &config]);
    Server::start(command, address).context("is nginx installed? (apt install nginx-light)")
}
