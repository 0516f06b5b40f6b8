//! Foreign receivers of casts: ffmpeg plays them frame by frame, GStreamer repairs them with their
//! FEC, and tshark reads their headers. In a network name space that ends with the test.

use crate::foreign::frames::assert_same;
use crate::foreign::rig::run;
use crate::kept::kept;
use crate::server::casts::{PAYLOAD_BYTES, Received, Receiver, add, await_state, in_a_network, rig, store};
use crate::server::rig::Rig;
use reel_compare::{Bounds, pictures};
use reel_disk::Fault;
use reel_library::{IngestOptions, Input};
use reel_rtp::Packet;
use reel_rtp::fec::FecPacket;
use reel_testkit::{Capture, Rng, run_in_own_network};
use reel_volume::GeometryPreset;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Every wait ends after this time with a failure.
const PATIENCE: Duration = Duration::from_secs(120);
/// Half of what a socket has by default.
const ROOM_BYTES: u64 = 100_000;

const PORT: u16 = 5000;

#[test]
fn ffmpeg_shows_every_picture_of_a_cast() {
    in_a_network("foreign::casts::inside::ffmpeg");
}

#[test]
fn ffmpeg_shows_every_picture_without_a_member() {
    in_a_network("foreign::casts::inside::ffmpeg_without_a_member");
}

#[test]
fn ffmpeg_shows_one_title_after_another() {
    in_a_network("foreign::casts::inside::ffmpeg_playlist");
}

#[test]
fn ffmpeg_finds_a_cast_by_its_announcement() {
    in_a_network("foreign::casts::inside::ffmpeg_by_announcement");
}

#[test]
fn ffmpeg_receives_groups_of_ipv6_and_of_one_source() {
    let setup = "ip link set lo up && ip link add cast0 type veth peer name cast1 && ip link set cast1 up && \
                 ip link set cast0 up && ip addr add 10.9.0.1/24 dev cast0 && \
                 ip route add 224.0.0.0/4 dev cast0 && ip -6 addr add fd09::1/64 dev cast0 nodad";
    run_in_own_network(setup, "foreign::casts::inside::ffmpeg_other_groups");
}

#[test]
fn gstreamer_gets_back_what_the_parity_can_repair() {
    with_gstreamer("foreign::casts::inside::gstreamer");
}

/// Matrices of 32 x 4, which SMPTE ST 2022-1 does not allow.
#[test]
fn gstreamer_gets_back_what_the_parity_of_larger_matrices_can_repair() {
    with_gstreamer("foreign::casts::inside::gstreamer_cmaf");
}

fn with_gstreamer(test: &str) {
    if !Command::new("gst-launch-1.0").arg("--version").output().is_ok_and(|said| said.status.success()) {
        return println!("skipped: no gst-launch-1.0");
    }
    let element = "rtpst2022-1-fecdec";
    let found = Command::new("gst-inspect-1.0").args(["--exists", element]).status();
    if !found.is_ok_and(|status| status.success()) {
        return println!("skipped: no {element} of GStreamer");
    }
    in_a_network(test);
}

#[test]
fn tshark_reads_every_header_of_a_cast() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return println!("skipped: no tshark");
    }
    in_a_network("foreign::casts::inside::tshark");
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of ffmpeg_shows_every_picture_of_a_cast, in a name space of its own"]
    fn ffmpeg() {
        assert_ffmpeg_shows_every_picture(false);
    }

    #[test]
    #[ignore = "child of ffmpeg_shows_every_picture_without_a_member, in a name space of its own"]
    fn ffmpeg_without_a_member() {
        assert_ffmpeg_shows_every_picture(true);
    }

    /// Streams that Reel has made say where their clock and counters begin. So ffmpeg takes no
    /// packet for damaged.
    #[test]
    #[ignore = "child of ffmpeg_shows_one_title_after_another, in a name space of its own"]
    fn ffmpeg_playlist() {
        let rig = rig(GeometryPreset::Ts);
        let films = ["one", "two"].map(|name| made(&rig, name));
        let shown = films.map(|film| pictures(film.to_str().unwrap()).unwrap()).concat();
        add(&rig, r#"{"title":"one","then":["two","one"],"group":"239.1.1.1:5000","name":"list"}"#);
        let url = format!("http://{}/casts/list.sdp", rig.address());
        let received = Copying::start(&rig, &url, "list").until_its_end();
        let received = pictures(received.to_str().unwrap()).unwrap();
        let sums: Vec<_> = shown.iter().chain(&shown[..shown.len() / 2]).map(|it| &it.sum).collect();
        let missed = sums.iter().position(|sum| **sum == received[0].sum).expect("a picture");
        println!("figures: {missed} of {} pictures came before it joined", sums.len());
        // The last picture ends with what follows it, and nothing does.
        let last = sums.len() - missed - received.len();
        assert!(missed < 75 && last <= 1, "{missed} and {last} of {}", sums.len());
        assert!(received.iter().map(|it| &it.sum).eq(sums[missed..sums.len() - last].iter().copied()));
    }

    #[test]
    #[ignore = "child of ffmpeg_finds_a_cast_by_its_announcement, in a name space of its own"]
    fn ffmpeg_by_announcement() {
        let rig = rig(GeometryPreset::Ts);
        let shown = pictures(stored(&rig, 8).to_str().unwrap()).unwrap();
        let mut listening = Copying::start(&rig, "sap://224.2.127.254:9875", "announced");
        await_that(&mut listening.program, "its port", || {
            fs::read_to_string("/proc/net/udp").unwrap().contains(":2693 ")
        });
        add(&rig, r#"{"title":"stream","group":"239.1.1.1:5000"}"#);
        let received = pictures(listening.until_its_end().to_str().unwrap()).unwrap();
        let missed = shown.iter().position(|picture| picture.sum == received[0].sum).expect("a picture");
        assert!(received.iter().map(|it| &it.sum).eq(shown[missed..].iter().map(|it| &it.sum)));
    }

    #[test]
    #[ignore = "child of ffmpeg_receives_groups_of_ipv6_and_of_one_source, in a name space of its own"]
    fn ffmpeg_other_groups() {
        let rig = rig(GeometryPreset::Ts);
        let shown = pictures(stored(&rig, 8).to_str().unwrap()).unwrap();
        for (number, group) in ["[ff15::1]:5000", "[ff3e::8000:1]:5000", "232.1.1.1:5000"].iter().enumerate()
        {
            let name = format!("cast-{number}");
            let wanted = format!(
                r#"{{"title":"stream","group":"{group}","name":"{name}","interface":"cast0","ttl":3}}"#
            );
            add(&rig, &wanted);
            let url = format!("http://{}/casts/{name}.sdp", rig.address());
            let received = pictures(Copying::start(&rig, &url, &name).until_its_end().to_str().unwrap());
            let received = received.unwrap();
            let missed = shown.iter().position(|picture| picture.sum == received[0].sum).expect("a picture");
            println!("figures: {group}: {missed} of {} pictures came before it joined", shown.len());
            assert!(received.iter().map(|it| &it.sum).eq(shown[missed..].iter().map(|it| &it.sum)));
        }
    }

    #[test]
    #[ignore = "child of gstreamer_gets_back_what_the_parity_can_repair, in a name space of its own"]
    fn gstreamer() {
        assert_gstreamer_repairs(GeometryPreset::Ts);
    }

    #[test]
    #[ignore = "child of gstreamer_gets_back_what_the_parity_of_larger_matrices_can_repair, in a name space of its own"]
    fn gstreamer_cmaf() {
        assert_gstreamer_repairs(GeometryPreset::Cmaf);
    }

    #[test]
    #[ignore = "child of tshark_reads_every_header_of_a_cast, in a name space of its own"]
    fn tshark() {
        let rig = rig(GeometryPreset::Ts);
        stored(&rig, 8);
        let receiver = Receiver::join(Ipv4Addr::new(239, 1, 1, 1), PORT);
        let cast = add(&rig, r#"{"title":"stream","group":"239.1.1.1:5000"}"#);
        let received = receiver.until_goodbye();
        let mut capture = Capture::new();
        for (ports, packets) in [(0, &received.media), (2, &received.fec), (1, &received.rtcp)] {
            packets.iter().for_each(|packet| capture.add(PORT + ports, packet));
        }
        let lines = capture.dissect(PORT, FIELDS).expect("tshark was there");
        let expected = [expected_media(&received), expected_fec(&received, &cast["fec"])].concat();
        let (headers, reports) = lines.split_at(expected.len());
        for (line, expected) in headers.iter().zip(&expected) {
            assert_eq!(line, expected);
        }
        assert_eq!(reports.len(), received.rtcp.len());
        check_reports(reports, &received);
    }
}

/// Stores pictures and sound of so many seconds at a constant rate, and returns the file.
fn stored(rig: &Rig, seconds: u32) -> PathBuf {
    let made = kept(&format!("cast-{seconds}.ts"), |path| {
        let pictures = format!("testsrc2=s=640x360:r=25:d={seconds},noise=alls=12:allf=t:all_seed=1");
        let sound = format!("anoisesrc=d={seconds}:seed=1:a=0.3");
        run(Command::new("ffmpeg")
            .args([
                "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", &pictures, "-f", "lavfi", "-i", &sound,
            ])
            .args(["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "25", "-bf", "2"])
            .args(["-b:v", "2200k", "-maxrate", "2200k", "-bufsize", "400k", "-c:a", "aac", "-b:a", "128k"])
            // A receiver cannot know that a picture without a length has ended, if none follows it.
            .args(["-omit_video_pes_length", "0", "-muxrate", "3000k", "-pat_period", "0.08", "-f", "mpegts"])
            .arg(path));
    });
    let file = rig.path("stream.ts");
    fs::copy(made, &file).unwrap();
    store(rig, &file);
    file
}

/// Stores a film as a stream that Reel makes of it, and returns the film.
fn made(rig: &Rig, name: &str) -> PathBuf {
    let file = rig.path(&format!("{name}.mkv"));
    let seed = if name == "one" { 1 } else { 2 };
    let pictures = format!("testsrc2=s=320x180:r=25:d=4,noise=alls=12:allf=t:all_seed={seed}");
    run(Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", &pictures])
        .args(["-f", "lavfi", "-i", "sine=440:d=4", "-c:v", "libx264", "-preset", "veryfast"])
        .args(["-pix_fmt", "yuv420p", "-g", "25", "-bf", "2", "-c:a", "aac"])
        .arg(&file));
    let options = IngestOptions { stream: true, ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(file.clone())], &options, &mut |_| {}).expect("taken");
    file
}

/// Waits until `is_so`, or panics with what the program said.
fn await_that(program: &mut Program, what: &str, mut is_so: impl FnMut() -> bool) {
    let from = Instant::now();
    while !is_so() {
        let ended = program.child.try_wait().unwrap();
        assert!(ended.is_none(), "{what}: ended with {ended:?}: {}", program.said());
        assert!(from.elapsed() < PATIENCE, "{what}: waited for too long: {}", program.said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A foreign program that runs until it is stopped.
struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    fn start(command: &mut Command, log: PathBuf) -> Program {
        let file = fs::File::create(&log).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Program { child, log }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has opened these ports.
    fn await_ports(&mut self, ports: [u16; 2]) {
        await_that(self, "its ports", || {
            let open = fs::read_to_string("/proc/net/udp").unwrap();
            ports.iter().all(|port| open.contains(&format!(":{port:04X} ")))
        });
    }

    /// Has it end.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let from = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(from.elapsed() < PATIENCE, "it does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A failed test leaves nothing behind. One that has ended is not there any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// ffmpeg, which copies what it receives into a file.
struct Copying {
    program: Program,
    file: PathBuf,
}

impl Copying {
    fn start(rig: &Rig, description: &str, name: &str) -> Copying {
        let [file, log] = ["ts", "log"].map(|kind| rig.path(&format!("{name}.{kind}")));
        let mut command = Command::new("ffmpeg");
        command
            .args(["-nostdin", "-v", "warning", "-protocol_whitelist", "file,http,tcp,udp,rtp,sap"])
            .args(["-analyzeduration", "1000000", "-i", description])
            .args(["-map", "0:v", "-map", "0:a", "-c", "copy"])
            .arg(&file);
        Copying { program: Program::start(&mut command, log), file }
    }

    /// Waits until it ends, which it does when the cast has said goodbye.
    fn until_its_end(mut self) -> PathBuf {
        let from = Instant::now();
        let status = loop {
            if let Some(status) = self.program.child.try_wait().unwrap() {
                break status;
            }
            assert!(from.elapsed() < PATIENCE, "it does not end: {}", self.program.said());
            std::thread::sleep(Duration::from_millis(20));
        };
        let said = self.program.said();
        assert!(status.success() && !said.contains("timed out"), "{status}: {said}");
        assert!(!said.contains("corrupt"), "{said}");
        self.file
    }
}

/// One ffmpeg that listens before the cast begins, and one that joins while it is sent. A member
/// may be pulled meanwhile.
fn assert_ffmpeg_shows_every_picture(is_pulled: bool) {
    let rig = rig(GeometryPreset::Ts);
    let source = stored(&rig, 8);
    let source = source.to_str().unwrap();
    let shown = pictures(source).unwrap();
    // A cast that is stopped before its first packet gives the description.
    let wanted = r#"{"title":"stream","group":"239.1.1.1:5000"}"#;
    add(&rig, wanted);
    let description = rig.connect().ask("GET /casts/stream.sdp", "");
    assert_eq!(description.field("Content-Type"), Some("application/sdp"));
    assert_eq!(rig.connect().ask("DELETE /api/v1/casts/stream", "").status, 204);
    let file = rig.path("stream.sdp");
    fs::write(&file, &description.body).unwrap();
    let mut early = Copying::start(&rig, file.to_str().unwrap(), "early");
    early.program.await_ports([PORT, PORT + 2]);
    add(&rig, wanted);
    await_state(&rig, "stream", "on-air");
    let url = format!("http://{}/casts/stream.sdp", rig.address());
    let late = Copying::start(&rig, &url, "late");
    if is_pulled {
        std::thread::sleep(Duration::from_secs(1));
        rig.faults.inject(1, Fault::Vanish);
    }
    let state = await_state(&rig, "stream", "ended");
    assert_eq!(state["lost_packets"], 0, "{state}");
    assert_eq!(rig.metric("reel_member_errors_total") > 0.0, is_pulled);
    // How many left late depends on the machine that tests run on: in the time of `reel-sim`, none
    // does.
    println!("figures: {} of {} packets left late", state["late_packets"], state["packets"]);
    let symbols = fs::metadata(source).unwrap().len().div_ceil(PAYLOAD_BYTES as u64).next_multiple_of(80);
    assert_eq!((&state["packets"], &state["fec_packets"]), (&symbols.into(), &(symbols / 4).into()));
    assert_same(source, early.until_its_end().to_str().unwrap(), Bounds::FRAGMENTS, "the cast");
    let received = pictures(late.until_its_end().to_str().unwrap()).unwrap();
    let missed = shown.iter().position(|picture| picture.sum == received[0].sum).expect("a picture");
    println!("figures: {missed} of {} pictures were sent before the late receiver joined", shown.len());
    let is_same = received.iter().map(|picture| &picture.sum).eq(shown[missed..].iter().map(|it| &it.sum));
    assert!(is_same, "{} pictures from number {missed} on", received.len());
}

/// What was lost of media and FEC, by two pipelines at different rates.
fn assert_gstreamer_repairs(preset: GeometryPreset) {
    let rig = rig(preset);
    stored(&rig, 12);
    let links = [Link::new(&rig, 1), Link::new(&rig, 5)];
    let forward = |ports: u16| {
        let mut lossy = links.each_ref().map(|link| (send_to(link.port + ports), link.losses(ports)));
        move |packet: &[u8]| {
            for (sender, losses) in &mut lossy {
                if !losses.next().unwrap() {
                    sender.send(packet.to_vec()).expect("it sends");
                }
            }
        }
    };
    let receiver = Receiver::forward(Ipv4Addr::new(239, 1, 1, 1), PORT, forward(0), forward(2));
    let cast = add(&rig, r#"{"title":"stream","group":"239.1.1.1:5000"}"#);
    assert_eq!(cast["fec"]["is_strict"], preset == GeometryPreset::Ts);
    let received = receiver.until_goodbye();
    assert_eq!(await_state(&rig, "stream", "ended")["lost_packets"], 0);
    for link in links {
        link.check(&received, &cast["fec"]);
    }
}

/// A link that loses packets, and the pipeline at its end.
struct Link {
    percent: u64,
    port: u16,
    pipeline: Program,
    file: PathBuf,
}

impl Link {
    fn new(rig: &Rig, percent: u64) -> Link {
        let port = 6000 + 10 * percent as u16;
        let file = rig.path(&format!("{percent}.packets"));
        let elements = format!(
            "udpsrc address=127.0.0.1 port={fec} caps=application/x-rtp,payload=96 ! queue \
             ! r.recv_fec_sink_0_0 \
             udpsrc address=127.0.0.1 port={port} \
             caps=application/x-rtp,media=video,clock-rate=90000,encoding-name=MP2T,payload=33 ! queue \
             ! r.recv_rtp_sink_0 \
             r. ! rtpstreampay ! filesink buffer-mode=unbuffered location={file}",
            fec = port + 2,
            file = file.display()
        );
        let mut command = Command::new("gst-launch-1.0");
        command.args(["rtpbin", "name=r", "latency=5000"]);
        command.arg(r#"fec-decoders=fec,0="rtpst2022-1-fecdec\ size-time\=10000000000";"#);
        command.args(elements.split(' '));
        let mut pipeline = Program::start(&mut command, rig.path(&format!("{percent}.log")));
        pipeline.await_ports([port, port + 2]);
        Link { percent, port, pipeline, file }
    }

    /// Which packets of a port are lost.
    fn losses(&self, ports: u16) -> impl Iterator<Item = bool> + Send + 'static {
        let (mut random, percent) = (Rng::new(self.percent).part(u64::from(ports)), self.percent);
        std::iter::repeat_with(move || random.below(100) < percent)
    }

    /// Fails unless what came out is all that arrived, and all that its FEC packets can repair.
    fn check(mut self, received: &Received, fec: &Value) {
        let lost: Vec<bool> = self.losses(0).take(received.media.len()).collect();
        let lost_fec = self.losses(2).take(received.fec.len());
        let first = sequence_of(&received.media[0]);
        let number = |sequence: u16| usize::from(sequence.wrapping_sub(first));
        let side = |name: &str| fec[name].as_u64().expect("a number") as usize;
        let mut repairable = BTreeSet::new();
        for (packet, _) in received.fec.iter().zip(lost_fec).filter(|(_, is_lost)| !is_lost) {
            let base = number(FecPacket::parse(packet).expect("FEC").header.base);
            let column = (0..side("rows")).map(|row| base + row * side("columns"));
            let missing: Vec<usize> = column.filter(|at| lost[*at]).collect();
            repairable.extend(<[usize; 1]>::try_from(missing).ok().map(|[at]| at));
        }
        // What is lost before the first packet or after the last one is not missed.
        let arrived: Vec<usize> = (0..lost.len()).filter(|at| !lost[*at]).collect();
        let (start, end) = (arrived[0], arrived[arrived.len() - 1]);
        repairable.retain(|at| (start..end).contains(at));
        let (file, last) = (self.file, end);
        let come = || packets_of(&file).into_iter().map(|packet| (number(sequence_of(&packet)), packet));
        await_that(&mut self.pipeline, "the last packet", || come().any(|(at, _)| at == last));
        self.pipeline.stop();
        let come: BTreeMap<usize, Vec<u8>> = come().collect();
        for (at, packet) in &come {
            let sent = &received.media[*at];
            // No FEC packet carries the source, and GStreamer leaves that of what it repairs empty.
            // A packet that arrives after its FEC packet was repaired before.
            let has_source = packet[8..12] == sent[8..12] || packet[8..12] == [0; 4];
            let is_same = packet[..8] == sent[..8] && has_source && packet[12..] == sent[12..];
            assert!(is_same, "packet {at} (lost: {}) differs", lost[*at]);
        }
        let back: BTreeSet<usize> = come.keys().copied().filter(|at| lost[*at]).collect();
        let count = lost.iter().filter(|is_lost| **is_lost).count();
        let (percent, all) = (self.percent, lost.len());
        println!("figures: {percent} % of {all} packets: {} of {count} lost ones came back", back.len());
        assert_eq!(come.len() - back.len(), arrived.len());
        assert_eq!(back, repairable);
        // Each of the others of its column and the FEC packet must have arrived.
        let expected = count as f64 * (1.0 - percent as f64 / 100.0).powi(side("rows") as i32);
        assert!((back.len() as f64 - expected).abs() < 0.15 * count as f64 + 2.0, "{expected} expected");
    }
}

/// Sends packets to a port of this machine from a thread of its own, each when the receiver has
/// room for it: what a slow receiver leaves in its socket must not be lost beside what the link
/// loses.
fn send_to(port: u16) -> mpsc::Sender<Vec<u8>> {
    let (sender, packets) = mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for packet in packets {
            let from = Instant::now();
            while queued_bytes(port) > ROOM_BYTES && from.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            }
            socket.send_to(&packet, (Ipv4Addr::LOCALHOST, port)).expect("sent");
        }
    });
    sender
}

/// What waits in the socket of a port, with what the kernel needs for it.
fn queued_bytes(port: u16) -> u64 {
    let sockets = fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let of_port = format!(":{port:04X}");
    let mut queues = sockets.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_of_port = fields.next()?.ends_with(&of_port);
        let queue = fields.nth(2).filter(|_| is_of_port)?.split_once(':')?.1;
        u64::from_str_radix(queue, 16).ok()
    });
    queues.next().unwrap_or(0)
}

fn sequence_of(packet: &[u8]) -> u16 {
    Packet::parse(packet).expect("RTP").sequence
}

/// Packets with their length in front (RFC 4571). One that is not whole yet is left out.
fn packets_of(file: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(file).unwrap_or_default();
    let (mut packets, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let Some((packet, behind)) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length))) else {
            break;
        };
        packets.push(packet.to_vec());
        rest = behind;
    }
    packets
}

/// What tshark is asked for, of each packet. Fields that a packet does not have are empty.
const FIELDS: &str = "udp.dstport rtp.version rtp.padding rtp.ext rtp.cc rtp.marker rtp.p_type \
rtp.seq rtp.timestamp rtp.ssrc mp2t.pid mp2t.cc 2dparityfec.snbase_low 2dparityfec.lr 2dparityfec.e \
2dparityfec.ptr 2dparityfec.mask 2dparityfec.tsr 2dparityfec.x 2dparityfec.d 2dparityfec.type \
2dparityfec.index 2dparityfec.offset 2dparityfec.na 2dparityfec.snbase_ext rtcp.pt rtcp.senderssrc \
rtcp.timestamp.rtp rtcp.sender.packetcount rtcp.sender.octetcount rtcp.sdes.text rtcp.length_check \
_ws.malformed _ws.expert.message";

/// What tshark is to say of each media packet.
fn expected_media(received: &Received) -> Vec<String> {
    let line = |bytes: &Vec<u8>| {
        let packet = Packet::parse(bytes).expect("RTP");
        let (packets, _) = packet.payload.as_chunks::<188>();
        assert_eq!(packets.len(), 7);
        let pid =
            |packet: &[u8; 188]| format!("0x{:08x}", u16::from_be_bytes([packet[1], packet[2]]) & 0x1fff);
        let pids: Vec<String> = packets.iter().map(pid).collect();
        let counts: Vec<String> = packets.iter().map(|packet| (packet[3] & 15).to_string()).collect();
        let (marker, ssrc) = (u8::from(packet.marker), packet.ssrc);
        let rtp = format!("2|0|0|0|{marker}|33|{}|{}|{ssrc:#010x}", packet.sequence, packet.time_stamp);
        format!("{PORT}|{rtp}|{}|{}{}", pids.join(","), counts.join(","), "|".repeat(22))
    };
    received.media.iter().map(line).collect()
}

/// What tshark is to say of each FEC packet: the headers of its column, combined.
fn expected_fec(received: &Received, fec: &Value) -> Vec<String> {
    let side = |name: &str| fec[name].as_u64().expect("a number") as usize;
    let (columns, rows) = (side("columns"), side("rows"));
    let sequence = sequence_of(&received.fec[0]);
    let line = |(number, bytes): (usize, &Vec<u8>)| {
        let sent = Packet::parse(bytes).expect("RTP");
        let base = number / columns * columns * rows + number % columns;
        let column: Vec<Packet<'_>> =
            (0..rows).map(|row| Packet::parse(&received.media[base + row * columns]).expect("RTP")).collect();
        let time_stamp = column.iter().fold(0, |sum, packet| sum ^ packet.time_stamp);
        let marker = column.iter().filter(|packet| packet.marker).count() % 2;
        let sequence = sequence.wrapping_add(number as u16);
        let rtp = format!("2|0|0|0|{marker}|96|{sequence}|{}|0x00000000||", sent.time_stamp);
        let recovery = format!("{}|0x0000|1|0x00|0x000000|{time_stamp:#010x}", column[0].sequence);
        format!("{}|{rtp}|{recovery}|0|0|0|0|{columns}|{rows}|0{}", PORT + 2, "|".repeat(9))
    };
    received.fec.iter().enumerate().map(line).collect()
}

/// Reports of the sender with its name; the last one says goodbye and counts all packets.
fn check_reports(lines: &[String], received: &Received) {
    let first = Packet::parse(&received.media[0]).expect("RTP");
    let packets = received.media.len();
    for (number, line) in lines.iter().enumerate() {
        let is_last = number + 1 == lines.len();
        let mut fields = line.split('|').skip(25);
        assert_eq!(line.split('|').next(), Some("5001"));
        assert_eq!(fields.next(), Some(if is_last { "200,202,203" } else { "200,202" }));
        assert_eq!(fields.next(), Some(&*format!("{:#010x}", first.ssrc)));
        let mut count = || fields.next().unwrap().parse::<usize>().unwrap();
        let (time_stamp, sent, bytes) = (count() as u32, count(), count());
        assert!(time_stamp.wrapping_sub(first.time_stamp) < 90_000 * 60, "{line}");
        assert_eq!(bytes, sent * PAYLOAD_BYTES);
        assert!(if is_last { sent == packets } else { sent <= packets }, "{line}");
        assert_eq!(fields.collect::<Vec<_>>(), ["stream@reel", "1", "", ""]);
    }
}
