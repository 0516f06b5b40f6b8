//! Lengths of time in user notation: `30s`, `1.5min`, `2h`, `500ms`.

use std::fmt;
use std::str::FromStr;

use crate::limits::SPAN_NS_MAX;

/// A length of time above zero, at most a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Nanoseconds.
    pub(crate) ns: u64,
}

/// Why a text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpanError(String);

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let error = || SpanError(text.to_owned());
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit_ns: u64 = match unit.trim_start() {
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(error()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |part: &str| (1..=9).contains(&part.len()) && !part.contains('.');
        if !is_number(whole) || !is_number(fraction) {
            return Err(error());
        }
        let part = |digits: &str| digits.parse::<u64>().map_err(|_| error());
        // Nine digits of an hour fit.
        let fraction_ns = part(fraction)? * (unit_ns / 1000) / 10_u64.pow(fraction.len() as u32) * 1000;
        let ns = part(whole)?.checked_mul(unit_ns).and_then(|ns| ns.checked_add(fraction_ns));
        match ns {
            Some(ns @ 1..=SPAN_NS_MAX) => Ok(Self { ns }),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for SpanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "'{}' is not a length of time; write a number above zero and a unit, such as 500ms, 30s, 1.5min or 2h",
            self.0
        )
    }
}

impl std::error::Error for SpanError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_those_of_a_clock() {
        let ns = |text: &str| text.parse::<Span>().unwrap().ns;
        assert_eq!(ns("30s"), 30_000_000_000);
        assert_eq!(ns("2.5 s"), 2_500_000_000);
        assert_eq!(ns("500ms"), 500_000_000);
        assert_eq!(ns("1.5min"), 90_000_000_000);
        assert_eq!((ns("1m"), ns("2h")), (60_000_000_000, 7_200_000_000_000));
    }

    #[test]
    fn anything_but_a_length_of_time_is_refused() {
        for text in ["", "s", "30", "-1s", "0s", "0.0h", "1.s", ".5s", "1e3s", "1.2.3s", "9000h", "1d", "ten"]
        {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_length_or_an_error(text in "[0-9.]{0,20}(ms|s|min|h)?") {
            let _ = text.parse::<Span>();
        }
    }
}
