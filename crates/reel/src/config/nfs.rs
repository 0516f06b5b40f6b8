//! `[nfs]`: whether titles are read by NFS, and by whom.

use std::net::SocketAddr;

use reel::server::NfsConfig;
use reel_admit::{AddressRange, NoAddressRange};
use serde::Deserialize;

use crate::limits::NFS_CLIENTS;

/// `[nfs]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NfsSection {
    /// The address for NFS. Not set: no NFS.
    #[serde(deserialize_with = "super::address_if_any")]
    pub(crate) listen: Option<SocketAddr>,
    /// The addresses that may read titles.
    pub(crate) clients: Vec<String>,
    /// Whether the port mapper is served on port 111.
    pub(crate) portmap: bool,
}

impl Default for NfsSection {
    fn default() -> Self {
        Self { listen: None, clients: NFS_CLIENTS.map(str::to_owned).to_vec(), portmap: false }
    }
}

impl NfsSection {
    /// The ranges of addresses that may read titles.
    pub(crate) fn clients(&self) -> Result<Vec<AddressRange>, NoAddressRange> {
        self.clients.iter().map(|range| range.parse()).collect()
    }

    /// The settings for the server.
    pub(crate) fn config(&self) -> Option<NfsConfig> {
        Some(NfsConfig {
            listen: self.listen?,
            // Checked when the file was read.
            clients: self.clients().unwrap_or_default(),
            portmap: self.portmap,
        })
    }
}
