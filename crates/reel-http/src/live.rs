//! A poured stream as the body of a response: in chunks (RFC 9112 section 7.1), or up to the end of
//! the connection for clients of HTTP/1.0.

use reel_cache::Body;
use reel_serve::{OpenedSession, Viewing};

/// A response with a poured stream.
pub(crate) struct Live {
    pub(crate) viewing: Viewing,
    pub(crate) session: OpenedSession,
    /// In chunks, or up to the end of the connection.
    pub(crate) in_chunks: bool,
}

impl Live {
    /// A part of the stream as a part of the response.
    pub(crate) fn part(&self, part: Body) -> Body {
        match self.in_chunks {
            true => {
                let size = format!("{:x}\r\n", part.bytes()).into_bytes();
                Body::text(size).then(part).then(Body::text(&b"\r\n"[..]))
            }
            false => part,
        }
    }

    /// The end of the response.
    pub(crate) fn end(&self) -> Body {
        if self.in_chunks { Body::text(&b"0\r\n\r\n"[..]) } else { Body::default() }
    }
}
