//! A defect ends what it concerns: the opening of a title, a connection, the work of one thread.

use crate::film::Film;
use crate::lines::{PANIC_OF_THE_THREAD, PANIC_ON};
use crate::serving::Serving;
use reel_library::Library;
use reel_serve::FrontEnd;
use reel_serve::limits::{OPENING_TIME_MAX_NS, TITLE_PANICS_MAX};
use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

fn text(answer: Vec<u8>) -> String {
    String::from_utf8(answer).expect("text")
}

#[test]
fn a_title_whose_opening_panics_twice_is_set_aside_and_others_are_opened() {
    let film = Film::new();
    let (openings, bad) = (Arc::new(AtomicU32::new(0)), film.id.clone());
    let counted = Arc::clone(&openings);
    let open = move |library: &Library, id: &str| {
        if id == bad {
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose");
        }
        library.open(id)
    };
    let serving = Serving::opening_by(&film, OPENING_TIME_MAX_NS, Box::new(open));
    for _ in 0..TITLE_PANICS_MAX {
        let refused = text(serving.request(&film.id));
        assert!(refused.contains(&film.id) && refused.contains("try again once"), "{refused}");
    }
    for _ in 0..3 {
        let refused = text(serving.request(&film.id));
        assert!(refused.contains(&film.id) && refused.contains("set aside"), "{refused}");
    }
    let merged = text(serving.request(&format!("other+{}", film.id)));
    assert!(merged.contains("set aside"), "a merged title needs both parts: {merged}");
    assert_eq!(openings.load(Ordering::Relaxed), TITLE_PANICS_MAX, "it is not opened any more");
    let refused = text(serving.request("nothing"));
    assert!(refused.starts_with("refused: there is no title nothing"), "{refused}");
    serving.stop();
}

/// Two openings hang, on the two threads that there are, so that a third one waits.
#[test]
fn clients_do_not_wait_for_openings_that_hang() {
    let film = Film::new();
    let (release, held): (Sender<()>, Receiver<()>) = channel();
    let held = Mutex::new(held);
    let open = move |library: &Library, id: &str| {
        if id.starts_with("hangs") {
            // Ends when the test drops the other half.
            let _ = held.lock().expect("no thread panics here").recv();
        }
        library.open(id)
    };
    let serving = Serving::opening_by(&film, 50_000_000, Box::new(open));
    for title in ["hangs-0", "hangs-1", &film.id] {
        let refused = text(serving.request(title));
        assert!(refused.contains("could not be opened in time"), "{refused}");
    }
    drop(release);
    // As soon as the threads are free, titles are opened again.
    while serving.request(&film.id) != film.file {}
    serving.stop();
}

#[test]
fn a_panic_on_one_connection_ends_that_one_alone_and_the_second_sets_its_title_aside() {
    let film = Film::new();
    let serving = Serving::start(&film);
    let others: Vec<(TcpStream, Vec<u8>)> = (0..4).map(|_| serving.begin(&film)).collect();
    let panics = || serving.request_of(&format!("{PANIC_ON}{}", film.id));
    assert!(panics().is_empty(), "it ends without an answer");
    for (mut stream, mut answer) in others {
        stream.read_to_end(&mut answer).expect("all of it");
        assert!(answer == film.file, "{} bytes", answer.len());
    }
    serving.until_open([0, 0]);
    serving.play(&film);
    assert!(panics().is_empty());
    let refused = text(serving.request(&film.id));
    assert!(refused.contains(&film.id) && refused.contains("set aside"), "{refused}");
    assert_eq!(serving.front_end.restarts(), 0, "no thread had to begin again");
    assert_eq!(serving.play.panics.load(Ordering::Relaxed), 2);
    serving.stop();
}

#[test]
fn a_panic_on_the_second_time_ends_the_sessions_of_the_title() {
    let film = Film::new();
    let serving = Serving::start(&film);
    let (_stream, _) = serving.begin(&film);
    assert_eq!(serving.sessions.len(), 1);
    for _ in 0..TITLE_PANICS_MAX {
        assert!(serving.request_of(&format!("{PANIC_ON}{}", film.id)).is_empty());
    }
    assert_eq!(serving.sessions.len(), 0);
}

/// The first thread is also the one that accepts.
#[test]
fn a_panic_outside_of_connections_ends_those_of_its_thread_and_the_thread_begins_again() {
    let film = Film::new();
    let serving = Serving::start(&film);
    let (mut of_first, mut cut) = serving.begin(&film);
    let (mut of_second, mut whole) = serving.begin(&film);
    serving.until_open([1, 1]);
    let _ = serving.request_of(PANIC_OF_THE_THREAD);
    // It ends with an end or a reset.
    let _ = of_first.read_to_end(&mut cut);
    assert!(cut.len() < film.file.len());
    of_second.read_to_end(&mut whole).expect("all of it");
    assert!(whole == film.file, "{} bytes", whole.len());
    serving.until_open([0, 0]);
    for _ in 0..4 {
        serving.play(&film);
    }
    assert_eq!(serving.front_end.restarts(), 1);
    assert_eq!(serving.play.restarts.load(Ordering::Relaxed), 1);
    serving.stop();
}
