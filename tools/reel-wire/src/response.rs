//! A response as it comes to a viewer that sees its head and the number of its bytes, and its body
//! only where all is handed over.

use super::limits::KEPT_BYTES_MAX;
use anyhow::{Context, Result, bail, ensure};

/// Most header fields of a response.
const FIELDS_MAX: usize = 64;

/// The first lines of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Bytes of the head itself.
    pub(super) head_bytes: u64,
    pub(super) body_bytes: u64,
    pub(super) location: Option<String>,
    pub(super) closes: bool,
}

/// A response on its way.
#[derive(Debug)]
pub(super) struct Response {
    /// Where it begins among the bytes of its connection.
    start: u64,
    head: Option<Head>,
    /// Its bytes, head first, if they are kept.
    kept: Option<Vec<u8>>,
}

/// A response that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) head: Head,
    pub(super) body: Option<Vec<u8>>,
}

impl Response {
    /// The response that begins after so many bytes of a connection.
    pub(super) fn awaited(start: u64, keep: bool) -> Self {
        Self { start, head: None, kept: keep.then(Vec::new) }
    }

    /// Bytes of payload came, from place `at` of the connection on.
    pub(super) fn text(&mut self, at: i64, text: &[u8]) -> Result<()> {
        match &mut self.kept {
            Some(kept) => {
                let from = at - self.start as i64;
                // What belongs to the last response was sent once more.
                let skip = usize::try_from(-from.min(0))?;
                let Some(text) = text.get(skip..).filter(|text| !text.is_empty()) else { return Ok(()) };
                let from = usize::try_from(from.max(0))?;
                ensure!((from + text.len()) as u64 <= KEPT_BYTES_MAX, "a response too long to be kept");
                if kept.len() < from + text.len() {
                    kept.resize(from + text.len(), 0);
                }
                kept[from..from + text.len()].copy_from_slice(text);
            }
            None if self.head.is_none() && at == self.start as i64 && !text.is_empty() => {
                self.head =
                    Some(head(text)?.context("a response head longer than what the wire hands over")?);
            }
            None => {}
        }
        Ok(())
    }

    /// Whether any of it has come when the connection has brought `received` bytes.
    pub(super) fn begun(&self, received: u64) -> bool {
        received > self.start
    }

    /// Bytes of its body that have come when the connection has brought `received` bytes.
    pub(super) fn body_bytes(&self, received: u64) -> u64 {
        let Some(head) = &self.head else { return 0 };
        received.saturating_sub(self.start + head.head_bytes).min(head.body_bytes)
    }

    /// The whole response, if it is there when the connection has brought `received` bytes.
    pub(super) fn whole(&mut self, received: u64) -> Result<Option<Answer>> {
        let mine = received.saturating_sub(self.start);
        if mine == 0 {
            return Ok(None);
        }
        if self.head.is_none() {
            match &self.kept {
                Some(kept) => self.head = head(&kept[..kept.len().min(mine as usize)])?,
                None => bail!("a response whose head did not begin a segment"),
            }
        }
        let Some(head) = self.head.clone().filter(|head| mine >= head.head_bytes + head.body_bytes) else {
            return Ok(None);
        };
        ensure!(mine == head.head_bytes + head.body_bytes, "more bytes than the response was to have");
        let body = self.kept.take().map(|mut kept| kept.split_off(head.head_bytes as usize));
        Ok(Some(Answer { head, body }))
    }
}

/// Reads a head (RFC 9112); `None`: it continues.
fn head(text: &[u8]) -> Result<Option<Head>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head_bytes) = response.parse(text).context("not a response head")? else {
        return Ok(None);
    };
    let status = response.code.context("a response without a status")?;
    let field = |name: &str| {
        let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| String::from_utf8_lossy(field.value).trim().to_owned())
    };
    let body_bytes = match (status, field("Content-Length")) {
        (100..200 | 204 | 304, _) => 0,
        (_, Some(length)) => length.parse().context("a length that is not a number")?,
        (_, None) => bail!("a response ({status}) without a length"),
    };
    let closes = field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(Some(Head { status, head_bytes: head_bytes as u64, body_bytes, location: field("Location"), closes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b"HTTP/1.1 206 Partial Content\r\ncontent-length: 5\r\nConnection: close\r\n\r\nhello";

    #[test]
    fn a_response_is_known_by_its_head_alone() {
        let mut response = Response::awaited(100, false);
        assert_eq!(response.whole(100).expect("nothing yet"), None);
        let head_bytes = TEXT.len() as u64 - 5;
        response.text(100, &TEXT[..TEXT.len() - 3]).expect("a head");
        assert_eq!(response.whole(100 + head_bytes + 4).expect("not all"), None);
        assert_eq!(response.body_bytes(100 + head_bytes + 4), 4);
        let answer = response.whole(100 + head_bytes + 5).expect("whole").expect("all");
        let head = Head { status: 206, head_bytes, body_bytes: 5, location: None, closes: true };
        assert_eq!(answer, Answer { head, body: None });
    }

    #[test]
    fn kept_bytes_may_come_in_any_order() {
        for cut in 1..TEXT.len() {
            let mut response = Response::awaited(7, true);
            response.text(7 + cut as i64, &TEXT[cut..]).expect("the end first");
            assert_eq!(response.whole(7).expect("a hole"), None);
            response.text(4, b"xyz").expect("older bytes");
            response.text(7, &TEXT[..cut]).expect("the beginning");
            let answer = response.whole(7 + TEXT.len() as u64).expect("whole").expect("all");
            assert_eq!(answer.body.as_deref(), Some(&b"hello"[..]), "cut at {cut}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_an_error() {
        let mut missed = Response::awaited(0, false);
        assert!(missed.whole(10).is_err(), "no head seen");
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(Response::awaited(0, false).text(0, chunked).is_err());
        let mut longer = Response::awaited(0, false);
        longer.text(0, TEXT).expect("a head");
        assert!(longer.whole(TEXT.len() as u64 + 1).is_err());
    }
}
