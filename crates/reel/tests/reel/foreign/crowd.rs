//! A thousand connections, most of them so slow that they never end, and a hundred players beside
//! them.

use crate::foreign::films::{FILMS, Film};
use crate::foreign::rig::{cache_dir, outcome, start_as_usual, volume};
use reel_compare::Server;
use reel_testkit::run_in_own_process;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

const SLOW: usize = 900;
const PLAYERS: usize = 100;

/// Files that the process may have open: the sockets, and what it has beside them.
const FILES: u64 = (SLOW + PLAYERS + 500) as u64;

/// In a process of its own, which has as many files as it needs.
#[test]
fn slow_readers_do_not_disturb_players() {
    // Films are made by one process, and kept.
    longer().path();
    run_in_own_process("foreign::crowd::a_crowd");
}

fn longer() -> &'static Film {
    FILMS.iter().find(|film| film.file == "longer.mp4").unwrap()
}

#[test]
#[ignore = "child of slow_readers_do_not_disturb_players"]
fn a_crowd() {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.map(|files| files.max(FILES));
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("a thousand sockets");
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let film = longer();
    let server = start_as_usual(&volume(dir.path(), &[film.path()]), &[]);
    let url = crate::foreign::curl::effective_url(&format!("{}/watch/{1}/{1}.mp4", server.url, film.id()));
    let path = url.strip_prefix(&server.url).unwrap().to_owned();
    let whole = outcome(Command::new("curl").args(["--silent", "--fail", &url])).stdout;
    let (done, all_done) = channel();
    let (served, all_served) = channel();
    let slow = {
        let (address, path) = (server.address.clone(), path.clone());
        thread::spawn(move || read_slowly(&address, &path, &served, &all_done))
    };
    // Each of the slow ones is being answered.
    assert_eq!(all_served.recv(), Ok(SLOW));
    let players: Vec<_> = (0..PLAYERS)
        .map(|_| {
            let (address, path) = (server.address.clone(), path.clone());
            thread::Builder::new().stack_size(256 << 10).spawn(move || read_whole(&address, &path)).unwrap()
        })
        .collect();
    for player in players {
        assert!(player.join().unwrap() == whole, "a player got other bytes");
    }
    let resident = memory_bytes(server.pid());
    let arena = arena_bytes(&server);
    done.send(()).unwrap();
    assert_eq!(slow.join().unwrap(), SLOW, "slow connections that were still open at the end");
    assert!(resident <= arena + (200 << 20), "{resident} bytes resident with an arena of {arena}");
}

/// Opens the slow connections and reads one byte a second from each; how many lasted until `done`.
/// Tells how many got their first.
fn read_slowly(address: &str, path: &str, served: &Sender<usize>, done: &Receiver<()>) -> usize {
    let mut sockets: Vec<_> = (0..SLOW).map(|_| request(address, path)).collect();
    loop {
        sockets.retain_mut(|socket| socket.read_exact(&mut [0]).is_ok());
        // No reader waits for it after the first time.
        let _ = served.send(sockets.len());
        if done.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
            return sockets.len();
        }
    }
}

fn read_whole(address: &str, path: &str) -> Vec<u8> {
    let mut socket = request(address, path);
    let mut all = Vec::new();
    socket.read_to_end(&mut all).unwrap();
    let body = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    all.split_off(body)
}

/// At the socket: the client of reel-testkit would read ahead for the slow ones.
fn request(address: &str, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    socket
}

/// Anonymous and shared memory of a process, from its status.
fn memory_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn arena_bytes(server: &Server) -> u64 {
    let metrics = crate::foreign::curl::get(&format!("{}/metrics", server.url));
    let line = metrics.lines().find(|line| line.starts_with("reel_arena_size_bytes "));
    line.expect("the arena's size in the metrics").split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()
        as u64
}
