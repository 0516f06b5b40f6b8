//! Shares of classes that shells write.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use reel_testkit::run_in_own_mounts;
use rustix::io::Errno;
use rustix::process::Signal;

use super::rig::{Mount, serving};

#[test]
fn three_shells_change_the_shares_of_classes() {
    run_in_own_mounts("cli::mounting::shares::three_shells");
}

#[test]
fn a_share_that_the_server_refuses_changes_nothing_and_has_its_number() {
    run_in_own_mounts("cli::mounting::shares::refusals");
}

/// What a script prints that changes shares and sets them back.
const SCRIPT: &str = r#"
set -u
cd classes
echo 600 > periodic/share && cat periodic/share interactive/share aperiodic/share
printf 200 > interactive/share && cat periodic/share interactive/share aperiodic/share
share=$(cat aperiodic/share); echo "$share" > aperiodic/share && echo same
(echo 300 > aperiodic/share) 2>/dev/null || echo refused
(echo 900 > periodic/share) 2>/dev/null || echo refused
(echo 0 > interactive/share) 2>/dev/null || echo refused
(echo much > periodic/share) 2>/dev/null || echo refused
(echo periodic > periodic/kind) 2>/dev/null || echo kept
(echo 100 > gold/share) 2>/dev/null || echo none
(chmod 600 periodic/share) 2>/dev/null || echo kept
cat periodic/share interactive/share aperiodic/share
echo 700 > periodic/share; echo 150 >> interactive/share; cat */share
"#;

const SAID: &str = "\
600
150
250
600
200
200
same
refused
refused
refused
refused
kept
none
kept
600
200
200
150
150
700
";

#[test]
#[ignore = "child of three_shells_change_the_shares_of_classes, with mounts of its own"]
fn three_shells() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    mount.assert_three_shells_say(SCRIPT, SAID);
    // It is the server's table that was changed, and no share of the network.
    fs::write(mount.path().join("classes/periodic/share"), "500\n").unwrap();
    let classes: serde_json::Value = serde_json::from_str(&server.text("/api/v1/classes")).unwrap();
    let shares = |field: &str| classes.as_array().unwrap().iter().map(|class| class[field].clone()).collect();
    let (disk, network): (Vec<_>, Vec<_>) = (shares("share_permille"), shares("network_permille"));
    assert_eq!(disk, [500, 150, 350]);
    assert_eq!(network, [850, 75, 75]);
}

#[test]
#[ignore = "child of a_share_that_the_server_refuses_changes_nothing_and_has_its_number, with mounts of its own"]
fn refusals() {
    let (dir, server) = serving();
    let mount = Mount::of(&dir, &server);
    let share = mount.path().join("classes/periodic/share");
    assert_eq!(fs::metadata(&share).unwrap().permissions().mode() & 0o777, 0o644);
    let errno = |text: &[u8]| fs::write(&share, text).map_err(|error| error.raw_os_error());
    for text in [
        &b"1000"[..],
        b"850\n",
        b"0",
        b"4294967295",
        b"4294967296",
        b"-1",
        b"6 0",
        b"600\n150\n",
        b"\0",
        &[b'6'; 5000],
    ] {
        assert_eq!(errno(text), Err(Some(Errno::INVAL.raw_os_error())), "{text:?}");
    }
    // Each write is a share, wherever it begins in the file.
    let mut open = fs::OpenOptions::new().read(true).write(true).open(&share).unwrap();
    for text in ["600\n", "650\n"] {
        open.write_all(text.as_bytes()).unwrap();
        assert_eq!(mount.text("classes/periodic/share").unwrap(), text);
    }
    drop(open);
    let before = server.text("/api/v1/classes");
    assert_eq!(errno(b"849\n"), Ok(()));
    assert_eq!(errno(b"650\n"), Ok(()));
    assert_eq!(server.text("/api/v1/classes"), before);
    let said = mount.signal(Signal::TERM).done();
    for part in ["periodic/share", "`aperiodic` has a share of 0", "is no share"] {
        assert!(said.stderr.contains(part), "no {part:?} in {}", said.stderr);
    }
}
