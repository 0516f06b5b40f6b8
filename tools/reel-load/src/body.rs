//! Where a response body ends (RFC 9112 section 6). Pure.

use anyhow::{Result, bail};

/// How much of a body is still to come.
#[derive(Debug)]
pub(crate) enum Body {
    /// Nothing.
    Over,
    /// So many bytes.
    Length(u64),
    Chunked(Chunked),
    /// All until the server closes.
    UntilClosed,
}

/// Chunks (RFC 9112 section 7.1).
#[derive(Debug, Default)]
pub(crate) struct Chunked {
    state: ChunkState,
    line: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    #[default]
    Size,
    Data(u64),
    DataEnd,
    Trailer,
    Over,
}

/// Longest line of a chunk's size with its extensions, or of a trailer.
const LINE_BYTES_MAX: usize = 4096;

impl Body {
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Over | Self::Length(0) => true,
            Self::Chunked(chunked) => chunked.state == ChunkState::Over,
            _ => false,
        }
    }

    /// The most that may be read without reading into the next response; `None` where the bytes
    /// themselves must be looked at.
    pub(crate) fn may_discard(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::UntilClosed => Some(u64::MAX),
            Self::Over | Self::Chunked(_) => None,
        }
    }

    /// `bytes` of the body were read and thrown away.
    pub(crate) fn discarded(&mut self, bytes: u64) {
        if let Self::Length(left) = self {
            *left = left.saturating_sub(bytes);
        }
    }

    /// Takes what was read apart: how many bytes of it are content, and they are given to `keep`.
    pub(crate) fn take(&mut self, read: &[u8], mut keep: impl FnMut(&[u8])) -> Result<u64> {
        match self {
            Self::Over if read.is_empty() => Ok(0),
            Self::Over => bail!("bytes after the end of a response"),
            Self::Length(left) => {
                if read.len() as u64 > *left {
                    bail!("bytes after the end of a response");
                }
                *left -= read.len() as u64;
                keep(read);
                Ok(read.len() as u64)
            }
            Self::UntilClosed => {
                keep(read);
                Ok(read.len() as u64)
            }
            Self::Chunked(chunked) => chunked.take(read, keep),
        }
    }
}

impl Chunked {
    fn take(&mut self, mut read: &[u8], mut keep: impl FnMut(&[u8])) -> Result<u64> {
        let mut content = 0;
        while let Some((&byte, after)) = read.split_first() {
            match self.state {
                ChunkState::Data(left) => {
                    let here = left.min(read.len() as u64);
                    // It is no longer than `read`.
                    let (data, rest) = read.split_at(here as usize);
                    keep(data);
                    content += here;
                    read = rest;
                    self.state =
                        if left == here { ChunkState::DataEnd } else { ChunkState::Data(left - here) };
                    continue;
                }
                ChunkState::Over => bail!("bytes after the end of a response"),
                _ if byte != b'\n' => {
                    self.line.push(byte);
                    if self.line.len() > LINE_BYTES_MAX {
                        bail!("a chunk with a head of more than {LINE_BYTES_MAX} bytes");
                    }
                }
                _ => {
                    self.state = self.line_ended()?;
                    self.line.clear();
                }
            }
            read = after;
        }
        Ok(content)
    }

    fn line_ended(&self) -> Result<ChunkState> {
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end_matches('\r');
        Ok(match self.state {
            ChunkState::Size => {
                let digits = line.split(';').next().unwrap_or_default().trim();
                match u64::from_str_radix(digits, 16) {
                    Ok(0) => ChunkState::Trailer,
                    Ok(bytes) => ChunkState::Data(bytes),
                    Err(_) => bail!("{digits:?} is no size of a chunk"),
                }
            }
            ChunkState::DataEnd if line.is_empty() => ChunkState::Size,
            ChunkState::DataEnd => bail!("a chunk longer than it said"),
            _ if line.is_empty() => ChunkState::Over,
            _ => ChunkState::Trailer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a chunked body holds, read in pieces of `step` bytes.
    fn chunked(text: &str, step: usize) -> Result<(String, bool)> {
        let mut body = Body::Chunked(Chunked::default());
        let mut kept = Vec::new();
        for piece in text.as_bytes().chunks(step) {
            body.take(piece, |data| kept.extend_from_slice(data))?;
        }
        Ok((String::from_utf8(kept).unwrap(), body.is_over()))
    }

    #[test]
    fn chunks_in_pieces_of_any_size() {
        let text = "4\r\nWiki\r\n7;x=y\r\npedia i\r\nB\r\nn \r\nchunks.\r\n0\r\nTrailer: 1\r\n\r\n";
        for step in 1..=text.len() {
            assert_eq!(chunked(text, step).unwrap(), ("Wikipedia in \r\nchunks.".to_owned(), true), "{step}");
        }
        assert_eq!(chunked("4\r\nWi", 3).unwrap(), ("Wi".to_owned(), false));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["x\r\n", "4\r\nWikipedia\r\n", "0\r\n\r\nmore", "-1\r\n"] {
            assert!(chunked(text, 100).is_err(), "{text:?}");
        }
        assert!(chunked(&"a".repeat(LINE_BYTES_MAX + 1), 1000).is_err());
        assert!(Body::Length(3).take(b"four", |_| {}).is_err());
    }

    #[test]
    fn a_length_counts_down() {
        let mut body = Body::Length(10);
        assert_eq!(body.take(b"abc", |_| {}).unwrap(), 3);
        assert_eq!(body.may_discard(), Some(7));
        body.discarded(7);
        assert!(body.is_over());
    }
}
