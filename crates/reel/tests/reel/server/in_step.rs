//! Streams in step at a receiver: a program that reads a set of a running server.

use crate::kept::kept;
use crate::server::misuse::promising_with;
use crate::server::promise::set_request_price;
use crate::server::reclass::{classes, dashboard};
use crate::server::rig::{DRIVERS, Rig};
use play::{Screen, play};
use reel_arena::mms::Ending;
use reel_client::{Client, ClientError, Heard, InStepRequest, RefusalCode, Reply, Request, dial, hear, say};
use reel_library::{IngestOptions, Input};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

#[path = "../../../examples/in-step/play.rs"]
mod play;

/// What people do not notice between lips and voice (Halvorsen).
const IN_STEP_NS: u64 = 80_000_000;

/// A message of a stream, as its receiver has it.
#[derive(Clone, Copy, Debug)]
struct Got {
    position: u64,
    due_ns: u64,
}

/// A stream: its messages, and its bytes.
#[derive(Default)]
struct Received {
    got: Vec<Got>,
    bytes: Vec<u8>,
}

/// Reads a set to its end.
fn read_all(client: &mut Client, set: &[u64]) -> Vec<Received> {
    let mut streams: Vec<Received> = set.iter().map(|_| Received::default()).collect();
    let mut left: Vec<u64> = set.to_vec();
    while !left.is_empty() {
        for held in client.read(&left, true).expect("read") {
            let stream = set.iter().position(|name| *name == held.stream).expect("one of the set");
            let (position, due_ns) = (held.message.position, client.due_ns(&held));
            streams[stream].got.push(Got { position, due_ns });
            client.copy(&held, &mut streams[stream].bytes);
            client.give_back(held.stream, 1).expect("still ours");
        }
        let mut states = client.state(&left).into_iter();
        left.retain(|_| match states.next().flatten().and_then(|state| state.ending) {
            None => true,
            Some(Ending::Complete) => false,
            Some(other) => panic!("{}", other.text()),
        });
    }
    streams
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

/// The due time of a media time, in a stream whose file has these packets: that of the message that
/// has the beginning of the packet.
fn due_of(stream: &Received, offset: u64) -> u64 {
    let after = stream.got.partition_point(|got| got.position <= offset);
    stream.got[after - 1].due_ns
}

/// Compares when pictures and sound of the same media times are due. Positions that ffprobe finds
/// are those in the bytes that came; those of messages are in the file, which has `skipped` bytes
/// more before what comes after the first `head` ones.
fn compare(streams: &[Received], skipped: [(u64, u64); 2]) -> usize {
    let [pictures, sound] = streams else { panic!("two streams") };
    let in_file =
        |position: u64, (head, skipped): (u64, u64)| position + if position < head { 0 } else { skipped };
    let (frames, samples) = (packets(&pictures.bytes), packets(&sound.bytes));
    let mut compared = 0;
    for (time, position) in &frames {
        for (_, sample) in samples.iter().filter(|(sample, _)| (sample - time).abs() < 0.012) {
            let picture_ns = due_of(pictures, in_file(*position, skipped[0]));
            let sound_ns = due_of(sound, in_file(*sample, skipped[1]));
            let apart_ns = picture_ns.abs_diff(sound_ns);
            assert!(apart_ns <= IN_STEP_NS, "{apart_ns} ns apart at {time} s");
            compared += 1;
        }
    }
    compared
}

#[test]
fn tracks_of_a_title_are_due_at_the_same_times() {
    for driver in DRIVERS {
        let rig = Rig::with_memory(192 << 20, |config| config.driver = driver);
        let mut client = Client::connect(&rig.socket()).expect("connected");
        let set = client.open_in_step(&["film#video", "film#audio"], "", 0).expect("opened");
        let streams = read_all(&mut client, &set);
        assert_eq!(packets(&streams[0].bytes).len(), 75, "{driver:?}");
        let compared = compare(&streams, [(0, 0); 2]);
        assert!(compared >= 70, "{driver:?}: {compared} media times are in both");
        rig.await_metric("reel_program_streams", |streams| streams == 0.0);
        assert_eq!(rig.metric("reel_sessions"), 0.0);
    }
}

/// A seek: both begin with what they have of that time, and play by themselves.
#[test]
fn tracks_begin_in_step_at_a_media_time() {
    let rig = Rig::with_memory(192 << 20, |_| {});
    let source = kept("in-step.mp4", |path| {
        let status = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25"])
            .args(["-f", "lavfi", "-i", "sine", "-t", "14", "-c:v", "libx264", "-preset", "ultrafast"])
            .args(["-g", "25", "-pix_fmt", "yuv420p", "-c:a", "aac"])
            .arg(path)
            .status();
        assert!(status.expect("ffmpeg is installed").success());
    });
    let named = IngestOptions { name: Some("longer".to_owned()), ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(source)], &named, &mut |_| {}).expect("taken");
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let from_ns = 9_500_000_000;
    let set = client.open_in_step(&["longer#0", "longer#1"], "", from_ns).expect("opened");
    let whole: Vec<u64> =
        client.state(&set).into_iter().map(|state| state.expect("open").file_bytes).collect();
    let streams = read_all(&mut client, &set);
    let skipped: Vec<(u64, u64)> = streams
        .iter()
        .zip(whole)
        .map(|(stream, whole)| {
            let skipped = whole - stream.bytes.len() as u64;
            // The first message behind the head lies behind what is skipped.
            let jump = stream.got.iter().zip(&stream.got[1..]);
            let jump = jump.map(|(one, next)| (one.position, next.position));
            let jump = jump.max_by_key(|(one, next)| next - one).expect("two messages");
            (jump.1 - skipped, skipped)
        })
        .collect();
    assert!(skipped.iter().all(|(_, skipped)| *skipped > 0), "not from the beginning: {skipped:?}");
    let (frames, samples) = (packets(&streams[0].bytes), packets(&streams[1].bytes));
    for times in [&frames, &samples] {
        assert!(times[0].0 <= 9.5 && times[0].0 > 4.0, "{:?}", times[0]);
    }
    assert!(compare(&streams, [skipped[0], skipped[1]]) >= 90);
    let first: Vec<u64> = streams.iter().map(|stream| stream.got[0].due_ns).collect();
    assert_eq!(first[0], first[1], "they begin at once");
}

/// A screen that shows nothing when it is asked for the times in this range.
struct Stalls {
    asked: u64,
    stalls: std::ops::Range<u64>,
    bytes: Vec<u8>,
}

impl Stalls {
    fn new(stalls: std::ops::Range<u64>) -> Stalls {
        Stalls { asked: 0, stalls, bytes: Vec::new() }
    }
}

impl Screen for Stalls {
    fn show(&mut self, bytes: &[u8]) -> bool {
        self.asked += 1;
        let shows = !self.stalls.contains(&self.asked);
        if shows {
            self.bytes.extend_from_slice(bytes);
        }
        shows
    }
}

/// The example, with a receiver of pictures that stalls: the clock of both is moved by as much.
#[test]
fn a_receiver_that_stalls_moves_the_clock_of_both() {
    let rig = Rig::with_memory(192 << 20, |_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let (mut pictures, mut sound) = (Stalls::new(20..500), Stalls::new(0..0));
    let mut streams: Vec<(&str, &mut dyn Screen)> =
        vec![("film#video", &mut pictures), ("film#audio", &mut sound)];
    let played = play(&mut client, &mut streams, 0).expect("played");
    // It was asked every 2 ms at most, so it stalled for a second at least, of which the clock
    // notices all but the beginning.
    assert!(pictures.asked > 500);
    let [one, other] = &played.begins_ns[..] else { panic!("two streams") };
    assert_eq!(one[0], other[0], "they begin at once");
    let both = one.iter().filter(|begin_ns| other.contains(begin_ns));
    let moved_ns = both.max().map(|begin_ns| begin_ns - one[0]);
    assert!(moved_ns > Some(500_000_000), "{one:?} {other:?}");
    assert_eq!(packets(&pictures.bytes).len(), 75);
    assert!(packets(&sound.bytes).len() > 100);
}

/// What is short is told for the set, and nothing of it is held.
#[test]
fn a_set_is_admitted_as_one() {
    let mut rig = promising_with(64 << 20, 100, |config| config.promise.start_wait_s = 0);
    rig.stop();
    // Of each second 0.7 may be reserved: one request of each member.
    set_request_price(&rig, 400_000_000);
    rig.start();
    let mut client = Client::connect(&rig.socket()).expect("connected");
    for _ in 0..3 {
        let refused = client.open_in_step(&["film#video", "film#audio"], "", 0).expect_err("refused");
        let ClientError::Refused { code, text, .. } = &refused else { panic!("{refused}") };
        assert!(*code == RefusalCode::NotAdmitted && text.contains("member"), "{text}");
        assert_eq!(rig.metric("reel_sessions"), 0.0);
    }
    let sound = client.open_in_step(&["film#audio"], "", 0).expect("it fits alone");
    assert_eq!(rig.metric("reel_sessions"), 1.0);
    assert!(packets(&read_all(&mut client, &sound)[0].bytes).len() > 100);
}

#[test]
fn a_set_changes_its_class_as_one() {
    let mut rig = promising_with(64 << 20, 100, |_| {});
    rig.stop();
    rig.library.volume().disks().clone().set_classes(classes([400, 400]));
    rig.start();
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let set = client.open_in_step(&["film#video", "film#audio"], "gold", 0).expect("opened");
    for (class, stream) in [("bulk", set[0]), ("", set[1]), ("aperiodic", set[1]), ("gold", set[0])] {
        client.change_class(stream, class).expect("admitted");
        let sessions = dashboard(&rig)["sessions"].clone();
        assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
        assert_eq!(sessions[0]["class"], if class.is_empty() { "periodic" } else { class });
        let royal = client.change_class(stream, "royal");
        assert!(matches!(royal, Err(ClientError::Refused { .. })), "{royal:?}");
    }
    assert!(compare(&read_all(&mut client, &set), [(0, 0); 2]) >= 70);
}

#[test]
fn the_rest_of_a_set_continues_when_one_is_closed() {
    let rig = Rig::with_memory(192 << 20, |_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let set = client.open_in_step(&["film#video", "film#audio", "film"], "", 0).expect("opened");
    assert!(client.read(&set[..1], true).is_ok_and(|held| !held.is_empty()));
    client.close(&[set[0]]).expect("told");
    let streams = read_all(&mut client, &set[1..]);
    assert!(packets(&streams[0].bytes).len() > 100 && streams[1].bytes == rig.film);
    rig.await_metric("reel_program_streams", |streams| streams == 0.0);
    assert_eq!(rig.metric("reel_sessions"), 0.0);
}

fn asked(tag: u64, number: u16, of: u16, title: &str) -> Request {
    let (from_ns, title, class) = (0, title.to_owned(), String::new());
    Request::OpenInStep(InStepRequest { tag, number, of, from_ns, title, class })
}

/// Sends requests, and returns `count` answers.
fn answers(socket: &OwnedFd, said: &[Request], count: usize) -> Vec<Reply> {
    for request in said {
        assert!(say(socket, &request.encode().expect("short"), &[]).expect("said"));
    }
    let (mut answers, begun) = (Vec::new(), Instant::now());
    while answers.len() < count {
        match hear(socket).expect("heard") {
            Heard::Message(bytes, _) => {
                answers.extend(
                    Some(Reply::decode(&bytes).expect("understood")).filter(|one| *one != Reply::Bell),
                );
            }
            Heard::Gone => panic!("disconnected"),
            Heard::Nothing => std::thread::sleep(Duration::from_millis(2)),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{answers:?}");
    }
    answers
}

/// A program that asks for sets in a wrong way is refused, and holds nothing.
#[test]
fn sets_that_are_asked_for_in_a_wrong_way_are_refused() {
    let rig = Rig::new(|_| {});
    let socket = dial(&rig.socket()).expect("connected");
    let open = Request::Open { tag: 5, from_bytes: 0, title: "film".to_owned(), class: String::new() };
    let Request::OpenInStep(second) = asked(31, 1, 2, "film") else { panic!("a stream") };
    let other_begin = InStepRequest { from_ns: 7, ..second };
    let wrong: [(Vec<Request>, usize); 8] = [
        // Numbers that are not of a set.
        (vec![asked(1, 2, 2, "film")], 1),
        (vec![asked(1, 0, 0, "film")], 1),
        (vec![asked(1, 0, 17, "film")], 1),
        (vec![asked(1, 3, 4, "film")], 1),
        // One of the names is taken.
        (vec![open.clone(), asked(4, 0, 3, "film"), asked(5, 1, 3, "film"), asked(6, 2, 3, "film")], 4),
        // One is asked for twice.
        (vec![asked(20, 0, 2, "film"), asked(20, 0, 2, "film"), asked(21, 1, 2, "nothing")], 3),
        // They do not begin together.
        (vec![asked(30, 0, 2, "film"), Request::OpenInStep(other_begin)], 2),
        // One is closed before the set is complete.
        (vec![asked(40, 0, 2, "film"), Request::Close { tag: 40 }, asked(41, 1, 2, "film")], 2),
    ];
    for (said, count) in wrong {
        let answers = answers(&socket, &said, count);
        let opened = answers.iter().filter(|answer| matches!(answer, Reply::Opened(_))).count();
        // Only the stream that has the name.
        assert_eq!(opened, usize::from(said.contains(&open)), "{said:?}: {answers:?}");
    }
    // A thousand sets of which the second stream never comes.
    let sets: Vec<Request> = (0..1_000).map(|set| asked(100 + 2 * set, 0, 2, "film")).collect();
    let refused = answers(&socket, &sets[..200], 200 - 64);
    assert!(refused.iter().all(|answer| matches!(answer, Reply::Refused { .. })), "{refused:?}");
    assert_eq!(rig.metric("reel_sessions"), 1.0, "that of the stream that is open");
    // They end with the program.
    drop(socket);
    rig.await_metric("reel_program_streams", |streams| streams == 0.0);
    rig.await_metric("reel_buffers_reserved", |buffers| buffers == 0.0);
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let set = client.open_in_step(&["film#video"; 4], "", 0);
    assert!(set.is_ok() || set.is_err_and(|error| error.to_string().contains("media memory")));
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
