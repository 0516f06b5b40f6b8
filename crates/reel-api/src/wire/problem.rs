//! Problem documents.

use super::ResourceCode;
use schemars::JsonSchema;
use serde::Serialize;

/// A problem document (RFC 9457). A refusal has the type `urn:reel:problem:not-admitted`, or
/// `urn:reel:problem:too-long` if asking again is of no use; `resource`, `member`, `asked`,
/// `available` and `grantable_rate_bps` are fields of refusals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemBody {
    /// `urn:reel:problem:` and the kind of problem.
    #[schemars(extend("format" = "uri-reference"))]
    pub r#type: String,
    /// The same for every problem of a type.
    pub title: &'static str,
    /// The status of the response.
    pub status: u16,
    /// What happened this time, and why.
    pub detail: String,
    /// What to do about it, if `detail` does not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The job that prevents the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// What there is too little of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceCode>,
    /// Which disk, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// What the stream needs of it in one round, in nanoseconds or bytes; of memory, the bytes
    /// held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<u64>,
    /// What is left in that round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
    /// The rate at which the same stream could have been granted; 0: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grantable_rate_bps: Option<u64>,
    /// Present and true if it needs more than the whole share of its class: an idle server would
    /// refuse it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never: Option<bool>,
    /// Seconds after which it makes sense to ask again; absent if it is not known, or never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}
