//! Shares of classes that are written, for a server that says what the test wants.

use reel_files::limits::WRITTEN_BYTES_MAX;
use reel_files::{
    AskError, ClassFacts, Field, Group, HttpServer, MemberFacts, Node, NotOpened, Refused, Server,
    TitleFacts, Tree,
};
use rustix::io::Errno;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

/// A server with classes, which takes every table, or gives an answer that the test has set.
struct Fake {
    classes: Mutex<Vec<ClassFacts>>,
    fails: Mutex<Option<NotOpened>>,
}

impl Fake {
    fn new() -> Arc<Fake> {
        let class = |(name, share_permille): (&str, u32)| ClassFacts {
            name: name.into(),
            kind: name.to_owned(),
            share_permille,
            network_permille: Some(share_permille / 2),
        };
        let classes = [("periodic", 700), ("interactive", 150), ("aperiodic", 150)].map(class).to_vec();
        Arc::new(Fake { classes: Mutex::new(classes), fails: Mutex::default() })
    }

    fn shares(&self) -> Vec<u32> {
        self.classes.lock().unwrap().iter().map(|class| class.share_permille).collect()
    }
}

impl Server for Fake {
    fn titles(&self, _until: Instant) -> Result<Vec<TitleFacts>, AskError> {
        Ok(Vec::new())
    }

    fn title(&self, _id: &str, _until: Instant) -> Result<Option<TitleFacts>, AskError> {
        Ok(None)
    }

    fn members(&self, _until: Instant) -> Result<Vec<MemberFacts>, AskError> {
        Ok(Vec::new())
    }

    fn classes(&self, _until: Instant) -> Result<Vec<ClassFacts>, AskError> {
        let classes = self.classes.lock().unwrap().clone();
        // Another thread may write meanwhile, if nothing prevents it.
        std::thread::yield_now();
        Ok(classes)
    }

    fn set_classes(&self, classes: &[ClassFacts], _until: Instant) -> Result<(), NotOpened> {
        match &*self.fails.lock().unwrap() {
            Some(error) => Err(error.clone()),
            None => {
                *self.classes.lock().unwrap() = classes.to_vec();
                Ok(())
            }
        }
    }

    fn more_viewers(&self, _until: Instant) -> Result<u64, AskError> {
        Ok(0)
    }
}

fn share_of(class: &str) -> Node {
    Node::Value(Group::Classes, class.into(), Field::Share)
}

#[test]
fn a_share_that_was_written_is_read_at_once_and_nothing_else_changes() {
    let (server, now) = (Fake::new(), Instant::now());
    let tree = Tree::new(server.clone());
    let text = |class: &str| tree.text(&share_of(class), now, now).unwrap();
    assert_eq!(text("periodic"), "700\n");
    assert_eq!(tree.write(&share_of("periodic"), b"600\n", now, now), Ok(()));
    assert_eq!([text("periodic"), text("interactive"), text("aperiodic")], ["600\n", "150\n", "250\n"]);
    // The newline may be left out, and what is read can be written.
    assert_eq!(tree.write(&share_of("interactive"), b"200", now, now), Ok(()));
    assert_eq!(tree.write(&share_of("aperiodic"), text("aperiodic").as_bytes(), now, now), Ok(()));
    assert_eq!(server.shares(), [600, 200, 200]);
    let classes = server.classes.lock().unwrap();
    let rest: Vec<_> = classes.iter().map(|class| (&*class.kind, class.network_permille)).collect();
    assert_eq!(rest, [("periodic", Some(350)), ("interactive", Some(75)), ("aperiodic", Some(75))]);
}

#[test]
fn what_is_no_share_or_cannot_be_written_is_refused_and_changes_nothing() {
    let (server, now) = (Fake::new(), Instant::now());
    let tree = Tree::new(server.clone());
    let errno = |file: &Node, written: &[u8]| tree.write(file, written, now, now).unwrap_err().errno;
    let long = [b"6".repeat(WRITTEN_BYTES_MAX), b"\n".to_vec()].concat();
    for written in [&b""[..], b"\n", b"x", b"600\n150\n", b"-1", b"60%", b"\xff", b"4294967296", &long] {
        assert_eq!(errno(&share_of("periodic"), written), Errno::INVAL, "{written:?}");
    }
    assert_eq!(errno(&share_of("gold"), b"100"), Errno::NOENT);
    assert_eq!(errno(&Node::Value(Group::Classes, "periodic".into(), Field::Kind), b"1"), Errno::ROFS);
    assert_eq!(errno(&Node::Capacity, b"1"), Errno::ROFS);
    assert_eq!(server.shares(), [700, 150, 150]);
}

#[test]
fn every_answer_that_is_no_change_has_its_number() {
    let (server, now) = (Fake::new(), Instant::now());
    let tree = Tree::new(server.clone());
    let refused = |status| {
        let (kind, json) = ("urn:reel:problem:impossible-classes".to_owned(), String::new());
        NotOpened::Refused(Refused { status, kind, is_never: false, detail: "no".to_owned(), json })
    };
    for (answer, errno) in [
        (refused(422), Errno::INVAL),
        (refused(400), Errno::INVAL),
        (refused(403), Errno::ACCESS),
        (refused(429), Errno::AGAIN),
        (refused(500), Errno::IO),
        (AskError::Late.into(), Errno::TIMEDOUT),
        (AskError::Unreachable("gone".to_owned()).into(), Errno::IO),
    ] {
        *server.fails.lock().unwrap() = Some(answer.clone());
        let problem = tree.write(&share_of("periodic"), b"600", now, now).unwrap_err();
        assert_eq!(problem.errno, errno, "{answer:?}");
        assert_eq!(problem.text, answer.to_string());
    }
    assert_eq!(server.shares(), [700, 150, 150]);
}

#[test]
fn of_shares_that_are_written_at_once_none_is_lost() {
    const ROUNDS: u32 = 200;
    let (server, now) = (Fake::new(), Instant::now());
    let (tree, both) = (Tree::new(server.clone()), Barrier::new(2));
    let write = |class: &str, from: u32| {
        for round in 1..=ROUNDS {
            both.wait();
            let share = (from - round % 100).to_string();
            tree.write(&share_of(class), share.as_bytes(), now, now).unwrap();
            both.wait();
            let less = round % 100;
            assert_eq!(server.shares(), [700 - less, 150 - less, 150 + 2 * less], "round {round}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write("periodic", 700));
        write("interactive", 150);
    });
}

/// A server by HTTP with these classes, that answers a change with this. It tells the method, the
/// path and the body of each request.
fn http(classes: &'static str, changed: &'static str) -> (HttpServer, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = HttpServer::new(&format!("http://{}", listener.local_addr().unwrap()), 5_000_000);
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while stream.read_line(&mut head).unwrap() > 2 {}
            let lower = head.to_ascii_lowercase();
            let bytes = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            let mut body = vec![0; bytes.map_or(0, |bytes| bytes.parse().unwrap())];
            stream.read_exact(&mut body).unwrap();
            let first = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
            let answer = if first.starts_with("PUT") { changed } else { classes };
            let length = answer.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
            let answer = answer.replacen("\r\n", &format!("\r\nContent-Length: {length}\r\n"), 1);
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            if tell.send((first, String::from_utf8(body).unwrap())).is_err() {
                return;
            }
        }
    });
    (server, told)
}

/// Longer than any answer here takes.
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

const CLASSES: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[\
    {\"name\":\"periodic\",\"kind\":\"periodic\",\"share_permille\":700,\"network_permille\":850},\
    {\"name\":\"aperiodic\",\"kind\":\"aperiodic\",\"share_permille\":300}]";

#[test]
fn the_server_is_told_the_whole_table_and_its_reason_is_kept() {
    let (server, told) = http(CLASSES, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[]");
    let tree = Tree::new(server);
    assert_eq!(tree.write(&share_of("periodic"), b"600\n", Instant::now(), soon()), Ok(()));
    assert_eq!(told.recv().unwrap().0, "GET /api/v1/classes");
    let (request, body) = told.recv().unwrap();
    assert_eq!(request, "PUT /api/v1/classes");
    let wanted = serde_json::json!([
        { "name": "periodic", "kind": "periodic", "share_permille": 600, "network_permille": 850 },
        { "name": "aperiodic", "kind": "aperiodic", "share_permille": 400 },
    ]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap(), wanted);

    let refusal = "HTTP/1.1 422 Unprocessable Entity\r\nConnection: close\r\n\r\n{\"detail\":\"too much\"}";
    let (server, _told) = http(CLASSES, refusal);
    let tree = Tree::new(server);
    let problem = tree.write(&share_of("periodic"), b"1000", Instant::now(), soon()).unwrap_err();
    assert_eq!((problem.errno, &*problem.text), (Errno::INVAL, "too much"));
    // A proxy that leads elsewhere has changed nothing.
    let elsewhere = "HTTP/1.1 302 Found\r\nLocation: /\r\nConnection: close\r\n\r\n";
    let (server, _told) = http(CLASSES, elsewhere);
    let tree = Tree::new(server);
    let problem = tree.write(&share_of("periodic"), b"600", Instant::now(), soon()).unwrap_err();
    assert_eq!(problem.errno, Errno::IO);
}
