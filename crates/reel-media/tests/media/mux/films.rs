//! Films that ffmpeg makes and decodes.

use super::{made, multiplex};
use crate::film::Stored;
use crate::oracle::*;
use reel_media::cmaf::{CutPolicy, Packager};
use reel_media::transport::check_carried;
use reel_media::{TrackKind, open};
use std::path::Path;

/// The stored title of a film.
fn store(path: &Path) -> Stored {
    let mut demux = open(Box::new(Memory(std::fs::read(path).unwrap()))).unwrap();
    let tracks = demux.tracks().to_vec();
    let mut packager = Packager::new(tracks.clone(), CutPolicy::default()).unwrap();
    let mut objects = vec![Vec::new(); tracks.len()];
    let mut data = Vec::new();
    while let Some(packet) = demux.next(&mut data).unwrap() {
        packager.push(&packet, &data).unwrap();
        packager.take().into_iter().for_each(|piece| objects[piece.track].extend_from_slice(&piece.bytes));
    }
    let packaged = packager.finish().unwrap();
    packaged.pieces.iter().for_each(|piece| objects[piece.track].extend_from_slice(&piece.bytes));
    Stored::new(vec![(packaged, objects)])
}

/// What ffmpeg decodes from the stream is what it decodes from the film, at the same times.
fn assert_decodes_the_same(film: &Path, stream: &Path, title: &Stored) {
    let mut counts = [0; 2];
    for track in &title.index.tracks {
        let (kind, count) = match track.track.kind {
            TrackKind::Video => ("v", &mut counts[0]),
            TrackKind::Audio => ("a", &mut counts[1]),
            TrackKind::Subtitle => continue,
        };
        let name = format!("0:{kind}:{count}");
        *count += 1;
        let (source, made) = (timed_sums(film, &name), timed_sums(stream, &name));
        let sums = |frames: &[(f64, String)]| frames.iter().map(|(_, sum)| sum.clone()).collect::<Vec<_>>();
        let (of_source, of_made) = (sums(&source), sums(&made));
        if kind == "v" {
            assert_eq!(of_made, of_source, "{name} of {}", film.display());
        } else {
            // A transport stream cannot say where warm-up ends and where padding begins.
            let common = of_source.iter().filter(|sum| of_made.contains(sum)).count();
            assert!(common + 2 >= of_source.len(), "{common} of {} in {}", of_source.len(), film.display());
        }
    }
}

/// Every packet has the time that it has in the film, later by the same for all.
fn assert_same_times(film: &Path, stream: &Path, title: &Stored) {
    let (source, made) = (packets(film), packets(stream));
    let media = title.index.tracks.iter().filter(|track| track.track.kind != TrackKind::Subtitle).count();
    let times = |seen: &[Seen], number: usize| -> Vec<f64> {
        seen.iter().filter(|seen| seen.stream == number).map(|seen| seen.pts).collect()
    };
    let zero = times(&made, 0)[0] - times(&source, 0)[0];
    for number in 0..media {
        let (source, made) = (times(&source, number), times(&made, number));
        assert_eq!(source.len(), made.len(), "stream {number} of {}", film.display());
        for (source, made) in source.iter().zip(&made) {
            let off = made - source - zero;
            assert!(off.abs() < 0.0025, "{off} s at {source} of stream {number} of {}", film.display());
        }
    }
}

/// A stream of what a film shows from a time on has it at the same distances as the film. The film
/// that was cut there is no measure: it begins within a picture, and ffmpeg moves the next one to
/// time 0, but not the sound ("to make first pts zero").
fn assert_same_distances(whole: &Path, from_s: f64, stream: &Path) {
    let (source, made) = (packets(whole), packets(stream));
    let times = |seen: &[Seen], number: usize| -> Vec<f64> {
        let mut times: Vec<f64> =
            seen.iter().filter(|seen| seen.stream == number).map(|seen| seen.pts).collect();
        times.sort_by(|one, two| two.total_cmp(one));
        times
    };
    let zero = times(&made, 0)[0] - times(&source, 0)[0];
    for number in 0..2 {
        let (mut source, made) = (times(&source, number), times(&made, number));
        source.retain(|pts| *pts >= from_s);
        assert!(source.len() > 100 && made.len() > source.len(), "{} of {}", source.len(), made.len());
        for (source, made) in source.iter().zip(&made) {
            let off = made - source - zero;
            assert!(off.abs() < 0.0025, "{off} s at {source} of stream {number}");
        }
    }
}

/// The demuxer of this crate reads the samples that are stored.
fn assert_read_back(stream: &[u8], film: &Path) {
    let mut source = open(Box::new(Memory(std::fs::read(film).unwrap()))).unwrap();
    let mut back = open(Box::new(Memory(stream.to_vec()))).unwrap();
    let of_source = source.tracks().to_vec();
    let of_back = back.tracks().to_vec();
    let media = || of_source.iter().enumerate().filter(|(_, track)| track.kind != TrackKind::Subtitle);
    assert_eq!(of_back.len(), media().count());
    let (source, back) = (drain(source.as_mut()).unwrap(), drain(back.as_mut()).unwrap());
    for ((number, track), (place, read)) in media().zip(of_back.iter().enumerate()) {
        assert_eq!((track.codec, &track.language), (read.codec, &read.language));
        let (source, back) = (of_track(&source, number), of_track(&back, place));
        assert_eq!(source.len(), back.len(), "{:?}", track.codec);
        for (one, two) in source.iter().zip(&back) {
            assert_eq!(one.packet.sample.sync, two.packet.sample.sync);
            if track.kind == TrackKind::Audio {
                assert!(one.data == two.data);
            }
        }
    }
}

fn check(film_dir: &FilmDir, film: &Path, warnings: &[&str]) -> Vec<u8> {
    let title = store(film);
    let (made, _) = made(&title);
    assert_eq!(made.warnings.len(), warnings.len(), "{:?}", made.warnings);
    for (said, wanted) in made.warnings.iter().zip(warnings) {
        assert!(said.contains(wanted), "{said}");
    }
    let stream = film_dir.write("made.ts", &made.stream);
    assert_decodes_the_same(film, &stream, &title);
    assert_same_times(film, &stream, &title);
    made.stream
}

#[test]
fn usual_films() {
    let film_dir = FilmDir::new();
    let h264 = "-c:v libx264 -preset veryfast -bf 3 -g 50 -metadata:s:a:0 language=deu";
    let hevc =
        "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50 -metadata:s:a:0 language=fra";
    for (name, codecs) in [
        ("a.mp4", format!("{h264} -c:a aac")),
        ("b.mkv", format!("{hevc} -c:a ac3")),
        ("c.mp4", format!("{hevc} -c:a eac3 -tag:v hvc1")),
        ("d.mkv", format!("{h264} -c:a libmp3lame")),
        ("e.mp4", format!("{h264} -c:a libmp3lame -ar 22050")),
        ("f.mp4", format!("{h264} -c:a aac -ac 6 -ar 44100")),
        ("g.ts", format!("{h264} -c:a aac")),
    ] {
        let film = film_dir.make(name, &[picture("25", 7), tone(440, 48_000, 7), words(&codecs)]);
        let stream = check(&film_dir, &film, &[]);
        assert_read_back(&stream, &film);
    }
}

#[test]
fn opus_is_read_by_ffmpeg() {
    let film_dir = FilmDir::new();
    let codecs = "-c:v libx264 -preset ultrafast -g 25 -c:a libopus";
    let film = film_dir.make("a.mkv", &[picture("25", 4), tone(440, 48_000, 4), words(codecs)]);
    check(&film_dir, &film, &[]);
}

#[test]
fn sound_alone_and_several_sounds() {
    let film_dir = FilmDir::new();
    for codec in ["aac -b:a 64k", "ac3", "eac3 -b:a 640k", "libmp3lame"] {
        let film = film_dir.make("a.mp4", &[tone(440, 48_000, 6), words(&format!("-c:a {codec}"))]);
        let stream = check(&film_dir, &film, &[]);
        assert_read_back(&stream, &film);
    }
    let inputs = [picture("25", 6), tone(440, 48_000, 6), tone(600, 48_000, 6), tone(800, 44_100, 6)];
    let codecs = "-map 0 -map 1 -map 2 -map 3 -c:v libx264 -preset veryfast -g 25 -c:a:0 ac3 -c:a:1 aac -c:a:2 aac \
                  -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu -metadata:s:a:2 language=fra";
    let film = film_dir.make("b.mkv", &[&inputs[..], &[words(codecs)]].concat());
    let stream = check(&film_dir, &film, &[]);
    assert_read_back(&stream, &film);
}

#[test]
fn other_rates_of_pictures() {
    let film_dir = FilmDir::new();
    for (rate, codecs) in [
        ("60000/1001", "-c:v libx264 -preset veryfast -bf 2 -g 120 -c:a aac"),
        ("24000/1001", "-c:v libx264 -preset veryfast -bf 2 -c:a aac"),
        ("5", "-c:v libx264 -preset ultrafast -g 10 -c:a aac"),
        ("25", "-c:v libx264 -preset ultrafast -g 1 -c:a aac"),
    ] {
        let film = film_dir.make("a.mp4", &[picture(rate, 5), tone(440, 48_000, 5), words(codecs)]);
        check(&film_dir, &film, &[]);
    }
}

#[test]
fn what_cannot_be_carried_is_refused_or_left_out() {
    let film_dir = FilmDir::new();
    for (codecs, name) in [
        ("-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25 -c:a aac", "VP9"),
        ("-c:v libsvtav1 -preset 12 -g 25 -c:a aac", "AV1"),
    ] {
        let film = film_dir.make("a.mp4", &[picture("25", 2), tone(440, 48_000, 2), words(codecs)]);
        let title = store(&film);
        let tracks: Vec<_> = title.index.tracks.iter().map(|track| track.track.clone()).collect();
        for error in [multiplex(&title).err(), check_carried(&tracks).err()] {
            let error = error.unwrap().to_string();
            assert!(error.contains(&format!("cannot carry {name}")), "{error}");
        }
    }
    let film = film_dir.make("b.mkv", &[tone(440, 48_000, 2), words("-c:a flac")]);
    let error = multiplex(&store(&film)).err().unwrap().to_string();
    assert!(error.contains("FLAC"), "{error}");
    let codecs = "-map 0 -map 1 -map 1 -c:v libx264 -preset ultrafast -g 25 -c:a:0 aac -c:a:1 flac";
    let film = film_dir.make("c.mkv", &[picture("25", 4), tone(440, 48_000, 4), words(codecs)]);
    let (made, _) = made(&store(&film));
    assert_eq!(made.warnings.len(), 1, "{:?}", made.warnings);
    assert!(made.warnings[0].contains("FLAC"), "{:?}", made.warnings);
}

#[test]
fn pictures_that_are_not_shown_are_sent() {
    let film_dir = FilmDir::new();
    let codecs = "-c:v libx264 -preset veryfast -bf 2 -g 50 -c:a aac";
    let whole = film_dir.make("a.mp4", &[picture("25", 8), tone(440, 48_000, 8), words(codecs)]);
    let cut = words(&format!("-ss 3.3 -i {} -c copy", whole.display()));
    let film = film_dir.make("b.mp4", &[cut]);
    let title = store(&film);
    let (made, _) = made(&title);
    let stream = film_dir.write("made.ts", &made.stream);
    let (source, made) = (frame_sums(&film, None, "0:v"), frame_sums(&stream, None, "0:v"));
    assert!(made.len() > source.len() && made.ends_with(&source), "{} of {}", source.len(), made.len());
    assert_same_distances(&whole, 3.3, &stream);
}

#[test]
fn changes_of_configuration_are_kept() {
    let film_dir = FilmDir::new();
    let codecs = "-c:v libx264 -preset veryfast -threads 1 -bf 2 -g 25 -c:a aac -aac_pns 0";
    let mut bytes = Vec::new();
    let mut due = Vec::new();
    for (number, more) in ["-ac 2", "-ac 6 -s 160x90", "-ac 2"].into_iter().enumerate() {
        let placed = format!("{codecs} {more} -output_ts_offset {:.2}", number as f64 * 3.08);
        let part = film_dir.make("part.ts", &[picture("25", 3), tone(440, 48_000, 3), words(&placed)]);
        bytes.extend(std::fs::read(&part).unwrap());
        due.push(packets(&part).iter().filter(|seen| seen.stream == 0).count());
    }
    let film = film_dir.write("joined.ts", &bytes);
    let title = store(&film);
    assert_eq!(title.index.tracks.iter().map(|track| track.changes.len()).collect::<Vec<_>>(), [2, 2]);
    let (made, _) = made(&title);
    let back = store(&film_dir.write("made.ts", &made.stream));
    for (one, two) in title.index.tracks.iter().zip(&back.index.tracks) {
        assert_eq!((one.samples, one.changes.len()), (two.samples, two.changes.len()));
        assert_eq!(one.track.config, two.track.config);
        for (one, two) in one.changes.iter().zip(&two.changes) {
            assert_eq!(one.config, two.config);
        }
    }
    assert_eq!(title.index.tracks[0].samples, due.iter().sum::<usize>() as u64);
}
