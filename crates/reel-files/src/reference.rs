//! References to other resources of a server (RFC 3986 section 4.2).

/// The path that a reference in the answer to a request for `asked` leads to; `None` if it leads to
/// another server, or may. Both paths are without a query.
pub(crate) fn resolved(asked: &str, reference: &str) -> Option<String> {
    if reference.starts_with("//") || reference.contains(':') {
        return None;
    }
    let (directory, rest) = match reference.strip_prefix('/') {
        Some(rest) => ("", rest),
        None => (asked.rsplit_once('/')?.0, reference),
    };
    let mut names: Vec<&str> = directory.split('/').skip(1).collect();
    for name in rest.split('/') {
        match name {
            "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    Some(format!("/{}", names.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_relative_to_what_was_asked_for() {
        for (asked, reference, path) in [
            ("/watch/a/a.mp4", "../../s/00ff/a.mp4", Some("/s/00ff/a.mp4")),
            ("/reel/watch/a/a.mp4", "../../s/00ff/a.mp4", Some("/reel/s/00ff/a.mp4")),
            ("/reel/watch/a/a.mp4", "/reel/s/00ff/a.mp4", Some("/reel/s/00ff/a.mp4")),
            ("/a/b", "./c", Some("/a/c")),
            ("/a/b", "c/../d", Some("/a/d")),
            ("/a", "../../b", Some("/b")),
            ("/a/b", "//evil/c", None),
            ("/a/b", "http://evil/c", None),
            ("a", "b", None),
        ] {
            assert_eq!(resolved(asked, reference).as_deref(), path, "{reference}");
        }
    }
}
