//! What cannot be mounted, and what to do about it.

use std::fs;

use reel_testkit::{free_address, run_in_own_mounts};

use super::rig::{Mount, arguments, run, serving};
use crate::cli::rig::TestDir;

#[test]
fn what_cannot_be_mounted_is_refused_with_what_to_do() {
    let dir = TestDir::new();
    fs::create_dir_all(dir.path("full/inside")).unwrap();
    fs::create_dir(dir.path("tree")).unwrap();
    fs::write(dir.path("file"), "").unwrap();
    dir.reel(&["mount", "none"])
        .refused(3, &["none does not exist", "help: make the directory first: mkdir none"]);
    dir.reel(&["mount", "file"]).refused(2, &["file is no directory", "help: name an empty one"]);
    dir.reel(&["mount", "full"]).refused(2, &["full is not empty", "help: name an empty directory"]);
    dir.reel(&["mount", "/proc"]).refused(2, &["/proc is a mount point already", "fusermount3 -u /proc"]);
    dir.reel(&["mount", "tree", "--of", "https://127.0.0.1"])
        .refused(2, &["speaks HTTP without TLS", "help: "]);
    let nowhere = free_address().to_string();
    dir.reel(&["mount", "tree", "--of", &nowhere]).refused(
        1,
        &[&format!("cannot mount http://{nowhere}"), "refused", "help: start a server (reel serve)"],
    );
    dir.reel(&["mount", "tree", "--rate", "0"]).refused(2, &["the rate must be above zero"]);
}

#[test]
fn machines_without_fuse_are_told_what_is_missing() {
    run_in_own_mounts("cli::mounting::refusals::no_fuse");
}

#[test]
#[ignore = "child of machines_without_fuse_are_told_what_is_missing, with mounts of its own"]
fn no_fuse() {
    let (dir, server) = serving();
    let arguments = arguments(&server);
    let arguments = arguments.each_ref().map(String::as_str);
    let mount = Mount::of(&dir, &server);
    dir.reel(&arguments).refused(2, &["tree is a mount point already", "fusermount3 -u tree"]);
    mount.signal(rustix::process::Signal::TERM).done();
    // This name space alone has no devices but one from here on.
    run("mount", &["-t", "tmpfs", "tmpfs", "/mnt"]);
    run("mknod", &["-m", "666", "/mnt/null", "c", "1", "3"]);
    run("mount", &["--bind", "/mnt", "/dev"]);
    dir.reel(&arguments).refused(1, &["/dev/fuse does not exist", "modprobe fuse"]);
}
