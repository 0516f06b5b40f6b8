//! `clients`: who may do something.

use reel_admit::NoAddressRange;
use reel_serve::AllowedClients;
use serde::Deserialize;

use super::{Fault, keys};

/// `clients`, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum ClientsConfig {
    /// "all" or "local".
    Word(String),
    /// Addresses and ranges.
    Addresses(Vec<String>),
}

impl Default for ClientsConfig {
    fn default() -> Self {
        Self::of(&AllowedClients::Local)
    }
}

impl ClientsConfig {
    /// As these clients are written, if they are not chosen by address.
    pub(super) fn of(clients: &AllowedClients) -> Self {
        Self::Word(if *clients == AllowedClients::All { "all" } else { "local" }.to_owned())
    }

    /// The clients.
    pub(super) fn clients(&self) -> Result<AllowedClients, String> {
        match self {
            Self::Word(word) if word == "all" => Ok(AllowedClients::All),
            Self::Word(word) if word == "local" => Ok(AllowedClients::Local),
            Self::Word(word) => Err(format!("`{word}` is neither \"all\" nor \"local\"")),
            Self::Addresses(ranges) => {
                let ranges: Result<_, _> = ranges.iter().map(|range| range.parse()).collect();
                ranges.map(AllowedClients::At).map_err(|error: NoAddressRange| error.to_string())
            }
        }
    }

    /// Whether what is written under `key` has a meaning.
    pub(super) fn check(&self, key: &str, text: &str) -> Result<(), Fault> {
        let Err(what) = self.clients() else { return Ok(()) };
        let what = format!("{}: {what}", key.escape_default());
        let help = "\"all\", \"local\", or a list of addresses and ranges".into();
        Err(Fault { line: keys::line_of(text, key), what, help })
    }
}
