//! Rates in user notation: `8M`, `2.5M`, `10G`, `128000`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// Bits per second. Suffixes are powers of 1000, as everywhere in networks and codecs; `bit/s`,
/// `b/s` and `bps` may follow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Rate(pub(crate) u64);

/// The rate of the network, as it is configured: a rate, 0 or "off".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkRate {
    /// 0: that of the interfaces.
    Detected,
    /// The network is neither counted nor scheduled.
    Off,
    /// This one.
    Of(Rate),
}

/// Why a text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RateError(String);

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let error = || RateError(text.to_owned());
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let suffix = suffix.trim_start();
        let suffix =
            ["bit/s", "b/s", "bps"].iter().find_map(|unit| suffix.strip_suffix(unit)).unwrap_or(suffix);
        let digits = match suffix {
            "" => 0,
            "k" | "K" => 3,
            "M" => 6,
            "G" => 9,
            "T" => 12,
            _ => return Err(error()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error());
        }
        // Exact: digits beyond those of the suffix are less than a bit.
        let fraction = format!("{fraction:0<digits$}");
        let fraction = match &fraction[..digits] {
            "" => 0,
            text => text.parse().map_err(|_| error())?,
        };
        let whole: u64 = whole.parse().map_err(|_| error())?;
        let bps = whole.checked_mul(10_u64.pow(digits as u32)).and_then(|bps| bps.checked_add(fraction));
        bps.map(Rate).ok_or_else(error)
    }
}

/// With one decimal: `8.0 Mb/s`.
impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"];
        let (mut value, mut unit) = (self.0 as f64, 0);
        // 999.95 would print as 1000.0 of the smaller unit.
        while value >= 999.95 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
        match unit {
            0 => write!(out, "{} {}", self.0, UNITS[0]),
            _ => write!(out, "{value:.1} {}", UNITS[unit]),
        }
    }
}

impl fmt::Display for RateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "'{}' is not a rate; write bits per second as a number and a unit, such as 8M, 2.5M or 10G",
            self.0
        )
    }
}

impl std::error::Error for RateError {}

impl<'de> Deserialize<'de> for NetworkRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parse;
        impl Visitor<'_> for Parse {
            type Value = NetworkRate;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number of bits per second, a rate such as \"10G\", or \"off\"")
            }

            fn visit_i64<E: de::Error>(self, bps: i64) -> Result<NetworkRate, E> {
                let bps = u64::try_from(bps).map_err(|_| E::custom("a rate cannot be negative"))?;
                self.visit_u64(bps)
            }

            fn visit_u64<E: de::Error>(self, bps: u64) -> Result<NetworkRate, E> {
                Ok(Rate(bps).into())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<NetworkRate, E> {
                if text == "off" {
                    return Ok(NetworkRate::Off);
                }
                text.parse().map(Rate::into).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Parse)
    }
}

impl From<Rate> for NetworkRate {
    fn from(rate: Rate) -> Self {
        if rate == Rate(0) { NetworkRate::Detected } else { NetworkRate::Of(rate) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bps(text: &str) -> u64 {
        text.parse::<Rate>().unwrap().0
    }

    #[test]
    fn units_are_powers_of_a_thousand() {
        assert_eq!(bps("8M"), 8_000_000);
        assert_eq!(bps("2.5M"), 2_500_000);
        assert_eq!(bps("10 Gbit/s"), 10_000_000_000);
        assert_eq!(bps("128k"), 128_000);
        assert_eq!(bps("128000"), 128_000);
        assert_eq!(bps("0.0000019M"), 1);
    }

    #[test]
    fn anything_but_a_rate_is_refused() {
        for text in
            ["", "M", "-8M", "8MB", "8 MiB", "1..5M", "1.M", ".5M", "1e6", "fast", "99999999999T", "1.2.3M"]
        {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_shown_with_one_decimal() {
        assert_eq!(Rate(999).to_string(), "999 b/s");
        assert_eq!(Rate(8_000_000).to_string(), "8.0 Mb/s");
        assert_eq!(Rate(999_999_999).to_string(), "1.0 Gb/s");
    }

    proptest! {
        #[test]
        fn any_text_is_a_rate_or_an_error(text in ".{0,40}") {
            let _ = text.parse::<Rate>();
        }
    }
}
