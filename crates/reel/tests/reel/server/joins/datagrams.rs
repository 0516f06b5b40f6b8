//! Sessions of transport streams that are sent in datagrams.

use super::other_machine::{DESTINATIONS, Far, LINK_BPS, in_a_network};
use super::{Joining, add, session_of};
use crate::server::casts::{self, PAYLOAD_BYTES};
use crate::server::reclass::change;
use crate::server::rig::{Answer, DRIVERS, Rig, admitting};
use reel::server::ServeConfig;
use reel_play::UplinkRate;
use reel_rtp::{MP2T, Packet};
use reel_volume::GeometryPreset;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a header of RTP.
const HEADER_BYTES: usize = reel_rtp::HEADER_BYTES;

/// A socket whose datagrams are kept as they come.
pub(super) struct Receiver {
    pub(super) to: SocketAddr,
    came: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Receiver {
    /// One at a port of this machine.
    pub(super) fn new() -> Receiver {
        Receiver::on(UdpSocket::bind("127.0.0.1:0").expect("bound"))
    }

    fn on(socket: UdpSocket) -> Receiver {
        let to = socket.local_addr().expect("bound");
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20).expect("root may");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        let (came, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let thread = std::thread::spawn({
            let (came, is_over) = (Arc::clone(&came), Arc::clone(&is_over));
            move || {
                let (mut datagrams, mut bytes) = (Vec::new(), [0; 2000]);
                loop {
                    // What was sent before the end is in the socket.
                    let is_last = is_over.load(Ordering::Acquire);
                    while let Ok(count) = socket.recv(&mut bytes) {
                        datagrams.push(bytes[..count].to_vec());
                        came.store(datagrams.len(), Ordering::Relaxed);
                    }
                    if is_last {
                        return datagrams;
                    }
                }
            }
        });
        Receiver { to, came, is_over, thread }
    }

    /// What has come when so many have.
    pub(super) fn datagrams(self, count: usize) -> Vec<Vec<u8>> {
        super::until("the last datagram", || self.came.load(Ordering::Relaxed) >= count);
        self.is_over.store(true, Ordering::Release);
        self.thread.join().expect("received")
    }
}

/// A server with a transport stream of so many seconds, which may be sent to these.
pub(super) fn joining(
    preset: GeometryPreset,
    seconds: u32,
    to: &[String],
    change: impl FnOnce(&mut ServeConfig),
) -> (Joining, Vec<u8>) {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().to_owned();
    let rig = Rig::with_geometry(preset, 64 << 20, |config| {
        admitting(config);
        config.join.directory = Some(path);
        config.join.to = to.iter().map(|to| to.parse().expect("a destination")).collect();
        change(config);
    });
    let stream = casts::stored(&rig, seconds);
    (Joining { rig, directory }, stream)
}

/// The key of a session of the transport stream.
pub(super) fn stream_session(rig: &Rig, class: &str) -> String {
    let answer = rig.connect().ask(&format!("GET /watch/stream/stream.ts?class={class}"), "");
    assert_eq!(answer.status, 307, "{}", answer.head);
    let location = answer.location().expect("a place to go");
    location.split('/').nth(2).expect("a key").to_owned()
}

/// A stream, cut into datagrams.
pub(super) fn datagrams_of(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    stream.chunks(PAYLOAD_BYTES)
}

pub(super) fn is_added(answer: &Answer) {
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
}

pub(super) fn refused(answer: &Answer, status: u16, says: &str) {
    let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(answer.status == status && detail.contains(says), "{} {detail}", answer.status);
}

/// In both kinds of classes, by both drivers, from both geometries.
#[test]
fn a_transport_stream_is_sent_over_udp() {
    let presets = [GeometryPreset::Ts, GeometryPreset::Cmaf];
    for ((driver, class), preset) in DRIVERS.into_iter().zip(["periodic", "aperiodic"]).zip(presets) {
        let receiver = Receiver::new();
        let to = format!("udp:{}", receiver.to);
        let (joining, stream) = joining(preset, 10, from_ref(&to), |config| config.driver = driver);
        let key = stream_session(&joining.rig, class);
        is_added(&joining.add(&key, &to));
        let ended = joining.ended(&key, 0);
        assert_eq!(ended["state"], "complete", "{driver:?}: {ended}");
        let datagrams = receiver.datagrams(datagrams_of(&stream).count());
        assert!(datagrams.iter().map(Vec::as_slice).eq(datagrams_of(&stream)), "{} came", datagrams.len());
        assert_eq!(ended["bytes"], stream.len(), "{ended}");
        println!("figures: {driver:?} {class}: {} late bytes", ended["late_bytes"]);
    }
}

#[test]
fn a_transport_stream_is_sent_over_rtp() {
    for (driver, class) in DRIVERS.into_iter().zip(["aperiodic", "periodic"]) {
        let receiver = Receiver::new();
        let to = format!("rtp:{}", receiver.to);
        let (joining, stream) =
            joining(GeometryPreset::Ts, 4, from_ref(&to), |config| config.driver = driver);
        let key = stream_session(&joining.rig, class);
        is_added(&joining.add(&key, &to));
        assert_eq!(joining.ended(&key, 0)["state"], "complete");
        let datagrams = receiver.datagrams(datagrams_of(&stream).count());
        let packets: Vec<_> =
            datagrams.iter().map(|datagram| Packet::parse(datagram).expect("RTP")).collect();
        assert!(packets.iter().map(|packet| packet.payload).eq(datagrams_of(&stream)), "other bytes");
        let first = packets[0];
        let ticks_of_all = packets[packets.len() - 1].time_stamp.wrapping_sub(first.time_stamp);
        assert!((3 * 90_000..5 * 90_000).contains(&ticks_of_all), "{ticks_of_all} ticks of four seconds");
        for (number, packet) in packets.iter().enumerate() {
            assert!(packet.is_plain && packet.payload_type == MP2T && packet.ssrc == first.ssrc);
            assert_eq!(packet.sequence, first.sequence.wrapping_add(number as u16));
        }
        let falls = packets.windows(2).find(|pair| {
            let step = pair[1].time_stamp.wrapping_sub(pair[0].time_stamp);
            step > 90_000
        });
        assert!(falls.is_none(), "{falls:?}");
    }
}

/// Has a player take two seconds of the stream from this address; the pictures that it decodes.
fn player(url: &str) -> Child {
    // What is lost may be the last of it, and then it would wait for ever.
    Command::new("timeout")
        .args([
            "60", "ffmpeg", "-nostdin", "-v", "error", "-i", url, "-map", "0:v", "-t", "2", "-f", "framecrc",
            "-",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ffmpeg is installed")
}

/// Whether a socket of this machine has this port.
fn is_bound(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/udp").expect("proc");
    sockets.contains(&format!(":{port:04X} "))
}

#[test]
fn a_player_shows_what_is_sent() {
    for word in ["udp", "rtp"] {
        // A free port, which the player takes.
        let port = UdpSocket::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port();
        let to = format!("{word}:127.0.0.1:{port}");
        let (joining, _) = joining(GeometryPreset::Ts, 12, from_ref(&to), |_| {});
        let player = player(&format!("{word}://127.0.0.1:{port}"));
        super::until("the player's socket", || is_bound(port));
        let key = stream_session(&joining.rig, "periodic");
        is_added(&joining.add(&key, &to));
        let output = player.wait_with_output().expect("it ends");
        let shown = String::from_utf8(output.stdout).expect("text");
        let pictures = shown.lines().filter(|line| line.starts_with("0,")).count();
        let said = String::from_utf8_lossy(&output.stderr);
        // What it looked at to find out what is sent, it does not always show.
        assert!(output.status.success() && pictures >= 25, "{word}: {pictures} pictures; {said}");
    }
}

/// It begins with a packet where the file beside it is, and disturbs that no more than it is
/// disturbed.
#[test]
fn a_further_outlet_begins_with_a_packet() {
    let receiver = Receiver::new();
    let to = format!("udp:{}", receiver.to);
    let (joining, stream) = joining(GeometryPreset::Ts, 20, from_ref(&to), |_| {});
    let key = stream_session(&joining.rig, "periodic");
    is_added(&add(&joining.rig, &key, &json!({ "to": "file:rest.ts", "from_byte": 1000 })));
    let added = joining.add(&key, &to);
    is_added(&added);
    let from = added.json()["from_byte"].as_u64().expect("a number") as usize;
    assert!(from > 1000 && from.is_multiple_of(188), "from byte {from}");
    for number in 0..2 {
        let ended = joining.ended(&key, number);
        assert_eq!(ended["state"], "complete", "{ended}");
    }
    assert!(std::fs::read(joining.path("rest.ts")).expect("written") == stream[1000..]);
    let datagrams = receiver.datagrams(datagrams_of(&stream[from..]).count());
    assert!(datagrams.iter().map(Vec::as_slice).eq(datagrams_of(&stream[from..])), "from byte {from}");
}

/// A class without deadlines continues at the pace of the stream, and the other way round.
#[test]
fn a_session_that_changes_its_class_is_sent_on() {
    for classes in [["periodic", "aperiodic"], ["aperiodic", "periodic"]] {
        let receiver = Receiver::new();
        let to = format!("udp:{}", receiver.to);
        let (joining, stream) = joining(GeometryPreset::Ts, 4, from_ref(&to), |_| {});
        let key = stream_session(&joining.rig, classes[0]);
        is_added(&joining.add(&key, &to));
        super::until("a first datagram", || {
            let outlet =
                joining.rig.connect().ask(&format!("GET /api/v1/sessions/{key}/outlets/0"), "").json();
            outlet["bytes"] != 0
        });
        let changed = change(&mut joining.rig.connect(), &key, classes[1], "");
        assert_eq!(changed.status, 200, "{}", String::from_utf8_lossy(&changed.body));
        let ended = joining.ended(&key, 0);
        assert_eq!(ended["state"], "complete", "{ended}");
        let datagrams = receiver.datagrams(datagrams_of(&stream).count());
        assert!(datagrams.iter().map(Vec::as_slice).eq(datagrams_of(&stream)), "{} came", datagrams.len());
    }
}

#[test]
fn what_cannot_be_sent_in_datagrams_is_refused() {
    let receiver = Receiver::new();
    let to = format!("udp:{}", receiver.to);
    let port = receiver.to.port();
    let broadcast = format!("udp:255.255.255.255:{port}");
    let control = format!("udp:224.0.0.0/24:{port}");
    let (joining, _) = joining(GeometryPreset::Ts, 20, &[to.clone(), broadcast.clone(), control], |_| {});
    let stream = stream_session(&joining.rig, "periodic");
    // A session of another form is told how to open one of this form.
    let film = session_of(&joining.rig, "film", "periodic");
    refused(&joining.add(&film, &to), 422, "/watch/film/film.ts");
    // What is not listed, also if it is for another kind.
    refused(&joining.add(&stream, &to.replace("udp", "rtp")), 403, "rtp:127.0.0.1");
    refused(&joining.add(&stream, &to.replace("udp", "tcp")), 403, "tcp:127.0.0.1");
    refused(&joining.add(&stream, "udp:127.0.0.2:9"), 403, "[join]");
    refused(&joining.add(&stream, "udp:localhost:5000"), 422, "udp:ADDRESS:PORT");
    // What is listed and no address of hosts or of a group that can be used.
    refused(&joining.add(&stream, &broadcast), 422, "neither");
    refused(&joining.add(&stream, &format!("udp:224.0.0.251:{port}")), 422, "239");
    // A second one to the same address, of whatever session.
    let added = joining.add(&stream, &to);
    is_added(&added);
    let number = &added.json()["number"];
    refused(&joining.add(&stream, &to), 409, "another outlet sends to");
    let other = stream_session(&joining.rig, "aperiodic");
    refused(&joining.add(&other, &to), 409, "another outlet sends to");
    let removed = format!("DELETE /api/v1/sessions/{stream}/outlets/{number}");
    assert_eq!(joining.rig.connect().ask(&removed, "").status, 204);
    is_added(&joining.add(&other, &to));
}

#[test]
fn a_group_of_a_cast_is_refused() {
    casts::in_a_network("server::joins::datagrams::inside::group_of_a_cast");
}

#[test]
fn a_group_in_another_network_gets_the_stream() {
    in_a_network("server::joins::datagrams::inside::group_behind_a_cable");
}

#[test]
fn an_outlet_ends_when_no_route_leads_to_its_address() {
    in_a_network("server::joins::datagrams::inside::no_route");
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of a_group_of_a_cast_is_refused, in a name space of its own"]
    fn group_of_a_cast() {
        let to = ["udp:239.1.1.0/24:5000", "udp:239.1.1.0/24:5002", "udp:239.1.1.0/24:5006"];
        let (joining, stream) = joining(GeometryPreset::Ts, 3, &to.map(str::to_owned), |_| {});
        casts::add(
            &joining.rig,
            r#"{"title":"stream","group":"239.1.1.1:5000","loop":true,"name":"on-air"}"#,
        );
        let key = stream_session(&joining.rig, "periodic");
        refused(&joining.add(&key, "udp:239.1.1.1:5000"), 409, "\"on-air\"");
        refused(&joining.add(&key, "udp:239.1.1.1:5002"), 409, "stop it");
        // Another port, or another group, is none of the cast's.
        let group = Ipv4Addr::new(239, 1, 1, 1);
        let socket = UdpSocket::bind((group, 5006)).expect("bound");
        socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED).expect("a member");
        let receiver = Receiver::on(socket);
        is_added(&joining.add(&key, "udp:239.1.1.1:5006"));
        // Nor may a cast begin where an outlet sends.
        let body = r#"{"title":"stream","group":"239.1.1.1:5006","loop":true,"name":"late"}"#;
        refused(&casts::ask(&joining.rig, body), 409, "is played to 239.1.1.1:5006");
        assert_eq!(joining.ended(&key, 0)["state"], "complete");
        let datagrams = receiver.datagrams(datagrams_of(&stream).count());
        assert!(datagrams.iter().map(Vec::as_slice).eq(datagrams_of(&stream)), "{} came", datagrams.len());
        // When the cast has ended, its group is free.
        assert_eq!(joining.rig.connect().ask("DELETE /api/v1/casts/on-air", "").status, 204);
        is_added(&joining.add(&key, "udp:239.1.1.1:5000"));
    }

    /// The group leaves by the interface of the configuration, and counts as another machine.
    #[test]
    #[ignore = "child of a_group_in_another_network_gets_the_stream, in a name space of its own"]
    fn group_behind_a_cable() {
        let far = Far::new(Some(LINK_BPS));
        let group = Ipv4Addr::new(239, 1, 1, 7);
        let to = ["rtp:239.1.1.0/24:5004".to_owned(), format!("udp:{}:5004", DESTINATIONS[0])];
        let (joining, stream) = joining(GeometryPreset::Cmaf, 5, &to, |config| {
            config.promise.network_bps = Some(LINK_BPS);
            config.promise.uplink = UplinkRate::Known(LINK_BPS);
            config.join.groups.interface = Some("near0".to_owned());
            config.join.groups.ttl = 3;
        });
        let receiver = Receiver::on(far.inside(|| {
            let socket = UdpSocket::bind((group, 5004)).expect("bound");
            socket.join_multicast_v4(&group, &DESTINATIONS[0]).expect("a member");
            socket
        }));
        let key = stream_session(&joining.rig, "periodic");
        is_added(&joining.add(&key, "rtp:239.1.1.7:5004"));
        refused(&joining.add(&key, &to[1]), 429, "open another session");
        let ended = joining.ended(&key, 0);
        assert_eq!(ended["state"], "complete", "{ended}");
        let datagrams = receiver.datagrams(datagrams_of(&stream).count());
        let payloads = datagrams.iter().map(|datagram| &datagram[HEADER_BYTES..]);
        assert!(payloads.eq(datagrams_of(&stream)), "{} came", datagrams.len());
        println!("figures: {} late of {} bytes", ended["late_bytes"], ended["bytes"]);
    }

    #[test]
    #[ignore = "child of an_outlet_ends_when_no_route_leads_to_its_address, in a name space of its own"]
    fn no_route() {
        let to = "udp:10.99.0.1:5000".to_owned();
        let (joining, _) = joining(GeometryPreset::Ts, 3, from_ref(&to), |_| {});
        let key = stream_session(&joining.rig, "periodic");
        is_added(&joining.add(&key, &to));
        let ended = joining.ended(&key, 0);
        let why = ended["reason"].as_str().unwrap_or_default();
        assert!(ended["state"] == "ended" && why.contains("ip route add"), "{ended}");
    }
}
