//! `reel cast plan`: the table of schemes, its JSON and drawing, and refusals.

use std::fs;

use serde_json::Value;

use crate::cli::films::{broadcast_stream, short, short_stream};
use crate::cli::receiving::serving;
use crate::cli::rig::TestDir;

/// The clip of the INSTANCE thesis, section 4.2.2.
const CLIP: [&str; 6] = ["cast", "plan", "--duration", "180s", "--rate", "3.5M"];

fn plan(dir: &TestDir, arguments: &[&str]) -> Value {
    dir.reel(&[arguments, &["--json"]].concat()).done().json()
}

/// The row of a scheme.
fn row<'a>(answer: &'a Value, scheme: &str) -> &'a Value {
    let rows = answer["plans"].as_array().unwrap();
    rows.iter().find(|row| row["scheme"] == scheme).unwrap_or_else(|| panic!("no {scheme}: {answer}"))
}

/// Segments, channels, kb/s and milliseconds of waiting.
fn cost(answer: &Value, scheme: &str) -> [u64; 4] {
    let row = row(answer, scheme);
    let number = |key: &str| row[key].as_u64().unwrap();
    let wait_ms = (row["wait_s"].as_f64().unwrap() * 1e3).round() as u64;
    [number("segments"), number("channels"), (number("bandwidth_bps") + 500) / 1000, wait_ms]
}

#[test]
fn the_clip_of_the_paper_is_compared() {
    let dir = TestDir::new();
    // The wait is that of `reel receive`: two slots of 2.5 s, and half a second to join.
    let answer = plan(&dir, &[&CLIP[..], &["--wait", "5500ms"]].concat());
    assert_eq!(cost(&answer, "harmonic (paper)"), [33, 32, 15_955, 5455]);
    assert_eq!(cost(&answer, "harmonic"), [72, 71, 18_714, 5500]);
    assert_eq!(cost(&answer, "staggered"), [72, 72, 252_000, 5500]);
    assert_eq!(cost(&answer, "fast"), [72, 7, 24_500, 5500]);
    assert_eq!(cost(&answer, "skyscraper-12"), [72, 10, 35_000, 5500]);
    assert_eq!(cost(&answer, "skyscraper-52"), [72, 9, 31_500, 5500]);
    assert_eq!(cost(&answer, "rfs"), [72, 5, 17_500, 5500]);
    for row in answer["plans"].as_array().unwrap() {
        let slot_s = row["slot_s"].as_f64().unwrap();
        let wait_s = if row["scheme"] == "harmonic (paper)" { slot_s } else { 2.0 * slot_s + 0.5 };
        assert!((wait_s - row["wait_s"].as_f64().unwrap()).abs() < 1e-6, "{row}");
        assert!(row["buffer_share"].as_f64().unwrap() < 0.6, "{row}");
    }
    assert_eq!(row(&answer, "skyscraper-52")["client_bps"], 7_000_000);
    let text = dir.reel(&[&CLIP[..], &["--wait", "5s"]].concat()).done().stdout;
    assert!(text.starts_with("3:00, 3.5 Mb/s on average, for a wait of at most 5.00 s\n"), "{text}");
    // The paper counts one slot.
    let line = text.lines().find(|line| line.starts_with("harmonic (paper)")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[2..5], ["36", "35", "16.26"], "{text}");
    assert!(text.contains("note: WAIT is the longest time from the start of `reel receive`"), "{text}");
}

#[test]
fn a_bandwidth_gives_the_shortest_wait() {
    let dir = TestDir::new();
    let answer = plan(&dir, &[&CLIP[..], &["--bandwidth", "17.5M", "--scheme", "rfs"]].concat());
    assert_eq!(cost(&answer, "rfs"), [73, 5, 17_500, 5432]);
    assert_eq!(answer["plans"].as_array().unwrap().len(), 1);
    let all = plan(&dir, &[&CLIP[..], &["--bandwidth", "17.5M"]].concat());
    for row in all["plans"].as_array().unwrap() {
        assert!(row["bandwidth_bps"].as_u64().unwrap() <= 17_500_000, "{row}");
    }
    assert_eq!(all["plans"].as_array().unwrap().len(), 7);
}

#[test]
fn a_schedule_is_drawn() {
    let dir = TestDir::new();
    let drawn = [&CLIP[..], &["--wait", "5500ms", "--scheme", "skyscraper", "--svg", "plan.svg"]].concat();
    dir.reel(&drawn).done();
    let svg = fs::read_to_string(dir.path("plan.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    for words in ["skyscraper-52: 72 segments on 9 channels", "channel 9<", "played<", "joins at slot 3"] {
        assert!(svg.contains(words), "{words}");
    }
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    assert!(!svg.contains("href"), "nothing is loaded from elsewhere");
    dir.reel(&drawn).refused(2, &["plan.svg already exists", "--force"]);
    dir.reel(&[&drawn[..], &["--force"]].concat()).done();
    // A staggered schedule of 360 channels is cut to what can be read.
    let many = ["--wait", "1500ms", "--scheme", "staggered", "--svg", "many.svg"];
    dir.reel(&[&CLIP[..], &many].concat()).done();
    let svg = fs::read_to_string(dir.path("many.svg")).unwrap();
    assert!(svg.contains("328 more channels are not drawn"));
    assert_eq!(dir.names(""), ["many.svg", "plan.svg"]);
}

#[test]
fn a_transport_stream_is_planned_with_its_key_frames() {
    let dir = TestDir::with_volume();
    fs::copy(short_stream(), dir.path("film.ts")).unwrap();
    dir.reel(&["ingest", "volume", "film.ts", "--form", "ts"]).done();
    // Key frames are 2 s apart, so the first of two segments has 4 of 6 s, sent in 3 s.
    let answer = plan(&dir, &["cast", "plan", "film", "--volume", "volume", "--wait", "7s"]);
    assert_eq!(answer["title"], "film");
    let rate_bps = answer["rate_bps"].as_u64().unwrap();
    assert!((1_900_000..2_100_000).contains(&rate_bps), "{answer}");
    let [segments, channels, ..] = cost(&answer, "fast");
    assert_eq!((segments, channels), (2, 2), "{answer}");
    let peak_bps = row(&answer, "fast")["peak_bps"].as_u64().unwrap();
    // With FEC of a fourth, headers, and a matrix more in whose time the last FEC is sent.
    assert!((rate_bps * 25 / 10..rate_bps * 36 / 10).contains(&peak_bps), "{answer}");
    // Segments of half a second have no key frames.
    let answer = plan(&dir, &["cast", "plan", "film", "--volume", "volume", "--wait", "1500ms"]);
    assert_eq!(row(&answer, "rfs")["peak_bps"], Value::Null);
    let notes = answer["notes"].to_string();
    assert_eq!(notes.matches("segment 2 of 12 would be empty: its key frames are too far apart").count(), 1);
}

#[test]
fn a_title_without_a_transport_stream_is_estimated() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let answer = plan(&dir, &["cast", "plan", "short", "--volume", "volume", "--wait", "2s"]);
    assert!(answer["notes"].to_string().contains("no form ts"), "{answer}");
    assert!((5.9..6.2).contains(&answer["duration_s"].as_f64().unwrap()), "{answer}");
    assert!(answer["rate_bps"].as_u64().unwrap() > 100_000, "{answer}");
    dir.reel(&["cast", "plan", "long", "--volume", "volume", "--wait", "2s"])
        .refused(3, &["long", "reel titles"]);
    dir.reel(&["cast", "plan", "short", "--volume", "nowhere", "--wait", "2s"]).refused(3, &["nowhere"]);
}

#[test]
fn impossible_plans_are_refused() {
    let dir = TestDir::new();
    for arguments in [
        &["cast", "plan"][..],
        &["cast", "plan", "--duration", "180s", "--wait", "5s"],
        &["cast", "plan", "--rate", "3M", "--wait", "5s"],
        &CLIP,
        &[&CLIP[..], &["--wait", "5"]].concat(),
        &[&CLIP[..], &["--wait", "0s"]].concat(),
        &[&CLIP[..], &["--wait", "5s", "--bandwidth", "20M"]].concat(),
        &[&CLIP[..], &["--wait", "5s", "--force"]].concat(),
    ] {
        assert_eq!(dir.reel(arguments).code, Some(2), "{arguments:?}");
    }
    dir.reel(&[&CLIP[..], &["--wait", "5s", "--scheme", "pyramid"]].concat())
        .refused(2, &["no scheme \"pyramid\"", "rfs"]);
    dir.reel(&[&CLIP[..], &["--wait", "5s", "--scheme", "skyscraper-13"]].concat())
        .refused(2, &["use 1, 2, 5"]);
    dir.reel(&[&CLIP[..], &["--wait", "5s", "--scheme", "linear"]].concat())
        .refused(2, &["joined where it is", "help: use another scheme"]);
    dir.reel(&[&CLIP[..], &["--wait", "520ms"]].concat()).refused(2, &["18000 segments", "longer wait"]);
    dir.reel(&[&CLIP[..], &["--wait", "500ms"]].concat()).refused(2, &["too short", "join 0.5 s before"]);
    dir.reel(&[&CLIP[..], &["--bandwidth", "3M"]].concat()).refused(2, &["3500000 b/s", "more bandwidth"]);
    // A title is that of a running server, if no volume is named.
    let none = ["cast", "plan", "film", "--wait", "5s", "--server", "http://127.0.0.1:1"];
    dir.reel(&none).refused(1, &["no server answers at http://127.0.0.1:1"]);
    dir.reel(&[&none[..], &["--volume", "films"]].concat()).refused(2, &["--volume", "--server"]);
    assert_eq!(dir.names(""), Vec::<String>::new());
}

#[test]
fn a_running_server_plans_as_the_command_does_without_one() {
    let (dir, server) = serving(&broadcast_stream());
    let url = format!("http://{}", server.address());
    let plans = |place: [&str; 2]| {
        let ask = |more: &[&str]| {
            let command = ["cast", "plan", "broadcast", place[0], place[1], "--force", "--svg", "plan.svg"];
            let printed = dir.reel(&[&command[..], more].concat()).done().stdout;
            (printed, fs::read_to_string(dir.path("plan.svg")).unwrap())
        };
        let scheme = ["--bandwidth", "6M", "--scheme", "fast"];
        [ask(&["--wait", "4100ms"]), ask(&["--wait", "4100ms", "--json"]), ask(&scheme)]
    };
    let told = plans(["--server", &url]);
    let refused = dir.reel(&["cast", "plan", "none", "--wait", "4s", "--server", &url]);
    refused.refused(1, &["none"]);
    drop(server);
    assert_eq!(told, plans(["--volume", "volume"]));
    assert!(told[0].0.starts_with("broadcast: 0:12, 1.5 Mb/s on average"), "{}", told[0].0);
    assert!(told[0].0.contains("harmonic (paper)"), "{}", told[0].0);
    assert!(told[2].1.contains("fast: 3 segments on 2 channels"), "{}", told[2].1);
}

#[test]
fn a_group_needs_a_port() {
    let dir = TestDir::new();
    for (group, words) in [
        ("239.9.1.1", "the port is missing; name one, for example 239.9.1.1:5000"),
        ("ff15::9", "for example [ff15::9]:5000"),
        ("[ff15::9]", "for example [ff15::9]:5000"),
        ("television", "no group with a port"),
    ] {
        dir.reel(&["cast", "add", "film", "--group", group]).refused(2, &[words]);
    }
}
