//! ffmpeg receives a stream while it is sent: whether it reads its socket in time depends on the
//! machine.

use crate::judge::{RATE_BPS, Sent, ffmpeg, frames, has_ffmpeg, make, packets};
use reel_ring::{Ring, RingConfig};
use reel_udp::{Pacer, UdpSender, UdpStep};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Only ends a test that hangs.
const LONG: Duration = Duration::from_secs(120);

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
            "120000000",
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
    let deadline = Instant::now() + LONG;
    while UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
        assert!(Instant::now() < deadline, "ffmpeg does not listen");
        thread::sleep(Duration::from_millis(20));
    }
}

/// An even port, as RTP requires. The port after it is that of RTCP.
fn even_port() -> u16 {
    let port =
        || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("bound").port();
    std::iter::repeat_with(port).find(|port| port.is_multiple_of(2)).expect("an even one")
}

#[test]
#[ignore = "night"]
fn ffmpeg_plays_what_is_sent() {
    if !has_ffmpeg() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (made, received) = (dir.path().join("sent.ts"), dir.path().join("received.ts"));
    make(&made);
    let Sent { arena, packets, count } = packets(&fs::read(&made).expect("made"));
    let port = even_port();
    let mut judge = receiver(dir.path(), port, &received);
    wait_for(port);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let begun = Instant::now();
    let now_ns = || begun.elapsed().as_nanos() as u64;
    let rate_bps = NonZeroU64::new(RATE_BPS).expect("a rate");
    let mut sender = UdpSender::new(Arc::new(socket.into()));
    let to = (Ipv4Addr::LOCALHOST, port).into();
    let id = sender.open(to, Pacer::new(rate_bps, now_ns())).expect("room for a flow");
    let mut ring = Ring::new(RingConfig::default(), Some(&arena)).expect("a ring");
    sender.offer(id, packets).expect("room");
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
    assert_eq!(counts.packets + counts.refused_packets, count as u64);
    end(&mut judge);
    let (expected, got) = (frames(&made), frames(&received));
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
    let deadline = Instant::now() + LONG;
    while judge.try_wait().expect("waited").is_none() {
        if Instant::now() > deadline {
            judge.kill().expect("ended");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
