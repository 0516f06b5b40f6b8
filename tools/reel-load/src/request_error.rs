//! What keeps a client from getting what it asked for.

use super::limits::{REASONS_MAX, RETRY_AFTER_MAX_S};
use super::outcome::Reason;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;

/// Why a request brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The server said that it could not keep a promise (503), or that this client has its share
    /// (429).
    Refused(Refusal),
    /// Anything else. The words are the same for the same cause, so that they can be counted.
    Failed(String),
    /// A connection that was kept open turned out to be closed.
    Closed,
}

/// A refusal: Reel's problem document, or a bare 503.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) grantable_bps: Option<u64>,
    pub(crate) retry_after_s: Option<u64>,
}

/// How often what went wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reasons(BTreeMap<String, Reason>);

impl RequestError {
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }

    pub(crate) fn io(doing: &str, error: &io::Error) -> Self {
        // The kind, without what differs from case to case.
        Self::Failed(format!("{doing}: {}", error.kind()))
    }

    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Refused(refusal) => format!("refused: {}", refusal.reason),
            Self::Failed(reason) => reason.clone(),
            Self::Closed => "the server closed the connection".to_owned(),
        }
    }
}

impl Refusal {
    /// Reads a problem document (RFC 9457): the resource that has not enough, or what the server
    /// called the problem.
    pub(crate) fn parse(body: &str, retry_after_s: Option<u64>) -> Self {
        let Ok(Value::Object(problem)) = serde_json::from_str(body) else {
            return Self { reason: "503 without a reason".to_owned(), grantable_bps: None, retry_after_s };
        };
        let text = |name: &str| problem.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| problem.get(name).and_then(Value::as_u64);
        // Without a type of its own the title only repeats the status (RFC 9457 section 4.2.1).
        let title = text("title").filter(|_| text("type").is_some_and(|kind| kind != "about:blank"));
        let resource = text("resource").map(|code| match number("member") {
            Some(member) => format!("{code} {member}"),
            None => code,
        });
        let reason = resource.or(title).or_else(|| text("detail")).or_else(|| text("title"));
        Self {
            reason: reason.unwrap_or_else(|| "503 without a reason".to_owned()),
            grantable_bps: number("grantable_rate_bps"),
            retry_after_s: retry_after_s.or(number("retry_after_s")).map(|s| s.min(RETRY_AFTER_MAX_S)),
        }
    }
}

impl Reasons {
    pub(crate) fn add(&mut self, reason: &str, grantable_bps: Option<u64>) {
        let full = self.0.len() >= REASONS_MAX && !self.0.contains_key(reason);
        self.put(if full { "other reasons" } else { reason }, 1, grantable_bps.map(|rate| (rate, rate)));
    }

    pub(crate) fn merge(&mut self, other: &Reasons) {
        for reason in other.0.values() {
            self.put(&reason.reason, reason.count, reason.grantable_bps);
        }
    }

    /// All reasons, the most frequent first.
    pub(crate) fn list(&self) -> Vec<Reason> {
        let mut all: Vec<_> = self.0.values().cloned().collect();
        all.sort_by_key(|reason| std::cmp::Reverse(reason.count));
        all
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.values().map(|reason| reason.count).sum()
    }

    fn put(&mut self, reason: &str, count: u64, grantable_bps: Option<(u64, u64)>) {
        let own = self.0.entry(reason.to_owned()).or_default();
        own.reason = reason.to_owned();
        own.count += count;
        own.grantable_bps = match (own.grantable_bps, grantable_bps) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_the_resource_and_what_could_be_granted() {
        let body = r#"{"type":"urn:reel:problem:not-admitted","title":"Not admitted","status":503,"detail":"x",
            "resource":"disk","member":3,"asked":10,"available":4,"grantable_rate_bps":3200000,"retry_after_s":17}"#;
        let refusal = Refusal::parse(body, None);
        assert_eq!(refusal.reason, "disk 3");
        assert_eq!((refusal.grantable_bps, refusal.retry_after_s), (Some(3_200_000), Some(17)));
        // The header goes before the body.
        assert_eq!(Refusal::parse(body, Some(5)).retry_after_s, Some(5));
        assert_eq!(Refusal::parse(r#"{"title":"Too many"}"#, None).reason, "Too many");
        let plain = r#"{"type":"about:blank","title":"Service Unavailable","detail":"256 sessions"}"#;
        assert_eq!(Refusal::parse(plain, None).reason, "256 sessions");
        assert_eq!(Refusal::parse("<html>", None).reason, "503 without a reason");
    }

    #[test]
    fn reasons_are_counted_and_bounded() {
        let mut all = Reasons::default();
        let mut more = Reasons::default();
        all.add("member 1", Some(5));
        more.add("member 1", Some(2));
        more.add("the network", None);
        more.add("member 1", Some(9));
        all.merge(&more);
        let reason = Reason { reason: "member 1".into(), count: 3, grantable_bps: Some((2, 9)) };
        assert_eq!(all.list()[0], reason);
        (0..1000).for_each(|number| all.add(&number.to_string(), None));
        assert_eq!((all.list().len(), all.count()), (REASONS_MAX + 1, 1004));
    }
}
