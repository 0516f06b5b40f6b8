//! Streams that programs pour, and what viewers get of them.

use crate::server::misuse::promising_with;
use crate::server::rig::{DRIVERS, Rig, unchunked};
use reel_arena::mms::{CONSUMER_BYTES, Ending, Layout, Post, Producer, producer_word};
use reel_arena::{Others, SharedMemory};
use reel_client::{
    Client, ClientError, Heard, PourRequest, PourWanted, RefusalCode, Reply, Request, Wanted, dial, hear, say,
};
use reel_play::UplinkRate;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// 160 Mb/s, so that a test pours some MB in a moment.
pub(super) fn wanted(name: &str) -> PourWanted {
    PourWanted {
        name: name.to_owned(),
        content_type: "video/mp2t".to_owned(),
        bytes_per_s: 20_000_000,
        workahead_bytes: 1_000_000,
        delay_ns: 1_000_000_000,
    }
}

pub(super) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn ask(rig: &Rig, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(rig.address()).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

pub(super) fn get(rig: &Rig, name: &str, version: &str) -> TcpStream {
    ask(rig, &format!("GET /live/{name} HTTP/{version}\r\nHost: reel\r\nConnection: close\r\n\r\n"))
}

/// Reads to the end, in the background: head and body.
pub(super) fn read_to_end(mut stream: TcpStream) -> JoinHandle<(String, Vec<u8>)> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        // A response that is cut off may end with a reset.
        let _ = stream.read_to_end(&mut all);
        let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        (String::from_utf8_lossy(&all[..head]).into_owned(), all[head..].to_vec())
    })
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn viewers_get_what_a_program_pours_while_it_comes() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| config.driver = driver);
        let mut client = Client::connect(&rig.socket()).expect("connected");
        let stream = client.pour(wanted("studio")).expect("poured");
        let viewers = [("1.1", true), ("1.0", false)]
            .map(|(version, in_chunks)| (in_chunks, read_to_end(get(&rig, "studio", version))));
        rig.await_metric("reel_pour_viewers", |viewers| viewers == 2.0);
        let listed = rig.connect().ask("GET /api/v1/pours", "").json();
        let studio = &listed["pours"][0];
        assert_eq!((&studio["address"], &studio["viewers"]), (&"/live/studio".into(), &2.into()), "{listed}");
        assert_eq!((&studio["rate_bps"], &studio["delay_ms"]), (&160_000_000.into(), &1000.into()));
        let bytes = pattern(3_000_000);
        for part in bytes.chunks(70_001) {
            client.put(stream, part).expect("put");
        }
        assert_eq!(client.poured_bytes(stream), bytes.len() as u64);
        client.end_pour(stream).expect("ended");
        for (in_chunks, viewer) in viewers {
            let (head, body) = viewer.join().expect("read");
            assert!(head.contains("\r\nContent-Type: video/mp2t\r\n"), "{head}");
            assert!(head.contains("\r\nCache-Control: no-store\r\n"), "{head}");
            assert_eq!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), in_chunks, "{head}");
            let (got, is_whole) = if in_chunks { unchunked(&body) } else { (body, true) };
            assert!(is_whole && got == bytes, "{driver:?} {in_chunks}: {} bytes", got.len());
        }
        rig.await_metric("reel_pour_viewers", |viewers| viewers == 0.0);
        assert_eq!(rig.metric("reel_pours"), 0.0);
        assert_eq!(rig.metric("reel_pour_bytes_total"), bytes.len() as f64);
        assert_eq!(rig.metric("reel_pours_broken_total"), 0.0);
    }
}

#[test]
fn a_connection_continues_after_a_poured_stream() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let stream = client.pour(wanted("studio")).expect("poured");
    let mut requests = String::new();
    for line in ["GET /live/studio", "HEAD /live/studio", "GET /live/nothing"] {
        let close = if line.ends_with("nothing") { "Connection: close\r\n" } else { "" };
        write!(requests, "{line} HTTP/1.1\r\nHost: reel\r\n{close}\r\n").expect("written");
    }
    let viewer = read_to_end(ask(&rig, &requests));
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
    client.put(stream, b"all of it").expect("put");
    client.end_pour(stream).expect("ended");
    let (_, body) = viewer.join().expect("read");
    let body = String::from_utf8_lossy(&body);
    assert!(body.starts_with("9\r\nall of it\r\n0\r\n\r\nHTTP/1.1 404 "), "{body}");
    assert_eq!(body.matches("HTTP/1.1 404 ").count(), 2, "the stream has ended: {body}");
    assert!(body.contains("no program pours a stream of this name now"), "{body}");
}

/// Two programs and a player, one after the other: what one pours the next one reads and pours.
#[test]
fn programs_read_what_others_pour() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| config.driver = driver);
        let mut first = Client::connect(&rig.socket()).expect("connected");
        let mut second = Client::connect(&rig.socket()).expect("connected");
        let brief = |name: &str| PourWanted { delay_ns: 500_000_000, ..wanted(name) };
        let source = first.pour(brief("source")).expect("poured");
        let filtered = second.pour(brief("filtered")).expect("poured");
        let title = "live/source".to_owned();
        let read = Wanted { title, class: String::new(), from_bytes: 0 };
        let read = second.open(&[read]).expect("answered").remove(0).expect("opened");
        let viewer = read_to_end(get(&rig, "filtered", "1.0"));
        rig.await_metric("reel_pour_viewers", |viewers| viewers == 2.0);
        let bytes = pattern(2_000_000);
        let mut expected = bytes.clone();
        expected.iter_mut().for_each(|byte| *byte = !*byte);
        let writer = std::thread::spawn(move || {
            bytes.chunks(50_000).for_each(|part| first.put(source, part).expect("put"));
            first.end_pour(source).expect("ended");
        });
        let mut position = 0;
        while second.state(&[read])[0].is_some_and(|state| state.ending.is_none()) {
            for held in second.read(&[read], true).expect("read") {
                assert_eq!(held.message.position, position);
                assert!(held.message.due_ns < u64::MAX, "it is due");
                position += u64::from(held.message.bytes);
                let mut part = Vec::new();
                second.copy(&held, &mut part);
                second.give_back(read, 1).expect("still ours");
                part.iter_mut().for_each(|byte| *byte = !*byte);
                second.put(filtered, &part).expect("put");
            }
        }
        assert_eq!(second.state(&[read])[0].expect("open").ending, Some(Ending::Complete));
        second.end_pour(filtered).expect("ended");
        writer.join().expect("written");
        let (_, got) = viewer.join().expect("read");
        assert!(got == expected, "{driver:?}: {} of {} bytes", got.len(), expected.len());
        rig.await_metric("reel_sessions", |sessions| sessions == 0.0);
    }
}

/// A program that reads nothing is cut off as a player is.
#[test]
fn a_program_that_reads_nothing_of_a_poured_stream_is_cut_off() {
    let rig = Rig::new(|_| {});
    let mut program = Client::connect(&rig.socket()).expect("connected");
    let fast = PourWanted { bytes_per_s: 100_000_000, delay_ns: 100_000_000, ..wanted("studio") };
    let stream = program.pour(fast).expect("poured");
    let mut idle = Client::connect(&rig.socket()).expect("connected");
    let live = |name: &str| Wanted { title: format!("live/{name}"), class: String::new(), from_bytes: 0 };
    let opened = idle.open(&[live("studio"), live("nothing"), Wanted { from_bytes: 1, ..live("studio") }]);
    let [opened, nothing, before] = <[_; 3]>::try_from(opened.expect("answered")).expect("three answers");
    let is_refused =
        |answer, wanted| matches!(answer, Err(ClientError::Refused { code, .. }) if code == wanted);
    assert!(is_refused(nothing, RefusalCode::NoSuchTitle) && is_refused(before, RefusalCode::BadRequest));
    let opened = opened.expect("opened");
    let block = pattern(1_000_000);
    until("the end of the idle program's stream", || {
        program.put(stream, &block).expect("put");
        idle.state(&[opened])[0].expect("open").ending == Some(Ending::HeldTooLong)
    });
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 0.0);
    assert_eq!(rig.metric("reel_program_streams_cut_total"), 1.0);
    program.put(stream, &block).expect("the program continues");
}

/// A viewer that reads nothing has its window and what sockets hold; then it is cut off. The other
/// one gets every byte.
#[test]
fn a_viewer_that_reads_nothing_is_cut_off_and_disturbs_no_other() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    // The other viewer is not cut off while it stands still for less than a second.
    let stream = client.pour(wanted("studio")).expect("poured");
    let idle = get(&rig, "studio", "1.1");
    let viewer = read_to_end(get(&rig, "studio", "1.1"));
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 2.0);
    let block = pattern(1_000_000);
    let mut blocks = 0;
    until("the end of the idle viewer", || {
        client.put(stream, &block).expect("put");
        blocks += 1;
        rig.metric("reel_pour_viewers") == 1.0
    });
    client.end_pour(stream).expect("ended");
    let (_, body) = viewer.join().expect("read");
    let (got, is_whole) = unchunked(&body);
    assert!(is_whole && got.len() == blocks * block.len(), "{} of {blocks} blocks", got.len());
    assert!(got.chunks(block.len()).all(|part| part == block), "other bytes");
    let (_, cut) = read_to_end(idle).join().expect("read");
    assert!(!unchunked(&cut).1, "it was not completed");
}

#[test]
fn a_program_that_is_gone_leaves_its_viewers_without_an_end() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let stream = client.pour(wanted("studio")).expect("poured");
    let viewer = read_to_end(get(&rig, "studio", "1.1"));
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
    client.put(stream, b"the beginning").expect("put");
    rig.await_metric("reel_pour_bytes_total", |bytes| bytes == 13.0);
    drop(client);
    let (_, body) = viewer.join().expect("read");
    assert!(!unchunked(&body).1, "{}", String::from_utf8_lossy(&body));
    rig.await_metric("reel_pours_broken_total", |broken| broken == 1.0);
    // Its name is free.
    let mut next = Client::connect(&rig.socket()).expect("connected");
    assert!(next.pour(wanted("studio")).is_ok());
}

#[test]
fn a_viewer_that_leaves_is_noticed_while_nothing_comes() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    client.pour(wanted("studio")).expect("poured");
    let viewer = get(&rig, "studio", "1.1");
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
    drop(viewer);
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 0.0);
}

/// A viewer is promised the rate of the stream. One that finds no room is refused at once, and may
/// have what is left over.
#[test]
fn viewers_of_poured_streams_are_admitted() {
    let rig = promising_with(64 << 20, 100, |config| {
        (config.promise.network_bps, config.promise.start_wait_s) = (Some(20_000_000), 30);
        config.promise.uplink = UplinkRate::Known(20_000_000);
    });
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let stream = client
        .pour(PourWanted { bytes_per_s: 500_000, delay_ns: 10_000_000_000, ..wanted("studio") })
        .expect("poured");
    let mut viewers: Vec<TcpStream> = Vec::new();
    let refused = loop {
        let mut viewer = get(&rig, "studio", "1.1");
        let mut status = [0; 12];
        viewer.read_exact(&mut status).expect("an answer");
        match &status {
            b"HTTP/1.1 200" => viewers.push(viewer),
            b"HTTP/1.1 503" => break viewer,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
        assert!(viewers.len() < 20, "4 Mb/s each, of 20");
    };
    assert!((2..=4).contains(&viewers.len()), "{} viewers", viewers.len());
    let (_, problem) = read_to_end(refused).join().expect("read");
    let problem: serde_json::Value = serde_json::from_slice(&problem).expect("JSON");
    assert_eq!(problem["resource"], "network", "{problem}");
    assert!(problem["grantable_rate_bps"].as_u64().is_some_and(|rate| rate < 4_000_000), "{problem}");
    rig.await_metric("reel_pour_viewers", |count| count == viewers.len() as f64);
    let unpromised = read_to_end(ask(&rig, "GET /live/studio?class=aperiodic HTTP/1.0\r\n\r\n"));
    rig.await_metric("reel_pour_viewers", |count| count == viewers.len() as f64 + 1.0);
    let sessions = rig.connect().ask("GET /api/v1/sessions", "").json();
    let sessions = sessions["sessions"].as_array().expect("a list").clone();
    // The program has one, too.
    assert_eq!(sessions.len(), viewers.len() + 2, "{sessions:?}");
    assert!(sessions.iter().all(|session| session["title"] == "live/studio"), "{sessions:?}");
    // Who leaves makes room for another one.
    drop(viewers.pop());
    rig.await_metric("reel_pour_viewers", |count| count == viewers.len() as f64 + 1.0);
    let last = read_to_end(get(&rig, "studio", "1.1"));
    rig.await_metric("reel_pour_viewers", |count| count == viewers.len() as f64 + 2.0);
    client.put(stream, b"all of it").expect("put");
    client.end_pour(stream).expect("ended");
    assert_eq!(unchunked(&last.join().expect("read").1), (b"all of it".to_vec(), true));
    assert_eq!(unpromised.join().expect("read").1, b"all of it");
    drop(viewers);
    rig.await_metric("reel_sessions", |sessions| sessions == 0.0);
    assert_eq!(rig.metric("reel_pour_late_bytes_total"), 0.0);
}

/// A session is idle while its stream has no bytes.
#[test]
fn a_viewer_whose_session_has_ended_is_cut_off() {
    let rig = Rig::new(|config| config.session_idle = Duration::from_secs(1));
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let stream = client.pour(wanted("studio")).expect("poured");
    let viewer = read_to_end(get(&rig, "studio", "1.1"));
    let (_, body) = viewer.join().expect("read");
    assert!(body.is_empty(), "no last chunk");
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 0.0);
    // The program was silent for as long, and keeps what is reserved for it.
    assert_eq!((rig.metric("reel_pours"), rig.metric("reel_sessions")), (1.0, 1.0));
    client.end_pour(stream).expect("ended");
    rig.await_metric("reel_sessions", |sessions| sessions == 0.0);
}

#[test]
fn what_cannot_be_poured_is_refused_with_the_reason() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    client.pour(wanted("studio")).expect("poured");
    for (wrong, says) in [
        (wanted("a/b"), "cannot be the name"),
        (wanted(""), "cannot be the name"),
        (wanted("studio"), "is being poured already"),
        (PourWanted { bytes_per_s: 1, ..wanted("b") }, "the rate in bits per second cannot be 8"),
        (PourWanted { delay_ns: 0, ..wanted("b") }, "the delay in milliseconds cannot be 0"),
        (PourWanted { workahead_bytes: 5 << 20, ..wanted("b") }, "the workahead in bytes"),
        (PourWanted { content_type: "text/html".to_owned(), ..wanted("b") }, "no media type of a stream"),
        (PourWanted { bytes_per_s: 200_000_000, ..wanted("b") }, "declare a lower rate"),
    ] {
        match client.pour(wrong) {
            Err(ClientError::Refused { text, .. }) => assert!(text.contains(says), "{text}"),
            other => panic!("{says}: {other:?}"),
        }
    }
    assert_eq!(rig.metric("reel_pours"), 1.0);
    let refused = rig.connect().ask("POST /live/studio", "");
    assert_eq!(refused.status, 405);
}

/// A program that speaks the protocol by itself.
struct RawProgram {
    socket: OwnedFd,
    producer: Producer<SharedMemory, SharedMemory>,
    layout: Layout,
}

impl RawProgram {
    fn new(rig: &Rig) -> RawProgram {
        let layout = Layout::new(8, 4096);
        let own = SharedMemory::create("own", layout.memory_bytes(), Others::Read).expect("memory");
        let theirs = SharedMemory::create("theirs", CONSUMER_BYTES, Others::Write).expect("memory");
        let socket = dial(&rig.socket()).expect("connected");
        RawProgram { socket, producer: Producer::new(own, theirs, layout), layout }
    }

    fn request(&self) -> PourRequest {
        PourRequest {
            tag: 7,
            name: "studio".to_owned(),
            content_type: "video/mp2t".to_owned(),
            bytes_per_s: 1_000_000,
            workahead_bytes: 1_000_000,
            delay_ns: 1_000_000_000,
            producer_bytes: self.layout.memory_bytes() as u64,
        }
    }

    fn answer(&self, request: PourRequest, memories: &[&SharedMemory]) -> Reply {
        let descriptors: Vec<_> = memories.iter().map(|memory| memory.fd()).collect();
        let message = Request::Pour(request).encode().expect("short");
        assert!(say(&self.socket, &message, &descriptors).expect("said"));
        let mut answer = None;
        until("an answer", || {
            if let Heard::Message(bytes, _) = hear(&self.socket).expect("heard") {
                answer = Some(Reply::decode(&bytes).expect("understood"));
            }
            answer.is_some()
        });
        answer.expect("there")
    }

    fn pour(rig: &Rig) -> RawProgram {
        let program = RawProgram::new(rig);
        let memories = [program.producer.memory(), program.producer.consumer_memory()];
        assert_eq!(program.answer(program.request(), &memories), Reply::Poured { tag: 7 });
        program
    }

    fn is_gone(&self) -> bool {
        !matches!(hear(&self.socket), Ok(Heard::Message(..) | Heard::Nothing))
    }
}

#[test]
fn a_program_that_writes_wrong_messages_is_disconnected() {
    let rig = Rig::new(|_| {});
    let right = Post { offset: 8192, bytes: 10, in_producer: true, position: 0, due_ns: 0 };
    for wrong in [
        Post { offset: u64::MAX, ..right },
        Post { bytes: u32::MAX, ..right },
        Post { offset: 16_000, bytes: 4096, ..right },
        Post { in_producer: false, ..right },
        Post { bytes: 0, ..right },
    ] {
        let mut program = RawProgram::pour(&rig);
        program.producer.post(&right);
        program.producer.post(&wrong);
        until("the end of the connection", || program.is_gone());
    }
    // A count that is impossible is no message, and harms the program alone.
    let program = RawProgram::pour(&rig);
    program.producer.memory().store(producer_word::WRITTEN, u64::MAX);
    let viewer = get(&rig, "studio", "1.1");
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
    drop((program, viewer));
    rig.await_metric("reel_pours", |pours| pours == 0.0);
    let download = rig.connect().ask("GET /files/film.mp4", "");
    assert!(download.status == 200 && download.body == rig.film);
}

/// A program that does not wait for its last reads: a message that has come before its time is a
/// part of the stream.
#[test]
fn what_waits_for_its_time_comes_before_the_end() {
    let rig = Rig::new(|_| {});
    let mut program = RawProgram::new(&rig);
    let slow = PourRequest { bytes_per_s: 100, workahead_bytes: 0, ..program.request() };
    let memories = [program.producer.memory(), program.producer.consumer_memory()];
    assert_eq!(program.answer(slow, &memories), Reply::Poured { tag: 7 });
    let viewer = read_to_end(get(&rig, "studio", "1.1"));
    rig.await_metric("reel_pour_viewers", |viewers| viewers == 1.0);
    let bytes_at = program.layout.bytes_at();
    program.producer.memory_mut().write(bytes_at, b"firstafter");
    for offset in [bytes_at as u64, bytes_at as u64 + 5] {
        let post = Post { offset, bytes: 5, in_producer: true, position: 0, due_ns: 0 };
        assert!(program.producer.post(&post));
    }
    program.producer.end(Ending::Complete);
    assert_eq!(unchunked(&viewer.join().expect("read").1), (b"firstafter".to_vec(), true));
    assert!(!program.is_gone());
}

#[test]
fn a_program_that_reads_a_poured_stream_changes_its_class() {
    let rig = promising_with(64 << 20, 100, |config| config.promise.network_bps = Some(20_000_000));
    let mut program = Client::connect(&rig.socket()).expect("connected");
    let stream = program.pour(PourWanted { bytes_per_s: 500_000, ..wanted("studio") }).expect("poured");
    let mut reader = Client::connect(&rig.socket()).expect("connected");
    let aperiodic = Wanted { title: "live/studio".to_owned(), class: "aperiodic".to_owned(), from_bytes: 0 };
    let read = reader.open(&[aperiodic]).expect("answered").remove(0).expect("opened");
    for (class, due) in [("", true), ("aperiodic", false)] {
        reader.change_class(read, class).expect("changed");
        program.put(stream, class.as_bytes()).expect("put");
        program.put(stream, b"more").expect("put");
        let held = reader.read(&[read], true).expect("read");
        assert_eq!(held[0].message.due_ns < u64::MAX, due, "{class:?}");
        held.iter().for_each(|held| reader.give_back(held.stream, 1).expect("still ours"));
    }
}

#[test]
fn memory_that_its_maker_could_shrink_is_refused() {
    let rig = Rig::new(|_| {});
    let program = RawProgram::new(&rig);
    let (own, theirs) = (program.producer.memory(), program.producer.consumer_memory());
    let request = || program.request();
    let empty = SharedMemory::create("empty", program.layout.memory_bytes(), Others::Read).expect("memory");
    let file = tempfile::tempfile().expect("a file");
    file.set_len(program.layout.memory_bytes() as u64).expect("long");
    let message = Request::Pour(request()).encode().expect("short");
    let unsealed = [std::os::fd::AsFd::as_fd(&file), theirs.fd()];
    assert!(say(&program.socket, &message, &unsealed).expect("said"));
    let mut refused = Vec::new();
    until("an answer", || {
        if let Heard::Message(bytes, _) = hear(&program.socket).expect("heard") {
            refused.push(Reply::decode(&bytes).expect("understood"));
        }
        !refused.is_empty()
    });
    let large = PourRequest { producer_bytes: u64::MAX, ..request() };
    // The beginning is that of a stream, but the rest is not mapped.
    let [none, few, page] = [0, 8, 4095].map(|producer_bytes| PourRequest { producer_bytes, ..request() });
    let longer = PourRequest { producer_bytes: request().producer_bytes + 4096, ..request() };
    for (request, memories) in [
        (request(), vec![]),
        (request(), vec![own]),
        (request(), vec![own, theirs, theirs]),
        (request(), vec![&empty, theirs]),
        (request(), vec![own, own]),
        (large, vec![own, theirs]),
        (none, vec![own, theirs]),
        (few, vec![own, theirs]),
        (page, vec![own, theirs]),
        (longer, vec![own, theirs]),
    ] {
        refused.push(program.answer(request, &memories));
    }
    for (number, answer) in refused.iter().enumerate() {
        assert!(matches!(answer, Reply::NotPoured { tag: 7, .. }), "{number}: {answer:?}");
    }
    assert_eq!(rig.metric("reel_pours"), 0.0);
    assert_eq!(program.answer(request(), &[own, theirs]), Reply::Poured { tag: 7 });
}
