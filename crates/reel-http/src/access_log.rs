//! The access log: one line for each answered request.

use reel_qos::Class;
use std::net::SocketAddr;

/// One answered request.
pub(crate) struct AccessRecord {
    pub(crate) client: SocketAddr,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) range: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) class: Class,
    pub(crate) status: u16,
    /// Body bytes that the client has accepted.
    pub(crate) sent_bytes: u64,
    /// From the end of the request head to the last accepted byte.
    pub(crate) took_ns: u64,
    /// The client has accepted the whole response.
    pub(crate) complete: bool,
}

impl AccessRecord {
    /// Writes the line to the target `access` of tracing. The subscriber of a server never waits
    /// for the log.
    pub(crate) fn log(&self) {
        tracing::info!(
            target: "access",
            client = %self.client,
            method = %self.method,
            path = %redacted(&self.path),
            range = self.range.as_deref().unwrap_or("-"),
            status = self.status,
            bytes = self.sent_bytes,
            ms = self.took_ns / 1_000_000,
            class = ?self.class,
            complete = self.complete,
            agent = self.user_agent.as_deref().unwrap_or("-"),
        );
    }
}

/// A session key gives access to its session: the log keeps only its first digits.
fn redacted(path: &str) -> String {
    match path.strip_prefix("/s/").and_then(|rest| rest.split_once('/')) {
        Some((key, file)) => format!("/s/{}../{file}", key.get(..4).unwrap_or(key)),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_not_reach_the_log() {
        let path = "/s/00112233445566778899aabbccddeeff/0/1.m4s";
        assert_eq!(redacted(path), "/s/0011../0/1.m4s");
        assert_eq!(redacted("/files/a.mp4"), "/files/a.mp4");
        assert_eq!(redacted("/s/é/x"), "/s/é../x");
    }
}
