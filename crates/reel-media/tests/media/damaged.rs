//! Films of every container, cut off, with other bits, and with sizes that cannot be: an error, or
//! a warning if anything is missing, and bounded reading.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::mkv_made::Counting;
use crate::oracle::*;
use reel_media::TrackKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What was read of a file.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    samples: usize,
    warnings: Vec<String>,
}

/// How often a file may be read: for its structure, its first frames, and all of its samples; with
/// damage, what is skipped is searched again.
const READINGS: usize = 8;
/// For blocks that are read as a whole whatever is needed of them.
const LEAST_BYTES: usize = 8 << 20;

/// Opens and reads a file, and checks what holds for any file. `None` if it is refused.
fn read(what: &str, bytes: &[u8]) -> Option<Outcome> {
    let count = Arc::new(AtomicUsize::new(0));
    let source = Counting(Memory(bytes.to_vec()), count.clone());
    let outcome = reel_media::open(Box::new(source)).ok().and_then(|mut demux| {
        let (mut samples, mut payload) = (0, 0);
        let mut data = Vec::new();
        loop {
            match demux.next(&mut data) {
                Ok(Some(packet)) => {
                    let is_text = demux.tracks()[packet.track].kind == TrackKind::Subtitle;
                    samples += 1;
                    payload += if is_text { 0 } else { data.len() };
                    assert!(
                        data.capacity() <= 10 * bytes.len() + 4096,
                        "{what}: {} bytes held",
                        data.capacity()
                    );
                }
                Ok(None) => break,
                Err(_) => return None,
            }
        }
        // Lengths before units take a little more than start codes.
        assert!(
            samples <= bytes.len() && payload <= 2 * bytes.len(),
            "{what}: {samples} samples, {payload} bytes"
        );
        Some(Outcome { samples, warnings: demux.warnings().to_vec() })
    });
    let read = count.load(Ordering::Relaxed);
    assert!(read <= READINGS * bytes.len() + LEAST_BYTES, "{what}: {read} bytes read of {}", bytes.len());
    outcome
}

/// A film of each container.
pub(crate) fn films() -> Vec<(&'static str, Vec<u8>)> {
    let film_dir = FilmDir::new();
    let x264 = "-c:v libx264 -preset ultrafast -bf 2 -g 10 -c:a aac -b:a 32k";
    let vp9 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 10 -c:a libopus -b:a 32k";
    [
        ("a.mp4", x264.to_owned()),
        ("first.mp4", format!("{x264} -movflags +faststart")),
        ("fragmented.mp4", format!("{x264} -movflags frag_keyframe+empty_moov+default_base_moof")),
        ("a.mov", x264.to_owned()),
        ("a.mkv", format!("{x264} -cluster_time_limit 300")),
        ("a.webm", vp9.to_owned()),
        ("a.ts", x264.to_owned()),
        (
            "a.m2ts",
            "-c:v libx264 -preset ultrafast -bf 2 -g 10 -c:a ac3 -f mpegts -mpegts_m2ts_mode 1".to_owned(),
        ),
    ]
    .into_iter()
    .map(|(name, codecs)| {
        let picture = words("-f lavfi -i testsrc2=size=64x64:rate=25:duration=2");
        let path = film_dir.make(name, &[picture, tone(440, 48_000, 2), words(&codecs)]);
        (name, std::fs::read(path).unwrap())
    })
    .collect()
}

/// Odd films: edit lists, fragments with several runs, chapters and cues, changes and joints.
pub(crate) fn odd_films() -> Vec<(&'static str, Vec<u8>)> {
    let film_dir = FilmDir::new();
    let input =
        || [words("-f lavfi -i testsrc2=size=64x64:rate=25:duration=2"), tone(440, 48_000, 2)].concat();
    let x264 = "-c:v libx264 -preset ultrafast -bf 2 -g 10 -c:a aac -b:a 32k";
    let make = |name: &str, codecs: &str| film_dir.make(name, &[input(), words(codecs)]);
    let of = |path: &std::path::Path| vec!["-i".to_owned(), path.to_string_lossy().into_owned()];
    let chapters = film_dir.write(
        "chapters.txt",
        b";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=900\ntitle=A\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=900\nEND=2000\ntitle=B\n",
    );
    let text = film_dir
        .write("a.srt", b"1\n00:00:00,100 --> 00:00:00,900\nHi\n\n2\n00:00:01,000 --> 00:00:01,500\nyou\n");
    let whole = make("whole.mp4", x264);
    let trimmed = film_dir.make("trim.mp4", &[words("-ss 0.3"), of(&whole), words("-c copy")]);
    let with_text = [of(&text), words("-f ffmetadata"), of(&chapters)].concat();
    let maps = "-map 0 -map 1 -map 2 -map_chapters 3 -c:s";
    let rich = |name: &str, text: &str| {
        let codecs = format!("{x264} {maps} {text} -cluster_time_limit 300");
        film_dir.make(name, &[input(), with_text.clone(), words(&codecs)])
    };
    let runs = make("runs.mp4", &format!("{x264} -movflags frag_every_frame+empty_moov+default_base_moof"));
    let part = |name: &str, codecs: &str, offset: u32, pid: u16| {
        let options = format!(
            "{codecs} -output_ts_offset {offset} -streamid 0:{pid} -streamid 1:{} -tables_version {offset}",
            pid + 1
        );
        std::fs::read(make(name, &options)).unwrap()
    };
    let small = format!("{x264} -ac 2 -s 32x32");
    let plain = part("1.ts", x264, 0, 256);
    let changed = [plain.clone(), part("2.ts", &small, 2, 256)].concat();
    let moved = [plain.clone(), part("3.ts", x264, 2, 400)].concat();
    let copied = film_dir.write("changed.ts", &changed);
    let in_band = film_dir.make("changed.mkv", &[of(&copied), words("-c copy")]);
    let in_mp4 = film_dir.make("changed.mp4", &[of(&copied), words("-c copy -tag:v avc3")]);
    let read = |path: std::path::PathBuf| std::fs::read(path).unwrap();
    vec![
        ("trim.mp4", read(trimmed)),
        ("runs.mp4", read(runs)),
        ("rich.mp4", read(rich("rich.mp4", "mov_text"))),
        ("rich.mkv", read(rich("rich.mkv", "srt"))),
        ("changed.mkv", read(in_band)),
        ("changed.mp4", read(in_mp4)),
        ("changed.ts", changed),
        ("moved.ts", moved),
        ("joined.ts", [plain.clone(), plain].concat()),
    ]
}

/// Numbers that look random and are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * end as u128) >> 64) as usize
    }
}

/// Cuts each film off at so many places.
pub(crate) fn assert_cut_films_are_refused_or_warned_of(films: &[(&str, Vec<u8>)], places: usize) {
    for (name, film) in films {
        let whole = read(name, film).unwrap();
        let mut numbers = Numbers(places as u64);
        for _ in 0..places {
            let left = 1 + numbers.below(film.len() - 1);
            let what = format!("{name} cut at {left} of {}", film.len());
            let Some(cut) = read(&what, &film[..left]) else { continue };
            // A recording of a transport stream may end after any packet.
            let may_end = name.ends_with("ts");
            assert!(cut.samples <= whole.samples, "{what}");
            assert!(
                cut.samples == whole.samples
                    || may_end
                    || cut.warnings.iter().any(|text| text.contains("cut off")),
                "{what}: {} samples",
                cut.samples
            );
        }
    }
}

/// Changes a few bits of each film, so many times.
pub(crate) fn assert_other_bits_do_no_harm(films: &[(&str, Vec<u8>)], times: usize) {
    for (name, film) in films {
        let mut numbers = Numbers(times as u64);
        for time in 0..times {
            let mut bytes = film.clone();
            for _ in 0..1 + numbers.below(20) {
                // Half of them near the beginning, where most of the structure is.
                let end = if numbers.below(2) == 0 { bytes.len() } else { bytes.len().min(1500) };
                let at = numbers.below(end);
                bytes[at] ^= 1 << numbers.below(8);
            }
            read(&format!("{name}, bits {time}"), &bytes);
        }
    }
}

/// Boxes of MP4 that hold boxes, with the bytes before those.
const HOLDERS: [(&[u8; 4], usize); 11] = [
    (b"moov", 0),
    (b"trak", 0),
    (b"mdia", 0),
    (b"minf", 0),
    (b"stbl", 0),
    (b"edts", 0),
    (b"mvex", 0),
    (b"moof", 0),
    (b"traf", 0),
    (b"stsd", 8),
    (b"avc1", 78),
];

/// Where boxes begin, at any depth.
fn boxes(bytes: &[u8], from: usize, to: usize, found: &mut Vec<usize>) {
    let mut at = from;
    while at + 8 <= to {
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        found.push(at);
        if size < 8 || at + size > to {
            return;
        }
        if let Some((_, skipped)) = HOLDERS.iter().find(|(kind, _)| bytes[at + 4..].starts_with(*kind)) {
            boxes(bytes, at + 8 + skipped, at + size, found);
        }
        at += size;
    }
}

/// Elements of Matroska that hold elements.
const MASTERS: [&[u8]; 6] = [
    &[0x18, 0x53, 0x80, 0x67],
    &[0x16, 0x54, 0xae, 0x6b],
    &[0xae],
    &[0xe0],
    &[0x1f, 0x43, 0xb6, 0x75],
    &[0xa0],
];

/// Where the sizes of elements lie and how long they are, at any depth.
fn elements(bytes: &[u8], from: usize, to: usize, found: &mut Vec<(usize, usize)>) {
    let mut at = from;
    while at < to {
        let id = bytes[at].leading_zeros() as usize + 1;
        let Some(length) = bytes.get(at + id).map(|first| first.leading_zeros() as usize + 1) else { return };
        if id > 4 || length > 8 || at + id + length > to {
            return;
        }
        let size =
            bytes[at + id..at + id + length].iter().fold(0u64, |size, byte| size << 8 | u64::from(*byte));
        let size = (size & !(1 << (7 * length))) as usize;
        found.push((at + id, length));
        let body = at + id + length;
        if MASTERS.contains(&&bytes[at..at + id]) {
            elements(bytes, body, (body.saturating_add(size)).min(to), found);
        }
        at = body.saturating_add(size);
    }
}

#[test]
fn boxes_of_impossible_sizes() {
    for (name, film) in
        films().iter().chain(&odd_films()).filter(|(name, _)| name.ends_with("mp4") || name.ends_with("mov"))
    {
        let mut places = Vec::new();
        boxes(film, 0, film.len(), &mut places);
        assert!(places.len() > 30, "{name}: {}", places.len());
        for at in places {
            for size in [1u32 << 31, u32::MAX, 0, 2] {
                let mut bytes = film.clone();
                bytes[at..at + 4].copy_from_slice(&size.to_be_bytes());
                read(&format!("{name}: box at {at} of {size}"), &bytes);
            }
            for size in [1u64 << 31, 1 << 63, u64::MAX, 3] {
                let mut bytes = film.clone();
                bytes[at..at + 4].copy_from_slice(&1u32.to_be_bytes());
                bytes.splice(at + 8..at + 8, size.to_be_bytes());
                read(&format!("{name}: large box at {at} of {size}"), &bytes);
            }
        }
    }
}

#[test]
fn elements_of_impossible_sizes() {
    for (name, film) in
        films().iter().chain(&odd_films()).filter(|(name, _)| name.ends_with("mkv") || name.ends_with("webm"))
    {
        let mut places = Vec::new();
        elements(film, 0, film.len(), &mut places);
        assert!(places.len() > 100, "{name}: {}", places.len());
        // The largest size, the unknown one, and two between.
        for (at, length) in places.into_iter().step_by(3) {
            for size in [1u64 << 31, (1 << 56) - 2, (1 << 56) - 1, 1 << 40] {
                let mut bytes = film.clone();
                bytes.splice(at..at + length, (size | 1 << 56).to_be_bytes());
                read(&format!("{name}: element at {at} of {size}"), &bytes);
            }
        }
    }
}

#[test]
fn packets_of_impossible_sizes() {
    for (name, film) in films().iter().chain(&odd_films()).filter(|(name, _)| name.ends_with("ts")) {
        let (packet, lead) = if name.ends_with("m2ts") { (192, 4) } else { (188, 0) };
        for number in 0..film.len() / packet {
            let at = number * packet + lead;
            // An adaptation field that claims more than its packet, and lengths of sections and PES
            // packets.
            for (place, value) in [(3, film[at + 3] | 0x20), (4, 0xff), (5, 0xff), (8, 0xff), (9, 0xff)] {
                if number % 5 != place % 5 {
                    continue;
                }
                let mut bytes = film.clone();
                bytes[at + place] = value;
                read(&format!("{name}: packet {number}, byte {place}"), &bytes);
            }
        }
    }
}

#[test]
fn films_cut_anywhere() {
    let films = films();
    for (name, film) in &films {
        let whole = read(name, film).unwrap();
        assert!(whole.warnings.is_empty(), "{name}: {:?}", whole.warnings);
    }
    assert_cut_films_are_refused_or_warned_of(&films, 50);
}

#[test]
fn odd_films_cut_anywhere() {
    assert_cut_films_are_refused_or_warned_of(&odd_films(), 50);
}

#[test]
fn films_with_other_bits() {
    assert_other_bits_do_no_harm(&films(), 50);
}

#[test]
fn odd_films_with_other_bits() {
    assert_other_bits_do_no_harm(&odd_films(), 50);
}
