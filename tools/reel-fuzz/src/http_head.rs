//! Any bytes are the beginning of a request, a request, or refused; and a request's head says where
//! it ends, however it is cut.

use reel_http::request::Head;
use reel_http::{limits, range};
use reel_serve::{http_date, seconds_of_http_date};

/// Reads the bytes as the head of a request.
pub fn http_head(bytes: &[u8]) {
    let whole = Head::parse(bytes);
    match &whole {
        Head::Partial => assert!(bytes.len() < limits::HEAD_BYTES_MAX, "who never ends is told"),
        Head::Bad(status, why) => assert!((400..600).contains(status) && !why.is_empty()),
        Head::Complete(request, head_bytes) => {
            assert!((1..=bytes.len()).contains(head_bytes));
            assert!(request.path.len() <= limits::TARGET_BYTES_MAX && !request.path.contains(['\r', '\n']));
            // What follows the head is not looked at, and without its last byte it is no head.
            assert_eq!(Head::parse(&bytes[..*head_bytes]), whole);
            assert!(!matches!(Head::parse(&bytes[..head_bytes - 1]), Head::Complete(..)));
            let last_modified = http_date(1_000_000_000);
            assert_eq!(seconds_of_http_date(&last_modified), Some(1_000_000_000));
            let validators = range::Validators { etag: "\"1\"".into(), last_modified };
            for film_bytes in [0, 1, 1000, u64::MAX] {
                if let range::Answer::Part(part) = range::answer(request, &validators, film_bytes) {
                    assert!(part.start < part.end && part.end <= film_bytes, "{part:?} of {film_bytes}");
                }
            }
        }
    }
}
