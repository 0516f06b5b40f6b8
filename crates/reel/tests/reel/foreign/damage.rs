//! Any one member deleted, truncated, overwritten or replaced: everything still plays and exports,
//! and `check` reports the damage.

use crate::foreign::films::FILMS;
use crate::foreign::rig::{cache_dir, outcome, reel, run, start, volume};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The damage to member `number`, and a word in the report of `check`.
pub(crate) type Damage = (&'static str, fn(&Path, usize), &'static str);

pub(crate) const HARMS: [Damage; 5] = [
    ("deleted", |volume, number| fs::remove_file(member(volume, number)).unwrap(), "missing"),
    ("cut off", cut_off, "member"),
    ("overwritten with noise", overwrite, "damaged"),
    ("sprinkled with noise", sprinkle, "wrong"),
    ("replaced by another volume's", replace, "another volume"),
];

fn member(volume: &Path, number: usize) -> PathBuf {
    volume.join(format!("member-{number}.reel"))
}

fn cut_off(volume: &Path, number: usize) {
    let file = OpenOptions::new().write(true).open(member(volume, number)).unwrap();
    file.set_len(file.metadata().unwrap().len() / 3).unwrap();
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    noise
}

fn overwrite(volume: &Path, number: usize) {
    let mut file = OpenOptions::new().write(true).open(member(volume, number)).unwrap();
    let bytes = file.metadata().unwrap().len();
    let noise = noise(1 << 20);
    for _ in 0..bytes >> 20 {
        file.write_all(&noise).unwrap();
    }
}

/// A kilobyte of noise in every 200 kB of the first half, except superblock and catalogue (which
/// end at 9 MiB): silent corruption.
fn sprinkle(volume: &Path, number: usize) {
    let mut file = OpenOptions::new().write(true).open(member(volume, number)).unwrap();
    let bytes = file.metadata().unwrap().len();
    let noise = noise(1024);
    let mut at = 9 << 20;
    while at < bytes {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&noise).unwrap();
        at += 200_000;
    }
}

fn replace(volume: &Path, number: usize) {
    let other = volume.with_file_name("other");
    run(reel().args(["volume", "create"]).arg(&other).args(["--size", "900M"]));
    fs::copy(member(&other, number), member(volume, number)).unwrap();
    fs::remove_dir_all(&other).unwrap();
}

/// Fails unless everything plays as before after each of these harms to one member, and `check`
/// finds the damage.
pub(crate) fn assert_no_member_is_needed(harms: std::ops::Range<usize>) {
    let films: Vec<_> = ["longer.mp4", "film-rate.mkv"]
        .map(|file| FILMS.iter().find(|film| film.file == file).unwrap())
        .into();
    for (number, (harm, apply, word)) in HARMS.iter().enumerate().take(harms.end).skip(harms.start) {
        let dir = tempfile::tempdir_in(cache_dir()).unwrap();
        let paths: Vec<_> = films.iter().map(|film| film.path()).collect();
        let volume = volume(dir.path(), &paths);
        let sound = outcome(reel().args(["volume", "check"]).arg(&volume));
        assert!(sound.status.success(), "a sound volume: {}", String::from_utf8_lossy(&sound.stdout));
        let export = |name: &str| {
            let all = films.iter().map(|film| {
                let path = dir.path().join(format!("{name}-{}.mp4", film.id()));
                run(reel().arg("export").arg(&volume).arg(film.id()).arg(&path));
                fs::read(path).unwrap()
            });
            all.collect::<Vec<_>>()
        };
        let before = export("before");
        apply(&volume, number);
        assert!(before == export("after"), "member {number} {harm}: an export differs");
        let server = start(&volume, &[]);
        for (film, bytes) in films.iter().zip(&before) {
            let url = format!("{}/watch/{1}/{1}.mp4", server.url, film.id());
            let served =
                outcome(Command::new("curl").args(["--silent", "--fail", "--location", &url])).stdout;
            assert!(served == *bytes, "member {number} {harm}: {} plays other bytes", film.file);
        }
        let metrics = crate::foreign::curl::get(&format!("{}/metrics", server.url));
        let decoded = metrics
            .lines()
            .find(|line| line.starts_with("reel_volume_rows_decoded_total"))
            .expect("a counter of decoded rows");
        let decoded: f64 = decoded.split_whitespace().nth(1).unwrap().parse().unwrap();
        // A file that was truncated to a third may still hold every row of small films.
        assert!(decoded > 0.0 || *harm == "cut off", "member {number} {harm}: nothing was decoded");
        drop(server);
        let check = outcome(reel().args(["volume", "check"]).arg(&volume));
        let said = String::from_utf8_lossy(&check.stdout).to_lowercase()
            + &String::from_utf8_lossy(&check.stderr).to_lowercase();
        assert!(!check.status.success(), "member {number} {harm}: check found nothing: {said}");
        assert!(said.contains(word) && said.contains(&format!("{number}")), "member {number} {harm}: {said}");
    }
}

#[test]
fn a_member_is_not_needed() {
    assert_no_member_is_needed(3..4);
}
