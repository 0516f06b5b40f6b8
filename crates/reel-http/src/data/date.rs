//! HTTP dates (RFC 9110 section 5.6.7).

/// `unix_s` as an IMF-fixdate, for example `Sat, 21 Nov 2026 09:08:00 GMT`.
pub(crate) fn http_date(unix_s: u64) -> String {
    let unix_s = unix_s.min(YEAR_9999_END_S);
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    let weekday = WEEKDAYS[(days % 7) as usize];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT", MONTHS[month])
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
        let length = MONTH_DAYS[month] + u64::from(month == 1 && is_leap(year));
        if days < length {
            return (year, month, days + 1);
        }
        days -= length;
        month += 1;
    }
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
