//! How the server ends: SIGTERM, and what becomes of its connections, its port and its process.

use super::cable::{Who, http, https};
use super::site::Site;
use super::sockets::connect;
use crate::server::Server;
use anyhow::{Context, Result};
use reel_testkit::http::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Connections of each kind that are open when the server is told to end.
const EACH: usize = 10;
/// Longer than an end may take: what has not happened by then counts as never.
const WATCHED: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(20);
/// Reads of a connection at each look: all that its buffer holds, or its end would be seen late.
const READS_MAX: usize = 128;

/// When things were over, in seconds after SIGTERM; infinite if never.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) connections: usize,
    pub(super) closed_s: f64,
    pub(super) ports_free_s: f64,
    /// Exit was called: the process is gone, or only the kernel keeps it.
    pub(super) exit_s: f64,
    /// Whether the kernel kept it.
    pub(super) is_kept: bool,
}

/// Ends the server with connections of all kinds open, and watches.
pub(super) fn end(site: &Site, server: &Server) -> Result<Ended> {
    let pid = server.processes()?.first().copied().context("a server is a process")?;
    let mut held = site.cable.far.inside(held)?;
    let connections = held.len();
    let term = Pid::from_raw(i32::try_from(pid)?).context("not the number of a process")?;
    kill_process(term, Signal::TERM).context("ending the server")?;
    let begun = Instant::now();
    let [mut closed_s, mut ports_free_s, mut exit_s] = [f64::INFINITY; 3];
    let mut is_kept = false;
    while begun.elapsed() < WATCHED && !(closed_s + ports_free_s + exit_s).is_finite() {
        held.retain_mut(is_open);
        let now_s = begun.elapsed().as_secs_f64();
        if held.is_empty() {
            closed_s = closed_s.min(now_s);
        }
        if ports_free_s.is_infinite() && site.cable.near.inside(|| Ok(are_free()))? {
            ports_free_s = now_s;
        }
        if exit_s.is_infinite() && has_exited(pid) {
            exit_s = now_s;
            is_kept = has_threads(pid);
        }
        sleep(LOOK);
    }
    Ok(Ended { connections, closed_s, ports_free_s, exit_s, is_kept })
}

/// Connections that wait for a request, in the middle of a head, in the middle of an upload, in a
/// handshake, and in a download that is not read.
fn held() -> Result<Vec<TcpStream>> {
    let host = http();
    let begin = |to: SocketAddr, text: String| -> Result<TcpStream> {
        let mut stream = connect(Who::Watcher.address(2), to, WATCHED)?;
        stream.write_all(text.as_bytes())?;
        Ok(stream)
    };
    let mut held = Vec::new();
    for _ in 0..EACH {
        let mut idle = Client::on(connect(Who::Watcher.address(3), host, WATCHED)?);
        idle.request("GET /healthz HTTP/1.1", &format!("Host: {host}\r\n"))?;
        let head = idle.head()?;
        idle.body(&head)?;
        held.push(idle.stream().try_clone()?);
        held.push(begin(host, format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-"))?);
        held.push(begin(https(), String::new())?);
        held.push(begin(host, format!("GET /files/film-000.mp4 HTTP/1.1\r\nHost: {host}\r\n\r\n"))?);
    }
    held.push(begin(
        host,
        format!(
            "POST /api/v1/titles?filename=end.mp4 HTTP/1.1\r\nHost: {host}\r\n\
             Content-Type: video/mp4\r\nContent-Length: 1000000\r\n\r\n..."
        ),
    )?);
    held.iter().try_for_each(|stream| stream.set_nonblocking(true))?;
    Ok(held)
}

/// Takes what has come; whether the connection is still open.
fn is_open(stream: &mut TcpStream) -> bool {
    for _ in 0..READS_MAX {
        match stream.read(&mut [0; 64 << 10]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
    true
}

/// Whether another server could listen.
fn are_free() -> bool {
    [http(), https()].into_iter().all(|address| TcpListener::bind(address).is_ok())
}

/// Whether the process has called exit: it stays as long as the kernel holds a thread of it.
fn has_exited(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')),
        Err(_) => true,
    }
}

/// Whether threads are left beside the first.
fn has_threads(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() > 1)
}
