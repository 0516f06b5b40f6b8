//! Merged titles: the pictures of one title with the sound of another.

use super::promise::dear_members;
use super::rig::{Answer, Rig, full, head};
use crate::kept::kept;
use reel_library::{IngestOptions, Input};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// Sources of titles: `song` has other pictures and sound than the film of the rig, is longer, has
/// two languages, and its sound begins late. The others lack something.
const SOURCES: [(&str, &[&str]); 3] = [
    (
        "song",
        &[
            "-f",
            "lavfi",
            "-i",
            "smptehdbars=size=320x180:rate=30:duration=5",
            "-itsoffset",
            "0.15",
            "-f",
            "lavfi",
            "-i",
            "sine=frequency=880:sample_rate=48000:duration=4.85",
            "-f",
            "lavfi",
            "-i",
            "sine=frequency=330:sample_rate=44100:duration=5",
            "-map",
            "0:v",
            "-map",
            "1:a",
            "-map",
            "2:a",
            "-metadata:s:a:0",
            "language=deu",
            "-metadata:s:a:1",
            "language=fra",
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-g",
            "30",
            "-pix_fmt",
            "yuv420p",
            "-c:a:0",
            "aac",
            "-c:a:1",
            "flac",
            "-strict",
            "-2",
        ],
    ),
    (
        "mute",
        &[
            "-f",
            "lavfi",
            "-i",
            "testsrc=size=160x90:rate=25:duration=2",
            "-c:v",
            "libx264",
            "-pix_fmt",
            "yuv420p",
        ],
    ),
    ("radio", &["-f", "lavfi", "-i", "sine=duration=2", "-c:a", "aac"]),
];

/// Adds a title of these sources.
fn add(rig: &Rig, name: &str) {
    add_as(rig, name, name);
}

/// The same under another name.
fn add_as(rig: &Rig, source: &str, name: &str) {
    let (_, options) = SOURCES.iter().find(|(known, _)| *known == source).expect("a source");
    let file = kept(&format!("merged-{source}.mp4"), |path| {
        let status =
            Command::new("ffmpeg").args(["-nostdin", "-v", "error", "-y"]).args(*options).arg(path).status();
        assert!(status.expect("ffmpeg is installed").success());
    });
    let named = IngestOptions { name: Some(name.to_owned()), ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(file)], &named, &mut |_| {}).expect("taken");
}

/// Fails with the first difference.
fn assert_same(ours: &[String], theirs: &[String], what: &str) {
    let different = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs);
    assert!(
        ours.len() == theirs.len() && different.is_none(),
        "{what}: {} and {} lines, {different:?}",
        ours.len(),
        theirs.len()
    );
}

/// What ffmpeg decodes of the tracks of one kind (`v` or `a`): times, durations and hashes.
fn decoded(input: &str, kind: &str) -> Vec<String> {
    let map = format!("0:{kind}");
    let ffmpeg = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-copyts", "-i", input, "-map", &map, "-f", "framemd5", "-"])
        .output()
        .expect("ffmpeg is installed");
    assert!(ffmpeg.status.success(), "{input}: {}", String::from_utf8_lossy(&ffmpeg.stderr));
    let text = String::from_utf8(ffmpeg.stdout).expect("text");
    let lines: Vec<String> =
        text.lines().filter(|line| !line.starts_with("#software")).map(str::to_owned).collect();
    assert!(lines.len() > 20, "{input}: {text}");
    lines
}

/// Where a file of a new session is.
fn watch(rig: &Rig, title: &str, file: &str) -> String {
    let answer = rig.connect().ask(&format!("GET /watch/{title}/{file}"), "");
    assert_eq!(answer.status, 307, "{}{}", answer.head, String::from_utf8_lossy(&answer.body));
    answer.location().expect("a place to go")
}

fn get(rig: &Rig, path: &str) -> Answer {
    let answer = rig.connect().ask(&format!("GET {path}"), "");
    assert_eq!(answer.status, 200, "{path}: {}{}", answer.head, String::from_utf8_lossy(&answer.body));
    answer
}

fn save(rig: &Rig, name: &str, bytes: &[u8]) -> String {
    let path = rig.path(name);
    fs::write(&path, bytes).expect("written");
    path.to_str().expect("text").to_owned()
}

/// The title as one file of a session.
fn whole(rig: &Rig, title: &str) -> Vec<u8> {
    get(rig, &watch(rig, title, &format!("{title}.mp4"))).body
}

#[test]
fn the_file_has_exactly_the_pictures_of_one_title_and_the_sound_of_the_other() {
    let rig = Rig::new(|_| {});
    add(&rig, "song");
    let alone = ["film", "song"].map(|title| save(&rig, &format!("{title}.mp4"), &whole(&rig, title)));
    for (pictures, sound) in [(0, 1), (1, 0)] {
        let title = ["film+song", "song+film"][pictures];
        let bytes = whole(&rig, title);
        let merged = save(&rig, &format!("{title}.mp4"), &bytes);
        assert_same(
            &decoded(&merged, "v"),
            &decoded(&alone[pictures], "v"),
            &format!("{title}: the pictures"),
        );
        assert_same(&decoded(&merged, "a"), &decoded(&alone[sound], "a"), &format!("{title}: the sound"));
        assert_eq!(duration_s(&merged), duration_s(&alone[1]), "{title} is as long as its longer part");
        // Other ways to the same bytes.
        let encoded = title.replace('+', "%2B");
        let session =
            rig.connect().ask_with("POST /api/v1/sessions", JSON, &format!("{{\"title\":\"{title}\"}}"));
        let ways = [
            format!("/files/{title}.mp4"),
            format!("/files/{encoded}.mp4"),
            format!("/dav/play/{title}.mp4"),
            watch(&rig, &encoded, &format!("{encoded}.mp4")),
            session.json()["progressive"].as_str().expect("a place").to_owned(),
        ];
        for way in ways {
            assert!(get(&rig, &way).body == bytes, "{way}");
        }
        let mut exported = Vec::new();
        rig.library.export(title, &mut exported, &mut |_, _| {}).expect("exported");
        assert!(exported == bytes, "{title} is exported as it is played");
    }
}

const JSON: &str = "Content-Type: application/json\r\nContent-Length: 21\r\n";

fn duration_s(file: &str) -> f64 {
    let ffprobe = Command::new("ffprobe")
        .args(["-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", file])
        .output()
        .expect("ffprobe is installed");
    String::from_utf8_lossy(&ffprobe.stdout).trim().parse().expect("seconds")
}

/// The tracks in a master playlist: the path of each media playlist, by what its line says.
fn segments_of(rig: &Rig, folder: &str, track: &str) -> BTreeMap<String, Vec<u8>> {
    let text = String::from_utf8(get(rig, &format!("{folder}{track}/media.m3u8")).body).expect("text");
    let map = text.lines().filter_map(|line| line.strip_prefix("#EXT-X-MAP:URI=\"")?.strip_suffix('"'));
    let names = text.lines().filter(|line| !line.starts_with('#')).chain(map);
    names.map(|name| (name.to_owned(), get(rig, &format!("{folder}{track}/{name}")).body)).collect()
}

/// The numbers of the tracks whose segments a master playlist leads to: pictures, then sound.
fn tracks_of(rig: &Rig, folder: &str) -> [Vec<String>; 2] {
    let text = String::from_utf8(get(rig, &format!("{folder}master.m3u8")).body).expect("text");
    let uri = |line: &str| Some(line.split_once("URI=\"")?.1.split_once("/media.m3u8")?.0.to_owned());
    let sound: Vec<_> = text.lines().filter(|line| line.contains("TYPE=AUDIO")).filter_map(uri).collect();
    let mut pictures: Vec<_> =
        text.lines().filter_map(|line| line.strip_suffix("/media.m3u8")).map(str::to_owned).collect();
    pictures.dedup();
    [pictures, sound]
}

#[test]
fn segments_are_those_of_the_parts() {
    let rig = Rig::new(|_| {});
    add(&rig, "song");
    let folder =
        |title: &str| watch(&rig, title, "master.m3u8").strip_suffix("master.m3u8").expect("it").to_owned();
    for (title, pictures, sound) in [("film+song", "film", "song"), ("song+film", "song", "film")] {
        let (merged, alone) = (folder(title), [pictures, sound].map(folder));
        let tracks = tracks_of(&rig, &merged);
        for (kind, alone) in alone.iter().enumerate() {
            let expected = &tracks_of(&rig, alone)[kind];
            assert!(!expected.is_empty() && tracks[kind].len() == expected.len(), "{title}: {tracks:?}");
            for (own, other) in tracks[kind].iter().zip(expected) {
                let (own, other) = (segments_of(&rig, &merged, own), segments_of(&rig, alone, other));
                assert!(own.len() > 1 && own == other, "{title}: track {kind}");
            }
        }
        for file in ["master.m3u8", "manifest.mpd"] {
            let of = |title: &str| format!("http://{}/watch/{title}/{file}", rig.address());
            assert_same(
                &decoded(&of(title), "v:0"),
                &decoded(&of(pictures), "v:0"),
                &format!("{title}: pictures by {file}"),
            );
            assert_same(
                &decoded(&of(title), "a"),
                &decoded(&of(sound), "a"),
                &format!("{title}: sound by {file}"),
            );
        }
    }
}

#[test]
fn what_cannot_be_merged_is_refused_with_the_reason() {
    let rig = Rig::new(|_| {});
    for name in ["mute", "radio"] {
        add(&rig, name);
    }
    for (title, reason) in [
        ("film+none", "there is no title none"),
        ("none+film", "there is no title none"),
        ("film+film", "both parts are the same title"),
        ("film+mute+radio", "it has more than two parts"),
        ("film+", "one of its parts has no name"),
        ("radio+film", "radio has no pictures"),
        ("film+mute", "mute has no sound"),
    ] {
        for path in [
            format!("/watch/{title}/{title}.mp4"),
            format!("/watch/{title}/master.m3u8"),
            format!("/files/{title}.mp4"),
        ] {
            let answer = rig.connect().ask(&format!("GET {path}"), "");
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(answer.status == 404 && text.contains(reason), "{path}: {} {text}", answer.status);
        }
        let reason = reason.replace("none", "\\\"none\\\"");
        let body = format!("{{\"title\":\"{title}\"}}");
        let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let answers = [
            rig.connect().ask_with("POST /api/v1/sessions", &fields, &body),
            rig.connect().ask(&format!("GET /api/v1/titles/{title}"), ""),
        ];
        for answer in answers {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(answer.status == 404, "{title}: {} {text}", answer.status);
            assert!(text.contains(&reason) || title.ends_with('+'), "{title}: {text}");
        }
    }
    let answer = rig.connect().ask("GET /watch/radio+mute/stream.m3u8", "");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 404 && text.contains("not from transport streams"), "{text}");
}

#[test]
fn a_merged_title_has_a_summary_and_a_page_and_is_in_no_list() {
    let rig = Rig::new(|_| {});
    add(&rig, "song");
    let title = get(&rig, "/api/v1/titles/film+song").json();
    assert_eq!(title["name"], "film + song");
    assert_eq!(title["id"], "film+song");
    assert_eq!(title["duration_s"], get(&rig, "/api/v1/titles/song").json()["duration_s"]);
    assert_eq!(title["audio"].as_array().map(Vec::len), Some(2));
    let warning = title["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("pictures end at 3.0 s and the sound at 5.0 s"), "{title}");
    get(&rig, "/title/film+song");
    let list = get(&rig, "/api/v1/titles").json();
    assert_eq!(list["titles"].as_array().map(Vec::len), Some(2), "{list}");
    let poster = |title: &str| get(&rig, &format!("/img/{title}.jpg")).body;
    assert!(poster("film+song") == poster("film"), "the poster is that of the pictures");
    for method in ["DELETE", "GET"] {
        let answer = rig.connect().ask(&format!("{method} /api/v1/titles/song+none"), "");
        assert_eq!(answer.status, 404, "{}", answer.head);
    }
    assert_eq!(
        rig.connect().ask("DELETE /api/v1/titles/film+song", "").status,
        404,
        "there is nothing to remove"
    );
    assert_eq!(rig.library.summaries().len(), 2);
}

#[test]
fn parts_that_are_removed_play_to_the_end_of_the_merged_title() {
    let rig = Rig::with_memory(0, |_| {});
    add(&rig, "song");
    let mut expected = Vec::new();
    rig.library.export("film+song", &mut expected, &mut |_, _| {}).expect("exported");
    let file = watch(&rig, "film+song", "film+song.mp4");
    let free_bytes = rig.library.volume().free_bytes();
    let mut client = rig.connect_narrow();
    client.send(head(&format!("GET {file}"), "").as_bytes());
    assert_eq!(client.answer_head().announced_bytes(), expected.len());
    for title in ["song", "film"] {
        assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/titles/{title}"), "").status, 204);
        let gone = rig.connect().ask("GET /watch/film+song/film+song.mp4", "");
        let text = String::from_utf8_lossy(&gone.body).into_owned();
        assert!(gone.status == 404 && text.contains(&format!("there is no title {title}")), "{text}");
        assert_eq!(rig.library.volume().free_bytes(), free_bytes, "{title} is still played");
    }
    assert!(client.read(expected.len()) == expected);
    let key = file.split('/').nth(2).expect("a key");
    assert_eq!(rig.connect().ask(&format!("DELETE /api/v1/sessions/{key}"), "").status, 204);
    drop(client);
    // Both are free: the pictures and the sound.
    let both = expected.len() as f64;
    rig.await_metric("reel_volume_free_bytes", |free| free > free_bytes as f64 + both);
}

#[test]
fn a_part_that_is_ingested_again_gives_another_merged_title() {
    let rig = Rig::new(|_| {});
    add(&rig, "song");
    let before = get(&rig, "/files/song+film.mp4");
    let etag = before.field("ETag").expect("a tag").to_owned();
    let asked = || rig.connect().ask("GET /files/song+film.mp4", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!(asked().status, 304);
    let file = watch(&rig, "song+film", "song+film.mp4");
    rig.library.remove("film").expect("removed");
    add_as(&rig, "radio", "film");
    let after = asked();
    assert!(after.status == 200 && after.body != before.body, "{}", after.head);
    assert_ne!(after.field("ETag"), Some(&*etag));
    let sound = |title: &str| {
        let file = save(&rig, &format!("after-{title}.mp4"), &whole(&rig, title));
        decoded(&file, "a")
    };
    assert_same(&sound("song+film"), &sound("film"), "the new sound");
    assert!(get(&rig, &file).body == before.body, "a session keeps what it began with");
}

#[test]
fn a_merged_title_is_admitted_like_any_other() {
    let rig = Rig::new(full);
    add(&rig, "song");
    for file in ["master.m3u8", "song+film.mp4"] {
        let refused = rig.connect().ask(&format!("GET /watch/song+film/{file}"), "");
        assert_eq!((refused.status, &refused.json()["resource"]), (503, &"network".into()), "{file}");
    }
    let bulk = rig.connect().ask("GET /watch/song+film/song+film.mp4?class=aperiodic", "");
    assert_eq!(bulk.status, 307, "{}", bulk.head);
}

#[test]
fn viewers_of_a_merged_title_continue_after_a_restart_unless_a_part_was_replaced() {
    let mut rig = dear_members(1);
    let file = watch(&rig, "long+film", "long+film.mp4");
    let folder = watch(&rig, "long+film", "master.m3u8").strip_suffix("master.m3u8").expect("it").to_owned();
    let mut at = 0;
    let mut statuses = |rig: &Rig| {
        at += 10_000;
        let range = format!("Range: bytes={at}-{}\r\n", at + 9_999);
        let segment = rig.connect().ask(&format!("GET {folder}0/{}.m4s", at / 10_000), "");
        [rig.connect().ask(&format!("GET {file}"), &range).status, segment.status]
    };
    assert_eq!(statuses(&rig), [206, 200]);
    rig.stop();
    rig.start();
    assert_eq!(rig.metric("reel_sessions"), 2.0);
    assert_eq!(statuses(&rig), [206, 200]);
    assert_eq!(rig.metric("reel_unpromised_total"), 0.0);
    rig.stop();
    rig.library.remove("film").expect("removed");
    rig.ingest_again();
    rig.start();
    assert_eq!(rig.metric("reel_sessions"), 0.0);
    assert_eq!(statuses(&rig), [410, 410], "these would be other bytes");
}

#[test]
fn a_merged_title_is_joined_to_a_file() {
    let directory = tempfile::tempdir().expect("tempdir");
    let rig = Rig::new(|config| config.join.directory = Some(directory.path().to_owned()));
    add(&rig, "song");
    let expected = get(&rig, "/files/film+song.mp4").body;
    let file = watch(&rig, "film+song", "film+song.mp4?class=aperiodic");
    let outlets = format!("/api/v1/sessions/{}/outlets", file.split('/').nth(2).expect("a key"));
    let (body, type_of) = (r#"{"to":"file:copy.mp4"}"#, "Content-Type: application/json\r\n");
    let fields = format!("{type_of}Content-Length: {}\r\n", body.len());
    assert_eq!(rig.connect().ask_with(&format!("POST {outlets}"), &fields, body).status, 201);
    let begun = Instant::now();
    let outlet = loop {
        let outlet = get(&rig, &format!("{outlets}/0")).json();
        if outlet["state"] != "joined" {
            break outlet;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{outlet}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(outlet["state"], "complete", "{outlet}");
    assert!(fs::read(directory.path().join("copy.mp4")).expect("read") == expected);
}
