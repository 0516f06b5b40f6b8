//! HTTP dates (RFC 9110 section 5.6.7).

use std::time::{SystemTime, UNIX_EPOCH};

/// `unix_s` as an IMF-fixdate, for example `Sat, 21 Nov 2026 09:08:00 GMT`.
pub fn http_date(unix_s: u64) -> String {
    let unix_s = unix_s.min(YEAR_9999_END_S);
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    let weekday = WEEKDAYS[(days % 7) as usize];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT", MONTHS[month])
}

/// The date for `Last-Modified`: not after now, though the clock may have been ahead when something
/// was stored (RFC 9110 section 8.8.2.1).
pub fn last_modified(unix_s: u64) -> String {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    http_date(unix_s.min(now_s))
}

/// The seconds since 1970 of a date in any of the three forms that a recipient has to understand;
/// `None` if it is not one. A date before 1970 counts as 1970: nothing in Reel is older.
pub fn seconds_of_http_date(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (year, month, day, time) = match words[..] {
        // IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT
        [_, day, month, year, time, "GMT"] => (number(year, 4)?, month, day, time),
        // RFC 850: Sunday, 06-Nov-94 08:49:37 GMT
        [_, date, time, "GMT"] => {
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, number(parts.next()?, 2)?);
            // The RFC counts from today. The programs that send such dates were written after 1970.
            (if year < 70 { 2000 + year } else { 1900 + year }, month, day, time)
        }
        // asctime: Sun Nov  6 08:49:37 1994
        [_, month, day, time, year] => (number(year, 4)?, month, day, time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| *name == month)?;
    let day = number(day, day.len().min(2))?;
    let mut parts = time.split(':');
    let (hour, minute, second) =
        (number(parts.next()?, 2)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let is_date = day >= 1 && day <= month_days(year, month) && parts.next().is_none();
    // The 60th second is a leap second.
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let years = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum::<u64>();
    let months = (0..month).map(|month| month_days(year, month)).sum::<u64>();
    if year < 1970 {
        return Some(0);
    }
    Some((years + months + day - 1) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// A number of exactly `digits` digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Year, month (from 0) and day (from 1) of a day since 1970-01-01, in the Gregorian calendar.
fn civil(mut days: u64) -> (u64, usize, u64) {
    let mut year = 1970;
    loop {
        let length = 365 + u64::from(is_leap(year));
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let mut month = 0;
    loop {
        let length = month_days(year, month);
        if days < length {
            return (year, month, days + 1);
        }
        days -= length;
        month += 1;
    }
}

fn month_days(year: u64, month: usize) -> u64 {
    MONTH_DAYS[month] + u64::from(month == 1 && is_leap(year))
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// The format has four digits for the year.
const YEAR_9999_END_S: u64 = 253_402_300_799;
/// The first of January 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTH_DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_was_modified_after_now() {
        assert_eq!(last_modified(0), http_date(0));
        let now = seconds_of_http_date(&last_modified(u64::MAX)).expect("a date");
        let later = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        assert!((1..=later).contains(&now), "{now}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(unix_s in 0..=YEAR_9999_END_S) {
            prop_assert_eq!(seconds_of_http_date(&http_date(unix_s)), Some(unix_s));
        }

        #[test]
        fn any_text_is_a_date_or_none(text in "[A-Za-z0-9:, -]{0,40}") {
            let _ = seconds_of_http_date(&text);
        }
    }

    #[test]
    fn dates_are_read_in_all_three_forms() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(seconds_of_http_date(text), Some(784_111_777), "{text}");
        }
        assert_eq!(seconds_of_http_date("Sun, 06 Nov 1904 08:49:37 GMT"), Some(0));
        for text in [
            "",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 08:49:37:1 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 19940 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(seconds_of_http_date(text), None, "{text}");
        }
    }

    #[test]
    fn known_dates() {
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT", "the example of the RFC");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(1_709_251_199), "Thu, 29 Feb 2024 23:59:59 GMT");
        assert_eq!(http_date(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(http_date(1_795_252_080), "Sat, 21 Nov 2026 09:08:00 GMT");
    }
}
