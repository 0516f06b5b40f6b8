//! What is promised to viewers, and what they are told when it cannot be.

use crate::rig::{Answer, Rig};

fn watch(rig: &Rig, file_and_query: &str) -> Answer {
    rig.connect().ask(&format!("GET /watch/film/{file_and_query}"), "")
}

fn problem(answer: &Answer) -> serde_json::Value {
    serde_json::from_slice(&answer.body).expect("a problem is JSON")
}

#[test]
fn a_stream_that_cannot_be_promised_is_refused_with_what_could_be() {
    let rig = Rig::new(|config| {
        config.promise.admission = true;
        config.promise.network_bps = Some(20_000);
    });
    for file in ["master.m3u8", "manifest.mpd", "film.mp4"] {
        let refused = watch(&rig, file);
        assert_eq!(refused.status, 503, "{file}");
        assert!(refused.head.contains("application/problem+json"));
        let retry_after_s: u64 = refused.field("Retry-After").expect("a time").parse().expect("a number");
        assert!(retry_after_s > 0);
        let problem = problem(&refused);
        assert_eq!(problem["type"], "urn:reel:problem:not-admitted");
        assert_eq!(problem["resource"], "the network");
        assert!(problem["asked"].as_u64() > problem["available"].as_u64());
        assert!(problem["grantable_rate_bps"].as_u64().expect("a rate") < 20_000);
        assert_eq!(problem["retry_after_s"].as_u64(), Some(retry_after_s));
    }
    assert_eq!(rig.metric("reel_refusals_total{resource=\"network\"}"), 3.0);
    assert_eq!(rig.metric("reel_sessions"), 0.0);
    // What nobody was promised is still served as well as it can be.
    let bulk = watch(&rig, "master.m3u8?class=aperiodic");
    assert_eq!(bulk.status, 307);
    assert_eq!(rig.connect().ask("GET /files/film.mp4", "").body, rig.film);
}

#[test]
fn an_admitted_viewer_gets_every_byte_as_segments_and_as_a_file() {
    let rig = Rig::new(|config| config.promise.admission = true);
    let session = rig.session();
    let mut client = rig.connect();
    let playlist = client.ask(&format!("GET {session}0/media.m3u8"), "");
    assert_eq!(playlist.status, 200);
    let segments =
        String::from_utf8_lossy(&playlist.body).lines().filter(|line| line.ends_with(".m4s")).count();
    for segment in 1..=segments {
        assert_eq!(client.ask(&format!("GET {session}0/{segment}.m4s"), "").status, 200, "segment {segment}");
    }
    let file = watch(&rig, "film.mp4");
    let location = file.field("Location").expect("a redirect").to_owned();
    let whole = rig.connect().ask(&format!("GET {location}"), "");
    assert_eq!((whole.status, whole.body == rig.film), (200, true));
    assert_eq!(rig.metric("reel_deadline_misses_total{class=\"periodic\"}"), 0.0);
}

#[test]
fn a_class_is_named_in_the_query() {
    let rig = Rig::new(|config| config.promise.admission = true);
    let named = watch(&rig, "master.m3u8?class=periodic");
    assert_eq!(named.status, 307, "{}", String::from_utf8_lossy(&named.body));
    assert_eq!(watch(&rig, "master.m3u8?a=b&class=interactive").status, 307);
    let unknown = watch(&rig, "master.m3u8?class=royal");
    assert_eq!(unknown.status, 400);
    assert!(problem(&unknown)["detail"].as_str().expect("words").contains("/api/v1/classes"));
}
