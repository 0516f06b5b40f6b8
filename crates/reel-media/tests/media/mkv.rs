//! Matroska and WebM against ffprobe.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::oracle::*;
use reel_media::{Codec, Demux, MediaError, TrackKind};
use std::path::Path;

const VP9_OPUS: &str = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 30 -c:a libopus";

fn open(path: &Path) -> Box<dyn Demux> {
    reel_media::open(Box::new(Memory(std::fs::read(path).unwrap()))).unwrap()
}

/// Every stored stream has ffprobe's packets: count, times to the file's rounding, flags and sizes.
fn assert_like_ffprobe(path: &Path, streams: &[usize], zero_s: f64) -> (Box<dyn Demux>, Vec<Taken>) {
    let mut demux = open(path);
    let taken = drain(demux.as_mut()).unwrap();
    let seen = packets(path);
    assert_eq!(demux.tracks().len(), streams.len());
    for (track, stream) in streams.iter().enumerate() {
        let description = demux.tracks()[track].clone();
        let ours = of_track(&taken, track);
        let theirs: Vec<_> = seen.iter().filter(|seen| seen.stream == *stream).collect();
        assert_eq!(ours.len(), theirs.len(), "packets of {description:?}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            let pts = ours.packet.sample.pts as f64 / f64::from(description.timescale);
            assert!((pts - (theirs.pts - zero_s)).abs() <= 0.00201, "{pts} against {theirs:?}");
            assert_eq!(ours.packet.sample.sync, theirs.key, "{theirs:?}");
            if description.kind != TrackKind::Subtitle {
                assert_eq!(ours.data.len(), theirs.bytes, "{theirs:?}");
            }
        }
        if description.kind != TrackKind::Subtitle {
            assert_contiguous(&ours);
        }
    }
    (demux, taken)
}

#[test]
fn h264_with_b_frames_and_aac() {
    let film_dir = FilmDir::new();
    let path = film_dir.make(
        "a.mkv",
        &[
            picture("25", 3),
            tone(440, 44_100, 3),
            words("-c:v libx264 -preset veryfast -bf 3 -g 25 -c:a aac -ac 2"),
        ],
    );
    let (demux, taken) = assert_like_ffprobe(&path, &[0, 1], 0.0);
    let [video, audio] = [&demux.tracks()[0], &demux.tracks()[1]];
    assert_eq!((video.codec, audio.codec), (Codec::H264, Codec::Aac));
    let shape = video.video.as_ref().unwrap();
    assert_eq!((shape.width, shape.height, shape.pixel_aspect, shape.rotation), (320, 180, (1, 1), 0));
    let sound = audio.audio.as_ref().unwrap();
    assert_eq!((sound.channels, sound.sample_rate, audio.timescale), (2, 44_100, 44_100));
    // A frame is 40 ms, in decoding order too; sound counts its samples.
    let frames = of_track(&taken, 0);
    let step = video.timescale / 25;
    assert!(frames.iter().all(|frame| frame.packet.sample.duration == step));
    assert!(frames.iter().any(|frame| frame.packet.sample.pts != frame.packet.sample.dts), "reordered");
    assert!(of_track(&taken, 1).windows(2).all(|pair| pair[0].packet.sample.duration == 1024));

    let stream = film_dir.write("a.264", &annex_b(&avc_sets(&video.config), &frames));
    assert_eq!(frame_sums(&stream, Some("h264"), "0:v"), frame_sums(&path, None, "0:v"));
}

#[test]
fn hevc_and_ac3() {
    let film_dir = FilmDir::new();
    let path = film_dir.make(
        "a.mkv",
        &[
            picture("30", 2),
            tone(440, 48_000, 2),
            words("-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=30:bframes=3 -c:a ac3 -ac 2"),
        ],
    );
    let (demux, taken) = assert_like_ffprobe(&path, &[0, 1], 0.0);
    let [video, audio] = [&demux.tracks()[0], &demux.tracks()[1]];
    assert_eq!((video.codec, audio.codec), (Codec::Hevc, Codec::Ac3));
    assert_eq!(audio.config.len(), 3);
    assert!(of_track(&taken, 1).windows(2).all(|pair| pair[0].packet.sample.duration == 1536));
    let stream = film_dir.write("a.265", &annex_b(&hevc_sets(&video.config), &of_track(&taken, 0)));
    assert_eq!(frame_sums(&stream, Some("hevc"), "0:v"), frame_sums(&path, None, "0:v"));
}

#[test]
fn vp9_and_opus() {
    let film_dir = FilmDir::new();
    let path = film_dir.make(
        "a.webm",
        &[
            picture("30", 2),
            tone(440, 48_000, 2),
            words("-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 30 -b:v 300k -c:a libopus -ac 2"),
        ],
    );
    let (demux, taken) = assert_like_ffprobe(&path, &[0, 1], 0.0);
    let [video, audio] = [&demux.tracks()[0], &demux.tracks()[1]];
    assert_eq!((video.codec, audio.codec), (Codec::Vp9, Codec::Opus));
    assert_eq!(video.config[..8], [1, 0, 0, 0, 0, 11, 0x82, 2], "profile 0, level 1.1, 8 bits, 4:2:0");
    let priming = audio.audio.as_ref().unwrap().priming;
    let packets = of_track(&taken, 1);
    assert_eq!(priming, 312);
    assert_eq!(packets[0].packet.sample.pts, -312);
    assert!(packets[..packets.len() - 1].iter().all(|packet| packet.packet.sample.duration == 960));
    let played: i64 = packets.iter().map(|packet| i64::from(packet.packet.sample.duration)).sum();
    assert_eq!(played - 312, 96_000, "the last packet ends where the sound does");
}

#[test]
fn av1_and_flac() {
    let film_dir = FilmDir::new();
    let path = film_dir.make(
        "a.mkv",
        &[picture("24", 2), tone(440, 44_100, 2), words("-c:v libsvtav1 -preset 12 -g 24 -c:a flac -ac 2")],
    );
    let (demux, taken) = assert_like_ffprobe(&path, &[0, 1], 0.0);
    let [video, audio] = [&demux.tracks()[0], &demux.tracks()[1]];
    assert_eq!((video.codec, audio.codec), (Codec::Av1, Codec::Flac));
    assert_eq!(video.config[0], 0x81);
    assert_eq!((audio.config.len(), &audio.config[..8]), (42, &[0, 0, 0, 0, 0x80, 0, 0, 34][..]));
    let played: i64 = of_track(&taken, 1).iter().map(|packet| i64::from(packet.packet.sample.duration)).sum();
    assert_eq!(played, 2 * 44_100);
}

#[test]
fn two_languages_and_two_kinds_of_subtitles() {
    let film_dir = FilmDir::new();
    let srt = film_dir.write("a.srt", "1\n00:00:00,500 --> 00:00:01,250\n<i>Hallo</i> & Welt\nzwei\n\n2\n00:00:01,500 --> 00:00:02,000\nNoch eine\n".as_bytes());
    let ass = film_dir.write("a.ass", b"[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\nFormat: Name, Fontname, Fontsize\nStyle: Default,Arial,20\n\n[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\nDialogue: 0,0:00:01.00,0:00:01.75,Default,,0,0,0,,{\\i1}Hello,{\\i0} world\\Ntwo\n");
    let inputs = format!("-i {} -i {}", srt.display(), ass.display());
    let path = film_dir.make(
        "a.mkv",
        &[
            picture("25", 2),
            tone(440, 48_000, 2),
            tone(880, 48_000, 2),
            words(&inputs),
            words("-map 0 -map 1 -map 2 -map 3 -map 4 -c:v libx264 -preset ultrafast -c:a aac -c:s:0 srt -c:s:1 ass"),
            words("-metadata:s:a:0 language=ger -metadata:s:a:0 title=Deutsch -metadata:s:a:1 language=eng"),
            words("-disposition:a:0 default -disposition:a:1 0 -disposition:s:0 forced -metadata:s:s:0 language=de"),
        ],
    );
    let (demux, taken) = assert_like_ffprobe(&path, &[0, 1, 2, 3, 4], 0.0);
    let tracks = demux.tracks();
    assert_eq!((tracks[1].language.as_deref(), tracks[1].name.as_deref()), (Some("ger"), Some("Deutsch")));
    assert_eq!(tracks[2].language.as_deref(), Some("eng"));
    assert_eq!((tracks[1].default, tracks[2].default), (true, false));
    assert_eq!((tracks[3].forced, tracks[4].forced), (true, false));
    let cues = |track: usize| {
        let taken = of_track(&taken, track);
        let cue = |taken: &Taken| {
            let sample = taken.packet.sample;
            (sample.pts, sample.duration, String::from_utf8(taken.data.clone()).unwrap())
        };
        taken.iter().map(cue).collect::<Vec<_>>()
    };
    assert_eq!(tracks[3].timescale, 1000);
    // ffmpeg moves everything by the 21 ms by which the AAC encoder starts early.
    assert_eq!(
        cues(3),
        [(521, 750, "<i>Hallo</i> &amp; Welt\nzwei".to_owned()), (1521, 500, "Noch eine".to_owned())]
    );
    assert_eq!(cues(4), [(1021, 750, "<i>Hello,</i> world\ntwo".to_owned())]);
}

#[test]
fn variable_frame_rate() {
    let film_dir = FilmDir::new();
    // Frames n with n mod 7 in {1, 4} are missing, and the time between frames grows.
    let path = film_dir.make(
        "a.mkv",
        &[
            picture("50", 3),
            words(
                "-vf select='not(eq(mod(n\\,7)\\,1)+eq(mod(n\\,7)\\,4))',settb=1/1000,setpts=PTS*(1+N*0.002)",
            ),
            words("-fps_mode vfr -enc_time_base 1/1000 -c:v libx264 -preset veryfast -bf 2"),
        ],
    );
    let (demux, taken) = assert_like_ffprobe(&path, &[0], 0.0);
    let seen = packets(&path);
    let scale = f64::from(demux.tracks()[0].timescale);
    // The file's milliseconds, wrong by at most their rounding.
    for (ours, theirs) in taken.iter().zip(&seen) {
        let pts = ours.packet.sample.pts as f64 / scale;
        assert!((pts - theirs.pts).abs() <= 0.001_000_1, "{pts} {theirs:?}");
    }
    let mut shown: Vec<_> = taken.iter().map(|taken| taken.packet.sample.pts).collect();
    shown.sort_unstable();
    let gaps: std::collections::BTreeSet<_> = shown.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() > 3, "the rate varies: {gaps:?}");
    assert!(!gaps.contains(&0));
}

#[test]
fn film_rate_is_exact() {
    let film_dir = FilmDir::new();
    let path = film_dir
        .make("a.mkv", &[picture("24000/1001", 4), words("-c:v libx264 -preset veryfast -bf 3 -g 24")]);
    let (demux, taken) = assert_like_ffprobe(&path, &[0], 0.0);
    assert_eq!(demux.tracks()[0].timescale, 24_000);
    let mut shown: Vec<_> = taken.iter().map(|taken| taken.packet.sample.pts).collect();
    shown.sort_unstable();
    let exact: Vec<_> = (0..shown.len() as i64).map(|index| index * 1001).collect();
    assert_eq!(shown, exact);
    assert!(taken.iter().all(|taken| taken.packet.sample.duration == 1001));
}

#[test]
fn mp3_eac3_and_wide_pixels() {
    let film_dir = FilmDir::new();
    let path = film_dir.make(
        "a.mkv",
        &[
            picture("25", 2),
            tone(440, 44_100, 2),
            tone(440, 48_000, 2),
            words("-map 0 -map 1 -map 2 -c:v libx264 -preset ultrafast -vf setsar=4/3 -c:a:0 libmp3lame -c:a:1 eac3 -ac 2"),
            words("-color_primaries bt709 -color_trc bt709 -colorspace bt709"),
        ],
    );
    let (demux, taken) = assert_like_ffprobe(&path, &[0, 1, 2], 0.0);
    let tracks = demux.tracks();
    assert_eq!((tracks[1].codec, tracks[2].codec), (Codec::Mp3, Codec::Eac3));
    let shape = tracks[0].video.as_ref().unwrap();
    assert_eq!(shape.pixel_aspect, (4, 3));
    let colour = shape.colour.unwrap();
    assert_eq!((colour.primaries, colour.transfer, colour.matrix, colour.full_range), (1, 1, 1, false));
    assert_eq!(tracks[2].config.len(), 5);
    assert!(of_track(&taken, 1).windows(2).all(|pair| pair[0].packet.sample.duration == 1152));
    assert!(of_track(&taken, 2).windows(2).all(|pair| pair[0].packet.sample.duration == 1536));
}

#[test]
fn a_live_file_without_sizes_and_cues() {
    let film_dir = FilmDir::new();
    let path = film_dir.make(
        "a.webm",
        &[
            picture("30", 2),
            tone(440, 48_000, 2),
            words("-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 30 -c:a libopus -live 1 -f webm"),
        ],
    );
    assert_like_ffprobe(&path, &[0, 1], 0.0);
}

#[test]
fn unusable_files_are_named() {
    let film_dir = FilmDir::new();
    let open_bytes = |bytes: Vec<u8>| reel_media::open(Box::new(Memory(bytes))).err().unwrap();
    assert!(matches!(open_bytes(Vec::new()), MediaError::Empty));
    assert!(matches!(open_bytes(b"not a film at all".to_vec()), MediaError::UnknownContainer(_)));
    let path = film_dir.make("a.mkv", &[picture("25", 1), words("-c:v libx264 -preset ultrafast")]);
    let whole = std::fs::read(&path).unwrap();
    // The head alone.
    let cluster = whole.windows(4).position(|id| id == [0x1f, 0x43, 0xb6, 0x75]).unwrap();
    for left in [20, cluster / 2, cluster, cluster + 30] {
        let error = open_bytes(whole[..left].to_vec());
        assert!(matches!(error, MediaError::Truncated { .. }), "{left}: {error}");
    }
    let old =
        film_dir.make("b.mkv", &[picture("25", 1), tone(1, 48_000, 1), words("-c:v mpeg2video -c:a aac")]);
    let error = open_bytes(std::fs::read(old).unwrap());
    assert!(matches!(&error, MediaError::NoTracks(why) if why.contains("V_MPEG2")), "{error}");
    let vorbis =
        film_dir.make("c.mkv", &[picture("25", 1), tone(1, 48_000, 1), words("-c:v libx264 -c:a libvorbis")]);
    let demux = open(&vorbis);
    assert_eq!(demux.tracks().len(), 1);
    assert!(demux.warnings()[0].contains("A_VORBIS"), "{:?}", demux.warnings());
}

#[test]
fn a_file_shorter_than_it_states_is_taken_up_to_its_end() {
    let film_dir = FilmDir::new();
    for (name, codecs) in [("a.mkv", "-c:v libx264 -preset ultrafast -bf 0 -c:a aac"), ("a.webm", VP9_OPUS)] {
        let path = film_dir.make(name, &[picture("25", 4), tone(440, 48_000, 4), words(codecs)]);
        let bytes = std::fs::read(path).unwrap();
        let read = |bytes: &[u8]| {
            let mut demux = reel_media::open(Box::new(Memory(bytes.to_vec()))).unwrap();
            let taken = drain(demux.as_mut()).unwrap();
            (taken, demux.warnings().to_vec())
        };
        let (whole, warnings) = read(&bytes);
        assert_eq!(warnings, [""; 0]);
        let left = bytes.len() * 2 / 3;
        let (cut, warnings) = read(&bytes[..left]);
        for track in [0, 1] {
            let (cut, whole) = (of_track(&cut, track), of_track(&whole, track));
            assert!(
                cut.len() > whole.len() / 2 && cut.len() < whole.len(),
                "{} of {}",
                cut.len(),
                whole.len()
            );
            assert!(cut.iter().zip(&whole).all(|(cut, whole)| cut.data == whole.data));
        }
        let warning = warnings.iter().find(|text| text.starts_with("the file is cut off")).unwrap();
        assert!(warning.contains(", up to 00:00:0") && warning.contains("the rest is left out"), "{warning}");
        let at: usize =
            warning.split_whitespace().find_map(|word| word.trim_end_matches(':').parse().ok()).unwrap();
        assert!(at <= left && at + 20_000 > left, "{warning}");
    }
}
