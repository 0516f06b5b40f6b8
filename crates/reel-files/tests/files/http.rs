//! A server that is asked by HTTP: what it answers, and what it should not.

use reel_files::limits::ANSWER_BYTES_MAX;
use reel_files::{
    AskError, ClassFacts, FileForm, FileTimes, HttpServer, Media, MediaSession, NotOpened, OpenAs, Refused,
    Server, TitleFacts,
};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Answers each connection by `answer`, and tells the first lines of requests.
fn serve(answer: impl Fn(&mut TcpStream) + Send + 'static) -> (HttpServer, Receiver<String>) {
    serve_below("/", answer)
}

/// The same for a server whose address has this path.
fn serve_below(
    path: &str,
    answer: impl Fn(&mut TcpStream) + Send + 'static,
) -> (HttpServer, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = HttpServer::new(&format!("http://{}{path}", listener.local_addr().unwrap()), 5_000_000);
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            lines.take_while(|line| !line.as_ref().unwrap().is_empty()).for_each(drop);
            answer(&mut stream);
            if tell.send(first).is_err() {
                return;
            }
        }
    });
    (server, told)
}

/// A server with one answer to everything.
fn says(status: &str, body: &str) -> (HttpServer, Receiver<String>) {
    says_below("/", status, body)
}

fn says_below(path: &str, status: &str, body: &str) -> (HttpServer, Receiver<String>) {
    let length = body.len();
    let response =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    // The client may have read enough.
    serve_below(path, move |stream| drop(stream.write_all(response.as_bytes())))
}

/// Longer than any answer here takes.
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

const TITLE: &str =
    r#"{"id":"a","name":"A","duration_s":61.5,"forms":[{"form":"cmaf","average_bps":7}],"video":[]}"#;

#[test]
fn answers_of_the_api_become_facts() {
    let title = TitleFacts { id: "a".into(), name: "A".to_owned(), seconds: 61.5, rate_bps: Some(7) };
    let (server, told) = says("200 OK", TITLE);
    assert_eq!(server.title("a", soon()), Ok(Some(title.clone())));
    assert_eq!(told.recv().unwrap(), "GET /api/v1/titles/a HTTP/1.1");
    let (server, told) = says("200 OK", &format!(r#"{{"titles":[{TITLE}]}}"#));
    assert_eq!(server.titles(soon()), Ok(vec![title]));
    assert_eq!(told.recv().unwrap(), "GET /api/v1/titles HTTP/1.1");
    let class = r#"[{"name":"gold","kind":"periodic","share_permille":700,"network_permille":600}]"#;
    let gold = ClassFacts {
        name: "gold".into(),
        kind: "periodic".to_owned(),
        share_permille: 700,
        network_permille: Some(600),
    };
    assert_eq!(says("200 OK", class).0.classes(soon()), Ok(vec![gold]));
    let (server, told) = says("200 OK", r#"{"viewers":9,"more_now":4}"#);
    assert_eq!(server.more_viewers(soon()), Ok(4));
    assert_eq!(told.recv().unwrap(), "GET /api/v1/capacity?rate_bps=5000000 HTTP/1.1");
    let (server, _told) = says("200 OK", r#"{"viewers":9,"more_now":null}"#);
    assert_eq!(server.more_viewers(soon()), Ok(9));
}

#[test]
fn a_title_that_is_not_there_or_has_another_id_is_no_title() {
    assert_eq!(says("404 Not Found", "{}").0.title("a", soon()), Ok(None));
    assert_eq!(says("200 OK", TITLE).0.title("b", soon()), Ok(None));
    let (server, told) = says("404 Not Found", "{}");
    assert_eq!(server.title("..", soon()), Ok(None));
    assert_eq!(told.recv().unwrap(), "GET /api/v1/titles/%2E%2E HTTP/1.1");
}

#[test]
fn what_is_no_answer_of_reel_cannot_be_used() {
    for (status, body) in [
        ("200 OK", "<html>"),
        ("200 OK", ""),
        ("200 OK", r#"{"titles":[{"id":"a"}]}"#),
        ("200 OK", &"[".repeat(100_000)),
        ("500 Internal Server Error", r#"{"detail":"broken"}"#),
        ("404 Not Found", ""),
        ("302 Found\r\nLocation: /api/v1/titles", r#"{"titles":[]}"#),
    ] {
        let said = says(status, body).0.titles(soon());
        assert!(matches!(said, Err(AskError::Unusable(_))), "{status} {body:.20}: {said:?}");
    }
}

#[test]
fn an_answer_without_end_is_given_up() {
    let (server, _told) = serve(|stream| {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        let spaces = vec![b' '; 1 << 20];
        // Until the client hangs up.
        while stream.write_all(&spaces).is_ok() {}
    });
    let too_long = Err(AskError::Unusable(format!("more than {ANSWER_BYTES_MAX} bytes")));
    assert_eq!(server.titles(soon()).map(drop), too_long);
}

#[test]
fn an_answer_that_does_not_come_is_late() {
    let (release, held) = channel::<()>();
    let (server, _told) = serve(move |stream| {
        // A part of it comes.
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{");
        let _ = held.recv();
    });
    let late = |until| server.titles(until).map(drop) == Err(AskError::Late);
    assert!(late(Instant::now() + Duration::from_millis(100)));
    assert!(late(Instant::now()), "and there is no time at all");
    drop(release);
}

#[test]
fn a_port_that_does_not_answer_is_unreachable() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    // Held, so that no other program listens there.
    let held = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = SocketAddr::try_from(getsockname(&held).unwrap()).unwrap();
    let server = HttpServer::new(&format!("http://{address}"), 1);
    assert!(matches!(server.titles(soon()), Err(AskError::Unreachable(_))));
}

const AS_OF: OpenAs<'_> = OpenAs { class: "periodic", user: 1000 };

fn session() -> MediaSession {
    MediaSession { user: 1000, key: "00ff".to_owned(), path: "/s/00ff/a.mp4".to_owned() }
}

#[test]
fn a_session_is_opened_read_and_ended() {
    let (server, told) = says("307 Temporary Redirect\r\nLocation: ../../s/00ff/a.mp4", "");
    assert_eq!(server.open("a", FileForm::Mp4, AS_OF, soon()), Ok(session()));
    assert_eq!(told.recv().unwrap(), "GET /watch/a/a.mp4?class=periodic HTTP/1.1");
    let (server, told) = says("206 Partial Content\r\nContent-Range: bytes 10-13/99", "abcd");
    assert_eq!(server.piece(&session(), 10..14, soon()), Ok(b"abcd".to_vec()));
    assert_eq!(told.recv().unwrap(), "GET /s/00ff/a.mp4 HTTP/1.1");
    for status in ["204 No Content", "404 Not Found"] {
        let (server, told) = says(status, "");
        assert_eq!(server.end(&session(), soon()), Ok(()));
        assert_eq!(told.recv().unwrap(), "DELETE /api/v1/sessions/00ff HTTP/1.1");
    }
    let times = r#"{"bytes":250,"duration_ns":5,"stretches":[{"byte":0,"at_ns":0},{"byte":100,"at_ns":2}]}"#;
    let (server, told) = says("200 OK", times);
    let expected = FileTimes::new(250, 5, vec![(0, 0), (100, 2)]);
    assert_eq!(server.file_times("a+b", FileForm::Mp4, soon()), Ok(expected.expect("times")));
    assert_eq!(told.recv().unwrap(), "GET /api/v1/titles/a%2Bb/file-times HTTP/1.1");
    let refused =
        says("404 Not Found", r#"{"detail":"a has no sound"}"#).0.file_times("a+b", FileForm::Mp4, soon());
    assert!(
        matches!(&refused, Err(NotOpened::Refused(Refused { detail, .. })) if detail == "a has no sound")
    );
}

#[test]
fn the_server_may_be_below_a_path_of_a_proxy() {
    for location in ["../../s/00ff/a.mp4", "/reel/s/00ff/a.mp4"] {
        let redirect = format!("307 Temporary Redirect\r\nLocation: {location}");
        let (server, told) = says_below("/reel/", &redirect, "");
        assert_eq!(server.open("a", FileForm::Mp4, AS_OF, soon()), Ok(session()), "{location}");
        assert_eq!(told.recv().unwrap(), "GET /reel/watch/a/a.mp4?class=periodic HTTP/1.1");
    }
    let (server, told) = says_below("/reel", "206 Partial Content\r\nContent-Range: bytes 10-13/99", "abcd");
    assert_eq!(server.piece(&session(), 10..14, soon()), Ok(b"abcd".to_vec()));
    assert_eq!(told.recv().unwrap(), "GET /reel/s/00ff/a.mp4 HTTP/1.1");
    for elsewhere in ["/s/00ff/a.mp4", "../../../s/00ff/a.mp4", "//reel/s/00ff/a.mp4"] {
        let redirect = format!("307 Temporary Redirect\r\nLocation: {elsewhere}");
        let said = says_below("/reel/", &redirect, "").0.open("a", FileForm::Mp4, AS_OF, soon());
        assert!(matches!(said, Err(NotOpened::Asked(AskError::Unusable(_)))), "{elsewhere}: {said:?}");
    }
}

#[test]
fn a_refusal_is_one_line_with_its_kind_and_reason() {
    let problem = "{\n \"type\": \"urn:reel:problem:not-admitted\",\n \"never\": true, \"detail\": \"the network is full\" }";
    let refused = says("503 Service Unavailable", problem).0.open("a", FileForm::Mp4, AS_OF, soon());
    let Err(NotOpened::Refused(refused)) = refused else { panic!("{refused:?}") };
    let kind = "urn:reel:problem:not-admitted";
    assert_eq!((refused.status, &*refused.kind, refused.is_never), (503, kind, true));
    assert_eq!(refused.detail, "the network is full");
    assert_eq!(
        refused.json,
        r#"{"detail":"the network is full","never":true,"type":"urn:reel:problem:not-admitted"}"#
    );
    // What is no problem document is still a refusal.
    let refused = says("500 Internal Server Error", "<html>").0.piece(&session(), 0..4, soon());
    let Err(NotOpened::Refused(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!(refused.detail, "the server answers 500");
}

#[test]
fn what_is_no_session_and_no_piece_cannot_be_used() {
    for status in ["200 OK", "307 Temporary Redirect", "302 Found\r\nLocation: /s/00ff/a.mp4"] {
        let said = says(status, "").0.open("a", FileForm::Mp4, AS_OF, soon());
        assert!(matches!(said, Err(NotOpened::Asked(AskError::Unusable(_)))), "{status}: {said:?}");
    }
    let elsewhere = "307 Temporary Redirect\r\nLocation: http://other/s/00ff/a.mp4";
    assert!(says(elsewhere, "").0.open("a", FileForm::Mp4, AS_OF, soon()).is_err());
    let part = "206 Partial Content\r\nContent-Range: bytes";
    for (status, body) in [
        ("200 OK", "abcd"),
        ("206 Partial Content", "abcd"),
        (&format!("{part} 0-4/9"), "abcd"),
        (&format!("{part} 1-4/9"), "abcd"),
        (&format!("{part} 0-3/9"), "abc"),
        (&format!("{part} 0-3/9"), "abcde"),
    ] {
        let said = says(status, body).0.piece(&session(), 0..4, soon());
        assert!(matches!(said, Err(NotOpened::Asked(AskError::Unusable(_)))), "{status}: {said:?}");
    }
    let times = r#"{"bytes":250,"duration_ns":5,"stretches":[{"byte":0,"at_ns":6}]}"#;
    assert!(matches!(
        says("200 OK", times).0.file_times("a", FileForm::Mp4, soon()),
        Err(NotOpened::Asked(AskError::Unusable(_)))
    ));
}
