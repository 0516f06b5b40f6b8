//! The whole chain on real files: ffmpeg encodes, Reel demuxes and packages, ffmpeg decodes the
//! result. Every frame must equal the source's, at the source's time, in every form in which the
//! title is served.
#![allow(clippy::unwrap_used, reason = "a test stops where it cannot continue")]

use crate::film::Stored;
use crate::film_dir;
use crate::film_dir::{DecodedPictures, DecodedSound, FilmDir};
use reel_media::cmaf::{CutPolicy, Packager};
use reel_media::{TrackKind, dash, hls, ladder, progressive};
use std::path::Path;
use std::process::Command;

/// How a source is made, and what must be decoded.
struct Case<'a> {
    file: &'a str,
    arguments: &'a str,
}

const PICTURES: &str = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=9";
const TONE: &str = "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=9";

/// Demuxes and packages a file.
pub(crate) fn store(path: &Path) -> Stored {
    let mut demux = reel_media::open(film_dir::source(path)).expect("a file that opens");
    let tracks = demux.tracks().to_vec();
    let mut objects = vec![Vec::new(); tracks.len()];
    let mut packager = Packager::new(tracks, CutPolicy::default()).expect("valid tracks");
    let mut data = Vec::new();
    while let Some(packet) = demux.next(&mut data).expect("a readable file") {
        packager.push(&packet, &data).expect("valid samples");
        packager.take().into_iter().for_each(|piece| objects[piece.track].extend_from_slice(&piece.bytes));
    }
    let packaged = packager.finish().expect("a complete film");
    packaged.pieces.iter().for_each(|piece| objects[piece.track].extend_from_slice(&piece.bytes));
    Stored::new(vec![(packaged, objects)])
}

/// Writes the title as a folder of files, with the names of a session's URLs.
pub(crate) fn publish(stored: &Stored, folder: &Path) {
    let index = &stored.index;
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("master.m3u8"), hls::master(index)).unwrap();
    std::fs::write(folder.join("manifest.mpd"), dash::manifest(index)).unwrap();
    let file = progressive::layout(index, &progressive::default_selection(index)).unwrap();
    std::fs::write(folder.join("film.mp4"), stored.read(&file, 0..file.bytes())).unwrap();
    for (number, track) in index.tracks.iter().enumerate() {
        let place = folder.join(number.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let object = &stored.objects[number];
        let part = |range: std::ops::Range<u64>| &object[range.start as usize..range.end as usize];
        if track.track.kind == TrackKind::Subtitle {
            std::fs::write(place.join("text.vtt"), object).unwrap();
            std::fs::write(place.join("text.m3u8"), hls::text(index, number).unwrap()).unwrap();
            continue;
        }
        std::fs::write(place.join("whole.mp4"), object).unwrap();
        std::fs::write(place.join("media.m3u8"), hls::media(index, number).unwrap()).unwrap();
        if let Some(playlist) = hls::iframes(index, number) {
            std::fs::write(place.join("iframes.m3u8"), playlist).unwrap();
        }
        std::fs::write(place.join("init.mp4"), part(track.init_range(1).unwrap())).unwrap();
        for segment in 1..=track.fragments.len() {
            std::fs::write(place.join(format!("{segment}.m4s")), part(track.segment_range(segment).unwrap()))
                .unwrap();
        }
    }
}

/// Makes the source, publishes it, and compares every form with it.
fn check(case: &Case<'_>) {
    let film_dir = FilmDir::new();
    let source = film_dir.make(case.file, case.arguments);
    let stored = store(&source);
    let folder = film_dir.path("out");
    publish(&stored, &folder);
    let kinds: Vec<TrackKind> = stored.index.tracks.iter().map(|track| track.track.kind).collect();

    let of_kind = |kind| kinds.iter().enumerate().filter(move |(_, k)| **k == kind).map(|(i, _)| i);
    for (place, number) in of_kind(TrackKind::Video).enumerate() {
        let wanted = DecodedPictures::of(&source, &format!("0:v:{place}"));
        assert!(!wanted.frames.is_empty(), "{}: the source has pictures", case.file);
        let whole = DecodedPictures::of(&folder.join(number.to_string()).join("whole.mp4"), "0:v:0");
        wanted.assert_same(&whole, &format!("{}: stored object", case.file));
        for form in ["film.mp4", "master.m3u8", "manifest.mpd"] {
            wanted.assert_same(
                &DecodedPictures::of(&folder.join(form), "0:v:0"),
                &format!("{}: {form}", case.file),
            );
        }
    }
    let tail = if case.file.ends_with("webm") || case.file.ends_with("mkv") { 1152 } else { 0 };
    for (place, number) in of_kind(TrackKind::Audio).enumerate() {
        let wanted = DecodedSound::of(&source, &format!("0:a:{place}"));
        assert!(wanted.bytes() > 0, "{}: the source has sound", case.file);
        let whole = DecodedSound::of(&folder.join(number.to_string()).join("whole.mp4"), "0:a:0");
        wanted.assert_same(&whole, tail, &format!("{}: stored object {number}", case.file));
        for form in ["film.mp4", "master.m3u8", "manifest.mpd"] {
            let heard = DecodedSound::of(&folder.join(form), &format!("0:a:{place}"));
            wanted.assert_same(&heard, tail, &format!("{}: {form}, sound {place}", case.file));
        }
    }
    assert!(!stored.index.tracks.is_empty(), "{}", case.file);
}

fn films(cases: &[(&str, &str)]) {
    for (file, arguments) in cases {
        let arguments = arguments.replace("PICTURES", PICTURES).replace("TONE", TONE);
        check(&Case { file, arguments: &arguments });
    }
}

#[test]
fn h264() {
    films(&[
        ("b-frames.mp4", "PICTURES TONE -c:v libx264 -preset ultrafast -bf 3 -b_strategy 0 -g 50 -c:a aac"),
        (
            "open-gop.mp4",
            "PICTURES -c:v libx264 -preset ultrafast -bf 2 -x264-params open-gop=1:keyint=30 -c:a aac",
        ),
        (
            "ntsc.mov",
            "-f lavfi -i testsrc2=size=320x180:rate=30000/1001:duration=9 TONE -c:v libx264 -preset ultrafast -bf 2 \
             -g 48 -c:a aac -shortest",
        ),
        (
            "variable.mp4",
            "PICTURES TONE -vf select=not(mod(n\\,3))+lt(mod(n\\,40)\\,11) -fps_mode vfr -c:v libx264 -preset ultrafast -bf 2 \
             -g 40 -c:a libmp3lame",
        ),
    ]);
}

#[test]
fn hevc_with_two_languages() {
    films(&[(
        "two.mp4",
        "PICTURES TONE TONE -map 0 -map 1 -map 2 -c:v libx265 -preset ultrafast -x265-params \
         log-level=none:keyint=60 -tag:v hvc1 -c:a:0 aac -c:a:1 ac3 -metadata:s:a:0 language=eng \
         -metadata:s:a:1 language=fra",
    )]);
}

#[test]
fn av1_and_vp9() {
    films(&[
        (
            "av1.mp4",
            "PICTURES TONE -c:v libsvtav1 -preset 12 -g 60 -svtav1-params enable-stat-report=0 -c:a libopus",
        ),
        (
            "vp9.mp4",
            "PICTURES TONE -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 60 -c:a flac -strict -2",
        ),
    ]);
}

#[test]
fn sound_of_other_kinds() {
    films(&[
        ("song.m4a", "TONE -c:a aac -metadata title=Song"),
        ("eac3.mp4", "PICTURES TONE -c:v libx264 -preset ultrafast -c:a eac3 -ac 6"),
    ]);
}

#[test]
fn short_films_and_fragments() {
    films(&[
        (
            "short.mp4",
            "-f lavfi -i testsrc2=size=320x180:rate=25:duration=0.4 -c:v libx264 -preset ultrafast",
        ),
        (
            "fragmented.mp4",
            "PICTURES TONE -c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac -movflags frag_keyframe+delay_moov",
        ),
    ]);
}

#[test]
fn matroska_and_webm() {
    films(&[
        (
            "film.mkv",
            "PICTURES TONE TONE -map 0 -map 1 -map 2 -c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a:0 aac -c:a:1 flac",
        ),
        ("film.webm", "PICTURES TONE -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 60 -c:a libopus"),
        (
            "ntsc.mkv",
            "-f lavfi -i testsrc2=size=320x180:rate=24000/1001:duration=9 TONE -c:v libx265 -preset ultrafast \
             -x265-params log-level=none:keyint=48:bframes=3 -c:a libmp3lame -shortest",
        ),
    ]);
}

#[test]
fn transport_streams() {
    films(&[
        ("film.ts", "PICTURES TONE -c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac"),
        (
            "dvb.ts",
            "PICTURES TONE -c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50 -c:a ac3",
        ),
    ]);
}

pub(crate) fn probe(path: &Path) -> serde_json::Value {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-show_streams", "-show_format", "-of", "json"]).arg(path);
    serde_json::from_slice(&film_dir::run(&mut command).stdout).expect("JSON")
}

#[test]
fn headers_state_what_the_source_states() {
    let film_dir = FilmDir::new();
    std::fs::write(film_dir.path("text.srt"), "1\n00:00:01,000 --> 00:00:02,500\nHello <i>there</i>\n")
        .unwrap();
    let arguments = "PICTURES TONE TONE -i {dir}/text.srt -map 0 -map 1 -map 2 -map 3 -vf setsar=4/3 -c:v libx264 \
         -preset ultrafast -bf 2 -g 50 -colorspace bt709 -color_primaries bt709 -color_trc bt709 -c:a aac -ac 2 \
         -c:s mov_text -metadata:s:a:0 language=deu -metadata:s:a:1 language=eng -disposition:a:0 0 \
         -disposition:a:1 default -metadata:s:s:0 language=fra";
    film_dir.make("upright.mp4", &arguments.replace("PICTURES", PICTURES).replace("TONE", TONE));
    let source = film_dir.make(
        "source.mp4",
        "-i {dir}/upright.mp4 -map 0 -c copy -metadata:s:v:0 rotate=90 -video_track_timescale 25000",
    );
    let stored = store(&source);
    publish(&stored, &film_dir.path("out"));
    let (wanted, found) = (probe(&source), probe(&film_dir.path("out/film.mp4")));
    let streams = |value: &serde_json::Value, kind: &str| -> Vec<serde_json::Value> {
        let all = value["streams"].as_array().unwrap().iter();
        all.filter(|stream| stream["codec_type"] == kind).cloned().collect()
    };
    let (a, b) = (&streams(&wanted, "video")[0], &streams(&found, "video")[0]);
    for key in [
        "width",
        "height",
        "sample_aspect_ratio",
        "display_aspect_ratio",
        "r_frame_rate",
        "time_base",
        "color_space",
        "color_primaries",
        "color_transfer",
        "nb_frames",
        "duration",
        "start_time",
        "codec_tag_string",
    ] {
        assert_eq!(a[key], b[key], "{key}");
    }
    assert_eq!(a["side_data_list"][0]["rotation"].as_i64().map(i64::abs), Some(90));
    assert_eq!(a["side_data_list"][0]["rotation"], b["side_data_list"][0]["rotation"]);
    let (a, b) = (streams(&wanted, "audio"), streams(&found, "audio"));
    assert_eq!((a.len(), b.len()), (2, 2));
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(a["tags"]["language"], b["tags"]["language"]);
        assert_eq!(a["disposition"]["default"], b["disposition"]["default"]);
        assert_eq!(a["channels"], b["channels"]);
    }
    let seconds =
        |value: &serde_json::Value| -> f64 { value["format"]["duration"].as_str().unwrap().parse().unwrap() };
    assert!((seconds(&wanted) - seconds(&found)).abs() < 0.05);

    let number =
        stored.index.tracks.iter().position(|track| track.track.kind == TrackKind::Subtitle).unwrap();
    let text = film_dir::run(
        film_dir::ffmpeg()
            .arg("-i")
            .arg(film_dir.path(&format!("out/{number}/text.vtt")))
            .args(["-f", "srt", "-"]),
    );
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("00:00:01,000 --> 00:00:02,500\nHello <i>there</i>"), "{text}");
    let master = hls::master(&stored.index);
    assert!(master.contains("RESOLUTION=180x427,VIDEO-RANGE=SDR,FRAME-RATE=25.000"), "{master}");
    assert!(master.contains("NAME=\"en\",LANGUAGE=\"en\",DEFAULT=YES"), "{master}");
    assert!(master.contains("NAME=\"de\",LANGUAGE=\"de\",DEFAULT=NO"), "{master}");
}

#[test]
fn renditions_switch_at_every_border() {
    let film_dir = FilmDir::new();
    let rendition = |name: &str, size: &str, extra: &str| {
        let arguments = format!(
            "-f lavfi -i testsrc2=size={size}:rate=25:duration=9 -c:v libx264 -preset ultrafast {extra} -sc_threshold 0"
        );
        store(&film_dir.make(name, &arguments))
    };
    let high = rendition("high.mp4", "640x360", "-bf 2 -g 50");
    let low = rendition("low.mp4", "320x180", "-bf 0 -g 50");
    let other = rendition("other.mp4", "320x180", "-bf 0 -g 60");
    let track = |stored: &Stored| stored.index.tracks[0].clone();
    assert_eq!(ladder::align(&[&track(&high), &track(&low)]), Ok(()));
    let refusal = ladder::align(&[&track(&high), &track(&low), &track(&other)]).unwrap_err().to_string();
    assert!(refusal.contains("rendition 3") && refusal.contains("4.8s instead of 4s"), "{refusal}");

    // Segments of both alternate, as for a player that switches all the time: no frame is lost or
    // doubled.
    let mut mixed = Vec::new();
    for segment in 1..=high.index.tracks[0].fragments.len() {
        let stored = if segment % 2 == 0 { &high } else { &low };
        let object = &stored.objects[0];
        let range = |range: std::ops::Range<u64>| &object[range.start as usize..range.end as usize];
        let alone = [
            range(stored.index.tracks[0].init_range(1).unwrap()),
            range(stored.index.tracks[0].segment_range(segment).unwrap()),
        ];
        std::fs::write(film_dir.path("one.mp4"), alone.concat()).unwrap();
        mixed.extend(
            DecodedPictures::of(&film_dir.path("one.mp4"), "0:v:0").frames.into_iter().map(|(time, _)| time),
        );
    }
    let wanted: Vec<f64> = DecodedPictures::of(&film_dir.path("high.mp4"), "0:v:0")
        .frames
        .into_iter()
        .map(|(time, _)| time)
        .collect();
    assert_eq!(mixed.len(), wanted.len());
    assert!(mixed.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 0.001), "{mixed:?}");
}

/// What GStreamer's players decode from a URL: bytes of I420 pictures and of 16-bit sound.
fn gstreamer(film_dir: &FilmDir, url: &str) -> (Vec<u8>, Vec<u8>) {
    let (pictures, sound) = (film_dir.path("gst.yuv"), film_dir.path("gst.pcm"));
    let pipeline = format!(
        "-q uridecodebin3 uri={url} name=d \
         d. ! queue max-size-time=0 max-size-bytes=0 max-size-buffers=0 ! videoconvert ! video/x-raw,format=I420 ! filesink location={} \
         d. ! queue max-size-time=0 max-size-bytes=0 max-size-buffers=0 ! audioconvert ! audio/x-raw,format=S16LE,channels=1 ! filesink location={}",
        pictures.display(),
        sound.display()
    );
    let mut command = Command::new("timeout");
    film_dir::run(command.args(["60", "gst-launch-1.0"]).args(pipeline.split_whitespace()));
    (std::fs::read(pictures).expect("pictures"), std::fs::read(sound).expect("sound"))
}

#[test]
fn gstreamer_plays_hls_and_dash() {
    let film_dir = FilmDir::new();
    let arguments =
        "PICTURES TONE -c:v libx264 -preset ultrafast -bf 2 -b_strategy 0 -g 50 -pix_fmt yuv420p -c:a aac";
    let source = film_dir.make("a.mp4", &arguments.replace("PICTURES", PICTURES).replace("TONE", TONE));
    let stored = store(&source);
    publish(&stored, &film_dir.path("out"));
    let base = film_dir::web::serve(&film_dir.path("out"));
    let wanted =
        film_dir::run(film_dir::ffmpeg().arg("-i").arg(&source).args(["-map", "0:v", "-f", "rawvideo", "-"]))
            .stdout;
    let heard = DecodedSound::of(&source, "0:a:0").bytes();
    for form in ["film.mp4", "master.m3u8", "manifest.mpd"] {
        let (pictures, sound) = gstreamer(&film_dir, &format!("{base}/{form}"));
        assert_eq!(pictures.len(), wanted.len(), "{form}: bytes of pictures");
        assert!(pictures == wanted, "{form}: the pictures differ");
        // GStreamer may output the warm-up, and rounds the end to whole frames.
        assert!(
            sound.len().abs_diff(heard) <= 2 * 2048,
            "{form}: {} bytes of sound instead of {heard}",
            sound.len()
        );
    }
}
