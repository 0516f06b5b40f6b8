//! `reel capacity`: numbers of viewers, their reasons, and refusals.

use std::fs;

use serde_json::{Value, json};

use crate::cli::films::short;
use crate::cli::rig::TestDir;

fn ask(dir: &TestDir, arguments: &[&str]) -> Value {
    dir.reel(&[&["capacity", "volume", "--json"][..], arguments].concat()).done().json()
}

fn viewers(answer: &Value) -> u64 {
    answer["viewers"].as_u64().unwrap()
}

/// What names member `number` as the limit, as in the API.
fn disk(number: u64) -> Value {
    json!({ "resource": "disk", "member": number })
}

#[test]
fn a_volume_that_was_not_measured_counts_as_slow_hard_disks() {
    let dir = TestDir::with_unmeasured_volume();
    fs::write(dir.path("reel.toml"), "[promise]\nnetwork_bps = \"100G\"\n").unwrap();
    let answer = ask(&dir, &["--rate", "8M", "--config", "reel.toml"]);
    // A segment of 4 MB touches 4.7 stripes of 1,081,344 bytes, seven of ten times a fifth, which
    // is another seek: 1.7 x 15 ms and 12 ms/MiB for the 23.7 rows of 44 KiB that it touches, every
    // 4 s. So 74 fit on average, less what the seeks of several fall together by chance.
    assert_eq!((viewers(&answer), &answer["stopped_by"]), (63, &disk(0)));
    assert_eq!(answer["rate_bps"], 8_000_000);
    // Two segments of one viewer may seek in the same second.
    assert_eq!(answer["viewers_together"], 21);
    assert_eq!((&answer["viewers_carried"], &answer["carried_stopped_by"]), (&116.into(), &disk(0)));
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("member 4 is not measured") && notes.contains("100.0 Gb/s, as configured"),
        "{notes}"
    );
    let half = ask(&dir, &["--rate", "4M", "--config", "reel.toml"]);
    assert!(viewers(&half) > viewers(&answer) * 5 / 4, "a seek costs the same: {half}");
    let said = dir.reel(&["capacity", "volume", "--rate", "8M", "--config", "reel.toml"]).done().stdout;
    assert!(
        said.starts_with(
            "63 viewers of 8.0 Mb/s can be admitted, even with any one member lost and all other clients busy; the limit is \
             member 0\n21 if all of them start in the same second; "
        ),
        "{said}"
    );
    assert!(
        said.contains(
            "\n116 are carried while no member is lost and there are only viewers, which is not guaranteed; "
        ),
        "{said}"
    );
}

#[test]
fn each_resource_can_be_the_limit() {
    let dir = TestDir::with_unmeasured_volume();
    for (configuration, stopped_by) in
        [("[promise]\nnetwork_bps = \"100M\"\n", "network"), ("arena_bytes = \"64M\"\n", "memory")]
    {
        fs::write(dir.path("reel.toml"), configuration).unwrap();
        let answer = ask(&dir, &["--rate", "8M", "--config", "reel.toml"]);
        assert_eq!(answer["stopped_by"], json!({ "resource": stopped_by }), "{answer}");
    }
    fs::write(dir.path("reel.toml"), "[promise]\nnetwork_bps = \"100M\"\n").unwrap();
    let answer = ask(&dir, &["--rate", "8M", "--config", "reel.toml"]);
    assert_eq!(viewers(&answer), 9, "85 % of 94 Mb/s: {answer}");
}

#[test]
fn viewers_have_the_share_of_their_class() {
    let dir = TestDir::with_unmeasured_volume();
    let half = "[classes]\nperiodic = { kind = \"periodic\", share_permille = 350 }\n\
                interactive = { kind = \"interactive\", share_permille = 150 }\n\
                aperiodic = { kind = \"aperiodic\", share_permille = 500 }\n";
    fs::write(dir.path("reel.toml"), half).unwrap();
    let answer = ask(&dir, &["--rate", "8M", "--config", "reel.toml"]);
    // 37 on average. Chance counts for more among few.
    assert_eq!((viewers(&answer), &answer["stopped_by"]), (29, &disk(0)));
}

#[test]
fn a_lost_member_does_not_change_the_admitted_number() {
    let dir = TestDir::with_unmeasured_volume();
    let before = ask(&dir, &["--rate", "8M"]);
    fs::remove_file(dir.path("volume/member-0.reel")).unwrap();
    let after = ask(&dir, &["--rate", "8M"]);
    assert_eq!(viewers(&after), viewers(&before));
    assert_eq!(after["stopped_by"], disk(1));
    assert!(after["notes"].to_string().contains("member 0 is missing"), "{after}");
}

#[test]
fn a_title_is_counted_round_by_round() {
    let dir = TestDir::with_unmeasured_volume();
    dir.reel(&["ingest", "volume", short().to_str().unwrap()]).done();
    let answer = ask(&dir, &["--title", "short"]);
    assert!(viewers(&answer) >= answer["viewers_together"].as_u64().unwrap());
    assert!(viewers(&answer) > 0 && answer["rate_bps"].as_u64().unwrap() > 0, "{answer}");
    assert!(answer["viewers_carried"].as_u64().unwrap() >= viewers(&answer), "{answer}");
    dir.reel(&["capacity", "volume", "--title", "long"]).refused(3, &["long", "reel titles"]);
}

#[test]
fn invalid_requests_are_refused() {
    let dir = TestDir::with_unmeasured_volume();
    for arguments in [
        &["capacity", "volume"][..],
        &["capacity", "volume", "--rate", "fast"],
        &["capacity", "volume", "--rate", "0"],
        &["capacity", "volume", "--rate", "8MB"],
        &["capacity", "volume", "--rate", "1.1T"],
        &["capacity", "volume", "--rate", "8M", "--title", "short"],
    ] {
        assert_eq!(dir.reel(arguments).code, Some(2), "{arguments:?}");
    }
    // Without either, both are named.
    dir.reel(&["capacity", "volume"]).refused(2, &["--rate <RATE>|--title <TITLE>"]);
    let help = dir.reel(&["capacity", "--help"]).done().stdout;
    assert!(
        help.contains("Usage: reel capacity [OPTIONS] <--rate <RATE>|--title <TITLE>> <VOLUME>"),
        "{help}"
    );
    dir.reel(&["capacity", "nowhere", "--rate", "8M"]).refused(3, &["nowhere"]);
    // Faster than any resource: no viewer fits, and nothing overflows.
    let answer = ask(&dir, &["--rate", "1T"]);
    assert_eq!(viewers(&answer), 0, "{answer}");
}
