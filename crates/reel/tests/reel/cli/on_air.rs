//! Casts of a running server as the command line begins and shows them. In a network name space
//! that ends with the test.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use reel_rtp::Packet;
use rustix::process::Signal;
use serde_json::Value;

use crate::cli::films::{broadcast_stream, short_stream};
use crate::cli::receiving::{add, in_a_network, serving};
use crate::cli::rig::{Outcome, TestDir};
use crate::cli::serving::Running;

#[test]
fn casts_are_listed_for_people_and_for_programs() {
    in_a_network("cli::on_air::inside::listed");
}

#[test]
fn a_server_begins_the_casts_of_its_configuration() {
    in_a_network("cli::on_air::inside::configured");
}

#[test]
fn a_broadcast_keeps_to_the_bandwidth_that_is_asked_for() {
    in_a_network("cli::on_air::inside::bandwidth");
}

#[test]
fn a_cast_keeps_its_source_over_a_restart_and_its_numbers_go_forward() {
    in_a_network("cli::on_air::inside::restarted");
}

#[test]
fn three_rows_are_too_few_for_a_strict_cast() {
    in_a_network("cli::on_air::inside::three_rows");
}

fn list(dir: &TestDir, server: &Running, more: &[&str]) -> Outcome {
    let url = format!("http://{}", server.address());
    dir.reel(&[&["cast", "list", "--server", &url], more].concat()).done()
}

/// The only cast, when it has come so far.
fn only_cast(dir: &TestDir, server: &Running, state: &str) -> Value {
    let from = Instant::now();
    loop {
        let mut listed = list(dir, server, &["--json"]).json();
        let casts = listed["casts"].as_array_mut().unwrap();
        if let [cast] = &mut casts[..]
            && cast["state"] == state
        {
            return cast.take();
        }
        assert!(from.elapsed() < Duration::from_secs(120), "{listed}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A volume with a title, and a configuration that has a cast of it.
fn with_a_programme() -> TestDir {
    let (dir, server) = serving(&short_stream());
    drop(server);
    let casts = "[[casts]]\ntitle = \"short-stream\"\ngroup = \"239.1.1.8:5000\"\nname = \"programme\"\n";
    fs::write(dir.path("reel.toml"), casts).unwrap();
    dir
}

/// The server of that volume and configuration.
fn serve_configured(dir: &TestDir) -> Running {
    Running::start(dir, &["serve", "volume", "--listen", "127.0.0.1:0", "--config", "reel.toml"])
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of casts_are_listed_for_people_and_for_programs, in a name space of its own"]
    fn listed() {
        let (dir, server) = serving(&short_stream());
        assert_eq!(list(&dir, &server, &[]).stdout.trim(), "no casts");
        assert_eq!(list(&dir, &server, &["--json"]).json()["casts"], serde_json::json!([]));
        add(&dir, &server, "short-stream", &["--group", "239.1.1.7:5000", "--name", "seven", "--loop"]);
        let cast = only_cast(&dir, &server, "on-air");
        assert_eq!((&cast["name"], &cast["group"]), (&"seven".into(), &"239.1.1.7:5000".into()));
        let text = list(&dir, &server, &[]).stdout;
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[..4], ["seven", "239.1.1.7:5000", "on", "air"], "{text}");
        assert!(text.contains(" of 6 s, 2.0 Mb/s, ") && text.contains(" lost"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    #[ignore = "child of a_server_begins_the_casts_of_its_configuration, in a name space of its own"]
    fn configured() {
        let dir = with_a_programme();
        let server = serve_configured(&dir);
        let cast = only_cast(&dir, &server, "on-air");
        assert_eq!((&cast["name"], &cast["group"]), (&"programme".into(), &"239.1.1.8:5000".into()));
        assert_eq!(cast["loop"], true, "a cast of the configuration is a programme: {cast}");
    }

    #[test]
    #[ignore = "child of a_broadcast_keeps_to_the_bandwidth_that_is_asked_for, in a name space of its own"]
    fn bandwidth() {
        let (dir, server) = serving(&broadcast_stream());
        let wanted = ["--group", "239.1.1.9:5000", "--scheme", "fast", "--bandwidth", "6M"];
        let added = add(&dir, &server, "broadcast", &wanted);
        assert!(added.contains("the network carries at most 5."), "{added}");
        // Two channels of 1.5 Mb/s fit with FEC and headers, and a third one does not.
        let schedule = &only_cast(&dir, &server, "on-air")["schedule"];
        assert_eq!((&schedule["channels"], &schedule["segments"]), (&2.into(), &3.into()), "{schedule}");
        let rate_bps = schedule["bandwidth_bps"].as_u64().unwrap();
        assert!((2_900_000..=3_200_000).contains(&rate_bps), "{schedule}");
        let peak_bps = schedule["peak_bps"].as_u64().unwrap();
        assert!((4_500_000..=6_000_000).contains(&peak_bps), "{schedule}");
        let text = list(&dir, &server, &[]).stdout;
        assert!(text.contains("fast to 2 groups, 3."), "{text}");
        // What cannot be, in words of the command.
        let url = format!("http://{}", server.address());
        let add = ["cast", "add", "broadcast", "--server", &url, "--group", "239.255.255.254:5000"];
        let refused = |more: &[&str], words: &[&str]| dir.reel(&[&add[..], more].concat()).refused(1, words);
        refused(&["--scheme", "rfs"], &["--wait 30s", "--bandwidth 20M"]);
        let last = ["channel 3 of 7 would be sent to 240.0.0.0:5000", "begin with a lower address"];
        refused(&["--scheme", "staggered", "--wait", "4100ms"], &last);
        let none = dir.reel(&["cast", "stop", "none", "--server", &url]);
        none.refused(1, &["no cast none on the air", "`reel cast list`"]);
    }

    #[test]
    #[ignore = "child of a_cast_keeps_its_source_over_a_restart_and_its_numbers_go_forward, in a name space of its own"]
    fn restarted() {
        let dir = with_a_programme();
        let group = Ipv4Addr::new(239, 1, 1, 8);
        let socket = UdpSocket::bind((group, 5000)).unwrap();
        socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut sent = Vec::new();
        for _ in 0..2 {
            let mut server = serve_configured(&dir);
            let mut bytes = [0; 2000];
            for _ in 0..200 {
                let count = socket.recv(&mut bytes).unwrap();
                let packet = Packet::parse(&bytes[..count]).unwrap();
                sent.push((packet.ssrc, packet.sequence, packet.time_stamp));
            }
            assert_eq!(server.signal(Signal::KILL), None);
            // What had arrived before it was killed.
            socket.set_nonblocking(true).unwrap();
            while socket.recv(&mut bytes).is_ok() {}
            socket.set_nonblocking(false).unwrap();
        }
        assert!(sent.iter().all(|packet| packet.0 == sent[0].0), "another source");
        for pair in sent.windows(2) {
            let ahead = (pair[1].1.wrapping_sub(pair[0].1), pair[1].2.wrapping_sub(pair[0].2));
            assert!(ahead.0 < 1 << 15 && ahead.1 < 1 << 31, "{pair:?}");
        }
    }

    /// Four members have matrices of three data rows; SMPTE ST 2022-1 asks for four.
    #[test]
    #[ignore = "child of three_rows_are_too_few_for_a_strict_cast, in a name space of its own"]
    fn three_rows() {
        let dir = TestDir::new();
        dir.create_volume(&["--size", "200M", "--geometry", "ts", "--members", "4"]);
        let film = short_stream();
        let said = dir.reel(&["ingest", "volume", film.to_str().unwrap(), "--form", "ts"]).done().stderr;
        assert!(said.contains("ST 2022-1"), "{said}");
        let server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
        let url = format!("http://{}", server.address());
        let cast = ["cast", "add", "short-stream", "--group", "239.1.1.7:5000", "--server", &url];
        let refused = dir.reel(&[&cast[..], &["--strict"]].concat());
        refused.refused(1, &["D = 3 rows", "SMPTE ST 2022-1", "--geometry ts"]);
        let added = dir.reel(&cast).done().stdout;
        assert!(added.contains("x 3 on port + 2, for GStreamer and `reel receive`"), "{added}");
    }
}
