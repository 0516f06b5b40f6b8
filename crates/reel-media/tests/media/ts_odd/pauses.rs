//! Pauses of more than ten seconds: a transport stream keeps them as other containers do.

use super::*;

/// Seconds from the beginning of the film.
struct Times {
    pictures: Vec<f64>,
    sound: Vec<f64>,
}

impl Times {
    fn of(bytes: &[u8], what: &str) -> Self {
        let played = Played::of(bytes);
        assert!(!played.warns_of("clock"), "{what}: {:?}", played.warnings);
        let times = |kind| -> Vec<f64> {
            let Some(track) = played.tracks.iter().position(|track| track.kind == kind) else {
                return Vec::new();
            };
            let scale = f64::from(played.tracks[track].timescale);
            let samples = of_track(&played.taken, track);
            samples.iter().map(|taken| taken.packet.sample.pts as f64 / scale).collect()
        };
        let mut pictures = times(TrackKind::Video);
        pictures.sort_by(f64::total_cmp);
        assert!(pictures.windows(2).all(|pair| pair[1] - pair[0] > 0.02), "two pictures at one time");
        let sound = times(TrackKind::Audio);
        let zero = pictures.iter().chain(&sound).copied().fold(f64::MAX, f64::min);
        let from_zero = |times: Vec<f64>| times.into_iter().map(|time| time - zero).collect();
        Self { pictures: from_zero(pictures), sound: from_zero(sound) }
    }

    /// Each picture and each frame of sound is shown at the time of the other one, within a frame.
    fn assert_like(&self, other: &Self, what: &str) {
        for (own, other) in [(&self.pictures, &other.pictures), (&self.sound, &other.sound)] {
            assert_eq!(own.len(), other.len(), "{what}");
            let apart = own.iter().zip(other).find(|(own, other)| (*own - *other).abs() > 0.041);
            assert_eq!(apart, None, "{what}");
        }
    }
}

/// Makes a film with ffmpeg and copies it into a transport stream: both.
fn both(film_dir: &FilmDir, arguments: &str) -> [Vec<u8>; 2] {
    let film = film_dir.make("film.mkv", &[words(arguments)]);
    let input = ["-i".to_owned(), film.to_string_lossy().into_owned()].to_vec();
    let stream = film_dir.make("film.ts", &[input, words("-map 0 -c copy")]);
    [film, stream].map(|path| std::fs::read(path).unwrap())
}

const PICTURES: &str = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=8";
const SOUND: &str = "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=8";

/// Filters that put `seconds` of pause before each of some whole seconds of the film.
fn paused(at: &[u32], seconds: u32) -> [String; 2] {
    let sum = |time: &dyn Fn(u32) -> String| {
        at.iter().map(|at| format!("+{seconds}/TB*gte({})", time(*at))).collect::<String>()
    };
    let pictures = sum(&|at| format!("N,{}", at * 25));
    let sound = sum(&|at| format!("T,{at}"));
    [format!("-vf setpts='PTS{pictures}' -fps_mode passthrough"), format!("-af asetpts='PTS{sound}'")]
}

fn assert_kept(arguments: &str) {
    let film_dir = FilmDir::new();
    let [film, stream] = both(&film_dir, arguments);
    Times::of(&stream, arguments).assert_like(&Times::of(&film, arguments), arguments);
}

#[test]
fn pauses_are_kept() {
    let h264 = |b_frames: u32| format!("-c:v libx264 -preset veryfast -g 50 -bf {b_frames}");
    for seconds in [11, 30, 600] {
        for b_frames in [0, 2] {
            let ([pictures, sound], video) = (paused(&[4], seconds), h264(b_frames));
            assert_kept(&format!("{PICTURES} {SOUND} {pictures} {sound} {video} -c:a aac"));
            assert_kept(&format!("{PICTURES} {pictures} {video}"));
            // Pictures alone pause.
            assert_kept(&format!("{PICTURES} {SOUND} {pictures} {video} -c:a aac"));
        }
        assert_kept(&format!("{SOUND} {} -c:a aac", paused(&[4], seconds)[1]));
    }
}

#[test]
fn pauses_of_other_codecs_and_at_other_places_are_kept() {
    let hevc = "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50:bframes=3";
    let h264 = "-c:v libx264 -preset veryfast -g 50 -bf 2";
    let [pictures, sound] = paused(&[4], 20);
    for (video, audio) in [(hevc, "ac3"), (hevc, "eac3"), (h264, "libmp3lame"), (h264, "ac3")] {
        assert_kept(&format!("{PICTURES} {SOUND} {pictures} {sound} {video} -c:a {audio}"));
    }
    // Near the beginning, near the end, and several in one film.
    for at in [&[1][..], &[7], &[2, 5], &[1, 2, 7]] {
        let [pictures, sound] = paused(at, 20);
        assert_kept(&format!("{PICTURES} {SOUND} {pictures} {sound} {h264} -c:a aac"));
    }
}

#[test]
fn pictures_that_come_late_are_kept() {
    const LONG_SOUND: &str = "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=30";
    let hevc = "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50:bframes=3";
    // After the first picture, around one in the middle, before the last one, and between all.
    for pauses in ["20/TB*gte(N,1)", "11/TB*gte(N,50)+11/TB*gte(N,51)", "21/TB*gte(N,199)", "11/TB*N"] {
        let shown = format!("-vf setpts='PTS+{pauses}' -fps_mode passthrough -g 50");
        for b_frames in [0, 2] {
            let codecs = format!("-c:v libx264 -preset veryfast -bf {b_frames} -c:a aac");
            assert_kept(&format!("{PICTURES} {LONG_SOUND} {shown} {codecs}"));
        }
        assert_kept(&format!("{PICTURES} {LONG_SOUND} {shown} {hevc} -c:a ac3"));
        assert_kept(&format!("{PICTURES} {shown} -c:v libx264 -preset veryfast -bf 2"));
    }
}

#[test]
fn a_joint_after_a_still_keeps_sound_and_picture_in_step() {
    let film_dir = FilmDir::new();
    let still = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=0.04";
    let sound = "-f lavfi -i sine=frequency=660:sample_rate=48000:duration=15";
    let codecs = "-c:v libx264 -preset veryfast -bf 2 -g 50 -c:a aac";
    let first = film_dir.make("a.ts", &[words(&format!("{still} {sound} {codecs}"))]);
    let second = make(&film_dir, "b.ts", 4, &format!("{codecs} -output_ts_offset 500"));
    let joined = [std::fs::read(first).unwrap(), second.clone()].concat();
    let (played, plain) = (Played::of(&joined), Played::of(&second));
    let (pictures, sound) = (played.pictures(), played.sound());
    assert_eq!(pictures.len(), 101);
    let first_picture = pictures[1].packet.sample.pts as f64 / 90_000.0;
    assert!((14.8..15.3).contains(&first_picture), "{first_picture}");
    let frame = &plain.sound()[100];
    let heard = sound.iter().find(|other| other.data == frame.data).expect("the frame");
    let later = (heard.packet.sample.pts - frame.packet.sample.pts) as f64 / 48_000.0;
    let shown_later = first_picture - plain.pictures()[0].packet.sample.pts as f64 / 90_000.0;
    assert!((later - shown_later).abs() < 0.041, "{later} {shown_later}");
}

/// The clock reference of a packet, in seconds.
fn clock(packet: &[u8]) -> Option<u32> {
    let has_clock = packet[3] & 0x20 != 0 && packet[4] >= 7 && packet[5] & 0x10 != 0;
    has_clock.then(|| u32::from_be_bytes(packet[6..10].try_into().unwrap()) / 45_000)
}

/// A packet that has nothing but a clock reference.
fn clock_alone(second: u32) -> Vec<u8> {
    let mut packet = vec![0x47, 1, 0, 0x20, 183, 0x10];
    packet.extend((second * 45_000).to_be_bytes());
    packet.extend([0x7e, 0]);
    packet.resize(PACKET, 0xff);
    packet
}

#[test]
fn a_clock_that_runs_on_shows_a_pause_although_packets_are_missing() {
    let film_dir = FilmDir::new();
    let [pictures, sound] = paused(&[4], 20);
    let length = |bytes: &[u8]| {
        let played = Played::of(bytes);
        let shown: Vec<i64> = played.pictures().iter().map(|taken| taken.packet.sample.pts).collect();
        (shown.iter().max().unwrap() - shown.iter().min().unwrap()) / 90_000
    };
    // Of reordered pictures, some that are shown after the pause are decoded before it.
    for (b_frames, without_clock) in [(0, 7), (2, 27)] {
        let codecs = format!("-c:v libx264 -preset veryfast -g 50 -bf {b_frames} -c:a aac");
        let [_, stream] = both(&film_dir, &format!("{PICTURES} {SOUND} {pictures} {sound} {codecs}"));
        let places = packets_of(&stream, PICTURE_PID);
        let clocks: Vec<(usize, u32)> =
            places.iter().filter_map(|at| Some((*at, clock(&stream[*at..])?))).collect();
        let step = clocks.windows(2).find(|pair| pair[1].1 - pair[0].1 > 10).expect("a step");
        // One packet of pictures is lost before it.
        let after = step[1].0;
        let lost = *places.iter().rfind(|at| **at < after).unwrap();
        let before = [&stream[..lost], &stream[lost + PACKET..after]].concat();
        let running: Vec<u8> = (step[0].1 + 1..=step[1].1).flat_map(clock_alone).collect();
        assert_eq!(length(&[&before[..], &running, &stream[after..]].concat()), 27);
        assert_eq!(length(&[&before[..], &stream[after..]].concat()), without_clock, "{b_frames}");
    }
}
