//! What all connections of a server share: the identity, which can be replaced at any time, and the
//! keys of session tickets.

use crate::error::IdentityError;
use crate::identity::Identity;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedCipherSuite};
use std::sync::{Arc, PoisonError, RwLock};

/// Starts connections. Clones share one state.
#[derive(Clone, Debug)]
pub struct Acceptor {
    pub(crate) config: Arc<ServerConfig>,
    shown: Arc<Shown>,
}

/// The protocol inside a connection (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, also when no protocol was negotiated.
    Http1,
    /// HTTP/2.
    Http2,
}

/// The names of [`Protocol`] on the wire.
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

#[derive(Debug)]
struct Shown(RwLock<Identity>);

impl Acceptor {
    /// An acceptor for connections with TLS 1.3 and 1.2. It offers HTTP/2 if `http2` is true.
    ///
    /// # Errors
    /// If rustls refuses the identity or has no source of random numbers.
    pub fn new(identity: Identity, http2: bool) -> Result<Self, IdentityError> {
        let shown = Arc::new(Shown(RwLock::new(identity)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(IdentityError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as _);
        config.alpn_protocols =
            if http2 { vec![HTTP2.to_vec(), HTTP1.to_vec()] } else { vec![HTTP1.to_vec()] };
        // Sessions are resumed by tickets, which cost the server no memory.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Ticketer::new().map_err(IdentityError::Setup)?;
        config.enable_secret_extraction = true;
        Ok(Self { config: Arc::new(config), shown })
    }

    /// Uses another identity from the next handshake on. Existing connections and tickets do not
    /// change.
    pub fn replace(&self, identity: Identity) {
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = identity;
    }

    /// The identity in use.
    pub fn identity(&self) -> Identity {
        self.shown.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The cipher suites, the preferred first. The client's order has precedence.
    pub fn ciphers(&self) -> &[SupportedCipherSuite] {
        &self.config.crypto_provider().cipher_suites
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).key))
    }
}
