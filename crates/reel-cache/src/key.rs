//! The names of sessions and of their tracks.

use crate::limits::SESSION_KEY_BYTES;
use std::fmt;
use std::str::FromStr;

/// An unguessable name of a session: 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey([u8; SESSION_KEY_BYTES]);

/// A track that a session plays.
pub type TrackOfSession = (SessionKey, usize);

impl SessionKey {
    /// A new key.
    ///
    /// # Errors
    ///
    /// Fails only if the system provides no random bytes.
    pub fn random() -> Result<Self, String> {
        let mut bytes = [0; SESSION_KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SessionKey {
    // A key is a secret of its client: logs show only enough to tell two of them apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}..", self.0[0], self.0[1])
    }
}

impl FromStr for SessionKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.as_bytes();
        if digits.len() != SESSION_KEY_BYTES * 2 {
            return Err(());
        }
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(()),
        };
        let mut bytes = [0; SESSION_KEY_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_keys_are_read_back() {
        let key = SessionKey::random().unwrap();
        assert_eq!(key.to_string().parse(), Ok(key));
        let short = "00".repeat(15);
        let upper = "AB".repeat(16);
        for bad in ["", "00", short.as_str(), upper.as_str(), "é0000000000000000000000000000000"] {
            assert!(bad.parse::<SessionKey>().is_err(), "{bad}");
        }
        assert_eq!(format!("{key:?}").len(), 6);
    }
}
