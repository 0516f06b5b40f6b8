//! Chromium plays films with odd timelines and odd tracks, with hls.js, dash.js, Shaka, the element
//! alone and the page of Reel: `pictures.test.ts` and `tracks.test.ts` of `web/test/players`
//! against a real server.

use crate::foreign::browser::assert_script_passes;
use crate::foreign::rig::{cache_dir, run, start, volume};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ten bars are the bits of the picture's number, the lowest on the left.
fn bars(first: u32) -> String {
    format!(
        "nullsrc=size=320x180:rate=25,format=yuv420p,\
         geq=lum='16+200*mod(floor((N+{first})/pow(2,floor(X/32))),2)':cb=128:cr=128"
    )
}

/// Makes a film of numbered pictures from `first` on, with a tone.
fn make(path: &Path, first: u32, seconds: u32, options: &str) {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args("-nostdin -loglevel error -y -f lavfi -i".split(' ')).arg(bars(first));
    ffmpeg.args("-f lavfi -i sine=440:sample_rate=48000 -c:v libx264 -preset ultrafast -bf 2".split(' '));
    ffmpeg.args(["-c:a", "aac", "-threads", "1", "-t", &seconds.to_string()]);
    run(ffmpeg.args(options.split(' ')).arg(path));
}

/// A film of one key frame, whose edit list begins later.
fn cut(path: PathBuf, seconds: u32, from_s: u32) -> PathBuf {
    let whole = path.with_extension("whole.mp4");
    make(&whole, 0, seconds, "-g 9999 -keyint_min 9999 -sc_threshold 0");
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-y", "-ss", &from_s.to_string(), "-i"]).arg(whole);
    run(ffmpeg.args(["-c", "copy"]).arg(&path));
    path
}

/// The edit list begins a second after the only key frame.
fn trimmed(dir: &Path) -> PathBuf {
    cut(dir.join("trimmed.mp4"), 8, 1)
}

/// The edit list begins 1250 pictures after the only key frame.
fn far(dir: &Path) -> PathBuf {
    cut(dir.join("far.mp4"), 56, 50)
}

/// The 50th picture stays for three seconds.
fn gap(dir: &Path) -> PathBuf {
    let path = dir.join("gap.mp4");
    let later = "setpts=if(gte(N\\,50)\\,PTS+3/TB\\,PTS)";
    make(&path, 0, 7, &format!("-vf {later} -fps_mode passthrough -g 25"));
    path
}

/// The second part begins half a second before the end of the first one.
fn over(dir: &Path) -> PathBuf {
    let streams = "-g 25 -streamid 0:256 -streamid 1:257 -output_ts_offset";
    let parts = [(0, "0"), (100, "3.5")].map(|(first, offset_s)| {
        let path = dir.join(format!("over-{first}.ts"));
        make(&path, first, 4, &format!("{streams} {offset_s}"));
        fs::read(path).unwrap()
    });
    let path = dir.join("over.ts");
    fs::write(&path, parts.concat()).unwrap();
    path
}

/// Segments of two seconds, whose counters begin again.
fn joined(dir: &Path) -> PathBuf {
    make(&dir.join("s%03d.ts"), 0, 8, "-g 50 -f segment -segment_time 2 -segment_format mpegts");
    let parts = (0..4).map(|number| fs::read(dir.join(format!("s{number:03}.ts"))).unwrap());
    let path = dir.join("joined.ts");
    fs::write(&path, parts.collect::<Vec<_>>().concat()).unwrap();
    path
}

/// Makes a film of numbered pictures and a tone, each for as long as its own options say.
fn make_apart(path: &Path, pictures: &str, sound: &str, options: &str) {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args("-nostdin -loglevel error -y".split(' '));
    ffmpeg.args(pictures.split(' ')).args(["-f", "lavfi", "-i"]).arg(bars(0));
    ffmpeg.args(sound.split(' ')).args("-f lavfi -i sine=440:sample_rate=48000".split(' '));
    ffmpeg.args("-c:v libx264 -preset ultrafast -bf 2 -g 25 -c:a aac -threads 1".split(' '));
    run(ffmpeg.args(options.split(' ')).arg(path));
}

/// The pictures begin after a second, and the sound ends three seconds before them.
fn late(dir: &Path) -> PathBuf {
    let path = dir.join("late.mp4");
    make_apart(&path, "-itsoffset 1 -t 5", "-t 3", "-map 0 -map 1");
    path
}

/// The sound begins after two seconds, and the pictures end forty seconds before it, with a key
/// frame.
fn early(dir: &Path) -> PathBuf {
    let path = dir.join("early.mkv");
    make_apart(&path, "-t 3.04", "-itsoffset 2 -t 41.04", "-map 0 -map 1");
    path
}

/// The 50th picture, before a key frame, stays for thirty seconds.
fn pause(dir: &Path) -> PathBuf {
    let path = dir.join("pause.mp4");
    let later = "-map 0 -map 1 -vf setpts=if(gte(N\\,50)\\,PTS+30/TB\\,PTS) -fps_mode passthrough";
    make_apart(&path, "-t 4", "-t 34", later);
    path
}

/// Its only sound has no name, and it has subtitles and forced subtitles in one language.
fn tracks(dir: &Path) -> PathBuf {
    for name in ["tracks.de.srt", "tracks.de.forced.srt"] {
        fs::write(dir.join(name), "1\n00:00:01,000 --> 00:00:02,000\nHallo\n").unwrap();
    }
    let path = dir.join("tracks.mp4");
    make(&path, 0, 4, "-g 25");
    path
}

#[test]
fn players_list_forced_subtitles_and_the_main_sound() {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let film = tracks(dir.path());
    let server = start(&volume(dir.path(), &[film]), &[]);
    assert_script_passes("test:tracks", &[], &server);
}

/// Fails unless every player shows the right pictures of these films at the right times.
fn assert_pictures_are_right(films: &[fn(&Path) -> PathBuf]) {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let films: Vec<_> = films.iter().map(|make| make(dir.path())).collect();
    let server = start(&volume(dir.path(), &films), &[]);
    assert_script_passes("test:pictures", &[], &server);
}

#[test]
fn players_show_the_right_pictures_of_trimmed_films_and_of_gaps() {
    assert_pictures_are_right(&[trimmed, gap, late]);
}

pub(crate) fn assert_joined_and_far_cut_films_are_right() {
    assert_pictures_are_right(&[over, joined, far]);
}

pub(crate) fn assert_films_that_pause_and_end_early_are_right() {
    assert_pictures_are_right(&[early, pause]);
}
