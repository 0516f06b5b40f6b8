//! From MP4 to stored objects, decoded by ffmpeg: pictures and times equal those of the source.

use super::files::{H264, PICTURE, TONE, film};
use super::sources::{Memory, Read, read};
use reel_media::TrackKind;
use reel_media::cmaf::{CutPolicy, Packager};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Packages a file; the objects of its tracks.
pub(crate) fn store(read: &Read) -> Vec<(TrackKind, Vec<u8>)> {
    let policy = CutPolicy { fragment_min_ms: 500, ..CutPolicy::default() };
    let mut packager = Packager::new(read.tracks.clone(), policy).expect("valid tracks");
    let mut objects: Vec<_> = read.tracks.iter().map(|track| (track.kind, Vec::new())).collect();
    for (packet, data) in &read.packets {
        packager.push(packet, data).expect("valid samples");
        packager.take().into_iter().for_each(|piece| objects[piece.track].1.extend(piece.bytes));
    }
    let packaged = packager.finish().expect("a whole film");
    packaged.pieces.into_iter().for_each(|piece| objects[piece.track].1.extend(piece.bytes));
    objects
}

/// Milliseconds and checksum of every picture.
pub(crate) fn pictures(path: &Path) -> Vec<(i64, String)> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-copyts", "-i"]).arg(path);
    command.args([
        "-map",
        "0:v",
        "-fps_mode",
        "passthrough",
        "-enc_time_base",
        "1:1000",
        "-f",
        "framemd5",
        "-",
    ]);
    let output =
        command.output().expect("ffmpeg must be installed to run these tests (Debian: apt install ffmpeg)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            (fields[2].parse().expect("a time"), fields[5].to_owned())
        })
        .collect()
}

#[test]
fn pictures_and_their_times() {
    const AAC: &[&str] = &["-c:a", "aac"];
    let whole = film("mp4", &[PICTURE, TONE, H264, AAC]);
    let name = whole.to_str().expect("a plain name");
    let hevc = &["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:keyint=20"];
    let vp9 = &["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "20"];
    let [hevc, vp9] = [film("mp4", &[PICTURE, hevc, &["-tag:v", "hvc1"]]), film("mp4", &[PICTURE, vp9])];
    let (hevc_name, vp9_name) = (hevc.to_str().expect("a plain name"), vp9.to_str().expect("a plain name"));
    let films = [
        whole.clone(),
        film("mp4", &[PICTURE, TONE, H264, AAC, &["-movflags", "+negative_cts_offsets"]]),
        film("mp4", &[PICTURE, TONE, H264, AAC, &["-movflags", "frag_keyframe"]]),
        film(
            "mp4",
            &[PICTURE, TONE, H264, AAC, &["-movflags", "frag_keyframe+empty_moov+default_base_moof"]],
        ),
        film("mov", &[PICTURE, TONE, H264, AAC]),
        // The edit list hides the pictures before the cut.
        film("mp4", &[&["-ss", "0.72", "-i", name, "-c", "copy"]]),
        film("mp4", &[&["-ss", "0.08", "-i", name, "-c", "copy"]]),
        film("mov", &[&["-ss", "0.96", "-i", name, "-c", "copy"]]),
        film("mp4", &[&["-ss", "0.72", "-i", hevc_name, "-c", "copy"]]),
        film("mp4", &[&["-ss", "0.72", "-i", vp9_name, "-c", "copy"]]),
        film("mp4", &[&["-itsoffset", "0.4"], PICTURE, TONE, H264, AAC]),
    ];
    for path in films {
        let read = read(Memory(fs::read(&path).expect("the film was made"))).expect("a valid file");
        let (_, video) =
            store(&read).into_iter().find(|(kind, _)| *kind == TrackKind::Video).expect("pictures");
        let object = tempfile::Builder::new().suffix(".mp4").tempfile().expect("a temporary file");
        fs::write(object.path(), video).expect("a temporary file can be written");
        let (mut stored, mut source) = (pictures(object.path()), pictures(&path));
        // Pictures that only help to decode the first one are replaced within half a millisecond.
        let replaced = stored.windows(2).take_while(|pair| pair[1].0 == pair[0].0).count();
        stored.drain(..replaced);
        assert!(stored.iter().all(|(ms, _)| *ms >= 0), "browsers drop pictures before zero");
        assert!(source.len() > 20, "{}", path.display());
        // The first picture of a late track is shown from the start.
        if source[0].0 > 200 {
            source[0].0 = 0;
        }
        assert_eq!(stored, source, "{}", path.display());
    }
}
