//! Titles in a directory of this machine, which davfs2 mounts.

use super::{everything, url};
use crate::server::rig::Rig;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// To mount, to read a film and to unmount takes some seconds.
const WAIT_MAX: Duration = Duration::from_secs(100);

/// Mounts, reads, tries to write, and unmounts. The configuration and the cache of davfs2 are its
/// own. Names are looked up: davfs2 1.6 answers kernel 6.18 wrongly when it lists a directory.
const SCRIPT: &str = r#"
set -eu
mount --bind "$2/davfs2.conf" /etc/davfs2/davfs2.conf
mount --bind "$2/cache" /var/cache/davfs2
mount.davfs "$1" "$2/mounted"
trap 'umount "$2/mounted"' EXIT
cd "$2"
stat --format '%n %s' mounted/play/film.mp4 mounted/copy/film.mp4 >sizes
cp mounted/copy/film.mp4 copied.mp4
cp mounted/play/film.mp4 played.mp4
# It does writes later, and tells no program that the server refused them.
cp copied.mp4 mounted/copy/new.mp4 || true
mkdir mounted/new || true
rm mounted/play/film.mp4 || true
"#;

/// Why this machine cannot do it.
fn obstacle() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return Some("to mount, root and /dev/fuse are needed");
    }
    if !Path::new("/usr/sbin/mount.davfs").exists() {
        return Some("davfs2 is not installed");
    }
    let unshared = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).output();
    let can_unshare = unshared.is_ok_and(|output| output.status.success());
    (!can_unshare).then_some("no process may have mounts of its own here")
}

/// Runs the script where all mounts and processes end with it. `None` if it was ended because it
/// took too long.
fn run(url: &str, directory: &Path) -> Option<ExitStatus> {
    let mut child = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", SCRIPT, "sh", url])
        .arg(directory)
        .stdin(Stdio::null())
        .spawn()
        .expect("it runs");
    let from = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status);
        }
        if from.elapsed() > WAIT_MAX {
            child.kill().expect("it can be ended");
            child.wait().expect("it ended");
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn davfs2_mounts_titles_that_can_be_read_and_not_written() {
    if let Some(obstacle) = obstacle() {
        return println!("skipped: {obstacle}");
    }
    let rig = Rig::new(|_| {});
    let before = everything(&rig);
    let directory = rig.path("davfs2");
    for name in ["", "mounted", "cache"] {
        std::fs::create_dir(directory.join(name)).expect("created");
    }
    let config =
        "dav_user root\nask_auth 0\nuse_locks 0\ndelay_upload 0\nread_timeout 30\nretry 5\nmax_retry 10\n";
    std::fs::write(directory.join("davfs2.conf"), config).expect("written");
    let status = run(&url(&rig), &directory).expect("it ends");
    assert!(status.success(), "{status}");
    let bytes = rig.film.len();
    let sizes = std::fs::read_to_string(directory.join("sizes")).expect("written");
    assert_eq!(sizes, format!("mounted/play/film.mp4 {bytes}\nmounted/copy/film.mp4 {bytes}\n"));
    for name in ["copied.mp4", "played.mp4"] {
        assert!(std::fs::read(directory.join(name)).expect("written") == rig.film, "{name}");
    }
    assert!(everything(&rig) == before);
}
