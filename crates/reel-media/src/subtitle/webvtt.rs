//! WebVTT files (W3C WebVTT: The Web Video Text Tracks Format).

use std::fmt::Write;

/// A stretch of time with text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cue {
    /// When it appears, in milliseconds of the presentation.
    pub start_ms: u64,
    /// When it disappears, in milliseconds of the presentation.
    pub end_ms: u64,
    /// Cue text: WebVTT markup, as in the samples of a [`crate::Codec::WebVtt`] track.
    pub text: String,
}

/// Writes a whole file. Cues are sorted by their start; those without text or duration are left
/// out.
pub fn write(cues: &[Cue]) -> String {
    let mut sorted: Vec<&Cue> = cues.iter().filter(|cue| cue.end_ms > cue.start_ms).collect();
    sorted.sort_by_key(|cue| (cue.start_ms, cue.end_ms));
    let mut file = String::from("WEBVTT\n");
    for cue in sorted {
        if let Some(text) = cue_text(&cue.text) {
            file.push('\n');
            write_time(&mut file, cue.start_ms);
            file.push_str(" --> ");
            write_time(&mut file, cue.end_ms);
            file.push('\n');
            file.push_str(&text);
            file.push('\n');
        }
    }
    file
}

/// Makes text safe for a cue: no arrow, no empty line, no control character; `None` if no text
/// remains.
pub(crate) fn cue_text(text: &str) -> Option<String> {
    let text = text.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}'], "\n");
    let text: String = text.chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control()).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // A replacement inside a longer row of hyphens leaves no arrow, as a removal could.
    let text = lines.join("\n").replace("-->", "--&gt;");
    is_visible(&text).then_some(text)
}

/// Whether there is text outside of the tags.
fn is_visible(text: &str) -> bool {
    let mut inside = false;
    text.chars().any(|c| {
        match c {
            '<' => inside = true,
            '>' if inside => inside = false,
            c => return !inside && !c.is_whitespace(),
        }
        false
    })
}

/// A time as a cue states it.
pub(crate) fn time(ms: u64) -> String {
    let mut text = String::new();
    write_time(&mut text, ms);
    text
}

fn write_time(file: &mut String, ms: u64) {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    // Writing to a string cannot fail.
    let _ = write!(file, "{:02}:{:02}:{:02}.{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cue(start_ms: u64, end_ms: u64, text: &str) -> Cue {
        Cue { start_ms, end_ms, text: text.to_owned() }
    }

    #[test]
    fn a_file() {
        let file = write(&[
            cue(3_723_004, 3_724_000, "two\r\n\r\nlines"),
            cue(0, 1500, "<i>one</i>"),
            cue(5, 5, "no time"),
        ]);
        let expected = "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\n<i>one</i>\n\n01:02:03.004 --> 01:02:04.000\ntwo\nlines\n";
        assert_eq!(file, expected);
        assert_eq!(write(&[]), "WEBVTT\n");
    }

    #[test]
    fn text_without_visible_characters_is_dropped() {
        assert_eq!(cue_text(" \n <b> </b>\u{0}"), None);
        assert_eq!(cue_text("a --> b").as_deref(), Some("a --&gt; b"));
        assert_eq!(cue_text("--->\n").as_deref(), Some("---&gt;"));
    }

    proptest! {
        /// For any text, the file has as many cue lines as cues with text, and no cue text has an
        /// empty line.
        #[test]
        fn text_never_ends_its_cue(texts in prop::collection::vec("\\PC*|(a|-|>|\n|\r|<|\u{0})*", 0..6)) {
            let cues: Vec<Cue> = texts.iter().enumerate().map(|(at, text)| cue(at as u64, at as u64 + 1, text)).collect();
            let kept: Vec<String> = texts.iter().filter_map(|text| cue_text(text)).collect();
            let file = write(&cues);
            prop_assert_eq!(file.matches("-->").count(), kept.len());
            prop_assert_eq!(file.split("\n\n").count(), kept.len() + 1);
        }
    }
}
