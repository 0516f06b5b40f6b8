//! A request that panics, which is a defect, ends its viewer and no other one.

use crate::server::rig::{Client, DRIVERS, Rig, head};
use reel::server::Server;
use reel_disk::{DiskDone, DiskRequest, DiskWork, Reply, RequestId, Requester};
use reel_http::faults::panic_on;
use reel_qos::{Class, DEADLINE_NONE_NS};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const OTHERS: usize = 4;
/// Only ends a test that hangs.
const LONG: Duration = Duration::from_secs(120);

/// A defect that a disk thread meets when it answers.
struct Defect;

impl Reply for Defect {
    fn deliver(&self, _: DiskDone) {
        panic!("on purpose");
    }
}

/// Viewers that have taken a little of the film, on all threads.
fn viewers(rig: &Rig) -> Vec<Client> {
    let begin = |_| {
        let mut client = rig.connect_narrow();
        client.send(head("GET /files/film.mp4", "").as_bytes());
        assert_eq!(client.answer_head().announced_bytes(), rig.film.len());
        client
    };
    (0..OTHERS).map(begin).collect()
}

/// The status of a request for a playlist of a session.
fn playlist(rig: &Rig, session: &str) -> Option<u16> {
    rig.connect().try_status(&format!("GET {session}master.m3u8"))
}

#[test]
fn a_request_that_panics_ends_its_viewer_and_the_second_one_sets_the_title_aside() {
    for driver in DRIVERS {
        let rig = Rig::new(|config| config.driver = driver);
        let (sound, first, second) = (rig.session(), rig.session(), rig.session());
        let others = viewers(&rig);
        panic_on(&format!("{first}master.m3u8"), 1);
        assert_eq!(playlist(&rig, &first), None, "the connection ends without an answer");
        assert_eq!(playlist(&rig, &first), Some(410), "and so does the session");
        assert_eq!(playlist(&rig, &sound), Some(200));
        for mut client in others {
            assert!(client.read(rig.film.len()) == rig.film);
        }
        panic_on(&format!("{second}master.m3u8"), 1);
        assert_eq!(playlist(&rig, &second), None);
        assert_eq!(playlist(&rig, &sound), Some(410), "all sessions of the title have ended");
        let refused = rig.connect().ask("GET /watch/film/master.m3u8", "");
        let text = String::from_utf8(refused.body).expect("text");
        assert!(refused.status == 500 && text.contains("film is set aside"), "{text}");
        let titles = rig.connect().ask("GET /api/v1/titles", "");
        assert!(String::from_utf8(titles.body).expect("text").contains("film is set aside"));
        assert!(rig.server.as_ref().is_some_and(Server::is_whole), "no thread has ended");
    }
}

/// The program ends at once when it sees this. The server's parts end too, and nothing is lost.
#[test]
fn a_server_whose_disk_thread_panicked_says_so_and_can_be_stopped() {
    let mut rig = Rig::new(|config| config.drain_time = Duration::from_secs(1));
    rig.library.volume().disks().submit(DiskRequest {
        id: RequestId::new(),
        member: 0,
        class: Class::APERIODIC,
        requester: Requester::default(),
        deadline_ns: DEADLINE_NONE_NS,
        work: DiskWork::Sync,
        token: 0,
        reply: Arc::new(Defect),
    });
    let begun = Instant::now();
    while rig.server.as_ref().is_some_and(Server::is_whole) {
        assert!(begun.elapsed() < LONG, "it is noticed");
        thread::sleep(Duration::from_millis(5));
    }
    rig.stop();
    rig.reopen();
}
