//! However a mount ends, the directory can be used again.

use std::fs;
use std::process::{Command, Stdio};

use reel_testkit::run_in_own_mounts;
use rustix::io::Errno;
use rustix::process::Signal;

use crate::cli::rig::Outcome;

use super::rig::{Mount, arguments, is_mounted, run, serving};

#[test]
fn a_mount_is_unmounted_at_its_end_even_if_it_is_busy() {
    run_in_own_mounts("cli::mounting::endings::signals");
}

#[test]
fn a_mount_that_cannot_say_so_is_unmounted() {
    run_in_own_mounts("cli::mounting::endings::unsaid");
}

#[test]
fn a_mount_ends_when_it_is_unmounted() {
    run_in_own_mounts("cli::mounting::endings::unmounted");
}

#[test]
fn a_mount_whose_program_was_killed_is_named_and_can_be_unmounted() {
    run_in_own_mounts("cli::mounting::endings::killed");
}

#[test]
#[ignore = "child of a_mount_is_unmounted_at_its_end_even_if_it_is_busy, with mounts of its own"]
fn signals() {
    let (dir, server) = serving();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mount = Mount::of(&dir, &server);
        let path = mount.path().to_owned();
        assert!(is_mounted(&path));
        let outcome = mount.signal(signal).done();
        assert_eq!(outcome.stderr, "", "{signal:?}");
        assert!(!is_mounted(&path) && dir.names("tree").is_empty(), "{signal:?}");
    }
    // A file is open, and a process is in it.
    let mount = Mount::of(&dir, &server);
    let path = mount.path().to_owned();
    let _open = fs::File::open(path.join("titles/der-film/name")).unwrap();
    let mut sleeper =
        Command::new("cat").current_dir(path.join("titles")).stdin(Stdio::piped()).spawn().unwrap();
    mount.signal(Signal::TERM).done();
    assert!(!is_mounted(&path) && dir.names("tree").is_empty());
    drop(sleeper.stdin.take());
    sleeper.wait().unwrap();
}

#[test]
#[ignore = "child of a_mount_that_cannot_say_so_is_unmounted, with mounts of its own"]
fn unsaid() {
    let (dir, server) = serving();
    fs::create_dir(dir.path("tree")).unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = dir.command(&arguments(&server).each_ref().map(String::as_str));
    let outcome = Outcome::of(command.stdout(full).output().unwrap());
    outcome.refused(1, &["No space left on device"]);
    assert!(!is_mounted(&dir.path("tree")));
}

#[test]
#[ignore = "child of a_mount_ends_when_it_is_unmounted, with mounts of its own"]
fn unmounted() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    run("umount", &[mount.path().to_str().unwrap()]);
    let outcome = mount.ended().done();
    assert!(outcome.stderr.contains("tree was unmounted"), "{}", outcome.stderr);
}

#[test]
#[ignore = "child of a_mount_whose_program_was_killed_is_named_and_can_be_unmounted, with mounts of its own"]
fn killed() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let path = mount.path().to_owned();
    assert_eq!(mount.signal(Signal::KILL).code, None);
    let gone = fs::read_to_string(path.join("capacity")).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(Errno::NOTCONN.raw_os_error()));
    let again = dir.reel(&arguments(&server).each_ref().map(String::as_str));
    again.refused(
        1,
        &["tree is a mount whose program has ended", "help: unmount it first: fusermount3 -u tree"],
    );
    run("umount", &[path.to_str().unwrap()]);
    assert!(Mount::of(&dir, &server).text("capacity").is_ok());
}
