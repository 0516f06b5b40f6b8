//! Makes samples of one track from its frames.

use super::clock::{self, AudioClock, Reorder, VideoClock};
use super::text::TextFormat;
use crate::codec::{ac3, av1, flac, h264, hevc, mp3, nal, opus, vp9};
use crate::input::in_band::InBand;
use crate::input::sound_headers::SoundHeaders;
use crate::input::spacing::Timed;
use crate::input::warnings::Warnings;
use crate::{Codec, Description, Track, times};

/// How long a subtitle is shown if the file does not say.
const TEXT_MS: u32 = 5000;

/// The rules of a track.
pub(crate) enum TrackRules {
    Video(VideoRules),
    Audio(AudioRules),
    Text(TextFormat),
}

/// What the container states about a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    /// Nanoseconds after the start of the presentation; `None` for the later frames of a lace.
    pub(crate) ns: Option<i64>,
    /// The block's time, whichever frame of a lace this is.
    pub(crate) block_ns: i64,
    /// Marked as a key frame.
    pub(crate) key: bool,
    /// How long the block lasts, in nanoseconds.
    pub(crate) duration_ns: Option<i64>,
    /// Nanoseconds at the end that must not be heard.
    pub(crate) discard_ns: i64,
}

/// Rules of a video track.
pub(crate) struct VideoRules {
    pub(crate) codec: Codec,
    pub(crate) clock: VideoClock,
    pub(crate) reorder: Reorder,
    /// Duration of the last frame.
    pub(crate) nominal: u32,
    /// Bytes of the length before each NAL unit.
    pub(crate) length_bytes: usize,
    /// TrackNumber, for warnings.
    pub(crate) number: u64,
    /// Changes of decoder configuration within the frames.
    pub(crate) in_band: Option<InBand>,
    /// When the first picture after such a change is shown, until later ones are.
    pub(crate) changed_at: Option<i64>,
    /// Pictures that are shown before it and need pictures of the other configuration.
    pub(crate) leading: u64,
    /// A key frame has been seen.
    pub(crate) started: bool,
    /// Frames that were left out before it, and the time of the first of them.
    pub(crate) left: Option<(u64, i64)>,
}

/// Rules of an audio track.
pub(crate) struct AudioRules {
    codec: Codec,
    clock: AudioClock,
    packet_samples: u32,
    priming: i64,
    /// TrackNumber, for warnings.
    number: u64,
    headers: Option<SoundHeaders>,
    /// E-AC-3 frames of fewer than six blocks that wait for the rest of their sample.
    group: Option<Group>,
}

struct Group {
    stated: Stated,
    blocks: u32,
    data: Vec<u8>,
}

impl VideoRules {
    /// The sample of a frame; `None` before the first key frame.
    pub(crate) fn sample(
        &mut self,
        stated: Stated,
        mut data: Vec<u8>,
        warnings: &mut Warnings,
    ) -> Option<Timed> {
        let sync = self.sync(stated.key, &data);
        if !self.started && !sync {
            let (count, first_ns) = self.left.unwrap_or((0, stated.block_ns));
            self.left = Some((count + 1, first_ns));
            return None;
        }
        if let Some((count, first_ns)) = self.left.take() {
            let later_s = (stated.block_ns - first_ns) as f64 / 1e9;
            warnings.add(format!(
                "track {}: {count} frames before the first key frame cannot be decoded and are left out; the \
                 picture begins {later_s:.3} s later than stated, at {}",
                self.number,
                times::at(stated.block_ns, 1_000_000_000)
            ));
        }
        let change = self.follow(&data, sync, stated.block_ns);
        self.started = true;
        if self.codec == Codec::Av1 {
            av1::remove_temporal_delimiters(&mut data);
        }
        let pts = self.clock.pts(stated.block_ns);
        if change.is_some() {
            self.changed_at = Some(pts);
        }
        if self.leads(pts, &data) {
            self.leading += 1;
            return None;
        }
        let dts = self.reorder.dts(pts);
        if dts > pts {
            warnings.once("order", || {
                let at = times::at(stated.block_ns, 1_000_000_000);
                format!(
                    "video frames are reordered further than the stream states, the first at {at}; some decoding times are late"
                )
            });
        }
        Some(Timed { dts, pts, sync, nominal: self.nominal, data, change })
    }

    /// How the track is coded from this frame on, if that changes.
    fn follow(&mut self, data: &[u8], sync: bool, at_ns: i64) -> Option<Box<Description>> {
        let change = self.in_band.as_mut()?.follow(data, sync, (at_ns + 500_000).div_euclid(1_000_000));
        // The track is described as its first frame is.
        change.filter(|_| self.started)
    }

    /// Whether a picture precedes the key frame of a change and follows it in the file. A decoder
    /// that begins at the change cannot decode it.
    fn leads(&mut self, pts: i64, data: &[u8]) -> bool {
        let Some(changed_at) = self.changed_at else { return false };
        if pts > changed_at {
            self.changed_at = None;
        }
        let mut units = nal::length_prefixed(data, self.length_bytes);
        let is_skipped = |unit: &[u8]| hevc::kind(unit).is_some_and(|kind| hevc::unit::RASL.contains(&kind));
        match self.codec {
            Codec::H264 => pts < changed_at,
            Codec::Hevc => pts < changed_at && units.any(is_skipped),
            _ => false,
        }
    }

    /// States what was left out and what changed.
    pub(crate) fn finish(&mut self, warnings: &mut Warnings) {
        if let Some((count, _)) = self.left.take() {
            warnings.add(format!(
                "track {}: none of its {count} frames is a key frame, so that they cannot be decoded",
                self.number
            ));
        }
        if let Some(in_band) = &self.in_band {
            in_band.warn(self.number, warnings);
        }
        if self.leading > 0 {
            warnings.add(format!(
                "track {}: {} pictures just before such a change are left out: they need pictures from both sides of it",
                self.number, self.leading
            ));
        }
    }

    /// Some writers mark every frame, so the codec decides.
    fn sync(&self, marked: bool, data: &[u8]) -> bool {
        match self.codec {
            Codec::H264 => marked && h264::is_random_access(nal::length_prefixed(data, self.length_bytes)),
            Codec::Hevc => marked && hevc::is_random_access(nal::length_prefixed(data, self.length_bytes)),
            // A damaged header describes no picture.
            Codec::Vp9 => vp9::KeyFrame::parse(data).is_some(),
            Codec::Av1 => marked && av1::is_key_frame(data),
            _ => marked,
        }
    }
}

impl AudioRules {
    /// For a track of sound with this TrackNumber. `packet_samples` is for packets that do not
    /// state their length. The priming of the track is subtracted from every time.
    pub(crate) fn new(track: &Track, clock: AudioClock, packet_samples: u32, number: u64) -> Self {
        let priming = track.audio.as_ref().map_or(0, |audio| i64::from(audio.priming));
        let headers = SoundHeaders::new(track);
        Self { codec: track.codec, clock, packet_samples, priming, number, headers, group: None }
    }

    /// The sample of a packet; `None` while one is incomplete.
    pub(crate) fn sample(&mut self, stated: Stated, data: Vec<u8>) -> Option<Timed> {
        if self.codec != Codec::Eac3 {
            return Some(self.timed(stated, data));
        }
        let blocks: u32 = ac3::frames(&data).filter(ac3::Frame::starts_unit).map(|frame| frame.blocks).sum();
        let group = match self.group.take() {
            None => Group { stated, blocks, data },
            Some(mut group) => {
                group.data.extend_from_slice(&data);
                Group { blocks: group.blocks + blocks.max(1), ..group }
            }
        };
        if group.blocks >= ac3::SAMPLE_BLOCKS || group.blocks == 0 {
            return Some(self.timed(group.stated, group.data));
        }
        self.group = Some(group);
        None
    }

    /// The incomplete sample at the end; says what changed.
    pub(crate) fn finish(&mut self, warnings: &mut Warnings) -> Option<Timed> {
        if let Some(headers) = &self.headers {
            headers.warn(self.number, warnings);
        }
        let group = self.group.take()?;
        Some(self.timed(group.stated, group.data))
    }

    fn timed(&mut self, stated: Stated, data: Vec<u8>) -> Timed {
        if let Some(headers) = &mut self.headers {
            headers.see(&data, stated.block_ns / 1_000_000);
        }
        let samples = self.samples(&data);
        let pts = self.clock.pts(stated.ns, samples).saturating_sub(self.priming);
        let discard = clock::ticks(stated.discard_ns.max(0), self.clock.rate());
        let kept = i64::from(samples).saturating_sub(discard).max(1);
        Timed {
            dts: pts,
            pts,
            sync: true,
            nominal: u32::try_from(kept).unwrap_or(samples),
            data,
            change: None,
        }
    }

    fn samples(&self, data: &[u8]) -> u32 {
        let stated = match self.codec {
            Codec::Opus => opus::packet_samples(data),
            Codec::Flac => flac::StreamInfo::frame_samples(data),
            Codec::Mp3 => mp3::Header::parse(data).map(|header| header.samples),
            Codec::Ac3 | Codec::Eac3 => {
                Some(ac3::frames(data).filter(ac3::Frame::starts_unit).map(|frame| frame.samples()).sum())
            }
            _ => None,
        };
        stated.filter(|samples| *samples > 0).unwrap_or(self.packet_samples)
    }
}

/// The sample of a subtitle block; `None` if it shows nothing. It may begin before zero.
pub(crate) fn text_sample(format: TextFormat, stated: Stated, data: &[u8]) -> Option<Timed> {
    let cue = format.cue(data)?;
    let pts = stated.block_ns.div_euclid(1_000_000);
    let nominal = stated.duration_ns.map_or(TEXT_MS, |ns| u32::try_from(ns / 1_000_000).unwrap_or(TEXT_MS));
    Some(Timed { dts: pts, pts, sync: true, nominal, data: cue.into_bytes(), change: None })
}
