//! Sessions that are sent to another machine, which is a network namespace behind a cable.

use super::{Joining, PATIENCE, received, session_of};
use crate::kept::kept;
use crate::server::reclass::change;
use crate::server::rig::{Rig, admitting};
use reel_library::{IngestOptions, Input};
use reel_play::UplinkRate;
use reel_testkit::run_in_own_network;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

pub(super) const LINK_BPS: u64 = 20_000_000;
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Where sessions are sent to.
pub(super) const DESTINATIONS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 5), Ipv4Addr::new(10, 77, 0, 6)];
/// Clients that download without end, with so many connections each.
const CLIENTS: usize = 3;
const CONNECTIONS: usize = 4;
/// How often it is tried whether anything is late.
const ATTEMPTS: usize = 3;

#[test]
fn a_session_with_deadlines_is_sent_to_another_machine_in_time() {
    in_a_network("server::joins::other_machine::inside::periodic");
}

#[test]
fn sessions_without_deadlines_take_turns_on_the_link() {
    in_a_network("server::joins::other_machine::inside::aperiodic");
}

#[test]
fn a_session_that_is_given_deadlines_keeps_one_of_its_outlets_on_the_reservation() {
    in_a_network("server::joins::other_machine::inside::given_deadlines");
}

pub(super) fn in_a_network(test: &str) {
    // The far end is tried, too.
    let setup = "ip link set lo up && ip link add try0 type veth peer name try1 && tc qdisc add dev try0 root \
                 tbf rate 20mbit burst 64kb latency 1s && ip link del try0";
    run_in_own_network(setup, test);
}

/// The other end of a cable. It is gone with this value.
pub(super) struct Far {
    holder: Child,
    space: File,
}

impl Far {
    /// Makes it. From here to there, so many bits pass in a second, if that is limited.
    pub(super) fn new(bps: Option<u64>) -> Far {
        let mut holder = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare was there before");
        // It answers when it is in its namespace.
        holder.stdin.as_mut().expect("piped").write_all(b"there?").expect("written");
        holder.stdout.as_mut().expect("piped").read_exact(&mut [0; 6]).expect("a namespace");
        let space = File::open(format!("/proc/{}/ns/net", holder.id())).expect("a namespace");
        let far = Far { holder, space };
        let pid = far.holder.id();
        sh(&format!(
            "ip link add near0 type veth peer name far0 netns {pid} && ip addr add {SERVER}/24 dev near0 \
             && ip link set near0 up"
        ));
        if let Some(bps) = bps {
            sh(&format!("tc qdisc add dev near0 root tbf rate {bps}bit burst 64kb latency 1s"));
        }
        let addresses = DESTINATIONS.into_iter().chain((0..CLIENTS).map(client));
        let addresses: String = addresses.map(|ip| format!("ip addr add {ip}/24 dev far0 && ")).collect();
        far.inside(move || sh(&format!("ip link set lo up && {addresses} ip link set far0 up")));
        far
    }

    /// Does something there. Sockets that it makes stay there.
    pub(super) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let moved = scope.spawn(|| {
                move_into_link_name_space(self.space.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter");
                act()
            });
            moved.join().expect("it succeeds")
        })
    }

    /// Listeners at the destinations, and what is to be joined.
    fn listeners(&self) -> [(TcpListener, String); 2] {
        DESTINATIONS.map(|address| {
            let listener = self.inside(|| TcpListener::bind((address, 0)).expect("bound"));
            let to = format!("tcp:{}", listener.local_addr().expect("bound"));
            (listener, to)
        })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // It ends with its input.
        let _ = self.holder.wait();
    }
}

fn sh(script: &str) {
    let status = Command::new("sh").args(["-c", script]).status().expect("a shell");
    assert!(status.success(), "{script}");
}

fn client(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 10 + number as u8)
}

/// Downloads without end, from when they are made until they are dropped.
struct Downloads {
    /// What each client got.
    bytes: Arc<[AtomicU64; CLIENTS]>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Downloads {
    fn begin(far: &Far, server: SocketAddr) -> Downloads {
        let (bytes, is_over) = (Arc::<[AtomicU64; CLIENTS]>::default(), Arc::<AtomicBool>::default());
        let mut threads = Vec::new();
        for number in (0..CLIENTS).flat_map(|number| [number; CONNECTIONS]) {
            let socket =
                far.inside(|| connect_from(client(number), SocketAddr::from((SERVER, server.port()))));
            let (bytes, is_over) = (Arc::clone(&bytes), Arc::clone(&is_over));
            threads.push(thread::spawn(move || download(socket, &bytes[number], &is_over)));
        }
        let downloads = Downloads { bytes, is_over, threads };
        super::until("a first byte for each", || downloads.taken().iter().all(|bytes| *bytes > 0));
        downloads
    }

    fn taken(&self) -> [u64; CLIENTS] {
        std::array::from_fn(|number| self.bytes[number].load(Ordering::Relaxed))
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("no download fails");
        }
    }
}

fn connect_from(address: Ipv4Addr, server: SocketAddr) -> std::net::TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from((address, 0))).expect("an address");
    connect(&socket, &server).expect("connected");
    socket.into()
}

/// Requests the film repeatedly, and counts what comes.
fn download(mut socket: std::net::TcpStream, bytes: &AtomicU64, is_over: &AtomicBool) {
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let (mut buffer, mut left) = (vec![0; 64 << 10], 0_u64);
    while !is_over.load(Ordering::Relaxed) {
        if left == 0 {
            write!(socket, "GET /files/slow.mp4 HTTP/1.1\r\nHost: far\r\n\r\n").expect("asked");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).expect("a head");
                head.extend(byte);
            }
            let head = String::from_utf8(head).expect("text").to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            left = length.expect("a length").parse().expect("a number");
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = socket.read(&mut buffer[..most]).expect("read") as u64;
        assert!(read > 0, "the server closes a download");
        left -= read;
        bytes.fetch_add(read, Ordering::Relaxed);
    }
}

/// A film of 4 Mb/s for six seconds in the library; its bytes.
fn slow_film(rig: &Rig) -> Vec<u8> {
    let path = kept("slow.mp4", |path| {
        let status = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i"])
            .arg("testsrc2=size=640x360:rate=25:duration=6,noise=alls=60:allf=t")
            .args(["-c:v", "libx264", "-preset", "ultrafast", "-b:v", "4M", "-maxrate", "4M"])
            .args(["-bufsize", "1M", "-g", "25", "-pix_fmt", "yuv420p"])
            .arg(path)
            .status();
        assert!(status.expect("ffmpeg is installed").success());
    });
    let named = IngestOptions { name: Some("slow".to_owned()), ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(path)], &named, &mut |_| {}).expect("taken");
    let mut film = Vec::new();
    rig.library.export("slow", &mut film, &mut |_, _| {}).expect("exported");
    film
}

/// A server on the link that may send to these.
fn joining(to: &[(TcpListener, String)], change: impl FnOnce(&mut reel::server::ServeConfig)) -> Joining {
    let to = to.iter().map(|(_, to)| to.parse().expect("a destination")).collect();
    Joining::new(|config| {
        config.listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        config.promise.network_bps = Some(LINK_BPS);
        config.promise.uplink = UplinkRate::Known(LINK_BPS);
        config.join.to = to;
        change(config);
    })
}

mod inside {
    use super::*;

    /// The link carries no more than is known of it, and clients would take all of that.
    #[test]
    #[ignore = "child of a_session_with_deadlines_is_sent_to_another_machine_in_time, in a namespace of its own"]
    fn periodic() {
        let far = Far::new(Some(LINK_BPS));
        let to = far.listeners();
        let joining = joining(&to, admitting);
        let film = slow_film(&joining.rig);
        let downloads = Downloads::begin(&far, joining.rig.address());
        // On a machine that stands still for a second, something may be late all the same.
        let mut attempts = (0..ATTEMPTS).map(|attempt| {
            let key = session_of(&joining.rig, "slow", "periodic");
            let outlets = play_twice(&joining, &key, &to, (attempt, &film));
            (key, outlets)
        });
        let is_in_time =
            |(_, outlets): &(String, [Value; 2])| outlets.iter().all(|outlet| outlet["late_bytes"] == 0);
        let (key, _) = attempts.find(is_in_time).expect("nothing is late in one of the attempts");
        // Once the first one has ended, there may be another one.
        let added = joining.add(&key, &to[1].1);
        assert_eq!(added.status, 201, "{}", String::from_utf8_lossy(&added.body));
        assert!(received(&to[1].0) == film, "other bytes");
        drop(downloads);
    }

    /// Two outlets were allowed before. The first one is sent on the reservation from then on. The
    /// other one gets what is left, or is ended because the network has no time for it.
    #[test]
    #[ignore = "child of a_session_that_is_given_deadlines_keeps_one_of_its_outlets_on_the_reservation, in a namespace of its own"]
    fn given_deadlines() {
        let far = Far::new(None);
        let to = far.listeners();
        let joining = joining(&to, admitting);
        let film = slow_film(&joining.rig);
        let downloads = Downloads::begin(&far, joining.rig.address());
        let key = session_of(&joining.rig, "slow", "aperiodic");
        let (bytes, rest) = thread::scope(|scope| {
            let [bytes, rest] = [0, 1].map(|number| {
                scope.spawn({
                    let listener = &to[number].0;
                    move || received(listener)
                })
            });
            for (_, to) in &to {
                assert_eq!(joining.add(&key, to).status, 201);
            }
            let changed = change(&mut joining.rig.connect(), &key, "periodic", "");
            assert_eq!(changed.status, 200, "{}", String::from_utf8_lossy(&changed.body));
            (bytes.join().expect("received"), rest.join().expect("received"))
        });
        drop(downloads);
        let [first, second] = [0, 1].map(|number| joining.ended(&key, number));
        assert_eq!(first["state"], "complete", "{first}");
        assert!(bytes == film, "other bytes");
        let from = second["from_byte"].as_u64().expect("a number") as usize;
        assert!(film[from..].starts_with(&rest), "other bytes");
        let reason = second["reason"].as_str().unwrap_or_default();
        assert!(second["state"] == "complete" || reason.contains("the network had no time"), "{second}");
        println!("figures: late {} and {second}", first["late_bytes"]);
    }

    /// Plays the film into the first destination and into a file; both outlets when they have
    /// ended.
    fn play_twice(
        joining: &Joining,
        key: &str,
        to: &[(TcpListener, String); 2],
        (attempt, film): (usize, &[u8]),
    ) -> [Value; 2] {
        let bytes = thread::scope(|scope| {
            // It reads from the beginning, as a player does.
            let bytes = scope.spawn(|| received(&to[0].0));
            let added = joining.add(key, &to[0].1);
            assert_eq!(added.status, 201, "{}", String::from_utf8_lossy(&added.body));
            // What is reserved is for one.
            let refused = joining.add(key, &to[1].1);
            let detail = refused.json()["detail"].as_str().unwrap_or_default().to_owned();
            assert!(refused.status == 429 && detail.contains("open another session"), "{detail}");
            // A file of this machine is no second one.
            let added = joining.add(key, &format!("file:copy-{attempt}.mp4"));
            assert_eq!(added.status, 201, "{}", String::from_utf8_lossy(&added.body));
            bytes.join().expect("received")
        });
        let ended = [0, 1].map(|number| joining.ended(key, number));
        assert!(ended.iter().all(|outlet| outlet["state"] == "complete"), "{ended:?}");
        assert!(bytes == film, "other bytes");
        println!("figures: late {} and {} bytes", ended[0]["late_bytes"], ended[1]["late_bytes"]);
        ended
    }

    /// The cable carries everything at once, so what limits is the server's schedule alone.
    #[test]
    #[ignore = "child of sessions_without_deadlines_take_turns_on_the_link, in a namespace of its own"]
    fn aperiodic() {
        let far = Far::new(None);
        let to = far.listeners();
        let joining = joining(&to, |_| {});
        let film = slow_film(&joining.rig);
        let downloads = Downloads::begin(&far, joining.rig.address());
        let key = session_of(&joining.rig, "slow", "aperiodic");
        let before = downloads.taken();
        for (_, to) in &to {
            let added = joining.add(&key, to);
            assert_eq!(added.status, 201, "{}", String::from_utf8_lossy(&added.body));
        }
        let (bytes, rest) = thread::scope(|scope| {
            let rest = scope.spawn(|| received(&to[1].0));
            (received(&to[0].0), rest.join().expect("received"))
        });
        let taken = downloads.taken();
        let ended = [0, 1].map(|number| joining.ended(&key, number));
        assert!(ended.iter().all(|outlet| outlet["state"] == "complete"), "{ended:?}");
        assert!(bytes == film, "other bytes");
        assert!(film.ends_with(&rest) && rest.len() > film.len() / 2, "{} bytes", rest.len());
        // Each client got what the destinations got: all of them took turns.
        for (before, taken) in before.into_iter().zip(taken) {
            assert!(taken - before >= film.len() as u64 / 2, "{} bytes", taken - before);
        }
        drop(downloads);
    }
}
