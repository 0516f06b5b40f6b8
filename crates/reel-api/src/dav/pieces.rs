//! A body that is made while it is sent.

use crate::limits::DAV_PIECE_BYTES;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Texts that are sent one after another. Each is made when there is room for it.
pub(super) struct Pieces {
    texts: Box<dyn Iterator<Item = String> + Send>,
}

impl Pieces {
    /// A body of these texts.
    pub(super) fn body(texts: impl Iterator<Item = String> + Send + 'static) -> Body {
        Body::new(Pieces { texts: Box::new(texts) })
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut piece = String::new();
        while piece.len() < DAV_PIECE_BYTES {
            let Some(text) = self.texts.next() else { break };
            piece.push_str(&text);
        }
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(Bytes::from(piece)))))
    }
}
