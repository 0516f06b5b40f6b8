//! Stored transport streams as players get them: one file, and its HLS playlist.

use super::casts::{add, await_state, in_a_network, make_stream_with, rig, store, stored};
use super::rig::{Answer, Client, Rig};
use crate::foreign::frames::assert_same_pictures;
use reel::server::PromiseConfig;
use reel_testkit::Rng;
use reel_volume::GeometryPreset;
use std::time::{Duration, Instant};

#[test]
fn a_title_that_is_cast_and_watched_is_read_once() {
    in_a_network("server::transport::inside::cast_and_watched");
}

mod inside {
    use super::*;

    /// The title is as large as all media memory, so it does not stay there by itself. Its viewer
    /// follows the cast.
    #[test]
    #[ignore = "child of a_title_that_is_cast_and_watched_is_read_once, in a name space of its own"]
    fn cast_and_watched() {
        let rig = Rig::with_volume(GeometryPreset::Ts, 160 << 20, 40 << 20, |config| {
            config.promise = PromiseConfig { start_wait_s: 0, ..PromiseConfig::default() };
        });
        let file = rig.path("stream.ts");
        // Null packets make it large.
        make_stream_with(&file, 20, &["-muxrate", "16M"]);
        let stream = store(&rig, &file);
        let memory = rig.metric("reel_arena_size_bytes");
        assert!(stream.len() as f64 > 0.9 * memory, "{} bytes of media, {memory} of memory", stream.len());
        let before = rig.metric("reel_member_read_bytes_total");
        add(&rig, r#"{"title":"stream","group":"239.1.1.1:5000","name":"on-air","fec":"off"}"#);
        std::thread::sleep(Duration::from_secs(2));
        assert!(watch(&rig, &stream) > 3);
        await_state(&rig, "on-air", "ended");
        let read = rig.metric("reel_member_read_bytes_total") - before;
        assert!(read < 1.1 * stream.len() as f64, "{read} bytes were read of {}", stream.len());
    }
}

/// Plays a title as a player does: each segment before the ones before it have been shown. Returns
/// how many segments there are.
fn watch(rig: &Rig, stream: &[u8]) -> usize {
    let mut client = rig.connect();
    let (place, playlist) = open(&mut client, "stream.m3u8");
    let from = Instant::now();
    let mut shown = Duration::ZERO;
    let segments = segments(&playlist);
    let mut received = Vec::new();
    for Segment { seconds, bytes, offset, .. } in &segments {
        let range = format!("Range: bytes={offset}-{}\r\n", offset + bytes - 1);
        let answer = client.ask(&format!("GET {place}stream.ts"), &range);
        assert_eq!(answer.status, 206, "{}", answer.head);
        received.extend(answer.body);
        shown += Duration::from_secs_f64(*seconds);
        std::thread::sleep((shown - Duration::from_secs(2)).saturating_sub(from.elapsed()));
    }
    assert!(received == stream, "{} of {} bytes", received.len(), stream.len());
    segments.len()
}

/// Opens a session by this file of the title `stream`: the path of its files, and the file.
fn open(client: &mut Client, file: &str) -> (String, Answer) {
    let answer = client.ask(&format!("GET /watch/stream/{file}"), "");
    let location = answer.location().unwrap_or_else(|| panic!("{}", answer.head));
    let place = location.rsplit_once('/').expect("a path").0;
    let answer = client.ask(&format!("GET {location}"), "");
    assert_eq!(answer.status, 200, "{}", answer.head);
    (format!("{place}/"), answer)
}

#[derive(Debug, PartialEq)]
struct Segment {
    seconds: f64,
    bytes: usize,
    offset: usize,
    is_discontinuous: bool,
}

/// The segments of a playlist.
fn segments(playlist: &Answer) -> Vec<Segment> {
    assert_eq!(playlist.field("Content-Type"), Some("application/vnd.apple.mpegurl"));
    let text = std::str::from_utf8(&playlist.body).expect("text");
    let mut segments = Vec::new();
    let (mut seconds, mut range, mut is_discontinuous) = (0.0, (0, 0), false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("#EXTINF:") {
            seconds = rest.trim_end_matches(',').parse().expect("seconds");
        } else if let Some(rest) = line.strip_prefix("#EXT-X-BYTERANGE:") {
            let (bytes, offset) = rest.split_once('@').expect("a place");
            range = (bytes.parse().expect("a number"), offset.parse().expect("a number"));
        } else if line == "#EXT-X-DISCONTINUITY" {
            is_discontinuous = true;
        } else if !line.starts_with('#') {
            assert_eq!(line, "stream.ts");
            let is_discontinuous = std::mem::take(&mut is_discontinuous);
            segments.push(Segment { seconds, bytes: range.0, offset: range.1, is_discontinuous });
        }
    }
    assert!(text.ends_with("#EXT-X-ENDLIST\n"), "{text}");
    segments
}

#[test]
fn streams_of_any_codec_are_played_as_they_are_stored() {
    play_as_stored(GeometryPreset::Ts);
}

/// Symbols of this volume hold 92 bytes more than is sent.
#[test]
fn streams_are_played_as_they_are_stored_in_any_geometry() {
    play_as_stored(GeometryPreset::Cmaf);
}

/// MPEG-2 pictures have no other form: this is how they are played.
fn play_as_stored(preset: GeometryPreset) {
    let rig = rig(preset);
    let stream = stored(&rig, 14);
    let mut client = rig.connect();
    let refused = client.ask("GET /watch/stream/master.m3u8", "");
    assert_eq!(refused.status, 404, "{}", refused.head);
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("/watch/stream/stream.m3u8"), "{text}");
    let body = r#"{"title":"stream"}"#;
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let refused = rig.connect().ask_with("POST /api/v1/sessions", &fields, body);
    assert_eq!((refused.status, &refused.json()["type"]), (404, &"urn:reel:problem:no-such-form".into()));
    // A part of a merged title has tracks.
    for title in ["film+stream", "stream+film"] {
        let refused = client.ask(&format!("GET /watch/{title}/{title}.mp4"), "");
        let text = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(
            refused.status == 404 && text.contains("stream is stored only as a transport stream"),
            "{text}"
        );
    }
    let (_, playlist) = open(&mut client, "stream.m3u8");
    let segments = segments(&playlist);
    let mut at = 0;
    for Segment { seconds, bytes, offset, is_discontinuous } in &segments {
        assert!(!is_discontinuous && *offset == at && *seconds < 6.0, "{segments:?}");
        // A segment begins with the table of programmes; the stream itself may not.
        let begins = [stream[at], stream[at + 1] & 0x1f, stream[at + 2]];
        assert!(at == 0 || begins == [0x47, 0, 0], "{begins:?} at {at}");
        at += bytes;
    }
    assert!(at == stream.len() && segments.len() >= 3, "{segments:?}");
    let whole: f64 = segments.iter().map(|segment| segment.seconds).sum();
    assert!((13.0..14.5).contains(&whole), "{whole} s");
    let (_, file) = open(&mut client, "stream.ts");
    assert!(file.body == stream && file.field("Content-Type") == Some("video/mp2t"), "{}", file.head);
    let mut random = Rng::new(31);
    let (place, _) = open(&mut client, "stream.ts");
    for _ in 0..30 {
        let from = random.below(stream.len() as u64) as usize;
        let to = from + random.below((stream.len() - from).min(30_000) as u64) as usize;
        let part = client.ask(&format!("GET {place}stream.ts"), &format!("Range: bytes={from}-{to}\r\n"));
        assert!(part.status == 206 && part.body == stream[from..=to], "{from} to {to}: {}", part.head);
    }
    let source = rig.path("stream.ts").to_string_lossy().into_owned();
    for file in ["stream.m3u8", "stream.ts"] {
        let url = format!("http://{}/watch/stream/{file}", rig.address());
        assert_same_pictures(&source, &url, file);
    }
}

/// A session of a stream is another one than that of the same title by its tracks.
#[test]
fn files_of_one_form_are_none_of_the_other() {
    let rig = rig(GeometryPreset::Ts);
    stored(&rig, 4);
    let mut client = rig.connect();
    let (place, _) = open(&mut client, "stream.m3u8");
    for other in ["stream.mp4", "master.m3u8", "manifest.mpd", "0/1.m4s", "0/media.m3u8"] {
        assert_eq!(client.ask(&format!("GET {place}{other}"), "").status, 404, "{other}");
    }
    let film = rig.session();
    for other in ["stream.m3u8", "stream.ts", "film.ts"] {
        assert_eq!(client.ask(&format!("GET {film}{other}"), "").status, 404, "{other}");
    }
    let absent = client.ask("GET /watch/film/stream.m3u8", "");
    assert_eq!(absent.status, 404);
    let text = String::from_utf8_lossy(&absent.body).into_owned();
    assert!(text.contains("no form ts"), "{text}");
    assert_eq!(client.ask("GET /watch/none/none.ts", "").status, 404);
    assert_eq!(client.ask("HEAD /watch/stream/stream.ts", "").status, 200);
    assert_eq!(client.ask("HEAD /watch/stream/stream.m3u8", "").status, 200);
}

/// A session that was kept over a restart is that of the same form.
#[test]
fn sessions_of_streams_continue_after_a_restart() {
    let mut rig = rig(GeometryPreset::Ts);
    let stream = stored(&rig, 4);
    let (place, _) = open(&mut rig.connect(), "stream.m3u8");
    rig.stop();
    rig.start();
    let file = rig.connect().ask(&format!("GET {place}stream.ts"), "");
    assert!(file.status == 200 && file.body == stream, "{}", file.head);
}
