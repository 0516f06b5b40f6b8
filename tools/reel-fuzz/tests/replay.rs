//! The seeds of the fuzzer, and changed seeds, without a fuzzer.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_testkit::Rng;
use std::fs;
use std::path::Path;

/// Changed copies of each seed.
const COPIES: u64 = 24;

/// Bytes of a copy that change, at most.
const CHANGES_MAX: u64 = 8;

/// A target by its name, which is that of its directory of seeds.
fn target(name: &str) -> fn(&[u8]) {
    match name {
        "chain" => reel_fuzz::chain,
        "dav_question" => reel_fuzz::dav_question,
        "demux_mkv" => |bytes| {
            reel_fuzz::demux_mkv(bytes);
        },
        "demux_mp4" => |bytes| {
            reel_fuzz::demux_mp4(bytes);
        },
        "demux_ts" => reel_fuzz::demux_ts,
        "fec" => reel_fuzz::fec,
        "http_head" => reel_fuzz::http_head,
        "nfs_calls" => reel_fuzz::nfs_calls,
        "nfs_handles" => reel_fuzz::nfs_handles,
        "nfs_records" => reel_fuzz::nfs_records,
        "proxied" => reel_fuzz::proxied,
        "receive" => reel_fuzz::receive,
        "repair" => reel_fuzz::repair,
        "rtcp" => reel_fuzz::rtcp,
        "rtp" => reel_fuzz::rtp,
        "sap" => reel_fuzz::sap,
        "sdp" => reel_fuzz::sdp,
        "sidecar" => reel_fuzz::sidecar,
        "sniff" => reel_fuzz::demux,
        "superblock" => reel_fuzz::superblock,
        "title_index" => reel_fuzz::title_index,
        "tls" => reel_fuzz::tls,
        other => panic!("no target is called {other}"),
    }
}

/// A copy of the seed with other bytes at some places, or with less at its end.
fn changed(seed: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    if random.below(4) == 0 {
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
    }
    for _ in 0..random.below(CHANGES_MAX + 1) {
        let at = random.below(bytes.len().max(1) as u64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = random.below(256) as u8;
        }
    }
    bytes
}

#[test]
fn seeds_and_changed_seeds_keep_what_every_target_demands() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut replayed = 0;
    for directory in fs::read_dir(seeds).unwrap() {
        let directory = directory.unwrap();
        let target = target(directory.file_name().to_str().unwrap());
        for file in fs::read_dir(directory.path()).unwrap() {
            let seed = fs::read(file.unwrap().path()).unwrap();
            target(&seed);
            let mut random = Rng::new(seed.len() as u64);
            (0..COPIES).for_each(|_| target(&changed(&seed, &mut random)));
            replayed += 1;
        }
    }
    assert!(replayed >= 113, "{replayed} seeds");
}

/// Seeds of broadcasts are followed, whatever the clock of the receiver is.
#[test]
fn broadcasts_of_seeds_are_played() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/receive");
    for (name, packets) in
        [("broadcast", 48), ("broadcast-ahead", 48), ("broadcast-hours", 48), ("broadcast-ends", 32)]
    {
        assert_eq!(reel_fuzz::broadcast(&fs::read(seeds.join(name)).unwrap()), packets, "{name}");
    }
}

#[test]
fn targets_without_seeds_take_random_bytes() {
    let mut random = Rng::new(1);
    for name in ["superblock", "tls"] {
        for _ in 0..COPIES {
            let bytes = random.range(0, 5000) as usize;
            target(name)(&random.bytes(bytes));
        }
    }
}
