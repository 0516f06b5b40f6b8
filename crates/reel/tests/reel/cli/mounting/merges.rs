//! Streams of merged titles: the pictures of one with the sound of another.

use std::fs;

use reel_testkit::run_in_own_mounts;

use super::rig::Mount;
use super::streams::await_no_session;
use crate::cli::films::{longer, short};
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;

#[test]
fn three_shells_merge_streams() {
    run_in_own_mounts("cli::mounting::merges::three_shells");
}

/// What a script prints about streams that are merged, in the tree as current directory. It leaves
/// what it read in the directory above.
const SCRIPT: &str = r#"
set -u
n=$(cat streams/clone); s=streams/$n; m=$(cat streams/clone)
(echo merge 999999 > $s/ctl) 2>/dev/null || sed "s/ 999999/ 9/" $s/error
(echo merge $m > $s/ctl) 2>/dev/null || sed "s/stream $m/M/" $s/error
echo longer > streams/$m/title
(echo merge $m > $s/ctl) 2>/dev/null || sed "s/stream $n/N/" $s/error
(echo merge film > $s/ctl) 2>/dev/null || cat $s/error
echo short > $s/title
echo merge $m > $s/ctl || cat $s/error
cat $s/title $s/error
(echo merge $n > $s/ctl) 2>/dev/null || cat $s/error
(echo longer+none > $s/title) 2>/dev/null || cat $s/error
(echo mute+mute > $s/title) 2>/dev/null || cat $s/error
(echo short+mute > $s/title) 2>/dev/null || cat $s/error
cat $s/title titles/short+longer/name
ls titles
echo aperiodic > $s/class; echo 100M > $s/rate
echo start > $s/ctl || cat $s/error
(echo merge $m > $s/ctl) 2>/dev/null || cat $s/error
cat $s/data > ../read-$n.mp4
cat $s/state
echo merge $m > $s/ctl; cat $s/title
echo longer+short > $s/title; cat $s/title
echo close > $s/ctl; echo close > streams/$m/ctl
"#;

const SAID: &str = "\
there is no stream 9; `ls streams` shows them
M has no title; write one first
N has no title; write one first
\"film\" is no number of a stream; `ls streams` shows them
short+longer

there is no title \"none\"
mute+mute cannot be played: both parts are the same title; PICTURES+SOUND names two titles: the pictures of the first are played with the sound of the second
short+mute cannot be played: mute has no sound; PICTURES+SOUND names two titles: the pictures of the first are played with the sound of the second
short+longer
short + longer
longer
mute
short
the stream is playing; settings are written before start
ended
short+longer
longer+short
";

#[test]
#[ignore = "child of three_shells_merge_streams, with mounts of its own"]
fn three_shells() {
    let dir = TestDir::with_volume();
    for film in [short(), longer()] {
        dir.reel(&["ingest", "volume", film.to_str().unwrap()]).done();
    }
    let ffmpeg =
        ["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=160x90:duration=1", "mute.mp4"];
    let made = std::process::Command::new("ffmpeg").args(ffmpeg).current_dir(dir.path("")).status();
    assert!(made.unwrap().success());
    dir.reel(&["ingest", "volume", "mute.mp4"]).done();
    let server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    let film = server.get("/files/short+longer.mp4").body;
    let mount = Mount::of(&dir, &server);
    mount.assert_three_shells_say(SCRIPT, SAID);
    let names: Vec<String> = dir.names("").into_iter().filter(|name| name.starts_with("read-")).collect();
    assert!(!names.is_empty(), "no shell is installed");
    for name in names {
        assert!(fs::read(dir.path(&name)).unwrap() == film, "{name}: other bytes");
    }
    await_no_session(&server);
}
