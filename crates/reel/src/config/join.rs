//! `[join]`: where the server may play sessions to.

use std::path::PathBuf;

use reel::server::JoinConfig;
use reel_join::{NoTarget, TcpTarget};
use serde::Deserialize;

use super::ClientsConfig;

/// `[join]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JoinSection {
    /// The directory of new files. Not set: no files.
    pub(crate) directory: Option<PathBuf>,
    /// Where connections may be made to.
    pub(crate) to: Vec<String>,
    /// Who may have sessions played there.
    pub(crate) clients: ClientsConfig,
}

impl JoinSection {
    /// Whether any destination is allowed.
    pub(crate) fn is_used(&self) -> bool {
        self.directory.is_some() || !self.to.is_empty()
    }

    /// Where connections may be made to.
    pub(crate) fn to(&self) -> Result<Vec<TcpTarget>, NoTarget> {
        self.to.iter().map(|target| target.parse()).collect()
    }

    /// The settings for the server.
    pub(crate) fn config(&self) -> JoinConfig {
        // Checked when the file was read.
        JoinConfig {
            directory: self.directory.clone(),
            to: self.to().unwrap_or_default(),
            clients: self.clients.clients().unwrap_or_default(),
        }
    }
}
