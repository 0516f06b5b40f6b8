//! Readers of `/play`: admitted as viewers without a word, or read as there is room.

use super::{Client, rig};
use crate::server::rig::{Rig, admitting, full};
use nfs3_types::nfs3::{NFS_PROGRAM, Nfs3Result, READ3res, READLINK3args, READLINK3res, nfs_fh3, nfsstat3};
use nfs3_types::xdr_codec::Unpack;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What a kernel reads at once.
const READ_BYTES: u32 = 32 << 10;
/// Reads that it has under way.
const UNDER_WAY: u64 = 4;

/// Reads the film from `from` on as a kernel does for a player: some ranges at once, and each group
/// of them backwards. Takes `time` for it.
pub(super) fn play(
    rig: &Rig,
    client: &mut Client,
    file: &nfs_fh3,
    (from, until): (u64, u64),
    time: Duration,
) {
    let group_bytes = u64::from(READ_BYTES) * UNDER_WAY;
    let (begun, groups) = (Instant::now(), (until - from).div_ceil(group_bytes));
    for group in 0..groups {
        let offset = |read: u64| from + group * group_bytes + read * u64::from(READ_BYTES);
        let asked: Vec<(u32, u64)> = (0..UNDER_WAY)
            .rev()
            .map(|read| (client.send_read(file, offset(read), READ_BYTES), offset(read)))
            .collect();
        for _ in &asked {
            let (xid, result) = client.receive();
            let offset = asked.iter().find(|(asked, _)| *asked == xid).expect("asked for").1 as usize;
            let read = READ3res::unpack(&mut &result[..]).expect("a result").0.unwrap();
            let end = rig.film.len().min(offset + READ_BYTES as usize);
            assert!(read.data[..] == rig.film[offset.min(end)..end], "the bytes at {offset}");
        }
        let due = time * (group as u32 + 1) / groups as u32;
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
}

fn status(client: &mut Client) -> String {
    let directory = client.mount("/status");
    let (text, bytes) = client.lookup(&directory, "film").expect("listed");
    let said = String::from_utf8(client.read(&text, 0, 65536)).expect("text");
    assert_eq!(said.len() as u64, bytes, "its attributes know its length");
    said
}

fn link(client: &mut Client, address: SocketAddr) -> Result<String, nfsstat3> {
    let mut asking = Client { user: client.user, ..Client::connect(address) };
    let (symlink, _) = asking.film_in("/open");
    let arguments = READLINK3args { symlink };
    match asking.ask::<READLINK3res<'_>>(NFS_PROGRAM::NFSPROC3_READLINK, &arguments) {
        Nfs3Result::Ok(link) => Ok(String::from_utf8(link.data.0.to_vec()).expect("text")),
        Nfs3Result::Err((status, _)) => Err(status),
    }
}

#[test]
fn a_reader_is_admitted_by_its_reads_and_looks_reserve_nothing() {
    let (rig, address) = rig(admitting);
    let mut client = Client::connect(address);
    let (file, bytes) = client.film_in("/play");
    // All of it at once, its end, and its beginning again.
    for offset in [0, bytes - 1000, 0] {
        client.read(&file, offset, READ_BYTES);
    }
    let copy = client.film().0;
    assert!(client.read_until(&copy, Vec::new(), bytes) == rig.film);
    assert_eq!((rig.metric("reel_sessions"), rig.metric("reel_nfs_admitted_total")), (0.0, 0.0));
    assert!(status(&mut client).contains("too little"), "{}", status(&mut client));
    play(&rig, &mut client, &file, (0, bytes / 2), Duration::from_millis(2500));
    assert_eq!((rig.metric("reel_sessions"), rig.metric("reel_nfs_admitted_total")), (1.0, 1.0));
    let said = status(&mut client);
    assert!(said.starts_with("user 1000 of 127.0.0.1: admitted"), "{said}");
    // It seeks, while another user of the machine begins.
    play(&rig, &mut client, &file, (bytes * 3 / 4, bytes), Duration::from_millis(2500));
    assert_eq!(rig.metric("reel_sessions"), 1.0);
    client.user = 1001;
    play(&rig, &mut client, &file, (0, bytes / 2), Duration::from_millis(2500));
    assert_eq!((rig.metric("reel_sessions"), rig.metric("reel_nfs_admitted_total")), (2.0, 2.0));
    assert_eq!(status(&mut client).lines().count(), 2);
}

#[test]
fn a_link_holds_a_place_for_ten_seconds_or_is_refused() {
    let (rig, address) = rig(admitting);
    let mut client = Client::connect(address);
    let held = Instant::now();
    assert_eq!(link(&mut client, address).as_deref(), Ok("play/film.mp4"));
    // Asked for again it is the same place, and no more than that.
    link(&mut client, address).expect("its place");
    assert_eq!(rig.metric("reel_sessions"), 1.0);
    assert!(status(&mut client).contains("held for 10 s"), "{}", status(&mut client));
    // One that begins to read plays at once.
    let mut other = Client { user: 1001, ..Client::connect(address) };
    link(&mut other, address).expect("a place");
    let file = other.film_in("/play").0;
    other.read(&file, 100_000, READ_BYTES);
    assert!(status(&mut other).contains("user 1001 of 127.0.0.1: admitted: every"));
    while rig.metric("reel_sessions") > 1.0 {
        assert!(held.elapsed() < Duration::from_secs(120), "it is held for ever");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(held.elapsed() > Duration::from_secs(9), "{:?}", held.elapsed());
    assert!(!status(&mut client).contains("user 1000"));
    // A client that only looks at links gets a few.
    for user in 2000..2004 {
        client.user = user;
        link(&mut client, address).expect("a place");
    }
    client.user = 2004;
    assert_eq!(link(&mut client, address), Err(nfsstat3::NFS3ERR_ACCES));
    assert!(status(&mut client).contains("user 2004 of 127.0.0.1: refused: as many places"));
    client.user = 2003;
    link(&mut client, address).expect("its own place, again");
}

#[test]
fn a_refused_reader_gets_every_byte_and_is_told_why() {
    let (rig, address) = rig(full);
    let mut client = Client::connect(address);
    assert_eq!(link(&mut client, address), Err(nfsstat3::NFS3ERR_ACCES));
    let said = status(&mut client);
    assert!(said.starts_with("user 1000 of 127.0.0.1: refused: ") && said.contains("network"), "{said}");
    client.user = 1001;
    let (file, bytes) = client.film_in("/play");
    play(&rig, &mut client, &file, (0, bytes), Duration::from_millis(2500));
    let said = status(&mut client);
    assert!(said.contains("user 1001 of 127.0.0.1: refused: "), "{said}");
    assert_eq!((rig.metric("reel_sessions"), rig.metric("reel_nfs_refused_total")), (0.0, 2.0));
}
