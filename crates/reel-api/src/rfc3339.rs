//! Times as RFC 3339 writes them.

/// 9999-12-31T23:59:59Z: formats of dates have four digits for the year.
const YEAR_9999_END_S: u64 = 253_402_300_799;

/// Seconds since 1970 as `2026-11-21T09:00:00Z`. Years beyond 9999, which the format cannot write,
/// become 9999's end.
pub(super) fn rfc3339(unix_s: u64) -> String {
    let unix_s = unix_s.min(YEAR_9999_END_S);
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar: whole 400-year cycles of
/// 146,097 days, counted from 0000-03-01 so that the leap day comes last in its year.
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let (cycle, day_of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (cycle * 400 + year_of_cycle + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_795_253_209, "2026-11-21T09:26:49Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(unix_s), text);
        }
    }

    #[test]
    fn days_follow_each_other() {
        let mut before = civil(0);
        for day in 1..60_000 {
            let date = civil(day);
            let next_day = date == (before.0, before.1, before.2 + 1);
            let next_month = date == (before.0, before.1 + 1, 1) && before.2 >= 28;
            let next_year = date == (before.0 + 1, 1, 1) && (before.1, before.2) == (12, 31);
            assert!(next_day || next_month || next_year, "{before:?} then {date:?}");
            before = date;
        }
    }
}
