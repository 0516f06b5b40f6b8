//! `reel receive` of broadcasts that end, begin again, or are others than the description says, and
//! with clocks that differ. In a network name space that ends with the test.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Child;

use reel_rtp::NtpTime;
use reel_rtp::sdp::Session;
use rustix::process::Signal;

use crate::cli::films::{broadcast_stream, half_minute_stream, short_stream};
use crate::cli::receiving::{TS_BYTES, assert_silent_for, await_bytes, ended, in_a_network, serving, start};
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;

const SYMBOL_BYTES: usize = 7 * TS_BYTES;

#[test]
fn a_server_that_is_killed_and_begins_again_continues_its_broadcast() {
    in_a_network("cli::broadcasts::inside::killed");
}

#[test]
fn another_title_of_the_same_name_is_another_broadcast() {
    in_a_network("cli::broadcasts::inside::replaced");
}

#[test]
fn a_broadcast_that_ends_or_falls_silent_is_a_failure() {
    in_a_network("cli::broadcasts::inside::ends");
}

#[test]
fn clocks_may_differ() {
    in_a_network("cli::broadcasts::inside::clocks");
}

#[test]
fn a_server_that_is_stopped_says_no_goodbye_for_casts_that_it_begins_again() {
    in_a_network("cli::broadcasts::inside::stopped");
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of a_server_that_is_killed_and_begins_again_continues_its_broadcast, in a name space of its own"]
    fn killed() {
        restarted(Signal::KILL);
    }

    #[test]
    #[ignore = "child of a_server_that_is_stopped_says_no_goodbye_for_casts_that_it_begins_again, in a name space of its own"]
    fn stopped() {
        restarted(Signal::TERM);
    }

    /// Nothing wrong is written, and a description of before stays right. A receiver leaves the
    /// last group before the title has been played, and the server has to be back until then. The
    /// title is so long that a server on a busy machine has many times what it needs.
    fn restarted(signal: Signal) {
        let stream = half_minute_stream();
        let (dir, mut server) = programme(&stream, "half-minute");
        fs::write(dir.path("old.sdp"), description(&server)).unwrap();
        let receiver = start(&dir, &["old.sdp", "-o", "out.ts", "--timeout", "60s"]);
        await_bytes(&dir, "out.ts", 100_000);
        assert_eq!(server.signal(signal), (signal == Signal::TERM).then_some(0));
        let server = serve(&dir);
        // Only its version and its first slot are others.
        let schedule = |text: &str| {
            let told = Session::parse(text).unwrap().schedule.unwrap();
            (told.sources, told.time_stamps, told.epoch, told.slot_ns)
        };
        assert_eq!(
            schedule(&description(&server)),
            schedule(&fs::read_to_string(dir.path("old.sdp")).unwrap())
        );
        let outcome = ended(receiver).done();
        let (same, null) = compare(&dir, "out.ts", &stream);
        assert!(same > 100 && null > 0, "{same} are there, {null} are not: {}", outcome.stderr);
        assert!(outcome.stderr.contains("restarts "), "{}", outcome.stderr);
        // The first slot of the second server has begun long ago.
        let outcome = ended(start(&dir, &["old.sdp", "-o", "again.ts", "--timeout", "60s"])).done();
        assert_eq!(compare(&dir, "again.ts", &stream).1, 0, "{}", outcome.stderr);
    }

    #[test]
    #[ignore = "child of another_title_of_the_same_name_is_another_broadcast, in a name space of its own"]
    fn replaced() {
        let (dir, server) = programme(&broadcast_stream(), "broadcast");
        let old = description(&server);
        fs::write(dir.path("old.sdp"), &old).unwrap();
        drop(server);
        // Other null packets: the same length, and so the same schedule.
        let mut changed = fs::read(broadcast_stream()).unwrap();
        for packet in changed.chunks_mut(TS_BYTES).filter(|packet| is_null(packet)) {
            packet[4..].fill(0x55);
        }
        let other = dir.path("broadcast.ts");
        fs::write(&other, changed).unwrap();
        dir.reel(&["remove", "volume", "broadcast"]).done();
        dir.reel(&["ingest", "volume", "broadcast.ts", "--form", "ts"]).done();
        let server = serve(&dir);
        let new = description(&server);
        assert!(new != old);
        let refused = ended(start(&dir, &["old.sdp", "-o", "out.ts", "--timeout", "60s"]));
        refused.refused(1, &["of another broadcast than the description", "reel cast sdp NAME"]);
        assert_eq!(fs::read(dir.path("out.ts")).unwrap(), b"");
        // What is named by an address is read again, once.
        let url = answers(vec![old.clone(), new]);
        let outcome = ended(start(&dir, &[&url, "-o", "new.ts", "--timeout", "60s"])).done();
        assert!(outcome.stderr.contains("its description is read again"), "{}", outcome.stderr);
        assert_eq!(compare(&dir, "new.ts", &other).1, 0);
        let url = answers(vec![old.clone(), old]);
        let refused = ended(start(&dir, &[&url, "-o", "none.ts", "--timeout", "60s"]));
        refused.refused(1, &["of another broadcast than the description"]);
    }

    #[test]
    #[ignore = "child of a_broadcast_that_ends_or_falls_silent_is_a_failure, in a name space of its own"]
    fn ends() {
        let (dir, mut server) = programme(&broadcast_stream(), "broadcast");
        fs::write(dir.path("cast.sdp"), description(&server)).unwrap();
        let receive = |name: &str| -> Child {
            let receiver = start(&dir, &["cast.sdp", "-o", name, "--timeout", "3s"]);
            await_bytes(&dir, name, 100_000);
            receiver
        };
        let receiver = receive("stopped.ts");
        let url = format!("http://{}", server.address());
        dir.reel(&["cast", "stop", "programme", "--server", &url]).done();
        ended(receiver).refused(1, &["the broadcast has ended, and the title is not whole", "of 2."]);
        assert!(compare(&dir, "stopped.ts", &broadcast_stream()).0 > 0);
        let again = dir.reel(&[
            "cast",
            "add",
            "broadcast",
            "--group",
            "239.1.1.3:5000",
            "--scheme",
            "rfs",
            "--wait",
            "5s",
            "--name",
            "programme",
            "--server",
            &url,
        ]);
        again.done();
        let receiver = receive("silent.ts");
        assert_eq!(server.signal(Signal::KILL), None);
        let silent = ended(receiver);
        assert_silent_for(&silent.refused(1, &["and the title is not whole", "querier"]), 3.0);
        assert!(compare(&dir, "silent.ts", &broadcast_stream()).0 > 0);
        // Nothing is on the air.
        let nothing = ended(start(&dir, &["cast.sdp", "-o", "nothing.ts", "--timeout", "1s"]));
        nothing.refused(1, &["no packet of the broadcast arrived"]);
    }

    /// A description whose slots begin later than those of the server is what a receiver sees whose
    /// clock is behind.
    #[test]
    #[ignore = "child of clocks_may_differ, in a name space of its own"]
    fn clocks() {
        let (dir, server) = programme(&short_stream(), "short-stream");
        let text = description(&server);
        let epoch = Session::parse(&text).unwrap().schedule.unwrap().epoch;
        let moved = |seconds: u64| {
            let moved = NtpTime(epoch.0.wrapping_add(seconds << 32));
            text.replace(&format!("{:016x}", epoch.0), &format!("{:016x}", moved.0))
        };
        let receivers = [(3, "3.0 s ahead of"), (30, "30.0 s ahead of"), (0, "")].map(|(seconds, words)| {
            fs::write(dir.path(&format!("{seconds}.sdp")), moved(seconds)).unwrap();
            let name = format!("{seconds}.ts");
            let receiver = start(&dir, &[&format!("{seconds}.sdp"), "-o", &name, "--timeout", "60s"]);
            (name, words, receiver)
        });
        for (name, words, receiver) in receivers {
            let outcome = ended(receiver).done();
            assert_eq!(compare(&dir, &name, &short_stream()).1, 0, "{}", outcome.stderr);
            assert_eq!(outcome.stderr.contains("the clock of the server is"), !words.is_empty());
            assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
        }
        // Reports of the server say another time of day.
        fs::write(dir.path("hour.sdp"), moved(3600)).unwrap();
        let refused = ended(start(&dir, &["hour.sdp", "-o", "hour.ts", "--timeout", "7s"]));
        refused.refused(1, &["3600.0 s ahead of", "no report of it (RTCP) confirms that", "timedatectl"]);
        assert_eq!(fs::read(dir.path("hour.ts")).unwrap(), b"");
        // Slots of a nanosecond.
        let slot_ns = Session::parse(&text).unwrap().schedule.unwrap().slot_ns;
        fs::write(dir.path("wrong.sdp"), text.replace(&format!("rfs {slot_ns} "), "rfs 1 ")).unwrap();
        let refused = ended(start(&dir, &["wrong.sdp", "-o", "wrong.ts"]));
        refused.refused(1, &["its slots are shorter than 0.1 s or longer than 6 h"]);
    }
}

/// A server whose configuration broadcasts a title as `programme`.
fn programme(stream: &Path, title: &str) -> (TestDir, Running) {
    let (dir, server) = serving(stream);
    drop(server);
    let cast = format!(
        "[[casts]]\ntitle = \"{title}\"\ngroup = \"239.1.1.3:5000\"\nname = \"programme\"\nscheme = \"rfs\"\nwait_s = 5\n"
    );
    fs::write(dir.path("reel.toml"), cast).unwrap();
    let server = serve(&dir);
    (dir, server)
}

fn serve(dir: &TestDir) -> Running {
    Running::start(dir, &["serve", "volume", "--listen", "127.0.0.1:0", "--config", "reel.toml"])
}

/// The description of `programme`, when it is on the air.
fn description(server: &Running) -> String {
    let begun = std::time::Instant::now();
    loop {
        let text = server.text("/casts/programme.sdp");
        if text.starts_with("v=0") {
            return text;
        }
        assert!(begun.elapsed().as_secs() < 120, "{text}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// How many packets of a file are those of the stream, and how many are null packets instead. Fails
/// if one is anything else.
fn compare(dir: &TestDir, name: &str, stream: &Path) -> (usize, usize) {
    let (received, stored) = (fs::read(dir.path(name)).unwrap(), fs::read(stream).unwrap());
    let (mut same, mut null) = (0, 0);
    for (received, stored) in received.chunks(SYMBOL_BYTES).zip(stored.chunks(SYMBOL_BYTES)) {
        if received == stored {
            same += 1;
        } else {
            assert!(received.chunks(TS_BYTES).all(is_null), "{name}: packet {} is wrong", same + null);
            null += 1;
        }
    }
    assert!(received.len() <= stored.len() && same + null > 0, "{} bytes", received.len());
    (same, null)
}

fn is_null(packet: &[u8]) -> bool {
    packet[..3] == [0x47, 0x1f, 0xff]
}

/// The address of a server that answers with these texts in turn.
fn answers(texts: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/casts/programme.sdp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for text in texts {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).unwrap();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                text.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
        }
    });
    url
}
