//! What a program declares of a stream before it begins.

use crate::limits::{
    POUR_BYTES_PER_S_MAX, POUR_BYTES_PER_S_MIN, POUR_DELAY_NS_MAX, POUR_DELAY_NS_MIN, POUR_MEMORY_BYTES,
    POUR_MESSAGE_BYTES_MAX, POUR_NAME_BYTES_MAX, POUR_TYPE_BYTES_MAX, POUR_WINDOW_DELAYS,
    POUR_WORKAHEAD_BYTES_MAX, POURS_MAX,
};

const MS_NS: u64 = 1_000_000;

/// What a program declares (Govindan, section 3.1: rate R, workahead W, delay D).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PourTerms {
    /// Bytes in a second. What comes faster has to wait.
    pub bytes_per_s: u64,
    /// Bytes that may come before their time.
    pub workahead_bytes: u64,
    /// How long after its time a byte is due at a viewer.
    pub delay_ns: u64,
    /// The media type, such as `video/mp2t`.
    pub content_type: String,
}

/// Why a stream is not poured. The texts say what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PourRefused {
    /// It cannot be a name.
    #[error(
        "{0:?} cannot be the name of a poured stream: write 1 to {POUR_NAME_BYTES_MAX} of a to z, 0 to 9 and -, and no - at an end"
    )]
    Name(String),
    /// Another stream has this name.
    #[error("the stream {0} is being poured already; choose another name, or end that one first")]
    Taken(String),
    /// Something that is declared is out of bounds.
    #[error("{what} cannot be {value}: {bounds}")]
    OutOfBounds {
        /// What.
        what: &'static str,
        /// As it is declared.
        value: u64,
        /// What can be.
        bounds: String,
    },
    /// The media type is none, or not one of a stream.
    #[error("{0:?} is no media type of a stream: write video/..., audio/... or application/octet-stream")]
    ContentType(String),
    /// There are too many.
    #[error("{POURS_MAX} streams are being poured, the most there may be; end one first")]
    TooMany,
    /// The window finds no memory.
    #[error(
        "the window of this stream needs {asked} bytes, and {free} of {POUR_MEMORY_BYTES} are free; end another stream, or declare a lower rate, workahead or delay"
    )]
    NoMemory {
        /// What its window needs.
        asked: u64,
        /// What is left.
        free: u64,
    },
}

impl PourTerms {
    /// Bytes of the window: those that may come before their time, and what comes within the delay,
    /// [`POUR_WINDOW_DELAYS`] times. At least the longest message.
    pub fn window_bytes(&self) -> u64 {
        let within = u128::from(self.bytes_per_s) * u128::from(self.delay_ns) / 1_000_000_000;
        let delays = u64::try_from(within).unwrap_or(u64::MAX).saturating_mul(POUR_WINDOW_DELAYS);
        self.workahead_bytes.saturating_add(delays).max(2 * POUR_MESSAGE_BYTES_MAX as u64)
    }

    /// Whether a server can pour this.
    ///
    /// # Errors
    /// [`PourRefused::OutOfBounds`], [`PourRefused::ContentType`].
    pub fn check(&self) -> Result<(), PourRefused> {
        let within = |what, value, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(PourRefused::OutOfBounds { what, value, bounds: format!("{least} to {most}") }),
        };
        let bits = |bytes: u64| bytes.saturating_mul(8);
        let (least, most) = (bits(POUR_BYTES_PER_S_MIN), bits(POUR_BYTES_PER_S_MAX));
        within("the rate in bits per second", bits(self.bytes_per_s), least, most)?;
        within("the workahead in bytes", self.workahead_bytes, 0, POUR_WORKAHEAD_BYTES_MAX)?;
        let (least, most) = (POUR_DELAY_NS_MIN / MS_NS, POUR_DELAY_NS_MAX / MS_NS);
        within("the delay in milliseconds", self.delay_ns / MS_NS, least, most)?;
        match is_of_stream(&self.content_type) {
            true => Ok(()),
            false => {
                let shown = self.content_type.chars().take(POUR_TYPE_BYTES_MAX).collect();
                Err(PourRefused::ContentType(shown))
            }
        }
    }
}

/// Whether a stream can have this name: a part of an address that needs no escapes, as the ids of
/// titles are.
///
/// # Errors
/// [`PourRefused::Name`].
pub fn check_name(name: &str) -> Result<(), PourRefused> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = (1..=POUR_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-');
    match is_name {
        true => Ok(()),
        false => Err(PourRefused::Name(name.chars().take(POUR_NAME_BYTES_MAX).collect())),
    }
}

/// Whether a browser that is given this type runs nothing.
fn is_of_stream(content_type: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(&byte))
    };
    if content_type == "application/octet-stream" {
        return true;
    }
    let Some((kind, rest)) = content_type.split_once('/') else { return false };
    // With parameters: players need the rate of audio/L16 (RFC 3551, section 4.5.11).
    let mut parts = rest.split(';');
    let is_named = parts.next().is_some_and(is_token);
    let is_parameter = |part: &str| part.split_once('=').is_some_and(|(a, b)| is_token(a) && is_token(b));
    let is_short = content_type.len() <= POUR_TYPE_BYTES_MAX;
    is_short && ["video", "audio"].contains(&kind) && is_named && parts.all(is_parameter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> PourTerms {
        PourTerms {
            bytes_per_s: 1_000_000,
            workahead_bytes: 100_000,
            delay_ns: 2_000_000_000,
            content_type: "video/mp2t".to_owned(),
        }
    }

    #[test]
    fn a_window_holds_the_workahead_and_twice_the_delay() {
        assert_eq!(terms().window_bytes(), 4_100_000);
        let slow = PourTerms { bytes_per_s: 100, workahead_bytes: 0, ..terms() };
        assert_eq!(slow.window_bytes(), 2 * POUR_MESSAGE_BYTES_MAX as u64, "two messages at least");
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_by_its_name() {
        assert_eq!(terms().check(), Ok(()));
        for (wrong, word) in [
            (PourTerms { bytes_per_s: 0, ..terms() }, "rate"),
            (PourTerms { bytes_per_s: u64::MAX, ..terms() }, "rate"),
            (PourTerms { workahead_bytes: u64::MAX, ..terms() }, "workahead"),
            (PourTerms { delay_ns: 0, ..terms() }, "delay"),
            (PourTerms { delay_ns: u64::MAX, ..terms() }, "delay"),
        ] {
            let refused = wrong.check().expect_err("out of bounds").to_string();
            assert!(refused.contains(word), "{refused}");
        }
        let long = format!("video/{}", "a".repeat(POUR_TYPE_BYTES_MAX));
        for wrong in [
            "",
            "video",
            "video/",
            "text/html",
            "video/a\r\nX: y",
            "image/svg+xml",
            "audio/L16;rate",
            "audio/L16; rate=1",
            "audio/L16;rate=\"1\"",
            &long,
        ] {
            let refused = PourTerms { content_type: wrong.to_owned(), ..terms() }.check();
            assert!(matches!(refused, Err(PourRefused::ContentType(_))), "{wrong:?}");
        }
        for right in
            ["video/mp4", "audio/L16;rate=48000;channels=1", "application/octet-stream", "audio/vnd.wave"]
        {
            assert_eq!(PourTerms { content_type: right.to_owned(), ..terms() }.check(), Ok(()), "{right}");
        }
    }

    #[test]
    fn names_are_parts_of_addresses() {
        let longest = "a".repeat(POUR_NAME_BYTES_MAX);
        for name in ["a", "studio-1", "0", &longest] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let longer = format!("{longest}a");
        for name in ["", "-a", "a-", "A", "a/b", "..", "a b", "ø", "a.ts", "a+b", &longer] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
