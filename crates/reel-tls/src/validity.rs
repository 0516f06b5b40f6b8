//! The period in which a certificate is valid (RFC 5280 section 4.1.2.5), read from its DER.
//!
//! Only this field is needed, from a file of the operator's own; a parser of whole certificates
//! would add fifteen crates.

use crate::error::IdentityError;
use std::fmt;

/// A period in seconds since 1970 (UTC), both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before_s: i64,
    /// The last second.
    pub not_after_s: i64,
}

impl Validity {
    /// Reads the period from a certificate.
    ///
    /// # Errors
    /// If the dates are not where RFC 5280 puts them.
    pub fn of_der(certificate: &[u8]) -> Result<Self, IdentityError> {
        Self::parse(certificate)
            .ok_or(IdentityError::NotCertificate("its dates are not where RFC 5280 puts them"))
    }

    /// Checks that `now_s` lies in the period.
    ///
    /// # Errors
    /// If the certificate is not valid yet, or has expired.
    pub fn check(&self, now_s: i64) -> Result<(), IdentityError> {
        if now_s < self.not_before_s {
            Err(IdentityError::NotYetValid(date_text(self.not_before_s)))
        } else if now_s > self.not_after_s {
            Err(IdentityError::Expired(date_text(self.not_after_s)))
        } else {
            Ok(())
        }
    }

    fn parse(certificate: &[u8]) -> Option<Self> {
        let mut outer = Der(certificate);
        let mut to_be_signed = Der(Der(outer.value(SEQUENCE)?).value(SEQUENCE)?);
        if to_be_signed.0.first() == Some(&VERSION) {
            to_be_signed.value(VERSION)?;
        }
        to_be_signed.value(INTEGER)?;
        to_be_signed.value(SEQUENCE)?;
        to_be_signed.value(SEQUENCE)?;
        let mut validity = Der(to_be_signed.value(SEQUENCE)?);
        Some(Self { not_before_s: validity.time()?, not_after_s: validity.time()? })
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", date_text(self.not_before_s), date_text(self.not_after_s))
    }
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The rest of a list of DER elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next element, which must have this tag.
    fn value(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, value) = self.next()?;
        (found == tag).then_some(value)
    }

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, short], mut rest) = self.0.split_first_chunk()?;
        let mut bytes = usize::from(short);
        if short & 0x80 != 0 {
            let (digits, after) = rest.split_at_checked(usize::from(short & 0x7f))?;
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            bytes = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            rest = after;
        }
        let (value, after) = rest.split_at_checked(bytes)?;
        self.0 = after;
        Some((tag, value))
    }

    fn time(&mut self) -> Option<i64> {
        let (tag, text) = self.next()?;
        let text = text.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        let number = |range: std::ops::Range<usize>| -> Option<i64> {
            Some(text.get(range)?.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
        };
        let (year, rest) = match tag {
            // RFC 5280 section 4.1.2.5.1: two digits mean 1950 to 2049.
            UTC_TIME => match number(0..2)? {
                year @ 50.. => (1900 + year, 2),
                year => (2000 + year, 2),
            },
            GENERALIZED_TIME => (number(0..4)?, 4),
            _ => return None,
        };
        let part = |index: usize| number(rest + 2 * index..rest + 2 * index + 2);
        let (month, day) = (part(0)?, part(1)?);
        let (hour, minute, second) = (part(2)?, part(3)?, part(4)?);
        let sound =
            (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
        sound.then(|| ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. Years begin in March, so that the leap
/// day is the last day of a year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
        - 719_468
}

/// The day of a time, in the form 2026-11-21.
pub(crate) fn date_text(at_s: i64) -> String {
    let day = at_s.div_euclid(86_400);
    // The estimate of the year is off by at most one, and the month needs at most twelve tries.
    let mut year = 1970 + day * 400 / 146_097;
    while days(year, 1, 1) > day {
        year -= 1;
    }
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days(year, *month, 1) <= day).unwrap_or(1);
    format!("{year:04}-{month:02}-{:02}", day - days(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn days_match_the_calendar() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 2, 29), 11_016);
        assert_eq!(days(2026, 11, 21), 20_778);
        assert_eq!(date_text(20_778 * 86_400 + 5), "2026-11-21");
        assert_eq!(date_text(11_016 * 86_400), "2000-02-29");
    }

    #[test]
    fn both_forms_of_time_are_read() {
        let time = |tag: u8, text: &str| {
            let mut der = vec![tag, text.len() as u8];
            der.extend(text.as_bytes());
            Der(&der).time()
        };
        assert_eq!(time(UTC_TIME, "261121000000Z"), Some(20_778 * 86_400));
        assert_eq!(time(GENERALIZED_TIME, "20261121000001Z"), Some(20_778 * 86_400 + 1));
        assert_eq!(time(UTC_TIME, "700101000000Z"), Some(0));
        for bad in ["261321000000Z", "261121000000", "2611210000Z", "26112100000xZ", "Z", ""] {
            assert_eq!(time(UTC_TIME, bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_result(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Validity::of_der(&bytes);
        }

        #[test]
        fn dates_round_trip(at_day in -700_000i64..2_900_000) {
            let text = date_text(at_day * 86_400);
            let mut parts = text.rsplitn(3, '-').map(|part| part.parse::<i64>().unwrap());
            let (day, month, year) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
            prop_assert_eq!(days(year, month, day), at_day);
        }
    }
}
