//! Transport streams that are stored as they are: every packet comes back, and the index says when
//! it is due.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::oracle::*;
use reel_media::MediaError;
use reel_media::transport::{PACKET_BYTES, StreamIndex, StreamReader, TICKS_PER_S};

const WRAP: u64 = 1 << 33;

/// What was read of a stream.
struct Read {
    packets: Vec<u8>,
    index: StreamIndex,
    warnings: Vec<String>,
}

impl Read {
    fn of(bytes: &[u8]) -> Result<Read, MediaError> {
        let mut reader = StreamReader::open(Box::new(Memory(bytes.to_vec())))?;
        let mut packets = Vec::new();
        while reader.read(100, &mut packets)? > 0 {}
        let (index, warnings) = reader.finish()?;
        let decoded = StreamIndex::decode(&index.encode().unwrap());
        assert_eq!(decoded.as_ref(), Ok(&index), "it can be stored");
        assert_eq!(index.bytes(), packets.len() as u64);
        Ok(Read { packets, index, warnings })
    }

    fn warns_of(&self, what: &str) -> bool {
        self.warnings.iter().any(|text| text.contains(what))
    }

    fn seconds(&self) -> f64 {
        self.index.duration_ticks() as f64 / TICKS_PER_S as f64
    }
}

/// H.264 with a key frame a second, AAC, constant rate and frequent tables.
fn stream(film_dir: &FilmDir) -> Vec<u8> {
    let codecs =
        "-c:v libx264 -preset ultrafast -g 25 -c:a aac -muxrate 1500k -pat_period 0.05 -pcr_period 20";
    std::fs::read(film_dir.make("a.ts", &[picture("25", 4), tone(440, 48_000, 4), words(codecs)])).unwrap()
}

/// Each packet with bytes before and after it.
fn stretched(bytes: &[u8], before: usize, after: usize) -> Vec<u8> {
    let packets = bytes.chunks_exact(PACKET_BYTES);
    packets.flat_map(|packet| [&vec![0x11; before], packet, &vec![0x22; after]].concat()).collect()
}

fn pid(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// The stream with its clock moved, so that it starts at `base` of 90 kHz.
fn from_clock(bytes: &[u8], base: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut moved = None;
    for packet in bytes.chunks_exact_mut(PACKET_BYTES) {
        if packet[3] & 0x20 == 0 || packet[4] < 7 || packet[5] & 0x10 == 0 {
            continue;
        }
        let old = u64::from(u32::from_be_bytes([packet[6], packet[7], packet[8], packet[9]])) << 1
            | u64::from(packet[10] >> 7);
        let by = *moved.get_or_insert((base + WRAP - old) % WRAP);
        let new = (old + by) % WRAP;
        packet[6..10].copy_from_slice(&u32::try_from(new >> 1).unwrap().to_be_bytes());
        packet[10] = packet[10] & 0x7f | u8::try_from(new & 1).unwrap() << 7;
    }
    bytes
}

#[test]
fn every_packet_comes_back_whatever_lies_between() {
    let film_dir = FilmDir::new();
    let plain = stream(&film_dir);
    let index = Read::of(&plain).unwrap().index;
    for (before, after) in [(0, 0), (4, 0), (0, 16)] {
        let read = Read::of(&stretched(&plain, before, after)).unwrap();
        assert!(read.packets == plain, "{before} and {after} bytes");
        assert_eq!(read.index, index);
        assert_eq!(read.warnings, [""; 0]);
    }
}

#[test]
fn times_follow_the_clock_and_the_rate() {
    let film_dir = FilmDir::new();
    let read = Read::of(&stream(&film_dir)).unwrap();
    assert!((3.9..4.3).contains(&read.seconds()), "{}", read.seconds());
    let mean = read.index.mean_bps() as f64;
    assert!((mean / 1.5e6 - 1.0).abs() < 0.02, "{mean}");
    let peak = read.index.peak_bps() as f64;
    assert!((peak / 1.5e6 - 1.0).abs() < 0.05, "{peak}");
    let far = read.index.times.windows(2).map(|two| two[1].ticks - two[0].ticks).max();
    assert!(far.unwrap() <= TICKS_PER_S / 10, "{far:?}");
    for join in &read.index.joins {
        let at = |packet: u64| &read.packets[packet as usize * PACKET_BYTES..][..PACKET_BYTES];
        assert_eq!((pid(at(join.tables)), pid(at(join.packet))), (0, 256));
        assert_eq!(at(join.packet)[5] & 0x40, 0x40, "a random access point");
    }
    assert_eq!(read.index.joins.len(), 4);
    let half_s = read.index.join_at(5 * TICKS_PER_S / 2).unwrap();
    assert_eq!(half_s, read.index.joins[2]);
}

#[test]
fn the_clock_may_wrap_or_jump() {
    let film_dir = FilmDir::new();
    let plain = stream(&film_dir);
    let whole = Read::of(&plain).unwrap();
    let wrapped = from_clock(&plain, WRAP - 2 * 90_000);
    let read = Read::of(&wrapped).unwrap();
    assert!(read.packets == wrapped);
    assert_eq!(read.index, whole.index);
    let twice = [from_clock(&plain, 1_000_000), plain.clone()].concat();
    let read = Read::of(&twice).unwrap();
    assert!(read.packets == twice);
    assert!(read.warns_of("the clock jumps at one place, first at 00:00:0"), "{:?}", read.warnings);
    assert!((read.seconds() / whole.seconds() - 2.0).abs() < 0.03, "{}", read.seconds());
    assert_eq!(read.index.times.iter().filter(|point| point.jump).count(), 1);
}

#[test]
fn damage_is_skipped_with_a_warning() {
    let film_dir = FilmDir::new();
    let plain = stream(&film_dir);
    let middle = 400 * PACKET_BYTES;
    let broken = [&plain[..middle], &[0; 1000], &plain[middle..]].concat();
    let read = Read::of(&broken).unwrap();
    assert!(read.packets == plain);
    assert!(read.warns_of("damage skipped: no packets from byte 75200 to 76200"), "{:?}", read.warnings);
    let read = Read::of(&plain[..plain.len() - 100]).unwrap();
    assert!(read.packets == plain[..plain.len() - PACKET_BYTES]);
    assert!(read.warns_of("the last 88 bytes are left out"), "{:?}", read.warnings);
    let read = Read::of(&plain[88..]).unwrap();
    assert!(read.packets == plain[PACKET_BYTES..]);
    assert!(read.warns_of("the first 100 bytes are left out"), "{:?}", read.warnings);
    let mut marked = plain.clone();
    marked[middle + 1] |= 0x80;
    let read = Read::of(&marked).unwrap();
    assert!(read.packets == marked);
    assert!(read.warns_of("stored as they are"), "{:?}", read.warnings);
}

#[test]
fn other_programmes_private_streams_and_old_codecs_are_kept() {
    let film_dir = FilmDir::new();
    let codecs = "-map 0:v -map 1:a -map 0:v -map 1:a -c:v:0 mpeg2video -c:a:0 mp2 -c:v:1 libx264 -preset ultrafast \
                  -c:a:1 ac3 -program program_num=1:st=0:st=1 -program program_num=2:st=2:st=3 -pat_period 0.05";
    let inputs = [picture("25", 2), tone(440, 48_000, 2), words(codecs)];
    let mut bytes = std::fs::read(film_dir.make("two.ts", &inputs)).unwrap();
    let mut private = [0xab; PACKET_BYTES];
    private[..4].copy_from_slice(&[0x47, 0x1d, 0xee, 0x10]);
    bytes.splice(50 * PACKET_BYTES..50 * PACKET_BYTES, private);
    let read = Read::of(&bytes).unwrap();
    assert!(read.packets == bytes);
    assert_eq!(read.index.programme, 2, "the one that can be played");
    let old = "-c:v mpeg2video -g 12 -c:a mp2 -pat_period 0.05";
    let old = film_dir.make("old.ts", &[picture("25", 2), tone(440, 48_000, 2), words(old)]);
    let bytes = std::fs::read(old).unwrap();
    let read = Read::of(&bytes).unwrap();
    assert!(read.packets == bytes);
    assert!(read.index.joins.len() >= 4, "{}", read.index.joins.len());
}

#[test]
fn rare_tables_and_clocks_are_warned_of() {
    let film_dir = FilmDir::new();
    let codecs = "-c:v libx264 -preset ultrafast -pat_period 0.5 -muxrate 1500k -pcr_period 300";
    let path = film_dir.make("rare.ts", &[picture("25", 3), words(codecs)]);
    let read = Read::of(&std::fs::read(path).unwrap()).unwrap();
    for what in ["(PCR)", "(PAT)", "(PMT)"] {
        assert!(read.warns_of(what), "{what}: {:?}", read.warnings);
    }
}

#[test]
fn what_is_no_stream_or_has_no_clock_is_refused() {
    let film_dir = FilmDir::new();
    let film = film_dir.make("a.mp4", &[picture("25", 1), words("-c:v libx264 -preset ultrafast")]);
    let error = Read::of(&std::fs::read(film).unwrap()).err().unwrap();
    assert!(matches!(error, MediaError::NotTransportStream), "{error}");
    assert!(matches!(Read::of(&[]).err(), Some(MediaError::Empty)));
    let mut silent = stream(&film_dir);
    let clocks =
        silent.chunks_exact_mut(PACKET_BYTES).filter(|packet| packet[3] & 0x20 != 0 && packet[4] > 0);
    clocks.for_each(|packet| packet[5] &= !0x10);
    let error = Read::of(&silent).err().unwrap();
    assert!(error.to_string().contains("no clock"), "{error}");
}
