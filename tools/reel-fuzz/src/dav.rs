//! Any bytes are a question of WebDAV or are refused, and every question has an answer that is
//! well-formed and small.

use crate::cost::{Cost, within};
use allocation_counter::opt_out;
use quick_xml::NsReader;
use quick_xml::events::Event;
use quick_xml::name::ResolveResult;
use reel_api::dav::answer::{self, FileFacts, Resource};
use reel_api::dav::question::{BadQuestion, Question};
use reel_api::limits::{DAV_ELEMENTS_MAX, DAV_NAMES_BYTES_MAX, DAV_PROPERTIES_MAX};

/// The response for a resource without the names that the client gave.
const RESPONSE_BYTES_MAX: usize = 2 << 10;

/// A question, and its answers for a directory and a file. Names that are not known are written in
/// each of them, in a text that grows.
const COST: Cost = Cost { bytes: 64 << 10, bytes_each: 4, pieces: 1000, pieces_each_16: 2 };

/// Reads the bytes as the body of a PROPFIND, and answers it.
pub fn dav_question(bytes: &[u8]) {
    within(COST, bytes, answer);
}

fn answer(bytes: &[u8]) {
    let question = match Question::parse(bytes) {
        Ok(question) => question,
        Err(BadQuestion::Encoding(why) | BadQuestion::Malformed(why)) => {
            return assert!(why.chars().count() <= 200, "{} bytes", why.len());
        }
    };
    if let Question::Values(wanted) = &question {
        assert!(wanted.known.len() <= DAV_PROPERTIES_MAX && wanted.unknown.len() <= DAV_NAMES_BYTES_MAX);
    }
    let directory = Resource { href: "/dav/play/".to_owned(), name: "play".to_owned(), file: None };
    let facts = FileFacts {
        bytes: u64::MAX,
        etag: "\"film-1-2-3-1-mp4\"".to_owned(),
        last_modified: "Thu, 01 Jan 1970 00:00:00 GMT".to_owned(),
        created: "1970-01-01T00:00:00Z".to_owned(),
    };
    let name = "<A> & \"B's\" \u{0} 七".to_owned();
    let file = Resource { href: "/dav/play/film.mp4".to_owned(), name, file: Some(facts) };
    for resource in [&directory, &file] {
        let response = answer::response(&question, resource);
        assert!(response.len() <= RESPONSE_BYTES_MAX + DAV_NAMES_BYTES_MAX, "{} bytes", response.len());
        // A client costs the server nothing.
        opt_out(|| read(&[answer::BEGIN, &response, answer::END].concat()));
    }
}

/// Reads an answer as a client does.
fn read(answer: &str) {
    let mut reader = NsReader::from_str(answer);
    let (mut elements, mut depth) = (0, 0_usize);
    loop {
        let (namespace, event) = reader.read_resolved_event().expect("well-formed");
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Empty(_) => {}
            Event::Eof => break,
            _ => continue,
        }
        elements += 1;
        assert!(!matches!(namespace, ResolveResult::Unknown(_)), "{answer}");
    }
    assert!(depth == 0 && elements <= DAV_ELEMENTS_MAX, "{answer}");
}
