//! `reel.toml`, valid and invalid.

use std::fs;

use crate::cli::rig::TestDir;
use crate::cli::serving::Running;

#[test]
fn a_typo_names_the_key_the_line_and_the_nearest_key() {
    let dir = TestDir::with_volume();
    fs::write(dir.path("reel.toml"), "volume = \"volume\"\n\nlisen = \"127.0.0.1:0\"\n").unwrap();
    dir.reel(&["serve", "--config", "reel.toml"])
        .refused(2, &["reel.toml line 3", "unknown key `lisen`", "did you mean `listen`?"]);
}

#[test]
fn a_wrong_value_names_its_line() {
    let dir = TestDir::with_volume();
    for (text, words) in [
        ("volume = 5\n", &["line 1", "volume = 5"][..]),
        ("sessions_max = 0\n", &["line 1", "sessions_max", "choose a value from 1"]),
        ("[log]\nlevel = \"loud\"\n", &["line 2", "loud"]),
        ("[upload]\nmax_bytes = \"9 lots\"\n", &["line 2", "not a size"]),
        ("[promise]\nnetwork_bps = \"10 GB\"\n", &["line 2", "not a rate"]),
        ("[promise]\nadmision = true\n", &["line 2", "did you mean `promise.admission`?"]),
        ("listen = \"here\"\n", &["line 1", "here"]),
        ("listen\n", &["line 1"]),
    ] {
        fs::write(dir.path("reel.toml"), text).unwrap();
        dir.reel(&["serve", "--config", "reel.toml"]).refused(2, words);
    }
}

#[test]
fn a_configuration_that_cannot_work_is_refused_at_the_start() {
    let dir = TestDir::with_volume();
    fs::write(dir.path("file"), "x").unwrap();
    for (text, code, words) in [
        ("[upload]\nmax_bytes = 0\n", 2, &["line 5", "would refuse every upload"][..]),
        ("[promise]\nnetwork_bps = \"1k\"\n", 2, &["line 5", "no session would ever be admitted"]),
        ("arena_bytes = \"900000G\"\n", 2, &["arena_bytes is", "this machine has"]),
        ("[upload]\nspool_dir = \"no/such/place\"\n", 3, &["no/such/place", "upload.spool_dir"]),
        ("[upload]\nspool_dir = \"file\"\n", 1, &["file", "upload.spool_dir"]),
        ("[upload]\nspool_dir = \"/proc/spool\"\n", 3, &["/proc/spool", "upload.spool_dir"]),
    ] {
        let text = format!("volume = \"volume\"\nlisten = \"127.0.0.1:0\"\n\n{text}");
        fs::write(dir.path("reel.toml"), text).unwrap();
        dir.reel(&["serve", "--config", "reel.toml"]).refused(code, words);
    }
    assert!(!dir.path("no").exists(), "no directory is created outside of existing ones");
}

#[test]
fn too_little_media_memory_is_reported() {
    let dir = TestDir::with_volume();
    let text = "volume = \"volume\"\nlisten = \"127.0.0.1:0\"\narena_bytes = \"1K\"\n";
    fs::write(dir.path("reel.toml"), text).unwrap();
    let mut server = Running::start(&dir, &["serve", "--config", "reel.toml"]);
    assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
    let said = server.said();
    assert!(said.contains("arena_bytes is 1.0 KiB, and this volume needs at least"), "{said}");
}

#[test]
fn a_missing_volume_or_configuration_is_named() {
    let dir = TestDir::with_volume();
    fs::write(dir.path("reel.toml"), "").unwrap();
    dir.reel(&["serve", "--config", "reel.toml"]).refused(2, &["no volume", "reel serve VOLUME"]);
    dir.reel(&["serve", "--config", "other.toml"]).refused(3, &["other.toml"]);
    dir.reel(&["serve", "--config", "/"]).refused(2, &["the configuration /", "name a file"]);
    fs::write(dir.path("binary"), [0xff; 9]).unwrap();
    dir.reel(&["serve", "--config", "binary"]).refused(2, &["the configuration binary", "name a file"]);
    dir.reel(&["serve", "volume", "--watch", "nowhere"]).refused(3, &["nowhere"]);
    dir.reel(&["serve", "volume", "--watch", "reel.toml"]).refused(2, &["not a directory"]);
}
