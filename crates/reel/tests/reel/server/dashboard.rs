//! What a server reports of its reservations and disks, and jobs on its volume while a title plays.

use crate::server::rig::Rig;
use reel_disk::Fault;
use reel_play::UplinkRate;
use reel_volume::Replacement;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn get(rig: &Rig, path: &str) -> Value {
    let answer = rig.connect().ask(&format!("GET {path}"), "");
    assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
    serde_json::from_slice(&answer.body).expect("JSON")
}

fn send(rig: &Rig, request: &str, body: &str) -> (u16, Value) {
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let answer = rig.connect().ask_with(request, &fields, body);
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
}

/// Runs a job to its end.
fn work(rig: &Rig, path: &str, body: &str) -> Value {
    let (status, job) = send(rig, &format!("POST /api/v1/volume/{path}"), body);
    assert_eq!(status, 202, "{job}");
    let address = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(120) {
        let job = get(rig, &address);
        if job["state"] != "running" {
            return job;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{path} does not end");
}

/// The dashboard as soon as it tells of bytes sent to its first session.
fn await_sent(rig: &Rig) -> Value {
    let from = Instant::now();
    loop {
        let shown = get(rig, "/api/v1/dashboard");
        if shown["sessions"][0]["sent_bytes"].as_u64() > Some(0) || from.elapsed() > Duration::from_secs(120)
        {
            return shown;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_session_is_shown_with_its_reservations_until_it_is_closed() {
    let rig = Rig::new(|config| {
        config.promise.admission = true;
        config.promise.network_bps = Some(8_000_000_000);
        config.promise.uplink = UplinkRate::Known(8_000_000_000);
    });
    let before = get(&rig, "/api/v1/dashboard");
    assert_eq!(before["sessions"], json!([]));
    assert_eq!(before["members"].as_array().map(Vec::len), Some(5));
    assert_eq!(before["members"][4]["state"], "present");
    let network = |shown: &Value| {
        let all = shown["resources"].as_array().expect("a list").clone();
        let network = all.iter().find(|r| r["resource"] == "network").expect("the network").clone();
        (network["peak_used"].as_u64().expect("bytes"), network["capacity"].as_u64().expect("bytes"))
    };
    assert_eq!(network(&before).0, 0);
    let close = |session: &str| {
        let key = session.trim_matches('/').rsplit('/').next().expect("a key").to_owned();
        assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "").status, 204);
        key
    };
    // The title is two seconds long, and reservations of past rounds are released. On a busy
    // machine that may be before anything is asked.
    let from = Instant::now();
    let session = loop {
        let session = rig.session();
        let ratio = rig.metric("reel_promised_peak_ratio{resource=\"network\"}");
        let shown = get(&rig, "/api/v1/dashboard");
        if ratio > 0.0 && network(&shown).0 > 0 {
            assert_eq!(network(&shown).1, 799_000_000, "85 % of 0.94 GB each second: {shown}");
            break session;
        }
        assert!(from.elapsed() < Duration::from_secs(120), "nothing is shown as reserved: {ratio}, {shown}");
        close(&session);
    };
    assert_eq!(rig.connect().ask(&format!("GET {session}0/1.m4s"), "").status, 200);
    // A core counts sent bytes in a later section, which may be after the client has them.
    let shown = await_sent(&rig);
    let held = &shown["sessions"][0];
    assert_eq!(
        (&held["title"], &held["class"], &held["state"]),
        (&json!("film"), &json!("periodic"), &json!("playing"))
    );
    assert_eq!(held["client"], "127.0.0.1");
    assert!(held["rate_bps"].as_u64() > Some(0) && held["sent_bytes"].as_u64() > Some(0), "{held}");
    let key = close(&session);
    assert_eq!(held["key_hint"], key[..4], "no more of it: it is a secret");
    assert!(!shown.to_string().contains(&key));
    let shown = get(&rig, "/api/v1/dashboard");
    assert_eq!((&shown["sessions"], network(&shown).0), (&json!([]), 0));
}

#[test]
fn shares_are_changed_while_it_runs_and_capacity_follows_them() {
    let rig = Rig::new(|config| {
        config.promise.admission = true;
        config.promise.network_bps = Some(50_000_000);
        config.promise.uplink = UplinkRate::Known(50_000_000);
    });
    let viewers = || get(&rig, "/api/v1/capacity?rate_bps=1000000");
    let of_many = viewers();
    assert!(of_many["viewers"].as_u64().expect("a number") > 0, "{of_many}");
    assert_eq!(of_many["viewers"], of_many["more_now"], "no viewer is there");
    let body = r#"[{"name":"periodic","kind":"periodic","share_permille":100},
        {"name":"interactive","kind":"interactive","share_permille":100},
        {"name":"aperiodic","kind":"aperiodic","share_permille":800}]"#;
    assert_eq!(send(&rig, "PUT /api/v1/classes", body).0, 200);
    assert_eq!(get(&rig, "/api/v1/classes")[2]["share_permille"], 800);
    assert_eq!(rig.metric("reel_class_share{class=\"aperiodic\",kind=\"aperiodic\"}"), 0.8);
    let of_few = viewers();
    assert!(of_few["viewers"].as_u64() < of_many["viewers"].as_u64(), "{of_few} of {of_many}");
    let (status, problem) = send(&rig, "PUT /api/v1/classes", &body.replace("800", "801"));
    assert_eq!(
        (status, get(&rig, "/api/v1/classes")[2]["share_permille"].as_u64()),
        (422, Some(800)),
        "{problem}"
    );
    assert!(problem["detail"].as_str().expect("words").contains("1001"));
    // The ledger applies the change within a round.
    let begun = Instant::now();
    while viewers()["more_now"] != of_few["viewers"] {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", viewers());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_member_is_replaced_and_rebuilt_while_the_server_runs() {
    let rig = Rig::new(|_| {});
    assert_eq!(work(&rig, "scrub", "")["result"], "everything is as it was written");
    let job = work(&rig, "rebuild", "");
    assert_eq!(job["state"], "failed");
    assert!(job["error"].as_str().expect("words").contains("no member lacks anything"), "{job}");
    let new = rig.path("replacement");
    let body = json!({ "member": 2, "path": new }).to_string();
    let healthy = work(&rig, "replace", &body);
    assert!(
        healthy["error"].as_str().expect("words").contains("in use and healthy; stop the server"),
        "{healthy}"
    );

    assert_eq!(rig.metric("reel_member_present"), 5.0);
    rig.faults.inject(2, Fault::Vanish);
    assert_eq!(rig.connect().ask("GET /files/film.mp4", "").body, rig.film);
    assert_eq!(get(&rig, "/api/v1/dashboard")["members"][2]["state"], "failed");
    assert_eq!(rig.metric("reel_member_present"), 4.0);
    // It is the old device that fails.
    rig.faults.clear(2);
    let nothing = work(&rig, "replace", &body);
    assert!(nothing["error"].as_str().expect("words").contains("there is nothing at"), "{nothing}");
    assert!(!new.exists());
    let body = json!({ "member": 2, "path": new, "create": true }).to_string();
    let job = work(&rig, "replace", &body);
    assert_eq!((&job["state"], &job["result"]), (&json!("done"), &json!("member 2 is in use")), "{job}");
    assert_eq!(get(&rig, "/api/v1/volume")["state"], "ok");
    assert_eq!(rig.metric("reel_member_present"), 5.0);
    rig.faults.inject(3, Fault::Vanish);
    assert_eq!(rig.connect().ask("GET /files/film.mp4", "").body, rig.film, "it protects again");
}

#[test]
fn a_server_continues_a_rebuild_that_the_previous_one_did_not_finish() {
    let mut rig = Rig::new(|_| {});
    rig.stop();
    let path = rig.path("replacement");
    let replacement = Replacement { create: true, replace_healthy: true, ..Replacement::new(1, path) };
    rig.library.volume().replace(&replacement).expect("replaced");
    assert_eq!(rig.library.volume().rebuilding(), [1]);
    rig.start();
    let begun = Instant::now();
    while !rig.library.volume().rebuilding().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(120), "it is not rebuilt");
        std::thread::sleep(Duration::from_millis(10));
    }
    rig.faults.inject(3, Fault::Vanish);
    assert_eq!(rig.connect().ask("GET /files/film.mp4", "").body, rig.film);
}
