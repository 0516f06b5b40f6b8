//! A server that does not answer.

use reel_testkit::run_in_own_mounts;
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

use super::rig::{Mount, arguments, serving};
use crate::cli::serving::Running;

#[test]
fn a_silent_server_gives_errors_and_its_files_come_back() {
    run_in_own_mounts("cli::mounting::silence::silent");
}

#[test]
#[ignore = "child of a_silent_server_gives_errors_and_its_files_come_back, with mounts of its own"]
fn silent() {
    let (dir, mut server) = serving();
    let mut arguments = arguments(&server);
    arguments[5] = "500ms".to_owned();
    let mount = Mount::with(&dir, &arguments);
    mount.await_text("titles/der-film/rate");
    kill_process(server.pid(), Signal::STOP).unwrap();
    // Its threads stop one by one, so an answer may still come.
    mount.await_result("capacity", |result| *result == Err(Errno::TIMEDOUT.raw_os_error()));
    // What needs no server is there.
    assert_eq!(std::fs::read_dir(mount.path()).unwrap().count(), 5);
    kill_process(server.pid(), Signal::CONT).unwrap();
    mount.await_text("capacity");
    // It stays mounted without a server, and shows the next one.
    let address = server.address().to_string();
    server.signal(Signal::KILL);
    mount.await_result("capacity", |result| *result == Err(Errno::IO.raw_os_error()));
    let _next = Running::start(&dir, &["serve", "volume", "--listen", &address]);
    mount.await_text("capacity");
    mount.await_text("titles/der-film/rate");
    let log = mount.signal(Signal::TERM).done().stderr;
    assert!(log.contains("the server did not answer in time; until it does, files give errors"), "{log}");
    assert!(log.contains("the server answers again"), "{log}");
}
