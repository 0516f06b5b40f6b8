//! A poured stream as the body of a response: in chunks (RFC 9112 section 7.1), or up to the end of
//! the connection for clients of HTTP/1.0.

use crate::limits::LIVE_READ_BYTES;
use reel_cache::{Body, Part};
use reel_pour::{PourEnd, PourViewer, Read};
use reel_serve::OpenedSession;
use std::sync::Arc;

/// A response with a poured stream.
pub(crate) struct Live {
    viewer: PourViewer,
    pub(crate) session: OpenedSession,
    /// In chunks, or up to the end of the connection.
    pub(crate) in_chunks: bool,
    /// When the session is to be continued.
    pub(crate) continue_ns: u64,
    /// The bytes that are being sent, and when they are due, if they are.
    sending: Option<(u64, u64)>,
}

/// What comes next of a poured stream.
pub(crate) enum Next {
    /// More of the body, and when it is due, if it is.
    Part(Body, Option<u64>),
    /// The end of the body.
    Last(Body),
    /// Nothing yet.
    Nothing,
    /// The response cannot be completed: its client was too slow, or its program is gone.
    CutOff,
}

impl Live {
    pub(crate) fn new(viewer: PourViewer, session: OpenedSession, in_chunks: bool, continue_ns: u64) -> Live {
        Live { viewer, session, in_chunks, continue_ns, sending: None }
    }

    /// The next part of the body, whose bytes are due or not. All before it was sent.
    pub(crate) fn next(&mut self, is_due: bool, now_ns: u64) -> Next {
        if let Some((bytes, due_ns)) = self.sending.take()
            && due_ns < now_ns
        {
            self.viewer.was_late(bytes);
        }
        match self.viewer.read(LIVE_READ_BYTES) {
            Read::Messages(messages, due_ns) => {
                let body = self.chunk(&messages);
                self.sending = is_due.then_some((body.bytes(), due_ns));
                let due_ns = is_due.then_some(due_ns);
                Next::Part(body, due_ns)
            }
            Read::Nothing => Next::Nothing,
            Read::Ended(PourEnd::Complete) if self.in_chunks => Next::Last(Body::text(&b"0\r\n\r\n"[..])),
            Read::Ended(PourEnd::Complete) => Next::Last(Body::default()),
            Read::Ended(PourEnd::Broken) | Read::Behind => Next::CutOff,
        }
    }

    /// Whether what its client gets next is gone.
    pub(crate) fn is_behind(&self, now_ns: u64) -> bool {
        self.viewer.is_behind(now_ns)
    }

    fn chunk(&self, messages: &[Arc<[u8]>]) -> Body {
        let parts = messages.iter().map(|message| Part::Bytes(Arc::clone(message), 0..message.len()));
        let body = Body::new(parts);
        if !self.in_chunks {
            return body;
        }
        Body::text(format!("{:x}\r\n", body.bytes()).into_bytes()).then(body).then(Body::text(&b"\r\n"[..]))
    }
}
