//! ffmpeg makes the files and ffprobe shows their contents; both are independent of this crate.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its part")]

use crate::film_dir::make_once;
use reel_media::{Demux, MediaError, Packet, Source};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file held in memory.
pub struct Memory(pub Vec<u8>);

impl Source for Memory {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let bytes = self.0.get(start..start + target.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(bytes);
        Ok(())
    }
}

/// A directory of generated files.
pub struct FilmDir(tempfile::TempDir);

/// A packet as ffprobe shows it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub stream: usize,
    pub pts: f64,
    pub dts: f64,
    pub key: bool,
    pub bytes: usize,
}

/// A sample as the demuxer under test returned it.
#[derive(Clone, Debug)]
pub struct Taken {
    pub packet: Packet,
    pub data: Vec<u8>,
}

/// Arguments for moving pictures.
pub fn picture(rate: &str, seconds: u32) -> Vec<String> {
    words(&format!("-f lavfi -i testsrc2=size=320x180:rate={rate}:duration={seconds}"))
}

/// Arguments for a tone.
pub fn tone(hertz: u32, rate: u32, seconds: u32) -> Vec<String> {
    words(&format!("-f lavfi -i sine=frequency={hertz}:sample_rate={rate}:duration={seconds}"))
}

/// Splits a command line without quotes.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

impl FilmDir {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("writable");
        path
    }

    /// Runs ffmpeg to make `name`. With several threads, x264 makes other bytes in about one run of
    /// 400; with one thread, equal arguments make equal files.
    pub fn make(&self, name: &str, arguments: &[Vec<String>]) -> PathBuf {
        let path = self.path(name);
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-threads", "2"]);
        make_once(ffmpeg.args(arguments.iter().flatten()).args(["-threads", "1"]), &path);
        path
    }
}

/// Packets of all streams of a file, in file order.
pub fn packets(path: &Path) -> Vec<Seen> {
    let json = ffprobe(path, &["-show_packets"]);
    let seconds =
        |packet: &serde_json::Value, key: &str| packet[key].as_str().and_then(|text| text.parse().ok());
    json["packets"]
        .as_array()
        .expect("packets")
        .iter()
        .map(|packet| Seen {
            stream: usize::try_from(packet["stream_index"].as_u64().unwrap()).unwrap(),
            pts: seconds(packet, "pts_time").unwrap_or(f64::NAN),
            dts: seconds(packet, "dts_time").unwrap_or(f64::NAN),
            key: packet["flags"].as_str().unwrap().starts_with('K'),
            bytes: packet["size"].as_str().unwrap().parse().unwrap(),
        })
        .collect()
}

/// The output of ffprobe as JSON.
pub fn ffprobe(path: &Path, what: &[&str]) -> serde_json::Value {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-of", "json"])
        .args(what)
        .arg(path)
        .output()
        .expect("ffprobe is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Checksums of the decoded frames of one stream.
pub fn frame_sums(path: &Path, format: Option<&str>, stream: &str) -> Vec<String> {
    decoded(path, format, stream).into_iter().map(|(_, sum)| sum).collect()
}

/// Times in seconds and checksums of the decoded frames of one stream.
pub fn timed_sums(path: &Path, stream: &str) -> Vec<(f64, String)> {
    decoded(path, None, stream)
}

fn decoded(path: &Path, format: Option<&str>, stream: &str) -> Vec<(f64, String)> {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-threads", "2"]);
    if let Some(format) = format {
        command.args(["-f", format]);
    }
    let output = command
        .arg("-i")
        .arg(path)
        .args([
            "-map",
            stream,
            "-fps_mode",
            "passthrough",
            "-enc_time_base",
            "1/90000",
            "-f",
            "framemd5",
            "-",
        ])
        .output()
        .expect("ffmpeg is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    // #tb 0: 1/90000
    let base: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix("#tb 0: 1/"))
        .map(|base| base.parse().unwrap())
        .expect("a time base");
    // stream, dts, pts, duration, size, checksum
    let frame = |line: &str| {
        let fields: Vec<_> = line.split(',').map(str::trim).collect();
        (fields[2].parse::<f64>().unwrap() / base, fields[5].to_owned())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(frame).collect()
}

/// Everything that a demuxer returns, with checks of what every demuxer guarantees.
pub fn drain(demux: &mut dyn Demux) -> Result<Vec<Taken>, MediaError> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut data = Vec::new();
    let mut position = demux.position();
    let mut last: Vec<Option<Packet>> = vec![None; demux.tracks().len()];
    while let Some(packet) = demux.next(&mut data)? {
        assert!(demux.position() >= position, "progress goes forward");
        position = demux.position();
        let place = &mut last[packet.track];
        if let Some(before) = place {
            assert!(
                packet.sample.dts >= before.sample.dts,
                "decoding times never decrease: {before:?} {packet:?}"
            );
        }
        *place = Some(packet.clone());
        taken.push(Taken { packet, data: data.clone() });
    }
    Ok(taken)
}

/// The samples of one track.
pub fn of_track(taken: &[Taken], track: usize) -> Vec<Taken> {
    taken.iter().filter(|taken| taken.packet.track == track).cloned().collect()
}

/// Decoding times and durations of audio and video fit together without gaps.
pub fn assert_contiguous(samples: &[Taken]) {
    for pair in samples.windows(2) {
        let [a, b] = [&pair[0].packet.sample, &pair[1].packet.sample];
        assert_eq!(a.dts + i64::from(a.duration), b.dts, "{a:?} {b:?}");
        assert!(a.dts <= a.pts, "{a:?}");
    }
}

/// Samples with four-byte lengths as a byte stream, parameter sets first.
pub fn annex_b(config_sets: &[Vec<u8>], samples: &[Taken]) -> Vec<u8> {
    let mut stream = Vec::new();
    for set in config_sets {
        stream.extend([0, 0, 0, 1]);
        stream.extend(set);
    }
    for sample in samples {
        let mut rest = &sample.data[..];
        while rest.len() > 4 {
            let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            stream.extend([0, 0, 0, 1]);
            stream.extend(&rest[4..4 + length]);
            rest = &rest[4 + length..];
        }
        assert!(rest.is_empty());
    }
    stream
}

/// Parameter sets of `avcC`.
pub fn avc_sets(config: &[u8]) -> Vec<Vec<u8>> {
    let mut sets = Vec::new();
    let mut at = 5;
    for mask in [0x1f, 0xff] {
        let count = config[at] & mask;
        at += 1;
        for _ in 0..count {
            let length = usize::from(u16::from_be_bytes([config[at], config[at + 1]]));
            sets.push(config[at + 2..at + 2 + length].to_vec());
            at += 2 + length;
        }
    }
    sets
}

/// Parameter sets of `hvcC`.
pub fn hevc_sets(config: &[u8]) -> Vec<Vec<u8>> {
    let mut sets = Vec::new();
    let mut at = 23;
    for _ in 0..config[22] {
        let count = u16::from_be_bytes([config[at + 1], config[at + 2]]);
        at += 3;
        for _ in 0..count {
            let length = usize::from(u16::from_be_bytes([config[at], config[at + 1]]));
            sets.push(config[at + 2..at + 2 + length].to_vec());
            at += 2 + length;
        }
    }
    sets
}
