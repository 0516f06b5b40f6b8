//! Losses beside places where a transport stream was joined, or looks as if it was: each is named
//! with its time, and a joint without a loss is not.

use super::*;

const TABLE_PID: u16 = 0;
/// What is cut out: more than two seconds, and thereby tables, after which the counters of those
/// jump as at a joint.
const CUT: usize = 400;

/// Where the tables are that are directly followed by a picture.
fn tables_before_pictures(bytes: &[u8]) -> Vec<usize> {
    let tables = packets_of(bytes, TABLE_PID).into_iter();
    let next = |at: usize| {
        (at..bytes.len()).step_by(PACKET).find(|at| [PICTURE_PID, SOUND_PID].contains(&pid(&bytes[*at..])))
    };
    let begins = |at: &usize| {
        next(*at).is_some_and(|at| pid(&bytes[at..]) == PICTURE_PID && bytes[at + 1] & 0x40 != 0)
    };
    tables.filter(begins).collect()
}

/// Without `count` packets before the position `to`.
fn cut_before(bytes: &[u8], to: usize, count: usize) -> Vec<u8> {
    [&bytes[..to - count * PACKET], &bytes[to..]].concat()
}

/// The warning of a loss of pictures: the places, and the time of the first in seconds.
fn losses_of(played: &Played, medium: &str) -> Option<(String, f64)> {
    let text = played.warnings.iter().find(|text| text.contains(&format!("({medium}) are missing at ")))?;
    let (_, rest) = text.split_once("are missing at ")?;
    let (places, rest) = rest.split_once(", the first near ")?;
    let (time, _) = rest.split_once(": ")?;
    let parts = time.split(':').map(|part| part.parse::<f64>().unwrap());
    Some((places.to_owned(), parts.fold(0.0, |sum, part| sum * 60.0 + part)))
}

/// The latest picture before the first gap between pictures, in seconds.
fn gap_of(played: &Played) -> f64 {
    let mut shown: Vec<i64> = played.pictures().iter().map(|taken| taken.packet.sample.pts).collect();
    shown.sort_unstable();
    let gap = shown.windows(2).find(|pair| pair[1] - pair[0] > 2 * 3600).expect("a gap");
    gap[0] as f64 / 90_000.0
}

#[test]
fn a_loss_before_tables_is_named() {
    let film_dir = FilmDir::new();
    for codecs in [H264_AAC, HEVC_AC3] {
        let plain = make(&film_dir, "a.ts", 16, codecs);
        let places = tables_before_pictures(&plain);
        let after = places.iter().filter(|at| **at > (CUT + 60) * PACKET);
        let mut count = 0;
        for at in after.take(12) {
            let played = Played::of(&cut_before(&plain, *at, CUT));
            let (places, near) = losses_of(&played, "pictures").unwrap_or_else(|| {
                panic!("{CUT} packets before {at}: {:?}", played.warnings);
            });
            assert_eq!(places, "one place");
            assert!((near - gap_of(&played)).abs() < 0.25, "{near}: {:?}", played.warnings);
            count += 1;
        }
        assert!(count > 3, "{count} places");
    }
}

#[test]
fn losses_beside_joints_are_named() {
    let film_dir = FilmDir::new();
    let part =
        |name: &str, offset: u32| make(&film_dir, name, 8, &format!("{H264_AAC} -output_ts_offset {offset}"));
    let parts = [part("a.ts", 0), part("b.ts", 8), part("c.ts", 16)];
    let clean = Played::of(&parts.concat());
    assert!(!clean.warns_of("missing at"), "{:?}", clean.warnings);
    let short = |n: usize, from: usize, to: usize| {
        let mut parts = parts.clone();
        let length = parts[n].len();
        parts[n] = parts[n][from * PACKET..length - to * PACKET].to_vec();
        parts
    };
    // The end of the first part is missing, from within a picture on.
    let pictures = packets_of(&parts[0], PICTURE_PID);
    let is_key = |at: &&usize| parts[0][**at + 3] & 0x20 != 0 && parts[0][**at + 5] & 0x40 != 0;
    let last_key = pictures.iter().rev().find(is_key).unwrap();
    let to = (parts[0].len() - last_key) / PACKET - 3;
    let before = short(0, 0, to);
    let played = Played::of(&before.concat());
    let (places, near) = losses_of(&played, "pictures").expect("named");
    assert_eq!(places, "one place");
    assert!((near - gap_of(&played)).abs() < 0.25 && near < 8.0, "{near}");
    // The beginning of the second part, with its tables and its first key frame.
    let at = short(1, 30, 0);
    assert_eq!(losses_of(&Played::of(&at.concat()), "pictures").expect("named").0, "one place");
    // Both, and twice in one file.
    let both = [&before[0][..], &parts[1], &parts[2][30 * PACKET..]].concat();
    let (places, near) = losses_of(&Played::of(&both), "pictures").expect("named");
    assert_eq!(places, "2 places");
    assert!(near < 8.0, "{near}");
    // After a joint: the second picture of the second part.
    let second = without(&parts[1], PICTURE_PID, 30, 40);
    let after = Played::of(&[&parts[0][..], &second, &parts[2]].concat());
    let (places, near) = losses_of(&after, "pictures").expect("named");
    assert_eq!(places, "one place");
    assert!((7.5..10.0).contains(&near), "{near}");
}

#[test]
fn an_interrupted_packet_of_sound_at_a_joint_is_a_loss() {
    let film_dir = FilmDir::new();
    let part =
        |name: &str, offset: u32| make(&film_dir, name, 4, &format!("{H264_AAC} -output_ts_offset {offset}"));
    let (first, second) = (part("a.ts", 0), part("b.ts", 100));
    let sound = packets_of(&first, SOUND_PID);
    // The middle of the last packet but one that carries sound: its length is stated.
    let begins: Vec<&usize> = sound.iter().filter(|at| first[**at + 1] & 0x40 != 0).collect();
    let cut = begins[begins.len() - 2] + 3 * PACKET;
    let played = Played::of(&[&first[..cut], &second].concat());
    let (places, near) = losses_of(&played, "sound").expect("named");
    assert_eq!(places, "one place");
    assert!((2.0..4.5).contains(&near), "{near}");
    assert_eq!(losses_of(&Played::of(&[first, second].concat()), "sound"), None);
}

#[test]
fn joints_without_loss_are_no_losses() {
    let film_dir = FilmDir::new();
    for codecs in [H264_AAC, HEVC_AC3] {
        let part = |offset: f64| {
            let name = format!("{offset}.ts");
            make(&film_dir, &name, 3, &format!("{codecs} -output_ts_offset {offset}"))
        };
        // Without a gap, with gaps of two seconds, overlaps, and jumps.
        for offsets in [[0.0, 3.0, 6.0], [0.0, 5.0, 10.0], [0.0, 2.5, 5.0], [0.0, 500.0, 20.0]] {
            let parts: Vec<Vec<u8>> = offsets.iter().map(|offset| part(*offset)).collect();
            let played = Played::of(&parts.concat());
            assert!(!played.warns_of("missing at"), "{offsets:?}: {:?}", played.warnings);
            // Counters of other multiplexers begin elsewhere, each time alike.
            let mut moved = parts.clone();
            for packet in moved.iter_mut().flat_map(|part| part.chunks_mut(PACKET)) {
                packet[3] = packet[3] & 0xf0 | (packet[3] + 7) & 0xf;
            }
            let played = Played::of(&moved.concat());
            assert!(!played.warns_of("missing at"), "{offsets:?}: {:?}", played.warnings);
        }
    }
}
