//! `[tls]`: whether the server serves TLS, and with which certificate.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use reel::server::TlsConfig;
use reel_http::CertificateFiles;
use reel_http::limits::HANDSHAKES_MAX;
use serde::Deserialize;

use super::{Fault, keys};

/// `[tls]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TlsSection {
    /// The address for TLS. Not set: no TLS.
    #[serde(deserialize_with = "super::address_if_any")]
    pub(crate) listen: Option<SocketAddr>,
    /// The chain of certificates.
    pub(crate) certificate: Option<PathBuf>,
    /// The key of the server's certificate.
    pub(crate) key: Option<PathBuf>,
    /// Whether the server generates its own certificate.
    pub(crate) generate: bool,
    /// Whether HTTP/2 is offered. Not by default: media is not answered over it.
    pub(crate) http2: bool,
}

impl TlsSection {
    pub(super) fn check(&self, text: &str) -> Result<(), Fault> {
        let fault = |key: &str, what: &str, help: &str| {
            Err(Fault { line: keys::line_of(text, key), what: what.to_owned(), help: help.to_owned() })
        };
        match (&self.certificate, &self.key) {
            (Some(_), None) => fault(
                "tls.certificate",
                "tls.certificate is set, and tls.key is not",
                "give the file of the key that the certificate was made for",
            ),
            (None, Some(_)) => fault(
                "tls.key",
                "tls.key is set, and tls.certificate is not",
                "give the file of the certificate that was made for the key",
            ),
            (Some(_), Some(_)) if self.generate => fault(
                "tls.generate",
                "there are both tls.certificate and tls.generate",
                "leave out one of them",
            ),
            (certificate, _) if self.listen.is_none() && (certificate.is_some() || self.generate) => fault(
                if self.generate { "tls.generate" } else { "tls.certificate" },
                "there is a certificate, and tls.listen is not set",
                "say where TLS is to be spoken, such as tls.listen = \"0.0.0.0:8443\"",
            ),
            (None, None) if self.listen.is_some() && !self.generate => fault(
                "tls.listen",
                "tls.listen is set, and there is no certificate",
                "set tls.certificate and tls.key, or tls.generate = true for a self-signed one",
            ),
            _ => Ok(()),
        }
    }

    /// Serves TLS on `address`, with a generated certificate if none is configured.
    pub(crate) fn listen_at(&mut self, address: SocketAddr) {
        self.listen = Some(address);
        self.generate |= self.certificate.is_none();
    }

    /// The settings for the server. A generated certificate is stored in the volume's directory.
    pub(crate) fn config(&self, volume: &Path) -> Option<TlsConfig> {
        let listen = self.listen?;
        let files = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                CertificateFiles { certificate: certificate.clone(), key: key.clone(), generate_for: None }
            }
            _ => CertificateFiles {
                certificate: volume.join("tls/certificate.pem"),
                key: volume.join("tls/key.pem"),
                generate_for: Some(own_names(listen)),
            },
        };
        Some(TlsConfig { listen, files, http2: self.http2, handshakes_max: HANDSHAKES_MAX })
    }
}

/// The names of this machine for its clients: its host name, and the addresses that are known
/// without asking the network.
fn own_names(listen: SocketAddr) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let host = super::machine_name();
    let own = if listen.ip().is_unspecified() { None } else { Some(listen.ip().to_string()) };
    for name in [Some(host), own].into_iter().flatten() {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn fault(text: &str) -> (usize, String, String) {
        let Fault { line, what, help } = Config::parse(text).unwrap_err();
        (line, what, help)
    }

    #[test]
    fn half_a_configuration_names_what_is_missing() {
        for (text, line, missing) in [
            ("[tls]\nlisten = \"[::]:8443\"\n", 2, "tls.generate = true"),
            ("[tls]\nlisten = \"[::]:8443\"\ncertificate = \"a.pem\"\n", 3, "the key"),
            ("[tls]\nkey = \"a.pem\"\n", 2, "the certificate"),
            ("[tls]\ngenerate = true\n", 2, "tls.listen"),
            ("[tls]\ncertificate = \"a\"\nkey = \"b\"\n", 2, "tls.listen"),
            (
                "[tls]\nlisten=\"[::]:1\"\ncertificate = \"a\"\nkey = \"b\"\ngenerate = true\n",
                5,
                "leave out one",
            ),
        ] {
            let (at, what, help) = fault(text);
            assert!(at == line && help.contains(missing), "{text}: {at} {what}; {help}");
        }
        assert!(fault("[tls]\nlisten = \"everywhere\"\n").1.contains("is not an address"));
        assert!(fault("[tls]\ncertifcate = \"a\"\n").2.contains("tls.certificate"));
    }

    #[test]
    fn a_generated_certificate_is_for_the_names_of_this_machine() {
        let config = Config::parse("[tls]\nlisten = \"192.0.2.7:8443\"\ngenerate = true\n").unwrap();
        let tls = config.tls.config(Path::new("films")).unwrap();
        assert_eq!(tls.files.key, Path::new("films/tls/key.pem"));
        let names = tls.files.generate_for.unwrap();
        assert!(names.contains(&"localhost".to_owned()) && names.contains(&"192.0.2.7".to_owned()));
        assert!(Config::default().tls.config(Path::new("films")).is_none());
    }

    #[test]
    fn http2_is_offered_only_if_it_is_switched_on() {
        let offers = |more: &str| {
            let text = format!("[tls]\nlisten = \"192.0.2.7:8443\"\ngenerate = true\n{more}");
            Config::parse(&text).unwrap().tls.config(Path::new("films")).unwrap().http2
        };
        assert!(!offers("") && offers("http2 = true\n"));
    }
}
