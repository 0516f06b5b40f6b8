//! A film as VLC plays it by NFS.

use super::{serving, url};
use crate::server::rig::Rig;
use crate::server::vlc::play;
use reel_library::{IngestOptions, Input};
use reel_testkit::free_address;
use reel_volume::GeometryPreset;
use std::process::Command;

/// So long that the reader is known as a player before the film ends. VLC reads the first seven
/// seconds of it within one.
const SECONDS: u32 = 24;

#[test]
fn vlc_plays_to_the_end_and_is_admitted_as_one_reader() {
    let address = free_address();
    let rig = Rig::with_volume(GeometryPreset::Cmaf, 1 << 30, 64 << 20, |config| {
        config.nfs = Some(serving(address));
        config.promise.admission = true;
    });
    let source = rig.path("long.mp4");
    let video = format!("testsrc2=size=640x360:rate=25:duration={SECONDS},noise=alls=60:allf=t");
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", &video, "-f", "lavfi", "-i"])
        .arg(format!("sine=duration={SECONDS}"))
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-qp", "16", "-g", "25", "-pix_fmt", "yuv420p"])
        .arg(&source)
        .status();
    assert!(status.expect("ffmpeg is installed").success());
    let named = IngestOptions { name: Some("long".to_owned()), ..IngestOptions::default() };
    rig.library.ingest(&[Input::new(source)], &named, &mut |_| {}).expect("taken");
    let bytes = rig.library.summary("long").expect("listed").plain_file.as_ref().expect("a file").bytes;
    let Some(played) = play(&url(address, "/play/long.mp4")) else {
        return println!("skipped: VLC is not installed");
    };
    let said = String::from_utf8_lossy(&played.stderr);
    if said.contains("no suitable access module") {
        return println!("skipped: VLC has no access module for NFS");
    }
    assert!(played.status.success() && said.contains("end of playlist"), "{said}");
    assert!(!said.contains("NFS operation failed") && !said.contains("access error"), "{said}");
    assert!(rig.metric("reel_nfs_read_bytes_total") >= bytes as f64 * 0.99, "{said}");
    assert_eq!((rig.metric("reel_sessions"), rig.metric("reel_nfs_admitted_total")), (1.0, 1.0), "{said}");
}
