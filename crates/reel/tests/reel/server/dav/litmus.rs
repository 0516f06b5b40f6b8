//! The test suite of WebDAV servers, as a client that tries every write.

use super::{DIRECTORIES, everything};
use crate::server::rig::Rig;
use std::process::Command;

#[test]
fn litmus_can_write_nothing() {
    let rig = Rig::new(|_| {});
    let before = everything(&rig);
    let pages = rig.path("pages");
    std::fs::create_dir(&pages).expect("created");
    std::fs::write(pages.join("foo"), "a file that it puts").expect("written");
    for directory in ["/dav/"].iter().chain(&DIRECTORIES) {
        for suite in ["basic", "copymove", "props", "locks", "http"] {
            let mut litmus = Command::new("litmus");
            // It writes a log where it runs.
            litmus.args(["-k", &format!("http://{}{directory}", rig.address())]).current_dir(&pages);
            litmus.env("TESTS", suite).env("HTDOCS", &pages);
            let Ok(output) = litmus.output() else { return println!("skipped: litmus is not installed") };
            let said = String::from_utf8_lossy(&output.stdout);
            // It begins with a directory of its own.
            assert!(
                said.contains("405 Method Not Allowed") && said.contains("1 failed"),
                "{suite} in {directory}: {said}"
            );
            assert!(everything(&rig) == before, "{suite} in {directory}: {said}");
        }
    }
}
