//! `[join]`: where the server may play sessions to.

use std::path::PathBuf;

use reel::server::JoinConfig;
use reel_join::{GroupOptions, NoTarget, Target};
use serde::Deserialize;

use super::ClientsConfig;

/// `[join]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JoinSection {
    /// The directory of new files. Not set: no files.
    pub(crate) directory: Option<PathBuf>,
    /// Whether sessions may be played into poured streams.
    pub(crate) live: bool,
    /// The addresses that may be sent to.
    pub(crate) to: Vec<String>,
    /// The network interface of datagrams to groups. Not set: that of the routing table.
    pub(crate) interface: Option<String>,
    /// How many networks datagrams to groups may cross.
    pub(crate) ttl: u8,
    /// Who may have sessions played there.
    pub(crate) clients: ClientsConfig,
}

impl Default for JoinSection {
    fn default() -> Self {
        let GroupOptions { interface, ttl } = GroupOptions::default();
        Self {
            directory: None,
            live: false,
            to: Vec::new(),
            interface,
            ttl,
            clients: ClientsConfig::default(),
        }
    }
}

impl JoinSection {
    /// Whether any destination is allowed.
    pub(crate) fn is_used(&self) -> bool {
        self.directory.is_some() || self.live || !self.to.is_empty()
    }

    /// The addresses that may be sent to.
    pub(crate) fn to(&self) -> Result<Vec<Target>, NoTarget> {
        self.to.iter().map(|target| target.parse()).collect()
    }

    /// The settings for the server.
    pub(crate) fn config(&self) -> JoinConfig {
        // Checked when the file was read.
        JoinConfig {
            directory: self.directory.clone(),
            live: self.live,
            to: self.to().unwrap_or_default(),
            groups: GroupOptions { interface: self.interface.clone(), ttl: self.ttl.max(1) },
            clients: self.clients.clients().unwrap_or_default(),
        }
    }
}
