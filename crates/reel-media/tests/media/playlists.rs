//! Playlists and manifests, read by independent parsers (m3u8-rs, dash-mpd) and, where every
//! character matters, compared as text.
#![allow(clippy::unwrap_used, reason = "a test stops where it cannot continue")]

use crate::film;
use crate::film::{Film, Stored, audio, frames, samples, sound, subtitle, video};
use m3u8_rs::{AlternativeMediaType, MediaPlaylist, Playlist};
use reel_media::cmaf::CutPolicy;
use reel_media::{Codec, Track, dash, hls, ladder};

fn master(stored: &Stored) -> m3u8_rs::MasterPlaylist {
    let text = hls::master(&stored.index);
    match m3u8_rs::parse_playlist_res(text.as_bytes()) {
        Ok(Playlist::MasterPlaylist(playlist)) => playlist,
        other => panic!("{other:?} from {text}"),
    }
}

fn media(text: &str) -> MediaPlaylist {
    match m3u8_rs::parse_playlist_res(text.as_bytes()) {
        Ok(Playlist::MediaPlaylist(playlist)) => playlist,
        other => panic!("{other:?} from {text}"),
    }
}

fn mpd(stored: &Stored) -> dash_mpd_core::MPD {
    let text = dash::manifest(&stored.index);
    dash_mpd_core::parse(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// 640x360 and 1280x720 with the same borders, and sound in two languages and two codecs.
fn ladder_film() -> Stored {
    let rendition = |width, height, rate: usize| {
        let mut track = video(12_800);
        let picture = track.video.as_mut().unwrap();
        (picture.width, picture.height) = (width, height);
        let mut lane = samples(0, frames(300, 512, 50, true));
        lane.iter_mut().for_each(|(_, data)| data.resize(data.len() * rate, 7));
        (track, lane)
    };
    let (low, low_lane) = rendition(640, 360, 10);
    let (high, high_lane) = rendition(1280, 720, 40);
    let french = Track {
        language: Some("fre".into()),
        name: Some("VF".into()),
        default: false,
        ..audio(48_000, 1024)
    };
    let surround = Track { codec: Codec::Ac3, config: vec![0x10, 0x3d, 0xe0], ..audio(48_000, 0) };
    let first = Film::new(
        vec![high, audio(48_000, 1024), french, surround, subtitle()],
        vec![
            high_lane,
            samples(1, sound(563, 1024, -1024)),
            samples(2, sound(563, 1024, -1024)),
            samples(3, sound(375, 1536, 0)),
            film::cue(4, "Bonjour"),
        ],
    );
    let second = Film::new(vec![low], vec![low_lane]);
    let package = |film: &Film| film.package(CutPolicy::default()).unwrap();
    Stored::new(vec![package(&first), package(&second)])
}

#[test]
fn the_media_playlist_is_exact() {
    let stored = Film::usual().store();
    assert_eq!(
        hls::media(&stored.index, 0).unwrap(),
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:1\n#EXT-X-PLAYLIST-TYPE:VOD\n\
         #EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:4.000000000,\n1.m4s\n#EXTINF:4.000000000,\n2.m4s\n\
         #EXTINF:4.000000000,\n3.m4s\n#EXT-X-ENDLIST\n"
    );
    let sound = media(&hls::media(&stored.index, 1).unwrap());
    // The first sample at or after 4 s: 188 x 1024 / 48000 after the warm-up.
    assert!((sound.segments[0].duration - 4.010_667).abs() < 1e-6);
    let total: f64 = sound.segments.iter().map(|s| f64::from(s.duration)).sum();
    assert!((total - 12.010_667).abs() < 1e-5);
    assert_eq!(
        hls::text(&stored.index, 2).unwrap(),
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:13\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:12.011,\ntext.vtt\n\
         #EXT-X-ENDLIST\n"
    );
    assert_eq!((hls::media(&stored.index, 2), hls::media(&stored.index, 9)), (None, None));
    assert_eq!((hls::text(&stored.index, 0), hls::iframes(&stored.index, 1)), (None, None));
}

#[test]
fn iframes_are_the_first_bytes_of_segments() {
    let stored = Film::usual().store();
    let playlist = media(&hls::iframes(&stored.index, 0).unwrap());
    assert!(playlist.i_frames_only);
    for (i, segment) in playlist.segments.iter().enumerate() {
        let range = segment.byte_range.as_ref().unwrap();
        assert_eq!((segment.uri.as_str(), range.offset), (format!("{}.m4s", i + 1).as_str(), Some(0)));
        let fragment = stored.index.tracks[0].fragments[i];
        assert_eq!(range.length, u64::from(fragment.key_bytes));
        // The key frame's own bytes come last; they contain its number.
        let object = &stored.objects[0][fragment.offset as usize..];
        let frame = &object[fragment.header_bytes as usize..fragment.key_bytes as usize];
        assert_eq!(u16::from_be_bytes([frame[1], frame[2]]), 100 * i as u16);
    }
    let text = hls::master(&stored.index);
    let line = text.lines().find(|line| line.starts_with("#EXT-X-I-FRAME-STREAM-INF")).unwrap();
    assert!(line.ends_with(",CODECS=\"avc1.64001F\",RESOLUTION=1280x720,URI=\"0/iframes.m3u8\""), "{line}");
}

#[test]
fn master_of_a_ladder() {
    let stored = ladder_film();
    let playlist = master(&stored);
    assert!(playlist.independent_segments);
    let plain: Vec<_> = playlist.variants.iter().filter(|variant| !variant.is_i_frame).collect();
    let shape: Vec<(&str, u64, &str)> = plain
        .iter()
        .map(|v| (v.uri.as_str(), v.resolution.unwrap().height, v.audio.as_deref().unwrap()))
        .collect();
    assert_eq!(
        shape,
        [
            ("0/media.m3u8", 720, "audio-aac"),
            ("0/media.m3u8", 720, "audio-ac3"),
            ("5/media.m3u8", 360, "audio-aac"),
            ("5/media.m3u8", 360, "audio-ac3"),
        ]
    );
    assert_eq!(plain[0].codecs.as_deref(), Some("avc1.64001F,mp4a.40.2"));
    assert_eq!(plain[1].codecs.as_deref(), Some("avc1.64001F,ac-3"));
    assert_eq!(plain[0].frame_rate, Some(25.0));
    assert_eq!(plain[0].subtitles.as_deref(), Some("text"));
    let tracks = &stored.index.tracks;
    assert_eq!(plain[0].bandwidth, tracks[0].peak_bps + tracks[1].peak_bps.max(tracks[2].peak_bps));
    assert!(plain[0].average_bandwidth.unwrap() <= plain[0].bandwidth);
    assert!(plain[2].bandwidth < plain[0].bandwidth);

    let groups: Vec<_> = playlist
        .alternatives
        .iter()
        .map(|a| {
            (
                a.group_id.as_str(),
                a.name.as_str(),
                a.language.as_deref(),
                a.default,
                a.uri.as_deref().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        groups,
        [
            ("audio-aac", "en", Some("en"), true, "1/media.m3u8"),
            ("audio-aac", "VF", Some("fr"), false, "2/media.m3u8"),
            ("audio-ac3", "en", Some("en"), true, "3/media.m3u8"),
            ("text", "Sous-titres 'complets'", Some("fr"), false, "4/text.m3u8"),
        ]
    );
    assert_eq!(playlist.alternatives[3].media_type, AlternativeMediaType::Subtitles);
    assert_eq!(playlist.variants.iter().filter(|variant| variant.is_i_frame).count(), 2);
}

#[test]
fn peaks_hold_for_every_segment() {
    // The frames grow, so the last segment is the largest.
    let mut lane = samples(0, frames(300, 512, 50, false));
    lane.iter_mut().enumerate().for_each(|(i, (_, data))| data.resize(100 + i * i, 1));
    let stored = Film::new(vec![video(12_800)], vec![lane]).store();
    let track = &stored.index.tracks[0];
    let rates: Vec<u64> =
        track.fragments.iter().map(|f| (u64::from(f.bytes) * 8 * 12_800).div_ceil(f.duration)).collect();
    assert_eq!(track.peak_bps, *rates.iter().max().unwrap());
    let bytes: u64 = track.fragments.iter().map(|f| u64::from(f.bytes)).sum();
    assert_eq!(track.average_bps, (bytes * 8).div_ceil(12));
}

#[test]
fn titles_without_pictures() {
    let song = Film::new(vec![audio(48_000, 1024)], vec![samples(0, sound(1000, 1024, -1024))]).store();
    let playlist = master(&song);
    assert!(playlist.alternatives.is_empty());
    assert_eq!(playlist.variants.len(), 1);
    assert_eq!(playlist.variants[0].uri, "0/media.m3u8");
    assert_eq!(playlist.variants[0].codecs.as_deref(), Some("mp4a.40.2"));
    assert_eq!((playlist.variants[0].audio.as_deref(), playlist.variants[0].resolution), (None, None));

    let second = Track { language: Some("deu".into()), default: false, ..audio(48_000, 0) };
    let book = Film::new(
        vec![audio(48_000, 0), second],
        vec![samples(0, sound(400, 1024, 0)), samples(1, sound(400, 1024, 0))],
    );
    let playlist = master(&book.store());
    assert_eq!(playlist.alternatives.len(), 2);
    assert_eq!(playlist.variants[0].audio.as_deref(), Some("audio-aac"));
}

#[test]
fn names_cannot_end_their_quotes() {
    let name = "a\"b\nEXT\u{7}<&>'\u{ffff}";
    let tracks = vec![
        Track { name: Some(name.into()), language: Some("e\"n\n".into()), ..audio(48_000, 0) },
        Track { name: Some(name.into()), ..audio(48_000, 0) },
    ];
    let film =
        Film::new(tracks, vec![samples(0, sound(40, 1024, 0)), samples(1, sound(40, 1024, 0))]).store();
    let playlist = master(&film);
    assert_eq!(playlist.alternatives.len(), 2);
    assert_eq!(playlist.alternatives[0].name, "a'bEXT<&>'\u{ffff}");
    assert_eq!(playlist.alternatives[1].name, "a'bEXT<&>'\u{ffff} (2)");
    assert_eq!(playlist.alternatives[0].language.as_deref(), Some("e'n"));
    let label = mpd(&film).periods[0].adaptations[0].Label[0].content.clone();
    assert_eq!(label, "a\"bEXT<&>'");
}

#[test]
fn late_sound_begins_with_silence() {
    let late = |sound_track: Track| {
        Film::new(
            vec![video(12_800), sound_track],
            vec![samples(0, frames(300, 512, 50, false)), samples(1, sound(400, 1024, 96_000))],
        )
        .store()
    };
    let begins = |stored: &Stored| {
        let playlist = media(&hls::media(&stored.index, 1).unwrap());
        let manifest = mpd(stored);
        let template =
            manifest.periods[0].adaptations[1].representations[0].SegmentTemplate.as_ref().unwrap();
        let at = template.SegmentTimeline.as_ref().unwrap().segments[0].t;
        (at, (playlist.segments[0].duration * 1000.0).round())
    };
    let silent = late(audio(48_000, 0));
    assert_eq!(begins(&silent), (Some(0), 4005.0));
    assert_eq!(silent.index.tracks[1].samples, 93 + 400 + 69, "frames of silence on both sides");
    // Of a codec that no browser plays: playlists have no start time, so two seconds without sound
    // are part of the first segment. Manifests have one.
    let config = vec![0x10, 0x3c, 0xe0];
    let unheard = late(Track { codec: Codec::Ac3, config, ..audio(48_000, 0) });
    assert_eq!(begins(&unheard), (Some(96_000), 4005.0));
}

#[test]
fn manifest_of_a_ladder() {
    let stored = ladder_film();
    let manifest = mpd(&stored);
    assert_eq!(manifest.mpdtype.as_deref(), Some("static"));
    assert_eq!(manifest.mediaPresentationDuration.unwrap().as_millis(), 12_000);
    let sets = &manifest.periods[0].adaptations;
    let shape: Vec<(&str, Option<&str>, Vec<&str>)> = sets
        .iter()
        .map(|set| {
            let ids = set.representations.iter().map(|r| r.id.as_deref().unwrap()).collect();
            (set.contentType.as_deref().unwrap(), set.lang.as_deref(), ids)
        })
        .collect();
    assert_eq!(
        shape,
        [
            ("video", None, vec!["0", "5"]),
            ("audio", Some("en"), vec!["1"]),
            ("audio", Some("fr"), vec!["2"]),
            ("audio", Some("en"), vec!["3"]),
            ("text", Some("fr"), vec!["4"]),
        ]
    );
    let high = &sets[0].representations[0];
    assert_eq!((high.width, high.height, high.frameRate.as_deref()), (Some(1280), Some(720), Some("25")));
    assert_eq!((high.codecs.as_deref(), high.sar.as_deref()), (Some("avc1.64001F"), Some("1:1")));
    assert_eq!(sets[0].par.as_deref(), Some("16:9"));
    assert_eq!(high.bandwidth, Some(stored.index.tracks[0].peak_bps));
    let template = high.SegmentTemplate.as_ref().unwrap();
    assert_eq!((template.timescale, template.startNumber), (Some(12_800), Some(1)));
    assert_eq!(template.media.as_deref(), Some("$RepresentationID$/$Number$.m4s"));
    let line = &template.SegmentTimeline.as_ref().unwrap().segments;
    assert_eq!((line.len(), line[0].t, line[0].d, line[0].r), (1, Some(0), 51_200, Some(2)));
    assert_eq!(sets[1].Role[0].value.as_deref(), Some("main"));
    assert_eq!(sets[2].Role[0].value.as_deref(), Some("alternate"));
    assert_eq!(sets[1].AudioChannelConfiguration[0].value.as_deref(), Some("2"));
    assert_eq!(sets[4].representations[0].BaseURL[0].base, "4/text.vtt");
    assert_eq!(sets[4].mimeType.as_deref(), Some("text/vtt"));
}

/// Without marks, the first track of a kind is the main one, in HLS and in DASH, and tracks without
/// name and language are counted within their kind.
#[test]
fn tracks_without_marks_and_names_are_told_apart() {
    let plain = |track: Track| Track { language: None, name: None, default: false, ..track };
    let film = Film::new(
        vec![
            plain(video(12_800)),
            plain(audio(48_000, 1024)),
            plain(audio(48_000, 1024)),
            plain(subtitle()),
            Track { forced: true, ..plain(subtitle()) },
        ],
        vec![
            samples(0, frames(300, 512, 50, true)),
            samples(1, sound(563, 1024, -1024)),
            samples(2, sound(563, 1024, -1024)),
            film::cue(3, "One"),
            film::cue(4, "Two"),
        ],
    );
    let stored = film.store();
    let listed: Vec<_> =
        master(&stored).alternatives.iter().map(|one| (one.name.clone(), one.default, one.forced)).collect();
    let expected = [("Track 1", true), ("Track 2", false), ("Track 1", false), ("Track 2", false)];
    assert_eq!(listed.len(), expected.len());
    for (number, ((name, default, forced), shown)) in listed.iter().zip(expected).enumerate() {
        assert_eq!(((&name[..], *default), *forced), (shown, number == 3));
    }
    let sets = &mpd(&stored).periods[0].adaptations;
    let roles: Vec<_> = sets.iter().map(|set| set.Role[0].value.as_deref().unwrap()).collect();
    assert_eq!(roles, ["main", "main", "alternate", "subtitle", "forced-subtitle"]);
}

#[test]
fn renditions_that_do_not_line_up_are_named() {
    let stored = ladder_film();
    let (high, low) = (&stored.index.tracks[0], &stored.index.tracks[5]);
    assert_eq!(ladder::align(&[high, low]), Ok(()));
    assert_eq!(ladder::align(&[]), Ok(()));

    let other = Film::new(vec![video(90_000)], vec![samples(0, frames(300, 3600, 60, true))]).store();
    let error = ladder::align(&[high, low, &other.index.tracks[0]]).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "rendition 3 does not line up with rendition 1: segment 2 starts at 4.8s instead of 4s; "
        ),
        "{error}"
    );
    assert!(error.contains("-keyint_min 96 -sc_threshold 0"), "{error}");

    let short = Film::new(vec![video(90_000)], vec![samples(0, frames(150, 3600, 50, true))]).store();
    let error = ladder::align(&[high, &short.index.tracks[0]]).unwrap_err().to_string();
    assert!(error.contains("it has 2 segments (until 6s) instead of 3 (until 12s)"), "{error}");
}

#[test]
fn open_groups_of_pictures_are_admitted() {
    let claims = |stored: &Stored| {
        let set = mpd(stored).periods[0].adaptations[0].clone();
        (master(stored).independent_segments, set.startWithSAP)
    };
    let closed = Film::new(vec![video(12_800)], vec![samples(0, frames(300, 512, 50, true))]).store();
    assert_eq!(claims(&closed), (true, Some(1)));
    // Every group starts with a key frame that is shown after the two pictures that follow it.
    let times = (0..300i64).map(|i| {
        let shown = match i % 3 {
            1 => (i + 2).min(299),
            _ if i == 0 || i == 299 => i,
            _ => i - 1,
        };
        ((i - 1) * 512, shown * 512, 512, i == 0 || i % 48 == 1)
    });
    let open = Film::new(vec![video(12_800)], vec![samples(0, times)]).store();
    assert_eq!(claims(&open), (false, Some(3)));
}
