//! ffmpeg checks what a sender sends: an MPEG transport stream over RTP (RFC 2250), whose pictures
//! and sound must come out unchanged. Without ffmpeg the test is skipped, with a visible message.

use reel_arena::{Arena, ArenaConfig, Lease};
use reel_ring::{Ring, RingConfig};
use reel_udp::{Pacer, Packets, UdpSender, UdpStep};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const HEADER_BYTES: usize = 12;
const PAYLOAD_BYTES: usize = 1316;
const SOURCE: u32 = 0x5ee1_0001;

/// Pictures and sounds of a file, each with its checksum, without the times at which they came.
fn frames(path: &Path) -> Vec<String> {
    let output = ffmpeg().arg("-i").arg(path).args(["-f", "framemd5", "-"]).output().expect("ffmpeg runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let frame = |line: &str| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        format!("{} {}", fields[0], fields[fields.len() - 1])
    };
    text.lines().filter(|line| !line.starts_with('#')).map(frame).collect()
}

fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y"]);
    command
}

fn make(path: &Path) {
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

/// ffmpeg, with SDP (RFC 4566) that gives the port to listen at. Payload type 33 is a transport
/// stream.
fn receiver(dir: &Path, port: u16, to: &Path) -> Child {
    let sdp = dir.join("session.sdp");
    let text = format!(
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video {port} RTP/AVP 33\r\na=rtpmap:33 MP2T/90000\r\n"
    );
    fs::write(&sdp, text).expect("written");
    ffmpeg()
        .args([
            "-protocol_whitelist",
            "file,udp,rtp",
            "-rw_timeout",
            "4000000",
            "-reorder_queue_size",
            "0",
            "-i",
        ])
        .arg(&sdp)
        .args(["-map", "0", "-c", "copy", "-t", "3", "-f", "mpegts"])
        .arg(to)
        .stderr(Stdio::piped())
        .spawn()
        .expect("ffmpeg starts")
}

/// Whether a process listens there: then a second socket is refused the port.
fn wait_for(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
        assert!(Instant::now() < deadline, "ffmpeg does not listen");
        thread::sleep(Duration::from_millis(20));
    }
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

#[test]
fn ffmpeg_plays_what_is_sent() {
    if Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).status().is_err() {
        return println!("skipped: no ffmpeg");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (sent, received) = (dir.path().join("sent.ts"), dir.path().join("received.ts"));
    make(&sent);
    let stream = fs::read(&sent).expect("made");

    let bytes = stream.len().next_multiple_of(4096);
    let shape = ArenaConfig { buffer_bytes: bytes, buffer_count: 2, cells_per_buffer: 1, huge_pages: false };
    let arena = Arena::new(shape).expect("an arena");
    let mut payload = arena.take(bytes).expect("free");
    payload[..stream.len()].copy_from_slice(&stream);
    let payload = payload.freeze().slice(0..stream.len());
    let headers = headers(&arena, stream.len().div_ceil(PAYLOAD_BYTES));

    // An even port, as RTP requires. The port after it is that of RTCP.
    let port = loop {
        let port =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("bound").port();
        if port.is_multiple_of(2) {
            break port;
        }
    };
    let mut judge = receiver(dir.path(), port, &received);
    wait_for(port);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let begun = Instant::now();
    let now_ns = || begun.elapsed().as_nanos() as u64;
    let rate_bps = NonZeroU64::new(4_000_000).expect("a rate");
    let mut sender = UdpSender::new(Arc::new(socket.into()));
    let to = (Ipv4Addr::LOCALHOST, port).into();
    let id = sender.open(to, Pacer::new(rate_bps, now_ns())).expect("room for a flow");
    let mut ring = Ring::new(RingConfig::default(), Some(&arena)).expect("a ring");
    sender.offer(id, Packets::headed(headers, HEADER_BYTES, payload, PAYLOAD_BYTES)).expect("room");
    let mut done = Vec::new();
    while !sender.is_idle() {
        let wait = match sender.step(now_ns()) {
            UdpStep::Push { slot, op, .. } => {
                ring.push(slot.into(), op);
                Some(Duration::ZERO)
            }
            UdpStep::At(due_ns) => Some(Duration::from_nanos(due_ns.saturating_sub(now_ns()))),
            UdpStep::Idle => None,
        };
        ring.wait(wait, &mut done).expect("the ring works");
        done.drain(..).for_each(|done| sender.done(now_ns(), done.token as u32, done));
    }
    let counts = sender.flow(id).expect("an open flow").counts;
    assert_eq!(counts.packets + counts.refused_packets, stream.len().div_ceil(PAYLOAD_BYTES) as u64);
    end(&mut judge);
    let (expected, got) = (frames(&sent), frames(&received));
    for track in ["0", "1"] {
        let of = |frames: &[String]| -> Vec<String> {
            frames.iter().filter(|frame| frame.starts_with(track)).cloned().collect()
        };
        let (expected, got) = (of(&expected), of(&got));
        assert!(got.len() >= 70, "track {track}: {} frames came out", got.len());
        assert!(expected.starts_with(&got), "track {track}: differs from what was sent");
    }
}

/// ffmpeg has ended by itself if it got its three seconds.
fn end(judge: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while judge.try_wait().expect("waited").is_none() {
        if Instant::now() > deadline {
            judge.kill().expect("ended");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
