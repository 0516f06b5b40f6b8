//! The lines that `docs/play-it-with.md` gives to copy, run as they stand.

use super::nfs::serving;
use crate::server::rig::Rig;
use reel_testkit::free_address;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a block may take. The film has three seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is called in place of programs that need a screen or loudspeakers, or another user.
const STAND_INS: [(&str, &str); 5] = [
    // Where other users may not write to /dev/null, davfs2 ends when it becomes one.
    (
        "mount",
        "echo 'dav_user root' > system.conf\nmount --bind system.conf /etc/davfs2/davfs2.conf\nmount \"$@\"",
    ),
    ("mpv", "mpv --no-config --vo=null --ao=null --really-quiet \"$@\""),
    // VLC refuses to run as root, and other users cannot read the directory of this test.
    (
        "vlc",
        "cd / && setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent \\\n\
         vlc -q --intf=dummy --vout=dummy --aout=dummy --play-and-exit \"$@\"",
    ),
    ("ffplay", "env SDL_VIDEODRIVER=dummy SDL_AUDIODRIVER=dummy ffplay -v error \"$@\""),
    ("gst-launch-1.0", "gst-launch-1.0 -q \"$@\" video-sink=fakevideosink audio-sink=fakeaudiosink"),
];

/// The blocks of the page that are run.
fn blocks() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/play-it-with.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let blocks = page.split("```sh\n").skip(1);
    blocks.map(|rest| rest.split("```").next().expect("an end").to_owned()).collect()
}

/// Puts programs behind others of their name.
fn make_stand_ins(dir: &Path) {
    fs::create_dir_all(dir).expect("made");
    for (name, line) in STAND_INS {
        let path = dir.join(name);
        // Found again without this directory.
        let script = format!("#!/bin/sh\nPATH=${{PATH#*:}}\n{line}\n");
        fs::write(&path, script).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    }
}

/// The first program of each line that is not installed.
fn missing(block: &str) -> Option<&str> {
    let programs = block.lines().filter_map(|line| line.split(' ').next());
    let is_missing = |name: &&str| {
        let look = format!("command -v {name}");
        let found = Command::new("sh").args(["-c", &look]).stdout(Stdio::null()).status();
        !found.expect("a shell").success()
    };
    let davfs = block.contains("-t davfs").then_some("mount.davfs");
    programs.chain(davfs).find(is_missing)
}

/// Runs a block; whether it succeeded, and what it said.
fn run(block: &str, dir: &Path, stand_ins: &Path) -> (bool, String) {
    let log = fs::File::create(dir.join("log")).expect("made");
    let path = format!("{}:{}", stand_ins.display(), std::env::var("PATH").expect("a path"));
    // Mounts, and what serves them, end with their block.
    let mut shell = Command::new(if block.contains("mount ") { "unshare" } else { "sh" });
    if block.contains("mount ") {
        shell.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
    }
    shell.args(["-e", "-c", block]).current_dir(dir).env("PATH", path).stdin(Stdio::null());
    shell.stdout(log.try_clone().expect("cloned")).stderr(log);
    let (mut child, begun) = (shell.spawn().expect("a shell"), Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            break Some(status);
        }
        if begun.elapsed() > PATIENCE {
            child.kill().expect("it can be ended");
            child.wait().expect("it has ended");
            break None;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let said = fs::read(dir.join("log")).expect("a log");
    (status.is_some_and(|status| status.success()), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn every_line_of_the_page_works() {
    let nfs = free_address();
    // Sessions that their clients have left would keep later ones out for a while.
    let rig = Rig::new(|config| config.nfs = Some(serving(nfs)));
    let (stand_ins, mount) = (rig.path("stand-ins"), rig.path("mnt"));
    make_stand_ins(&stand_ins);
    fs::create_dir(&mount).expect("made");
    let sent = || rig.metric("reel_http_media_bytes_total") + rig.metric("reel_nfs_read_bytes_total");
    let blocks = blocks();
    assert!(blocks.len() > 10, "the page has {} blocks", blocks.len());
    for (number, block) in blocks.iter().enumerate() {
        if let Some(missing) = missing(block) {
            println!("skipped: {missing} is not installed: {block}");
            continue;
        }
        if block.contains("mount ") && !rustix::process::geteuid().is_root() {
            println!("skipped: a mount needs root: {block}");
            continue;
        }
        let dir = rig.path(&format!("block-{number}"));
        fs::create_dir(&dir).expect("made");
        let mut here = block.replace("SERVER:8080", &rig.address().to_string()).replace("TITLE", "film");
        here = here.replace(" /mnt", &format!(" {}", mount.display()));
        // The server of a test has its own address and port, and nothing is added to the lines.
        here = here.replace("nfs://SERVER/", &format!("nfs://{}/", nfs.ip()));
        here = here.replace("port=2049", &format!("port={}", nfs.port()));
        let (before, sessions) = (sent(), rig.metric("reel_sessions"));
        assert!(!here.contains("SERVER"), "{here}");
        let (succeeded, said) = run(&here, &dir, &stand_ins);
        assert!(succeeded, "{here}\n{said}");
        // Every block plays or copies all of the film.
        let bytes = sent() - before;
        assert!(bytes >= rig.film.len() as f64 * 0.9, "{here}\nonly {bytes} bytes were sent\n{said}");
        // mpv looks at a playlist before it plays it.
        let most = if block.starts_with("mpv") && block.contains("m3u8") { 2.0 } else { 1.0 };
        assert!(rig.metric("reel_sessions") <= sessions + most, "{here}\nmore sessions were opened");
        if let Ok(copy) = fs::read(dir.join("film.mp4")) {
            assert!(copy == rig.film, "{here}");
        }
    }
}
