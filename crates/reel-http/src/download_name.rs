//! The file name that a download carries.

use std::fmt;

const EXTENSION: &str = ".mp4";

/// The parameters of `Content-Disposition` that name a file: `filename` in ASCII, and `filename*`
/// with the real name for clients that read it (RFC 6266 section 4.3, RFC 8187).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DownloadName {
    ascii: String,
    real: String,
}

impl DownloadName {
    /// The name of a title as an MP4 file: by its id, which is ASCII, and by its own name, which
    /// may be that of an MP4 file already.
    pub(crate) fn mp4(id: &str, name: &str) -> DownloadName {
        let is_mp4 = |(_, end): (&str, &str)| end.eq_ignore_ascii_case(EXTENSION);
        let split = name.len().checked_sub(EXTENSION.len()).filter(|at| *at > 0);
        let stem = split.and_then(|at| name.split_at_checked(at)).filter(|both| is_mp4(*both));
        let stem = stem.map_or(name, |(stem, _)| stem);
        DownloadName { ascii: format!("{id}{EXTENSION}"), real: format!("{stem}{EXTENSION}") }
    }
}

impl fmt::Display for DownloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filename=\"{}\"; filename*=UTF-8''", self.ascii)?;
        for c in self.real.chars() {
            match c {
                // A name is no path, on no system.
                '/' | '\\' => write!(f, "_")?,
                c if c.is_control() => write!(f, "_")?,
                // The attr-char of RFC 8187 section 3.2.1.
                c if c.is_ascii_alphanumeric() || "!#$&+-.^_`|~".contains(c) => write!(f, "{c}")?,
                c => c.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| write!(f, "%{byte:02X}"))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_script_are_kept_and_none_is_a_path() {
        for (name, encoded) in [
            ("Night Train", "Night%20Train.mp4"),
            ("夜行", "%E5%A4%9C%E8%A1%8C.mp4"),
            ("a\"b\r\nc/d\\e;f=100%", "a%22b__c_d_e%3Bf%3D100%25.mp4"),
            ("🎬", "%F0%9F%8E%AC.mp4"),
            ("holiday.MP4", "holiday.mp4"),
            ("a.mp4.mkv", "a.mp4.mkv.mp4"),
            (".mp4", ".mp4.mp4"),
        ] {
            let expected = format!("filename=\"title.mp4\"; filename*=UTF-8''{encoded}");
            assert_eq!(DownloadName::mp4("title", name).to_string(), expected);
        }
    }
}
