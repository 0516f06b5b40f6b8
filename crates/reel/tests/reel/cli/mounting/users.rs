//! Who sees the tree.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reel_testkit::run_in_own_mounts;
use rustix::process::Signal;

use super::rig::{Mount, arguments, is_installed, is_mounted, run, serving};
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;

#[test]
fn others_see_a_tree_only_if_that_is_asked_for() {
    run_in_own_mounts("cli::mounting::users::others");
}

#[test]
fn a_stream_is_for_the_user_who_made_it() {
    run_in_own_mounts("cli::mounting::users::streams");
}

#[test]
fn a_user_mounts_with_fusermount3() {
    run_in_own_mounts("cli::mounting::users::a_user");
}

/// Whether another user can list a directory.
fn others_can_list(path: &Path) -> bool {
    let listed = as_a_user().arg("ls").arg(path).output().unwrap();
    listed.status.success()
}

/// Lets all users enter the directory of a test.
fn open_to_all(dir: &TestDir) {
    fs::set_permissions(dir.path(""), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[ignore = "child of others_see_a_tree_only_if_that_is_asked_for, with mounts of its own"]
fn others() {
    let (dir, server) = serving();
    open_to_all(&dir);
    let mount = Mount::of(&dir, &server);
    let path = mount.path().to_owned();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!others_can_list(&path));
    mount.signal(Signal::TERM).done();
    let arguments = arguments(&server);
    let mut command = dir.command(&arguments.each_ref().map(String::as_str));
    command.arg("--allow-other");
    let mount = Mount::launch(command, path.clone());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(others_can_list(&path) && others_can_list(&path.join("titles/der-film")));
    mount.signal(Signal::TERM).done();
}

/// A process of the user in a mounted tree, which ends with its input.
fn in_the_tree(path: &Path) -> Child {
    let mut command = as_a_user();
    command.args(["sh", "-c", "cd \"$0/titles\" && echo there && exec cat"]).arg(path);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut there = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut there).unwrap();
    assert_eq!(there, "there\n");
    child
}

/// A command of a user who is not root, to be continued.
fn as_a_user() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
    command
}

/// `reel mount tree` by a user who is not root.
fn by_a_user(dir: &TestDir, server: &Running) -> Command {
    let reel = dir.command(&[]);
    let mut command = as_a_user();
    command.arg(reel.get_program()).args(arguments(server));
    command.current_dir(dir.path(""));
    command
}

#[test]
#[ignore = "child of a_user_mounts_with_fusermount3, with mounts of its own"]
fn a_user() {
    if !is_installed("fusermount3") || !is_installed("setpriv") {
        return;
    }
    let (dir, server) = serving();
    open_to_all(&dir);
    let path = dir.path("tree");
    fs::create_dir(&path).unwrap();
    run("chown", &["nobody", path.to_str().unwrap()]);
    // The mode that it has where systemd runs. Only this name space sees it.
    run("mount", &["-t", "tmpfs", "tmpfs", "/mnt"]);
    run("mknod", &["-m", "600", "/mnt/fuse", "c", "10", "229"]);
    run("mount", &["--bind", "/mnt/fuse", "/dev/fuse"]);
    let refused = |command: &mut Command, words: &[&str]| {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        words.iter().for_each(|word| assert!(said.contains(word), "no {word:?} in {said}"));
    };
    refused(&mut by_a_user(&dir, &server), &["may not open /dev/fuse", "chmod 0666"]);
    run("chmod", &["666", "/dev/fuse"]);
    let without = &mut by_a_user(&dir, &server);
    refused(
        without.env("FUSERMOUNT_PATH", "/none/fusermount3"),
        &["fusermount3, ", "install the package fuse3"],
    );
    if !fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|text| text.lines().any(|line| line == "user_allow_other"))
    {
        let for_others = &mut by_a_user(&dir, &server);
        refused(for_others.arg("--allow-other"), &["may not mount for others", "user_allow_other"]);
    }
    assert!(!is_mounted(&path));
    for signal in [Signal::TERM, Signal::INT] {
        let mount = Mount::launch(by_a_user(&dir, &server), path.clone());
        assert!(is_mounted(&path) && others_can_list(&path.join("titles")));
        assert!(fs::read_dir(&path).is_err(), "not even root");
        let mut inside = in_the_tree(&path);
        mount.signal(signal).done();
        assert!(!is_mounted(&path));
        drop(inside.stdin.take());
        inside.wait().unwrap();
    }
}

#[test]
#[ignore = "child of a_stream_is_for_the_user_who_made_it, with mounts of its own"]
fn streams() {
    if !is_installed("setpriv") {
        return;
    }
    let (dir, server) = serving();
    open_to_all(&dir);
    let mut command = dir.command(&arguments(&server).each_ref().map(String::as_str));
    fs::create_dir(dir.path("tree")).unwrap();
    command.arg("--allow-other");
    let mount = Mount::launch(command, dir.path("tree"));
    let run_as = |user: &str, script: &str| {
        let reuid = format!("--reuid={user}");
        let arguments = [&reuid, "--regid=nogroup", "--clear-groups", "sh", "-c", script];
        let output =
            Command::new("setpriv").args(arguments).current_dir(mount.path()).env("LC_ALL", "C").output();
        let output = output.unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let own = "echo der-film > streams/$(cat streams/clone)/title && cat streams/1/title && stat -c %a:%u streams/1";
    assert_eq!(run_as("65534", own), (true, "der-film\n700:65534\n".to_owned()));
    for script in ["cat streams/1/title", "cat streams/1/data", "echo x > streams/1/title", "ls streams/1"] {
        let (is_done, said) = run_as("1", script);
        assert!(!is_done && said.contains("Permission denied"), "{script}: {said}");
    }
    // What others cannot write was never for writing. Shares are for who has mounted, and for root.
    for file in ["kind", "share"] {
        let (is_done, said) = run_as("1", &format!("echo 500 > classes/periodic/{file}"));
        assert!(!is_done && said.contains("Permission denied"), "{file}: {said}");
    }
    let share = "stat -c %a:%u classes/periodic/share classes/periodic/kind; cat classes/periodic/share";
    assert_eq!(run_as("1", share), (true, "644:0\n444:0\n700\n".to_owned()));
    let number = run_as("1", "cat streams/clone");
    assert_eq!(number, (true, "2\n".to_owned()), "each user has streams");
}
