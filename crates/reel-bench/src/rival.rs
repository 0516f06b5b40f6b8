//! nginx, set up as its experts would for large files.

use crate::server::{Server, free_address};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// How nginx reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// `sendfile on`: the worker waits for the disk.
    Sendfile,
    /// `sendfile on; aio threads`: a pool waits for the disk.
    Threads,
}

/// Starts nginx over the files of `root`, with its own files in `run`.
pub(crate) fn nginx(root: &Path, run: &Path, workers: usize, reading: Reading) -> Result<Server> {
    let address = free_address()?;
    fs::create_dir_all(run)?;
    let run = fs::canonicalize(run)?;
    let root = fs::canonicalize(root)?;
    let aio = match reading {
        Reading::Sendfile => "",
        Reading::Threads => "aio threads;",
    };
    let (run, root) = (run.display(), root.display());
    let text = format!(
        "daemon off; worker_processes {workers}; pid {run}/nginx.pid; error_log {run}/error.log; user root;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; sendfile on; {aio} sendfile_max_chunk 1m; tcp_nopush on; tcp_nodelay on;\n\
         client_body_temp_path {run}/body; proxy_temp_path {run}/proxy; fastcgi_temp_path {run}/fastcgi;\n\
         uwsgi_temp_path {run}/uwsgi; scgi_temp_path {run}/scgi; open_file_cache max=16;\n\
         server {{ listen {address}; root {root}; }} }}\n"
    );
    let config = format!("{run}/nginx.conf");
    fs::write(&config, text).with_context(|| format!("writing {config}"))?;
    let mut command = Command::new("nginx");
    command.args(["-e", &format!("{run}/error.log"), "-c", &config]);
    Server::start(command, address).context("is nginx installed? (apt install nginx-light)")
}
