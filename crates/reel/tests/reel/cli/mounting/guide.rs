//! `docs/files.md`: what it says to copy does what it says.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use reel_testkit::run_in_own_mounts;

use super::rig::{is_installed, is_mounted};
use crate::cli::films::{longer, short};
use crate::cli::rig::{PATIENCE, TestDir};
use crate::cli::serving::Running;

#[test]
fn every_line_of_the_guide_works() {
    run_in_own_mounts("cli::mounting::guide::lines");
}

#[test]
#[ignore = "child of every_line_of_the_guide_works, with mounts of its own"]
fn lines() {
    if !is_installed("fusermount3") {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/files.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (dir, server) = serving_as(&page);
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let script: String = ["set -eu\n"].into_iter().chain(blocks).collect();
    let mount = format!("reel mount reel --timeout 60s --of http://{}", server.address());
    assert!(script.contains("reel mount reel &") && script.contains("TITLE"), "{script}");
    let script = script.replace("reel mount reel", &mount).replace("TITLE", "der-film");
    let script = script.replace("OTHER", "etc-passwd") + "wait\n";
    // What is piped into a player is compared.
    assert!(script.contains("| mpv -"), "{script}");
    let script = script.replace("| mpv -", "> poured");
    let pour = pouring(&dir, &server);
    let programs = Path::new(env!("CARGO_BIN_EXE_reel")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(dir.path(""))
        .env("PATH", path)
        .output()
        .unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    for part in [
        "der-film\netc-passwd\n",
        "\nplaying\n",
        "\nended\ncomplete\ncomplete\n",
        "200 us a request, 2097.152 us a MiB\n",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    for (copy, title) in [("copy.mp4", "der-film"), ("merged.mp4", "der-film+etc-passwd")] {
        let film = server.get(&format!("/files/{title}.mp4")).body;
        let copy = std::fs::read(dir.path(copy)).unwrap();
        assert!(copy == film, "{title}: {} and {} bytes", copy.len(), film.len());
    }
    pour.join().unwrap();
    assert_eq!(std::fs::read(dir.path("poured")).unwrap(), POURED);
    let film = server.get("/files/der-film.mp4").body;
    let [first, second] =
        ["joined/first.mp4", "joined/second.mp4"].map(|name| std::fs::read(dir.path(name)).unwrap());
    assert!(first == film && film.ends_with(&second), "{} and {} bytes", first.len(), second.len());
    assert!(!is_mounted(&dir.path("reel")));
}

const POURED: &[u8] = b"what a program pours";

/// A server with the configuration of the page, with a film that lasts longer than lines take that
/// are typed one by one.
fn serving_as(page: &str) -> (TestDir, Running) {
    let dir = TestDir::with_volume();
    for (film, name) in [(longer(), "Der Film"), (short(), "../../etc/passwd")] {
        dir.reel(&["ingest", "volume", film.to_str().unwrap(), "--name", name]).done();
    }
    let tables = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let configuration: String = ["arena_bytes = \"128M\"\n"].into_iter().chain(tables).collect();
    std::fs::write(dir.path("reel.toml"), configuration).unwrap();
    std::fs::create_dir(dir.path("joined")).unwrap();
    let serve = ["serve", "volume", "--listen", "127.0.0.1:0", "--config", "reel.toml"];
    let server = Running::start(&dir, &[&serve[..], &["--programs-socket", "reel.sock"]].concat());
    (dir, server)
}

/// Pours `studio` until a viewer has all of it.
fn pouring(dir: &TestDir, server: &Running) -> JoinHandle<()> {
    let mut pour = dir.command(&["pour", "studio", "--rate", "5M", "--quiet"]);
    let mut pour = pour.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let metrics = format!("http://{}/metrics", server.address());
    let await_metric = move |line: &str| {
        let begun = Instant::now();
        let is_so = || {
            let output = Command::new("curl").args(["--silent", &metrics]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).lines().any(|of_page| of_page == line)
        };
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "{line} does not come");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    await_metric("reel_pours 1");
    std::thread::spawn(move || {
        await_metric("reel_pour_viewers 1");
        pour.stdin.take().unwrap().write_all(POURED).unwrap();
        assert!(pour.wait().unwrap().success());
    })
}
