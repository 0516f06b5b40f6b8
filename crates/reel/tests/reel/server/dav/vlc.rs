//! A film as VLC plays it by WebDAV.

use super::url;
use crate::server::rig::Rig;
use crate::server::vlc::play;

#[test]
fn vlc_plays_to_the_end() {
    let rig = Rig::new(|_| {});
    let Some(played) = play(&format!("{}play/film.mp4", url(&rig))) else {
        return println!("skipped: VLC is not installed");
    };
    let said = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success() && said.contains("end of playlist"), "{said}");
    for part in ["access", "stream", "demux", "decoder"] {
        assert!(!said.contains(&format!("{part} error")), "{said}");
    }
}
