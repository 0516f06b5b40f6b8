//! Streams in step at a receiver: a program that reads a set of a running server.

use crate::server::rig::{DRIVERS, Rig};
use reel_arena::mms::Ending;
use reel_client::{Client, ClientError, RefusalCode};
use std::process::Command;

/// What people do not notice between lips and voice (Halvorsen).
const IN_STEP_NS: u64 = 80_000_000;

/// A message of a strand, as its receiver has it.
#[derive(Clone, Copy, Debug)]
struct Got {
    position: u64,
    shown_ns: u64,
    due_ns: u64,
}

/// A strand: its messages, and its bytes.
#[derive(Default)]
struct Strand {
    got: Vec<Got>,
    bytes: Vec<u8>,
}

/// Reads a set to its end.
fn read_all(client: &mut Client, set: &[u64]) -> Vec<Strand> {
    let mut strands: Vec<Strand> = set.iter().map(|_| Strand::default()).collect();
    let mut left: Vec<u64> = set.to_vec();
    while !left.is_empty() {
        for held in client.read(&left, true).expect("read") {
            let strand = set.iter().position(|name| *name == held.stream).expect("one of the set");
            let (position, shown_ns) = (held.message.position, held.message.shown_ns);
            strands[strand].got.push(Got { position, shown_ns, due_ns: client.due_ns(&held) });
            client.copy(&held, &mut strands[strand].bytes);
            client.give_back(held.stream, 1).expect("still ours");
        }
        let mut states = client.state(&left).into_iter();
        left.retain(|_| match states.next().flatten().and_then(|state| state.ending) {
            None => true,
            Some(Ending::Complete) => false,
            Some(other) => panic!("{}", other.text()),
        });
    }
    strands
}

/// Media times and positions of the packets of a file, as ffprobe finds them.
fn packets(bytes: &[u8]) -> Vec<(f64, u64)> {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("track.mp4");
    std::fs::write(&path, bytes).expect("written");
    let probe = Command::new("ffprobe")
        .args(["-v", "error", "-show_entries", "packet=pts_time,pos", "-of", "csv=p=0"])
        .arg(&path)
        .output()
        .expect("ffprobe is installed");
    assert!(probe.status.success() && probe.stderr.is_empty(), "{probe:?}");
    let text = String::from_utf8(probe.stdout).expect("text");
    let packet = |line: &str| {
        let (time, position) = line.split_once(',').expect("two fields");
        (time.parse().expect("a time"), position.trim_matches(',').parse().expect("a position"))
    };
    text.lines().map(packet).collect()
}

/// The due time of a media time, in a strand whose file has these packets: that of the message that
/// has the beginning of the packet.
fn due_of(strand: &Strand, offset: u64) -> u64 {
    let after = strand.got.partition_point(|got| got.position <= offset);
    strand.got[after - 1].due_ns
}

#[test]
fn tracks_of_a_title_are_due_at_the_same_times() {
    for driver in DRIVERS {
        let rig = Rig::with_memory(192 << 20, |config| config.driver = driver);
        let mut client = Client::connect(&rig.socket()).expect("connected");
        let set = client.open_in_step(&["film#video", "film#audio"], "", 0).expect("opened");
        let strands = read_all(&mut client, &set);
        let [pictures, sound] = &strands[..] else { panic!("two strands") };
        let (frames, samples) = (packets(&pictures.bytes), packets(&sound.bytes));
        assert_eq!(frames.len(), 75, "{driver:?}");
        let mut compared = 0;
        for (time, position) in &frames {
            let at_once = samples.iter().filter(|(sample, _)| (sample - time).abs() < 0.012);
            for (_, sample) in at_once {
                let (picture_ns, sound_ns) = (due_of(pictures, *position), due_of(sound, *sample));
                let apart_ns = picture_ns.abs_diff(sound_ns);
                assert!(apart_ns <= IN_STEP_NS, "{driver:?}: {apart_ns} ns apart at {time} s");
                compared += 1;
            }
        }
        assert!(compared >= 70, "{driver:?}: {compared} media times are in both");
        rig.await_metric("reel_program_streams", |streams| streams == 0.0);
        assert_eq!(rig.metric("reel_sessions"), 0.0);
    }
}

#[test]
fn a_set_is_refused_as_one() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    for (set, code, why) in [
        (vec!["film#video", "nothing"], RefusalCode::NoSuchTitle, "no title nothing"),
        (vec!["film#text", "film"], RefusalCode::NoSuchTitle, "no such track"),
        (vec!["film", "film#voice"], RefusalCode::BadRequest, "names no track"),
        (vec!["film", "live/studio"], RefusalCode::BadRequest, "the clock of the program"),
    ] {
        let refused = client.open_in_step(&set, "", 0).expect_err("refused");
        let ClientError::Refused { code: given, text, .. } = &refused else { panic!("{refused}") };
        assert!(*given == code && text.contains(why), "{refused}");
    }
    let late = client.open_in_step(&["film#video", "film#audio"], "", 1 << 60).expect_err("refused");
    assert!(late.to_string().contains("ends before"), "{late}");
    assert!(matches!(client.open_in_step(&[], "", 0), Err(ClientError::NotASet)));
    rig.await_metric("reel_program_streams", |streams| streams == 0.0);
    assert_eq!(rig.metric("reel_sessions"), 0.0);
    // Nothing is left of them: the same connection opens a set.
    let set = client.open_in_step(&["film", "film#audio"], "", 0).expect("opened");
    assert!(read_all(&mut client, &set)[0].bytes == rig.film);
}
