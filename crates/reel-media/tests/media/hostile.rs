//! Damaged and hostile Matroska and transport stream files: a clear end, no panic, and no more
//! memory than the file's size.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::oracle::*;
use proptest::prelude::*;
use std::sync::OnceLock;

/// Damage to a file.
#[derive(Clone, Debug)]
enum Damage {
    Set { at: usize, value: u8 },
    Fill { at: usize, bytes: usize, value: u8 },
    Cut { at: usize },
    Remove { at: usize, bytes: usize },
    Repeat { at: usize, bytes: usize },
}

fn harms() -> impl Strategy<Value = Vec<Damage>> {
    let damage = prop_oneof![
        4 => (any::<usize>(), any::<u8>()).prop_map(|(at, value)| Damage::Set { at, value }),
        // Most lengths and flags are at the beginning.
        4 => (0usize..900, any::<u8>()).prop_map(|(at, value)| Damage::Set { at, value }),
        2 => (any::<usize>(), 1usize..400, prop_oneof![Just(0u8), Just(0xff), Just(0x47), any::<u8>()])
            .prop_map(|(at, bytes, value)| Damage::Fill { at, bytes, value }),
        1 => any::<usize>().prop_map(|at| Damage::Cut { at }),
        1 => (any::<usize>(), 1usize..2000).prop_map(|(at, bytes)| Damage::Remove { at, bytes }),
        1 => (any::<usize>(), 1usize..2000).prop_map(|(at, bytes)| Damage::Repeat { at, bytes }),
    ];
    proptest::collection::vec(damage, 1..8)
}

fn harmed(file: &[u8], harms: &[Damage]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for damage in harms {
        let length = bytes.len().max(1);
        let range = |at: usize, count: usize| at % length..(at % length + count).min(bytes.len());
        match *damage {
            _ if bytes.is_empty() => {}
            Damage::Set { at, value } => bytes[at % length] = value,
            Damage::Fill { at, bytes: count, value } => {
                let range = range(at, count);
                bytes[range].fill(value);
            }
            Damage::Cut { at } => bytes.truncate(at % length),
            Damage::Remove { at, bytes: count } => drop(bytes.drain(range(at, count))),
            Damage::Repeat { at, bytes: count } => {
                let part = bytes[range(at, count)].to_vec();
                let place = at % length;
                bytes.splice(place..place, part);
            }
        }
    }
    bytes
}

/// Opens and drains the file. Samples are no larger than the file, and its bytes bound their
/// number.
fn survive(bytes: Vec<u8>) {
    let length = bytes.len();
    let Ok(mut demux) = reel_media::open(Box::new(Memory(bytes))) else { return };
    let mut data = Vec::new();
    let mut count = 0;
    while let Ok(Some(packet)) = demux.next(&mut data) {
        assert!(packet.track < demux.tracks().len());
        // Text is escaped: one byte becomes at most five.
        assert!(
            data.len() <= 5 * length && data.capacity() <= 10 * length + 4096,
            "{} of {length}",
            data.capacity()
        );
        count += 1;
        assert!(count <= length, "more samples than bytes");
    }
    assert!(demux.position() <= length as u64);
    assert!(demux.warnings().len() < 100);
}

fn matroska() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let film_dir = FilmDir::new();
        let srt = film_dir.write("a.srt", b"1\n00:00:00,100 --> 00:00:00,900\nText\n");
        let path = film_dir.make(
            "a.mkv",
            &[
                words("-f lavfi -i testsrc2=size=64x64:rate=25:duration=1"),
                tone(440, 48_000, 1),
                words(&format!("-i {}", srt.display())),
                words("-c:v libx264 -preset ultrafast -bf 2 -c:a libopus -ac 2 -b:a 32k -c:s srt -cluster_time_limit 300"),
            ],
        );
        std::fs::read(path).unwrap()
    })
}

fn transport() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let film_dir = FilmDir::new();
        let path = film_dir.make(
            "a.ts",
            &[
                words("-f lavfi -i testsrc2=size=64x64:rate=25:duration=1"),
                tone(440, 48_000, 1),
                tone(880, 48_000, 1),
                words("-map 0 -map 1 -map 2 -c:v libx264 -preset ultrafast -bf 2 -c:a:0 aac -c:a:1 eac3 -b:a 48k"),
            ],
        );
        std::fs::read(path).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_matroska(harms in harms()) {
        survive(harmed(matroska(), &harms));
    }

    #[test]
    fn damaged_transport_streams(harms in harms()) {
        survive(harmed(transport(), &harms));
    }

    #[test]
    fn noise(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        survive(bytes.clone());
        let head = &matroska()[..200];
        survive([head, &bytes].concat());
        let framed: Vec<u8> = bytes.chunks(187).flat_map(|part| [&[0x47], part].concat()).collect();
        survive([&transport()[..188 * 3], &framed].concat());
    }
}

#[test]
fn a_claimed_length_takes_no_memory() {
    // A block that claims four gibibytes, in a segment without a size.
    let whole = matroska();
    let block = whole.windows(2).rposition(|pair| pair == [0xa3, 0x44] || pair[0] == 0xa3).unwrap();
    let mut bytes = whole[..block].to_vec();
    let segment = bytes.windows(4).position(|id| id == [0x18, 0x53, 0x80, 0x67]).unwrap();
    bytes[segment + 4..segment + 12].copy_from_slice(&[0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    bytes.extend([0xa3, 0x01, 0, 0, 1, 0, 0, 0, 0, 0x81, 0, 0, 0x80, 1, 2, 3]);
    let mut demux = reel_media::open(Box::new(Memory(bytes))).unwrap();
    let taken = drain(demux.as_mut()).unwrap();
    assert!(!taken.is_empty());
    assert!(demux.warnings().iter().any(|text| text.contains("cut off")), "{:?}", demux.warnings());
}
