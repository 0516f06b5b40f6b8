//! The path of a host below which clients see a server. Pure.

use crate::limits::{BASE_PATH_BYTES_MAX, FORWARDED_MAX};
use std::str::FromStr;
use std::sync::Arc;

/// The path below which clients see a server, such as `/films/reel`: without a slash at its end,
/// and empty if they see it at the root.
///
/// It becomes a part of addresses in JSON, XML and fields. So it has only unreserved characters
/// (RFC 3986 section 2.3), which need no escape anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasePath(Arc<str>);

/// Why a text is no such path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBasePath {
    /// It is longer than [`BASE_PATH_BYTES_MAX`].
    #[error("it is longer than {BASE_PATH_BYTES_MAX} bytes")]
    TooLong,
    /// It does not begin with a slash.
    #[error("it does not begin with a slash")]
    NoSlash,
    /// There is nothing between two slashes. After two slashes clients expect a host.
    #[error("it has two slashes in a row")]
    EmptyName,
    /// Clients resolve these names to another path.
    #[error("`.` and `..` are no names in it")]
    Dots,
    /// It has other characters than unreserved ones.
    #[error("it has other characters than letters, digits and -._~")]
    Character,
}

impl FromStr for BasePath {
    type Err = NoBasePath;

    /// A slash at the end is left out.
    fn from_str(text: &str) -> Result<BasePath, NoBasePath> {
        if text.len() > BASE_PATH_BYTES_MAX {
            return Err(NoBasePath::TooLong);
        }
        let path = text.strip_suffix('/').unwrap_or(text);
        if path.is_empty() {
            return Ok(BasePath::default());
        }
        for name in path.strip_prefix('/').ok_or(NoBasePath::NoSlash)?.split('/') {
            match name {
                "" => return Err(NoBasePath::EmptyName),
                "." | ".." => return Err(NoBasePath::Dots),
                name if !name.bytes().all(is_unreserved) => return Err(NoBasePath::Character),
                _ => {}
            }
        }
        Ok(BasePath(path.into()))
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

impl BasePath {
    /// The path of the values of `X-Forwarded-Prefix`, joined by commas: each proxy appends what it
    /// has taken off the path of a request, so the first one is the outermost. `None` if one of
    /// them is no path.
    pub fn of_proxies(values: &str) -> Option<BasePath> {
        let mut path = String::new();
        for (number, value) in values.split(',').enumerate() {
            let taken_off: BasePath = value.trim().parse().ok()?;
            path.push_str(taken_off.as_str());
            if number >= FORWARDED_MAX {
                return None;
            }
        }
        path.parse().ok()
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What follows this path in another one: a path of the server. `None` if the other one is not
    /// below this one.
    pub fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(&*self.0).filter(|rest| rest.starts_with('/'))
    }

    /// A path of the server as clients see it.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> Result<String, NoBasePath> {
        text.parse().map(|path: BasePath| path.as_str().to_owned())
    }

    #[test]
    fn a_path_has_names_of_plain_characters() {
        for (text, expected) in [("", ""), ("/", ""), ("/reel", "/reel"), ("/a/b.c~d_e-1/", "/a/b.c~d_e-1")] {
            assert_eq!(path(text).as_deref(), Ok(expected), "{text}");
        }
        let long = format!("/{}", "a".repeat(BASE_PATH_BYTES_MAX));
        for (text, why) in [
            ("reel", NoBasePath::NoSlash),
            ("//", NoBasePath::EmptyName),
            ("//evil.example", NoBasePath::EmptyName),
            ("/a//b", NoBasePath::EmptyName),
            ("/a//", NoBasePath::EmptyName),
            ("/..", NoBasePath::Dots),
            ("/a/../b", NoBasePath::Dots),
            ("/./a", NoBasePath::Dots),
            ("/%2e%2e", NoBasePath::Character),
            ("/a b", NoBasePath::Character),
            ("/a\r\nX: y", NoBasePath::Character),
            ("/a\0", NoBasePath::Character),
            ("/<script>", NoBasePath::Character),
            ("/a\\b", NoBasePath::Character),
            ("/a?b", NoBasePath::Character),
            ("/é", NoBasePath::Character),
            ("http://evil.example/", NoBasePath::NoSlash),
            (&long, NoBasePath::TooLong),
        ] {
            assert_eq!(path(text), Err(why), "{text}");
        }
        assert_eq!(path(&long[..BASE_PATH_BYTES_MAX]).map(|path| path.len()), Ok(BASE_PATH_BYTES_MAX));
    }

    #[test]
    fn what_proxies_have_taken_off_stands_in_a_row() {
        let of = |values: &str| BasePath::of_proxies(values).map(|path| path.as_str().to_owned());
        assert_eq!(of("/reel").as_deref(), Some("/reel"));
        assert_eq!(of("/outer, /inner/").as_deref(), Some("/outer/inner"));
        assert_eq!(of("").as_deref(), Some(""));
        assert_eq!(of("/,/reel").as_deref(), Some("/reel"));
        for bad in ["/reel, ..", "reel", "/a,//b", "/a\u{7f}"] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(of(&"/a".repeat(BASE_PATH_BYTES_MAX)), None, "too long");
        assert_eq!(of(&vec!["/abcdefghij"; FORWARDED_MAX].join(",")), None, "too long together");
        assert_eq!(of(&",".repeat(FORWARDED_MAX)), None, "too many");
    }

    #[test]
    fn a_path_is_below_whole_names_only() {
        let base: BasePath = "/reel".parse().expect("a path");
        for (path, rest) in [
            ("/reel/a/b", Some("/a/b")),
            ("/reel/", Some("/")),
            ("/reel", None),
            ("/reels/a", None),
            ("/a", None),
            ("/", None),
        ] {
            assert_eq!(base.below(path), rest, "{path}");
        }
        assert_eq!(BasePath::default().below("/a"), Some("/a"));
        assert_eq!(BasePath::default().below("*"), None);
        assert_eq!((base.at("/a"), BasePath::default().at("/a")), ("/reel/a".to_owned(), "/a".to_owned()));
    }

    proptest! {
        /// No text becomes an address of another host, another field, or a path above.
        #[test]
        fn any_text_is_refused_or_plain(text in "[/.a%\\\\ \r\n<\"é-]{0,12}") {
            if let Some(path) = BasePath::of_proxies(&text) {
                let path = path.as_str();
                prop_assert!(path.is_empty() || path.starts_with('/') && !path.ends_with('/'));
                prop_assert!(path.split('/').skip(1).all(|name| !name.is_empty() && name != "." && name != ".."));
                prop_assert!(path.bytes().all(|byte| byte == b'/' || is_unreserved(byte)));
            }
        }
    }
}
