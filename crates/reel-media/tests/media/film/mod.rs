//! Synthetic films: samples with valid times and recognisable bytes, and what the packager makes of
//! them.
#![allow(dead_code, reason = "every test file uses its part")]

use reel_media::cmaf::{CutPolicy, PackError, Packaged, Packager};
use reel_media::progressive::{ObjectRef, Part, VirtualFile};
use reel_media::{Audio, Codec, Packet, Sample, TitleIndex, Track, TrackKind, Video};
use std::ops::Range;

#[derive(Clone, Debug)]
pub(crate) struct Film {
    pub(crate) tracks: Vec<Track>,
    pub(crate) packets: Vec<(Packet, Vec<u8>)>,
}

/// The stored objects of a film.
pub(crate) struct Stored {
    pub(crate) index: TitleIndex,
    pub(crate) objects: Vec<Vec<u8>>,
    pub(crate) tables: Vec<u8>,
}

pub(crate) fn video(timescale: u32) -> Track {
    Track {
        kind: TrackKind::Video,
        codec: Codec::H264,
        config: vec![1, 0x64, 0, 0x1f, 0xff, 0xe1, 0, 1, 0x67, 1, 0, 1, 0x68],
        timescale,
        language: None,
        name: None,
        default: true,
        forced: false,
        video: Some(Video {
            width: 1280,
            height: 720,
            pixel_aspect: (1, 1),
            rotation: 0,
            colour: None,
            hdr: Default::default(),
        }),
        audio: None,
    }
}

pub(crate) fn audio(timescale: u32, priming: u32) -> Track {
    Track {
        kind: TrackKind::Audio,
        codec: Codec::Aac,
        config: vec![0x11, 0x90],
        timescale,
        language: Some("eng".into()),
        name: None,
        default: true,
        forced: false,
        video: None,
        audio: Some(Audio { channels: 2, sample_rate: timescale, sample_bits: 16, priming }),
    }
}

pub(crate) fn subtitle() -> Track {
    Track {
        kind: TrackKind::Subtitle,
        codec: Codec::WebVtt,
        config: Vec::new(),
        timescale: 1000,
        language: Some("fra".into()),
        name: Some("Sous-titres \"complets\"".into()),
        default: false,
        forced: false,
        video: None,
        audio: None,
    }
}

/// Samples of a track: `times` are (dts, pts, duration, sync); the bytes depend on track and
/// position.
pub(crate) fn samples(
    track: usize,
    times: impl IntoIterator<Item = (i64, i64, u32, bool)>,
) -> Vec<(Packet, Vec<u8>)> {
    times
        .into_iter()
        .enumerate()
        .map(|(i, (dts, pts, duration, sync))| {
            let mut data = vec![track as u8; 3 + (i * 7 + track) % 23];
            data[1..3].copy_from_slice(&(i as u16).to_be_bytes());
            (Packet { track, sample: Sample { dts, pts, duration, sync }, change: None }, data)
        })
        .collect()
}

/// One cue from 1 s to 3 s.
pub(crate) fn cue(track: usize, text: &str) -> Vec<(Packet, Vec<u8>)> {
    let mut cue = samples(track, [(1000, 1000, 2000, true)]);
    cue[0].1 = text.as_bytes().to_vec();
    cue
}

/// Frames of `ticks` each in groups of `gop`, each group I BBP BBP ...
pub(crate) fn frames(count: usize, ticks: u32, gop: usize, b_frames: bool) -> Vec<(i64, i64, u32, bool)> {
    (0..count)
        .map(|i| {
            let (group, place) = (i / gop, i % gop);
            let shown = match (b_frames, place) {
                (false, _) | (_, 0) => place,
                // The last frames of a group may be too few for a whole mini-group; they are shown
                // in decoding order.
                _ if (place - 1) / 3 * 3 + 3 >= gop.min(count - group * gop) => place,
                _ if place % 3 == 1 => place + 2,
                _ => place - 1,
            };
            let delay = if b_frames { 1 } else { 0 };
            let ticks_of = |n: usize| n as i64 * i64::from(ticks);
            (ticks_of(i) - delay * i64::from(ticks), ticks_of(group * gop + shown), ticks, place == 0)
        })
        .collect()
}

/// Sound frames of `ticks` each, the first one at `start`.
pub(crate) fn sound(count: usize, ticks: u32, start: i64) -> Vec<(i64, i64, u32, bool)> {
    (0..count).map(|i| start + i as i64 * i64::from(ticks)).map(|t| (t, t, ticks, true)).collect()
}

impl Film {
    /// Interleaves the tracks' samples by decoding time.
    pub(crate) fn new(tracks: Vec<Track>, lanes: Vec<Vec<(Packet, Vec<u8>)>>) -> Film {
        let mut packets: Vec<_> = lanes.into_iter().flatten().collect();
        let seconds = |packet: &Packet| packet.sample.dts as f64 / f64::from(tracks[packet.track].timescale);
        packets.sort_by(|(a, _), (b, _)| seconds(a).total_cmp(&seconds(b)));
        Film { tracks, packets }
    }

    /// Twelve seconds of video with B-frames, sound with warm-up, and a subtitle.
    pub(crate) fn usual() -> Film {
        let video_lane = samples(0, frames(300, 512, 50, true));
        let audio_lane = samples(1, sound(564, 1024, -1024));
        Film::new(
            vec![video(12_800), audio(48_000, 1024), subtitle()],
            vec![video_lane, audio_lane, cue(2, "Bonjour")],
        )
    }

    pub(crate) fn of(&self, track: usize) -> Vec<&(Packet, Vec<u8>)> {
        self.packets.iter().filter(|(packet, _)| packet.track == track).collect()
    }

    pub(crate) fn package(&self, policy: CutPolicy) -> Result<(Packaged, Vec<Vec<u8>>), PackError> {
        let mut packager = Packager::new(self.tracks.clone(), policy)?;
        let mut objects = vec![Vec::new(); self.tracks.len()];
        for (packet, data) in &self.packets {
            packager.push(packet, data)?;
            packager
                .take()
                .into_iter()
                .for_each(|piece| objects[piece.track].extend_from_slice(&piece.bytes));
        }
        let packaged = packager.finish()?;
        packaged.pieces.iter().for_each(|piece| objects[piece.track].extend_from_slice(&piece.bytes));
        Ok((packaged, objects))
    }

    pub(crate) fn store(&self) -> Stored {
        self.store_with(CutPolicy::default())
    }

    pub(crate) fn store_with(&self, policy: CutPolicy) -> Stored {
        let (packaged, objects) = self.package(policy).expect("a valid film");
        Stored::new(vec![(packaged, objects)])
    }
}

impl Stored {
    pub(crate) fn new(renditions: Vec<(Packaged, Vec<Vec<u8>>)>) -> Stored {
        let mut objects = Vec::new();
        let mut parts = Vec::new();
        for (packaged, pieces) in renditions {
            let kept = pieces.into_iter().zip(&packaged.tracks).filter(|(_, track)| track.is_some());
            objects.extend(kept.map(|(bytes, _)| bytes));
            parts.push(packaged);
        }
        let (index, tables) = TitleIndex::assemble(parts);
        Stored { index, objects, tables }
    }

    pub(crate) fn bytes(&self, part: &Part) -> Vec<u8> {
        let object =
            |bytes: &[u8], range: &Range<u64>| bytes[range.start as usize..range.end as usize].to_vec();
        match part {
            Part::Bytes(bytes, range) => bytes[range.clone()].to_vec(),
            Part::Object { object: ObjectRef::Tables(number), range } => {
                assert_eq!(*number, 0, "a film has one object of sample tables");
                object(&self.tables, range)
            }
            Part::Object { object: ObjectRef::Track(number), range } => {
                object(&self.objects[*number as usize], range)
            }
        }
    }

    pub(crate) fn read(&self, file: &VirtualFile, range: Range<u64>) -> Vec<u8> {
        file.slice(range).iter().flat_map(|part| self.bytes(part)).collect()
    }
}
