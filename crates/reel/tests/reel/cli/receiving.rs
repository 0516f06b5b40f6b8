//! `reel receive`: refusals, and casts of a running server in a network name space that ends with
//! the test.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use reel_rtp::fec::Geometry;
use reel_rtp::sap::Announcement;
use reel_rtp::sdp::{Description, FecDescription};
use reel_testkit::run_in_own_network;

use crate::cli::films::{long_stream, short_stream};
use crate::cli::rig::{Outcome, TestDir};
use crate::cli::serving::Running;

pub(crate) const TS_BYTES: usize = 188;

#[test]
fn what_cannot_be_received_is_refused() {
    let dir = TestDir::new();
    fs::write(dir.path("page.html"), "<html>").unwrap();
    fs::write(dir.path("old.ts"), "old").unwrap();
    let receive = |arguments: &[&str]| dir.reel(&[&["receive"], arguments].concat());
    receive(&["none.sdp"]).refused(3, &["none.sdp"]);
    receive(&["page.html"]).refused(1, &["line 1 of the description", "letter=value"]);
    receive(&["udp://239.1.1.1:5000"]).refused(2, &["no address of a cast", "help: name a file"]);
    receive(&["rtp://host:5000"]).refused(2, &["help: use one such as rtp://239.1.1.1:5000"]);
    receive(&["rtp://239.1.1.1:5000", "-o", "old.ts"]).refused(2, &["old.ts already exists", "--force"]);
    receive(&["rtp://239.1.1.1:5000", "--interface", "reel-none"]).refused(1, &["ip link"]);
    receive(&["http://127.0.0.1:1/casts/a.sdp"]).refused(1, &["no server answers"]);
    assert_eq!(fs::read(dir.path("old.ts")).unwrap(), b"old");
}

#[test]
fn silence_is_a_failure_that_says_what_to_check() {
    let dir = TestDir::new();
    let begun = Instant::now();
    let refused = dir.reel(&["receive", "rtp://127.0.0.1:59998", "--timeout", "300ms"]);
    refused.refused(1, &["no packet of the cast arrived at 127.0.0.1:59998", "IGMP snooping", "firewall"]);
    assert!(begun.elapsed() < Duration::from_secs(30), "it waits for the usual time");
}

#[test]
fn a_cast_is_received_as_it_is_stored() {
    in_a_network("cli::receiving::inside::whole");
}

#[test]
fn a_receiver_joins_late_and_ends_when_it_is_told() {
    in_a_network("cli::receiving::inside::parts");
}

#[test]
fn announced_casts_are_listed_and_received_by_name() {
    in_a_network("cli::receiving::inside::announced");
}

#[test]
fn a_cast_that_falls_silent_is_a_failure_after_some_time() {
    in_a_network("cli::receiving::inside::silent");
}

#[test]
fn a_broadcast_is_received_whole_from_any_time_on() {
    in_a_network("cli::receiving::inside::broadcast");
}

#[test]
fn a_broadcast_with_a_long_schedule_is_announced_by_its_address() {
    run_in_own_network(&two_ends(), "cli::receiving::inside::long_schedule");
}

#[test]
fn groups_of_ipv6_and_of_one_source_are_received() {
    run_in_own_network(&two_ends(), "cli::receiving::inside::other_groups");
}

/// An interface that carries groups of both families, which loopback does not. The machine uses
/// the first address of each family if a program asks for none.
fn two_ends() -> String {
    "ip link set lo up && ip link add cast0 type veth peer name cast1 && ip link set cast1 up && \
     ip link set cast0 up && ip addr add 10.9.0.1/24 dev cast0 && ip route add 224.0.0.0/4 dev cast0 && \
     ip addr add 10.9.0.2/24 dev cast0 && ip -6 addr add fd09::1/64 dev cast0 nodad && \
     ip -6 addr add fd09::2/64 dev cast0 nodad preferred_lft 0"
        .to_owned()
}

/// Runs an ignored test in a network that carries groups.
pub(crate) fn in_a_network(test: &str) {
    let setup = "ip link set lo up && ip link set lo multicast on && ip route add 224.0.0.0/4 dev lo";
    run_in_own_network(setup, test);
}

/// The silence that ended a receiver was no shorter than this. On a busy machine it is noticed
/// later.
pub(super) fn assert_silent_for(ended: &Outcome, least_s: f64) {
    let (_, after) = ended.stderr.split_once("has sent nothing for ").expect("it says for how long");
    let told_s = after.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    assert!(told_s.is_some_and(|told_s| told_s >= least_s), "{}", ended.stderr);
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of a_cast_is_received_as_it_is_stored, in a name space of its own"]
    fn whole() {
        let (dir, server) = serving(&short_stream());
        forward_with_losses();
        fs::write(dir.path("cast.sdp"), description()).unwrap();
        let receiver = start(&dir, &["cast.sdp", "-o", "out.ts", "--timeout", "60s"]);
        add(&dir, &server, "short-stream", &["--group", "239.1.1.7:5000", "--strict"]);
        let outcome = ended(receiver).done();
        let received = fs::read(dir.path("out.ts")).unwrap();
        let stored = fs::read(short_stream()).unwrap();
        assert!(received.len() >= stored.len(), "{} of {}", received.len(), stored.len());
        let (stream, filling) = received.split_at(stored.len());
        assert!(stream == stored, "{}", outcome.stderr);
        // The last matrix is filled with null packets.
        assert!(filling.chunks(TS_BYTES).all(|packet| packet[..3] == [0x47, 0x1f, 0xff]));
        assert!(outcome.stderr.contains("receiving Short stream from 239.1.1.1:5000, FEC 20 x 4"));
        let last = outcome.stderr.lines().last().unwrap();
        // Of 1200 packets, the last one is late, and nothing follows that would send it.
        let sent = received.len() / TS_BYTES / 7;
        let lost = sent / 21 + usize::from(sent.is_multiple_of(30));
        // On a busy machine, packets may be so late that they count as lost.
        let most = lost + sent / 30;
        assert!((lost..=most).contains(&count(last, "lost")), "{lost} were lost: {last}");
        assert_eq!((count(last, "repaired"), count(last, "unrepaired")), (count(last, "lost"), 0), "{last}");
    }

    #[test]
    #[ignore = "child of a_broadcast_is_received_whole_from_any_time_on, in a name space of its own"]
    fn broadcast() {
        let (dir, server) = serving(&short_stream());
        add(
            &dir,
            &server,
            "short-stream",
            &["--group", "239.1.1.3:5000", "--scheme", "rfs", "--wait", "4500ms"],
        );
        let sdp = format!("http://{}/casts/short-stream.sdp", server.address());
        let receivers: Vec<(String, Child)> = (0..3)
            .map(|number| {
                std::thread::sleep(Duration::from_millis(700));
                let name = format!("out-{number}.ts");
                let child = start(&dir, &[&sdp, "-o", &name, "--timeout", "60s"]);
                (name, child)
            })
            .collect();
        let stored = fs::read(short_stream()).unwrap();
        for (name, receiver) in receivers {
            let outcome = ended(receiver).done();
            assert!(fs::read(dir.path(&name)).unwrap() == stored, "{name}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("a broadcast of 2 channels"), "{}", outcome.stderr);
            assert!(outcome.stderr.trim_end().ends_with("missing 0"), "{}", outcome.stderr);
        }
    }

    /// Of 293 segments, whose places do not fit in a datagram.
    #[test]
    #[ignore = "child of a_broadcast_with_a_long_schedule_is_announced_by_its_address, in a name space of its own"]
    fn long_schedule() {
        let (dir, server) = serving_at(&long_stream(), "0.0.0.0:0");
        let receiver = start(&dir, &["sap://many", "--duration", "6s", "-o", "out.ts"]);
        let list = start(&dir, &["--list", "--duration", "8s"]);
        let wanted = ["--group", "239.1.3.1:5000", "--scheme", "rfs", "--wait", "4600ms", "--name", "many"];
        let added = add(&dir, &server, "long-stream", &wanted);
        // An address that other machines can ask.
        let url = format!("http://10.9.0.1:{}/casts/many.sdp", server.address().port());
        assert!(added.contains(&format!("reel receive {url} | mpv -")), "{added}");
        add(&dir, &server, "long-stream", &["--group", "239.1.2.1:5000", "--loop"]);
        let outcome = ended(receiver).done();
        assert!(outcome.stderr.contains("a broadcast of 7 channels"), "{}", outcome.stderr);
        assert!(fs::metadata(dir.path("out.ts")).unwrap().len() > 1000);
        // Casts of one title are told apart.
        let listed = ended(list).done().stdout;
        let lines: Vec<&str> = listed.lines().collect();
        let [plain, broadcast] = lines[..] else { panic!("{listed}") };
        assert!(plain.starts_with("long-stream  ") && !plain.contains("groups"), "{listed}");
        assert!(broadcast.starts_with("long-stream (many)  "), "{listed}");
        assert!(broadcast.contains(" 239.1.3.1:5000 ") && broadcast.ends_with(", 7 groups"), "{listed}");
        // One that names another machine is not followed.
        let trap = UdpSocket::bind("10.9.0.2:0").unwrap();
        let elsewhere = format!("u={url}\r\nt=0 0\r\na=x-reel-abridged");
        let text = description().replace("Short stream", "trap").replace("t=0 0", &elsewhere);
        let receiver = start(&dir, &["sap://trap", "--timeout", "30s", "-o", "none.ts"]);
        let announcement = Announcement::new(&text, trap.local_addr().unwrap().ip()).write().unwrap();
        let mut receiver = receiver;
        let begun = Instant::now();
        while receiver.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it waits");
            trap.send_to(&announcement, "224.2.127.254:9875").unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        ended(receiver).refused(1, &["10.9.0.2 announces \"trap\"", "/casts/many.sdp", "instead of sap://"]);
    }

    #[test]
    #[ignore = "child of announced_casts_are_listed_and_received_by_name, in a name space of its own"]
    fn announced() {
        let (dir, server) = serving(&short_stream());
        let receiver = start(&dir, &["sap://short-stream", "--duration", "1s", "-o", "out.ts"]);
        let none = start(&dir, &["sap://None", "--timeout", "8s", "-o", "none.ts"]);
        let list = start(&dir, &["--list", "--duration", "8s"]);
        std::thread::sleep(Duration::from_secs(1));
        // A flood of what is not looked for, and of what is nothing.
        let flood = UdpSocket::bind("127.0.0.2:0").unwrap();
        for number in 0..3000 {
            let text = description().replace("o=- 1 ", &format!("o=- {number} ")).replace("Short", "Other");
            let announcement = Announcement::new(&text, flood.local_addr().unwrap().ip());
            flood.send_to(&announcement.write().unwrap(), "224.2.127.254:9875").unwrap();
        }
        flood.send_to(b"x", "224.2.127.254:9875").unwrap();
        add(&dir, &server, "short-stream", &["--group", "239.1.1.5:5000", "--loop"]);
        add(
            &dir,
            &server,
            "short-stream",
            &["--group", "239.1.1.6:5000", "--loop", "--no-announce", "--name", "hidden"],
        );
        let outcome = ended(receiver).done();
        assert!(outcome.stderr.contains("receiving short-stream from 239.1.1.5:5000, FEC 20 x 4"));
        assert!(fs::metadata(dir.path("out.ts")).unwrap().len() > 100_000);
        ended(none).refused(3, &["no cast \"None\" was announced", "\"Other stream\"", "--timeout 2min"]);
        let listed = ended(list).done();
        let lines: Vec<&str> =
            listed.stdout.lines().filter(|line| !line.starts_with("Other stream ")).collect();
        let &[line] = lines.as_slice() else { panic!("{}", listed.stdout) };
        assert!(line.starts_with("short-stream "), "{line}");
        assert!(line.contains(" 239.1.1.5:5000 ") && line.contains(" Mb/s "), "{line}");
        assert!(line.contains(" FEC 20 x 4  from "), "{line}");
        // Of those of one sender, 128 are kept.
        assert_eq!(listed.stdout.lines().count(), 129);
        for words in ["1 datagrams that are no announcements", "announcements that found no room"] {
            assert!(listed.stderr.contains(words), "{}", listed.stderr);
        }
    }

    #[test]
    #[ignore = "child of a_cast_that_falls_silent_is_a_failure_after_some_time, in a name space of its own"]
    fn silent() {
        let dir = TestDir::new();
        let receiver = start(&dir, &["rtp://239.1.1.8:5000", "--timeout", "3s", "-o", "out.ts"]);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let payload = [[0x47, 0x1f, 0xff, 0x10].as_slice(), &[0; 184]].concat();
        let header = |sequence: u8| [0x80, 33, 0, sequence, 0, 0, 0, 0, 0, 0, 0, 1];
        let send = |bytes: &[u8]| socket.send_to(bytes, "239.1.1.8:5000").unwrap();
        std::thread::sleep(Duration::from_secs(1));
        for sequence in 0..20 {
            send(&[&header(sequence)[..], &payload].concat());
        }
        // What is no packet of the cast does not end the silence.
        let begun = Instant::now();
        let mut receiver = receiver;
        while receiver.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120), "it waits");
            send(b"noise");
            std::thread::sleep(Duration::from_millis(10));
        }
        let ended =
            ended(receiver).refused(1, &["the cast at 239.1.1.8:5000 has sent nothing for", "querier"]);
        assert_silent_for(&ended, 3.0);
        assert_eq!(fs::metadata(dir.path("out.ts")).unwrap().len(), 20 * TS_BYTES as u64);
    }

    /// Groups of a site, of a link and of one source, each with another sender that disturbs.
    #[test]
    #[ignore = "child of groups_of_ipv6_and_of_one_source_are_received, in a name space of its own"]
    fn other_groups() {
        let (dir, server) = serving(&short_stream());
        let stored = fs::read(short_stream()).unwrap();
        for (number, group) in
            ["[ff15::1]:5000", "[ff12::1]:5000", "[ff3e::8000:1]:5000", "232.1.1.1:5000"].iter().enumerate()
        {
            let [name, file] = [format!("cast-{number}"), format!("out-{number}.ts")];
            let wanted = ["--group", group, "--loop", "--interface", "cast0", "--name", &name];
            let added = add(&dir, &server, "short-stream", &wanted);
            // What others read has no number of an interface of this machine.
            let url = format!("http://{}", server.address());
            let listed = dir.reel(&["cast", "list", "--server", &url]).done().stdout;
            let as_json = dir.reel(&["cast", "list", "--server", &url, "--json"]).done().stdout;
            let playlist = server.text("/casts.m3u");
            for text in [&added, &listed, &as_json, &playlist] {
                assert!(text.contains(group) && !text.contains('%'), "{text}");
            }
            let sender = if number == 2 { "[fd09::1]@" } else { "" };
            let sender = if number == 3 { "10.9.0.1@" } else { sender };
            assert!(added.ends_with(&format!("vlc rtp://{sender}{group}\n")), "{added}");
            assert!(playlist.contains(&format!("short-stream (cast-{number})\n")), "{playlist}");
            let sdp = format!("http://{}/casts/{name}.sdp", server.address());
            let arguments = [&sdp, "--interface", "cast0", "--duration", "3s", "-o", &file];
            let receiver = start(&dir, &arguments);
            await_bytes(&dir, &file, 20_000);
            disturb(group);
            let outcome = ended(receiver).done();
            assert!(outcome.stderr.contains("FEC 20 x 4"), "{group}: {}", outcome.stderr);
            let last = outcome.stderr.lines().last().unwrap();
            assert_eq!(count(last, "unrepaired"), 0, "{group}: {last}");
            // The kernel passes on nothing of others if one source was joined.
            let is_of_one_source = group.contains("3e") || group.starts_with("232");
            assert_eq!(last.contains("foreign"), !is_of_one_source, "{group}: {last}");
            assert_continues(&stored, &fs::read(dir.path(&file)).unwrap());
        }
    }

    #[test]
    #[ignore = "child of a_receiver_joins_late_and_ends_when_it_is_told, in a name space of its own"]
    fn parts() {
        let (dir, server) = serving(&short_stream());
        add(&dir, &server, "short-stream", &["--group", "239.1.1.2:5000", "--loop"]);
        let sdp = format!("http://{}/casts/short-stream.sdp", server.address());
        // By time, to standard output, and only with the group's address.
        for cast in [sdp.as_str(), "rtp://239.1.1.2:5000"] {
            let receiver = start(&dir, &[cast, "--duration", "1500ms", "--timeout", "60s", "--quiet"]);
            let output = receiver.wait_with_output().unwrap();
            assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
            assert!(output.stdout.len() > 100_000, "{} bytes", output.stdout.len());
            assert!(
                output.stdout.chunks(TS_BYTES).all(|packet| packet.len() == TS_BYTES && packet[0] == 0x47)
            );
        }
        // By the reader of its output, and by a signal.
        let mut receiver = start(&dir, &[&sdp, "--timeout", "60s"]);
        let mut output = receiver.stdout.take().unwrap();
        output.read_exact(&mut [0; 50 * TS_BYTES]).unwrap();
        drop(output);
        ended(receiver).done();
        let receiver = start(&dir, &[&sdp, "--timeout", "60s", "-o", "out.ts"]);
        await_bytes(&dir, "out.ts", 100_000);
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&receiver),
            rustix::process::Signal::INT,
        )
        .unwrap();
        let outcome = ended(receiver).done();
        assert!(outcome.stderr.contains("received "), "{}", outcome.stderr);
        // By an error of its output.
        let receiver = start(&dir, &[&sdp, "--timeout", "60s", "-o", "/dev/full", "--force"]);
        ended(receiver).refused(1, &["cannot write /dev/full", "free some space"]);
        // By the end of the cast.
        let receiver = start(&dir, &[&sdp, "--timeout", "60s", "-o", "out.ts", "--force"]);
        await_bytes(&dir, "out.ts", 100_000);
        let url = format!("http://{}", server.address());
        dir.reel(&["cast", "stop", "short-stream", "--server", &url]).done();
        ended(receiver).done();
    }
}

/// A server with a stored transport stream, in a volume whose matrices ST 2022-1 allows.
pub(crate) fn serving(stream: &Path) -> (TestDir, Running) {
    serving_at(stream, "127.0.0.1:0")
}

fn serving_at(stream: &Path, listen: &str) -> (TestDir, Running) {
    let dir = TestDir::new();
    dir.create_volume(&["--size", "200M", "--geometry", "ts"]);
    dir.reel(&["ingest", "volume", stream.to_str().unwrap(), "--form", "ts"]).done();
    let server = Running::start(&dir, &["serve", "volume", "--listen", listen]);
    (dir, server)
}

/// Adds a cast, and returns what the command prints.
pub(crate) fn add(dir: &TestDir, server: &Running, title: &str, arguments: &[&str]) -> String {
    let url = format!("http://{}", server.address());
    dir.reel(&[&["cast", "add", title, "--server", &url], arguments].concat()).done().stdout
}

/// Sends packets of another source to a group, for a while.
fn disturb(group: &str) {
    let to: SocketAddr = group.parse().unwrap();
    std::thread::spawn(move || {
        let from = if to.is_ipv4() { "10.9.0.2:0" } else { "[fd09::2]:0" };
        let socket = UdpSocket::bind(from).unwrap();
        let payload = [0x47; TS_BYTES];
        for sequence in 0..100_u8 {
            let header = [0x80, 33, 9, sequence, 0, 0, 0, 0, 9, 9, 9, 9];
            socket.send_to(&[&header[..], &payload].concat(), to).unwrap();
            std::thread::sleep(Duration::from_millis(30));
        }
    });
}

/// Fails unless the bytes are those of passes of a stored stream, each filled with null packets.
fn assert_continues(stored: &[u8], received: &[u8]) {
    const SYMBOL: usize = 7 * TS_BYTES;
    let mut pass = stored.to_vec();
    while !pass.len().is_multiple_of(80 * SYMBOL) {
        let mut null = [0xff; TS_BYTES];
        null[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
        pass.extend(null);
    }
    assert!(received.len() > 100 * SYMBOL, "{} bytes", received.len());
    let first = pass.chunks(SYMBOL).position(|symbol| *symbol == received[..SYMBOL]).expect("of the stream");
    let symbols = pass.chunks(SYMBOL).cycle().skip(first);
    assert!(received.chunks(SYMBOL).zip(symbols).all(|(received, sent)| received == sent));
}

/// A number of a line of statistics.
fn count(line: &str, name: &str) -> usize {
    let counts = line.split(", ").filter_map(|part| part.split_once(' '));
    let (_, number) = counts.into_iter().find(|(key, _)| *key == name).unwrap();
    number.parse().unwrap()
}

/// A description of the cast before it is on the air, with the group that it is forwarded to.
fn description() -> String {
    let fec = FecDescription { geometry: Geometry::new(20, 4).unwrap(), repair_window_us: 1_000_000 };
    let description = Description {
        name: "Short stream",
        session_id: 1,
        version: 1,
        origin: [127, 0, 0, 1].into(),
        group: [239, 1, 1, 1].into(),
        port: 5000,
        ttl: 1,
        source: None,
        rate_kbps: 0,
        fec: Some(fec),
        channels: 1,
        url: None,
        attributes: &[],
    };
    description.write().unwrap()
}

/// Sends what arrives for the cast to the group that is received, without each 21st media packet
/// and with every 30th one late. At most one packet of a column is lost.
fn forward_with_losses() {
    for offset in 0..3_u16 {
        let (cast, received) = (Ipv4Addr::new(239, 1, 1, 7), Ipv4Addr::new(239, 1, 1, 1));
        let port = 5000 + offset;
        let member = UdpSocket::bind((cast, port)).unwrap();
        member.join_multicast_v4(&cast, &Ipv4Addr::UNSPECIFIED).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        std::thread::spawn(move || {
            let mut late = None;
            let mut bytes = [0; 2000];
            for number in 1.. {
                let count = member.recv(&mut bytes).unwrap();
                match (offset, number % 21, number % 30) {
                    (0, 0, _) => continue,
                    (0, _, 0) => {
                        late = Some(bytes[..count].to_vec());
                        continue;
                    }
                    _ => sender.send_to(&bytes[..count], (received, port)).unwrap(),
                };
                if let Some(late) = late.take_if(|_| number % 30 == 8) {
                    sender.send_to(&late, (received, port)).unwrap();
                }
            }
        });
    }
}

pub(crate) fn start(dir: &TestDir, arguments: &[&str]) -> Child {
    let mut command = dir.command(&[&["receive"], arguments].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Time to join: a cast begins a second after it is added.
    std::thread::sleep(Duration::from_millis(300));
    child
}

pub(crate) fn ended(child: Child) -> Outcome {
    Outcome::of(child.wait_with_output().unwrap())
}

pub(crate) fn await_bytes(dir: &TestDir, name: &str, bytes: u64) {
    let begun = Instant::now();
    while fs::metadata(dir.path(name)).map_or(0, |file| file.len()) < bytes {
        assert!(begun.elapsed() < Duration::from_secs(120), "{name} does not grow");
        std::thread::sleep(Duration::from_millis(20));
    }
}
