//! What is written to the files of a stream: one line, with a word or a number. Pure.

use crate::limits::{CLASS_BYTES_MAX, POSITION_NS_MAX, RATE_BPS_MAX, WRITTEN_BYTES_MAX};
use crate::node::is_name;
use crate::poured::poured_name;
use crate::problem::Problem;
use std::sync::Arc;

/// A line that was written to `ctl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Start,
    Pause,
    /// To this media time.
    Seek(u64),
    /// The server plays it into this destination.
    Join(Arc<str>),
    /// A further branch of it.
    Split,
    /// Its pictures with the sound of the title of this stream.
    Merge(u64),
    Close,
}

/// The line that was written at once. The newline may be left out.
pub(crate) fn line_of(written: &[u8]) -> Result<&str, Problem> {
    if written.len() > WRITTEN_BYTES_MAX {
        return Err(Problem::invalid(format!("a line has at most {WRITTEN_BYTES_MAX} bytes")));
    }
    let line = str::from_utf8(written).map_err(|_| Problem::invalid("what was written is not UTF-8"))?;
    let line = line.strip_suffix('\n').unwrap_or(line);
    match line {
        _ if line.contains('\n') => Err(Problem::invalid("write one line at a time; nothing was done")),
        _ if line.contains(char::is_control) => Err(Problem::invalid("a line has no control characters")),
        _ => Ok(line.trim()),
    }
}

impl Command {
    /// The command of a line.
    pub(crate) fn parse(line: &str) -> Result<Command, Problem> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest.trim()) {
            ("start", "") => Ok(Command::Start),
            ("pause", "") => Ok(Command::Pause),
            ("close", "") => Ok(Command::Close),
            ("seek", seconds) => Ok(Command::Seek(position_ns(seconds)?)),
            ("split", "") => Ok(Command::Split),
            ("join", dest) if !dest.is_empty() => Ok(Command::Join(dest.into())),
            ("merge", number) => Ok(Command::Merge(stream(number)?)),
            _ => Err(Problem::invalid(format!(
                "{line:.80?} is no command; there are start, pause, seek SECONDS, join DEST, split, merge NUMBER and close"
            ))),
        }
    }
}

/// The number of a stream, as `ls streams` shows it.
fn stream(text: &str) -> Result<u64, Problem> {
    let number = text.parse::<u64>().ok().filter(|number| number.to_string() == text);
    number.ok_or_else(|| {
        Problem::invalid(format!("{text:.80?} is no number of a stream; `ls streams` shows them"))
    })
}

/// The id of a title, or the name of a merged one or of a poured stream.
pub(crate) fn title(line: &str) -> Result<Arc<str>, Problem> {
    match is_name(poured_name(line).unwrap_or(line)) {
        true => Ok(line.into()),
        false => Err(Problem::invalid("that is no id of a title; `ls titles` shows them")),
    }
}

/// The name of a class.
pub(crate) fn class(line: &str) -> Result<Arc<str>, Problem> {
    match is_name(line) && line.len() <= CLASS_BYTES_MAX {
        true => Ok(line.into()),
        false => Err(Problem::invalid("that is no name of a class; `ls classes` shows them")),
    }
}

/// A rate in bits per second: `5M`, `2.5M`, `800k`, `5000000`.
pub(crate) fn rate_bps(line: &str) -> Result<u64, Problem> {
    let (number, digits) = match line.as_bytes().last() {
        Some(b'k' | b'K') => (&line[..line.len() - 1], 3),
        Some(b'M') => (&line[..line.len() - 1], 6),
        Some(b'G') => (&line[..line.len() - 1], 9),
        _ => (line, 0),
    };
    let rate = decimal(number, digits).filter(|rate_bps| (1..=RATE_BPS_MAX).contains(rate_bps));
    rate.ok_or_else(|| {
        Problem::invalid(format!("{line:.80?} is no rate; write bits per second, such as 5M, 2.5M or 800k"))
    })
}

/// A media time in seconds: `61.5`.
pub(crate) fn position_ns(line: &str) -> Result<u64, Problem> {
    let position = decimal(line, 9).filter(|ns| *ns <= POSITION_NS_MAX);
    position
        .ok_or_else(|| Problem::invalid(format!("{line:.80?} is no position; write seconds, such as 61.5")))
}

/// A media time as it is written.
pub(crate) fn seconds(ns: u64) -> String {
    let text = format!("{}.{:03}", ns / 1_000_000_000, ns / 1_000_000 % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with a fraction, as a whole number of its unit with this many `digits`. Digits beyond
/// those are left out.
fn decimal(text: &str, digits: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = format!("{fraction:0<digits$}");
    let fraction: u64 = if digits == 0 { 0 } else { fraction[..digits].parse().ok()? };
    whole.parse::<u64>().ok()?.checked_mul(10_u64.pow(digits as u32))?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::io::Errno;

    #[test]
    fn a_write_is_one_line_with_or_without_its_end() {
        for written in [&b"start"[..], b"start\n", b" start "] {
            assert_eq!(line_of(written), Ok("start"));
        }
        assert_eq!(line_of(b""), Ok(""));
        let longest = [b'a'; WRITTEN_BYTES_MAX + 1];
        assert!(line_of(&longest[1..]).is_ok());
        for refused in [&longest[..], b"start\npause\n", b"start\n\n", b"a\0", b"\x1b[2J", b"\xff"] {
            assert_eq!(line_of(refused).map_err(|problem| problem.errno), Err(Errno::INVAL), "{refused:.9?}");
        }
    }

    #[test]
    fn words_are_commands_and_others_are_none() {
        assert_eq!(Command::parse("start"), Ok(Command::Start));
        assert_eq!(Command::parse("seek 61.5"), Ok(Command::Seek(61_500_000_000)));
        for line in ["", "Start", "start now", "seek", "seek -1", "seek 1e3", "seek inf", "seek 1 2", "stop"]
        {
            assert_eq!(Command::parse(line).map_err(|problem| problem.errno), Err(Errno::INVAL), "{line}");
        }
        assert_eq!(Command::parse("join file:a b.mp4"), Ok(Command::Join("file:a b.mp4".into())));
        assert_eq!(Command::parse("split"), Ok(Command::Split));
        for line in ["join", "join ", "split 2"] {
            assert_eq!(Command::parse(line).map_err(|problem| problem.errno), Err(Errno::INVAL), "{line}");
        }
        assert_eq!(Command::parse("merge 12"), Ok(Command::Merge(12)));
        for line in [
            "merge",
            "merge ",
            "merge 01",
            "merge +1",
            "merge 1 2",
            "merge film",
            "merge 99999999999999999999",
        ] {
            assert_eq!(Command::parse(line).map_err(|problem| problem.errno), Err(Errno::INVAL), "{line}");
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        assert_eq!(
            ["5M", "2.5M", "800k", "5000000", "0.0000009M"].map(rate_bps).map(Result::ok),
            [Some(5_000_000), Some(2_500_000), Some(800_000), Some(5_000_000), None]
        );
        for line in ["", "M", "-5M", "5MB", "5 M", "1..5M", "0", "fast", "99999999999G", "\u{e9}M"] {
            assert!(rate_bps(line).is_err(), "{line}");
        }
        for (line, ns) in
            [("0", 0), ("61.5", 61_500_000_000), ("0.001", 1_000_000), ("7200", 7_200_000_000_000)]
        {
            assert_eq!((position_ns(line).ok(), seconds(ns).as_str()), (Some(ns), line));
        }
        assert!(position_ns("99999999999999").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_line_or_refused(written in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(line) = line_of(&written) {
                let _ = (Command::parse(line), title(line), class(line), rate_bps(line), position_ns(line));
            }
        }

        #[test]
        fn a_read_gives_what_a_write_takes(ms in 0..1_000_000_000_u64) {
            let ns = ms * 1_000_000;
            prop_assert_eq!(position_ns(&seconds(ns)).ok(), Some(ns));
        }
    }
}
