//! Addresses of plain HTTP (RFC 3986, as much as players need).

use anyhow::{Result, bail};
use std::fmt;

/// `http://authority/target`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    /// Host and port as they are named in requests.
    pub authority: String,
    /// Path and query; begins with `/`.
    pub target: String,
}

impl Url {
    /// Reads an absolute address.
    ///
    /// # Errors
    /// What is not `http://host[:port][/path]`.
    pub fn parse(text: &str) -> Result<Self> {
        let Some(rest) = text.strip_prefix("http://") else {
            if text.starts_with("https://") {
                bail!(
                    "{text} needs TLS, which this client does not speak; name the server's plain HTTP port"
                );
            }
            bail!("{text} is no address; write http://host:port/path");
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.is_empty() || authority.contains(['@', ' ']) || target.contains([' ', '\r', '\n']) {
            bail!("{text} is no address; write http://host:port/path");
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self { authority: authority.to_owned(), target: format!("{slash}{target}") })
    }

    /// What `reference` means in a document of this address (RFC 3986 section 5.2).
    ///
    /// # Errors
    /// References with spaces or line ends, and absolute ones that [`Url::parse`] refuses.
    pub fn join(&self, reference: &str) -> Result<Self> {
        let reference = reference.split('#').next().unwrap_or_default();
        if reference.contains("://") {
            return Self::parse(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::parse(&format!("http://{rest}"));
        }
        if reference.contains([' ', '\r', '\n']) {
            bail!("{reference:?} is no reference to a file");
        }
        let path = self.path();
        let target = match reference.as_bytes().first() {
            None => self.target.clone(),
            Some(b'?') => format!("{path}{reference}"),
            Some(b'/') => without_dots(reference),
            Some(_) => {
                let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
                without_dots(&format!("{folder}{reference}"))
            }
        };
        Ok(Self { authority: self.authority.clone(), target })
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Host and port to connect to.
    pub fn host_and_port(&self) -> String {
        let has_port = self.authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        if has_port { self.authority.clone() } else { format!("{}:80", self.authority) }
    }

    /// The same with `name=value` in its query.
    pub fn with_query(mut self, name: &str, value: &str) -> Self {
        let sign = if self.target.contains('?') { '&' } else { '?' };
        self.target += &format!("{sign}{name}={value}");
        self
    }
}

/// Resolves `.` and `..` (RFC 3986 section 5.2.4); the query stays as it is.
fn without_dots(target: &str) -> String {
    let (path, query) = match target.find('?') {
        Some(mark) => target.split_at(mark),
        None => (target, ""),
    };
    let mut names: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(name) = parts.next() {
        let last = parts.peek().is_none();
        match name {
            "." | ".." => {
                if name == ".." {
                    names.pop();
                }
                if last {
                    names.push("");
                }
            }
            name => names.push(name),
        }
    }
    format!("/{}{query}", names.join("/"))
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}{}", self.authority, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let url = Url::parse("http://[::1]:8080/a/b?c=d#e").unwrap();
        assert_eq!(
            (url.authority.as_str(), url.target.as_str(), url.path()),
            ("[::1]:8080", "/a/b?c=d", "/a/b")
        );
        assert_eq!(Url::parse("http://host").unwrap().target, "/");
        assert_eq!(Url::parse("http://host?x").unwrap().target, "/?x");
        assert_eq!(Url::parse("http://host").unwrap().host_and_port(), "host:80");
        assert_eq!(Url::parse("http://[::1]/").unwrap().host_and_port(), "[::1]:80");
        assert_eq!(url.host_and_port(), "[::1]:8080");
        assert_eq!(url.with_query("class", "x").target, "/a/b?c=d&class=x");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "file.m3u8", "http://", "http:///x", "http://a b/", "http://u@h/", "ftp://h/"] {
            let said = Url::parse(text).unwrap_err().to_string();
            assert!(said.contains("write http://"), "{text}: {said}");
        }
        assert!(Url::parse("https://h/").unwrap_err().to_string().contains("TLS"));
    }

    #[test]
    fn references() {
        let base = Url::parse("http://h:1/a/b/c.m3u8?q=1").unwrap();
        for (reference, wanted) in [
            ("1.m4s", "http://h:1/a/b/1.m4s"),
            ("./x/1.m4s?p=2", "http://h:1/a/b/x/1.m4s?p=2"),
            ("../1.m4s", "http://h:1/a/1.m4s"),
            ("../../../1.m4s", "http://h:1/1.m4s"),
            ("/1.m4s", "http://h:1/1.m4s"),
            ("//g/1.m4s", "http://g/1.m4s"),
            ("http://g:2/1.m4s", "http://g:2/1.m4s"),
            ("?r=3", "http://h:1/a/b/c.m3u8?r=3"),
            ("..", "http://h:1/a/"),
            ("", "http://h:1/a/b/c.m3u8?q=1"),
        ] {
            assert_eq!(base.join(reference).unwrap().to_string(), wanted, "{reference}");
        }
        assert!(base.join("a b").is_err());
    }
}
