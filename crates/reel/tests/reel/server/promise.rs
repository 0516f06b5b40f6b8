//! What is reserved for viewers, and the answer when a reservation does not fit.
//!
//! These tests count. Whether what was reserved comes in time is a question for the simulator
//! (`reel-sim`), where a busy machine does not make disks slow.

use crate::server::misuse::promising_with;
use crate::server::rig::{Answer, Rig, head};
use reel_library::{IngestOptions, Input};
use reel_play::UplinkRate;
use reel_qos::{ClassTable, DiskPrice};
use std::sync::{Arc, OnceLock};

fn watch(rig: &Rig, file_and_query: &str) -> Answer {
    watch_title(rig, "film", file_and_query)
}

pub(crate) fn watch_title(rig: &Rig, title: &str, file_and_query: &str) -> Answer {
    rig.connect().ask(&format!("GET /watch/{title}/{file_and_query}"), "")
}

fn problem(answer: &Answer) -> serde_json::Value {
    serde_json::from_slice(&answer.body).expect("a problem is JSON")
}

/// The fields of a problem must be those of the published schema, with the types that it gives:
/// the media front end and the API make problems in two places.
fn assert_as_published(problem: &serde_json::Value) {
    let document = reel_api::openapi_document();
    let schema = &document["components"]["schemas"]["Problem"];
    for (field, value) in problem.as_object().expect("an object") {
        let published = &schema["properties"][field];
        assert!(!published.is_null(), "the schema does not know {field}: {problem}");
        let types = published["type"].to_string();
        let fits = match value {
            serde_json::Value::String(_) => types.contains("string") || published["type"].is_null(),
            serde_json::Value::Number(_) => types.contains("integer"),
            serde_json::Value::Bool(_) => types.contains("boolean"),
            _ => false,
        };
        assert!(fits, "{field} is {value}, published as {published}");
    }
    for field in schema["required"].as_array().expect("required fields") {
        assert!(!problem[field.as_str().expect("a name")].is_null(), "{field} is absent: {problem}");
    }
}

#[test]
fn a_session_that_does_not_fit_is_refused_with_what_would_fit() {
    let rig = Rig::new(|config| {
        config.promise.admission = true;
        config.promise.network_bps = Some(20_000);
        config.promise.uplink = UplinkRate::Known(20_000);
    });
    for file in ["master.m3u8", "manifest.mpd", "film.mp4"] {
        let refused = watch(&rig, file);
        assert_eq!(refused.status, 503, "{file}");
        assert!(refused.head.contains("application/problem+json"));
        let retry_after_s: u64 = refused.field("Retry-After").expect("a time").parse().expect("a number");
        assert!(retry_after_s > 0);
        let problem = problem(&refused);
        assert_eq!(problem["type"], "urn:reel:problem:not-admitted");
        assert_eq!(problem["resource"], "network");
        assert_as_published(&problem);
        assert_eq!(problem["never"], true, "an idle server has no more");
        assert!(problem["asked"].as_u64() > problem["available"].as_u64());
        assert!(problem["grantable_rate_bps"].as_u64().expect("a rate") < 20_000);
        assert_eq!(problem["retry_after_s"].as_u64(), Some(retry_after_s));
    }
    rig.await_metric("reel_refusals_total{resource=\"network\"}", |refusals| refusals == 3.0);
    assert_eq!(rig.metric("reel_sessions"), 0.0);
    // A request without a reservation is still served as well as possible.
    let bulk = watch(&rig, "master.m3u8?class=aperiodic");
    assert_eq!(bulk.status, 307);
    assert_eq!(rig.connect().ask("GET /files/film.mp4", "").body, rig.film);
}

#[test]
fn an_admitted_viewer_gets_every_byte_as_segments_and_as_a_file() {
    let rig = standing();
    let session = rig.session();
    let mut client = rig.connect();
    let playlist = client.ask(&format!("GET {session}0/media.m3u8"), "");
    assert_eq!(playlist.status, 200);
    let segments =
        String::from_utf8_lossy(&playlist.body).lines().filter(|line| line.ends_with(".m4s")).count();
    let mut bytes = 0;
    for segment in 1..=segments {
        bytes += segment_of(&rig, &session, segment).len();
    }
    let file = watch(&rig, "film.mp4");
    let location = file.location().expect("a redirect");
    let whole = rig.connect().ask(&format!("GET {location}"), "");
    assert_eq!((whole.status, whole.body == rig.film), (200, true));
    bytes += whole.body.len();
    // A core counts sent bytes in a later section, which may be after the client has them.
    rig.await_metric("reel_http_media_bytes_total", |sent| sent >= bytes as f64);
    assert_eq!(rig.metric("reel_http_media_bytes_total{class=\"aperiodic\"}"), 0.0, "all of them reserved");
    assert_eq!(rig.metric("reel_unpromised_total"), 0.0);
}

#[test]
fn a_session_has_reservations_for_one_player_with_any_number_of_ranges_at_once() {
    let rig = standing();
    let file = watch(&rig, "film.mp4").location().expect("a redirect");
    let mut first = rig.connect_narrow();
    first.send(head(&format!("GET {file}"), "").as_bytes());
    let bytes = first.answer_head().announced_bytes();
    let mut film = first.read(1000);
    assert_eq!(rig.metric("reel_unpromised_total"), 0.0);
    // Another range of the same title, which is not read to its end.
    let far = bytes / 2;
    let mut second = rig.connect_narrow();
    second.send(head(&format!("GET {file}"), &format!("Range: bytes={far}-\r\n")).as_bytes());
    assert_eq!(second.answer_head().status, 206);
    assert_eq!(second.read(1000), rig.film[far..far + 1000]);
    while rig.metric("reel_unpromised_total") == 0.0 {
        film.extend(first.read(1000));
        assert!(film.len() < far, "both were promised");
    }
    // The newest response has ended: playing continues from the older one.
    drop(second);
    let promised = || rig.metric("reel_http_media_bytes_total{class=\"periodic\"}");
    let before = promised();
    while promised() < before + 65_536.0 {
        film.extend(first.read(1000));
        assert!(film.len() < bytes - 2000, "no client was promised what is left");
    }
    film.extend(first.read(bytes - film.len()));
    assert!(film == rig.film);
}

/// Each answer would be due at once, and come before the reserved work of other sessions.
#[test]
fn repeated_requests_exceed_the_allowance() {
    let rig = standing();
    let left_over = || rig.metric("reel_http_media_bytes_total{class=\"aperiodic\"}");
    let session = rig.session();
    let mut client = rig.connect();
    let mut ask = |file: &str, fields: &str| client.ask(&format!("GET {session}{file}"), fields);
    let segment = ask("0/1.m4s", "");
    let mut asked = 1;
    while rig.metric("reel_unpromised_total") == 0.0 {
        assert!(ask("0/1.m4s", "").body == segment.body);
        asked += 1;
        assert!(asked < 1_000, "all of them were promised");
    }
    assert!(asked > 10, "a player that tries again loses what it was promised");
    rig.await_metric("reel_http_media_bytes_total{class=\"aperiodic\"}", |bytes| bytes > 0.0);
    // Nor is the same segment covered piece by piece.
    let before = left_over();
    let is_left_over = (0..1_000).any(|_| {
        let piece = ask("0/1.m4s", "Range: bytes=1000-1999\r\n").body;
        assert!(piece == segment.body[1000..2000]);
        left_over() > before
    });
    assert!(is_left_over, "all of them were promised");
}

/// A reservation covers the bytes of one form: pictures of one rendition and sound of one language,
/// or the file with all of its sound. A client that requests the other form as well gets it without
/// a reservation, from time that no other session wants.
#[test]
fn a_reservation_for_segments_does_not_cover_the_file_nor_the_reverse() {
    let rig = standing();
    let sent = |class: &str| rig.metric(&format!("reel_http_media_bytes_total{{class=\"{class}\"}}"));
    let part = |file: &str, fields: &str| {
        let (promised, left_over) = (sent("periodic") + sent("interactive"), sent("aperiodic"));
        let before = rig.metric("reel_http_media_bytes_total");
        let answer = rig.connect().ask(&format!("GET {file}"), fields);
        assert!(matches!(answer.status, 200 | 206), "{}", answer.head);
        let bytes = answer.head.len() + answer.body.len();
        // A core counts sent bytes in a later section, which may be after the client has them.
        rig.await_metric("reel_http_media_bytes_total", |sent| sent >= before + bytes as f64);
        let more = (sent("periodic") + sent("interactive") - promised, sent("aperiodic") - left_over);
        (more.0 >= bytes as f64, more.1 >= bytes as f64, answer.body)
    };
    let session = rig.session();
    let segment = part(&format!("{session}0/1.m4s"), "");
    assert_eq!((segment.0, segment.1), (true, false), "a segment of who plays segments");
    let file = part(&format!("{session}film.mp4"), "");
    assert_eq!((file.0, file.1), (false, true), "the file of who plays segments");
    assert!(file.2 == rig.film);
    let file = watch(&rig, "film.mp4").location().expect("a redirect");
    let promised = part(&file, "Range: bytes=0-99999\r\n");
    assert_eq!((promised.0, promised.1), (true, false), "the file of who plays the file");
    let session = file.strip_suffix("film.mp4").expect("the file");
    let other = part(&format!("{session}0/1.m4s"), "");
    assert_eq!(
        (other.0, other.1, other.2 == segment.2),
        (false, true, true),
        "a segment of who plays the file"
    );
    // A session of the API covers the form that is requested first.
    let json = "Content-Type: application/json\r\nContent-Length: 16\r\n";
    let opened = rig.connect().ask_with("POST /api/v1/sessions", json, "{\"title\":\"film\"}");
    assert_eq!(opened.status, 201, "{}", opened.head);
    let file = problem(&opened)["progressive"].as_str().expect("an address").to_owned();
    let promised = part(&file, "Range: bytes=0-99999\r\n");
    assert_eq!((promised.0, promised.1), (true, false), "the file of who has played nothing yet");
}

#[test]
fn a_class_is_named_in_the_query() {
    let rig = standing();
    let named = watch(&rig, "master.m3u8?class=periodic");
    assert_eq!(named.status, 307, "{}", String::from_utf8_lossy(&named.body));
    assert_eq!(watch(&rig, "master.m3u8?a=b&class=interactive").status, 307);
    let unknown = watch(&rig, "master.m3u8?class=royal");
    assert_eq!(unknown.status, 400);
    assert!(problem(&unknown)["detail"].as_str().expect("words").contains("/api/v1/classes"));
}

/// The time of housekeeping that ends no reservation and learns no price, however long requests
/// take on a busy machine.
fn standing_clock() -> u64 {
    static STANDS_AT_NS: OnceLock<u64> = OnceLock::new();
    *STANDS_AT_NS.get_or_init(reel_rt::now_ns)
}

/// A server that admits, on members of a price that was not measured here, and whose housekeeping
/// sees no time pass.
fn standing() -> Rig {
    promising_with(64 << 20, 100, |config| config.housekeeping_clock = standing_clock)
}

/// A server with a title of two minutes in `languages` languages. Its members are configured to
/// take so long for a read that they carry few viewers of it.
pub(crate) fn dear_members(languages: usize) -> Rig {
    dear_members_on(languages, None)
}

/// The same on a network that carries so many bits in a second.
pub(crate) fn dear_members_on(languages: usize, network_bps: Option<u64>) -> Rig {
    dear_members_by(reel_rt::now_ns, languages, network_bps)
}

/// The same as [`dear_members`], and housekeeping sees no time pass.
fn standing_dear_members(languages: usize) -> Rig {
    dear_members_by(standing_clock, languages, None)
}

/// The same with these classes.
pub(crate) fn dear_members_of(classes: Arc<ClassTable>) -> Rig {
    let mut rig = standing_dear_members(1);
    rig.stop();
    rig.library.volume().disks().clone().set_classes(classes);
    rig.start();
    rig
}

fn dear_members_by(clock: fn() -> u64, languages: usize, network_bps: Option<u64>) -> Rig {
    // Later starts are not what these tests are about.
    let mut rig = Rig::with_memory(256 << 20, |config| {
        (config.promise.admission, config.promise.start_wait_s) = (true, 0);
        config.housekeeping_clock = clock;
        config.promise.network_bps = network_bps;
        if let Some(rate_bps) = network_bps {
            config.promise.uplink = UplinkRate::Known(rate_bps);
        }
    });
    let source = rig.path("long.mp4");
    let mut ffmpeg = std::process::Command::new("ffmpeg");
    ffmpeg
        .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=5:duration=120"])
        .args(["-f", "lavfi", "-i", "sine=duration=120", "-c:v", "libx264", "-preset", "ultrafast"])
        .args(["-g", "20", "-pix_fmt", "yuv420p", "-c:a", "aac", "-map", "0:v"]);
    (0..languages).for_each(|_| {
        ffmpeg.args(["-map", "1:a"]);
    });
    let status = ffmpeg.arg(&source).status();
    assert!(status.expect("ffmpeg is installed").success());
    let named = IngestOptions { name: Some("long".to_owned()), ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(source)], &named, &mut |_| {}).expect("taken");
    rig.stop();
    set_request_price(&rig, 40_000_000);
    rig.start();
    rig
}

/// What each member is said to take for a request.
pub(crate) fn set_request_price(rig: &Rig, request_ns: u64) {
    let disks = rig.library.volume().disks().clone();
    let price = DiskPrice {
        read_request_ns: request_ns,
        read_mib_ns: 1_000_000,
        write_request_ns: request_ns,
        write_mib_ns: 1_000_000,
        independent_limits: false,
    };
    (0..disks.members()).for_each(|member| disks.set_price(member, price.into()));
}

/// How many of `most` viewers in a row are admitted to a file of the title, and their addresses.
fn admit_crowd(rig: &Rig, file: &str, most: usize) -> Vec<String> {
    let location = |answer: Answer| {
        assert!(matches!(answer.status, 307 | 503), "{}", answer.head);
        answer.location()
    };
    (0..most).map_while(|_| location(watch_title(rig, "long", file))).collect()
}

#[test]
fn sharing_admits_more_viewers_of_one_title_than_the_disks_carry_and_units_are_read_once() {
    const CROWD: usize = 40;
    // As one file, every viewer is charged with the disks.
    let alone = admit_crowd(&standing_dear_members(1), "long.mp4", CROWD).len();
    assert!((1..CROWD / 4).contains(&alone), "{alone} viewers alone");
    let rig = standing_dear_members(1);
    let crowd = admit_crowd(&rig, "master.m3u8", CROWD);
    assert_eq!(crowd.len(), CROWD, "beside {alone} alone");
    assert!(rig.metric("reel_followers") >= (CROWD - alone) as f64);
    assert!(rig.metric("reel_shared_reservations") >= 1.0 && rig.metric("reel_interval_bytes") > 0.0);
    // One after another, in the order of their start; the first of them leaves in the middle.
    let sessions: Vec<&str> =
        crowd.iter().map(|place| place.strip_suffix("master.m3u8").expect("the playlist")).collect();
    let playlist = rig.connect().ask(&format!("GET {}0/media.m3u8", sessions[0]), "");
    let segments =
        String::from_utf8_lossy(&playlist.body).lines().filter(|line| line.ends_with(".m4s")).count();
    let first: Vec<Vec<u8>> = (1..=segments).map(|segment| segment_of(&rig, sessions[0], segment)).collect();
    let read = rig.metric("reel_units_read_total");
    let key = sessions[0].trim_matches('/').rsplit('/').next().expect("a key");
    assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "").status, 204);
    for session in &sessions[1..] {
        for (segment, wanted) in (1..).zip(&first) {
            assert!(segment_of(&rig, session, segment) == *wanted, "segment {segment} of {session}");
        }
    }
    assert_eq!(
        rig.metric("reel_units_read_total") - read,
        0.0,
        "units read by the others, {read} by the first"
    );
    assert_eq!(rig.metric("reel_units_kept_evicted_total"), 0.0);
}

#[test]
fn viewers_in_several_languages_share_the_pictures_and_change_the_language_freely() {
    const CROWD: usize = 40;
    let alone = admit_crowd(&standing_dear_members(2), "long.mp4", CROWD).len();
    let rig = standing_dear_members(2);
    let crowd = admit_crowd(&rig, "master.m3u8", CROWD);
    let followers = rig.metric("reel_followers");
    assert!(crowd.len() > alone, "{} beside {alone} alone", crowd.len());
    // Nothing is left, and each viewer has a separate sound track.
    assert!(crowd.len() < CROWD && followers >= (crowd.len() - alone) as f64, "{followers} follow");
    let sessions: Vec<&str> =
        crowd.iter().map(|place| place.strip_suffix("master.m3u8").expect("the playlist")).collect();
    let mut read_by_two = 0.0;
    for (number, session) in sessions.iter().enumerate() {
        for segment in 1..=6 {
            segment_of(&rig, session, segment);
            // Tracks 1 and 2 are sound.
            track_of(&rig, session, 1 + (number + segment / 3) % 2, segment);
        }
        if number == 1 {
            read_by_two = rig.metric("reel_units_read_total");
        }
    }
    // Two viewers request both languages of every segment. The others add at most what is read
    // ahead.
    let read = rig.metric("reel_units_read_total");
    assert!(read_by_two > 0.0 && read < 2.0 * read_by_two, "{read} units, {read_by_two} by the first two");
    assert_eq!(rig.metric("reel_units_kept_evicted_total"), 0.0);
}

fn segment_of(rig: &Rig, session: &str, segment: usize) -> Vec<u8> {
    track_of(rig, session, 0, segment)
}

fn track_of(rig: &Rig, session: &str, track: usize, segment: usize) -> Vec<u8> {
    let answer = rig.connect().ask(&format!("GET {session}{track}/{segment}.m4s"), "");
    assert_eq!(answer.status, 200, "segment {segment}: {}", String::from_utf8_lossy(&answer.body));
    answer.body
}

#[test]
fn a_jump_for_which_there_is_no_room_is_answered_without_a_reservation() {
    let rig = standing_dear_members(1);
    let session = watch_title(&rig, "long", "master.m3u8").location().expect("a session");
    let folder = session.strip_suffix("master.m3u8").expect("the playlist").to_owned();
    let mut client = rig.connect();
    let mut segment = |number| client.ask(&format!("GET {folder}0/{number}.m4s"), "").status;
    assert_eq!((segment(1), segment(2)), (200, 200));
    // What is promised is more than there is from here on.
    set_request_price(&rig, 4_000_000_000);
    rig.await_metric("reel_promised_peak_ratio{resource=\"disk\",member=\"0\"}", |ratio| ratio > 1.0);
    assert_eq!(watch_title(&rig, "long", "master.m3u8").status, 503, "a new session is refused");
    assert_eq!((segment(20), segment(21), segment(5)), (200, 200, 200));
    assert!(rig.metric("reel_unpromised_total") >= 3.0);
    let dashboard = rig.connect().ask("GET /api/v1/dashboard", "").body;
    let dashboard: serde_json::Value = serde_json::from_slice(&dashboard).expect("JSON");
    assert_eq!(dashboard["sessions"][0]["state"], "displaced", "{dashboard}");
}
