//! VLC as a player without a screen.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// VLC refuses to run as root. This user owns nothing.
const UNPRIVILEGED: u32 = 65534;

/// VLC plays to the end, without a screen and without sound. `None` if it is not here.
pub(crate) fn play(url: &str) -> Option<Output> {
    let mut vlc = Command::new("cvlc");
    vlc.args(["--verbose=1", "--no-color", "--intf=dummy", "--vout=dummy", "--aout=dummy"]);
    vlc.args(["--play-and-exit", url]).env("HOME", "/nonexistent");
    if rustix::process::geteuid().is_root() {
        vlc.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    vlc.output().ok()
}
