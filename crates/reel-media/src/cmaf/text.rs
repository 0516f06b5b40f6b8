//! Subtitle output: the cues of a track as one WebVTT file.

use crate::webvtt::{self, Cue};

/// The cues of one subtitle track, in any order.
#[derive(Debug, Default)]
pub(super) struct Text {
    cues: Vec<Cue>,
    bytes: usize,
    end_ms: u64,
}

impl Text {
    /// Adds a cue shown from `pts` for `duration` ticks. The part before zero is cut off. A cue
    /// that is never shown or has no text is left out.
    pub(super) fn push(&mut self, timescale: u32, pts: i64, duration: u32, text: &[u8]) {
        let start_ms = milliseconds(pts, timescale);
        let end_ms = milliseconds(pts.saturating_add(i64::from(duration)), timescale);
        let Some(text) = webvtt::cue_text(&String::from_utf8_lossy(text)) else { return };
        if end_ms > start_ms {
            self.bytes += text.len() + size_of::<Cue>();
            self.end_ms = self.end_ms.max(end_ms);
            self.cues.push(Cue { start_ms, end_ms, text });
        }
    }

    /// Memory used, for the limit on it.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn cues(&self) -> usize {
        self.cues.len()
    }

    /// The file, and the end of its last cue.
    pub(super) fn finish(&self) -> (Vec<u8>, u64) {
        (webvtt::write(&self.cues).into_bytes(), self.end_ms)
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
        assert_eq!(text.cues(), 2);
        let (file, end_ms) = text.finish();
        assert_eq!(
            String::from_utf8(file).expect("UTF-8"),
            "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\n\u{e9}t\u{e9}\n\n01:02:03.000 --> 01:02:04.500\nlast\n"
        );
        assert_eq!(end_ms, 3_724_500);
    }
}
