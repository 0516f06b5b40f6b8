//! Subtitles out: the cues of a track as one WebVTT file (W3C WebVTT, section 4).

/// The cues of one subtitle track. They come in any order and leave sorted by time.
#[derive(Debug, Default)]
pub(crate) struct Text {
    cues: Vec<Cue>,
    bytes: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cue {
    start_ms: u64,
    end_ms: u64,
    text: String,
}

impl Text {
    /// Adds a cue shown from `pts` for `duration` ticks. What lies before zero is cut off; a cue that is
    /// never shown or says nothing is left out.
    pub(crate) fn push(&mut self, timescale: u32, pts: i64, duration: u32, text: &[u8]) {
        let start_ms = milliseconds(pts, timescale);
        let end_ms = milliseconds(pts.saturating_add(i64::from(duration)), timescale);
        let text = payload(&String::from_utf8_lossy(text));
        if end_ms > start_ms && !text.is_empty() {
            self.bytes += text.len() + size_of::<Cue>();
            self.cues.push(Cue { start_ms, end_ms, text });
        }
    }

    /// Memory taken, for the limit on it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn cues(&self) -> usize {
        self.cues.len()
    }

    /// The file, and its end in milliseconds.
    pub(crate) fn finish(mut self) -> (Vec<u8>, u64) {
        self.cues.sort();
        let mut file = String::from("WEBVTT\n");
        let mut end_ms = 0;
        for cue in &self.cues {
            end_ms = end_ms.max(cue.end_ms);
            file += &format!("\n{} --> {}\n{}\n", clock(cue.start_ms), clock(cue.end_ms), cue.text);
        }
        (file.into_bytes(), end_ms)
    }
}

fn milliseconds(ticks: i64, timescale: u32) -> u64 {
    let ticks = u128::try_from(ticks).unwrap_or(0);
    let scale = u128::from(timescale);
    ((ticks * 1000 + scale / 2) / scale) as u64
}

fn clock(ms: u64) -> String {
    format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
}

/// Cue text without what would end the cue (an empty line) or start another one (an arrow).
fn payload(text: &str) -> String {
    let text = text.replace('\r', "\n").replace('\0', "\u{fffd}").replace("-->", "--&gt;");
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cues_are_sorted_and_tame() {
        let mut text = Text::default();
        text.push(1000, 3_723_004, 1500, b"last\r\n\r\nline --> x");
        text.push(1000, -500, 1000, "\u{e9}t\u{e9}".as_bytes());
        text.push(1000, 10, 0, b"never shown");
        text.push(1000, 10, 10, b"  \n");
        assert_eq!(text.cues(), 2);
        let (file, end_ms) = text.finish();
        assert_eq!(
            String::from_utf8(file).expect("UTF-8"),
            "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\n\u{e9}t\u{e9}\n\n\
             01:02:03.004 --> 01:02:04.504\nlast\nline --&gt; x\n"
        );
        assert_eq!(end_ms, 3_724_504);
    }
}
