//! Subtitle output: the cues of a track as one WebVTT file.

use crate::webvtt::{self, Cue};

/// The cues of one subtitle track, in any order.
#[derive(Debug, Default)]
pub(super) struct Text {
    cues: Vec<Cue>,
    bytes: usize,
    /// Cues that end before the presentation begins.
    before: usize,
}

/// The stored form of a subtitle track.
pub(super) struct Written {
    /// The WebVTT file.
    pub(super) file: Vec<u8>,
    pub(super) cues: usize,
    /// End of the last cue.
    pub(super) end_ms: u64,
    /// What the person who ingests should know, without the name of the track.
    pub(super) warnings: Vec<String>,
}

impl Text {
    /// Adds a cue shown from `pts` for `duration` ticks. The part before zero is cut off. A cue
    /// that is never shown or has no text is left out.
    pub(super) fn push(&mut self, timescale: u32, pts: i64, duration: u32, text: &[u8]) {
        let end = pts.saturating_add(i64::from(duration));
        let start_ms = milliseconds(pts, timescale);
        let end_ms = milliseconds(end, timescale);
        let Some(text) = webvtt::cue_text(&String::from_utf8_lossy(text)) else { return };
        if end_ms > start_ms {
            self.bytes += text.len() + size_of::<Cue>();
            self.cues.push(Cue { start_ms, end_ms, text });
        } else if duration > 0 && end <= 0 {
            self.before += 1;
        }
    }

    /// Memory used, for the limit on it.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The file. Cues are shown over pictures or with sound: those that begin at or after
    /// `media_end_ms` are left out, and those that end later are shortened. `None` is for a file
    /// without pictures and sound.
    pub(super) fn finish(mut self, media_end_ms: Option<u64>) -> Written {
        let mut warnings = Vec::new();
        if self.before > 0 {
            warnings.push(format!("cues that end before the beginning are left out: {}", self.before));
        }
        if let Some(media_end_ms) = media_end_ms {
            let late = self.cues.extract_if(.., |cue| cue.start_ms >= media_end_ms);
            let starts_ms: Vec<u64> = late.map(|cue| cue.start_ms).collect();
            if let (Some(first_ms), Some(last_ms)) = (starts_ms.iter().min(), starts_ms.iter().max()) {
                warnings.push(format!(
                    "cues that begin after the end of picture and sound ({}) are left out: {}, from {} to {}",
                    webvtt::time(media_end_ms),
                    starts_ms.len(),
                    webvtt::time(*first_ms),
                    webvtt::time(*last_ms),
                ));
            }
            self.cues.iter_mut().for_each(|cue| cue.end_ms = cue.end_ms.min(media_end_ms));
        }
        Written {
            file: webvtt::write(&self.cues).into_bytes(),
            cues: self.cues.len(),
            end_ms: self.cues.iter().map(|cue| cue.end_ms).max().unwrap_or(0),
            warnings,
        }
    }
}

fn milliseconds(ticks: i64, timescale: u32) -> u64 {
    let ticks = u128::try_from(ticks).unwrap_or(0);
    let scale = u128::from(timescale);
    ((ticks * 1000 + scale / 2) / scale) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cues_are_cut_at_zero_and_sorted() {
        let mut text = Text::default();
        text.push(90_000, 90_000 * 3723, 135_000, b"last");
        text.push(1000, -500, 1000, "\u{e9}t\u{e9}".as_bytes());
        text.push(1000, 10, 0, b"never shown");
        text.push(1000, 10, 10, b"  \n");
        let Written { file, cues, end_ms, warnings } = text.finish(None);
        assert_eq!((cues, warnings), (2, Vec::<String>::new()));
        assert_eq!(
            String::from_utf8(file).expect("UTF-8"),
            "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\n\u{e9}t\u{e9}\n\n01:02:03.000 --> 01:02:04.500\nlast\n"
        );
        assert_eq!(end_ms, 3_724_500);
    }

    #[test]
    fn cues_outside_of_picture_and_sound_are_left_out() {
        let mut text = Text::default();
        text.push(1000, -3000, 1000, b"before");
        text.push(1000, -1000, 2000, b"first");
        text.push(1000, 7000, 5000, b"over the end");
        text.push(1000, 8000, 1000, b"at the end");
        text.push(1000, 36_000_000, 3000, b"late");
        let Written { file, cues, end_ms, warnings } = text.finish(Some(8000));
        assert_eq!((cues, end_ms), (2, 8000));
        assert_eq!(
            String::from_utf8(file).expect("UTF-8"),
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nfirst\n\n00:00:07.000 --> 00:00:08.000\nover the end\n"
        );
        assert_eq!(
            warnings,
            [
                "cues that end before the beginning are left out: 1",
                "cues that begin after the end of picture and sound (00:00:08.000) are left out: 2, \
                 from 00:00:08.000 to 10:00:00.000",
            ]
        );
    }
}
