//! What is said of clients that speak something else to the port of NFS.

use crate::cli::films::short;
use crate::cli::rig::TestDir;
use crate::cli::serving::Running;
use reel_testkit::free_address;
use std::fs::{File, read_to_string, write};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Sends this, and waits for the end.
fn speak(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
    stream.write_all(bytes).expect("sent");
    let mut said = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut said);
    assert_eq!(said, [] as [u8; 0]);
}

#[test]
fn what_is_spoken_to_the_port_of_nfs_is_in_the_log_with_the_port_that_it_belongs_to() {
    let dir = TestDir::with_volume();
    dir.reel(&["ingest", "volume", short().to_str().expect("UTF-8")]).done();
    let nfs = free_address();
    let config = format!(
        "arena_bytes = \"64M\"\nvolume = \"volume\"\nlisten = \"127.0.0.1:0\"\n[nfs]\nlisten = \"{nfs}\"\n"
    );
    write(dir.path("reel.toml"), config).expect("written");
    let log = File::create(dir.path("log")).expect("created");
    let server = Running::launch_with_log(dir.command(&["serve", "--config", "reel.toml"]), log);
    let port = server.address().port();
    let lines = [
        format!("HTTP is spoken to the port of NFS, and the connection was closed; HTTP is at port {port}"),
        format!("this server speaks no TLS, and HTTP is at port {port}"),
        format!(
            "what begins with 01 02 03 04 is no call of NFS, and the connection was closed; HTTP is at port {port}"
        ),
    ];
    let from = Instant::now();
    for _ in 0..50 {
        speak(nfs, b"GET / HTTP/1.1\r\nHost: reel\r\n\r\n");
        speak(nfs, &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]);
        speak(nfs, &[0x80, 0, 0, 4, 1, 2, 3, 4]);
    }
    let said = || read_to_string(dir.path("log")).expect("text");
    let count = |line: &str| said().lines().filter(|said| said.contains(line)).count();
    // Lines are written by a thread of their own.
    while lines.iter().any(|line| count(line) == 0) {
        assert!(from.elapsed() < Duration::from_secs(120), "{}", said());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(said().contains("client=127.0.0.1"), "{}", said());
    // One a minute.
    let minutes = from.elapsed().as_secs() as usize / 60 + 2;
    for line in &lines {
        assert!(count(line) <= minutes, "{}", said());
    }
}
