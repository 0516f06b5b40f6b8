//! Equal paths have one form.

use std::borrow::Cow;

/// A path in which every percent-encoded unreserved character stands for itself (RFC 3986 section
/// 6.2.2.2), and so does a plus sign, which stands between the parts of a merged title and means
/// nothing else here. Everything else stays as sent: an encoded slash separates nothing.
pub fn normal_path(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut normal = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let (plain, encoded) = rest.split_at(at);
        normal.push_str(plain);
        let (kept, bytes) = encoded.get(1..3).and_then(decoded).map_or(('%', 1), |decoded| (decoded, 3));
        normal.push(kept);
        rest = &encoded[bytes..];
    }
    normal.push_str(rest);
    Cow::Owned(normal)
}

/// The unreserved character (RFC 3986 section 2.3) or plus sign with this number in two hexadecimal
/// digits.
fn decoded(digits: &str) -> Option<char> {
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let decoded = char::from(u8::from_str_radix(digits, 16).ok()?);
    (decoded.is_ascii_alphanumeric() || "-._~+".contains(decoded)).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_characters_and_plus_signs_are_decoded_and_only_once() {
        for (sent, normal) in [
            ("/a/b", "/a/b"),
            ("/%77%61tch/%7E%5f%2D", "/watch/~_-"),
            ("/a%2Fb%3fc%25%32%35", "/a%2Fb%3fc%2525"),
            ("/watch/a%2Bb/a%2bb.mp4", "/watch/a+b/a+b.mp4"),
            ("/%c3%a9", "/%c3%a9"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%+1%4é%é", "/%+1%4é%é"),
            ("%2561", "%2561"),
        ] {
            assert_eq!(normal_path(sent), normal, "{sent}");
        }
    }
}
