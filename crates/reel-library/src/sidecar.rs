//! Subtitle files beside a media file: `film.srt`, `film.en.vtt`, `film.de.forced.srt`.

use crate::charset;
use crate::limits::{EVENT_FIELDS_MAX, SIDECAR_BYTES_MAX, SIDECAR_CUES_MAX, SIDECARS_MAX};
use reel_media::subtitle::{ass, srt};
use reel_media::{Codec, Sample, Track, TrackKind};
use reel_rt::open_regular;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Extensions of subtitle files that are read: SubRip, WebVTT, SubStation Alpha.
pub const SUBTITLE_EXTENSIONS: [&str; 4] = ["srt", "vtt", "ass", "ssa"];

/// Ticks per second of a sidecar's times: both formats write milliseconds.
const TIMESCALE: u32 = 1000;

/// A parsed subtitle file.
#[derive(Clone, Debug, PartialEq)]
pub struct Sidecar {
    /// The track as a demuxer would describe it.
    pub track: Track,
    /// Its cues, by start time.
    pub cues: Vec<(Sample, String)>,
    /// A sentence for the ingest's warnings, if its text had to be guessed.
    pub warning: Option<String>,
}

/// The subtitle files that belong to a media file: those in its directory whose name is the file's
/// name without the extension, then optionally a language and `forced`, then one of
/// [`SUBTITLE_EXTENSIONS`]. Sorted by name.
pub fn find_sidecars(film: &Path) -> Vec<PathBuf> {
    let (Some(dir), Some(stem)) = (film.parent(), film.file_stem().and_then(|s| s.to_str())) else {
        return Vec::new();
    };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().and_then(|n| n.to_str()).is_some_and(|n| marks(n, stem).is_some()))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.truncate(SIDECARS_MAX);
    found
}

/// Whether a subtitle file belongs to the film whose name without the extension is `stem`.
pub(crate) fn belongs_to(file_name: &str, stem: &str) -> bool {
    marks(file_name, stem).is_some()
}

/// Reads one subtitle file. Its name says the language, if it begins with that of the film without
/// the extension.
///
/// # Errors
/// A sentence for the ingest's warnings if the file cannot be read or has no cues. A broken sidecar
/// does not stop an ingest.
pub fn read_sidecar(path: &Path, name: &str, film_name: &str) -> Result<Sidecar, String> {
    let bytes = read_bytes(path).map_err(|e| e.to_string());
    let sidecar = bytes.and_then(|bytes| parse_sidecar(&bytes, name, film_name));
    sidecar.map_err(|reason| format!("the subtitles {name} were left out: {reason}"))
}

/// Parses the content of a subtitle file, as [`read_sidecar`] does. A text that states no encoding
/// is decoded by a guess.
///
/// # Errors
/// The reason alone.
pub fn parse_sidecar(bytes: &[u8], name: &str, film_name: &str) -> Result<Sidecar, String> {
    if bytes.len() as u64 > SIDECAR_BYTES_MAX {
        return Err(format!("it is larger than {} MiB", SIDECAR_BYTES_MAX >> 20));
    }
    let stem = Path::new(film_name).file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let marks = marks(name, stem).unwrap_or_default();
    let decoded = charset::decode(bytes);
    let cues = parse_cues(&decoded.text)?;
    if cues.is_empty() {
        return Err(no_cue(&decoded.text).to_owned());
    }
    let track = Track {
        kind: TrackKind::Subtitle,
        codec: Codec::WebVtt,
        config: Vec::new(),
        timescale: TIMESCALE,
        language: marks.language,
        name: None,
        default: false,
        forced: marks.forced,
        video: None,
        audio: None,
    };
    let warning = decoded.guessed.map(|encoding| {
        format!("the subtitles {name} do not state their encoding: they were read as {encoding}, a guess")
    });
    Ok(Sidecar { track, cues, warning })
}

#[derive(Debug, Default, PartialEq)]
struct Marks {
    language: Option<String>,
    forced: bool,
}

/// The marks in the name of a subtitle file; `None` if it does not belong to the file `stem`.
fn marks(file_name: &str, stem: &str) -> Option<Marks> {
    let rest = file_name.strip_prefix(stem)?.strip_prefix('.')?;
    let mut parts: Vec<&str> = rest.split('.').collect();
    let extension = parts.pop()?.to_ascii_lowercase();
    if !SUBTITLE_EXTENSIONS.contains(&extension.as_str()) {
        return None;
    }
    let mut marks = Marks::default();
    let mut hi = false;
    for part in parts {
        match part.to_ascii_lowercase().as_str() {
            "forced" => marks.forced = true,
            // Common marks that are not used.
            "default" | "sdh" | "cc" => {}
            "hi" => hi = true,
            lower if marks.language.is_none() && is_language(lower) => {
                marks.language = Some(part.replace('_', "-"))
            }
            _ => return None,
        }
    }
    // After a language it means "hearing impaired", alone it is Hindi.
    if hi && marks.language.is_none() {
        marks.language = Some("hi".to_owned());
    }
    Some(marks)
}

/// `en`, `eng`, `pt-BR`, `zh_Hans`: the form of a BCP 47 tag with at most one more subtag.
pub(crate) fn is_language(part: &str) -> bool {
    let (main, region) =
        part.split_once(['-', '_']).map_or((part, None), |(main, region)| (main, Some(region)));
    matches!(main.len(), 2 | 3)
        && main.bytes().all(|b| b.is_ascii_lowercase())
        && region.is_none_or(|r| (2..=8).contains(&r.len()) && r.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// The bytes of a file, and one beyond the limit if there are more.
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(SIDECAR_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why a text without cues has none.
fn no_cue(text: &str) -> &'static str {
    // No text has this character: it is half of a UTF-16 unit, or the file is something else.
    if text.contains('\0') {
        "it is no text, or text in UTF-16 without a byte order mark; save subtitles as UTF-8"
    } else {
        "there is no cue in the file"
    }
}

/// SubRip and WebVTT share the structure: blocks separated by empty lines, a line with `-->`, then
/// the text. A WebVTT file is recognised by its first line, whatever its name.
///
/// The line with the times of the next cue also ends a text, as in section 6.2 of the WebVTT
/// specification: files edited by hand lack empty lines. In SubRip, the number before it belongs to
/// the next cue too.
fn parse_cues(text: &str) -> Result<Vec<(Sample, String)>, String> {
    if text.lines().any(|line| line.trim().eq_ignore_ascii_case("[events]")) {
        return parse_events(text);
    }
    let web = text.starts_with("WEBVTT");
    let mut cues = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((start_ms, end_ms)) = cue_times(line) else { continue };
        let mut text = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.trim().is_empty() && cue_times(line).is_none()) {
            text.push(line.trim_end());
        }
        if !web && lines.peek().is_some_and(|line| !line.trim().is_empty()) {
            text.pop_if(|number| number.trim().bytes().all(|b| b.is_ascii_digit()));
        }
        let body = text.join("\n");
        let Ok(duration) = u32::try_from(end_ms.saturating_sub(start_ms)) else { continue };
        let body = if web { Some(body).filter(|body| !body.is_empty()) } else { srt::text(&body) };
        let Some(body) = body.filter(|_| duration > 0) else { continue };
        add_cue(&mut cues, start_ms, duration, body)?;
    }
    cues.sort_by_key(|(sample, _)| sample.pts);
    Ok(cues)
}

fn add_cue(
    cues: &mut Vec<(Sample, String)>,
    start_ms: i64,
    duration: u32,
    body: String,
) -> Result<(), String> {
    if cues.len() == SIDECAR_CUES_MAX {
        return Err(format!("it has more than {SIDECAR_CUES_MAX} cues"));
    }
    cues.push((Sample { dts: start_ms, pts: start_ms, duration, sync: true }, body));
    Ok(())
}

/// The fields of an event of SubStation Alpha if the file does not list them. The text is the last,
/// and may contain commas.
const EVENT_FIELDS: &str = "Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text";

/// Where the fields of an event are. The list is read once, not for each event.
struct EventFields {
    count: usize,
    start: Option<usize>,
    end: Option<usize>,
    text: Option<usize>,
}

impl EventFields {
    fn listed(list: &str) -> Result<EventFields, String> {
        let names: Vec<&str> = list.split(',').map(str::trim).take(EVENT_FIELDS_MAX + 1).collect();
        if names.len() > EVENT_FIELDS_MAX {
            return Err(format!("it lists more than {EVENT_FIELDS_MAX} fields for its events"));
        }
        let place = |name: &str| names.iter().position(|of| of.eq_ignore_ascii_case(name));
        let (start, end, text) = (place("Start"), place("End"), place("Text"));
        Ok(EventFields { count: names.len(), start, end, text })
    }

    fn of<'a>(&self, event: &'a str, place: Option<usize>) -> Option<&'a str> {
        event.splitn(self.count, ',').nth(place?).map(str::trim)
    }
}

/// The lines `Dialogue:` of a file of SubStation Alpha.
fn parse_events(text: &str) -> Result<Vec<(Sample, String)>, String> {
    let lines = text.lines().map(str::trim);
    let mut events = lines.skip_while(|line| !line.eq_ignore_ascii_case("[events]")).skip(1);
    let mut fields = EventFields::listed(EVENT_FIELDS)?;
    let mut cues = Vec::new();
    for line in events.by_ref().take_while(|line| !line.starts_with('[')) {
        if let Some(listed) = line.strip_prefix("Format:") {
            fields = EventFields::listed(listed)?;
        }
        let Some(event) = line.strip_prefix("Dialogue:") else { continue };
        let field = |place| fields.of(event, place);
        let times = field(fields.start).and_then(time_ms).zip(field(fields.end).and_then(time_ms));
        let Some(((start_ms, end_ms), body)) = times.zip(field(fields.text).and_then(ass::text)) else {
            continue;
        };
        let Ok(duration) = u32::try_from(end_ms.saturating_sub(start_ms)) else { continue };
        if duration > 0 {
            add_cue(&mut cues, start_ms, duration, body)?;
        }
    }
    cues.sort_by_key(|(sample, _)| sample.pts);
    Ok(cues)
}

/// The times of a line that begins a cue, in milliseconds.
fn cue_times(line: &str) -> Option<(i64, i64)> {
    let (start, rest) = line.split_once("-->")?;
    let end = rest.split_whitespace().next()?;
    Some((time_ms(start.trim())?, time_ms(end)?))
}

/// `01:02:03,456`, `1:02:03.456` or `02:03.456`, in milliseconds. Programs that move cues write
/// times before zero with a minus sign.
fn time_ms(text: &str) -> Option<i64> {
    if let Some(before) = text.strip_prefix('-').filter(|before| !before.starts_with('-')) {
        return time_ms(before).map(|ms| -ms);
    }
    let (clock, millis) = text.split_once(['.', ','])?;
    let millis: i64 = match millis.len() {
        1..=3 if millis.bytes().all(|b| b.is_ascii_digit()) => format!("{millis:0<3}").parse().ok()?,
        _ => return None,
    };
    let mut seconds: i64 = 0;
    let parts: Vec<&str> = clock.split(':').collect();
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    for part in parts {
        if part.is_empty() || part.len() > 4 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        seconds = seconds * 60 + part.parse::<i64>().ok()?;
    }
    Some(seconds * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sidecars_are_found_by_name() {
        let dir = tempfile::tempdir().expect("tempdir");
        for name in [
            "film.mp4",
            "film.srt",
            "film.en.vtt",
            "film.pt-BR.forced.srt",
            "film 2.srt",
            "film.notes.txt",
            "film.x1.srt",
        ] {
            fs::write(dir.path().join(name), "1\n00:00:01,000 --> 00:00:02,000\nHello\n").expect("written");
        }
        let film = dir.path().join("film.mp4");
        let found = find_sidecars(&film);
        let names: Vec<_> = found.iter().filter_map(|p| p.file_name()?.to_str()).collect();
        assert_eq!(names, ["film.en.vtt", "film.pt-BR.forced.srt", "film.srt"]);
        let forced = read_sidecar(&found[1], names[1], "film.mp4").expect("readable");
        assert_eq!((forced.track.language.as_deref(), forced.track.forced), (Some("pt-BR"), true));
        assert_eq!(
            forced.cues,
            [(Sample { dts: 1000, pts: 1000, duration: 1000, sync: true }, "Hello".to_owned())]
        );
    }

    #[test]
    fn hi_means_hindi_or_hearing_impaired() {
        let language = |name: &str| marks(name, "film").expect("a sidecar").language;
        assert_eq!(language("film.hi.srt").as_deref(), Some("hi"));
        assert_eq!(language("film.hi.forced.srt").as_deref(), Some("hi"));
        assert_eq!(language("film.en.hi.srt").as_deref(), Some("en"));
        assert_eq!(language("film.hi.en.srt").as_deref(), Some("en"));
        assert_eq!(language("film.sdh.srt"), None);
    }

    #[test]
    fn subrip_and_webvtt_are_read() {
        let srt = "1\n00:00:01,5 --> 00:00:02,000\n<font color=\"#fff\">Hi</font> <i>you</i>\nthere\n\n2\nbroken --> x\nno\n\n3\n01:00:00,000 --> 01:00:01,250 X1:1\n{\\an8}a --> b\n";
        let cues = parse_cues(srt).expect("parsed");
        assert_eq!(cues.len(), 2);
        assert_eq!(
            (cues[0].0.pts, cues[0].0.duration, cues[0].1.as_str()),
            (1500, 500, "Hi <i>you</i>\nthere")
        );
        assert_eq!((cues[1].0.pts, cues[1].0.duration, cues[1].1.as_str()), (3_600_000, 1250, "a --&gt; b"));
        let vtt =
            "WEBVTT\n\nNOTE x\n\nid\n00:02.000 --> 00:03.000 align:start\nB\n\n00:01.000 --> 00:02.000\nA\n";
        let texts: Vec<_> = parse_cues(vtt).expect("parsed").into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["A", "B"]);
    }

    #[test]
    fn other_encodings_are_read_and_bad_files_refused() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("film.srt");
        let block = "1\r\n00:00:01,000 --> 00:00:02,000\r\nÉté\r\n";
        let utf16: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(block.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        let latin1: Vec<u8> = block.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
        for (bytes, guessed) in [(block.as_bytes().to_vec(), false), (utf16, false), (latin1, true)] {
            fs::write(&path, bytes).expect("written");
            let sidecar = read_sidecar(&path, "film.srt", "film.mp4").expect("readable");
            assert_eq!(sidecar.cues[0].1, "Été");
            assert_eq!(sidecar.warning.is_some_and(|w| w.contains("read as windows-1252")), guessed);
        }
        fs::write(&path, "no cues").expect("written");
        assert!(read_sidecar(&path, "film.srt", "film.mp4").expect_err("nothing in it").contains("no cue"));
        fs::File::create(&path).and_then(|f| f.set_len(SIDECAR_BYTES_MAX + 1)).expect("made");
        assert!(read_sidecar(&path, "film.srt", "film.mp4").expect_err("too large").contains("larger"));
    }

    #[test]
    fn substation_alpha_is_read() {
        let file = "[Script Info]\nTitle: x\n[Events]\n\
            Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n\
            Dialogue: 0,0:00:03.50,0:00:04.00,Default,,0,0,0,,{\\i1}two{\\i0}, and\\Nmore\n\
            Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,not shown\n\
            Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,one\n\
            Dialogue: 0,0:00:01.00,broken\n[Fonts]\nDialogue: 0,0:00:09.00,0:00:10.00,,,0,0,0,,no\n";
        let cues = parse_cues(file).expect("parsed");
        let cues: Vec<_> = cues.iter().map(|(s, text)| (s.pts, s.duration, text.as_str())).collect();
        assert_eq!(cues, [(1000, 1000, "one"), (3500, 500, "<i>two</i>, and\nmore")]);
        let short = "[Events]\nFormat: Start, End, Text\nDialogue: 0:00:01.00,0:00:02.00,a, b\n";
        assert_eq!(parse_cues(short).expect("parsed")[0].1, "a, b");
    }

    #[test]
    fn a_cue_needs_no_empty_line_before_it() {
        let texts = |file: &str| -> Vec<(i64, String)> {
            let cues = parse_cues(file).expect("parsed");
            cues.into_iter().map(|(sample, text)| (sample.pts, text)).collect()
        };
        let expected =
            [(1000, "one\n7".to_owned()), (3000, "two".to_owned()), (5000, "a --&gt; b".to_owned())];
        let srt = "1\n00:00:01,000 --> 00:00:02,000\none\n7\n2\n00:00:03,000 --> 00:00:04,000\ntwo\n\
                   00:00:05,000 --> 00:00:06,000\na --> b\n";
        assert_eq!(texts(srt), expected);
        // A number at the end of a text that is followed by an empty line or nothing is text.
        let last = "00:00:01,000 --> 00:00:02,000\n10\n\n00:00:03,000 --> 00:00:04,000\n9\n";
        assert_eq!(texts(last), [(1000, "10".to_owned()), (3000, "9".to_owned())]);
        let vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\none\n00:03.000 --> 00:04.000\ntwo\n";
        assert_eq!(texts(vtt), [(1000, "one".to_owned()), (3000, "two".to_owned())]);
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "[0-9:,.>\\-\n<{}fontanid /\\\\é]{0,300}") {
            for (sample, cue) in parse_cues(&text).expect("few cues") {
                prop_assert!(sample.duration > 0 && !cue.contains("-->"));
            }
        }
    }

    #[test]
    fn a_list_of_fields_without_end_is_refused() {
        let events = |format: &str| {
            let dialogue = "Dialogue: 0,0:00:01.00,0:00:02.00,,,0,0,0,,Hello";
            parse_cues(&format!("[Events]\nFormat: {format}\n{dialogue}\n"))
        };
        assert_eq!(events(EVENT_FIELDS).expect("a cue").len(), 1);
        let error = events(&format!("{EVENT_FIELDS}{}", ", x".repeat(100))).expect_err("too many fields");
        assert!(error.contains("fields"), "{error}");
    }
}
