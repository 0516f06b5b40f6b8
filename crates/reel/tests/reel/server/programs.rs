//! Streams for programs: what a program gets, and what a program that breaks the rules gets.

use crate::server::misuse::promising_with;
use crate::server::pours::wanted as poured;
use crate::server::promise::{dear_members_of, set_request_price};
use crate::server::reclass::{classes, dashboard, in_classes};
use crate::server::rig::{DRIVERS, Rig};
use reel_arena::mms::{CONSUMER_BYTES, Ending, consumer_word};
use reel_arena::{Others, SharedMemory};
use reel_client::{Client, ClientError, Heard, RefusalCode, Reply, Request, Wanted, dial, hear, say};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

fn film(from_bytes: u64) -> Wanted {
    Wanted { title: "film".to_owned(), class: String::new(), from_bytes }
}

fn open(client: &mut Client, set: &[Wanted]) -> Vec<u64> {
    client.open(set).expect("answered").into_iter().map(|answer| answer.expect("opened")).collect()
}

/// Reads streams to their ends, through one call for all of them.
fn read_all(client: &mut Client, set: &[u64]) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new(); set.len()];
    let mut left: Vec<u64> = set.to_vec();
    while !left.is_empty() {
        for held in client.read(&left, true).expect("read") {
            let place = set.iter().position(|name| *name == held.stream).expect("one of the set");
            client.copy(&held, &mut all[place]);
            client.give_back(held.stream, 1).expect("still ours");
        }
        let states = client.state(&left);
        let mut states = states.into_iter();
        left.retain(|_| match states.next().flatten().and_then(|state| state.ending) {
            None => true,
            Some(Ending::Complete) => false,
            Some(other) => panic!("{}", other.text()),
        });
    }
    all
}

/// A viewer gets every byte of the title.
fn a_viewer_notices_nothing(rig: &Rig) {
    let download = rig.connect().ask("GET /files/film.mp4", "");
    assert!(download.status == 200 && download.body == rig.film);
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_title_is_read_from_the_arena_without_a_copy() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| config.driver = driver);
        let mut client = Client::connect(&rig.socket()).expect("connected");
        let set = open(&mut client, &[film(0)]);
        let mut position = 0;
        let mut in_arena = 0;
        let mut bytes = Vec::new();
        while position < rig.film.len() as u64 {
            for held in client.read(&set, true).expect("read") {
                assert_eq!(held.message.position, position, "{driver:?}");
                position += u64::from(held.message.bytes);
                if !held.message.in_producer {
                    in_arena += u64::from(held.message.bytes);
                }
                client.copy(&held, &mut bytes);
                client.give_back(held.stream, 1).expect("still ours");
            }
        }
        assert!(bytes == rig.film, "{driver:?}: other bytes");
        assert!(in_arena * 100 > position * 99, "{driver:?}: {in_arena} of {position} bytes were not copied");
        assert_eq!(client.state(&set)[0].expect("open").ending, Some(Ending::Complete));
        rig.await_metric("reel_program_streams", |streams| streams == 0.0);
        assert_eq!(rig.metric("reel_sessions"), 0.0);
    }
}

#[test]
fn one_call_serves_a_set_of_streams() {
    let rig = Rig::with_memory(192 << 20, |_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let middle = rig.film.len() as u64 / 2;
    let wanted = [film(0), film(middle), film(1), film(rig.film.len() as u64)];
    let set = open(&mut client, &wanted);
    for (bytes, wanted) in read_all(&mut client, &set).iter().zip(&wanted) {
        assert!(bytes == &rig.film[wanted.from_bytes as usize..], "from {}", wanted.from_bytes);
    }
}

#[test]
fn a_set_is_sent_to_files() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let set = open(&mut client, &[film(0), film(100)]);
    let dir = tempfile::tempdir().expect("tempdir");
    let files: Vec<_> = set
        .iter()
        .map(|name| std::fs::File::create(dir.path().join(name.to_string())).expect("made"))
        .collect();
    let sinks: Vec<_> =
        set.iter().zip(&files).map(|(name, file)| (*name, std::os::fd::AsFd::as_fd(file))).collect();
    while client.state(&set).iter().flatten().any(|state| state.ending.is_none()) {
        client.read_send(&sinks, true).expect("sent");
    }
    client.read_send(&sinks, false).expect("sent");
    for (name, from) in set.iter().zip([0, 100]) {
        let written = std::fs::read(dir.path().join(name.to_string())).expect("written");
        assert!(written == rig.film[from..], "stream {name}");
    }
}

#[test]
fn a_refused_program_gets_the_reason() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let nothing = Wanted { title: "nothing".to_owned(), ..Wanted::default() };
    let unknown = Wanted { class: "unknown".to_owned(), ..film(0) };
    let answers = client.open(&[nothing, film(u64::MAX), unknown, film(0)]).expect("answered");
    let code = |answer: &Result<u64, ClientError>| match answer {
        Err(ClientError::Refused { code, .. }) => Some(*code),
        _ => None,
    };
    let codes: Vec<_> = answers.iter().map(code).collect();
    let (no_such_title, bad_request) = (Some(RefusalCode::NoSuchTitle), Some(RefusalCode::BadRequest));
    assert_eq!(codes, [no_such_title, bad_request, bad_request, None]);
    let texts: Vec<String> = answers
        .into_iter()
        .map(|answer| answer.map_or_else(|error| error.to_string(), |_| "open".to_owned()))
        .collect();
    assert!(texts[0].contains("there is no title nothing"), "{texts:?}");
    assert!(texts[1].contains("ends after"), "{texts:?}");
    assert!(texts[2].contains("no class unknown"), "{texts:?}");
    assert_eq!(texts[3], "open");
}

#[test]
fn a_program_that_opens_ten_thousand_streams_gets_a_few() {
    let rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let mut opened = 0;
    for _ in 0..100 {
        for answer in client.open(&vec![film(0); 100]).expect("answered") {
            match answer {
                Ok(_) => opened += 1,
                Err(ClientError::Refused { text, .. }) => assert!(
                    ["the most that one may", "too many titles", "media memory"]
                        .iter()
                        .any(|why| text.contains(why)),
                    "{text}"
                ),
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!((1..=64).contains(&opened), "{opened} streams");
    // A viewer is not disturbed: the memory that those streams hold is bounded by what readers
    // reserve.
    a_viewer_notices_nothing(&rig);
}

#[test]
fn a_stream_is_admitted_like_a_session() {
    let mut rig = promising_with(64 << 20, 100, |_| {});
    rig.stop();
    set_request_price(&rig, 2_000_000_000);
    rig.start();
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let unhurried = Wanted { class: "aperiodic".to_owned(), ..film(0) };
    let answers = client.open(&[film(0), unhurried]).expect("answered");
    let [Err(ClientError::Refused { text, retry_after_s, .. }), Ok(stream)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert!(text.contains("member") && *retry_after_s > 0, "{text}");
    assert!(read_all(&mut client, &[*stream])[0] == rig.film);
}

/// A program that does not use Reel's library.
struct RawClient {
    socket: OwnedFd,
    own: SharedMemory,
    _producer: OwnedFd,
}

impl RawClient {
    fn open(rig: &Rig) -> RawClient {
        let socket = dial(&rig.socket()).expect("connected");
        let wanted = Request::Open { tag: 7, from_bytes: 0, title: "film".to_owned(), class: String::new() };
        assert!(say(&socket, &wanted.encode().expect("short"), &[]).expect("said"));
        let begun = Instant::now();
        loop {
            match hear(&socket).expect("heard") {
                Heard::Message(bytes, descriptors) => {
                    assert!(matches!(Reply::decode(&bytes), Ok(Reply::Opened(_))));
                    let [_arena, producer, consumer] =
                        <[OwnedFd; 3]>::try_from(descriptors).expect("three descriptors");
                    let own = SharedMemory::map(consumer, CONSUMER_BYTES, true).expect("mapped");
                    return RawClient { socket, own, _producer: producer };
                }
                Heard::Nothing => assert!(begun.elapsed() < PATIENCE, "no answer"),
                Heard::Gone => panic!("disconnected"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the server has closed the connection.
    fn is_gone(&self) -> bool {
        loop {
            match hear(&self.socket) {
                Ok(Heard::Message(..)) => {}
                Ok(Heard::Nothing) => return false,
                Ok(Heard::Gone) | Err(_) => return true,
            }
        }
    }
}

#[test]
fn a_program_that_writes_wrong_positions_loses_its_stream() {
    let rig = Rig::new(|_| {});
    let mut honest = Client::connect(&rig.socket()).expect("connected");
    let set = open(&mut honest, &[film(0)]);
    let mut cuts = 0.0;
    for lie in [u64::MAX, 1 << 40] {
        let raw_client = RawClient::open(&rig);
        raw_client.own.store(consumer_word::READ, lie);
        cuts += 1.0;
        rig.await_metric("reel_program_streams_cut_total", |cut| cut == cuts);
        assert!(!raw_client.is_gone(), "only its stream ends");
    }
    // Flags and marks can have any value: at worst the program is woken for nothing.
    let raw_client = RawClient::open(&rig);
    raw_client.own.store(consumer_word::WAITS, u64::MAX);
    raw_client.own.store(consumer_word::WAITS_ABOVE, u64::MAX);
    assert!(read_all(&mut honest, &set)[0] == rig.film);
}

/// Sends all requests at once, and returns `count` answers.
fn answers(socket: &OwnedFd, said: &[Request], count: usize) -> Vec<Reply> {
    for request in said {
        assert!(say(socket, &request.encode().expect("short"), &[]).expect("said"));
    }
    let mut answers = Vec::new();
    until("an answer", || {
        while let Heard::Message(bytes, _) = hear(socket).expect("heard") {
            let answer = Reply::decode(&bytes).expect("understood");
            answers.extend(Some(answer).filter(|answer| *answer != Reply::Bell));
        }
        answers.len() >= count
    });
    answers
}

fn open_seven() -> Request {
    Request::Open { tag: 7, from_bytes: 0, title: "film".to_owned(), class: String::new() }
}

#[test]
fn a_tag_names_one_stream() {
    let rig = Rig::new(|_| {});
    let socket = dial(&rig.socket()).expect("connected");
    let answers = answers(&socket, &[open_seven(), open_seven(), open_seven(), open_seven()], 4);
    let opened = answers.iter().filter(|answer| matches!(answer, Reply::Opened(_))).count();
    assert_eq!(opened, 1, "{answers:?}");
    drop(socket);
    rig.await_metric("reel_program_streams", |streams| streams == 0.0);
    assert_eq!(rig.metric("reel_sessions"), 0.0);
}

#[test]
fn a_stream_that_is_closed_while_it_is_opened_is_never_delivered() {
    let rig = Rig::new(|_| {});
    let socket = dial(&rig.socket()).expect("connected");
    // Refused, unless it was open before the server received the request to close.
    answers(&socket, &[open_seven(), Request::Close { tag: 7 }], 1);
    rig.await_metric("reel_program_streams", |streams| streams == 0.0);
    assert_eq!(rig.metric("reel_sessions"), 0.0);
    let opened = answers(&socket, &[open_seven()], 1);
    assert!(matches!(opened[..], [Reply::Opened(_)]), "{opened:?}");
}

#[test]
fn a_program_that_sends_malformed_messages_is_disconnected() {
    let rig = Rig::new(|_| {});
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 3], &[0xff; 2000]] {
        let raw_client = RawClient::open(&rig);
        // The server may be quicker than this write.
        let _ = say(&raw_client.socket, nonsense, &[]);
        until("the end of the connection", || raw_client.is_gone());
    }
    // An endless sequence of notifications is handled some at a time.
    let raw_client = RawClient::open(&rig);
    let bell = Request::Bell.encode().expect("short");
    for _ in 0..20_000 {
        let _ = say(&raw_client.socket, &bell, &[]);
    }
    // Unrequested descriptors are closed.
    let unasked = SharedMemory::create("unasked", 4096, Others::Read).expect("memory");
    let _ = say(&raw_client.socket, &bell, &[unasked.fd(); 3]);
    a_viewer_notices_nothing(&rig);
    assert!(!raw_client.is_gone());
}

#[test]
fn a_program_that_dies_holds_no_memory() {
    let rig = Rig::new(|_| {});
    {
        let mut client = Client::connect(&rig.socket()).expect("connected");
        let set = open(&mut client, &[film(0), film(0), film(0)]);
        let held = client.read(&set, true).expect("read");
        assert!(!held.is_empty());
        assert!(rig.metric("reel_buffers_reserved") > 0.0);
        assert_eq!(rig.metric("reel_sessions"), 3.0);
    }
    rig.await_metric("reel_program_streams", |streams| streams == 0.0);
    assert_eq!(rig.metric("reel_programs"), 0.0);
    // Buffers that disks are still filling are returned a little later.
    rig.await_metric("reel_buffers_reserved", |buffers| buffers == 0.0);
    assert_eq!(rig.metric("reel_sessions"), 0.0);
}

#[test]
fn a_program_that_returns_nothing_is_cut_off_when_others_wait() {
    // The least possible memory, so that a few downloads wait for it.
    let rig = Rig::with_memory(1, |_| {});
    let mut hoarder = Client::connect(&rig.socket()).expect("connected");
    let unhurried = Wanted { class: "aperiodic".to_owned(), ..film(0) };
    let set = open(&mut hoarder, &[unhurried]);
    assert!(!hoarder.read(&set, true).expect("read").is_empty());
    until("the end of the hoarder's stream", || {
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| a_viewer_notices_nothing(&rig));
            }
        });
        rig.metric("reel_program_streams_cut_total") > 0.0
    });
    let answer = hoarder.give_back(set[0], 1);
    assert!(matches!(answer, Err(ClientError::TakenBack(Ending::HeldTooLong))), "the hoarder was not told");
}

#[test]
fn programs_use_at_most_half_of_the_memory() {
    let rig = Rig::new(|_| {});
    let mut hoarder = Client::connect(&rig.socket()).expect("connected");
    let step = rig.film.len() as u64 / 32;
    let unhurried = |number| Wanted { class: "aperiodic".to_owned(), ..film(number * step) };
    let answers = hoarder.open(&(0..32).map(unhurried).collect::<Vec<_>>()).expect("answered");
    let refused = |answer: &Result<u64, ClientError>| matches!(answer, Err(ClientError::Refused { text, .. }) if text.contains("media memory"));
    assert!(answers.iter().any(refused) && answers.iter().any(Result::is_ok), "{answers:?}");
    let set: Vec<u64> = answers.into_iter().flatten().collect();
    assert!(!hoarder.read(&set, true).expect("read").is_empty());
    assert!(rig.metric("reel_buffers_reserved") * 2.0 <= rig.metric("reel_buffers_reservable"));
    a_viewer_notices_nothing(&rig);
    assert_eq!(rig.metric("reel_program_streams_cut_total"), 0.0);
}

/// Nothing of a poured stream is in media memory, so none of it bounds their number.
#[test]
fn programs_read_a_bounded_number_of_poured_streams() {
    let rig = Rig::new(|config| config.sessions_max = 1000);
    let mut program = Client::connect(&rig.socket()).expect("connected");
    program.pour(poured("studio")).expect("poured");
    let live = || Wanted { title: "live/studio".to_owned(), ..Wanted::default() };
    // One program may have 64 streams.
    let mut readers: Vec<(Client, Vec<u64>)> = Vec::new();
    for _ in 0..3 {
        let mut reader = Client::connect(&rig.socket()).expect("connected");
        let opened = reader.open(&vec![live(); 64]).expect("answered");
        readers.push((reader, opened.into_iter().flatten().collect()));
    }
    let counts = readers.iter().map(|(_, streams)| streams.len()).collect::<Vec<_>>();
    assert_eq!(counts, [64, 64, 0], "128 of them");
    let (third, _) = &mut readers[2];
    let refused = third.open(&[live()]).expect("answered").remove(0).expect_err("refused").to_string();
    assert!(refused.contains("the most there may be; close one"), "{refused}");
    // A title is opened all the same, and one that is closed makes room.
    assert!(third.open(&[film(0)]).expect("answered").remove(0).is_ok());
    let (first, streams) = &mut readers[0];
    first.close(&streams[..1]).expect("told");
    rig.await_metric("reel_program_streams", |streams| streams == 128.0);
    assert!(readers[2].0.open(&[live()]).expect("answered").remove(0).is_ok());
}

#[test]
fn a_server_that_stops_reports_it_to_programs() {
    let mut rig = Rig::new(|_| {});
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let set = open(&mut client, &[film(0)]);
    let held = client.read(&set, true).expect("read");
    rig.server.take().expect("running").stop().expect("stopped");
    assert_eq!(client.state(&set)[0].expect("open").ending, Some(Ending::Stopped));
    assert!(matches!(client.give_back(held[0].stream, 1), Err(ClientError::TakenBack(Ending::Stopped))));
    assert!(!rig.socket().exists());
    assert!(matches!(Client::connect(&rig.socket()), Err(ClientError::Connect(_))));
}

#[test]
fn a_program_that_holds_memory_longer_than_a_session_lasts_is_cut_off() {
    let rig = Rig::new(|config| config.session_idle = Duration::from_secs(1));
    let mut client = Client::connect(&rig.socket()).expect("connected");
    let set = open(&mut client, &[film(0)]);
    assert!(!client.read(&set, true).expect("read").is_empty());
    rig.await_metric("reel_program_streams_cut_total", |cut| cut == 1.0);
    assert!(matches!(client.give_back(set[0], 1), Err(ClientError::TakenBack(Ending::HeldTooLong))));
    // The title can be opened again at that position.
    let again = open(&mut client, &[film(4096)]);
    assert!(read_all(&mut client, &again)[0] == rig.film[4096..]);
}

/// All of them at once, beside a well-behaved program and a viewer on a socket: both get every
/// byte.
#[test]
fn misbehaving_programs_together_do_not_disturb_others() {
    let rig = Rig::with_memory(192 << 20, |_| {});
    let mut honest = Client::connect(&rig.socket()).expect("connected");
    let set = open(&mut honest, &[film(0)]);
    let mut hoarder = Client::connect(&rig.socket()).expect("connected");
    let held = open(&mut hoarder, &[film(0)]);
    assert!(!hoarder.read(&held, true).expect("read").is_empty());
    // They connect before the greedy program, which leaves nothing to other programs.
    let (liar, dead, rude) = (RawClient::open(&rig), RawClient::open(&rig), RawClient::open(&rig));
    let mut greedy = Client::connect(&rig.socket()).expect("connected");
    let refused =
        greedy.open(&vec![film(0); 1000]).expect("answered").iter().filter(|one| one.is_err()).count();
    assert!(refused > 900, "{refused}");
    std::thread::scope(|scope| {
        let viewers: Vec<_> = (0..2).map(|_| scope.spawn(|| a_viewer_notices_nothing(&rig))).collect();
        for word in 0..CONSUMER_BYTES / 8 {
            liar.own.store(word, u64::MAX - word as u64);
        }
        drop(dead);
        let _ = say(&rude.socket, &[0xff; 2000], &[]);
        assert!(read_all(&mut honest, &set)[0] == rig.film);
        viewers.into_iter().for_each(|viewer| viewer.join().expect("the viewer is not disturbed"));
    });
    until("the end of the liar's stream", || rig.metric("reel_program_streams_cut_total") >= 1.0);
    until("the end of the rude one", || rude.is_gone());
    assert!(!liar.is_gone(), "only its stream ends");
    drop((hoarder, greedy, liar, rude, honest));
    rig.await_metric("reel_program_streams", |streams| streams == 0.0);
    rig.await_metric("reel_buffers_reserved", |reserved| reserved == 0.0);
}

/// A program with a stream of a title.
fn program(rig: &Rig, title: &str) -> (Client, u64) {
    let mut program = Client::connect(&rig.socket()).expect("connected");
    let wanted = Wanted { title: title.to_owned(), ..Wanted::default() };
    let opened = program.open(&[wanted]).expect("answered").remove(0);
    (program, opened.expect("opened"))
}

#[test]
fn the_stream_of_a_program_continues_in_each_class_with_every_byte() {
    for driver in DRIVERS {
        let mut rig = promising_with(64 << 20, 100, |config| config.driver = driver);
        rig.stop();
        rig.library.volume().disks().clone().set_classes(classes([400, 400]));
        rig.start();
        let (mut program, stream) = program(&rig, "film");
        let mut bytes = Vec::new();
        let mut wanted = ["gold", "aperiodic", "", "interactive", "bulk", "gold"].into_iter();
        while program.state(&[stream])[0].expect("open").ending.is_none() {
            for held in program.read(&[stream], true).expect("read") {
                program.copy(&held, &mut bytes);
                program.give_back(stream, 1).expect("still ours");
                if let Some(class) = wanted.next() {
                    program.change_class(stream, class).expect("admitted");
                    let shown = dashboard(&rig)["sessions"][0]["class"].clone();
                    assert_eq!(shown, if class.is_empty() { "periodic" } else { class }, "{driver:?}");
                }
            }
        }
        assert!(bytes == rig.film, "{driver:?}: other bytes");
        program.close(&[stream]).expect("told");
        let ended = program.change_class(stream, "bulk");
        assert!(
            matches!(ended, Err(ClientError::Refused { code: RefusalCode::BadRequest, .. })),
            "{ended:?}"
        );
    }
}

#[test]
fn a_program_says_how_much_of_its_streams_it_holds() {
    for driver in DRIVERS {
        let rig = promising_with(64 << 20, 100, |config| config.driver = driver);
        let mut program = Client::connect(&rig.socket()).expect("connected");
        let wanted =
            || Wanted { title: "film".to_owned(), class: "aperiodic".to_owned(), ..Wanted::default() };
        let opened = program.open(&[wanted(), wanted()]).expect("answered");
        let set: Vec<u64> = opened.into_iter().map(|stream| stream.expect("opened")).collect();
        program.resize(&[set[0], 1_000_000], 1).expect("told");
        program.resize(&[set[1]], u64::MAX).expect("told");
        // The answer to this comes after the server has heard that.
        program.change_class(set[0], "aperiodic").expect("its own class");
        let (mut bytes, mut batches) = (Vec::new(), Vec::new());
        while program.state(&[set[0]])[0].expect("open").ending.is_none() {
            let held = program.read(&[set[0]], true).expect("read");
            held.iter().for_each(|held| program.copy(held, &mut bytes));
            program.give_back(set[0], held.len()).expect("still ours");
            batches.push(held.len());
        }
        assert!(bytes == rig.film, "{driver:?}: other bytes");
        // What was written before the first of them is one batch.
        assert!(batches[1..].iter().all(|messages| *messages <= 1), "{driver:?}: {batches:?}");
        assert!(batches.len() > 10);
        // The other one has as much as it began with.
        let mut held_bytes = 0;
        while held_bytes < 500_000 {
            let held = program.read(&[set[1]], true).expect("read");
            held_bytes += held.iter().map(|held| u64::from(held.message.bytes)).sum::<u64>();
        }
    }
}

#[test]
fn a_program_is_told_why_its_stream_keeps_its_class() {
    // The gold class has room for none.
    let rig = dear_members_of(classes([790, 10]));
    let (mut program, stream) = program(&rig, "long");
    let before = in_classes(&rig);
    for (class, wanted, said) in [
        ("gold", RefusalCode::NotAdmitted, "member"),
        ("royal", RefusalCode::BadRequest, "there is no class royal"),
    ] {
        match program.change_class(stream, class) {
            Err(ClientError::Refused { code, text, .. }) => {
                assert_eq!(code, wanted, "{text}");
                assert!(text.contains(said), "{text}");
            }
            other => panic!("{class}: {other:?}"),
        }
    }
    assert_eq!(in_classes(&rig), before);
    let unknown = program.change_class(stream + 1, "bulk");
    assert!(
        matches!(unknown, Err(ClientError::Refused { code: RefusalCode::BadRequest, .. })),
        "{unknown:?}"
    );
    program.change_class(stream, "bulk").expect("it needs no room");
}
