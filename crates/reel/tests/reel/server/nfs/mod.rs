//! Titles by NFS: read by libnfs, and by a client that exposes every byte.

mod flood;
mod libnfs;
mod nfs3_client;
mod night;
mod playing;
mod port_mapper;
mod refused;
mod stopped;
mod vlc;

use super::rig::Rig;
use nfs3_types::mount::{dirpath, mountres3};
use nfs3_types::nfs3::{
    GETATTR3args, GETATTR3res, LOOKUP3args, LOOKUP3res, NFS_PROGRAM, Nfs3Result, READ3args, READ3res,
    diropargs3, nfs_fh3, nfsstat3,
};
use nfs3_types::rpc::{accept_stat_data, auth_unix, call_body, msg_body, opaque_auth, reply_body, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use nfs3_types::{mount, nfs3};
use reel::server::{NfsConfig, ServeConfig};
use reel_library::{IngestOptions, Input};
use reel_testkit::{Rng, free_address};
use reel_volume::VolumeOptions;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// Members of the volume.
const MEMBERS: usize = 5;

/// A server that serves NFS to this machine, on a port that stays over restarts.
fn rig(change: impl FnOnce(&mut ServeConfig)) -> (Rig, SocketAddr) {
    let address = free_address();
    let rig = Rig::new(|config| {
        config.nfs = Some(serving(address));
        change(config);
    });
    (rig, address)
}

/// The same over such a volume.
fn rig_over(options: VolumeOptions, change: impl FnOnce(&mut ServeConfig)) -> (Rig, SocketAddr) {
    let address = free_address();
    let rig = Rig::over(options, 64 << 20, |config| {
        config.nfs = Some(serving(address));
        change(config);
    });
    (rig, address)
}

pub(super) fn serving(listen: SocketAddr) -> NfsConfig {
    NfsConfig { listen, clients: vec!["127.0.0.1".parse().expect("a range")], portmap: false }
}

/// A connection to the server.
struct Client {
    stream: TcpStream,
    xid: u32,
    /// The user that it claims to read for.
    user: u32,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
        Client { stream, xid: 0, user: 1000 }
    }

    /// Sends a call, and returns its number.
    fn send(&mut self, prog: u32, proc: u32, arguments: &impl Pack) -> u32 {
        self.xid += 1;
        let cred = opaque_auth::auth_unix(&auth_unix { uid: self.user, ..auth_unix::default() });
        let verf = opaque_auth::default();
        let body = call_body { rpcvers: 2, prog, vers: 3, proc, cred, verf };
        let mut record = Vec::new();
        rpc_msg { xid: self.xid, body: msg_body::CALL(body) }.pack(&mut record).expect("packed");
        arguments.pack(&mut record).expect("packed");
        let mark = (record.len() as u32 | 1 << 31).to_be_bytes();
        self.stream.write_all(&[&mark[..], &record].concat()).expect("sent");
        self.xid
    }

    /// The next reply: the number of its call, and its result.
    fn receive(&mut self) -> (u32, Vec<u8>) {
        self.try_receive().expect("a reply")
    }

    /// The same; `None` if the connection ends before.
    fn try_receive(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).ok()?;
        let mut record = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
        self.stream.read_exact(&mut record).ok()?;
        let mut rest = &record[..];
        let (message, _) = rpc_msg::unpack(&mut rest).expect("a message");
        let msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted)) = message.body else { panic!("denied") };
        assert!(matches!(accepted.reply_data, accept_stat_data::SUCCESS), "{:?}", accepted.reply_data);
        Some((message.xid, rest.to_vec()))
    }

    fn ask<T: Unpack>(&mut self, procedure: NFS_PROGRAM, arguments: &impl Pack) -> T {
        let xid = self.send(nfs3::PROGRAM, procedure as u32, arguments);
        let (answered, result) = self.receive();
        assert_eq!(answered, xid);
        T::unpack(&mut &result[..]).expect("a result").0
    }

    fn mount(&mut self, path: &str) -> nfs_fh3 {
        self.send(mount::PROGRAM, 1, &dirpath(Opaque::borrowed(path.as_bytes())));
        let (_, result) = self.receive();
        match mountres3::unpack(&mut &result[..]).expect("a result").0 {
            mountres3::Ok(ok) => nfs_fh3 { data: Opaque::owned(ok.fhandle.0.to_vec()) },
            mountres3::Err(status) => panic!("{status}"),
        }
    }

    fn lookup(&mut self, dir: &nfs_fh3, name: &str) -> Result<(nfs_fh3, u64), nfsstat3> {
        let what = diropargs3 { dir: dir.clone(), name: name.as_bytes().into() };
        match self.ask::<LOOKUP3res>(NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what }) {
            Nfs3Result::Ok(found) => Ok((found.object, found.obj_attributes.unwrap().size)),
            Nfs3Result::Err((status, _)) => Err(status),
        }
    }

    /// The film, and its length.
    fn film(&mut self) -> (nfs_fh3, u64) {
        self.film_in("/copy")
    }

    /// The same in a directory.
    fn film_in(&mut self, directory: &str) -> (nfs_fh3, u64) {
        let directory = self.mount(directory);
        self.lookup(&directory, "film.mp4").expect("listed")
    }

    fn send_read(&mut self, file: &nfs_fh3, offset: u64, count: u32) -> u32 {
        let arguments = READ3args { file: file.clone(), offset, count };
        self.send(nfs3::PROGRAM, NFS_PROGRAM::NFSPROC3_READ as u32, &arguments)
    }

    /// Adds bytes to those that were read until there are so many.
    fn read_until(&mut self, file: &nfs_fh3, mut read: Vec<u8>, bytes: u64) -> Vec<u8> {
        while (read.len() as u64) < bytes {
            let count = (bytes - read.len() as u64).min(100_000);
            read.extend(self.read(file, read.len() as u64, count as u32));
        }
        read
    }

    fn read(&mut self, file: &nfs_fh3, offset: u64, count: u32) -> Vec<u8> {
        let arguments = READ3args { file: file.clone(), offset, count };
        self.ask::<READ3res<'_>>(NFS_PROGRAM::NFSPROC3_READ, &arguments).unwrap().data.to_vec()
    }
}

/// Options for libnfs, which then asks no port mapper.
fn options(address: SocketAddr) -> String {
    format!("?nfsport={port}&mountport={port}", port = address.port())
}

/// Where libnfs finds a path.
fn url(address: SocketAddr, path: &str) -> String {
    format!("nfs://127.0.0.1{path}{}", options(address))
}

#[test]
fn reads_at_any_offsets_are_bytes_of_the_file_in_whatever_order_they_come() {
    let (rig, address) = rig(|_| {});
    let mut client = Client::connect(address);
    let (file, bytes) = client.film();
    assert_eq!(bytes, rig.film.len() as u64);
    let mut rng = Rng::new(7);
    let mut asked = BTreeMap::new();
    for _ in 0..200 {
        let (offset, count) = (rng.below(bytes + 10), 1 + rng.below(300_000) as u32);
        asked.insert(client.send_read(&file, offset, count), (offset as usize, count as usize));
        if asked.len() < 12 {
            continue;
        }
        let (xid, result) = client.receive();
        let (offset, count) = asked.remove(&xid).expect("asked for");
        let read = READ3res::unpack(&mut &result[..]).expect("a result").0.unwrap();
        let end = (offset + count).min(rig.film.len());
        let wanted = &rig.film[offset.min(end)..end];
        assert!(&read.data[..] == wanted, "{count} bytes at {offset}");
        assert_eq!(read.eof, end == rig.film.len());
    }
}

#[test]
fn handles_are_good_after_a_restart_in_the_middle_of_a_film() {
    let (mut rig, address) = rig(|_| {});
    let mut client = Client::connect(address);
    let (file, bytes) = client.film();
    let mut film = client.read_until(&file, Vec::new(), bytes / 2);
    rig.stop();
    rig.start();
    let mut client = Client::connect(address);
    film = client.read_until(&file, film, bytes);
    assert!(film == rig.film);
}

/// A client that asks for everything and takes nothing has no more under way than one may have.
#[test]
fn a_client_that_takes_nothing_keeps_no_other_from_reading() {
    let (rig, address) = rig(|_| {});
    let mut flood = Client::connect(address);
    let (file, bytes) = flood.film();
    flood.stream.set_nonblocking(true).expect("set");
    let arguments = READ3args { file: file.clone(), offset: 0, count: 1 << 20 };
    let body = call_body {
        rpcvers: 2,
        prog: nfs3::PROGRAM,
        vers: 3,
        proc: NFS_PROGRAM::NFSPROC3_READ as u32,
        cred: opaque_auth::default(),
        verf: opaque_auth::default(),
    };
    let mut record = Vec::new();
    rpc_msg { xid: 1, body: msg_body::CALL(body) }.pack(&mut record).expect("packed");
    arguments.pack(&mut record).expect("packed");
    let record = [&(record.len() as u32 | 1 << 31).to_be_bytes()[..], &record].concat();
    // Until the server reads no more, or as many as would be a gigabyte.
    let sent = (0..1000).take_while(|_| flood.stream.write_all(&record).is_ok()).count();
    assert!(sent > 16, "{sent} reads were sent");
    let mut other = Client::connect(address);
    assert!(other.read_until(&file, Vec::new(), bytes) == rig.film);
    assert!(rig.metric("reel_nfs_connections") == 2.0);
}

#[test]
fn what_is_no_call_ends_its_connection_and_no_other() {
    let (_rig, address) = rig(|_| {});
    let mut client = Client::connect(address);
    let (file, _) = client.film();
    let get = b"GET / HTTP/1.1\r\n\r\n";
    for sent in [&[0xff; 4][..], &[0x80, 0, 0, 4, 1, 2, 3, 4], get, &[0; 4 * 70]] {
        let mut bad = TcpStream::connect(address).expect("connected");
        bad.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
        bad.write_all(sent).expect("sent");
        let mut said = Vec::new();
        // A reset is an end, too.
        let _ = bad.read_to_end(&mut said);
        assert_eq!(said, [] as [u8; 0], "{sent:?}");
    }
    assert_eq!(client.read(&file, 0, 8).len(), 8);
}

/// Ingests another title while the server runs.
fn ingest_other(rig: &Rig) {
    let source = rig.path("other.mp4");
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=5:duration=4"])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"])
        .arg(&source)
        .status();
    assert!(status.expect("ffmpeg is installed").success());
    let named = IngestOptions { name: Some("other".to_owned()), ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(source)], &named, &mut |_| {}).expect("taken");
}

#[test]
fn titles_come_and_go_while_it_runs() {
    let (rig, address) = rig(|_| {});
    let mut client = Client::connect(address);
    let copy = client.mount("/copy");
    let (file, _) = client.film();
    assert_eq!(client.lookup(&copy, "other.mp4").err(), Some(nfsstat3::NFS3ERR_NOENT));
    ingest_other(&rig);
    let (other, bytes) = client.lookup(&copy, "other.mp4").expect("listed at once");
    assert!(bytes > 0 && !client.read(&other, 0, 10).is_empty());
    rig.library.remove("film").expect("removed");
    // Until the titles were listed again, it is answered as before.
    let from = Instant::now();
    let object = || GETATTR3args { object: file.clone() };
    while !matches!(
        client.ask::<GETATTR3res>(NFS_PROGRAM::NFSPROC3_GETATTR, &object()),
        Nfs3Result::Err((nfsstat3::NFS3ERR_STALE, _))
    ) {
        assert!(from.elapsed() < Duration::from_secs(120), "it stays");
        std::thread::sleep(Duration::from_millis(10));
    }
    let read = READ3args { file, offset: 0, count: 10 };
    let gone: READ3res<'_> = client.ask(NFS_PROGRAM::NFSPROC3_READ, &read);
    assert!(matches!(gone, Nfs3Result::Err((nfsstat3::NFS3ERR_STALE, _))), "{gone:?}");
}

/// Stored bytes that are lost are an error, and the rest of the title is read.
#[test]
fn lost_bytes_are_an_error_of_their_read() {
    let (rig, address) = rig(|_| {});
    let mut client = Client::connect(address);
    let (file, bytes) = client.film();
    for member in 0..2 {
        rig.faults.inject(member, reel_disk::Fault::FailReads);
    }
    let arguments = READ3args { file: file.clone(), offset: bytes / 2, count: 200_000 };
    let procedure = NFS_PROGRAM::NFSPROC3_READ as u32;
    // A reply that has begun is cut off. Asked again, the server knows.
    let told = (0..2).find_map(|_| {
        client.send(nfs3::PROGRAM, procedure, &arguments);
        if let Some((_, result)) = client.try_receive() {
            return Some(result);
        }
        client = Client::connect(address);
        None
    });
    let lost = READ3res::unpack(&mut &told.expect("an answer")[..]).expect("a result").0;
    assert!(matches!(lost, Nfs3Result::Err((nfsstat3::NFS3ERR_IO, _))), "{lost:?}");
}

/// A title that cannot be opened now, because the disks do not answer, is opened when they do. The
/// client waits: libnfs ends a film at the first answer that is an error.
#[test]
fn a_read_waits_for_a_title_that_cannot_be_opened_now() {
    let (rig, address) = rig(|_| {});
    let mut client = Client::connect(address);
    let (copy, (film, _)) = (client.mount("/copy"), client.film());
    // What was there at the start is opened already.
    ingest_other(&rig);
    let (other, bytes) = client.lookup(&copy, "other.mp4").expect("listed");
    (0..MEMBERS).for_each(|member| rig.faults.inject(member, reel_disk::Fault::Stall));
    let xid = client.send_read(&other, 0, 1 << 20);
    rig.await_metric("reel_nfs_openings_put_off_total", |put_off| put_off >= 1.0);
    assert_eq!(rig.metric("reel_nfs_failed_reads_total"), 0.0);
    (0..MEMBERS).for_each(|member| rig.faults.clear(member));
    let (answered, result) = client.receive();
    assert_eq!(answered, xid);
    let begin = READ3res::unpack(&mut &result[..]).expect("a result").0.unwrap().data.to_vec();
    let mut exported = Vec::new();
    rig.library.export("other", &mut exported, &mut |_, _| {}).expect("exported");
    assert!(client.read_until(&other, begin, bytes) == exported);
    assert!(client.read(&film, 0, 1000) == rig.film[..1000]);
}
