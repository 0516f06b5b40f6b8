//! Addresses that are right whatever stands in front of a path.

/// The address of a path of this server for a client that asked for `from`, as a relative reference
/// (RFC 3986 section 4.2): `../../s/KEY/master.m3u8` for `/watch/FILM/master.m3u8`. It is right for
/// clients of a proxy, too, that serves all paths below one that only the proxy knows.
pub fn relative_address(from: &str, to: &str) -> String {
    let names = from.bytes().filter(|byte| *byte == b'/').count().saturating_sub(1);
    let below = to.strip_prefix('/').unwrap_or(to);
    match names {
        0 => format!("./{below}"),
        _ => "../".repeat(names) + below,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_names_are_left_as_the_path_has() {
        for (from, to, address) in [
            ("/watch/a/master.m3u8", "/s/00ff/master.m3u8", "../../s/00ff/master.m3u8"),
            ("/api/v1/titles", "/api/v1/jobs/5", "../../api/v1/jobs/5"),
            ("/title/", "/", "../"),
            ("/casts", "/assets/a.js", "./assets/a.js"),
            ("/", "/", "./"),
            ("*", "/a", "./a"),
            ("", "/a", "./a"),
        ] {
            assert_eq!(relative_address(from, to), address, "{to} from {from}");
        }
    }
}
