//! Byte ranges and conditions (RFC 9110 sections 13 and 14).

use crate::request::Request;
use crate::seconds_of_http_date;
use std::ops::Range;

/// The values by which a client knows whether it already has a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// A strong entity tag with its quotes.
    pub etag: String,
    /// An HTTP date.
    pub last_modified: String,
}

/// The kind of answer to a request for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200 with everything.
    Whole,
    /// 206 with these bytes.
    Part(Range<u64>),
    /// 304.
    NotModified,
    /// 412.
    Failed,
    /// 416.
    Unsatisfiable,
}

/// Decides by the conditions of `request` over a resource of `bytes` bytes, in the order of section
/// 13.2.2.
pub fn answer(request: &Request, validators: &Validators, bytes: u64) -> Answer {
    if let Some(tags) = &request.if_match {
        if !tag_is_among(tags, &validators.etag) {
            return Answer::Failed;
        }
    } else if unchanged_since(request.if_unmodified_since.as_deref(), validators) == Some(false) {
        return Answer::Failed;
    }
    if let Some(tags) = &request.if_none_match {
        if tag_matches(tags, &validators.etag) {
            return Answer::NotModified;
        }
    } else if unchanged_since(request.if_modified_since.as_deref(), validators) == Some(true) {
        return Answer::NotModified;
    }
    // Section 14.2: ranges are for GET. For any other method the field is ignored.
    let Some(range) = request.range.as_ref().filter(|_| request.method != "HEAD") else {
        return Answer::Whole;
    };
    // Section 13.1.5: a strong comparison. If it fails, the range is ignored.
    if let Some(validator) = &request.if_range
        && *validator != validators.etag
        && *validator != validators.last_modified
    {
        return Answer::Whole;
    }
    parse(range, bytes)
}

/// One range in `bytes` units. Several ranges, other units and malformed ranges are ignored, as
/// section 14.2 allows.
fn parse(range: &str, bytes: u64) -> Answer {
    let Some((unit, set)) = range.split_once('=') else { return Answer::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return Answer::Whole;
    }
    let Some((first, last)) = set.trim().split_once('-') else { return Answer::Whole };
    match (number(first), number(last)) {
        (Number::Is(first), Number::Is(last)) if last < first => Answer::Whole,
        (Number::Is(first), _) if first >= bytes => match number(last) {
            Number::Nonsense => Answer::Whole,
            _ => Answer::Unsatisfiable,
        },
        (Number::Is(first), Number::Is(last)) => Answer::Part(first..last.saturating_add(1).min(bytes)),
        (Number::Is(first), Number::Missing) => Answer::Part(first..bytes),
        (Number::Missing, Number::Is(0)) => Answer::Unsatisfiable,
        (Number::Missing, Number::Is(_)) if bytes == 0 => Answer::Unsatisfiable,
        (Number::Missing, Number::Is(suffix)) => Answer::Part(bytes.saturating_sub(suffix)..bytes),
        _ => Answer::Whole,
    }
}

enum Number {
    Missing,
    Is(u64),
    Nonsense,
}

fn number(text: &str) -> Number {
    if text.is_empty() {
        Number::Missing
    } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit mean "beyond any end".
        Number::Is(text.parse().unwrap_or(u64::MAX))
    } else {
        Number::Nonsense
    }
}

/// Whether the resource is no newer than a date. `None` if there is no date that can be parsed:
/// such a condition is ignored (sections 13.1.3 and 13.1.4).
fn unchanged_since(date: Option<&str>, validators: &Validators) -> Option<bool> {
    Some(seconds_of_http_date(&validators.last_modified)? <= seconds_of_http_date(date?)?)
}

/// The strong comparison of `If-Match` (section 13.1.1).
fn tag_is_among(tags: &str, etag: &str) -> bool {
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag == etag)
}

/// The weak comparison of `If-None-Match` (section 13.1.2).
fn tag_matches(tags: &str, etag: &str) -> bool {
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(range: &str, bytes: u64) -> Answer {
        let request = Request { range: Some(range.to_owned()), ..Request::default() };
        answer(&request, &validators(), bytes)
    }

    fn validators() -> Validators {
        Validators { etag: "\"a\"".into(), last_modified: "Sat, 21 Nov 2026 09:00:00 GMT".into() }
    }

    #[test]
    fn ranges_of_ten_bytes() {
        assert_eq!(asked("bytes=0-0", 10), Answer::Part(0..1));
        assert_eq!(asked("bytes=3-", 10), Answer::Part(3..10));
        assert_eq!(asked("bytes=3-100", 10), Answer::Part(3..10));
        assert_eq!(asked("bytes=-3", 10), Answer::Part(7..10));
        assert_eq!(asked("bytes=-30", 10), Answer::Part(0..10));
        assert_eq!(asked("bytes=10-", 10), Answer::Unsatisfiable);
        assert_eq!(asked("bytes=99999999999999999999-", 10), Answer::Unsatisfiable);
        assert_eq!(asked("bytes=-0", 10), Answer::Unsatisfiable);
        assert_eq!(asked("bytes=0-99999999999999999999", 10), Answer::Part(0..10));
        for ignored in [
            "bytes=5-3",
            "bytes=a-b",
            "bytes=-",
            "bytes",
            "lines=0-1",
            "bytes=0-1,3-4",
            "bytes=0-1, bytes=2-3",
            "bytes=+1-2",
        ] {
            assert_eq!(asked(ignored, 10), Answer::Whole, "{ignored}");
        }
    }

    #[test]
    fn conditions_come_before_ranges() {
        let mut request = Request { range: Some("bytes=0-1".into()), ..Request::default() };
        request.if_range = Some("\"b\"".into());
        assert_eq!(answer(&request, &validators(), 10), Answer::Whole);
        request.if_range = Some("\"a\"".into());
        assert_eq!(answer(&request, &validators(), 10), Answer::Part(0..2));
        request.if_range = Some("W/\"a\"".into());
        assert_eq!(answer(&request, &validators(), 10), Answer::Whole, "weak tags do not do for ranges");
        request.if_none_match = Some("\"x\", W/\"a\"".into());
        assert_eq!(answer(&request, &validators(), 10), Answer::NotModified);
        request.if_none_match = Some("\"x\"".into());
        request.if_modified_since = Some(validators().last_modified);
        request.if_range = None;
        assert_eq!(answer(&request, &validators(), 10), Answer::Part(0..2), "tags win over dates");
        request.if_none_match = None;
        assert_eq!(answer(&request, &validators(), 10), Answer::NotModified);
    }

    #[test]
    fn conditions_that_fail_come_first() {
        let failing = |tags: &str| {
            let range = Some("bytes=0-1".to_owned());
            let request = Request { if_match: Some(tags.to_owned()), range, ..Request::default() };
            answer(&request, &validators(), 10) == Answer::Failed
        };
        for tags in ["\"x\"", "W/\"a\"", "\"x\", \"y\"", ""] {
            assert!(failing(tags), "{tags}");
        }
        for tags in ["\"a\"", "\"x\", \"a\"", "*"] {
            assert!(!failing(tags), "{tags}");
        }
        let since = |date: &str| {
            let if_unmodified_since = Some(date.to_owned());
            answer(&Request { if_unmodified_since, ..Request::default() }, &validators(), 10)
        };
        assert_eq!(since("Sat, 21 Nov 2026 08:59:59 GMT"), Answer::Failed);
        assert_eq!(since("Sat, 21 Nov 2026 09:00:00 GMT"), Answer::Whole);
        assert_eq!(since("yesterday"), Answer::Whole);
    }

    #[test]
    fn dates_are_compared_by_value() {
        let since = |date: &str| {
            let if_modified_since = Some(date.to_owned());
            answer(&Request { if_modified_since, ..Request::default() }, &validators(), 10)
        };
        for later in [
            "Sat, 21 Nov 2026 09:00:00 GMT",
            "Fri, 01 Jan 2100 00:00:00 GMT",
            "Saturday, 21-Nov-26 09:00:01 GMT",
            "Sat Nov 21 09:00:01 2026",
        ] {
            assert_eq!(since(later), Answer::NotModified, "{later}");
        }
        for earlier in ["Sat, 21 Nov 2026 08:59:59 GMT", "tomorrow", ""] {
            assert_eq!(since(earlier), Answer::Whole, "{earlier}");
        }
    }

    #[test]
    fn a_head_request_has_no_range() {
        let range = Some("bytes=0-1".to_owned());
        let head = Request { method: "HEAD".into(), range, ..Request::default() };
        assert_eq!(answer(&head, &validators(), 10), Answer::Whole);
    }

    proptest! {
        #[test]
        fn a_part_is_never_empty_nor_outside(range in "bytes=[0-9]{0,4}-[0-9]{0,4}", bytes in 0u64..5000) {
            if let Answer::Part(part) = asked(&range, bytes) {
                prop_assert!(part.start < part.end && part.end <= bytes);
            }
        }
    }
}
