//! Several files as renditions of one title.

use crate::foreign::frames::assert_same_pictures;
use crate::foreign::rig::{cache_dir, outcome, reel, run, start};
use std::path::{Path, PathBuf};
use std::process::Command;

fn rendition(dir: &Path, height: u32, gop: u32) -> PathBuf {
    let path = dir.join(format!("{height}-{gop}.mp4"));
    run(Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25"])
        .args([
            "-f",
            "lavfi",
            "-i",
            "sine",
            "-t",
            "10",
            "-vf",
            &format!("scale=-2:{height}"),
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-g",
            &gop.to_string(),
            "-keyint_min",
            &gop.to_string(),
            "-sc_threshold",
            "0",
            "-c:a",
            "aac",
        ])
        .arg(&path));
    path
}

#[test]
fn aligned_renditions_become_one_title() {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let files = [360, 240, 120].map(|height| rendition(dir.path(), height, 50));
    let volume = crate::foreign::rig::volume(dir.path(), &[]);
    run(reel().arg("ingest").arg(&volume).args(["--title", "A ladder"]).args(&files));
    let server = start(&volume, &[]);
    let url = format!("{}/watch/a-ladder/master.m3u8", server.url);
    let master = crate::foreign::curl::get(&url);
    for height in [360, 240, 120] {
        assert!(master.contains(&format!("x{height}")), "{master}");
    }
    assert_eq!(master.matches("#EXT-X-STREAM-INF").count(), 3, "{master}");
    // ffmpeg numbers the variants in the order of the playlist; each must be the file that it was
    // made from.
    let base = crate::foreign::curl::effective_url(&url);
    let base = base.rsplit_once('/').unwrap().0;
    let mut heights = Vec::new();
    let mut lines = master.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#EXT-X-STREAM-INF") {
            let height: u32 = line
                .split("RESOLUTION=")
                .nth(1)
                .unwrap()
                .split([',', 'x'])
                .nth(1)
                .unwrap()
                .trim()
                .parse()
                .unwrap();
            let playlist = format!("{base}/{}", lines.next().unwrap());
            let source = files[[360, 240, 120].iter().position(|of| *of == height).unwrap()]
                .to_string_lossy()
                .into_owned();
            assert_same_pictures(&source, &playlist, &format!("the rendition of {height} lines"));
            heights.push((height, crate::foreign::curl::get(&playlist)));
        }
    }
    // Switching is seamless only if every rendition is cut at the same times.
    let cuts = |playlist: &str| {
        playlist.lines().filter(|line| line.starts_with("#EXTINF")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(heights.iter().all(|(_, playlist)| cuts(playlist) == cuts(&heights[0].1)));
    let manifest = crate::foreign::curl::get(&format!("{}/watch/a-ladder/manifest.mpd", server.url));
    assert_eq!(
        manifest.matches("<Representation").count(),
        4,
        "three video tracks and one audio track: {manifest}"
    );
}

#[test]
fn files_that_are_not_aligned_are_refused_with_the_reason() {
    let dir = tempfile::tempdir_in(cache_dir()).unwrap();
    let volume = crate::foreign::rig::volume(dir.path(), &[]);
    let files = [rendition(dir.path(), 360, 50), rendition(dir.path(), 240, 70)];
    let refused = outcome(reel().arg("ingest").arg(&volume).args(["--title", "A ladder"]).args(&files));
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("keyint") || said.contains("key frame"), "{said}");
    let titles = run(reel().arg("titles").arg(&volume));
    assert!(!titles.contains("ladder"), "{titles}");
}
