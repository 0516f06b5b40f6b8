//! A client that is stopped in the middle of a read.

use super::libnfs::is_missing;
use super::{Client, options, rig};
use crate::server::rig::narrow;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where a read of 1 MiB is cut. All else that is answered before is much shorter.
const MIDDLE_BYTES: usize = 400_000;
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where a client connects instead of to the server: all bytes are passed on. In the middle of the
/// first read it says so, and passes nothing on until it is told to.
struct Held {
    address: SocketAddr,
    is_in_the_middle: Receiver<()>,
    go_on: Sender<()>,
}

impl Held {
    fn before(server: SocketAddr) -> Held {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let (say, is_in_the_middle) = channel();
        let (go_on, may_go_on) = channel();
        // Of the first connection that gets there.
        let hold = Arc::new(Mutex::new(Some((say, may_go_on))));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                // Ends with the test.
                let Ok(client) = client else { return };
                let (server, hold) = (narrow(server), Arc::clone(&hold));
                let (from_client, to_server) = (client.try_clone(), server.try_clone());
                std::thread::spawn(move || {
                    pass(from_client.expect("cloned"), to_server.expect("cloned"), |_| {})
                });
                std::thread::spawn(move || {
                    pass(server, client, |passed| {
                        let held = (passed >= MIDDLE_BYTES).then(|| hold.lock().expect("no panic").take());
                        if let Some((say, may_go_on)) = held.flatten() {
                            let _ = say.send(());
                            let _ = may_go_on.recv();
                        }
                    });
                });
            }
        });
        Held { address, is_in_the_middle, go_on }
    }
}

/// Passes bytes on until one side ends. `before` each piece it is asked with how many were passed.
fn pass(mut from: TcpStream, mut to: TcpStream, before: impl Fn(usize)) {
    let (mut bytes, mut passed) = ([0; 4096], 0);
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        before(passed);
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
        passed += read;
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Stops a process, and returns when it has stopped.
fn stop(child: &Child) {
    kill_process(Pid::from_child(child), Signal::STOP).expect("sent");
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it is there");
    let from = Instant::now();
    while !state().rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')) {
        assert!(from.elapsed() < PATIENCE, "{}", state());
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_client_that_is_stopped_in_the_middle_of_a_read_continues_and_others_read_meanwhile() {
    if is_missing() {
        return;
    }
    for directory in ["copy", "play"] {
        let (rig, address) = rig(|_| {});
        let held = Held::before(address);
        let url = format!("nfs://127.0.0.1/{directory}/film.mp4{}", options(held.address));
        let mut child = Command::new("nfs-cat").arg(url).stdout(Stdio::piped()).spawn().expect("it runs");
        held.is_in_the_middle.recv_timeout(PATIENCE).expect("it reads");
        stop(&child);
        let mut other = Client::connect(address);
        let (file, bytes) = other.film_in(&format!("/{directory}"));
        assert!(other.read_until(&file, Vec::new(), bytes) == rig.film, "while the rest is not taken");
        // Now the rest is sent to a client that takes nothing, as far as its system takes it.
        held.go_on.send(()).expect("it is held");
        assert!(other.read_until(&file, Vec::new(), bytes) == rig.film, "beside the client that is stopped");
        kill_process(Pid::from_child(&child), Signal::CONT).expect("sent");
        let mut film = Vec::new();
        child.stdout.take().expect("a pipe").read_to_end(&mut film).expect("all of it");
        assert!(child.wait().expect("it ends").success());
        assert!(film == rig.film, "{} bytes of {} in {directory}", film.len(), rig.film.len());
        assert_eq!(rig.metric("reel_nfs_failed_reads_total"), 0.0);
    }
}
