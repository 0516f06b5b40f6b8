//! Files of fragments that were joined, repeated, damaged or lost.

use super::boxes::{boxed, full, rewrite, split, words};
use super::files::{H264, OTHER_TONE, PICTURE, TONE, film};
use super::movie::{Trak, movie};
use super::sources::{Memory, Read, read};
use crate::mkv_made::Counting;
use crate::oracle;
use proptest::prelude::*;
use reel_media::TrackKind;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const AAC: &[&str] = &["-c:a", "aac", "-ar", "48000"];
const SMALL: &[&str] = &["-f", "lavfi", "-i", "testsrc=size=160x90:rate=25:duration=2"];
const OTHER: &[&str] = &["-f", "lavfi", "-i", "testsrc=size=320x180:rate=25:duration=2"];
/// How fragments state the places of their data: from the `moof` box, in the file, each track in a
/// `moof` box of its own.
const FLAGS: [&str; 4] = [
    "empty_moov+default_base_moof",
    "empty_moov",
    "empty_moov+separate_moof",
    // With an edit list.
    "delay_moov+default_base_moof",
];

fn made(inputs: &[&[&str]], flags: &str) -> Vec<u8> {
    let flags = ["-movflags", flags];
    fs::read(film("mp4", &[inputs, &[H264, AAC, &flags]].concat())).expect("the film was made")
}

/// A film whose parts can be told from those of another one.
fn first(flags: &str) -> Vec<u8> {
    made(&[PICTURE, TONE], &format!("frag_keyframe+{flags}"))
}

fn second(flags: &str) -> Vec<u8> {
    made(&[OTHER, OTHER_TONE], &format!("frag_keyframe+{flags}"))
}

/// The head of a film (`ftyp`, `moov`), its fragments (`moof`, `mdat`), and the rest.
struct Pieces {
    head: Vec<u8>,
    fragments: Vec<Vec<u8>>,
    tail: Vec<u8>,
}

fn pieces(file: &[u8]) -> Pieces {
    let mut pieces = Pieces { head: Vec::new(), fragments: Vec::new(), tail: Vec::new() };
    for (kind, body) in split(file) {
        let bytes = boxed(&kind, &body);
        match &kind {
            b"moof" => pieces.fragments.push(bytes),
            b"mdat" => pieces.fragments.last_mut().expect("a `moof` before").extend(bytes),
            b"mfra" => pieces.tail.extend(bytes),
            _ => pieces.head.extend(bytes),
        }
    }
    pieces
}

impl Pieces {
    fn file(&self) -> Vec<u8> {
        [&self.head[..], &self.fragments.concat(), &self.tail].concat()
    }

    /// The bytes before a fragment.
    fn place(&self, fragment: usize) -> usize {
        self.head.len() + self.fragments[..fragment].concat().len()
    }
}

fn taken(file: &[u8]) -> Read {
    read(Memory(file.to_vec())).expect("a valid file")
}

/// Seconds and bytes of each sample of a track.
fn samples(read: &Read, kind: TrackKind) -> Vec<(f64, Vec<u8>)> {
    let track = read.tracks.iter().position(|track| track.kind == kind).expect("a track");
    let timescale = f64::from(read.tracks[track].timescale);
    let seconds = |pts: i64| pts as f64 / timescale;
    read.of(track).into_iter().map(|(packet, data)| (seconds(packet.sample.pts), data.clone())).collect()
}

fn data(samples: &[(f64, Vec<u8>)]) -> Vec<&Vec<u8>> {
    samples.iter().map(|(_, data)| data).collect()
}

/// All pictures and the sound of `one`, then those of `other`, without a pause and in step.
fn assert_in_a_row(what: &str, joined: &[u8], one: &[u8], other: &[u8]) {
    let [joined, one, other] = [joined, one, other].map(taken);
    assert!(joined.warnings.is_empty(), "{what}: {:?}", joined.warnings);
    let [all, of_one, of_other] = [&joined, &one, &other].map(|read| samples(read, TrackKind::Video));
    assert!(data(&all) == [data(&of_one), data(&of_other)].concat(), "{what}: {} pictures", all.len());
    // 25 pictures a second, whatever the order of decoding.
    let mut shown: Vec<f64> = all.iter().map(|(at, _)| *at).collect();
    shown.sort_by(f64::total_cmp);
    assert!(shown.windows(2).all(|pair| (pair[1] - pair[0] - 0.04).abs() < 1e-4), "{what}: {shown:?}");
    let moved = all[of_one.len()].0 - of_other[0].0;
    let [all, of_one, of_other] = [&joined, &one, &other].map(|read| samples(read, TrackKind::Audio));
    // Sound that would be heard twice is left out.
    let kept = all.len() - of_one.len();
    assert!((1..=11).contains(&(of_other.len() + 1 - kept)), "{what}: {kept} of {}", of_other.len());
    let heard = &of_other[of_other.len() - kept..];
    assert!(data(&all) == [data(&of_one), data(heard)].concat(), "{what}");
    for ((at, _), (own, _)) in all[of_one.len()..].iter().zip(heard) {
        assert!((at - own - moved).abs() < 1e-3, "{what}: {at} instead of {}", own + moved);
    }
    assert!(joined.packets.iter().all(|(packet, _)| packet.change.is_none()), "{what}");
}

#[test]
fn joined_films_of_fragments_are_played_one_after_the_other() {
    for flags in FLAGS {
        let (one, other) = (first(flags), second(flags));
        assert_in_a_row(flags, &[&one[..], &other].concat(), &one, &other);
        assert_in_a_row(flags, &[&other[..], &one].concat(), &other, &one);
        // The same film twice, and without the index of fragments between.
        assert_in_a_row(flags, &[&one[..], &one].concat(), &one, &one);
        let bare = Pieces { tail: Vec::new(), ..pieces(&one) }.file();
        assert_in_a_row(flags, &[&bare[..], &other].concat(), &one, &other);
        // Fragments alone, which count from the `moof` box.
        if flags != FLAGS[1] {
            let fragments = pieces(&other).fragments.concat();
            assert_in_a_row(flags, &[&bare[..], &fragments].concat(), &one, &other);
        }
    }
}

#[test]
fn a_head_before_each_fragment_changes_nothing() {
    let whole = first(FLAGS[0]);
    let pieces = pieces(&whole);
    let each: Vec<Vec<u8>> = pieces.fragments.iter().map(|one| [&pieces.head[..], one].concat()).collect();
    let read = taken(&each.concat());
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    assert!(read.packets == taken(&whole).packets);
}

#[test]
fn another_picture_size_is_a_change_of_description() {
    for flags in FLAGS {
        let one = first(flags);
        let other = made(&[SMALL, OTHER_TONE], &format!("frag_keyframe+{flags}"));
        let read = taken(&[&one[..], &other, &one].concat());
        let pictures = read.of(0);
        let widths: Vec<(usize, u32)> = pictures
            .iter()
            .enumerate()
            .filter_map(|(at, (packet, _))| {
                Some((at, packet.change.as_ref()?.video.as_ref().expect("pictures").width))
            })
            .collect();
        assert_eq!((pictures.len(), widths), (150, vec![(50, 160), (100, 320)]), "{flags}");
        assert!(read.warnings.is_empty(), "{flags}: {:?}", read.warnings);
    }
}

#[test]
fn a_film_of_other_tracks_is_left_out_and_named() {
    let one = first(FLAGS[0]);
    let flags = format!("frag_keyframe+{}", FLAGS[0]);
    let silent = made(&[OTHER], &flags);
    let hevc = &["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error"][..];
    let hevc = film("mp4", &[OTHER, OTHER_TONE, hevc, AAC, &["-movflags", &flags]]);
    let hevc = fs::read(hevc).expect("the film was made");
    let other_rate = made(&[&["-f", "lavfi", "-i", "testsrc=rate=30:duration=2"], OTHER_TONE], &flags);
    let alone = taken(&one);
    for other in [silent, hevc, other_rate] {
        let read = taken(&[&one[..], &other].concat());
        assert!(read.packets == alone.packets);
        let expected = format!(
            "another film begins at 00:00:02.080 at byte {}, and its {} bytes are left out, because its tracks \
             differ: store each film in a file of its own, or join them with a program that knows the container",
            one.len(),
            other.len()
        );
        assert_eq!(read.warnings, [expected]);
        // A third one may follow again.
        let read = taken(&[&one[..], &other, &one].concat());
        assert_eq!((read.of(0).len(), read.warnings.len()), (100, 1));
    }
}

#[test]
fn films_with_and_without_fragments() {
    let plain = fs::read(film("mp4", &[PICTURE, TONE, H264, AAC])).expect("the film was made");
    let fragmented = second(FLAGS[0]);
    assert_in_a_row("plain first", &[&plain[..], &fragmented].concat(), &plain, &fragmented);
    let read = taken(&[&fragmented[..], &plain].concat());
    assert!(read.packets == taken(&fragmented).packets);
    let expected = format!("begins at byte {}, and its {} bytes", fragmented.len(), plain.len());
    assert!(matches!(&read.warnings[..], [one] if one.contains(&expected)), "{:?}", read.warnings);
}

#[test]
fn a_fragment_that_is_there_twice_is_played_once() {
    for flags in FLAGS {
        let whole = pieces(&first(flags));
        let expected = taken(&whole.file());
        let last = whole.fragments.len() - 1;
        for (repeated, behind) in [(0, 0), (1, 1), (1, 2), (last, last), (0, last)] {
            let mut fragments = whole.fragments.clone();
            fragments.insert(behind + 1, whole.fragments[repeated].clone());
            let read = taken(&[&whole.head[..], &fragments.concat()].concat());
            assert!(read.packets == expected.packets, "{flags}: {repeated} behind {behind}");
            assert!(
                matches!(&read.warnings[..], [one] if one.contains("in the file twice, and is played once")),
                "{flags}: {:?}",
                read.warnings
            );
        }
        let all = [&whole.head[..], &whole.fragments.concat(), &whole.fragments.concat()].concat();
        let read = taken(&all);
        assert!(read.packets == expected.packets, "{flags}");
        let count = whole.fragments.len();
        assert!(
            read.warnings[0].starts_with(&format!("{count} fragments are in the file twice, the first at "))
        );
    }
}

/// Samples of the whole film, without those shown from `from` to `to` in pictures of 40 ms.
fn assert_without(what: &str, read: &Read, whole: &Read, from: f64, to: f64) {
    for kind in [TrackKind::Video, TrackKind::Audio] {
        let slack = if kind == TrackKind::Video { 0.001 } else { 0.045 };
        let (all, left) = (samples(whole, kind), samples(read, kind));
        let is_lost = |at: f64| at > from - slack && at < to - slack;
        let surely = all.iter().filter(|(at, _)| !(*at > from - 0.045 && *at < to + 0.045)).count();
        assert!(left.len() >= surely && left.len() < all.len(), "{what}: {} of {}", left.len(), all.len());
        assert!(left.iter().all(|sample| all.contains(sample)), "{what}: {kind:?}");
        if kind == TrackKind::Video {
            let due: Vec<_> = all.iter().filter(|(at, _)| !is_lost(*at)).cloned().collect();
            assert!(left == due, "{what}: {} of {} pictures", left.len(), due.len());
        }
    }
}

#[test]
fn a_missing_fragment_is_named_with_its_time_and_length() {
    for flags in &FLAGS[..2] {
        let whole = pieces(&first(flags));
        let expected = taken(&whole.file());
        let mut one_less = whole.fragments.clone();
        one_less.remove(1);
        let read = taken(&[&whole.head[..], &one_less.concat()].concat());
        assert_without(flags, &read, &expected, 0.56, 1.04);
        assert_eq!(
            read.warnings,
            [
                "pictures and sound from 00:00:00.560 to 00:00:01.040 (0.480 s) are missing: the file does not have \
              their fragments"
            ],
            "{flags}"
        );
        // The first one: the others are found, also if they state places in the file.
        let read = taken(&[&whole.head[..], &whole.fragments[1..].concat()].concat());
        let (left, all) = (samples(&read, TrackKind::Video), samples(&expected, TrackKind::Video));
        assert!(data(&left) == data(&all[12..]), "{flags}: {}", left.len());
        // Two in a row, and two apart.
        let mut less = whole.fragments.clone();
        less.drain(1..3);
        let read = taken(&[&whole.head[..], &less.concat()].concat());
        assert!(
            read.warnings[0].contains("from 00:00:00.560 to 00:00:01.520 (0.960 s)"),
            "{:?}",
            read.warnings
        );
        let mut less = whole.fragments.clone();
        less.remove(3);
        less.remove(1);
        let read = taken(&[&whole.head[..], &less.concat()].concat());
        assert_eq!(read.warnings.len(), 2, "{:?}", read.warnings);
    }
}

#[test]
fn pictures_after_a_loss_begin_with_a_key_frame() {
    let flags = ["-movflags", FLAGS[0], "-frag_duration", "200000"];
    let whole = pieces(&fs::read(film("mp4", &[PICTURE, TONE, H264, AAC, &flags])).expect("made"));
    assert!(whole.fragments.len() > 8, "{}", whole.fragments.len());
    let all = taken(&whole.file());
    let keys: Vec<i64> = all
        .of(0)
        .iter()
        .filter(|(packet, _)| packet.sample.sync)
        .map(|(packet, _)| packet.sample.pts)
        .collect();
    for lost in 1..whole.fragments.len() - 2 {
        let mut less = whole.fragments.clone();
        less.remove(lost);
        let read = taken(&[&whole.head[..], &less.concat()].concat());
        let left: Vec<_> =
            read.of(0).iter().map(|(packet, data)| (packet.sample.pts, data.clone())).collect();
        let due: Vec<_> = all.of(0).iter().map(|(packet, data)| (packet.sample.pts, data.clone())).collect();
        let cut = left.iter().zip(&due).take_while(|(left, due)| left == due).count();
        let behind = left.len() - cut;
        assert!(left[cut..] == due[due.len() - behind..], "{lost}");
        assert!(behind == 0 || keys.contains(&left[cut].0), "{lost}: {}", left[cut].0);
        // The end of the loss is that key frame, or the end of the film.
        let until = left.get(cut).map_or(2.08, |(pts, _)| *pts as f64 / f64::from(read.tracks[0].timescale));
        let expected = format!(" to 00:00:{until:06.3} (");
        assert!(
            matches!(&read.warnings[..], [one] if one.contains(&expected)),
            "{lost}, {expected}: {:?}",
            read.warnings
        );
    }
}

#[test]
fn pauses_between_fragments_are_no_loss() {
    let whole = pieces(&first(FLAGS[0]));
    let mut less = whole.fragments.clone();
    less.remove(1);
    // The numbers have no gap: the encoder stood still.
    for (number, fragment) in less.iter_mut().enumerate() {
        assert_eq!(fragment[12..16], *b"mfhd");
        fragment[20..24].copy_from_slice(&(number as u32 + 1).to_be_bytes());
    }
    let read = taken(&[&whole.head[..], &less.concat()].concat());
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
}

/// The place of the first box of a kind.
fn find(bytes: &[u8], kind: &[u8; 4]) -> usize {
    bytes.windows(4).position(|window| window == kind).expect("a box")
}

#[test]
fn a_damaged_fragment_is_left_out_and_named() {
    type Damage = (&'static str, fn(&mut Vec<u8>));
    let damages: [Damage; 7] = [
        ("count of samples", |fragment| {
            let at = find(fragment, b"trun");
            fragment[at + 8..at + 12].fill(0x7f);
        }),
        ("length of a box", |fragment| {
            let at = find(fragment, b"traf");
            fragment[at - 2] ^= 0x40;
        }),
        ("time", |fragment| {
            let at = find(fragment, b"tfdt");
            fragment[at + 8] = 0x7f;
        }),
        ("time far behind", |fragment| {
            let at = find(fragment, b"tfdt");
            fragment[at + 13] ^= 0x10;
        }),
        ("time before", |fragment| {
            let at = find(fragment, b"tfdt");
            fragment[at + 8..at + 16].fill(0);
        }),
        ("cut data", |fragment| fragment.truncate(fragment.len() - 700)),
        ("length of the moof box", |fragment| fragment[2] = 0x70),
    ];
    for flags in &FLAGS[..3] {
        let whole = pieces(&first(flags));
        let expected = taken(&whole.file());
        for (what, damage) in damages {
            let what = format!("{what}, {flags}");
            let mut damaged = pieces(&first(flags));
            // With tracks in their own boxes, the second is that of sound.
            let which = if *flags == FLAGS[2] { 2 } else { 1 };
            damage(&mut damaged.fragments[which]);
            let read = taken(&damaged.file());
            let pictures = samples(&read, TrackKind::Video).len();
            assert_eq!(pictures, 38, "{what}: {:?}", read.warnings);
            if *flags != FLAGS[2] {
                assert_without(&what, &read, &expected, 0.56, 1.04);
            }
            let expected = format!(
                "a damaged fragment at byte {} is left out: pictures and sound from 00:00:00.560 to 00:00:01.040 \
                 (0.480 s) are missing",
                whole.place(which)
            );
            assert_eq!(read.warnings, [expected], "{what}");
        }
    }
}

#[test]
fn damage_at_both_ends_and_in_two_fragments() {
    let whole = pieces(&first(FLAGS[0]));
    let last = whole.fragments.len() - 1;
    let damage = |which: &[usize]| {
        let mut damaged = pieces(&whole.file());
        for which in which {
            let at = find(&damaged.fragments[*which], b"trun");
            damaged.fragments[*which][at + 8..at + 12].fill(0x7f);
        }
        taken(&damaged.file())
    };
    let read = damage(&[last]);
    let expected =
        format!("a damaged fragment at byte {} is left out, after 00:00:02.000", whole.place(last));
    assert_eq!(read.warnings, [expected]);
    assert_eq!(samples(&read, TrackKind::Video).len(), 48);
    let read = damage(&[0]);
    assert_eq!(read.warnings, [format!("a damaged fragment at byte {} is left out", whole.place(0))]);
    assert_eq!(samples(&read, TrackKind::Video).len(), 38);
    let read = damage(&[1, 2]);
    let expected = format!(
        "2 damaged fragments from byte {} on are left out: pictures and sound from 00:00:00.560 to 00:00:01.520 \
         (0.960 s) are missing",
        whole.place(1)
    );
    assert_eq!(read.warnings, [expected]);
    let read = damage(&[1, 3]);
    assert_eq!((read.warnings.len(), samples(&read, TrackKind::Video).len()), (2, 26), "{:?}", read.warnings);
}

#[test]
fn a_wrong_length_of_a_box_of_data_loses_nothing() {
    for flags in FLAGS {
        let whole = pieces(&first(flags));
        let expected = taken(&whole.file());
        for fragment in 0..whole.fragments.len() - 1 {
            for size in [0, 9, 600, 1 << 20, 1 << 31] {
                let mut damaged = pieces(&whole.file());
                let at = find(&damaged.fragments[fragment], b"mdat") - 4;
                damaged.fragments[fragment][at..at + 4].copy_from_slice(&u32::to_be_bytes(size));
                let read = taken(&damaged.file());
                assert!(read.packets == expected.packets, "{flags}: {fragment}, {size}: {:?}", read.warnings);
            }
        }
    }
}

#[test]
fn a_film_that_is_cut_off_before_another_one() {
    let (one, other) = (first(FLAGS[0]), second(FLAGS[0]));
    let cut = pieces(&one).place(2) + 900;
    let read = taken(&[&one[..cut], &other].concat());
    assert_eq!(samples(&read, TrackKind::Video).len(), 24 + 50, "{:?}", read.warnings);
    assert!(read.warnings[0].starts_with("a damaged fragment at byte "), "{:?}", read.warnings);
}

/// Bytes that are read to open a file, whatever comes of it.
fn bytes_to_open(file: Vec<u8>) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let source = Counting(oracle::Memory(file), Arc::clone(&count));
    let _ = reel_media::open(Box::new(source)).map(|demux| demux.tracks().len());
    count.load(Ordering::Relaxed)
}

/// A film without samples, and a fragment of one sample of `bytes` at `offset`, at `time`.
fn crafted() -> (Vec<u8>, impl Fn(u32, u32, u32, u32) -> Vec<u8>) {
    let mvex = boxed(b"mvex", &full(b"trex", 0, 0, &words(&[1, 1, 40, 0, 0])));
    let film = rewrite(&movie(b"isom", &[Trak::video(1, 0)]), &mut |kind, body| {
        (kind == b"moov").then(|| boxed(b"moov", &[body, &mvex].concat()))
    });
    let fragment = |number: u32, time: u32, offset: u32, bytes: u32| {
        let tfhd = full(b"tfhd", 0, 1, &words(&[1, 0, offset]));
        let tfdt = full(b"tfdt", 0, 0, &words(&[time]));
        let trun = full(b"trun", 0, 0x301, &words(&[1, 0, 40, bytes]));
        let traf = boxed(b"traf", &[tfhd, tfdt, trun].concat());
        boxed(b"moof", &[full(b"mfhd", 0, 0, &words(&[number])), traf].concat())
    };
    (film, fragment)
}

#[test]
fn hostile_fragments_are_read_a_few_times() {
    let (film, fragment) = crafted();
    let data = boxed(b"mdat", &[7; 1 << 20]);
    let place = film.len() as u32 + 8;
    let head = [&film[..], &data].concat();
    let of = |fragments: Vec<Vec<u8>>| [&head[..], &fragments.concat()].concat();
    for (what, file) in [
        // The same data, compared repeatedly.
        ("copies", of(vec![fragment(1, 0, place, 1 << 20); 20_000])),
        ("back and forth", of((0..20_000).map(|n| fragment(n, n % 2 * 40_000, place, 9)).collect())),
        ("jumps", of((0..20_000).map(|n| fragment(n, n * 20_000, place, 9)).collect())),
        ("gaps", of((0..20_000).map(|n| fragment(n * 2, n * 80, place, 9)).collect())),
        // Boxes that are not known, and data that ends nowhere.
        (
            "unknown boxes",
            of((0..20_000)
                .map(|n| [fragment(n, n * 40, place, 9), boxed(b"abcd", &[0; 8])].concat())
                .collect()),
        ),
        (
            "unknown boxes behind",
            of([vec![fragment(0, 0, place, 9)], vec![boxed(b"abcd", &[0; 8]); 20_000]].concat()),
        ),
        (
            "no end",
            of((0..20_000)
                .map(|n| [fragment(n, n * 40, place, 9), b"\x7f\0\0\0mdat".to_vec()].concat())
                .collect()),
        ),
        ("heads", of(vec![film.clone(); 5000])),
    ] {
        let all = file.len();
        let read = bytes_to_open(file);
        assert!(read <= 12 * all + (8 << 20), "{what}: {read} bytes of {all}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Fragments of two films in any order, some of them often, some not at all: what is played is
    /// in order, nothing is shown over something else, and all of it is from the films.
    #[test]
    fn fragments_in_any_order(
        order in prop::collection::vec(0usize..12, 1..16),
        flags in prop::sample::select(vec![FLAGS[0], FLAGS[2], FLAGS[3]]),
    ) {
        let films = [pieces(&first(flags)), pieces(&second(flags))];
        let all: Vec<&Vec<u8>> = films.iter().flat_map(|film| &film.fragments).collect();
        let chosen = order.iter().map(|at| all[at % all.len()].clone());
        let file = [films[0].head.clone()].into_iter().chain(chosen).collect::<Vec<_>>().concat();
        let Ok(read) = read(Memory(file)) else { return Ok(()) };
        let sources = films.map(|film| taken(&film.file()));
        for (track, described) in read.tracks.iter().enumerate() {
            let packets = read.of(track);
            prop_assert!(packets.is_sorted_by_key(|(packet, _)| packet.sample.dts));
            let mut times: Vec<i64> = packets.iter().map(|(packet, _)| packet.sample.pts).collect();
            times.sort_unstable();
            // The last frame of sound of a film is shorter than others.
            let step = if described.kind == TrackKind::Video { 512 } else { 256 };
            let is_apart = |pair: &[i64]| pair[1] - pair[0] >= step;
            prop_assert!(times.windows(2).all(is_apart), "{order:?}, {flags}: {:?} {times:?}", described.kind);
            let is_known = |data: &Vec<u8>| sources.iter().any(|source| source.packets.iter().any(|(_, of)| of == data));
            prop_assert!(packets.iter().all(|(_, data)| is_known(data)));
            prop_assert!(described.kind != TrackKind::Video || packets.first().is_none_or(|(packet, _)| packet.sample.sync));
        }
    }
}
