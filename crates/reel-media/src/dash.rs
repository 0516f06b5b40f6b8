//! The DASH manifest (ISO/IEC 23009-1, profile isoff-live), from the index alone.
//!
//! Segment times are presentation times. The init segment's edit list has removed decoder warm-up,
//! so the first audio segment starts at 0 and no presentationTimeOffset is needed.
//!
//! A change of decoder configuration begins a period, which its presentationTimeOffset puts at its
//! presentation time.

use crate::codec_string::{codec_string, supplemental_codec};
use crate::hls::init_name;
use crate::index::periods::{Period, periods};
use crate::index::rates::{self, greatest_common_divisor};
use crate::{Codec, FrameRate, TitleIndex, Track, TrackIndex, TrackKind, hdr, ladder, language, limits};
use quick_xml::Writer;
use std::io;
use std::ops::Range;

type Xml = Writer<Vec<u8>>;

/// The MPD. Its URLs are relative: `{t}/init.mp4`, `{t}/{n}.m4s`, `{t}/text.vtt`.
pub fn manifest(index: &TitleIndex) -> String {
    manifest_of(index, |_| true)
}

/// The MPD with only those video tracks for whose numbers `offers` is true.
pub fn manifest_of(index: &TitleIndex, offers: impl Fn(usize) -> bool) -> String {
    let mut xml = Writer::new_with_indent(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_vec(), b' ', 1);
    presentation(&mut xml, index, &offers).expect("writing to memory does not fail");
    let mut text = String::from_utf8(xml.into_inner()).expect("all that was written is UTF-8");
    text.push('\n');
    text
}

fn presentation(xml: &mut Xml, index: &TitleIndex, offers: &dyn Fn(usize) -> bool) -> io::Result<()> {
    // What a player has at least before it begins. A pause of minutes takes no longer to load.
    let usual_ns =
        |track: &TrackIndex| track.nanoseconds(rates::longest_usual(&track.fragments, track.track.timescale));
    let longest_ns = index.tracks.iter().map(usual_ns).max().unwrap_or(0);
    let mut attributes = vec![
        ("xmlns", "urn:mpeg:dash:schema:mpd:2011".to_owned()),
        ("profiles", "urn:mpeg:dash:profile:isoff-live:2011".to_owned()),
        ("type", "static".to_owned()),
        ("mediaPresentationDuration", duration(index.duration_ns)),
        ("minBufferTime", duration(longest_ns)),
    ];
    if index.tracks.iter().any(|track| supplemental_codec(&track.track).is_some()) {
        attributes.push(("xmlns:scte214", "urn:scte:dash:scte214-extensions".to_owned()));
    }
    element(xml, "MPD", &attributes, |xml| {
        let sets = sets(index, offers);
        let periods = periods(index);
        let mut starts_ms: Vec<u64> = periods.iter().skip(1).map(|period| start_ms(index, period)).collect();
        starts_ms.insert(0, 0);
        let end_ms = index.duration_ns.div_ceil(1_000_000);
        for (number, period) in periods.iter().enumerate() {
            let start_ms = starts_ms[number];
            let times_ms = start_ms..starts_ms.get(number + 1).copied().unwrap_or(end_ms).max(start_ms);
            let start = if start_ms == 0 { "PT0S".to_owned() } else { duration(start_ms * 1_000_000) };
            element(xml, "Period", &[("id", number.to_string()), ("start", start)], |xml| {
                for (number, set) in sets.iter().enumerate() {
                    let parts: Vec<_> =
                        set.iter().filter_map(|track| part(track, period, &times_ms)).collect();
                    adaptation_set(xml, index, number, &parts)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// Where a period begins: at its last track, so that players cut nothing off the period before.
/// Players drop what begins too long before a period, and all pictures up to the next key frame
/// with it, so pictures go first.
fn start_ms(index: &TitleIndex, period: &Period) -> u64 {
    let present = index.tracks.iter().zip(&period.fragments).filter(|(_, fragments)| !fragments.is_empty());
    let starts = present.map(|(track, fragments)| {
        (track.track.kind, track.nanoseconds(track.fragments[fragments.start].time))
    });
    let last_ns = starts.clone().map(|(_, at)| at).max().unwrap_or(0);
    let pictures_ns = starts.filter(|(kind, _)| *kind == TrackKind::Video).map(|(_, at)| at).min();
    let allowed_ns = pictures_ns.map_or(u64::MAX, |at| at + limits::PERIOD_EARLY_MS * 1_000_000);
    last_ns.min(allowed_ns).div_ceil(1_000_000)
}

/// What a period has of a track.
struct InPeriod<'a> {
    number: usize,
    index: &'a TrackIndex,
    /// As it is coded there.
    track: Track,
    /// Number of its init segment.
    init: usize,
    fragments: Range<usize>,
    /// Of the period.
    times_ms: Range<u64>,
}

/// The part of a track in a period. Fragments that need another init segment than the first have no
/// place in it.
fn part<'a>(
    (number, track): &(usize, &'a TrackIndex),
    period: &Period,
    times_ms: &Range<u64>,
) -> Option<InPeriod<'a>> {
    let Range { start, end } = period.fragments[*number].clone();
    if start == end && track.track.kind != TrackKind::Subtitle {
        return None;
    }
    let init = track.init_of(start);
    let end = (start..end).find(|fragment| track.init_of(*fragment) != init).unwrap_or(end);
    let fragments = start..end;
    Some(InPeriod {
        number: *number,
        index: track,
        track: track.described(init),
        init,
        fragments,
        times_ms: times_ms.clone(),
    })
}

/// Tracks between which a player may switch during playback.
type Set<'a> = Vec<(usize, &'a TrackIndex)>;

fn sets<'a>(index: &'a TitleIndex, offers: &dyn Fn(usize) -> bool) -> Vec<Set<'a>> {
    let mut sets: Vec<Set<'_>> = Vec::new();
    let offered =
        |(number, track): &(usize, &TrackIndex)| track.track.kind != TrackKind::Video || offers(*number);
    for (number, track) in index.tracks.iter().enumerate().filter(offered) {
        match sets.iter_mut().find(|set| interchangeable(set[0].1, track)) {
            Some(set) => set.push((number, track)),
            None => sets.push(vec![(number, track)]),
        }
    }
    sets
}

/// Only pictures come in several rates. Two sounds are never the same sound: one may be a
/// commentary, although neither has a name.
fn interchangeable(a: &TrackIndex, b: &TrackIndex) -> bool {
    a.track.kind == TrackKind::Video
        && b.track.kind == TrackKind::Video
        && a.track.codec == b.track.codec
        && a.track.language == b.track.language
        && hdr::range(&a.track) == hdr::range(&b.track)
        && ladder::align(&[a, b]).is_ok()
}

fn adaptation_set(xml: &mut Xml, index: &TitleIndex, number: usize, set: &[InPeriod<'_>]) -> io::Result<()> {
    let Some(first) = set.first() else { return Ok(()) };
    let (content, mime) = match first.track.kind {
        TrackKind::Video => ("video", "video/mp4"),
        TrackKind::Audio => ("audio", "audio/mp4"),
        TrackKind::Subtitle => ("text", "text/vtt"),
    };
    let mut attributes =
        vec![("id", number.to_string()), ("contentType", content.to_owned()), ("mimeType", mime.to_owned())];
    if let Some(language) = &first.track.language {
        attributes.push(("lang", printable(&language::tag(language))));
    }
    if first.track.kind != TrackKind::Subtitle {
        attributes.push(("segmentAlignment", "true".to_owned()));
        // Type 3: pictures shown before the key frame may be missing after a switch (ISO/IEC
        // 14496-12, annex I).
        let sap = if set.iter().all(|part| part.index.independent) { "1" } else { "3" };
        attributes.push(("startWithSAP", sap.to_owned()));
    }
    if let Some((width, height)) = first.track.display_size() {
        attributes.push(("par", ratio(width, height)));
    }
    element(xml, "AdaptationSet", &attributes, |xml| {
        if let Some(audio) = &first.track.audio {
            let scheme = "urn:mpeg:mpegB:cicp:ChannelConfiguration";
            descriptor(
                xml,
                "AudioChannelConfiguration",
                scheme,
                &channel_configuration(audio.channels).to_string(),
            )?;
        }
        // Players need not know the property: it is stated by the codecs, too.
        let transfer = match hdr::range(&first.track) {
            Some("PQ") => Some("16"),
            Some("HLG") => Some("18"),
            _ => None,
        };
        if let Some(transfer) = transfer {
            let scheme = "urn:mpeg:mpegB:cicp:TransferCharacteristics";
            descriptor(xml, "SupplementalProperty", scheme, transfer)?;
        }
        if let Some(name) = first.track.name.as_deref().map(printable).filter(|name| !name.trim().is_empty())
        {
            xml.create_element("Label").write_text_content(quick_xml::events::BytesText::new(&name))?;
        }
        for role in roles(index, (first.number, first.index)) {
            descriptor(xml, "Role", "urn:mpeg:dash:role:2011", role)?;
        }
        set.iter().try_for_each(|part| representation(xml, part))
    })
}

fn roles(index: &TitleIndex, (number, track): (usize, &TrackIndex)) -> Vec<&'static str> {
    let mut of_kind = index.of_kind(track.track.kind);
    let is_first = of_kind.next().is_some_and(|(first, _)| first == number);
    let is_marked = index.of_kind(track.track.kind).any(|(_, other)| other.track.default);
    let is_main = track.track.default || (is_first && !is_marked);
    let main = if is_main { "main" } else { "alternate" };
    match track.track.kind {
        TrackKind::Subtitle if track.track.forced => vec!["forced-subtitle"],
        TrackKind::Subtitle if track.track.default => vec!["subtitle", "main"],
        TrackKind::Subtitle => vec!["subtitle"],
        _ => vec![main],
    }
}

fn representation(xml: &mut Xml, part: &InPeriod<'_>) -> io::Result<()> {
    let InPeriod { number, index, track, .. } = part;
    let mut attributes = vec![("id", number.to_string()), ("bandwidth", index.peak_bps.max(1).to_string())];
    if track.kind != TrackKind::Subtitle {
        attributes.push(("codecs", codec_string(track)));
        if let Some((codec, brand)) = supplemental_codec(track) {
            attributes.push(("scte214:supplementalCodecs", codec));
            attributes.push(("scte214:supplementalProfiles", brand.to_owned()));
        }
    }
    if let Some(video) = &track.video {
        attributes.push(("width", video.width.to_string()));
        attributes.push(("height", video.height.to_string()));
        attributes.push(("sar", ratio(video.pixel_aspect.0.max(1), video.pixel_aspect.1.max(1))));
    }
    if let Some(rate) = index.frame_rate {
        attributes.push(("frameRate", frame_rate(rate)));
    }
    if let Some(audio) = &track.audio {
        let rate = if track.codec == Codec::Opus { 48_000 } else { audio.sample_rate };
        attributes.push(("audioSamplingRate", rate.to_string()));
    }
    element(xml, "Representation", &attributes, |xml| {
        if track.kind == TrackKind::Subtitle && part.times_ms.start > 0 {
            return whole_text(xml, &part.times_ms);
        }
        if track.kind == TrackKind::Subtitle {
            let url = format!("{number}/text.vtt");
            xml.create_element("BaseURL").write_text_content(quick_xml::events::BytesText::new(&url))?;
            return Ok(());
        }
        segment_template(xml, part)
    })
}

/// The WebVTT file as the one segment of a later period. Its times are those of the title, which
/// only a template can say: without one, some players count them from the period and others do not.
fn whole_text(xml: &mut Xml, times_ms: &Range<u64>) -> io::Result<()> {
    let attributes = [
        ("timescale", "1000".to_owned()),
        ("media", "$RepresentationID$/text.vtt".to_owned()),
        ("startNumber", "1".to_owned()),
        ("presentationTimeOffset", times_ms.start.to_string()),
    ];
    let segment = [("t", times_ms.start.to_string()), ("d", (times_ms.end - times_ms.start).to_string())];
    element(xml, "SegmentTemplate", &attributes, |xml| {
        element(xml, "SegmentTimeline", &[], |xml| element(xml, "S", &segment, |_| Ok(())))
    })
}

fn segment_template(xml: &mut Xml, part: &InPeriod<'_>) -> io::Result<()> {
    let timescale = part.track.timescale;
    let mut attributes = vec![
        ("timescale", timescale.to_string()),
        ("initialization", format!("$RepresentationID$/{}", init_name(part.init))),
        ("media", "$RepresentationID$/$Number$.m4s".to_owned()),
        ("startNumber", (part.fragments.start + 1).to_string()),
    ];
    if part.times_ms.start > 0 {
        let ticks = (u128::from(part.times_ms.start) * u128::from(timescale) + 500) / 1000;
        attributes.push(("presentationTimeOffset", ticks.to_string()));
    }
    element(xml, "SegmentTemplate", &attributes, |xml| {
        element(xml, "SegmentTimeline", &[], |xml| {
            let mut fragments = &part.index.fragments[part.fragments.clone()];
            let mut first = true;
            while let Some(fragment) = fragments.first() {
                let same = fragments.iter().take_while(|f| f.duration == fragment.duration).count();
                let mut attributes = Vec::new();
                if first {
                    attributes.push(("t", fragment.time.to_string()));
                }
                attributes.push(("d", fragment.duration.to_string()));
                if same > 1 {
                    attributes.push(("r", (same - 1).to_string()));
                }
                element(xml, "S", &attributes, |_| Ok(()))?;
                first = false;
                fragments = &fragments[same..];
            }
            Ok(())
        })
    })
}

fn element(
    xml: &mut Xml,
    name: &str,
    attributes: &[(&str, String)],
    inner: impl FnOnce(&mut Xml) -> io::Result<()>,
) -> io::Result<()> {
    let element = xml
        .create_element(name)
        .with_attributes(attributes.iter().map(|(key, value)| (*key, value.as_str())));
    if name == "S" {
        element.write_empty()?
    } else {
        element.write_inner_content(inner)?
    };
    Ok(())
}

fn descriptor(xml: &mut Xml, name: &str, scheme: &str, value: &str) -> io::Result<()> {
    xml.create_element(name).with_attributes([("schemeIdUri", scheme), ("value", value)]).write_empty()?;
    Ok(())
}

/// `xs:duration` in milliseconds, rounded up.
fn duration(ns: u64) -> String {
    let ms = ns.div_ceil(1_000_000);
    format!("PT{}.{:03}S", ms / 1000, ms % 1000)
}

fn ratio(a: u32, b: u32) -> String {
    let divisor = greatest_common_divisor(u64::from(a), u64::from(b)).max(1);
    format!("{}:{}", u64::from(a) / divisor, u64::from(b) / divisor)
}

fn frame_rate(rate: FrameRate) -> String {
    if rate.denominator == 1 {
        rate.numerator.to_string()
    } else {
        format!("{}/{}", rate.numerator, rate.denominator)
    }
}

/// ChannelConfiguration (ISO/IEC 23091-3) of the usual loudspeaker set with this many channels.
fn channel_configuration(channels: u16) -> u16 {
    match channels {
        7 => 11,
        8 => 12,
        24 => 13,
        other => other,
    }
}

/// Removes characters that XML 1.0 does not allow.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}
