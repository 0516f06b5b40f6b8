//! `docs/files.md`: what it says to copy does what it says.

use std::path::Path;
use std::process::Command;

use reel_testkit::run_in_own_mounts;

use super::rig::{is_installed, is_mounted, serving};

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
    let (dir, server) = serving();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/files.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let script: String = ["set -eu\n"].into_iter().chain(blocks).collect();
    let mount = format!("reel mount reel --timeout 60s --of http://{}", server.address());
    assert!(script.contains("reel mount reel &") && script.contains("TITLE"), "{script}");
    let script = script.replace("reel mount reel", &mount).replace("TITLE", "der-film");
    let script = script.replace("OTHER", "etc-passwd") + "wait\n";
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
    for part in ["der-film\netc-passwd\n", "\nplaying\n", "200 us a request, 2097.152 us a MiB\n"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    for (copy, title) in [("copy.mp4", "der-film"), ("merged.mp4", "der-film+etc-passwd")] {
        let film = server.get(&format!("/files/{title}.mp4")).body;
        let copy = std::fs::read(dir.path(copy)).unwrap();
        assert!(copy == film, "{title}: {} and {} bytes", copy.len(), film.len());
    }
    assert!(!is_mounted(&dir.path("reel")));
}
