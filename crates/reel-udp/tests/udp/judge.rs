//! ffmpeg checks what a sender sends: an MPEG transport stream over RTP (RFC 2250), whose pictures
//! and sound must come out unchanged. Without ffmpeg the test is skipped, with a visible message.
//! The test receives the packets itself: how fast ffmpeg reads a socket depends on the machine, so
//! ffmpeg does that at night.

use crate::loopback::{drive, pacer, receiver, take_all};
use reel_arena::{Arena, ArenaConfig, Lease};
use reel_ring::{Ring, RingConfig};
use reel_udp::{Packets, UdpSender};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

const HEADER_BYTES: usize = 12;
const PAYLOAD_BYTES: usize = 1316;
const SOURCE: u32 = 0x5ee1_0001;
/// The rate of the stream.
pub(crate) const RATE_BPS: u64 = 4_000_000;

/// A transport stream as packets with headers of RTP, and the memory that they lie in.
pub(crate) struct Sent {
    pub(crate) arena: Arena,
    pub(crate) packets: Packets,
    pub(crate) count: usize,
}

/// Whether ffmpeg is installed; prints that the test is skipped if it is not.
pub(crate) fn has_ffmpeg() -> bool {
    let is_here = Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).status().is_ok();
    if !is_here {
        println!("skipped: no ffmpeg");
    }
    is_here
}

/// Pictures and sounds of a file, each with its checksum, without the times at which they came.
pub(crate) fn frames(path: &Path) -> Vec<String> {
    let output = ffmpeg().arg("-i").arg(path).args(["-f", "framemd5", "-"]).output().expect("ffmpeg runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let frame = |line: &str| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        format!("{} {}", fields[0], fields[fields.len() - 1])
    };
    text.lines().filter(|line| !line.starts_with('#')).map(frame).collect()
}

pub(crate) fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y"]);
    command
}

pub(crate) fn make(path: &Path) {
    let source = [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=320x180:rate=25:duration=4",
        "-f",
        "lavfi",
        "-i",
        "sine=duration=4",
    ];
    let codecs =
        ["-c:v", "mpeg2video", "-g", "12", "-b:v", "2M", "-c:a", "mp2", "-f", "mpegts", "-muxrate", "4M"];
    let status = ffmpeg().args(source).args(codecs).arg(path).status().expect("ffmpeg runs");
    assert!(status.success());
}

fn headers(arena: &Arena, count: usize) -> Lease {
    let mut buffer = arena.take(count * HEADER_BYTES).expect("a free buffer");
    for (packet, header) in buffer[..count * HEADER_BYTES].chunks_mut(HEADER_BYTES).enumerate() {
        // 4 Mb/s on a clock of 90 kHz.
        let timestamp = (packet * PAYLOAD_BYTES * 8 * 9 / 400) as u32;
        header[..2].copy_from_slice(&[0x80, 33]);
        header[2..4].copy_from_slice(&(packet as u16).to_be_bytes());
        header[4..8].copy_from_slice(&timestamp.to_be_bytes());
        header[8..].copy_from_slice(&SOURCE.to_be_bytes());
    }
    buffer.freeze().slice(0..count * HEADER_BYTES)
}

/// The packets of a stream.
pub(crate) fn packets(stream: &[u8]) -> Sent {
    let bytes = stream.len().next_multiple_of(4096);
    let shape = ArenaConfig { buffer_bytes: bytes, buffer_count: 2, cells_per_buffer: 1, huge_pages: false };
    let arena = Arena::new(shape).expect("an arena");
    let mut payload = arena.take(bytes).expect("free");
    payload[..stream.len()].copy_from_slice(stream);
    let payload = payload.freeze().slice(0..stream.len());
    let count = stream.len().div_ceil(PAYLOAD_BYTES);
    let headers = headers(&arena, count);
    Sent { arena, packets: Packets::headed(headers, HEADER_BYTES, payload, PAYLOAD_BYTES), count }
}

/// The stream that received packets carry: of this source, in order, and none missing (RFC 3550
/// section 5.1).
fn carried(received: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (number, packet) in received.iter().enumerate() {
        let (header, payload) = packet.split_at(HEADER_BYTES);
        assert_eq!(header[..4], [[0x80, 33], (number as u16).to_be_bytes()].concat(), "packet {number}");
        assert_eq!(header[8..], SOURCE.to_be_bytes(), "packet {number}");
        stream.extend_from_slice(payload);
    }
    stream
}

#[test]
fn what_is_sent_is_the_film_to_ffmpeg() {
    if !has_ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (made, received) = (dir.path().join("sent.ts"), dir.path().join("received.ts"));
    make(&made);
    let Sent { arena, packets, count } = packets(&fs::read(&made).expect("made"));
    let (receiver, to) = receiver();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let mut sender = UdpSender::new(Arc::new(socket.into()));
    let id = sender.open(to, pacer(RATE_BPS)).expect("room for a flow");
    let mut ring =
        Ring::new(RingConfig { entries: 16, ..RingConfig::default() }, Some(&arena)).expect("a ring");
    sender.offer(id, packets).expect("room");
    let mut got = Vec::new();
    drive(&mut ring, &mut sender, || take_all(&receiver, &mut got));
    let counts = sender.flow(id).expect("an open flow").counts;
    assert_eq!((counts.packets, counts.refused_packets, got.len()), (count as u64, 0, count));
    fs::write(&received, carried(&got)).expect("written");
    let (expected, got) = (frames(&made), frames(&received));
    for track in ["0", "1"] {
        let of = |frames: &[String]| frames.iter().filter(|frame| frame.starts_with(track)).count();
        assert!(of(&got) >= 90, "track {track}: {} frames came out", of(&got));
    }
    assert!(got == expected, "what came out differs from what was sent");
}
