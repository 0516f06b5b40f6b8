//! Damaged frames of sound in Matroska and MP4.

use crate::film_dir::FilmDir;
use crate::mp4::sources::{Memory, read};

const FILM: &str = "-f lavfi -i testsrc2=size=160x90:rate=25:d=3 -f lavfi -i anoisesrc=sample_rate=48000:d=3:seed=7 -c:v libx264 -preset ultrafast -g 25";

/// The frames of sound of a film, by their order.
fn frames(file: &[u8]) -> Vec<Vec<u8>> {
    read(Memory(file.to_vec())).unwrap().of(1).iter().map(|(_, data)| data.clone()).collect()
}

#[test]
fn damaged_frames_of_sound_are_named() {
    let dir = FilmDir::new();
    for (codec, name, frame_ms) in [
        ("ac3", "ac3", Some(32)),
        ("eac3", "eac3", Some(32)),
        ("libmp3lame -write_xing 0", "mp3", Some(24)),
        ("flac -strict -2", "flac", None),
    ] {
        for extension in ["mkv", "mp4"] {
            let path = dir.make(&format!("{name}.{extension}"), &format!("{FILM} -c:a {codec}"));
            let file = std::fs::read(path).unwrap();
            let whole = read(Memory(file.clone())).unwrap();
            assert!(whole.warnings.is_empty(), "{name}: {:?}", whole.warnings);
            let all = frames(&file);
            let pts: Vec<i64> = whole.of(1).iter().map(|(packet, _)| packet.sample.pts).collect();
            let last = all.len() - 1;
            for damaged in [&[0, 1, 2][..], &[20], &[7, 30], &[last]] {
                let mut bytes = file.clone();
                for frame in damaged {
                    let at = bytes.windows(all[*frame].len()).position(|part| part == all[*frame]).unwrap();
                    bytes[at..at + 2].fill(0);
                }
                let what = format!("{name}.{extension}, {damaged:?}");
                let read = read(Memory(bytes)).unwrap();
                let count = damaged.len();
                let frames = if count == 1 { "one frame".to_owned() } else { format!("{count} frames") };
                let length = frame_ms.map_or(String::new(), |ms| format!(" (0.{:03} s)", ms * count));
                let place = if count == 1 { "at" } else { "the first at" };
                let expected = format!("damaged frames that cannot be heard: {frames}{length}, {place} ");
                let [warning] = &read.warnings[..] else { panic!("{what}: {:?}", read.warnings) };
                let (_, at) = warning.split_once(&expected).unwrap_or_else(|| panic!("{what}: {warning}"));
                let ms = at.trim_start_matches("00:00:0").replace('.', "").parse::<i64>().unwrap();
                assert!((ms - pts[damaged[0]].max(0) / 48).abs() <= 25, "{what}: {warning}");
                assert_eq!(read.of(1).len(), all.len(), "{what}");
            }
        }
    }
}
