//! HLS playlists (RFC 8216 and draft-pantos-hls-rfc8216bis), from the index alone.
//!
//! The master playlist is beside one folder per track (`{t}/media.m3u8`, `{t}/iframes.m3u8`,
//! `{t}/text.m3u8`). Segments are beside their playlist (`init.mp4`, `{n}.m4s` from 1, `text.vtt`).
//! Where the decoder configuration of a track changes, another init segment follows
//! (`init-{i}.mp4` from 2).
//!
//! There is no discontinuity: times and tracks continue. hls.js begins a new clock at
//! a discontinuity, and without regard to edit lists it would be late by the delay of reordered
//! pictures, once more at each.

use crate::codec_string::{codec_strings, supplemental_codec};
use crate::index::rates;
use crate::{Codec, Fragment, FrameRate, TitleIndex, TrackIndex, TrackKind, hdr, language};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The master playlist.
pub fn master(index: &TitleIndex) -> String {
    master_of(index, |_| true)
}

/// The master playlist with only those video tracks for whose numbers `offers` is true.
pub fn master_of(index: &TitleIndex, offers: impl Fn(usize) -> bool) -> String {
    let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:7\n");
    if index.tracks.iter().all(|track| track.independent) {
        text += "#EXT-X-INDEPENDENT-SEGMENTS\n";
    }
    let groups = audio_groups(index);
    let video: Vec<_> = index.of_kind(TrackKind::Video).filter(|(number, _)| offers(*number)).collect();
    // With one audio track and no video, the variant itself needs no group.
    let alone = video.is_empty() && groups.iter().all(|group| group.tracks.len() == 1);
    if !alone {
        groups.iter().for_each(|group| group.media(&mut text));
    }
    let subtitles = subtitle_media(index, &mut text);
    for (number, track) in &video {
        if groups.is_empty() {
            variant(&mut text, &format!("{number}/media.m3u8"), Some(track), None, subtitles);
        }
        for group in &groups {
            variant(&mut text, &format!("{number}/media.m3u8"), Some(track), Some(group), subtitles);
        }
    }
    if video.is_empty() {
        for group in &groups {
            let uri = format!("{}/media.m3u8", group.preferred().number);
            let shown = AudioGroup { id: if alone { "" } else { group.id }, tracks: group.tracks.clone() };
            variant(&mut text, &uri, None, Some(&shown), subtitles);
        }
    }
    for (number, track) in &video {
        iframe_variant(&mut text, *number, track);
    }
    text
}

/// The media playlist of a video or audio track; `None` if there is no such track or it is text.
pub fn media(index: &TitleIndex, track: usize) -> Option<String> {
    segments(index.tracks.get(track)?, "", |_| String::new())
}

/// The I-frame playlist of a video track: the first picture of every segment.
pub fn iframes(index: &TitleIndex, track: usize) -> Option<String> {
    let track = index.tracks.get(track).filter(|track| track.track.kind == TrackKind::Video)?;
    let range = |fragment: &Fragment| format!("#EXT-X-BYTERANGE:{}@0\n", fragment.key_bytes);
    segments(track, "#EXT-X-I-FRAMES-ONLY\n", range)
}

/// The playlist of a track, with what `range` says about each fragment.
fn segments(track: &TrackIndex, extra: &str, range: impl Fn(&Fragment) -> String) -> Option<String> {
    if track.fragments.is_empty() {
        return None;
    }
    let mut text = head(track, 7, extra);
    let mut init = 0;
    for (i, (seconds, fragment)) in durations(track).zip(&track.fragments).enumerate() {
        let needed = track.init_of(i);
        if init != needed {
            let _ = writeln!(text, "#EXT-X-MAP:URI=\"{}\"", init_name(needed));
            init = needed;
        }
        let _ = writeln!(text, "#EXTINF:{seconds},\n{}{}.m4s", range(fragment), i + 1);
    }
    text += "#EXT-X-ENDLIST\n";
    Some(text)
}

/// The file name of an init segment, counted from 1.
pub(crate) fn init_name(number: usize) -> String {
    if number == 1 { "init.mp4".to_owned() } else { format!("init-{number}.mp4") }
}

/// The playlist of a subtitle track: its WebVTT file as one segment.
pub fn text(index: &TitleIndex, track: usize) -> Option<String> {
    let track = index.tracks.get(track).filter(|track| track.track.kind == TrackKind::Subtitle)?;
    // It must cover the whole title, or players assume that the subtitles end with the last cue.
    let milliseconds = index.duration_ns.div_ceil(1_000_000).max(track.end);
    let seconds = milliseconds.div_ceil(1000).max(1);
    Some(format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{seconds}\n#EXT-X-PLAYLIST-TYPE:VOD\n\
         #EXTINF:{}.{:03},\ntext.vtt\n#EXT-X-ENDLIST\n",
        milliseconds / 1000,
        milliseconds % 1000
    ))
}

/// Audio tracks of one codec. Variants name a group, so a player leaves out groups that it cannot
/// decode.
struct AudioGroup<'a> {
    id: &'static str,
    /// Each with its number in the title and among the audio tracks.
    tracks: Vec<AudioTrack<'a>>,
}

#[derive(Clone, Copy)]
struct AudioTrack<'a> {
    number: usize,
    of_kind: usize,
    track: &'a TrackIndex,
}

impl AudioGroup<'_> {
    /// The track to play by default: the one marked so, else the first.
    fn preferred(&self) -> AudioTrack<'_> {
        let marked = self.tracks.iter().find(|one| one.track.track.default);
        // A group is created with its first track.
        *marked.unwrap_or(&self.tracks[0])
    }

    fn media(&self, text: &mut String) {
        let mut names = BTreeSet::new();
        for AudioTrack { number, of_kind, track } in &self.tracks {
            let default = yes(*number == self.preferred().number);
            let name = unique(&mut names, &display_name(track, *of_kind));
            let _ = write!(text, "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{}\",NAME=\"{name}\"", self.id);
            language_attribute(text, track);
            let _ = write!(text, ",DEFAULT={default},AUTOSELECT=YES");
            // The most that it has anywhere.
            let changed = track.changes.iter().filter_map(|change| change.audio.as_ref());
            if let Some(channels) = track.track.audio.iter().chain(changed).map(|audio| audio.channels).max()
            {
                let _ = write!(text, ",CHANNELS=\"{channels}\"");
            }
            let _ = writeln!(text, ",URI=\"{number}/media.m3u8\"");
        }
    }

    /// Codecs of the group, and its largest peak and average rates.
    fn rates(&self) -> (Vec<String>, u64, u64) {
        let tracks = || self.tracks.iter().map(|one| one.track);
        let mut codecs: Vec<String> = tracks().flat_map(codec_strings).collect();
        codecs.sort();
        codecs.dedup();
        let peak = tracks().map(|track| track.peak_bps).max().unwrap_or(0);
        let average = tracks().map(|track| track.average_bps).max().unwrap_or(0);
        (codecs, peak, average)
    }
}

fn audio_groups(index: &TitleIndex) -> Vec<AudioGroup<'_>> {
    let mut groups: Vec<AudioGroup<'_>> = Vec::new();
    for (of_kind, (number, track)) in index.of_kind(TrackKind::Audio).enumerate() {
        let id = group_id(track.track.codec);
        let one = AudioTrack { number, of_kind, track };
        match groups.iter_mut().find(|group| group.id == id) {
            Some(group) => group.tracks.push(one),
            None => groups.push(AudioGroup { id, tracks: vec![one] }),
        }
    }
    groups
}

fn group_id(codec: Codec) -> &'static str {
    match codec {
        Codec::Aac => "audio-aac",
        Codec::Ac3 => "audio-ac3",
        Codec::Eac3 => "audio-eac3",
        Codec::Flac => "audio-flac",
        Codec::Mp3 => "audio-mp3",
        Codec::Opus => "audio-opus",
        _ => "audio",
    }
}

/// Writes the subtitle group, if there is one.
fn subtitle_media(index: &TitleIndex, text: &mut String) -> bool {
    let mut names = BTreeSet::new();
    let mut any_default = false;
    for (of_kind, (number, track)) in index.of_kind(TrackKind::Subtitle).enumerate() {
        let name = unique(&mut names, &display_name(track, of_kind));
        // At most one member of a group may be the default.
        let default = track.track.default && !any_default;
        any_default |= default;
        let _ = write!(text, "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"text\",NAME=\"{name}\"");
        language_attribute(text, track);
        let _ = writeln!(
            text,
            ",DEFAULT={},AUTOSELECT=YES,FORCED={},URI=\"{number}/text.m3u8\"",
            yes(default),
            yes(track.track.forced)
        );
    }
    !names.is_empty()
}

fn variant(
    text: &mut String,
    uri: &str,
    video: Option<&TrackIndex>,
    audio: Option<&AudioGroup<'_>>,
    subtitles: bool,
) {
    let (audio_codecs, audio_peak, audio_average) = audio.map(AudioGroup::rates).unwrap_or_default();
    let mut codecs: Vec<String> = video.map(codec_strings).unwrap_or_default();
    codecs.extend(audio_codecs);
    let peak = video.map_or(0, |track| track.peak_bps) + audio_peak;
    let average = video.map_or(0, |track| track.average_bps) + audio_average;
    let _ = write!(
        text,
        "#EXT-X-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={average},CODECS=\"{}\"",
        codecs.join(",")
    );
    if let Some(track) = video {
        picture_attributes(text, track);
        if let Some(rate) = track.frame_rate {
            let _ = write!(text, ",FRAME-RATE={}", decimal_rate(rate));
        }
    }
    if let Some(group) = audio.filter(|group| !group.id.is_empty()) {
        let _ = write!(text, ",AUDIO=\"{}\"", group.id);
    }
    if subtitles {
        text.push_str(",SUBTITLES=\"text\"");
    }
    let _ = writeln!(text, "\n{uri}");
}

fn iframe_variant(text: &mut String, number: usize, track: &TrackIndex) {
    let peak = rates::peak(&track.fragments, track.track.timescale, |fragment| fragment.key_bytes);
    let keys: Vec<Fragment> = track.fragments.iter().map(|f| Fragment { bytes: f.key_bytes, ..*f }).collect();
    let average = rates::average(&keys, track.track.timescale);
    let codec = codec_strings(track).join(",");
    let _ = write!(
        text,
        "#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={average},CODECS=\"{codec}\""
    );
    picture_attributes(text, track);
    let _ = writeln!(text, ",URI=\"{number}/iframes.m3u8\"");
}

fn picture_attributes(text: &mut String, track: &TrackIndex) {
    if let Some((width, height)) = track.display_size() {
        let _ = write!(text, ",RESOLUTION={width}x{height}");
    }
    if let Some(range) = hdr::range(&track.track) {
        let _ = write!(text, ",VIDEO-RANGE={range}");
    }
    if let Some((codec, brand)) = supplemental_codec(&track.track) {
        let _ = write!(text, ",SUPPLEMENTAL-CODECS=\"{codec}/{brand}\"");
    }
}

fn head(track: &TrackIndex, version: u32, extra: &str) -> String {
    // The first segment's duration begins at 0, see `durations`.
    let first = track.fragments.first().map(|f| Fragment { duration: f.time + f.duration, time: 0, ..*f });
    let longest = rates::target_seconds(&track.fragments, track.track.timescale)
        .max(first.map_or(1, |first| rates::target_seconds(&[first], track.track.timescale)));
    format!(
        "#EXTM3U\n#EXT-X-VERSION:{version}\n#EXT-X-TARGETDURATION:{longest}\n#EXT-X-MEDIA-SEQUENCE:1\n\
         #EXT-X-PLAYLIST-TYPE:VOD\n{extra}"
    )
}

/// Segment durations in seconds with nine decimals, rounded so that errors do not add up. Playlists
/// have no start time. So a track that starts late has its silence counted into its first segment,
/// which keeps later segments aligned with the other tracks.
fn durations(track: &TrackIndex) -> impl Iterator<Item = String> {
    let ends = track.fragments.iter().map(|f| track.nanoseconds(f.time + f.duration));
    ends.scan(0, |from_ns, until_ns| {
        let ns = until_ns - std::mem::replace(from_ns, until_ns);
        Some(format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000))
    })
}

fn decimal_rate(rate: FrameRate) -> String {
    let thousandths = (u64::from(rate.numerator) * 2000 / u64::from(rate.denominator.max(1))).div_ceil(2);
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

fn language_attribute(text: &mut String, track: &TrackIndex) {
    if let Some(language) = &track.track.language {
        let _ = write!(text, ",LANGUAGE=\"{}\"", quotable(&language::tag(language)));
    }
}

/// What a player's menu shows. A track without name and language is shown by its number among the
/// tracks of its kind.
fn display_name(track: &TrackIndex, of_kind: usize) -> String {
    let given = track.track.name.as_deref().map(quotable).filter(|name| !name.trim().is_empty());
    given.unwrap_or_else(|| match &track.track.language {
        Some(language) => quotable(&language::tag(language)),
        None => format!("Track {}", of_kind + 1),
    })
}

/// Names must differ within a group.
fn unique(names: &mut BTreeSet<String>, name: &str) -> String {
    let mut candidate = name.to_owned();
    let mut count = 1;
    while !names.insert(candidate.clone()) {
        count += 1;
        candidate = format!("{name} ({count})");
    }
    candidate
}

/// Text that is allowed in a quoted string: no quotes, no line breaks, no other control characters
/// (RFC 8216, 4.2).
fn quotable(text: &str) -> String {
    text.chars().map(|c| if c == '"' { '\'' } else { c }).filter(|c| !c.is_control()).collect()
}

fn yes(value: bool) -> &'static str {
    if value { "YES" } else { "NO" }
}
