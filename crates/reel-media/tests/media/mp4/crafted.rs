//! What ffmpeg does not write: movies built by hand, and ffmpeg's films with some boxes changed.

use super::boxes::{boxed, full, rewrite, split, words};
use super::files::{H264, PICTURE, TONE, film};
use super::movie::{AVCC, Trak, avc_entry, esds, movie, sound_entry, visual_entry};
use super::sources::{Memory, Read, Sparse, read};
use reel_media::{Codec, MediaError, TrackKind};
use std::fs;

fn read_movie(traks: &[Trak]) -> Read {
    read(Memory(movie(b"isom", traks))).expect("a valid movie")
}

fn refused(traks: &[Trak]) -> MediaError {
    read(Memory(movie(b"isom", traks))).err().expect("a movie to be refused")
}

fn pts(read: &Read, track: usize) -> Vec<i64> {
    read.of(track).iter().map(|(packet, _)| packet.sample.pts).collect()
}

fn bytes(read: &Read, track: usize) -> Vec<Vec<u8>> {
    read.of(track).iter().map(|(_, data)| data.clone()).collect()
}

#[test]
fn sizes_of_few_bits() {
    for bits in [4, 8, 16] {
        // An odd count leaves half a byte unused.
        let trak = Trak { small_sizes: Some(bits), ..Trak::video(1, 7) };
        assert_eq!(bytes(&read_movie(&[trak]), 0), Trak::video(1, 7).samples);
    }
    let error = refused(&[Trak { small_sizes: Some(5), ..Trak::video(1, 7) }]);
    assert!(matches!(error, MediaError::Malformed { .. }), "{error}");
}

#[test]
fn sound_entries_of_quicktime() {
    let esds = esds(0x40, &[0x11, 0x90]);
    let wave = boxed(
        b"wave",
        &[boxed(b"frma", b"mp4a"), boxed(b"mp4a", &[0; 4]), esds.clone(), boxed(&[0; 4], &[])].concat(),
    );
    let v2 =
        [words(&[72]), 44_100f64.to_be_bytes().to_vec(), words(&[6, 0x7f00_0000, 0, 0, 0, 1024])].concat();
    for (version, fields, boxes) in
        [(0, vec![], &esds), (1, vec![0; 16], &esds), (1, vec![0; 16], &wave), (2, v2, &wave)]
    {
        let trak = Trak { entry: sound_entry(b"mp4a", version, &fields, boxes), ..Trak::audio(1, 3) };
        let read = read_movie(&[trak]);
        assert_eq!((read.tracks[0].codec, read.tracks[0].config.as_slice()), (Codec::Aac, &[0x11, 0x90][..]));
        let audio = read.tracks[0].audio.as_ref().expect("sound");
        assert_eq!((audio.channels, audio.sample_rate), (2, 48_000));
    }
}

#[test]
fn aac_without_a_configuration_gets_one() {
    let trak = Trak { entry: sound_entry(b"mp4a", 0, &[], &esds(0x67, &[])), ..Trak::audio(1, 3) };
    assert_eq!(read_movie(&[trak]).tracks[0].config, [0x11, 0x90]);
}

#[test]
fn mp3_with_all_its_codec_names() {
    let frame = [&[0xff, 0xfb, 0x90, 0xc4], [0; 413].as_slice()].concat();
    for entry in [
        sound_entry(b"mp4a", 0, &[], &esds(0x6b, &[])),
        sound_entry(b"mp4a", 0, &[], &esds(0x69, &[])),
        sound_entry(b".mp3", 1, &[0; 16], &[]),
        sound_entry(b"ms\0\x55", 0, &[], &[]),
    ] {
        let trak = Trak {
            samples: vec![frame.clone(); 3],
            duration: 1152,
            ..Trak::new(1, b"soun", entry, 44_100, 0, 0)
        };
        let read = read_movie(&[trak]);
        let audio = read.tracks[0].audio.as_ref().expect("sound");
        assert_eq!((read.tracks[0].codec, audio.channels, audio.sample_rate), (Codec::Mp3, 1, 44_100));
    }
    // The same names may hold layer II.
    let entry = sound_entry(b"mp4a", 0, &[], &esds(0x6b, &[]));
    let frame = [&[0xff, 0xfd, 0x90, 0xc4], [0; 413].as_slice()].concat();
    let trak = Trak { samples: vec![frame; 3], ..Trak::new(1, b"soun", entry, 44_100, 1152, 0) };
    let error = refused(&[trak]).to_string();
    assert!(error.contains("layer 2"), "{error}");
}

#[test]
fn ac3_of_quicktime_without_a_configuration_gets_one() {
    // 48 kHz, 192 kbit/s, 3/2 with LFE; and 48 kHz, six blocks, stereo.
    let sized = |head: &[u8], bytes| [head, &vec![0; bytes - head.len()]].concat();
    let plain = sized(&[0x0b, 0x77, 0, 0, 0x14, 0x40, 0xe1, 0], 768);
    let enhanced = sized(&[0x0b, 0x77, 0x00, 0x7f, 0x34, 0x80], 256);
    let track = |kind: &[u8; 4], samples: Vec<Vec<u8>>| Trak {
        samples,
        ..Trak::new(1, b"soun", sound_entry(kind, 1, &[0; 16], &[]), 48_000, 1536, 0)
    };
    for (kind, frame, codec, config, channels) in [
        (b"ac-3", &plain, Codec::Ac3, &[0x10, 0x3d, 0x40][..], 6),
        (b"ec-3", &enhanced, Codec::Eac3, &[0x02, 0x00, 0x20, 0x04, 0x00], 2),
    ] {
        // The first sample may be damaged.
        let read = read_movie(&[track(kind, vec![vec![1; 9], frame.clone(), frame.clone()])]);
        let audio = read.tracks[0].audio.as_ref().expect("sound");
        assert_eq!((read.tracks[0].codec, read.tracks[0].config.as_slice()), (codec, config));
        assert_eq!((audio.channels, audio.sample_rate), (channels, 48_000));
        let error = refused(&[track(kind, vec![vec![1; 9]; 3])]).to_string();
        assert!(error.contains("none of its first samples is a frame of AC-3"), "{error}");
    }
}

#[test]
fn parameter_sets_in_the_samples() {
    let trak = Trak { entry: avc_entry(b"avc3", &[1, 66, 192, 11, 0xff, 0xe0, 0]), ..Trak::video(1, 2) };
    let read = read_movie(&[trak]);
    assert_eq!(
        (read.tracks[0].codec, read.tracks[0].config.as_slice()),
        (Codec::H264, &[1, 66, 192, 11, 0xff, 0xe0, 0][..])
    );
}

#[test]
fn encrypted() {
    let sinf = boxed(b"sinf", &[boxed(b"frma", b"avc1"), full(b"schm", 0, 0, b"cenc\0\x01\0\0")].concat());
    let entry = visual_entry(b"encv", &[boxed(b"avcC", &AVCC), sinf.clone()].concat());
    let error = refused(&[Trak { entry: entry.clone(), ..Trak::video(7, 2) }]);
    assert!(matches!(&error, MediaError::Encrypted { track: 7, scheme } if scheme == "cenc"), "{error}");
    let sound = sound_entry(b"enca", 0, &[], &[esds(0x40, &[0x11, 0x90]), sinf].concat());
    let error = refused(&[
        Trak { entry: entry.clone(), ..Trak::video(1, 2) },
        Trak { entry: sound.clone(), ..Trak::audio(2, 2) },
    ]);
    assert!(matches!(error, MediaError::Encrypted { track: 1, .. }), "{error}");
    // What is clear beside an encrypted track is taken: pictures, sound, and sound beside sound.
    let named = "is left out: it is encrypted (cenc)";
    let read = read_movie(&[Trak::video(1, 2), Trak { entry: sound.clone(), ..Trak::audio(2, 2) }]);
    assert_eq!(read.tracks.iter().map(|track| track.kind).collect::<Vec<_>>(), [TrackKind::Video]);
    assert_eq!(
        (bytes(&read, 0), read.warnings),
        (Trak::video(1, 2).samples, vec![format!("track 2 {named}")])
    );
    let encrypted = || Trak { entry: entry.clone(), ..Trak::video(7, 2) };
    let read = read_movie(&[encrypted(), Trak::audio(3, 5), Trak { entry: sound, ..Trak::audio(4, 2) }]);
    assert_eq!(read.tracks.iter().map(|track| track.kind).collect::<Vec<_>>(), [TrackKind::Audio]);
    assert_eq!(bytes(&read, 0), Trak::audio(3, 5).samples);
    assert_eq!(read.warnings, [format!("track 7 {named}"), format!("track 4 {named}")]);
    // One encrypted picture is no poster.
    let still = Trak { entry: entry.clone(), ..Trak::video(7, 1) };
    assert_eq!(read_movie(&[still, Trak::audio(3, 5)]).warnings, [format!("track 7 {named}")]);
    let error = refused(&[Trak { entry: visual_entry(b"drmi", &[]), ..Trak::video(1, 2) }]);
    assert!(matches!(error, MediaError::Encrypted { .. }), "{error}");
}

#[test]
fn nothing_to_play() {
    let error = refused(&[Trak { entry: visual_entry(b"mp4v", &[]), ..Trak::video(1, 2) }]).to_string();
    assert!(error.contains("`mp4v`") && error.contains("H.264") && error.contains("track 1"), "{error}");
    let error =
        refused(&[Trak { entry: sound_entry(b"alac", 0, &[], &[]), ..Trak::audio(1, 2) }]).to_string();
    assert!(error.contains("`alac`") && error.contains("AAC"), "{error}");
    let error = refused(&[Trak::new(1, b"tmcd", boxed(b"tmcd", &[0; 20]), 1000, 1, 1)]).to_string();
    assert!(error.contains("time codes"), "{error}");
    assert!(matches!(refused(&[]), MediaError::NoTracks(_)));
    assert!(matches!(refused(&[Trak { duration: 0, ..Trak::video(1, 2) }]), MediaError::NoDuration));
    assert!(matches!(refused(&[Trak::video(1, 0)]), MediaError::NoDuration));
    assert!(matches!(read(Memory(Vec::new())).err(), Some(MediaError::Empty)));
}

#[test]
fn files_that_contradict_themselves() {
    let error = refused(&[Trak { timescale: 0, ..Trak::video(1, 2) }]);
    assert!(matches!(&error, MediaError::Malformed { what, .. } if what.contains("timescale")), "{error}");
    let error = refused(&[Trak { entry: avc_entry(b"avc1", &AVCC[..9]), ..Trak::video(1, 2) }]);
    assert!(matches!(&error, MediaError::Malformed { what, .. } if what.contains("avcC")), "{error}");
    let error = refused(&[Trak { entry: visual_entry(b"avc1", &[]), ..Trak::video(1, 2) }]);
    assert!(matches!(&error, MediaError::Malformed { what, .. } if what.contains("avcC")), "{error}");
}

#[test]
fn a_track_without_support_does_not_stop_the_others() {
    let other = Trak { entry: sound_entry(b"dtsc", 0, &[], &[]), ..Trak::audio(2, 2) };
    let read = read_movie(&[Trak::video(1, 2), other, Trak::audio(3, 2)]);
    assert_eq!(read.tracks.iter().map(|track| track.codec).collect::<Vec<_>>(), [Codec::H264, Codec::Aac]);
    assert!(read.warnings.iter().any(|warning| warning.contains("`dtsc`")), "{:?}", read.warnings);
}

#[test]
fn media_in_another_file() {
    let url = full(b"url ", 0, 0, b"film2.mov\0");
    let dinf = boxed(b"dinf", &full(b"dref", 0, 0, &[words(&[1]), url].concat()));
    let error = refused(&[Trak { in_minf: dinf, ..Trak::video(1, 2) }]).to_string();
    assert!(error.contains("another file"), "{error}");
    let here = boxed(b"dinf", &full(b"dref", 0, 0, &[words(&[1]), full(b"url ", 0, 1, &[])].concat()));
    assert_eq!(read_movie(&[Trak { in_minf: here, ..Trak::video(1, 2) }]).packets.len(), 2);
}

#[test]
fn languages_names_and_flags() {
    let name = boxed(b"udta", &boxed(b"name", "Erz\u{e4}hler".as_bytes()));
    let kind = boxed(b"udta", &full(b"kind", 0, 0, b"urn:mpeg:dash:role:2011\0forced-subtitle\0"));
    let cue = || boxed(b"vttc", &boxed(b"payl", b"Hi"));
    let wvtt =
        |id| Trak { samples: vec![cue()], ..Trak::new(id, b"text", boxed(b"wvtt", &[0; 8]), 1000, 500, 0) };
    let tx3g = boxed(b"tx3g", &[&[0; 8], 0xc000_0000u32.to_be_bytes().as_slice(), &[0; 26]].concat());
    let tx3g = Trak { samples: vec![b"\0\x02Yo".to_vec()], ..Trak::new(5, b"sbtl", tx3g, 1000, 500, 0) };
    let file = movie(
        b"qt  ",
        &[
            Trak { language: 2, ..Trak::video(1, 2) },
            Trak {
                in_mdia: full(b"elng", 0, 0, b"pt-BR\0"),
                in_trak: name,
                enabled: false,
                ..Trak::audio(2, 2)
            },
            Trak { language: 0x15c7, in_trak: kind, ..wvtt(3) },
            wvtt(4),
            tx3g,
        ],
    );
    let read = read(Memory(file)).expect("a valid movie");
    let reported: Vec<_> =
        read.tracks.iter().map(|t| (t.language.as_deref(), t.name.as_deref(), t.default, t.forced)).collect();
    let expected = [
        (Some("deu"), None, true, false),
        (Some("pt-BR"), Some("Erz\u{e4}hler"), false, false),
        (Some("eng"), None, true, true),
        (None, None, false, false),
        (None, None, false, true),
    ];
    assert_eq!(reported, expected);
    assert_eq!(bytes(&read, 3), [b"Hi"]);
    assert_eq!(bytes(&read, 4), [b"Yo"]);
    assert_eq!(read.of(4)[0].0.sample.duration, 500);
}

/// Decoding order I0 P4 B2 b1 b3, then a key frame with leading pictures: I8 b6 b7 P10.
fn reordered() -> Trak {
    let shown = [0, 4, 2, 1, 3, 8, 6, 7, 10];
    let reorder = shown.iter().enumerate().map(|(at, shown)| (shown - at as i32 + 1) * 40).collect();
    Trak { reorder, syncs: Some(vec![1, 6]), ..Trak::video(1, 9) }
}

#[test]
fn edits_of_pictures() {
    let ticks = |list: &[i64]| list.iter().map(|picture| picture * 40).collect::<Vec<_>>();
    // The pictures start one tick of 40 late on the media's time line; the edit removes that.
    let whole = read_movie(&[Trak { edits: vec![(0, 40)], ..reordered() }]);
    assert_eq!(pts(&whole, 0), ticks(&[0, 4, 2, 1, 3, 8, 6, 7, 10]));
    assert!(whole.packets.iter().all(|(packet, _)| packet.sample.dts <= packet.sample.pts));
    // From within the first group: all of it is needed.
    let cut = read_movie(&[Trak { edits: vec![(0, 40 + 3 * 40)], ..reordered() }]);
    // Those before zero take half a millisecond together, in a clock of 2000 ticks for each.
    let shown = |list: &[i64]| ticks(list).iter().map(|time| time * 6).collect::<Vec<_>>();
    assert_eq!(pts(&cut, 0), [[-3].to_vec(), shown(&[1]), vec![-1, -2], shown(&[0, 5, 3, 4, 7])].concat());
    assert_eq!(cut.tracks[0].timescale, 6000);
    assert!(cut.packets.iter().all(|(packet, _)| packet.sample.dts <= packet.sample.pts));
    assert!(cut.packets.iter().map(|(packet, _)| packet.sample.dts).is_sorted());
    // From the second key frame on: its leading pictures are dropped too, and it lasts as long as
    // the rest.
    let cut = read_movie(&[Trak { edits: vec![(0, 40 + 8 * 40)], ..reordered() }]);
    assert_eq!(pts(&cut, 0), ticks(&[0, 2]));
    assert_eq!(cut.packets[0].0.sample.duration, 3 * 40);
    // An end in the first group: its last picture is the last to be decoded.
    let cut = read_movie(&[Trak { edits: vec![(2 * 40, 40)], ..reordered() }]);
    assert_eq!(pts(&cut, 0), ticks(&[0, 4, 2, 1]));
    // A pause before.
    let late = read_movie(&[Trak { edits: vec![(400, -1), (0, 40)], ..reordered() }]);
    assert_eq!((pts(&late, 0)[0], late.warnings.len()), (400, 0));
}

#[test]
fn many_pictures_before_zero() {
    let cut_at = |picture: i32| Trak {
        syncs: Some(vec![1]),
        edits: vec![(0, picture * 40)],
        ..Trak::video(1, picture as usize + 2)
    };
    // Each takes a microsecond, the least that browsers tell apart.
    let read = read_movie(&[cut_at(2500)]);
    assert_eq!(read.tracks[0].timescale, 1_000_000);
    assert_eq!(pts(&read, 0), (-2500..=0).chain([40_000]).collect::<Vec<i64>>());
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    // More of them cannot be hidden.
    let read = read_movie(&[cut_at(10_001)]);
    assert_eq!((read.tracks[0].timescale, pts(&read, 0)[0]), (1000, -10_001 * 40));
    assert!(read.warnings.iter().any(|warning| warning.contains("10001 pictures")), "{:?}", read.warnings);
}

#[test]
fn pictures_before_the_first_key_frame() {
    let read = read_movie(&[Trak { syncs: Some(vec![3]), ..Trak::video(1, 5) }]);
    assert_eq!(pts(&read, 0), [80, 120, 160]);
    let told = "track 1: 2 pictures before the first key frame at 00:00:00.080: left out";
    assert!(read.warnings.iter().any(|warning| warning.starts_with(told)), "{:?}", read.warnings);
    // An end before the first key frame: no picture is left.
    let cut = Trak { syncs: Some(vec![4]), edits: vec![(2 * 40, 0)], ..Trak::video(1, 5) };
    let read = read_movie(&[cut, Trak::audio(2, 5)]);
    assert!(read.packets.iter().all(|(packet, _)| read.tracks[packet.track].kind == TrackKind::Audio));
    assert_eq!(read.packets.len(), 5);
    assert!(read.warnings.iter().any(|warning| warning.contains("cannot be decoded")), "{:?}", read.warnings);
    // An empty table of key frames: at least the first picture is one.
    let read = read_movie(&[Trak { syncs: Some(Vec::new()), ..Trak::video(1, 5) }]);
    assert_eq!(
        read.packets.iter().map(|(packet, _)| packet.sample.sync).collect::<Vec<_>>(),
        [true, false, false, false, false]
    );
}

#[test]
fn edits_of_sound() {
    // Priming as Apple's encoders write it: nothing depends on the first unit.
    let read = read_movie(&[Trak { edits: vec![(0, 2112)], ..Trak::audio(1, 5) }]);
    assert_eq!(pts(&read, 0), [-1088, -64, 960, 1984]);
    assert_eq!(read.tracks[0].audio.as_ref().map(|audio| audio.priming), Some(1088));
    // A second is cut off: one unit before that at zero is kept for warm-up.
    let read = read_movie(&[Trak { edits: vec![(0, 48_000)], ..Trak::audio(1, 60) }]);
    assert_eq!(pts(&read, 0)[..2], [-1920, -896]);
    assert_eq!(read.tracks[0].audio.as_ref().map(|audio| audio.priming), Some(1920));
    // Frames that begin after the end are dropped.
    let read = read_movie(&[Trak { edits: vec![(64, 0)], ..Trak::audio(1, 60) }]);
    assert_eq!(read.packets.len(), 3);
}

#[test]
fn negative_composition_offsets_of_quicktime() {
    // Offsets that begin at zero: decoding times move so that none is after its presentation time.
    let mut trak = reordered();
    trak.reorder.iter_mut().for_each(|offset| *offset -= 40);
    let read = read_movie(&[trak]);
    assert_eq!(pts(&read, 0)[..5], [0, 160, 80, 40, 120]);
    let dts: Vec<i64> = read.packets.iter().map(|(packet, _)| packet.sample.dts).collect();
    assert_eq!(dts[..3], [-80, -40, 0]);
}

#[test]
fn tracks_far_apart_in_the_file_stay_together_in_time() {
    let second = |id, make: fn(u32, usize) -> Trak| Trak { timescale: 1000, duration: 1000, ..make(id, 100) };
    let read = read_movie(&[second(1, Trak::video), second(2, Trak::audio)]);
    let mut newest = [0; 2];
    for (packet, _) in &read.packets {
        newest[packet.track] = packet.sample.dts;
        assert!(newest[0].abs_diff(newest[1]) <= 17_000, "{newest:?}");
    }
    assert_eq!(read.of(0).len() + read.of(1).len(), 200);
}

/// Puts 5 GiB of zeros before the media, as in a file of that length.
#[test]
fn beyond_four_gigabytes() {
    const FAR: u64 = 5 << 30;
    let file = fs::read(film("mp4", &[PICTURE, TONE, H264, &["-c:a", "aac"]])).expect("the film was made");
    let near = read(Memory(file.clone())).expect("a valid file");
    let mut pieces = Vec::new();
    let mut place = 0;
    for (kind, body) in split(&file) {
        let piece = match &kind {
            b"mdat" => {
                // A box with a size of 64 bits; the media lies at its end.
                let head =
                    [&1u32.to_be_bytes(), b"mdat".as_slice(), &(FAR + body.len() as u64 + 16).to_be_bytes()]
                        .concat();
                pieces.push((place, head));
                place += FAR + 16;
                body
            }
            b"moov" => rewrite(&boxed(&kind, &body), &mut |kind, body| {
                let list = (kind == b"stco").then(|| body[8..].chunks_exact(4))?;
                let places =
                    list.map(|at| u64::from(u32::from_be_bytes([at[0], at[1], at[2], at[3]])) + FAR + 8);
                let places: Vec<u8> = places.flat_map(u64::to_be_bytes).collect();
                Some(boxed(b"co64", &[&body[..8], &places].concat()))
            }),
            _ => boxed(&kind, &body),
        };
        let bytes = piece.len() as u64;
        pieces.push((place, piece));
        place += bytes;
    }
    let far = read(Sparse { pieces }).expect("a valid file");
    assert!(far.tracks == near.tracks && far.packets == near.packets);
}

/// Fragments beyond four gigabytes, with base offsets that the file states.
#[test]
fn fragments_beyond_four_gigabytes() {
    const FAR: u64 = 5 << 30;
    let arguments: &[&[&str]] =
        &[PICTURE, TONE, H264, &["-c:a", "aac", "-movflags", "frag_keyframe+empty_moov"]];
    let file = fs::read(film("mp4", arguments)).expect("the film was made");
    let near = read(Memory(file.clone())).expect("a valid file");
    let mut head = Vec::new();
    let mut rest = Vec::new();
    let mut stated = 0;
    for (kind, body) in split(&file) {
        let whole = match &kind {
            b"moof" => boxed(&kind, &moved(&body, FAR, &mut stated)),
            b"mfra" => continue,
            _ => boxed(&kind, &body),
        };
        if rest.is_empty() && kind != *b"moof" { head.extend(whole) } else { rest.extend(whole) }
    }
    assert!(stated > 0, "ffmpeg states base offsets");
    let place = head.len() as u64;
    let gap = [&1u32.to_be_bytes(), b"free".as_slice(), &FAR.to_be_bytes()].concat();
    let far =
        read(Sparse { pieces: vec![(0, head), (place, gap), (place + FAR, rest)] }).expect("a valid file");
    assert!(far.tracks == near.tracks && far.packets == near.packets);
}

/// A `moof` with larger base offsets.
fn moved(moof: &[u8], by: u64, stated: &mut usize) -> Vec<u8> {
    let traf = |body: &[u8], stated: &mut usize| {
        let mut out = Vec::new();
        for (kind, mut body) in split(body) {
            if kind == *b"tfhd" && body[3] & 1 == 1 {
                *stated += 1;
                let base = u64::from_be_bytes(std::array::from_fn(|at| body[8 + at])) + by;
                body[8..16].copy_from_slice(&base.to_be_bytes());
            }
            out.extend(boxed(&kind, &body));
        }
        out
    };
    let parts = split(moof).into_iter();
    parts
        .flat_map(|(kind, body)| boxed(&kind, &if kind == *b"traf" { traf(&body, stated) } else { body }))
        .collect()
}

/// Recordings of live streams count from the beginning of the stream.
#[test]
fn fragments_that_begin_late() {
    let flags = "frag_keyframe+empty_moov+default_base_moof";
    let file =
        fs::read(film("mp4", &[PICTURE, TONE, H264, &["-c:a", "aac", "-movflags", flags]])).expect("made");
    let near = read(Memory(file.clone())).expect("a valid file");
    let mut late = file;
    let mut changed = 0;
    for at in 0..late.len() - 16 {
        if late[at..].starts_with(b"tfdt\x01\0\0\0") {
            // The scale of its times shows which track it is; the tracks alternate.
            let scale = near.tracks[changed % 2].timescale;
            let time = u64::from_be_bytes(std::array::from_fn(|byte| late[at + 8 + byte]));
            late[at + 8..at + 16].copy_from_slice(&(time + 3600 * u64::from(scale)).to_be_bytes());
            changed += 1;
        }
    }
    assert!(changed > 2, "there are fragments");
    let late = read(Memory(late)).expect("a valid file");
    assert!(
        late.warnings.iter().any(|warning| warning.contains("counts its time from another origin")),
        "{:?}",
        late.warnings
    );
    // The earliest of all tracks is the beginning; here it is the sound.
    assert_eq!(pts(&late, 1), pts(&near, 1));
    assert_eq!(pts(&late, 0), pts(&near, 0));
}

/// ffmpeg 5.1 writes some frames of sound with the time of the next one and no duration.
#[test]
fn a_frame_of_sound_without_a_duration_takes_the_place_of_the_gap_before_it() {
    let flags = "frag_every_frame+empty_moov+default_base_moof";
    let file = fs::read(film("mp4", &[TONE, &["-c:a", "aac", "-movflags", flags]])).expect("made");
    let right = read(Memory(file.clone())).expect("a valid file");
    // Two frames in a row, and one alone.
    let mended = read(Memory(without_durations(&file, &[5, 6, 9], 1024))).expect("a valid file");
    assert!(mended.packets == right.packets);
    // A longer gap is meant.
    let pause = read(Memory(without_durations(&file, &[5], 4096))).expect("a valid file");
    assert_eq!(pts(&pause, 0)[4..6], [4 * 1024, 5 * 1024 + 4096]);
}

/// Fragments of one frame, of which some begin later and last no time.
fn without_durations(file: &[u8], frames: &[usize], late: u64) -> Vec<u8> {
    const FRAME: [u8; 4] = 1024u32.to_be_bytes();
    let mut changed = file.to_vec();
    let mut frame = 0;
    for at in 0..file.len() - 16 {
        if file[at..].starts_with(b"tfhd") && frames.contains(&frame) {
            assert_eq!(file[at + 12..at + 16], FRAME);
            changed[at + 12..at + 16].fill(0);
        }
        if file[at..].starts_with(b"tfdt\x01\0\0\0") {
            let time = u64::from_be_bytes(std::array::from_fn(|byte| file[at + 8 + byte]));
            assert_eq!(time, frame as u64 * 1024);
            if frames.contains(&frame) {
                changed[at + 8..at + 16].copy_from_slice(&(time + late).to_be_bytes());
            }
            frame += 1;
        }
    }
    assert!(frame > 10, "each frame is a fragment");
    changed
}

#[test]
fn boxes_of_all_sizes_and_bytes_after_the_film() {
    let file = movie(b"isom", &[Trak::video(1, 3)]);
    let expected = Trak::video(1, 3).samples;
    let place = file.windows(4).rposition(|kind| kind == b"moov").expect("a moov box") - 4;
    let (head, moov) = (&file[..place], &file[place + 8..]);
    let large =
        [&1u32.to_be_bytes(), b"moov".as_slice(), &(moov.len() as u64 + 16).to_be_bytes(), moov].concat();
    let open = [&0u32.to_be_bytes(), b"moov".as_slice(), moov].concat();
    for moov in [large, open] {
        let read = read(Memory([head, &moov].concat())).expect("a valid movie");
        assert_eq!(bytes(&read, 0), expected);
    }
    for after in [&[0; 3][..], &[0; 64], b"\xff\xff\xff\xffjunk and more", b"\0\0\0\x02xxxx"] {
        let read = read(Memory([&file, after].concat())).expect("a valid movie");
        assert_eq!(bytes(&read, 0), expected);
        assert_eq!(read.warnings.len(), 1, "{after:?}: {:?}", read.warnings);
    }
}

#[test]
fn empty_samples_are_skipped() {
    let mut trak = Trak::video(1, 4);
    trak.samples[1].clear();
    let read = read_movie(&[trak]);
    assert_eq!(pts(&read, 0), [0, 80, 120]);
    assert_eq!(read.packets[0].0.sample.duration, 80);
    assert_eq!(read.tracks[0].kind, TrackKind::Video);
    assert_eq!(read.warnings, ["track 1: one sample without bytes, the first at 00:00:00.040, are skipped"]);
}

#[test]
fn samples_that_lie_nowhere_are_named() {
    let mut trak = Trak::video(1, 4);
    trak.unplaced = 2;
    let read = read_movie(&[trak]);
    assert_eq!(pts(&read, 0), [0, 40]);
    let told = "track 1: 2 samples behind 00:00:00.080 are left out: the file does not say where they lie";
    assert_eq!(read.warnings, [told]);
}
