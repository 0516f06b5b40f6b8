//! Members are measured; profiles are stored, refused and renewed.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::cli::rig::{Outcome, TestDir};
use crate::cli::serving::Running;
use crate::held_prices::MEASURED_UNIX_S;

/// A volume with members that are partly written outside of any title, so that there is data to
/// read as if films were stored.
fn used_volume() -> TestDir {
    let dir = TestDir::with_unmeasured_volume();
    for member in 0..5 {
        write_at_the_end(&dir.path(&format!("volume/member-{member}.reel")), 5 << 20);
    }
    dir
}

fn write_at_the_end(path: &Path, bytes: usize) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::End(-(bytes as i64))).unwrap();
    file.write_all(&vec![7; bytes]).unwrap();
    file.sync_all().unwrap();
}

/// The lines of `reel volume status` about profiles.
fn profile_lines(dir: &TestDir) -> Vec<String> {
    let status = dir.reel(&["volume", "status", "volume"]).done().stdout;
    let lines: Vec<String> = status.lines().map(str::to_owned).collect();
    lines[lines.len() - 5..].to_vec()
}

#[test]
fn a_volume_is_measured_and_its_profiles_are_stored() {
    let dir = used_volume();
    assert!(profile_lines(&dir).iter().all(|line| line.ends_with(": not measured; reel probe volume")));
    let before = dir.names("volume");
    let found = probe(&dir, &["probe", "volume", "--seconds", "1", "--write", "--json"]).done().json();
    let members = found["members"].as_array().unwrap();
    assert_eq!(members.len(), 5);
    for (number, member) in members.iter().enumerate() {
        assert_eq!(member["member"], number);
        let profile = &member["profile"];
        assert_eq!(profile["together"], 5);
        // The parts of the price depend on the machine, which other programs may keep busy.
        let price = |part: &str| profile["price"][part].as_u64().unwrap();
        assert!(price("read_request_ns") + price("read_mib_ns") > 0);
        assert!(profile["data_bytes"].as_u64().unwrap() >= 5 << 20);
        assert!(profile["windows"].as_array().unwrap().iter().any(|window| window["kind"] == "write"));
    }
    let new: Vec<String> = dir.names("volume").into_iter().filter(|name| !before.contains(name)).collect();
    let profiles: Vec<String> = (0..5).map(|member| format!("profile-{member}.toml")).collect();
    assert_eq!(new, profiles, "profiles, and nothing of the scratch files");
    for line in profile_lines(&dir) {
        assert!(line.contains("a read takes ") && line.ends_with("measured just now"), "{line}");
    }
    dir.reel(&["volume", "check", "volume"]).done();
}

/// Other tests rely on it.
#[test]
fn stored_profiles_are_used_whichever_pages_the_memory_has() {
    let said = serve(&TestDir::with_volume());
    for member in 0..5 {
        let price = format!("member {member}: a read takes 0.20 ms and 2.10 ms/MiB");
        assert!(said.contains(&price) && !said.contains("measuring again"), "{said}");
    }
}

#[test]
fn a_server_begins_with_the_prices_that_the_one_before_has_learnt() {
    let dir = TestDir::with_volume();
    for (member, measured_unix_s) in [(0, MEASURED_UNIX_S), (1, MEASURED_UNIX_S + 1)] {
        let learnt = format!("measured_unix_s = {measured_unix_s}\npermille = 2000\n");
        fs::write(dir.path(&format!("volume/profile-{member}.learnt.toml")), learnt).unwrap();
    }
    let said = serve(&dir);
    let found = "the last server found it to take 0.40 ms and 4.19 ms/MiB";
    let line = |member| {
        let begins = format!("member {member}: a read takes 0.20 ms and 2.10 ms/MiB");
        said.lines().find(|line| line.contains(&begins)).expect("each member has a line").to_owned()
    };
    assert!(line(0).contains(found), "{said}");
    assert!(!line(1).contains("found"), "that is of another profile: {said}");
}

#[test]
fn a_new_volume_has_nothing_to_measure() {
    let dir = TestDir::with_unmeasured_volume();
    dir.reel(&["probe", "volume"])
        .refused(1, &["5 members were not measured", "ever written", "ingest titles first"]);
    assert!(!dir.path("volume/profile-0.toml").exists());
}

#[test]
fn profiles_that_are_foreign_false_or_garbage_are_refused_and_renewed() {
    let dir = used_volume();
    probe(&dir, &["probe", "volume", "--seconds", "1"]).done();
    let profile = |member: usize| dir.path(&format!("volume/profile-{member}.toml"));
    fs::copy(profile(1), profile(0)).unwrap();
    fs::write(profile(1), "version = 9\n").unwrap();
    fs::write(profile(2), vec![b'['; 1 << 20]).unwrap();
    let text = fs::read_to_string(profile(3)).unwrap();
    let false_price: Vec<String> = text
        .lines()
        .map(|line| if line.starts_with("read_mib_ns") { "read_mib_ns = 1".into() } else { line.into() })
        .collect();
    fs::write(profile(3), false_price.join("\n")).unwrap();
    fs::remove_file(profile(4)).unwrap();
    fs::create_dir(profile(4)).unwrap();
    let lines = profile_lines(&dir);
    for (line, words) in lines.iter().zip([
        "measured on another device",
        "version 9",
        "the limit for a profile",
        "does not follow from what was measured",
        "cannot be read",
    ]) {
        assert!(line.contains(words) && line.ends_with("; reel probe volume"), "no {words:?} in: {line}");
    }
    // A server does not wait for a measurement, and a bad profile does not keep it from serving.
    let said = serve(&dir);
    assert!(said.contains("member 0: its profile is not used") && said.contains("reel probe"), "{said}");
    for line in &profile_lines(&dir)[..4] {
        assert!(line.contains("a read takes ") && line.ends_with("quick profile"), "{line}");
    }
}

#[test]
fn a_quick_profile_is_measured_again_when_much_was_added() {
    let dir = used_volume();
    let said = serve(&dir);
    assert!(said.contains("member 4: a read takes") && said.contains("quick profile"), "{said}");
    assert!(!serve(&dir).contains("measuring again"));
    write_at_the_end(&dir.path("volume/member-4.reel"), 28 << 20);
    let said = serve(&dir);
    assert!(said.contains("member 4 holds far more") && !said.contains("member 3 holds"), "{said}");
}

/// Media memory that programs can read has other pages than other media memory on most machines.
#[test]
fn a_full_profile_outlives_a_server_with_other_pages() {
    let dir = used_volume();
    probe(&dir, &["probe", "volume", "--seconds", "2"]).done();
    let profile = dir.path("volume/profile-0.toml");
    let text = fs::read_to_string(&profile).unwrap();
    let (this, other) = ("huge_pages = true", "huge_pages = false");
    let text = if text.contains(this) { text.replace(this, other) } else { text.replace(other, this) };
    fs::write(&profile, &text).unwrap();
    let said = serve(&dir);
    assert!(said.contains("member 0 was measured with other memory pages"), "{said}");
    assert_eq!(fs::read_to_string(&profile).unwrap(), text, "the better one stays");
    let said = serve(&dir);
    assert!(said.contains("member 0: a read takes") && !said.contains("measuring again"), "{said}");
}

#[test]
fn profiles_are_measured_for_small_pages_on_request() {
    let dir = used_volume();
    probe(&dir, &["probe", "volume", "--seconds", "1", "--small-pages"]).done();
    let text = fs::read_to_string(dir.path("volume/profile-4.toml")).unwrap();
    assert!(text.contains("huge_pages = false"), "{text}");
}

#[test]
fn a_server_of_an_empty_volume_says_which_price_it_uses() {
    let dir = TestDir::with_unmeasured_volume();
    let mut server = Running::start(&dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
    assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
    let said = server.said();
    assert!(
        said.contains("5 members count as slow hard disks") && said.contains("`reel probe volume"),
        "{said}"
    );
}

#[test]
fn one_file_is_measured_by_itself() {
    let dir = TestDir::new();
    fs::write(dir.path("file"), vec![7; 5 << 20]).unwrap();
    let printed = probe(&dir, &["probe", "file", "--seconds", "1"]).done().stdout;
    assert!(printed.contains("[price]") && printed.contains("quick = false"), "{printed}");
    probe(&dir, &["probe", "file", "--seconds", "1", "--out", "file.toml"]).done();
    assert!(fs::read_to_string(dir.path("file.toml")).unwrap().contains("[price]"));
    assert_eq!(dir.names(""), ["file", "file.toml"]);
    assert_eq!(fs::read(dir.path("file")).unwrap(), vec![7; 5 << 20]);

    let locked = fs::File::open(dir.path("file")).unwrap();
    rustix::fs::flock(&locked, FlockOperation::LockExclusive).unwrap();
    dir.reel(&["probe", "file"]).refused(1, &["in use by another program"]);
}

/// How often a measurement is repeated. It takes a second, and one on a disk that is heavily used
/// by others may give no plausible profile, which is rightly refused.
const TRIES: usize = 30;

fn probe(dir: &TestDir, arguments: &[&str]) -> Outcome {
    let tries = (1..TRIES).map(|_| dir.reel(arguments));
    let mut ended = tries.skip_while(|outcome| outcome.stderr.contains("it is not plausible"));
    ended.next().unwrap_or_else(|| dir.reel(arguments))
}

/// What a server says from its start to its end, and the next ones as long as a quick profile is
/// not plausible.
fn serve(dir: &TestDir) -> String {
    let mut all = String::new();
    for _ in 0..TRIES {
        let mut server = Running::start(dir, &["serve", "volume", "--listen", "127.0.0.1:0"]);
        assert_eq!(server.signal(rustix::process::Signal::TERM), Some(0));
        let said = server.said();
        all += &said;
        let is_refused = |line: &str| line.contains("has no profile") && line.contains("it is not plausible");
        if !said.lines().any(is_refused) {
            break;
        }
    }
    all
}

#[test]
fn members_that_cannot_be_measured_are_named() {
    let dir = used_volume();
    fs::create_dir(dir.path("empty")).unwrap();
    fs::write(dir.path("small"), "x").unwrap();
    dir.reel(&["probe", "nowhere"]).refused(3, &["nowhere"]);
    dir.reel(&["probe", "empty"]).refused(3, &["not a Reel volume"]);
    dir.reel(&["probe", "small"]).refused(1, &["small", "ever written"]);
    dir.reel(&["probe", "/dev/null"]).refused(1, &["/dev/null"]);
    dir.reel(&["probe", "volume", "--out", "x"]).refused(2, &["--out"]);
    for seconds in ["0", "601", "many"] {
        assert_eq!(dir.reel(&["probe", "volume", "--seconds", seconds]).code, Some(2));
    }
    fs::remove_file(dir.path("volume/member-2.reel")).unwrap();
    probe(&dir, &["probe", "volume", "--seconds", "1"]).refused(1, &["member 2 is missing"]);
    assert!(dir.path("volume/profile-1.toml").exists(), "the others are measured anyway");
}
