//! Cuts a byte stream of AAC (ADTS), AC-3, E-AC-3 or MPEG audio into frames.

use super::marks::Marks;
use super::streams::Carries;
use crate::codec::{ac3, adts, mp3};
use crate::{Audio, Codec};

/// A frame as it will be stored.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The frame's bytes.
    pub(crate) data: Vec<u8>,
    /// Presentation time, if a PES packet stated it.
    pub(crate) pts: Option<i64>,
    /// Samples it decodes to.
    pub(crate) samples: u32,
    /// How it is coded; `None` if it cannot be stored.
    pub(crate) described: Option<Described>,
}

/// What a frame states about the stream.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    /// How it is coded.
    pub(crate) codec: Codec,
    /// Decoder configuration.
    pub(crate) config: Vec<u8>,
    /// Channels and rate.
    pub(crate) audio: Audio,
}

/// The cutter of one stream.
#[derive(Debug)]
pub(crate) struct AudioCutter {
    carries: Carries,
    pending: Vec<u8>,
    /// Position of `pending` in the elementary stream.
    base: u64,
    marks: Marks,
    /// The previous frame ended where `pending` begins.
    locked: bool,
    /// A frame that can be stored was found.
    found: bool,
    /// Why the stream cannot be stored, if it cannot.
    refused: Option<&'static str>,
    /// Places at which bytes follow a frame that begin no other one.
    pub(crate) damaged_places: u64,
    /// Bytes that are left out there.
    pub(crate) damaged_bytes: u64,
    within_damage: bool,
    /// An incomplete E-AC-3 sample.
    group: Option<Group>,
}

#[derive(Debug)]
struct Group {
    frame: Frame,
    blocks: u32,
}

/// One frame of the byte stream.
struct Found {
    header_bytes: usize,
    frame_bytes: usize,
    samples: u32,
}

impl AudioCutter {
    /// A cutter for a kind of sound.
    pub(crate) fn new(carries: Carries) -> Self {
        Self {
            carries,
            pending: Vec::new(),
            base: 0,
            marks: Marks::default(),
            locked: false,
            found: false,
            refused: None,
            damaged_places: 0,
            damaged_bytes: 0,
            within_damage: false,
            group: None,
        }
    }

    /// Why the stream cannot be stored, if its first frame shows that.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        self.refused
    }

    /// Takes payload; returns the frames that it completes.
    pub(crate) fn push(
        &mut self,
        stamps: Option<super::pes::Stamps>,
        payload: &[u8],
        complete: &mut Vec<Frame>,
    ) {
        if let Some(stamps) = stamps {
            self.marks.add(self.base + self.pending.len() as u64, stamps);
        }
        if self.refused.is_some() {
            return;
        }
        self.pending.extend_from_slice(payload);
        self.cut(false, complete);
    }

    /// Packets are missing: the unfinished frame is incomplete.
    pub(crate) fn lose(&mut self) {
        self.base += self.pending.len() as u64;
        self.pending.clear();
        (self.locked, self.within_damage) = (false, false);
    }

    /// Leaves a byte out. Before the first frame, and where packets are missing, that is no damage
    /// of its own.
    fn skip(&mut self) {
        if std::mem::take(&mut self.locked) {
            self.within_damage = true;
            self.damaged_places += 1;
        }
        self.damaged_bytes += u64::from(self.within_damage);
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self, complete: &mut Vec<Frame>) {
        self.cut(true, complete);
        if let Some(group) = self.group.take() {
            self.give_group(group, complete);
        }
    }

    fn cut(&mut self, last: bool, complete: &mut Vec<Frame>) {
        let mut at = 0;
        while let Some(rest) = self.pending.get(at..).filter(|rest| rest.len() >= ac3::HEADER_BYTES) {
            let Some(found) = self.find(rest) else {
                at += 1;
                self.skip();
                continue;
            };
            if rest.len() < found.frame_bytes {
                break;
            }
            let next = &rest[found.frame_bytes..];
            // A first header counts only if another one follows at the stated distance.
            if !self.locked && next.len() >= ac3::HEADER_BYTES && self.find(next).is_none() {
                at += 1;
                self.skip();
                continue;
            }
            if !self.locked && next.len() < ac3::HEADER_BYTES && !last {
                break;
            }
            (self.locked, self.within_damage) = (true, false);
            let range = at..at + found.frame_bytes;
            at = range.end;
            self.take(&found, range, complete);
            if self.refused.is_some() {
                break;
            }
        }
        self.pending.drain(..at.min(self.pending.len()));
        self.base += at as u64;
    }

    fn find(&self, bytes: &[u8]) -> Option<Found> {
        match self.carries {
            Carries::Aac => adts::Header::parse(bytes).map(|header| Found {
                header_bytes: header.header_bytes,
                frame_bytes: header.frame_bytes,
                samples: adts::FRAME_SAMPLES,
            }),
            Carries::Ac3 => ac3::Frame::parse(bytes).map(|frame| Found {
                header_bytes: 0,
                frame_bytes: frame.frame_bytes,
                samples: frame.samples(),
            }),
            _ => mp3::Header::parse(bytes).filter(|header| header.frame_bytes > mp3::HEADER_BYTES).map(
                |header| Found { header_bytes: 0, frame_bytes: header.frame_bytes, samples: header.samples },
            ),
        }
    }

    fn take(&mut self, found: &Found, range: std::ops::Range<usize>, complete: &mut Vec<Frame>) {
        let pts = self.marks.take(self.base + range.start as u64).map(|stamps| stamps.pts);
        let whole = &self.pending[range];
        let data = whole[found.header_bytes..].to_vec();
        let mut frame = Frame { data, pts, samples: found.samples, described: None };
        if self.carries != Carries::Ac3 {
            match describe(self.carries, whole) {
                Err(why) if !self.found => {
                    self.refused = Some(why);
                    return;
                }
                described => frame.described = described.ok(),
            }
            self.found = true;
            complete.push(frame);
            return;
        }
        let Some(header) = ac3::Frame::parse(whole) else { return };
        self.group(header, frame, complete);
    }

    fn give_group(&mut self, group: Group, complete: &mut Vec<Frame>) {
        let mut frame = group.frame;
        frame.described = describe_ac3(&frame.data);
        complete.push(frame);
    }

    /// E-AC-3 samples hold six blocks of every substream; an AC-3 frame always has six.
    fn group(&mut self, header: ac3::Frame, frame: Frame, complete: &mut Vec<Frame>) {
        if header.starts_unit()
            && let Some(group) = self.group.take_if(|group| group.blocks >= ac3::SAMPLE_BLOCKS)
        {
            self.give_group(group, complete);
        }
        match &mut self.group {
            Some(group) => {
                group.frame.data.extend_from_slice(&frame.data);
                if header.starts_unit() {
                    group.blocks += header.blocks;
                    group.frame.samples += frame.samples;
                }
            }
            // A dependent frame without its independent one is useless.
            None if header.starts_unit() => self.group = Some(Group { frame, blocks: header.blocks }),
            None => {}
        }
    }
}

impl Described {
    /// Whether one decoder configuration serves for both.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        // E-AC-3 states its bit rate in the configuration, which may vary.
        let config_counts = self.codec == Codec::Aac;
        self.codec == other.codec
            && (self.audio.channels, self.audio.sample_rate)
                == (other.audio.channels, other.audio.sample_rate)
            && (!config_counts || self.config == other.config)
    }
}

fn describe(carries: Carries, frame: &[u8]) -> Result<Described, &'static str> {
    const DAMAGED: &str = "its frames are damaged";
    if carries == Carries::Aac {
        let header = adts::Header::parse(frame).ok_or(DAMAGED)?;
        if header.blocks > 1 {
            return Err(
                "its AAC frames hold several blocks each, which MP4 cannot: remux it with ffmpeg first",
            );
        }
        let channels =
            header.channels().ok_or("its AAC channel layout is described inside the frames only")?;
        return Ok(Described {
            codec: Codec::Aac,
            config: header.audio_specific_config(),
            audio: audio(channels, header.sample_rate()),
        });
    }
    let header = mp3::Header::parse(frame).ok_or(DAMAGED)?;
    if header.layer != 3 {
        return Err("MPEG audio layer I or II, which Reel does not store");
    }
    let audio = audio(header.channels, header.sample_rate);
    Ok(Described { codec: Codec::Mp3, config: Vec::new(), audio })
}

fn describe_ac3(sample: &[u8]) -> Option<Described> {
    let first = ac3::Frame::parse(sample)?;
    let audio = audio(ac3::channels(sample)?, first.sample_rate);
    let enhanced = ac3::frames(sample).any(|frame| frame.enhanced);
    let (codec, config) =
        if enhanced { (Codec::Eac3, ac3::dec3(sample)?) } else { (Codec::Ac3, ac3::dac3(&first)) };
    Some(Described { codec, config, audio })
}

fn audio(channels: u16, sample_rate: u32) -> Audio {
    Audio { channels, sample_rate, sample_bits: 16, priming: 0 }
}
