//! HLS playlists as players read them (RFC 8216).

use crate::Url;
use crate::limits::{RENDITIONS_MAX, SEGMENT_NS_MAX, SEGMENTS_MAX};
use anyhow::{Context, Result, bail, ensure};
use std::time::Duration;

/// What lies behind an address.
#[derive(Debug)]
pub enum Playlist {
    /// The renditions of a title.
    Master(Master),
    /// The segments of one track.
    Media(Media),
}

/// The renditions of a title.
#[derive(Debug)]
pub struct Master {
    /// In the order of their rates, the lowest first; one per rate.
    pub variants: Vec<Variant>,
}

/// One rendition: its pictures, and the sound that belongs to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The peak rate of both.
    pub bandwidth_bps: u64,
    /// The playlist of the pictures.
    pub uri: String,
    /// The playlist of the sound, where it is not in the same segments.
    pub audio: Option<String>,
}

/// The segments of one track.
#[derive(Debug)]
pub struct Media {
    /// What must be read before the segments.
    pub init: Option<Piece>,
    /// In the order of the film.
    pub segments: Vec<Piece>,
    /// Where each segment begins, and where the last one ends: one more than there are segments.
    pub borders_ns: Vec<u64>,
}

/// A file or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it is, relative to the playlist.
    pub uri: Box<str>,
    /// First byte and number of bytes.
    pub range: Option<(u64, u64)>,
}

impl Playlist {
    /// Reads a playlist.
    ///
    /// # Errors
    /// What is no playlist, a live playlist, and what exceeds a limit; the message names the line.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim_start_matches('\u{feff}');
        ensure!(
            text.starts_with("#EXTM3U"),
            "no playlist: it begins with {:?} and not with #EXTM3U",
            text.chars().take(20).collect::<String>()
        );
        let tag = |name: &str| text.lines().any(|line| line.starts_with(name));
        if tag("#EXT-X-STREAM-INF:") {
            master(text).map(Self::Master)
        } else if tag("#EXTINF:") {
            media(text).map(Self::Media)
        } else {
            bail!("a playlist without segments or renditions")
        }
    }
}

impl Media {
    /// Where the last segment ends.
    pub fn end_ns(&self) -> u64 {
        self.borders_ns.last().copied().unwrap_or(0)
    }
}

impl Piece {
    /// Its address, for a playlist of this address.
    ///
    /// # Errors
    /// Those of [`Url::join`].
    pub fn url(&self, playlist: &Url) -> Result<Url> {
        playlist.join(&self.uri)
    }
}

fn master(text: &str) -> Result<Master> {
    let lines = numbered(text);
    let mut groups = Vec::new();
    for (number, line) in lines.clone() {
        if let Some(list) = line.strip_prefix("#EXT-X-MEDIA:") {
            let list = attributes(list).with_context(|| in_line(number))?;
            if get(&list, "TYPE") == Some("AUDIO")
                && let (Some(group), Some(uri)) = (get(&list, "GROUP-ID"), get(&list, "URI"))
            {
                let default = get(&list, "DEFAULT") == Some("YES");
                groups.push((group.to_owned(), default, uri.to_owned()));
            }
        }
    }
    // The default of the group, else its first.
    let sound = |group: &str| {
        let members = || groups.iter().filter(|member| member.0 == group);
        members().find(|member| member.1).or_else(|| members().next()).map(|member| member.2.clone())
    };
    let mut variants: Vec<Variant> = Vec::new();
    let mut waiting: Option<(usize, Vec<(&str, &str)>)> = None;
    for (number, line) in lines {
        if let Some(list) = line.strip_prefix("#EXT-X-STREAM-INF:") {
            waiting = Some((number, attributes(list).with_context(|| in_line(number))?));
        } else if !line.starts_with('#')
            && !line.is_empty()
            && let Some((number, list)) = waiting.take()
        {
            let bandwidth = get(&list, "BANDWIDTH").and_then(|rate| rate.parse().ok());
            let bandwidth_bps =
                bandwidth.with_context(|| format!("{}: a rendition without BANDWIDTH", in_line(number)))?;
            let audio = get(&list, "AUDIO").and_then(&sound);
            variants.push(Variant { bandwidth_bps, uri: line.to_owned(), audio });
            ensure!(variants.len() <= RENDITIONS_MAX, "more than {RENDITIONS_MAX} renditions");
        }
    }
    ensure!(waiting.is_none(), "the last rendition has no address");
    ensure!(!variants.is_empty(), "a master playlist without renditions");
    // The same pictures with another codec of sound are not another rendition: the first is what a
    // player takes.
    let mut seen = Vec::new();
    variants.retain(|variant| {
        let new = !seen.contains(&variant.uri);
        seen.push(variant.uri.clone());
        new
    });
    variants.sort_by_key(|variant| variant.bandwidth_bps);
    Ok(Master { variants })
}

fn media(text: &str) -> Result<Media> {
    let mut media = Media { init: None, segments: Vec::new(), borders_ns: vec![0] };
    let (mut duration, mut range, mut ended) = (None, None, false);
    // Where the next range begins if it does not say so (RFC 8216 section 4.3.2.2).
    let mut range_end: Option<(String, u64)> = None;
    for (number, line) in numbered(text) {
        let here = || in_line(number);
        if let Some(value) = line.strip_prefix("#EXTINF:") {
            duration = Some(duration_ns(value).with_context(here)?);
        } else if let Some(value) = line.strip_prefix("#EXT-X-BYTERANGE:") {
            range = Some(byte_range(value).with_context(here)?);
        } else if let Some(list) = line.strip_prefix("#EXT-X-MAP:") {
            let list = attributes(list).with_context(here)?;
            let uri = get(&list, "URI").with_context(here)?;
            let range = get(&list, "BYTERANGE").map(byte_range).transpose().with_context(here)?;
            let range = range.map(|(bytes, start)| (start.unwrap_or(0), bytes));
            media.init.get_or_insert(Piece { uri: uri.into(), range });
        } else if line == "#EXT-X-ENDLIST" || line == "#EXT-X-PLAYLIST-TYPE:VOD" {
            ended = true;
        } else if !line.is_empty() && !line.starts_with('#') {
            let Some(lasts_ns) = duration.take() else {
                bail!("{}: a segment without a duration (#EXTINF)", here());
            };
            let range = range.take().map(|(bytes, start)| {
                let follows = range_end.as_ref().filter(|(uri, _)| uri == line).map_or(0, |(_, end)| *end);
                (start.unwrap_or(follows), bytes)
            });
            range_end = range.map(|(start, bytes)| (line.to_owned(), start.saturating_add(bytes)));
            media.segments.push(Piece { uri: line.into(), range });
            media.borders_ns.push(media.end_ns() + lasts_ns);
            ensure!(media.segments.len() <= SEGMENTS_MAX, "more than {SEGMENTS_MAX} segments");
        }
    }
    ensure!(!media.segments.is_empty(), "a playlist without segments");
    ensure!(ended, "a live playlist (no #EXT-X-ENDLIST); only finished ones can be played");
    Ok(media)
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> + Clone {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()))
}

fn in_line(number: usize) -> String {
    format!("line {number} of the playlist")
}

fn duration_ns(value: &str) -> Result<u64> {
    let seconds = value.split(',').next().unwrap_or_default().trim();
    let most_s = Duration::from_nanos(SEGMENT_NS_MAX).as_secs_f64();
    let parsed: f64 = seconds.parse().ok().with_context(|| format!("{seconds:?} is no duration"))?;
    ensure!((0.0..=most_s).contains(&parsed), "a segment of {seconds} s; they may last from 0 to {most_s} s");
    Ok((parsed * 1e9).round() as u64)
}

/// `bytes[@start]`.
fn byte_range(value: &str) -> Result<(u64, Option<u64>)> {
    let number = |text: &str| text.trim().parse().ok().with_context(|| format!("{value:?} is no byte range"));
    let (bytes, start) = match value.split_once('@') {
        Some((bytes, start)) => (number(bytes)?, Some(number(start)?)),
        None => (number(value)?, None),
    };
    ensure!(bytes > 0, "an empty byte range");
    Ok((bytes, start))
}

/// `NAME=value,NAME="value, quoted"` (RFC 8216 section 4.2), without the quotes.
fn attributes(list: &str) -> Result<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').with_context(|| format!("{rest:?} is no attribute"))?;
        let value;
        (value, rest) = match after.strip_prefix('"') {
            Some(quoted) => {
                let (value, after) = quoted.split_once('"').context("a quotation mark that is not closed")?;
                (value, after.trim_start_matches(','))
            }
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((name.trim(), value.trim()));
    }
    Ok(found)
}

fn get<'a>(list: &[(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    list.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        format!("{:#}", Playlist::parse(text).unwrap_err())
    }

    #[test]
    fn renditions_by_rate_with_their_sound() {
        let text = "#EXTM3U\n#EXT-X-VERSION:7\n\
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"x, y\",DEFAULT=NO,URI=\"1/m.m3u8\"\n\
            #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"z\",DEFAULT=YES,URI=\"2/m.m3u8\"\n\
            #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"t\",NAME=\"s\",URI=\"3/t.m3u8\"\n\
            #EXT-X-STREAM-INF:AVERAGE-BANDWIDTH=1,BANDWIDTH=5000000,CODECS=\"avc1,mp4a\",AUDIO=\"a\"\n0/m.m3u8\n\
            #EXT-X-STREAM-INF:BANDWIDTH=6000000,AUDIO=\"b\"\n0/m.m3u8\n\
            #EXT-X-STREAM-INF:BANDWIDTH=900000\n4/m.m3u8\n\
            #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI=\"0/i.m3u8\"\n";
        let Playlist::Master(master) = Playlist::parse(text).unwrap() else { panic!("a master") };
        let variant = |bandwidth_bps, uri: &str, audio: Option<&str>| Variant {
            bandwidth_bps,
            uri: uri.into(),
            audio: audio.map(str::to_owned),
        };
        assert_eq!(
            master.variants,
            [variant(900_000, "4/m.m3u8", None), variant(5_000_000, "0/m.m3u8", Some("2/m.m3u8"))]
        );
    }

    #[test]
    fn segments_with_their_borders_and_ranges() {
        let text = "#EXTM3U\r\n#EXT-X-TARGETDURATION:4\r\n#EXT-X-MAP:URI=\"f.mp4\",BYTERANGE=\"800@0\"\r\n\
            #EXTINF:4.000000,\r\n#EXT-X-BYTERANGE:1000@800\r\nf.mp4\r\n#EXTINF:2.5,a title\r\n#EXT-X-BYTERANGE:500\r\n\
            f.mp4\r\n#EXTINF:1,\r\ng.m4s\r\n#EXT-X-ENDLIST\r\n";
        let Playlist::Media(media) = Playlist::parse(text).unwrap() else { panic!("a media playlist") };
        let piece = |uri: &str, range| Piece { uri: uri.into(), range };
        assert_eq!(media.init, Some(piece("f.mp4", Some((0, 800)))));
        let wanted =
            [piece("f.mp4", Some((800, 1000))), piece("f.mp4", Some((1800, 500))), piece("g.m4s", None)];
        assert_eq!(media.segments, wanted);
        assert_eq!(media.borders_ns, [0, 4_000_000_000, 6_500_000_000, 7_500_000_000]);
    }

    #[test]
    fn malformed_playlists_say_what_is_wrong() {
        let live = "#EXTM3U\n#EXTINF:4,\na.ts\n";
        for (text, wanted) in [
            ("<!doctype html>", "begins with \"<!doctype html>\""),
            ("", "not with #EXTM3U"),
            ("#EXTM3U\n", "without segments"),
            (live, "a live playlist"),
            ("#EXTM3U\n#EXTINF:four,\na.ts\n", "line 2 of the playlist: \"four\" is no duration"),
            ("#EXTM3U\n#EXTINF:nan,\na.ts\n", "segment of nan s"),
            ("#EXTM3U\n#EXTINF:-1,\na.ts\n", "segment of -1 s"),
            ("#EXTM3U\n#EXTINF:1e9,\na.ts\n", "segment of 1e9 s"),
            ("#EXTM3U\n#EXTINF:1,\na.ts\nb.ts\n", "line 4 of the playlist: a segment without a duration"),
            ("#EXTM3U\n#EXTINF:1,\n#EXT-X-BYTERANGE:x@1\na.ts\n", "\"x@1\" is no byte range"),
            ("#EXTM3U\n#EXTINF:1,\n#EXT-X-BYTERANGE:0@1\na.ts\n", "an empty byte range"),
            ("#EXTM3U\n#EXT-X-STREAM-INF:RATE=1\na.m3u8\n", "a rendition without BANDWIDTH"),
            ("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n", "has no address"),
            ("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,X=\"a\nb\n", "not closed"),
        ] {
            let said = said(text);
            assert!(said.contains(wanted), "{text:?} gave {said:?}");
        }
    }
}
