//! Sizes in user notation: `20G`, `8M`, `1.5GiB`, `4096`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A number of bytes.
///
/// As in coreutils, `K M G T P` and `KiB MiB GiB TiB PiB` are powers of 1024; `kB MB GB TB PB` are
/// powers of 1000. A fraction is allowed before a suffix and is rounded down to whole bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Size(pub(crate) u64);

impl Size {
    /// The number of bytes.
    pub(crate) const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let unit = unit_bytes(suffix.trim_start()).ok_or_else(|| SizeError::Malformed(text.into()))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || (fraction.is_empty() && number.contains('.')) || fraction.contains('.') {
            return Err(SizeError::Malformed(text.into()));
        }
        let whole: u64 = whole.parse().map_err(|_| SizeError::TooLarge(text.into()))?;
        let bytes = whole.checked_mul(unit).ok_or_else(|| SizeError::TooLarge(text.into()))?;
        let bytes = bytes
            .checked_add(fraction_bytes(fraction, unit))
            .ok_or_else(|| SizeError::TooLarge(text.into()))?;
        Ok(Self(bytes))
    }
}

/// With one decimal and a binary unit: `1.5 GiB`.
impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(out, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // 1023.95 would print as 1024.0 of the smaller unit.
        while value >= 1023.95 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(out, "{value:.1} {}", UNITS[unit])
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parse;
        impl Visitor<'_> for Parse {
            type Value = Size;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number of bytes or a size such as \"512M\"")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(Size).map_err(|_| E::custom("a size cannot be negative"))
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Parse)
    }
}

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SizeError {
    /// Not `NUMBER[SUFFIX]`.
    Malformed(String),
    /// More bytes than 64 bits can count.
    TooLarge(String),
}

impl fmt::Display for SizeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(text) => {
                write!(out, "'{text}' is not a size; write a number and a unit, such as 20G, 512M or 4096")
            }
            Self::TooLarge(text) => write!(out, "'{text}' is larger than any disk (16 EiB)"),
        }
    }
}

impl std::error::Error for SizeError {}

fn unit_bytes(suffix: &str) -> Option<u64> {
    let (power, base) = match suffix {
        "" | "B" => (0, 1024_u64),
        "K" | "k" | "KiB" => (1, 1024),
        "M" | "MiB" => (2, 1024),
        "G" | "GiB" => (3, 1024),
        "T" | "TiB" => (4, 1024),
        "P" | "PiB" => (5, 1024),
        "kB" | "KB" => (1, 1000),
        "MB" => (2, 1000),
        "GB" => (3, 1000),
        "TB" => (4, 1000),
        "PB" => (5, 1000),
        _ => return None,
    };
    Some(base.pow(power))
}

/// `fraction` (the digits after the point) of a unit; exact, because digits beyond the 18th are
/// below one byte.
fn fraction_bytes(fraction: &str, unit: u64) -> u64 {
    let digits = &fraction[..fraction.len().min(18)];
    let scale = 10_u128.pow(digits.len() as u32);
    let numerator: u128 = digits.parse().unwrap_or(0);
    (numerator * u128::from(unit) / scale) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(text: &str) -> u64 {
        text.parse::<Size>().unwrap().bytes()
    }

    #[test]
    fn units_are_those_of_coreutils() {
        assert_eq!(bytes("4096"), 4096);
        assert_eq!(bytes("20G"), 20 << 30);
        assert_eq!(bytes("8M"), 8 << 20);
        assert_eq!(bytes("8 MiB"), 8 << 20);
        assert_eq!(bytes("2TB"), 2_000_000_000_000);
        assert_eq!(bytes("1.5G"), 3 << 29);
        assert_eq!(bytes("0"), 0);
    }

    #[test]
    fn anything_but_a_size_is_refused() {
        for text in ["", "G", "-1G", "1..5G", "1.G", ".5G", "1.2.3M", "12X", "1e9", "0x10", "1G2", "ten"] {
            assert!(matches!(text.parse::<Size>(), Err(SizeError::Malformed(_))), "{text}");
        }
        for text in ["99999999999999999999", "20000000T"] {
            assert!(matches!(text.parse::<Size>(), Err(SizeError::TooLarge(_))), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_with_one_decimal() {
        assert_eq!(Size(1023).to_string(), "1023 B");
        assert_eq!(Size(1536).to_string(), "1.5 KiB");
        assert_eq!(Size((1 << 30) - 1).to_string(), "1.0 GiB");
        assert_eq!(Size(u64::MAX).to_string(), "16.0 EiB");
    }

    proptest! {
        #[test]
        fn any_text_is_a_size_or_an_error(text in ".{0,40}") {
            let _ = text.parse::<Size>();
        }

        #[test]
        fn whole_units_are_exact(number in 0_u64..1 << 20, unit in 0_usize..5) {
            let (suffix, bytes_per) = [("", 1), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1_u64 << 40)][unit];
            prop_assert_eq!(bytes(&format!("{number}{suffix}")), number * bytes_per);
        }
    }
}
