//! Compares packets with those that ffprobe shows for the same file: time, duration, key flag, size
//! and bytes.

use super::files::{H264, OTHER_TONE, PICTURE, Shown, TONE, film, shown, text};
use super::sources::{Memory, Read, read};
use reel_media::{Codec, MediaError, TrackKind};
use std::fs;
use std::path::Path;

const AAC: &[&str] = &["-c:a", "aac", "-b:a", "64k"];

/// Reads the file and compares each track with the stream of that number.
fn agrees(path: &Path, streams: &[usize]) -> Read {
    let streams: Vec<(usize, usize)> = streams.iter().map(|stream| (*stream, 0)).collect();
    agrees_after(path, &streams)
}

/// The same, where this many first packets of a stream are expected to be left out.
fn agrees_after(path: &Path, streams: &[(usize, usize)]) -> Read {
    let file = fs::read(path).expect("the film was made");
    let read = read(Memory(file.clone())).expect("a valid file");
    assert_eq!(read.tracks.len(), streams.len(), "tracks; {:?}", read.warnings);
    for (index, (stream, left_out)) in streams.iter().enumerate() {
        let (timescale, shown) = shown(path, *stream);
        let shown = &shown[*left_out..];
        let hidden = Hidden::of(shown, read.tracks[index].kind);
        let scale = hidden.scale(timescale);
        assert_eq!(read.tracks[index].timescale, timescale * scale);
        let ours = read.of(index);
        for (number, (expected, (packet, data))) in shown.iter().zip(&ours).enumerate() {
            let sample = packet.sample;
            let times = (sample.pts, sample.dts, sample.duration, sample.sync, data.len());
            // ffprobe takes the duration of sound from the codec. Here it is the time to the next
            // packet, and for the last packet what the table says, which an encoder may have cut
            // short.
            let duration = match shown.get(number + 1) {
                Some(next) => (next.dts - expected.dts) as u32,
                None if expected.duration == 0 => sample.duration,
                None => expected.duration.min(sample.duration.max(expected.duration / 4)),
            };
            let duration = duration * scale;
            let (pts, dts) = (hidden.pts(expected.pts, scale), expected.dts * i64::from(scale));
            let shown = if number < hidden.first_shown {
                assert!(sample.dts <= sample.pts && sample.dts < dts.max(0), "{sample:?}");
                (pts, sample.dts, sample.duration, expected.key, expected.bytes)
            } else {
                (pts, dts, duration, expected.key, expected.bytes)
            };
            assert_eq!(times, shown, "stream {stream}, packet {number} (pts, dts, duration, key, bytes)");
            if let Some(at) = expected.position {
                assert!(file[at..].starts_with(data), "stream {stream}, packet {number} has other bytes");
            }
        }
        assert_eq!(ours.len(), shown.len(), "packets of stream {stream}");
    }
    read
}

/// Pictures before zero, which get the last ticks before it in a finer clock.
struct Hidden {
    /// Their stated times.
    times: Vec<i64>,
    /// Number of the first packet that is shown.
    first_shown: usize,
}

impl Hidden {
    fn of(shown: &[Shown], kind: TrackKind) -> Self {
        let before = |packet: &&Shown| kind == TrackKind::Video && packet.pts < 0;
        let times = shown.iter().filter(before).map(|packet| packet.pts).collect();
        Self { times, first_shown: shown.iter().take_while(before).count() }
    }

    /// How much finer the clock is: 2000 ticks for each picture.
    fn scale(&self, timescale: u32) -> u32 {
        (self.times.len() as u32 * 2000).div_ceil(timescale).max(1)
    }

    fn pts(&self, stated: i64, scale: u32) -> i64 {
        let later = self.times.iter().filter(|time| **time >= stated).count() as i64;
        if later > 0 { -later } else { stated * i64::from(scale) }
    }
}

fn codecs(read: &Read) -> Vec<Codec> {
    read.tracks.iter().map(|track| track.codec).collect()
}

#[test]
fn h264_with_b_frames_and_aac() {
    let read = agrees(&film("mp4", &[PICTURE, TONE, H264, AAC]), &[0, 1]);
    assert_eq!(codecs(&read), [Codec::H264, Codec::Aac]);
    let video = read.tracks[0].video.as_ref().expect("a picture");
    assert_eq!((video.width, video.height, video.pixel_aspect, video.rotation), (320, 180, (1, 1), 0));
    let audio = read.tracks[1].audio.as_ref().expect("sound");
    assert_eq!((audio.channels, audio.sample_rate, audio.priming), (1, 48_000, 1024));
    assert!(
        read.of(0).iter().any(|(packet, _)| packet.sample.pts > packet.sample.dts + 1024),
        "there are B-frames"
    );
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
}

#[test]
fn index_first() {
    agrees(&film("mp4", &[PICTURE, TONE, H264, AAC, &["-movflags", "+faststart"]]), &[0, 1]);
}

#[test]
fn fragmented() {
    for flags in [
        "frag_keyframe+empty_moov",
        "frag_keyframe+empty_moov+default_base_moof",
        "frag_keyframe+empty_moov+omit_tfhd_offset",
        "frag_keyframe+empty_moov+separate_moof",
        "frag_keyframe+delay_moov",
        // The first pictures are in the `moov` box, the rest in fragments.
        "frag_keyframe",
        "dash+delay_moov",
    ] {
        println!("{flags}");
        agrees(&film("mp4", &[PICTURE, TONE, H264, AAC, &["-movflags", flags]]), &[0, 1]);
    }
}

#[test]
fn negative_composition_offsets() {
    agrees(&film("mp4", &[PICTURE, TONE, H264, AAC, &["-movflags", "+negative_cts_offsets"]]), &[0, 1]);
}

#[test]
fn hevc() {
    let x265 =
        &["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:bframes=3:keyint=20"];
    for tag in ["hvc1", "hev1"] {
        let read = agrees(&film("mp4", &[PICTURE, x265, &["-tag:v", tag]]), &[0]);
        assert_eq!(codecs(&read), [Codec::Hevc]);
    }
}

#[test]
fn av1() {
    let svt = &["-c:v", "libsvtav1", "-preset", "12", "-g", "20"];
    assert_eq!(codecs(&agrees(&film("mp4", &[PICTURE, svt]), &[0])), [Codec::Av1]);
    // This encoder states no configuration, so a header that is written before the first picture
    // has an empty one.
    let aom = &["-c:v", "libaom-av1", "-cpu-used", "8", "-usage", "realtime", "-g", "20"];
    let whole = agrees(&film("mp4", &[PICTURE, aom]), &[0]);
    let fragments = film("mp4", &[PICTURE, aom, &["-movflags", "frag_keyframe+empty_moov"]]);
    assert!(fs::read(&fragments).expect("made").windows(8).any(|part| part == b"\0\0\0\x08av1C"));
    let fragmented = agrees(&fragments, &[0]);
    assert_eq!(fragmented.tracks[0].config, whole.tracks[0].config);
    assert_eq!(fragmented.tracks[0].video, whole.tracks[0].video);
}

#[test]
fn vp9_and_opus() {
    let codec =
        &["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "20", "-c:a", "libopus"];
    let read = agrees(&film("mp4", &[PICTURE, TONE, codec]), &[0, 1]);
    assert_eq!(codecs(&read), [Codec::Vp9, Codec::Opus]);
    assert_eq!(read.tracks[1].audio.as_ref().map(|audio| (audio.channels, audio.priming)), Some((1, 312)));
}

#[test]
fn vp9_without_its_configuration() {
    let vp9 = &["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "20"];
    let mut file = fs::read(film("mp4", &[PICTURE, vp9])).expect("made");
    let whole = read(Memory(file.clone())).expect("a film");
    let at = file.windows(4).position(|name| name == b"vpcC").expect("its configuration");
    file[at..at + 4].copy_from_slice(b"free");
    let without = read(Memory(file)).expect("a film");
    let described = |config: &[u8]| (config[..5].to_vec(), config[6] >> 1);
    assert_eq!(described(&without.tracks[0].config), described(&whole.tracks[0].config));
    assert!(without.packets == whole.packets && !without.packets.is_empty());
}

#[test]
fn other_sound() {
    for (coder, extension, codec, channels) in [
        ("libmp3lame", "mp4", Codec::Mp3, 2),
        ("libmp3lame", "mov", Codec::Mp3, 2),
        ("ac3", "mp4", Codec::Ac3, 6),
        ("eac3", "mp4", Codec::Eac3, 6),
        ("flac", "mp4", Codec::Flac, 2),
        ("aac", "mov", Codec::Aac, 2),
        ("libopus", "mp4", Codec::Opus, 6),
    ] {
        println!("{coder} in {extension}");
        let count = channels.to_string();
        let read = agrees(&film(extension, &[TONE, &["-c:a", coder, "-ac", &count, "-strict", "-2"]]), &[0]);
        let audio = read.tracks[0].audio.as_ref().expect("sound");
        assert_eq!((read.tracks[0].codec, audio.channels, audio.sample_rate), (codec, channels, 48_000));
    }
}

#[test]
fn pcm_is_left_out() {
    let read = agrees(&film("mov", &[PICTURE, TONE, H264, &["-c:a", "pcm_s16le"]]), &[0]);
    assert_eq!(codecs(&read), [Codec::H264]);
    assert!(read.warnings.iter().any(|warning| warning.contains("`sowt`")), "{:?}", read.warnings);
}

#[test]
fn variable_frame_rate() {
    let jitter = &[
        "-vf",
        "settb=1/90000,setpts='PTS+0.9*random(0)/TB/25'",
        "-vsync",
        "vfr",
        "-enc_time_base",
        "1:90000",
        "-video_track_timescale",
        "90000",
    ];
    let path = film("mp4", &[PICTURE, H264, jitter]);
    let read = agrees(&path, &[0]);
    let mut steps: Vec<u32> = read.packets.iter().map(|(packet, _)| packet.sample.duration).collect();
    steps.sort_unstable();
    steps.dedup();
    assert!(steps.len() > 5, "frames are unevenly spaced: {steps:?}");
    agrees(&film("mp4", &[PICTURE, H264, jitter, &["-movflags", "frag_keyframe+empty_moov"]]), &[0]);
}

#[test]
fn sound_that_begins_later() {
    let delayed = &["-itsoffset", "0.5"];
    let path = film("mp4", &[PICTURE, delayed, TONE, H264, AAC, &["-map", "0:v", "-map", "1:a"]]);
    let read = agrees(&path, &[0, 1]);
    // Half a second, minus what the encoder puts before the sound; ffmpeg states the pause in whole
    // milliseconds.
    let first = read.of(1)[0].0.sample.pts;
    assert!((first - (24_000 - 1024)).abs() <= 48, "{first}");
}

#[test]
fn two_languages() {
    let more = &["-map", "0:v", "-map", "1:a", "-map", "2:a"];
    let tags = &["-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=deu"];
    let name =
        &["-metadata:s:a:1", "title=Kommentar", "-disposition:a:1", "default", "-disposition:a:0", "0"];
    let path = film("mp4", &[PICTURE, TONE, OTHER_TONE, H264, AAC, more, tags, name]);
    let read = agrees(&path, &[0, 1, 2]);
    let reported: Vec<_> =
        read.tracks.iter().map(|t| (t.language.as_deref(), t.name.as_deref(), t.default)).collect();
    assert_eq!(
        reported,
        [(None, None, true), (Some("eng"), None, false), (Some("deu"), Some("Kommentar"), true)]
    );
    assert_eq!(read.tracks[2].timescale, 44_100);
}

#[test]
fn subtitles() {
    let srt = "1\n00:00:00,200 --> 00:00:00,900\n<i>Hello</i> & welcome\n\n2\n00:00:01,000 --> 00:00:01,500\nTwo\nlines\n";
    let path = text("cues.srt", srt);
    let more = &["-i", &path, "-c:s", "mov_text", "-metadata:s:s:0", "language=fra"];
    for extension in ["mp4", "mov"] {
        let read =
            read(Memory(fs::read(film(extension, &[PICTURE, more, H264])).expect("the film was made")))
                .expect("a valid file");
        assert_eq!(read.tracks.len(), 2, "{:?}", read.warnings);
        let track = &read.tracks[1];
        assert_eq!((track.kind, track.codec), (TrackKind::Subtitle, Codec::WebVtt));
        assert_eq!(track.language.as_deref(), Some("fra"));
        let cues: Vec<_> = read
            .of(1)
            .iter()
            .map(|(packet, data)| {
                let ms = |ticks: i64| ticks * 1000 / i64::from(track.timescale);
                let sample = packet.sample;
                (ms(sample.pts), ms(sample.duration.into()), String::from_utf8_lossy(data).into_owned())
            })
            .collect();
        let expected =
            [(200, 700, "<i>Hello</i> &amp; welcome".to_owned()), (1000, 500, "Two\nlines".to_owned())];
        assert_eq!(cues, expected);
    }
}

#[test]
fn time_codes_are_left_out() {
    let read = agrees(&film("mov", &[PICTURE, H264, &["-timecode", "01:00:00:00"]]), &[0]);
    assert!(read.warnings.iter().any(|warning| warning.contains("time codes")), "{:?}", read.warnings);
}

#[test]
fn pixel_shape_colour_and_rotation() {
    let shape =
        &["-vf", "setsar=4/3", "-color_primaries", "bt709", "-color_trc", "bt709", "-colorspace", "bt709"];
    let upright = film("mp4", &[PICTURE, H264, shape, &["-color_range", "tv", "-movflags", "+write_colr"]]);
    let video = agrees(&upright, &[0]).tracks[0].video.clone().expect("a picture");
    assert_eq!(video.pixel_aspect, (4, 3));
    let colour = video.colour.expect("a colour description");
    assert_eq!((colour.primaries, colour.transfer, colour.matrix, colour.full_range), (1, 1, 1, false));
    let source = upright.to_str().expect("a plain name");
    for (degrees, expected) in [("90", 270), ("180", 180), ("270", 90)] {
        let turned =
            film("mp4", &[&["-i", source, "-c", "copy", "-metadata:s:v:0"], &[&format!("rotate={degrees}")]]);
        let video = agrees(&turned, &[0]).tracks[0].video.clone().expect("a picture");
        // ffmpeg 5 counts counter-clockwise from 6.0 on and clockwise before, so only the opposite
        // signs of the pair are asserted.
        assert!(
            video.rotation == expected || video.rotation == (360 - expected) % 360,
            "{degrees}: {}",
            video.rotation
        );
        assert_ne!(video.rotation, 0);
    }
}

/// A cut with stream copy keeps the pictures before the cut and hides them with an edit list.
#[test]
fn cut_between_key_frames() {
    let source = film("mp4", &[PICTURE, TONE, H264, AAC]);
    let source = source.to_str().expect("a plain name");
    let path = film("mp4", &[&["-ss", "0.72", "-i", source, "-c", "copy"]]);
    // One unit of sound before that at the cut is enough to warm up a decoder.
    let read = agrees_after(&path, &[(0, 0), (1, 14)]);
    let first = read.of(0)[0].0.sample;
    assert!(first.sync && first.pts < 0, "{first:?}");
    assert_eq!(read.tracks[1].audio.as_ref().map(|audio| audio.priming), Some(1792));
}

/// The reading order follows the file while that keeps the tracks together.
#[test]
fn packets_come_in_file_order() {
    let path = film("mp4", &[PICTURE, TONE, H264, AAC]);
    let file = fs::read(&path).expect("the film was made");
    let read = read(Memory(file)).expect("a valid file");
    let mut places =
        [shown(&path, 0).1, shown(&path, 1).1].map(|list| list.into_iter().map(|shown| shown.position));
    let order: Vec<_> = read.packets.iter().map(|(packet, _)| places[packet.track].next()).collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_film_with_an_unsupported_video_codec_is_not_stored_as_sound_alone() {
    let path = film("mp4", &[PICTURE, TONE, &["-c:v", "mpeg4", "-c:a", "aac"]]);
    let refused = read(Memory(fs::read(path).expect("the film"))).err().expect("refused");
    assert!(matches!(&refused, MediaError::NoTracks(why) if why.contains("mp4v")), "{refused}");
}
