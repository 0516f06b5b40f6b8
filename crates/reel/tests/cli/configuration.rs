//! `reel.toml`, right and wrong.

use std::fs;

use crate::rig::Place;

#[test]
fn a_typo_names_the_key_the_line_and_the_nearest_key() {
    let place = Place::with_volume();
    fs::write(place.path("reel.toml"), "volume = \"volume\"\n\nlisen = \"127.0.0.1:0\"\n").unwrap();
    place
        .reel(&["serve", "--config", "reel.toml"])
        .refused(2, &["reel.toml line 3", "unknown key `lisen`", "did you mean `listen`?"]);
}

#[test]
fn a_wrong_value_names_its_line() {
    let place = Place::with_volume();
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
        fs::write(place.path("reel.toml"), text).unwrap();
        place.reel(&["serve", "--config", "reel.toml"]).refused(2, words);
    }
}

#[test]
fn what_a_server_needs_is_asked_for() {
    let place = Place::with_volume();
    fs::write(place.path("reel.toml"), "").unwrap();
    place.reel(&["serve", "--config", "reel.toml"]).refused(2, &["no volume", "reel serve VOLUME"]);
    place.reel(&["serve", "--config", "other.toml"]).refused(3, &["other.toml"]);
    place.reel(&["serve", "--config", "/"]).refused(2, &["the configuration /", "name a file"]);
    fs::write(place.path("binary"), [0xff; 9]).unwrap();
    place.reel(&["serve", "--config", "binary"]).refused(2, &["the configuration binary", "name a file"]);
    fs::write(place.path("much.toml"), "volume = \"volume\"\narena_bytes = \"900P\"\n").unwrap();
    place.reel(&["serve", "--config", "much.toml"]).refused(2, &["arena_bytes is 900.0 PiB", "set less"]);
    place.reel(&["serve", "volume", "--watch", "nowhere"]).refused(3, &["nowhere"]);
    place.reel(&["serve", "volume", "--watch", "reel.toml"]).refused(2, &["not a directory"]);
}
