//! Jobs and readiness.

use crate::jobs::JobStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The jobs of a server, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobList {
    /// Those that run, and the last ones that ended.
    pub jobs: Vec<JobStatus>,
}

/// What a member is replaced with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// The member's number.
    pub member: usize,
    /// An absolute path on the server.
    pub path: PathBuf,
    /// Whether a new file may be made there if there is nothing. In the volume's directory it is
    /// made in any case.
    #[serde(default)]
    pub create: bool,
}

/// Whether titles can be played.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Readiness {
    /// All that is needed for it is in order.
    pub ready: bool,
    /// What was looked at.
    pub checks: Vec<ReadinessCheck>,
}

/// One of the things that were looked at.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadinessCheck {
    /// What it is about.
    pub name: &'static str,
    /// In order.
    pub ok: bool,
    /// In words.
    pub detail: String,
}
