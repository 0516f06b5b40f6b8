//! `[join]`: where the server may play sessions to.

use std::path::PathBuf;

use reel::server::JoinConfig;
use serde::Deserialize;

/// `[join]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JoinSection {
    /// The directory of new files. Not set: no files.
    pub(crate) directory: Option<PathBuf>,
}

impl JoinSection {
    /// Whether any destination is allowed.
    pub(crate) fn is_used(&self) -> bool {
        self.directory.is_some()
    }

    /// The settings for the server.
    pub(crate) fn config(&self) -> JoinConfig {
        JoinConfig { directory: self.directory.clone() }
    }
}
