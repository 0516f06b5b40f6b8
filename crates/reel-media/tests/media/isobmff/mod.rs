//! A second, independent parser of MP4: just enough to know which samples a file holds, and when
//! they are shown.
#![allow(dead_code, reason = "every test file uses its part")]

/// A sample as the file describes it; times in ticks of the track, presentation zero is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) dts: i64,
    pub(crate) pts: i64,
    pub(crate) duration: u32,
    pub(crate) sync: bool,
    pub(crate) data: Vec<u8>,
}

/// One box: kind, payload, and where the payload starts in the bytes given.
pub(crate) type Found<'a> = ([u8; 4], &'a [u8], usize);

/// The boxes that lie one after another in `bytes`.
pub(crate) fn boxes(bytes: &[u8]) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (mut size, mut head) = (u32_at(bytes, at) as usize, 8);
        if size == 1 {
            (size, head) = (usize::try_from(u64_at(bytes, at + 8)).unwrap(), 16);
        }
        assert!(size >= head && at + size <= bytes.len(), "a box of {size} bytes at {at} of {}", bytes.len());
        let kind: [u8; 4] = bytes[at + 4..at + 8].try_into().unwrap();
        found.push((kind, &bytes[at + head..at + size], at + head));
        at += size;
    }
    found
}

/// The payload at a path like `moov/trak/mdia`; the first box of each kind.
pub(crate) fn find<'a>(bytes: &'a [u8], path: &str) -> Option<&'a [u8]> {
    path.split('/').try_fold(bytes, |bytes, kind| {
        boxes(bytes).into_iter().find(|(found, ..)| found == kind.as_bytes()).map(|(_, payload, _)| payload)
    })
}

/// Samples of a CMAF object, fragment by fragment.
pub(crate) fn fragments(object: &[u8]) -> Vec<Vec<Seen>> {
    let offset = match find(object, "moov/trak/edts/elst") {
        Some(elst) => {
            assert_eq!(u32_at(elst, 4), 1, "one edit");
            if elst[0] == 1 { u64_at(elst, 16) as i64 } else { i64::from(u32_at(elst, 12)) }
        }
        None => 0,
    };
    let mut all = Vec::new();
    let mut at = 0;
    let mut expected_dts = None;
    for (kind, payload, start) in boxes(object) {
        if &kind == b"moof" {
            at = start - 8;
            assert_eq!(u32_at(find(payload, "mfhd").unwrap(), 4) as usize, all.len() + 1, "sequence numbers");
            let samples = run(&object[at..], payload, offset);
            if let Some(expected) = expected_dts {
                assert_eq!(samples[0].dts, expected, "fragments follow each other in decoding time");
            }
            let last = samples.last().unwrap();
            expected_dts = Some(last.dts + i64::from(last.duration));
            all.push(samples);
        } else if &kind == b"mdat" {
            let last: &Vec<Seen> = all.last().expect("a moof before the mdat");
            assert_eq!(payload.len(), last.iter().map(|s| s.data.len()).sum::<usize>());
            assert!(start > at);
        }
    }
    all
}

fn run(from_moof: &[u8], moof: &[u8], offset: i64) -> Vec<Seen> {
    let traf = find(moof, "traf").unwrap();
    let tfhd = find(traf, "tfhd").unwrap();
    assert_eq!(u32_at(tfhd, 0), 0x02_0038, "default-base-is-moof, duration, size, flags");
    let tfdt = find(traf, "tfdt").unwrap();
    assert_eq!(tfdt[0], 1);
    let mut dts = u64_at(tfdt, 4) as i64;
    let trun = find(traf, "trun").unwrap();
    let flags = u32_at(trun, 0) & 0x00ff_ffff;
    let mut data_at = u32_at(trun, 8) as usize;
    let mut at = 12;
    let mut next = |wanted: u32, default: u32| {
        if flags & wanted == 0 {
            return default;
        }
        at += 4;
        u32_at(trun, at - 4)
    };
    let mut first_flags = next(0x004, u32_at(tfhd, 16));
    (0..u32_at(trun, 4))
        .map(|_| {
            let duration = next(0x100, u32_at(tfhd, 8));
            let bytes = next(0x200, u32_at(tfhd, 12)) as usize;
            let sample_flags = next(0x400, first_flags);
            first_flags = u32_at(tfhd, 16);
            let composition = next(0x800, 0) as i32;
            let sample = Seen {
                dts,
                pts: dts + i64::from(composition) - offset,
                duration,
                sync: sample_flags & 0x0001_0000 == 0,
                data: from_moof[data_at..data_at + bytes].to_vec(),
            };
            dts += i64::from(duration);
            data_at += bytes;
            sample
        })
        .collect()
}

/// Samples of each track of a classic MP4 file.
pub(crate) fn classic(file: &[u8]) -> Vec<Vec<Seen>> {
    let movie_scale = u32_at(
        find(file, "moov/mvhd").unwrap(),
        if find(file, "moov/mvhd").unwrap()[0] == 1 { 20 } else { 12 },
    );
    let moov = find(file, "moov").unwrap();
    let traks = boxes(moov).into_iter().filter(|(kind, ..)| kind == b"trak");
    traks.map(|(_, trak, _)| classic_track(file, trak, movie_scale)).collect()
}

fn classic_track(file: &[u8], trak: &[u8], movie_scale: u32) -> Vec<Seen> {
    let mdhd = find(trak, "mdia/mdhd").unwrap();
    let scale = u32_at(mdhd, if mdhd[0] == 1 { 20 } else { 12 });
    let shift = find(trak, "edts/elst").map_or(0, |elst| edit_shift(elst, scale, movie_scale));
    let stbl = find(trak, "mdia/minf/stbl").unwrap();
    let durations = pairs(find(stbl, "stts").unwrap());
    let compositions = find(stbl, "ctts").map(pairs);
    let syncs: Option<Vec<u32>> =
        find(stbl, "stss").map(|b| (0..u32_at(b, 4)).map(|i| u32_at(b, 8 + 4 * i as usize)).collect());
    let stsz = find(stbl, "stsz").unwrap();
    let count = u32_at(stsz, 8) as usize;
    assert_eq!(durations.len(), count);
    let offsets: Vec<u64> = match find(stbl, "stco") {
        Some(b) => (0..u32_at(b, 4) as usize).map(|i| u64::from(u32_at(b, 8 + 4 * i))).collect(),
        None => {
            let b = find(stbl, "co64").unwrap();
            (0..u32_at(b, 4) as usize).map(|i| u64_at(b, 8 + 8 * i)).collect()
        }
    };
    let stsc = find(stbl, "stsc").unwrap();
    let runs: Vec<(u32, u32)> = (0..u32_at(stsc, 4) as usize)
        .map(|i| (u32_at(stsc, 8 + 12 * i), u32_at(stsc, 12 + 12 * i)))
        .collect();

    let mut seen = Vec::new();
    let mut dts = 0;
    for (chunk, offset) in offsets.iter().enumerate() {
        let mut at = usize::try_from(*offset).unwrap();
        let samples = runs.iter().rfind(|(first, _)| *first as usize <= chunk + 1).unwrap().1;
        for _ in 0..samples {
            let i = seen.len();
            let bytes = u32_at(stsz, 12 + 4 * i) as usize;
            let composition = compositions.as_ref().map_or(0, |all| all[i] as i32);
            seen.push(Seen {
                dts,
                pts: dts + i64::from(composition) + shift,
                duration: durations[i],
                sync: syncs.as_ref().is_none_or(|syncs| syncs.contains(&(i as u32 + 1))),
                data: file[at..at + bytes].to_vec(),
            });
            dts += i64::from(durations[i]);
            at += bytes;
        }
    }
    assert_eq!(seen.len(), count, "chunks hold all samples");
    seen
}

/// What to add to media times to get presentation times.
fn edit_shift(elst: &[u8], scale: u32, movie_scale: u32) -> i64 {
    let entry = |i: usize| {
        if elst[0] == 1 {
            (u64_at(elst, 8 + 20 * i), u64_at(elst, 16 + 20 * i) as i64)
        } else {
            (u64::from(u32_at(elst, 8 + 12 * i)), i64::from(u32_at(elst, 12 + 12 * i) as i32))
        }
    };
    match u32_at(elst, 4) {
        1 => -entry(0).1,
        2 => {
            assert_eq!(entry(0).1, -1, "an empty edit");
            // To the nearest tick: the movie timescale may be coarser.
            let ticks = (entry(0).0 * u64::from(scale) * 2 / u64::from(movie_scale)).div_ceil(2);
            ticks as i64 - entry(1).1
        }
        other => panic!("{other} edits"),
    }
}

fn pairs(table: &[u8]) -> Vec<u32> {
    let entries =
        (0..u32_at(table, 4) as usize).map(|i| (u32_at(table, 8 + 8 * i), u32_at(table, 12 + 8 * i)));
    entries.flat_map(|(count, value)| std::iter::repeat_n(value, count as usize)).collect()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}
