//! Makes a [`Track`] and the rules for its samples from a track entry and its first frames.

use super::clock::{self, AudioClock, FrameDuration, Reorder, VideoClock, reorder_depth};
use super::entry::{Encoding, Entry, Kind};
use super::probe::Probed;
use super::text::TextFormat;
use super::track_rules::{AudioRules, TrackRules, VideoRules};
use crate::codec::config::audio_specific;
use crate::codec::vui::reduced;
use crate::codec::{ac3, adts, av1, flac, h264, hevc, mp3, opus, vp9};
use crate::input::in_band::InBand;
use crate::{Audio, Codec, Colour, Hdr, Track, TrackKind, Video, hdr, limits};

/// The step before the first frame and after the last, if the picture rate is not stated.
const USUAL_FRAME_NS: u64 = 40_000_000;
/// Text is timed in milliseconds.
const TEXT_TIMESCALE: u32 = 1000;

/// A track that can be stored, and how its samples are made.
pub(crate) struct Described {
    /// The description.
    pub(crate) track: Track,
    /// Makes its samples.
    pub(crate) rules: TrackRules,
    /// What the person who ingests should know.
    pub(crate) warnings: Vec<String>,
}

/// Facts of a video codec's configuration.
struct Picture {
    codec: Codec,
    config: Vec<u8>,
    size: Option<(u32, u32)>,
    pixel_aspect: Option<(u32, u32)>,
    colour: Option<Colour>,
    frame: Option<FrameDuration>,
    /// Frames held back for output order, if the codec says so.
    reorder: Option<usize>,
    length_bytes: usize,
}

/// Facts of an audio codec's configuration.
struct Sound {
    codec: Codec,
    config: Vec<u8>,
    rate: u32,
    channels: u16,
    bits: u16,
    /// Samples of a packet, for packets that do not state it.
    packet_samples: u32,
    priming: Option<u32>,
}

/// Describes a track, or returns why it is left out. `zero_ns` is the start of the presentation.
/// The track is not encrypted.
pub(crate) fn describe(
    entry: &Entry,
    probed: &Probed,
    scale_ns: u64,
    zero_ns: i64,
) -> Result<Described, String> {
    if let Encoding::Compressed(method) = &entry.encoding {
        return Err(format!(
            "its frames are compressed with {method}, which Reel does not undo; remux it with \
             `mkvmerge --compression -1:none`"
        ));
    }
    match entry.kind {
        Kind::Video => video(entry, probed, scale_ns, zero_ns),
        Kind::Audio => audio(entry, probed, scale_ns),
        Kind::Subtitle => text(entry),
        Kind::Other => Err("it is neither video, audio nor subtitles".to_owned()),
    }
}

fn video(entry: &Entry, probed: &Probed, scale_ns: u64, zero_ns: i64) -> Result<Described, String> {
    let first = probed.first.as_deref();
    let stated = entry.frame_ns.and_then(FrameDuration::from_ns);
    let times: Vec<_> = probed.times_ns.iter().map(|ns| ns - zero_ns).collect();
    let rate = stated.map(FrameDuration::rate).or_else(|| average_rate(&times)).unwrap_or(30.0);
    let picture = picture(entry, first, rate)?;
    let hdr = Hdr { dolby_vision: entry.dolby_vision, ..entry.video.hdr.0 };
    hdr::no_base_layer(picture.codec, &hdr).map_or(Ok(()), |why| Err(why.to_owned()))?;
    let frame_or_field = picture.frame.map(|frame| {
        // Some encoders count fields where they should count frames, or the reverse.
        let half = FrameDuration { denominator: frame.denominator.saturating_mul(2), ..frame };
        let double = FrameDuration { numerator: frame.numerator.saturating_mul(2), ..frame };
        [frame, half, double]
    });
    let candidates: Vec<_> = stated.into_iter().chain(frame_or_field.into_iter().flatten()).collect();
    let (mut clock, frame) = VideoClock::choose(&times, &candidates, scale_ns);
    let timescale = clock.timescale();
    let seen: Vec<_> = times.iter().map(|ns| clock.pts(*ns)).collect();
    let frame_ns = entry.frame_ns.or_else(|| usual_step_ns(&times)).unwrap_or(USUAL_FRAME_NS);
    let frame_ns = frame_ns.min(10_000_000_000);
    let step = frame.map_or_else(
        || clock::ticks(i64::try_from(frame_ns).unwrap_or(0), timescale).max(1),
        |frame| i64::from(frame.numerator) * i64::from(timescale) / i64::from(frame.denominator),
    );
    // Probing has moved the clock's anchor if times are irregular, so samples use a new clock.
    let (clock, _) = VideoClock::choose(&times, &candidates, scale_ns);
    let depth = picture.reorder.unwrap_or(0).max(reorder_depth(&seen));
    let earliest = seen.iter().take(depth + 1).min().copied().unwrap_or(0);
    let (width, height) = picture.size.unwrap_or_default();
    let visible = (to_u32(entry.video.visible.0), to_u32(entry.video.visible.1));
    let (width, height) = if visible.0 > 0 && visible.1 > 0 { visible } else { (width, height) };
    if width == 0 || height == 0 {
        return Err("its picture size is not stated".to_owned());
    }
    let video = Video {
        width,
        height,
        pixel_aspect: pixel_aspect(entry, (width, height), picture.pixel_aspect),
        rotation: entry.video.rotation,
        colour: entry.video.colour.or(picture.colour),
        hdr,
    };
    let impossible = "the metadata of its mastering display or light level are impossible and ignored";
    let impossible = entry.video.hdr.1.then(|| impossible.to_owned());
    let warnings = impossible.into_iter().chain(hdr::warning(picture.codec, &video)).collect();
    let mut track = Track {
        config: picture.config,
        video: Some(video),
        ..common(entry, TrackKind::Video, picture.codec, timescale)
    };
    let mut in_band = InBand::new(&track, rate, limits::OUT_CHANGES);
    if let (Some(in_band), Some(first)) = (&mut in_band, first) {
        in_band.begin(&mut track, first);
    }
    let rules = VideoRules {
        codec: picture.codec,
        clock,
        reorder: Reorder::new(depth, earliest, step),
        nominal: u32::try_from(step).unwrap_or(u32::MAX),
        length_bytes: picture.length_bytes,
        number: entry.number,
        in_band,
        changed_at: None,
        leading: 0,
        started: false,
        left: None,
    };
    Ok(Described { track, rules: TrackRules::Video(rules), warnings })
}

/// The median step between pictures.
fn usual_step_ns(times_ns: &[i64]) -> Option<u64> {
    let mut shown = times_ns.to_vec();
    shown.sort_unstable();
    let mut steps: Vec<i64> = shown.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).and_then(|step| u64::try_from(*step).ok()).filter(|step| *step > 0)
}

fn picture(entry: &Entry, first: Option<&[u8]>, rate: f64) -> Result<Picture, String> {
    const DAMAGED: &str = "its decoder configuration is missing or damaged";
    let first = || first.ok_or_else(|| "none of its frames was found near the start".to_owned());
    let config = entry.private.clone();
    match entry.codec.as_str() {
        "V_MPEG4/ISO/AVC" => {
            let avc = h264::AvcConfig::parse(&entry.private).ok_or(DAMAGED)?;
            let sps = avc.sps.iter().find_map(|sps| h264::Sps::parse(sps)).ok_or(DAMAGED)?;
            Ok(Picture {
                codec: Codec::H264,
                size: Some((sps.width, sps.height)),
                pixel_aspect: sps.pixel_aspect,
                colour: sps.colour,
                frame: sps.frame_duration.map(frame_duration),
                reorder: sps.reorder_frames.map(|frames| frames as usize),
                length_bytes: avc.length_bytes,
                config,
            })
        }
        "V_MPEGH/ISO/HEVC" => {
            let hevc = hevc::HevcConfig::parse(&entry.private).ok_or(DAMAGED)?;
            let sps = hevc.sps().ok_or(DAMAGED)?;
            Ok(Picture {
                codec: Codec::Hevc,
                size: Some((sps.width, sps.height)),
                pixel_aspect: sps.pixel_aspect,
                colour: sps.colour,
                frame: sps.frame_duration.map(frame_duration),
                reorder: Some(sps.reorder_frames as usize),
                length_bytes: hevc.length_bytes,
                config,
            })
        }
        "V_AV1" => {
            // av1C begins with marker 1 and version 1.
            let stored = (entry.private.len() >= 4 && entry.private[0] == 0x81).then_some(config);
            let sequence = match &stored {
                Some(config) => av1::sequence_header(&config[4..]),
                None => None,
            };
            let sequence = sequence.or_else(|| first().ok().and_then(av1::sequence_header)).ok_or(DAMAGED)?;
            let config = match stored {
                Some(config) => config,
                None => av1::av1_config(first()?).ok_or(DAMAGED)?,
            };
            Ok(Picture {
                codec: Codec::Av1,
                config,
                size: Some((sequence.width, sequence.height)),
                pixel_aspect: None,
                colour: sequence.colour,
                frame: None,
                reorder: Some(0),
                length_bytes: 0,
            })
        }
        "V_VP9" => {
            let key = vp9::KeyFrame::parse(first()?).ok_or("it does not begin with a key frame")?;
            Ok(Picture {
                codec: Codec::Vp9,
                config: key.vpcc(rate, vp9_level(&entry.private), entry.video.colour),
                size: Some((key.width, key.height)),
                pixel_aspect: None,
                colour: key.colour,
                frame: None,
                reorder: Some(0),
                length_bytes: 0,
            })
        }
        other => Err(unsupported(other)),
    }
}

/// The level among the codec features of CodecPrivate: id 2 (WebM container guidelines, VP9 codec
/// feature metadata).
fn vp9_level(private: &[u8]) -> Option<u8> {
    private.chunks_exact(3).find(|feature| feature[..2] == [2, 1]).map(|feature| feature[2])
}

fn audio(entry: &Entry, probed: &Probed, scale_ns: u64) -> Result<Described, String> {
    let sound = sound(entry, probed.first.as_deref())?;
    let delay = clock::ticks(i64::try_from(entry.delay_ns).unwrap_or(0), sound.rate);
    let priming = sound.priming.unwrap_or_else(|| u32::try_from(delay).unwrap_or(0));
    let track = Track {
        config: sound.config,
        audio: Some(Audio {
            channels: sound.channels,
            sample_rate: sound.rate,
            sample_bits: sound.bits,
            priming,
        }),
        ..common(entry, TrackKind::Audio, sound.codec, sound.rate)
    };
    let clock = AudioClock::new(sound.rate, scale_ns);
    let rules = AudioRules::new(&track, clock, sound.packet_samples, entry.number);
    Ok(Described { track, rules: TrackRules::Audio(rules), warnings: Vec::new() })
}

fn sound(entry: &Entry, first: Option<&[u8]>) -> Result<Sound, String> {
    const DAMAGED: &str = "its decoder configuration is missing or damaged";
    const BAD_FRAME: &str = "its first frame is damaged";
    let first = || first.ok_or_else(|| "none of its frames was found near the start".to_owned());
    let plain = |codec, config, rate, channels| Sound {
        codec,
        config,
        rate,
        channels,
        bits: 16,
        packet_samples: 0,
        priming: None,
    };
    match entry.codec.as_str() {
        codec if codec == "A_AAC" || codec.starts_with("A_AAC/") => {
            let config = match entry.private.as_slice() {
                [] => aac_config(entry).ok_or(DAMAGED)?,
                private => private.to_vec(),
            };
            let aac = audio_specific::parse(&config)
                .map_err(|_| DAMAGED)?
                .ok_or("it is MPEG-4 audio, but not AAC")?;
            let (core_rate, core_samples) = adts::core_frame(&config).ok_or(DAMAGED)?;
            let channels = match aac.channels {
                0 => u16::try_from(entry.audio.channels).unwrap_or(2),
                stated => stated,
            };
            // Band replication multiplies rate and samples alike.
            let packet_samples = core_samples * (aac.sample_rate / core_rate).clamp(1, 4);
            let sound = plain(Codec::Aac, config, aac.sample_rate, channels);
            Ok(Sound { packet_samples, ..sound })
        }
        "A_OPUS" => {
            let head = opus::Head::parse(&entry.private).ok_or(DAMAGED)?;
            let sound = plain(Codec::Opus, head.dops(), opus::SAMPLE_RATE, u16::from(head.channels));
            Ok(Sound { priming: Some(u32::from(head.pre_skip)), packet_samples: 960, ..sound })
        }
        "A_FLAC" => {
            let info = flac::StreamInfo::find(&entry.private).ok_or(DAMAGED)?;
            let sound = plain(Codec::Flac, info.dfla(), info.sample_rate, info.channels);
            Ok(Sound { bits: info.sample_bits, packet_samples: 4096, ..sound })
        }
        "A_AC3" | "A_AC3/BSID9" | "A_AC3/BSID10" | "A_EAC3" => {
            let sample = first()?;
            let frame = ac3::Frame::parse(sample).ok_or(BAD_FRAME)?;
            let channels = ac3::channels(sample).ok_or(BAD_FRAME)?;
            // The frames decide, because some files label E-AC-3 with the other name.
            let (codec, config) = if frame.enhanced {
                (Codec::Eac3, ac3::dec3(sample).ok_or(BAD_FRAME)?)
            } else {
                (Codec::Ac3, ac3::dac3(&frame))
            };
            Ok(Sound { packet_samples: frame.samples(), ..plain(codec, config, frame.sample_rate, channels) })
        }
        "A_MPEG/L3" => {
            let header = mp3::Header::parse(first()?).filter(|header| header.layer == 3).ok_or(BAD_FRAME)?;
            let sound = plain(Codec::Mp3, Vec::new(), header.sample_rate, header.channels);
            Ok(Sound { packet_samples: header.samples, ..sound })
        }
        other => Err(unsupported(other)),
    }
}

/// The configuration of AAC for files older than AAC configurations in Matroska, by the codec's
/// name: `A_AAC/MPEG4/LC/SBR` and the like (Matroska codec specifications, "A_AAC/MPEG2/MAIN" to
/// "A_AAC/MPEG4/LTP"). The decoder detects band replication by itself, as its rate is twice the
/// stated one.
fn aac_config(entry: &Entry) -> Option<Vec<u8>> {
    let object = match entry.codec.split('/').nth(2) {
        None | Some("LC") => audio_specific::LOW_COMPLEXITY,
        Some("MAIN") => 1,
        Some("SSR") => 3,
        Some("LTP") => 4,
        Some(_) => return None,
    };
    let channels = u16::try_from(entry.audio.channels).ok()?;
    // A conversion from float to integer saturates, and only listed rates are accepted.
    audio_specific::plain(object, entry.audio.rate.round() as u32, channels)
}

fn text(entry: &Entry) -> Result<Described, String> {
    let format = match entry.codec.as_str() {
        "S_TEXT/UTF8" | "S_TEXT/ASCII" => TextFormat::SubRip,
        "S_TEXT/ASS" | "S_TEXT/SSA" | "S_ASS" | "S_SSA" => TextFormat::Ass,
        "S_TEXT/WEBVTT" => TextFormat::WebVtt,
        "S_HDMV/PGS" | "S_VOBSUB" | "S_DVBSUB" => {
            return Err(format!("its subtitles are pictures ({}); Reel shows text", entry.codec));
        }
        other => return Err(unsupported(other)),
    };
    let track = common(entry, TrackKind::Subtitle, Codec::WebVtt, TEXT_TIMESCALE);
    Ok(Described { track, rules: TrackRules::Text(format), warnings: Vec::new() })
}

fn common(entry: &Entry, kind: TrackKind, codec: Codec, timescale: u32) -> Track {
    Track {
        kind,
        codec,
        config: Vec::new(),
        timescale,
        language: entry.language.clone(),
        name: entry.name.clone(),
        default: entry.default,
        forced: entry.forced && kind == TrackKind::Subtitle,
        video: None,
        audio: None,
    }
}

/// The display size gives the pixel shape. If the codec's own statement rounds to the same display
/// size, that one is used, because it is exact.
fn pixel_aspect(entry: &Entry, (width, height): (u32, u32), own: Option<(u32, u32)>) -> (u32, u32) {
    let Some((display_width, display_height)) = entry.video.display else { return own.unwrap_or((1, 1)) };
    let shape = |(across, down): (u64, u64)| {
        let divisor = crate::codec::vui::gcd(across, down).max(1);
        match (u32::try_from(across / divisor), u32::try_from(down / divisor)) {
            (Ok(across), Ok(down)) if across > 0 && down > 0 => Some((across, down)),
            _ => None,
        }
    };
    if let Some((across, down)) = own {
        let wide = u128::from(width) * u128::from(across) * u128::from(display_height);
        let high = u128::from(height) * u128::from(down) * u128::from(display_width);
        // One pixel of the display size, in either direction.
        let slack = u128::from(height) * u128::from(down) + u128::from(width) * u128::from(across);
        if wide.abs_diff(high) <= slack {
            return reduced((across, down));
        }
    }
    let across = display_width.checked_mul(u64::from(height));
    let down = display_height.checked_mul(u64::from(width));
    across.zip(down).and_then(shape).unwrap_or((1, 1))
}

fn average_rate(times: &[i64]) -> Option<f64> {
    let span = times.iter().max()? - times.iter().min()?;
    (span > 0).then(|| (times.len() - 1) as f64 * 1e9 / span as f64)
}

fn frame_duration((numerator, denominator): (u32, u32)) -> FrameDuration {
    FrameDuration { numerator, denominator }
}

fn unsupported(codec: &str) -> String {
    format!("Reel does not store its codec {codec}")
}

fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}
