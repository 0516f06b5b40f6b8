//! `base_path`: the path below which clients see the server.

use reel_serve::BasePath;

use super::{Config, Fault, keys};

impl Config {
    /// The path.
    pub(crate) fn base_path(&self) -> Result<BasePath, String> {
        let path: BasePath = self.base_path.parse().map_err(|wrong| format!("{wrong}"))?;
        let first = path.as_str().split('/').nth(1).unwrap_or_default();
        // A proxy may take the path off: then requests for such a path would have it all the same.
        if !first.is_empty() && (reel_http::is_media(&format!("/{first}/")) || reel_api::is_first_name(first))
        {
            return Err(format!("/{first} is a path of the server itself"));
        }
        Ok(path)
    }

    pub(super) fn check_base_path(&self, text: &str) -> Result<(), Fault> {
        let wrong = match self.base_path() {
            Ok(_) => return Ok(()),
            Err(wrong) => wrong,
        };
        let path = self.base_path.escape_default();
        Err(Fault {
            line: keys::line_of(text, "base_path"),
            what: format!("`{path:.300}` is not a path below which the server can be: {wrong}"),
            help: "write names that begin with a slash each, such as \"/reel\"".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_has_plain_names_that_are_not_those_of_the_server() {
        for (path, expected) in [("", ""), ("/", ""), ("/reel", "/reel"), ("/films/reel/", "/films/reel")] {
            let config = Config::parse(&format!("base_path = {path:?}\n")).expect("a configuration");
            assert_eq!(config.base_path().expect("a path").as_str(), expected);
        }
        let long = format!("/{}", "a".repeat(300));
        for (path, why) in [
            ("reel", "does not begin with a slash"),
            ("http://example.org/reel", "does not begin with a slash"),
            ("//example.org", "two slashes in a row"),
            ("/a/../b", "`.` and `..` are no names"),
            ("/a\u{1}b", "other characters"),
            ("/a b", "other characters"),
            (&long, "longer than 256 bytes"),
            ("/watch", "/watch is a path of the server itself"),
            ("/s/reel", "/s is a path of the server itself"),
            ("/live/", "/live is a path of the server itself"),
            ("/api", "/api is a path of the server itself"),
            ("/dav", "/dav is a path of the server itself"),
            ("/title/reel", "/title is a path of the server itself"),
        ] {
            let fault = Config::parse(&format!("\nbase_path = {}\n", serde_json::json!(path))).unwrap_err();
            assert!(fault.line == 2 && fault.what.contains(why), "{path}: {fault:?}");
        }
    }
}
