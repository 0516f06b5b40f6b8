//! Rates as people write them: `8M`, `2.5G`, `800k`, in bits per second and powers of 1000.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Rate(pub(crate) u64);

/// Why a text is no rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RateError(String);

impl std::error::Error for RateError {}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no rate; write bits per second such as 8M, 2.5G or 800k", self.0)
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let error = || RateError(text.chars().take(40).collect());
        let plain = text.trim();
        let (number, unit) = match plain.char_indices().last() {
            Some((at, 'k' | 'K')) => (&plain[..at], 1e3),
            Some((at, 'M')) => (&plain[..at], 1e6),
            Some((at, 'G')) => (&plain[..at], 1e9),
            _ => (plain, 1.0),
        };
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(error());
        }
        let bps = number.parse::<f64>().map_err(|_| error())? * unit;
        // Beyond this nothing is a rate, and the rounding of the number would show.
        if bps > 1e15 { Err(error()) } else { Ok(Self(bps.round() as u64)) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.0 as f64;
        match self.0 {
            1_000_000_000.. => write!(f, "{:.1} Gb/s", bps / 1e9),
            1_000_000.. => write!(f, "{:.1} Mb/s", bps / 1e6),
            _ => write!(f, "{:.1} kb/s", bps / 1e3),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Bps(u64),
            Text(String),
        }
        match Written::deserialize(deserializer) {
            Ok(Written::Bps(bps)) => Ok(Rate(bps)),
            Ok(Written::Text(text)) => text.parse().map_err(D::Error::custom),
            Err(_) => Err(D::Error::custom("a rate is bits per second, or a text such as \"10G\"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_powers_of_1000() {
        for (text, bps) in
            [("8M", 8_000_000), ("2.5G", 2_500_000_000), ("800k", 800_000), (" 12 ", 12), ("0", 0)]
        {
            assert_eq!(text.parse(), Ok(Rate(bps)), "{text}");
        }
        for text in ["", "M", "-1", "8MB", "1e9", "9999999G", "fast", "1.2.3"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert_eq!(Rate(2_500_000_000).to_string(), "2.5 Gb/s");
        assert_eq!(Rate(800_000).to_string(), "800.0 kb/s");
    }
}
