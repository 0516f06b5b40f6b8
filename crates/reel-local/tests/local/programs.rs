//! A program's client, beside a server that does not read its socket for a while.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_arena::{Arena, ArenaConfig};
use reel_client::{Client, ClientError, Heard, OpenedStream, Reply, Request, Wanted, hear, listen, say};
use reel_local::{ArenaMap, MappedOutlet};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::accept;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the test server has for every client: one stream without any messages.
struct Server {
    listener: OwnedFd,
    arena: ArenaMap,
    outlet: MappedOutlet,
}

impl Server {
    fn new() -> (tempfile::TempDir, PathBuf, Server) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("programs");
        let listener = listen(&path).unwrap();
        let shape =
            ArenaConfig { buffer_bytes: 1 << 16, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
        let arena = ArenaMap::new(Arena::readable_by_others(shape).unwrap()).expect("a memfd");
        (directory, path, Server { listener, arena, outlet: MappedOutlet::new().unwrap() })
    }

    /// Answers all requests to open streams, with so many of the three descriptors, until `count`
    /// streams were requested. Then it reads nothing until it is told that the program has
    /// finished, or until it has waited for long enough. Returns the names of the streams that were
    /// closed.
    fn serve(self, count: usize, descriptors: usize, through: Receiver<()>) -> JoinHandle<Vec<u64>> {
        std::thread::spawn(move || {
            let socket = accept(&self.listener).unwrap();
            let (mut asked, mut closed) = (0, Vec::new());
            loop {
                match hear(&socket).unwrap() {
                    Heard::Nothing => {
                        poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).unwrap();
                        continue;
                    }
                    Heard::Gone => return closed,
                    Heard::Message(message, _) => match Request::decode(&message).unwrap() {
                        Request::Open { tag, .. } => {
                            asked += 1;
                            self.give(&socket, tag, descriptors);
                        }
                        Request::Close { tag } => {
                            closed.push(tag);
                            continue;
                        }
                        Request::Bell
                        | Request::Change { .. }
                        | Request::Resize { .. }
                        | Request::OpenInStep(_)
                        | Request::Pour(_) => continue,
                    },
                }
                if asked == count {
                    let _ = through.recv_timeout(Duration::from_millis(500));
                }
            }
        })
    }

    fn give(&self, socket: &OwnedFd, tag: u64, descriptors: usize) {
        let (producer, consumer) = (self.outlet.producer_memory(), self.outlet.consumer_memory());
        let opened = OpenedStream {
            tag,
            file_bytes: 1,
            arena_bytes: self.arena.bytes(),
            producer_bytes: producer.bytes() as u64,
            consumer_bytes: consumer.bytes() as u64,
        };
        let all = [self.arena.fd().unwrap(), producer.fd(), consumer.fd()];
        assert!(say(socket.as_fd(), &Reply::Opened(opened).encode(), &all[..descriptors]).unwrap());
    }
}

fn wanted(title: &str) -> Wanted {
    Wanted { title: title.to_owned(), ..Wanted::default() }
}

#[test]
fn every_stream_is_closed_although_the_server_has_many_messages_to_read() {
    // More closes than fit into a socket by default.
    const STREAMS: usize = 1_000;
    let (_directory, path, server) = Server::new();
    let (is_through, through) = channel();
    let server = server.serve(STREAMS, 3, through);
    let mut client = Client::connect(&path).unwrap();
    let names: Vec<u64> =
        client.open(&vec![wanted("film"); STREAMS]).unwrap().into_iter().map(Result::unwrap).collect();
    client.close(&names).unwrap();
    let _ = is_through.send(());
    drop(client);
    assert_eq!(server.join().unwrap(), names);
}

#[test]
fn a_stream_that_cannot_be_requested_does_not_end_the_others() {
    let (_directory, path, server) = Server::new();
    let (_is_through, through) = channel();
    let server = server.serve(2, 3, through);
    let mut client = Client::connect(&path).unwrap();
    let opened = client.open(&[wanted("film"), wanted(&"x".repeat(5_000)), wanted("film")]).unwrap();
    let [Ok(first), Err(ClientError::Wire(_)), Ok(last)] = opened[..] else { panic!("{opened:?}") };
    assert!(client.state(&[first, last]).iter().all(Option::is_some));
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_stream_whose_memory_cannot_be_mapped_is_closed() {
    let (_directory, path, server) = Server::new();
    let (_is_through, through) = channel();
    let server = server.serve(1, 1, through);
    let mut client = Client::connect(&path).unwrap();
    let opened = client.open(&[wanted("film")]).unwrap();
    assert!(matches!(opened[..], [Err(ClientError::NoStream(_))]), "{opened:?}");
    drop(client);
    assert_eq!(server.join().unwrap().len(), 1, "only the client could close it");
}
