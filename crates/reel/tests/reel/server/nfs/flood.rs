//! Clients that ask for more than they take, that are too many, or that leave.

use super::{Client, rig, serving};
use crate::server::casts::in_a_network;
use crate::server::misuse::promising_with;
use crate::server::nfs::playing::play;
use crate::server::rig::{Rig, narrow};
use nfs3_types::nfs3::{
    GETATTR3args, GETATTR3res, NFS_PROGRAM, Nfs3Result, PROGRAM, READ3res, READDIRPLUS3args, READDIRPLUS3res,
    cookieverf3, nfs_fh3,
};
use nfs3_types::xdr_codec::Unpack;
use reel_nfs::limits::{
    CONNECTIONS_MAX, OWED_BYTES_OF_BUSY_CONNECTION_MAX, OWED_BYTES_OF_CLIENT_MAX, READ_BYTES_MAX,
    REQUESTS_MAX,
};
use reel_serve::limits::LEAVING_MAX;
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Connections of the client that floods.
const FLOODS: usize = 8;
/// The length of the film.
const FILM: Duration = Duration::from_secs(3);
/// The client that floods takes so much in so long, of each connection.
const TAKEN_BYTES: usize = 64 << 10;
const TAKEN_EVERY: Duration = Duration::from_millis(50);

/// Connections on each of which as many reads are under way as the server takes, and that take
/// little. Every second one reads what is played.
fn flood(address: SocketAddr, has_ended: &AtomicBool) {
    let begin = |number: usize| {
        let mut client = Client { user: 3000, ..Client::connect(address) };
        let (file, _) = client.film_in(["/copy", "/play"][number % 2]);
        // The server takes 16 of them, and the sockets hold the others.
        for _ in 0..4 * REQUESTS_MAX {
            client.send_read(&file, 0, READ_BYTES_MAX);
        }
        client
    };
    let mut clients: Vec<Client> = (0..FLOODS).map(begin).collect();
    let mut bytes = vec![0; TAKEN_BYTES];
    while !has_ended.load(Ordering::Acquire) {
        for client in &mut clients {
            client.stream.read_exact(&mut bytes).expect("it continues");
        }
        std::thread::sleep(TAKEN_EVERY);
    }
}

/// Asks for attributes until it ends. Returns how often it was answered.
fn look(address: SocketAddr, file: &nfs_fh3, has_ended: &AtomicBool) -> u64 {
    let mut client = Client { user: 4000, ..Client::connect(address) };
    let mut answered = 0;
    while !has_ended.load(Ordering::Acquire) {
        let arguments = GETATTR3args { object: file.clone() };
        let found: GETATTR3res = client.ask(NFS_PROGRAM::NFSPROC3_GETATTR, &arguments);
        assert!(matches!(found, Nfs3Result::Ok(_)), "{found:?}");
        answered += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    answered
}

/// Plays the film beside the flood. Returns how many units came late.
pub(super) fn play_beside_a_flood(rig: &Rig, address: SocketAddr) -> f64 {
    let before = rig.metric("reel_deadline_misses_total");
    let mut client = Client::connect(address);
    let (file, bytes) = client.film_in("/play");
    let (has_ended, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| flood(address, &has_ended));
        scope.spawn(|| answered.store(look(address, &file, &has_ended), Ordering::Release));
        // All of them are under way.
        rig.await_metric("reel_nfs_connections", |open| open >= FLOODS as f64 + 2.0);
        play(rig, &mut client, &file, (0, bytes), FILM);
        has_ended.store(true, Ordering::Release);
    });
    let answered = answered.into_inner();
    assert!(answered > 10, "{answered} calls of a third client were answered");
    rig.metric("reel_deadline_misses_total") - before
}

/// A server whose disks are measured, and its address.
pub(super) fn measured() -> (Rig, SocketAddr) {
    let address = reel_testkit::free_address();
    (promising_with(64 << 20, 100, |config| config.nfs = Some(serving(address))), address)
}

/// Whether the bytes also come in time depends on the machine, and is judged at night.
#[test]
fn a_player_is_admitted_and_gets_every_byte_beside_a_client_that_floods() {
    let (rig, address) = measured();
    play_beside_a_flood(&rig, address);
    // The player, and not the client that reads the beginning repeatedly.
    assert_eq!((rig.metric("reel_sessions"), rig.metric("reel_nfs_admitted_total")), (1.0, 1.0));
}

#[test]
fn reads_across_the_end_are_cut_there_and_long_ones_at_what_the_server_says() {
    let (rig, address) = rig(|_| {});
    let mut client = Client::connect(address);
    let (file, bytes) = client.film();
    let end = bytes as usize;
    let most = READ_BYTES_MAX as usize;
    for (offset, count, wanted) in [
        (0, u32::MAX, 0..most),
        (7, READ_BYTES_MAX + 1, 7..7 + most),
        (bytes - 1, 1, end - 1..end),
        (bytes - 10, 11, end - 10..end),
        (bytes - 10, u32::MAX, end - 10..end),
        (bytes, 1, end..end),
        (bytes + 1, 100, end..end),
        (u64::MAX, u32::MAX, end..end),
    ] {
        let xid = client.send_read(&file, offset, count);
        let (answered, result) = client.receive();
        assert_eq!(answered, xid);
        let read = READ3res::unpack(&mut &result[..]).expect("a result").0.unwrap();
        assert!(read.data[..] == rig.film[wanted.clone()], "{count} bytes at {offset}");
        assert_eq!((read.count as usize, read.eof), (wanted.len(), wanted.end == end), "{count} at {offset}");
    }
}

#[test]
fn clients_that_ask_and_vanish_leave_nothing() {
    let (rig, address) = rig(|_| {});
    let mut stays = Client::connect(address);
    let (file, bytes) = stays.film();
    for round in 0..100 {
        let mut client = Client { user: round, ..Client::connect(address) };
        let (played, _) = client.film_in("/play");
        for read in 0..u64::from(round) % 20 {
            client.send_read(&played, read << 20, READ_BYTES_MAX);
        }
        // Some have taken a part of what they asked for.
        if round % 20 > 10 {
            client.stream.read_exact(&mut [0; 10_000]).expect("the beginning");
        }
    }
    rig.await_metric("reel_nfs_connections", |open| open == 1.0);
    assert!(stays.read_until(&file, Vec::new(), bytes) == rig.film);
}

/// Beyond what the server takes, a connection that asks for nothing ends for a new one.
#[test]
fn of_10000_connections_those_that_ask_are_served() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    // Both ends are in this process, beside those of other tests.
    let may_open = limit.current.map_or(usize::MAX, |files| files as usize);
    let connections = 10_000.min(may_open.saturating_sub(CONNECTIONS_MAX + 1500));
    if connections <= CONNECTIONS_MAX {
        return println!("skipped: this process may open {may_open} files");
    }
    let (rig, address) = rig(|_| {});
    let mut reader = Client::connect(address);
    let (file, bytes) = reader.film();
    let (mut held, from) = (Vec::new(), Instant::now());
    for number in 0..connections {
        held.push(TcpStream::connect(address).expect("connected"));
        if number % 100 == 0 {
            let offset = number as u64 * 100 % (bytes - 8);
            assert!(reader.read(&file, offset, 8) == rig.film[offset as usize..][..8]);
        }
    }
    println!("{connections} connections in {:?}", from.elapsed());
    // Those that end for others may be open a little longer.
    assert!(rig.metric("reel_nfs_connections") <= (CONNECTIONS_MAX + LEAVING_MAX) as f64);
    // Connections are accepted in their order. When the last one has an answer, or an end because
    // too many others are ending, all have been accepted.
    let mut last = Client::connect(address);
    last.send_read(&file, 0, 8);
    last.try_receive();
    drop(last);
    rig.await_metric("reel_nfs_connections", |open| open <= CONNECTIONS_MAX as f64);
    let mut newest = Client::connect(address);
    assert!(newest.read(&file, 0, 1000) == rig.film[..1000]);
    assert!(reader.read_until(&file, Vec::new(), bytes) == rig.film);
    drop(held);
    rig.await_metric("reel_nfs_connections", |open| open == 2.0);
}

/// The client's bound is reached, and each connection is answered all the same.
#[test]
fn lists_that_are_not_taken_are_bounded_and_none_is_lost() {
    in_a_network("server::nfs::flood::inside::lists");
}

mod inside {
    use super::*;

    /// Connections that list, and calls on each of them, whose answers have 90 kB.
    const LISTING: usize = 300;
    const LISTS: u32 = 64;
    /// More than one page of the root.
    const PAGE_BYTES: usize = 2048;

    #[test]
    #[ignore = "child of lists_that_are_not_taken_are_bounded_and_none_is_lost, in a name space of its own"]
    fn lists() {
        // What the kernel has taken from the server is not owed any more.
        std::fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 32768").expect("written");
        let (rig, address) = rig(|_| {});
        let mut other = Client::connect(address);
        let (root, (file, bytes)) = (other.mount("/"), other.film());
        let begin = |_| {
            let mut client = Client { stream: narrow(address), xid: 0, user: 1000 };
            client.stream.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
            for _ in 0..LISTS {
                client.send(PROGRAM, NFS_PROGRAM::NFSPROC3_READDIRPLUS as u32, &whole(&root));
            }
            client
        };
        let clients: Vec<Client> = (0..LISTING).map(begin).collect();
        rig.await_metric("reel_nfs_held_back_total", |held_back| held_back >= LISTING as f64 / 4.0);
        let bound = OWED_BYTES_OF_CLIENT_MAX + LISTING * (OWED_BYTES_OF_BUSY_CONNECTION_MAX + PAGE_BYTES);
        for _ in 0..4 {
            let owed = rig.metric("reel_nfs_owed_bytes");
            assert!(owed > 0.0 && owed <= bound as f64, "{owed} bytes are owed, of {bound}");
            // Reads of the same client continue.
            assert!(other.read(&file, 0, 100_000) == rig.film[..100_000]);
        }
        assert!(other.read_until(&file, Vec::new(), bytes) == rig.film);
        for mut client in clients {
            let answered: BTreeSet<u32> = (0..LISTS).map(|_| listed(client.receive())).collect();
            assert_eq!(answered, (1..=LISTS).collect());
        }
        rig.await_metric("reel_nfs_owed_bytes", |owed| owed == 0.0);
    }

    fn whole(root: &nfs_fh3) -> READDIRPLUS3args {
        let (cookie, cookieverf) = (0, cookieverf3::default());
        READDIRPLUS3args { dir: root.clone(), cookie, cookieverf, dircount: 1 << 20, maxcount: 1 << 20 }
    }

    /// The number of a call that is answered with all of the root.
    fn listed((xid, result): (u32, Vec<u8>)) -> u32 {
        let list = READDIRPLUS3res::unpack(&mut &result[..]).expect("a result").0.unwrap().reply;
        assert!(list.eof && list.entries.0.len() == 6 && result.len() < PAGE_BYTES, "{list:?}");
        xid
    }
}
