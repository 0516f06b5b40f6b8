//! What a file may cost, counted: calls of its source, units of work, samples and their bytes.

use super::boxes::{boxed, full, rewrite, words};
use super::movie::{AVCC, Trak, avc_entry, movie};
use super::sources::{Memory, Sparse, read};
use reel_media::{MediaError, Source};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was asked of a source.
#[derive(Default)]
struct Counts {
    reads: AtomicU64,
    units: AtomicU64,
}

/// A file that counts, and says that it is enough after some calls.
struct Counted {
    file: Memory,
    counts: Arc<Counts>,
    calls_max: u64,
}

impl Counted {
    fn enter(&self, calls: &AtomicU64, count: u64) -> io::Result<()> {
        calls.fetch_add(count, Ordering::Relaxed);
        self.counts
            .reads
            .load(Ordering::Relaxed)
            .cmp(&self.calls_max)
            .is_le()
            .then_some(())
            .ok_or_else(stopped)
    }
}

fn stopped() -> io::Error {
    io::Error::other("stopped")
}

impl Source for Counted {
    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.enter(&self.counts.reads, 1)?;
        self.file.read_at(offset, target)
    }

    fn work(&mut self, units: u64) -> io::Result<()> {
        self.enter(&self.counts.units, units)
    }
}

/// Opens a file; the calls of its source.
fn reads_to_open(file: Vec<u8>) -> (Result<usize, MediaError>, u64) {
    let counts = Arc::new(Counts::default());
    let source = Counted { file: Memory(file), counts: Arc::clone(&counts), calls_max: u64::MAX };
    let opened = reel_media::open(Box::new(source)).map(|demux| demux.tracks().len());
    (opened, counts.reads.load(Ordering::Relaxed))
}

/// Every sample of these tracks is the same stretch of the file, which is followed by `more` bytes.
fn overlapping(tracks: u32, samples: u32, bytes: u32, more: u64) -> Sparse {
    let traks: Vec<Trak> = (1..=tracks).map(|id| Trak::audio(id, 3)).collect();
    let file = rewrite(&movie(b"isom", &traks), &mut |kind, _| match kind {
        b"stsz" => Some(full(b"stsz", 0, 0, &words(&[bytes, samples]))),
        b"stsc" => Some(full(b"stsc", 0, 0, &words(&[1, 1, samples, 1]))),
        b"stco" => Some(full(b"stco", 0, 0, &words(&[1, 32]))),
        _ => None,
    });
    let at = file.len() as u64;
    Sparse { pieces: vec![(0, [file, boxed(b"free", &[])].concat()), (at + 8 + more, vec![0])] }
}

fn refused(file: impl Source + 'static, counted: &str) -> String {
    let error = read(file).err().expect("a file beyond its budget");
    assert!(matches!(&error, MediaError::Budget { what, .. } if what.contains(counted)), "{error}");
    error.to_string()
}

#[test]
fn tracks_that_share_their_bytes_are_not_copied_for_each() {
    let shared = read(overlapping(2, 20, 50_000, 1 << 20)).expect("two tracks may share their samples");
    assert_eq!(shared.packets.len(), 40);
    let text = refused(overlapping(22, 20, 1 << 20, 21 << 20), "several times");
    assert!(text.contains("copy its tracks"), "{text}");
}

#[test]
fn samples_are_paid_with_bytes() {
    // One sample for each byte, from tables of a few bytes.
    refused(overlapping(1, 3 << 20, 1, 4 << 20), "samples");
}

#[test]
fn empty_boxes_cost_few_reads() {
    let film = movie(b"isom", &[Trak::video(1, 5), Trak::audio(2, 5)]);
    let many = boxed(b"free", &[]).repeat(100_000);
    for file in [[many.clone(), film.clone()].concat(), [film.clone(), many].concat()] {
        let (opened, reads) = reads_to_open(file);
        assert_eq!(opened.expect("the boxes mean nothing"), 2);
        assert!(reads < 1000, "{reads} reads");
    }
    let traks: Vec<Trak> = (1..=20).map(|id| Trak::audio(id, 2)).collect();
    let fragments = boxed(b"moof", &[]).repeat(20_000);
    let (opened, reads) = reads_to_open([movie(b"isom", &traks), fragments].concat());
    assert_eq!(opened.expect("fragments of nothing"), 20);
    assert!(reads < 1000, "{reads} reads, whatever the number of tracks");
}

/// A film of 120 tracks, and a fragment with a run of one byte for each.
fn film_and_fragment() -> (Vec<u8>, Vec<u8>) {
    let traks: Vec<Trak> = (1..=120).map(|id| Trak::audio(id, 2)).collect();
    let of_track = |id| {
        let trun = full(b"trun", 0, 0x201, &words(&[1, 0, 1]));
        boxed(b"traf", &[full(b"tfhd", 0, 0, &words(&[id])), trun].concat())
    };
    let trex: Vec<u8> = (1..=120).flat_map(|id| full(b"trex", 0, 0, &words(&[id, 1, 1, 1, 0]))).collect();
    let film = rewrite(&movie(b"isom", &traks), &mut |kind, body| {
        (kind == b"moov").then(|| boxed(b"moov", &[body, &boxed(b"mvex", &trex)].concat()))
    });
    (film, (1..=120).flat_map(of_track).collect())
}

#[test]
fn fragments_of_all_tracks_have_a_budget() {
    // Each of many tracks walks every fragment, and every box in it.
    let (film, trafs) = film_and_fragment();
    let moof = boxed(b"moof", &trafs);
    assert!(read(Memory([film.clone(), moof.clone()].concat())).is_ok());
    refused(Memory([film.clone(), moof.repeat(400)].concat()), "steps of work");
    let empty = boxed(b"free", &[]).repeat(50_000);
    refused(Memory([film, boxed(b"moof", &[empty, trafs].concat())].concat()), "steps of work");
}

#[test]
fn a_track_has_a_bounded_number_of_descriptions() {
    let entries: Vec<u8> = avc_entry(b"avc1", &AVCC).repeat(5000);
    let film = rewrite(&movie(b"isom", &[Trak::video(1, 3)]), &mut |kind, _| {
        (kind == b"stsd").then(|| full(b"stsd", 0, 0, &[words(&[5000]), entries.clone()].concat()))
    });
    let error = read(Memory(film)).err().expect("more descriptions than changes that are taken");
    assert!(matches!(&error, MediaError::Limit { what, .. } if what.contains("descriptions")), "{error}");
}

#[test]
fn a_source_that_stops_ends_the_parsing_at_once() {
    let file = [movie(b"isom", &[Trak::video(1, 5)]), boxed(b"moof", &[0; 2000]).repeat(100)].concat();
    let counts = Arc::new(Counts::default());
    let source = Counted { file: Memory(file), counts: Arc::clone(&counts), calls_max: 10 };
    let error = reel_media::open(Box::new(source)).err().expect("stopped");
    assert!(error.to_string().contains("stopped"), "{error}");
    assert_eq!(counts.reads.load(Ordering::Relaxed), 11, "nothing is read after the refusal");
}

#[test]
fn work_that_reads_nothing_is_told() {
    let file = overlapping(1, 200_000, 1, 2 << 20);
    let bytes = file.bytes() as usize;
    let mut memory = vec![0; bytes];
    let mut file = file;
    file.read_at(0, &mut memory).expect("all of it");
    let counts = Arc::new(Counts::default());
    let source = Counted { file: Memory(memory), counts: Arc::clone(&counts), calls_max: u64::MAX };
    reel_media::open(Box::new(source)).expect("a file within its budget");
    assert!(counts.units.load(Ordering::Relaxed) >= 190_000, "the samples that were visited");
}
