//! The stored form of an index. Little-endian:
//!
//! `REELIDX` and a zero byte, version (u32), body, CRC-32C of everything before it (u32).
//!
//! Body: duration (u64 ns), number of tracks (u32), tracks, number of chapters (u32), chapters. A
//! string or byte string is its length (u32) and its bytes. An optional field is a byte 0 or 1 and,
//! if 1, the field. Offsets and times of fragments are not stored, because each follows from the
//! one before. Version 1 had no chapters, no changes and no metadata of high dynamic range; it is
//! read, not written.

use super::{Fragment, FrameRate, TitleIndex, TrackIndex};
use crate::cmaf::TableRange;
use crate::limits;
use crate::{Audio, Change, Chapter, Codec, Colour, Hdr, Track, TrackKind, Video};

const MAGIC: &[u8; 8] = b"REELIDX\0";
const VERSION: u32 = 2;
/// Without chapters, changes and metadata of high dynamic range.
const VERSION_WITHOUT_CHANGES: u32 = 1;

/// Why bytes are not an index, or an index cannot be stored.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// The checksum does not match.
    #[error("the title's index is damaged (wrong checksum); ingest the title again")]
    Checksum,
    /// Two statements of the index contradict each other.
    #[error("the title's index contradicts itself: track {track}: {what}; ingest the title again")]
    Contradiction {
        /// Track number, from 0.
        track: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Fields are missing or left over, or have invalid values.
    #[error("the title's index is malformed: {0}; ingest the title again")]
    Form(&'static str),
    /// A count or size exceeds a limit.
    #[error("the title's index: {what} is {value}, more than the limit of {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// What the index claims.
        value: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Written by another version of this program.
    #[error(
        "the title's index has version {0}; this program reads versions 1 to {VERSION}: ingest the title again, or \
             use the program that wrote it"
    )]
    Version(u32),
}

pub(super) fn encode(index: &TitleIndex) -> Vec<u8> {
    let mut out = Writer(MAGIC.to_vec());
    out.u32(VERSION);
    out.u64(index.duration_ns);
    out.u32(index.tracks.len() as u32);
    for track in &index.tracks {
        out.track(track);
    }
    out.u32(index.chapters.len() as u32);
    for chapter in &index.chapters {
        out.u64(chapter.start_ns);
        out.string(chapter.name.as_bytes());
    }
    let sum = crc_fast::crc32_iscsi(&out.0);
    out.u32(sum);
    out.0
}

pub(super) fn decode(bytes: &[u8]) -> Result<TitleIndex, IndexError> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(IndexError::Form("it does not start with the magic bytes"));
    };
    let version = Reader { rest, version: VERSION }.u32()?;
    if !(VERSION_WITHOUT_CHANGES..=VERSION).contains(&version) {
        return Err(IndexError::Version(version));
    }
    let Some((covered, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(IndexError::Form("it ends early"));
    };
    if crc_fast::crc32_iscsi(covered) != u32::from_le_bytes(*sum) {
        return Err(IndexError::Checksum);
    }
    let Some(body) = covered.get(MAGIC.len() + 4..) else {
        return Err(IndexError::Form("it ends early"));
    };
    let mut reader = Reader { rest: body, version };
    let duration_ns = reader.u64()?;
    let count = reader.count("the number of tracks", limits::OUT_TRACKS)?;
    let tracks = (0..count).map(|_| reader.track()).collect::<Result<_, _>>()?;
    let chapters = reader.chapters()?;
    if !reader.rest.is_empty() {
        return Err(IndexError::Form("there are bytes after its end"));
    }
    Ok(TitleIndex { duration_ns, tracks, chapters })
}

struct Writer(Vec<u8>);

impl Writer {
    fn track(&mut self, index: &TrackIndex) {
        let track = &index.track;
        self.u8(kind_code(track.kind));
        self.u8(codec_code(track.codec));
        self.string(&track.config);
        self.u32(track.timescale);
        self.optional(track.language.as_ref(), |w, text| w.string(text.as_bytes()));
        self.optional(track.name.as_ref(), |w, text| w.string(text.as_bytes()));
        self.u8(u8::from(track.default) | u8::from(track.forced) << 1);
        self.optional(track.video.as_ref(), Writer::video);
        self.optional(track.audio.as_ref(), Writer::audio);
        self.u32(index.object);
        self.u64(index.bytes);
        self.u32(index.init_bytes);
        self.u64(index.media_offset);
        self.u64(index.first_dts as u64);
        self.u64(index.media_duration);
        self.u64(index.start);
        self.u64(index.end);
        self.u64(index.samples);
        self.u8(u8::from(index.independent));
        self.optional(index.frame_rate.as_ref(), |w, rate| {
            w.u32(rate.numerator);
            w.u32(rate.denominator);
            w.u8(u8::from(rate.constant));
        });
        self.u64(index.average_bps);
        self.u64(index.peak_bps);
        self.u64(index.tables.offset);
        self.u64(index.tables.bytes);
        self.u32(index.fragments.len() as u32);
        for fragment in &index.fragments {
            self.u64(fragment.duration);
            self.u32(fragment.bytes);
            self.u32(fragment.samples);
            self.u32(fragment.header_bytes);
            self.u32(fragment.key_bytes);
        }
        self.u32(index.changes.len() as u32);
        for change in &index.changes {
            self.u32(change.fragment);
            self.u32(change.init_bytes);
            self.string(&change.config);
            self.optional(change.video.as_ref(), Writer::video);
            self.optional(change.audio.as_ref(), Writer::audio);
        }
    }

    fn audio(&mut self, audio: &Audio) {
        self.u16(audio.channels);
        self.u32(audio.sample_rate);
        self.u16(audio.sample_bits);
        self.u32(audio.priming);
    }

    fn video(&mut self, video: &Video) {
        self.u32(video.width);
        self.u32(video.height);
        self.u32(video.pixel_aspect.0);
        self.u32(video.pixel_aspect.1);
        self.u16(video.rotation);
        self.optional(video.colour.as_ref(), |w, colour| {
            w.u16(colour.primaries);
            w.u16(colour.transfer);
            w.u16(colour.matrix);
            w.u8(u8::from(colour.full_range));
        });
        self.optional(video.hdr.mastering.as_ref(), |w, body| w.0.extend_from_slice(body));
        self.optional(video.hdr.light.as_ref(), |w, (content, frame)| {
            w.u16(*content);
            w.u16(*frame);
        });
        self.optional(video.hdr.dolby_vision.as_ref(), |w, body| w.0.extend_from_slice(body));
    }

    fn optional<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Writer, &T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn string(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }

    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    version: u32,
}

impl Reader<'_> {
    fn track(&mut self) -> Result<TrackIndex, IndexError> {
        let kind = kind_of(self.u8()?)?;
        let codec = codec_of(self.u8()?)?;
        let config = self.bytes("a decoder configuration", limits::OUT_CONFIG_BYTES)?;
        let timescale = self.u32()?;
        let language = self.optional(|r| r.text("a track's language", limits::OUT_LANGUAGE_BYTES))?;
        let name = self.optional(|r| r.text("a track's name", limits::OUT_NAME_BYTES))?;
        let flags = self.u8()?;
        if flags > 3 {
            return Err(IndexError::Form("unknown flags"));
        }
        let (default, forced) = (flags & 1 != 0, flags & 2 != 0);
        let video = self.optional(Reader::video)?;
        let audio = self.optional(Reader::audio)?;
        let track = Track { kind, codec, config, timescale, language, name, default, forced, video, audio };
        let mut index = TrackIndex {
            track,
            object: self.u32()?,
            bytes: self.u64()?,
            init_bytes: self.u32()?,
            media_offset: self.u64()?,
            first_dts: self.u64()? as i64,
            media_duration: self.u64()?,
            start: self.u64()?,
            end: self.u64()?,
            samples: self.u64()?,
            independent: self.bool()?,
            frame_rate: self.optional(|r| {
                Ok(FrameRate { numerator: r.u32()?, denominator: r.u32()?, constant: r.bool()? })
            })?,
            average_bps: self.u64()?,
            peak_bps: self.u64()?,
            tables: TableRange { object: 0, offset: self.u64()?, bytes: self.u64()? },
            fragments: Vec::new(),
            changes: Vec::new(),
        };
        self.fragments(&mut index)?;
        index.changes = self.changes()?;
        index.place_fragments();
        Ok(index)
    }

    fn changes(&mut self) -> Result<Vec<Change>, IndexError> {
        if self.version == VERSION_WITHOUT_CHANGES {
            return Ok(Vec::new());
        }
        let count = self.count("the number of changes", limits::OUT_CHANGES)?;
        let change = |reader: &mut Self| {
            Ok(Change {
                fragment: reader.u32()?,
                init_bytes: reader.u32()?,
                config: reader.bytes("a decoder configuration", limits::OUT_CONFIG_BYTES)?,
                video: reader.optional(Reader::video)?,
                audio: reader.optional(Reader::audio)?,
            })
        };
        (0..count).map(|_| change(self)).collect()
    }

    fn chapters(&mut self) -> Result<Vec<Chapter>, IndexError> {
        if self.version == VERSION_WITHOUT_CHANGES {
            return Ok(Vec::new());
        }
        let count = self.count("the number of chapters", limits::OUT_CHAPTERS)?;
        let chapter = |reader: &mut Self| {
            Ok(Chapter {
                start_ns: reader.u64()?,
                name: reader.text("a chapter's name", limits::OUT_NAME_BYTES)?,
            })
        };
        (0..count).map(|_| chapter(self)).collect()
    }

    fn fragments(&mut self, index: &mut TrackIndex) -> Result<(), IndexError> {
        let count = self.count("the number of fragments", limits::OUT_FRAGMENTS)?;
        // 24 bytes each: the memory is bounded by the bytes that exist.
        index.fragments.reserve_exact(count.min(self.rest.len() / 24));
        let mut time = index.start;
        for _ in 0..count {
            let duration = self.u64()?;
            let bytes = self.u32()?;
            let (samples, header_bytes, key_bytes) = (self.u32()?, self.u32()?, self.u32()?);
            index.fragments.push(Fragment {
                offset: 0,
                time,
                duration,
                bytes,
                samples,
                header_bytes,
                key_bytes,
            });
            time = time.checked_add(duration).ok_or(IndexError::Form("its times are out of range"))?;
        }
        Ok(())
    }

    fn video(&mut self) -> Result<Video, IndexError> {
        Ok(Video {
            width: self.u32()?,
            height: self.u32()?,
            pixel_aspect: (self.u32()?, self.u32()?),
            rotation: self.u16()?,
            colour: self.optional(|r| {
                Ok(Colour {
                    primaries: r.u16()?,
                    transfer: r.u16()?,
                    matrix: r.u16()?,
                    full_range: r.bool()?,
                })
            })?,
            hdr: self.hdr()?,
        })
    }

    fn hdr(&mut self) -> Result<Hdr, IndexError> {
        if self.version == VERSION_WITHOUT_CHANGES {
            return Ok(Hdr::default());
        }
        Ok(Hdr {
            mastering: self.optional(Reader::array)?,
            light: self.optional(|r| Ok((r.u16()?, r.u16()?)))?,
            dolby_vision: self.optional(Reader::array)?,
        })
    }

    fn audio(&mut self) -> Result<Audio, IndexError> {
        Ok(Audio {
            channels: self.u16()?,
            sample_rate: self.u32()?,
            sample_bits: self.u16()?,
            priming: self.u32()?,
        })
    }

    fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, IndexError>,
    ) -> Result<Option<T>, IndexError> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    fn count(&mut self, what: &'static str, limit: usize) -> Result<usize, IndexError> {
        let value = self.u32()? as usize;
        if value > limit {
            return Err(IndexError::Limit { what, value: value as u64, limit: limit as u64 });
        }
        Ok(value)
    }

    fn bytes(&mut self, what: &'static str, limit: usize) -> Result<Vec<u8>, IndexError> {
        let count = self.count(what, limit)?;
        let Some((bytes, rest)) = self.rest.split_at_checked(count) else {
            return Err(IndexError::Form("it ends early"));
        };
        self.rest = rest;
        Ok(bytes.to_vec())
    }

    fn text(&mut self, what: &'static str, limit: usize) -> Result<String, IndexError> {
        String::from_utf8(self.bytes(what, limit)?).map_err(|_| IndexError::Form("a text that is not UTF-8"))
    }

    fn bool(&mut self) -> Result<bool, IndexError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(IndexError::Form("a flag is neither 0 nor 1")),
        }
    }

    fn u8(&mut self) -> Result<u8, IndexError> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Result<u16, IndexError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, IndexError> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(IndexError::Form("it ends early"));
        };
        self.rest = rest;
        Ok(*bytes)
    }
}

impl TrackIndex {
    /// Puts each fragment after the one before, and after the init segment of its change. Changes
    /// that are out of order are found by the check of the whole.
    fn place_fragments(&mut self) {
        let mut changes = self.changes.iter().peekable();
        let mut offset = u64::from(self.init_bytes);
        for (number, fragment) in self.fragments.iter_mut().enumerate() {
            if let Some(change) = changes.next_if(|change| change.fragment as usize == number) {
                offset += u64::from(change.init_bytes);
            }
            fragment.offset = offset;
            offset += u64::from(fragment.bytes);
        }
    }
}

fn kind_code(kind: TrackKind) -> u8 {
    match kind {
        TrackKind::Video => 1,
        TrackKind::Audio => 2,
        TrackKind::Subtitle => 3,
    }
}

fn kind_of(code: u8) -> Result<TrackKind, IndexError> {
    let kinds = [TrackKind::Video, TrackKind::Audio, TrackKind::Subtitle];
    kinds
        .into_iter()
        .find(|kind| kind_code(*kind) == code)
        .ok_or(IndexError::Form("an unknown kind of track"))
}

fn codec_code(codec: Codec) -> u8 {
    match codec {
        Codec::H264 => 1,
        Codec::Hevc => 2,
        Codec::Av1 => 3,
        Codec::Vp9 => 4,
        Codec::Aac => 16,
        Codec::Mp3 => 17,
        Codec::Opus => 18,
        Codec::Flac => 19,
        Codec::Ac3 => 20,
        Codec::Eac3 => 21,
        Codec::WebVtt => 32,
    }
}

fn codec_of(code: u8) -> Result<Codec, IndexError> {
    const ALL: [Codec; 11] = [
        Codec::H264,
        Codec::Hevc,
        Codec::Av1,
        Codec::Vp9,
        Codec::Aac,
        Codec::Mp3,
        Codec::Opus,
        Codec::Flac,
        Codec::Ac3,
        Codec::Eac3,
        Codec::WebVtt,
    ];
    ALL.into_iter().find(|codec| codec_code(*codec) == code).ok_or(IndexError::Form("an unknown codec"))
}
