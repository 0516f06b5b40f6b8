//! The DASH manifest (ISO/IEC 23009-1, profile isoff-live), from the index alone.
//!
//! Segment times are presentation times. The init segment's edit list has removed decoder warm-up,
//! so the first audio segment starts at 0 and no presentationTimeOffset is needed.

use crate::index::rates::greatest_common_divisor;
use crate::{
    Codec, FrameRate, TitleIndex, TrackIndex, TrackKind, codec_string::codec_string, ladder, language,
};
use quick_xml::Writer;
use std::io;

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
    let longest_ns = index
        .tracks
        .iter()
        .flat_map(|track| track.fragments.iter().map(|fragment| track.nanoseconds(fragment.duration)))
        .max()
        .unwrap_or(0);
    let attributes = [
        ("xmlns", "urn:mpeg:dash:schema:mpd:2011".to_owned()),
        ("profiles", "urn:mpeg:dash:profile:isoff-live:2011".to_owned()),
        ("type", "static".to_owned()),
        ("mediaPresentationDuration", duration(index.duration_ns)),
        ("minBufferTime", duration(longest_ns)),
    ];
    element(xml, "MPD", &attributes, |xml| {
        element(xml, "Period", &[("id", "0".to_owned()), ("start", "PT0S".to_owned())], |xml| {
            for (number, set) in sets(index, offers).iter().enumerate() {
                adaptation_set(xml, index, number, set)?;
            }
            Ok(())
        })
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
        && ladder::align(&[a, b]).is_ok()
}

fn adaptation_set(xml: &mut Xml, index: &TitleIndex, number: usize, set: &Set<'_>) -> io::Result<()> {
    let first = set[0].1;
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
        let sap = if set.iter().all(|(_, track)| track.independent) { "1" } else { "3" };
        attributes.push(("startWithSAP", sap.to_owned()));
    }
    if let Some((width, height)) = first.display_size() {
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
        if let Some(name) = first.track.name.as_deref().map(printable).filter(|name| !name.trim().is_empty())
        {
            xml.create_element("Label").write_text_content(quick_xml::events::BytesText::new(&name))?;
        }
        for role in roles(index, set[0]) {
            descriptor(xml, "Role", "urn:mpeg:dash:role:2011", role)?;
        }
        set.iter().try_for_each(|(number, track)| representation(xml, *number, track))
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

fn representation(xml: &mut Xml, number: usize, track: &TrackIndex) -> io::Result<()> {
    let mut attributes = vec![("id", number.to_string()), ("bandwidth", track.peak_bps.max(1).to_string())];
    if track.track.kind != TrackKind::Subtitle {
        attributes.push(("codecs", codec_string(&track.track)));
    }
    if let Some(video) = &track.track.video {
        attributes.push(("width", video.width.to_string()));
        attributes.push(("height", video.height.to_string()));
        attributes.push(("sar", ratio(video.pixel_aspect.0.max(1), video.pixel_aspect.1.max(1))));
    }
    if let Some(rate) = track.frame_rate {
        attributes.push(("frameRate", frame_rate(rate)));
    }
    if let Some(audio) = &track.track.audio {
        let rate = if track.track.codec == Codec::Opus { 48_000 } else { audio.sample_rate };
        attributes.push(("audioSamplingRate", rate.to_string()));
    }
    element(xml, "Representation", &attributes, |xml| {
        if track.track.kind == TrackKind::Subtitle {
            let url = format!("{number}/text.vtt");
            xml.create_element("BaseURL").write_text_content(quick_xml::events::BytesText::new(&url))?;
            return Ok(());
        }
        segment_template(xml, track)
    })
}

fn segment_template(xml: &mut Xml, track: &TrackIndex) -> io::Result<()> {
    let attributes = [
        ("timescale", track.track.timescale.to_string()),
        ("initialization", "$RepresentationID$/init.mp4".to_owned()),
        ("media", "$RepresentationID$/$Number$.m4s".to_owned()),
        ("startNumber", "1".to_owned()),
    ];
    element(xml, "SegmentTemplate", &attributes, |xml| {
        element(xml, "SegmentTimeline", &[], |xml| {
            let mut fragments = track.fragments.as_slice();
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
