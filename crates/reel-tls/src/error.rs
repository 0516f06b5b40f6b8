//! Errors, worded for the log. The peer gets an alert.

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The handshake failed: bytes that are not TLS, no version or cipher in common, a peer that
    /// does not trust the certificate.
    #[error("the handshake failed: {0}")]
    Handshake(#[source] rustls::Error),
    /// The received bytes are not a record, or not one that is allowed now.
    #[error("{0}")]
    Record(&'static str),
    /// A record was not sealed with the keys of this connection, or is out of order.
    #[error("a record cannot be opened: it was changed in transit, or belongs to another connection")]
    NotOpened,
    /// The peer ended the connection with an alert (RFC 8446 section 6).
    #[error("the peer ended the connection with alert {0}")]
    Alert(u8),
    /// The peer asked for a new handshake on an established connection (RFC 5746), which Reel does
    /// not support.
    #[error("the peer asked for a renegotiation, which is refused")]
    Renegotiation,
    /// The connection failed or ended before.
    #[error("the connection has ended")]
    Over,
    /// The keys of a TLS 1.2 connection have sealed as many records as they may.
    #[error("the keys have encrypted as many records as is safe")]
    KeysUsedUp,
}

/// Why a certificate and key cannot be used. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// No certificate in the file.
    #[error(
        "there is no certificate in it; it must hold the server's certificate and those that lead to its issuer, as PEM"
    )]
    NoCertificate,
    /// Something in the file is not PEM.
    #[error(
        "it cannot be read as PEM ({0}); write certificates and keys as they come from the issuer, with their BEGIN and END lines"
    )]
    NotPem(String),
    /// The file has more certificates than a chain needs.
    #[error("it holds more than {max} certificates; leave only the server's own and those that lead to its issuer", max = crate::limits::CHAIN_MAX)]
    ChainTooLong,
    /// The file has no key.
    #[error(
        "there is no private key in it; it must hold the key that the certificate was made for, as PEM without a password"
    )]
    NoKey,
    /// A kind of key that is not supported.
    #[error(
        "the key cannot be used ({0}); use an ECDSA P-256 or P-384, RSA of 2048 bits or more, or Ed25519 key"
    )]
    KeyNotUsable(String),
    /// The certificate is for another key.
    #[error(
        "the certificate was made for another key; give the key that it was requested with, or the certificate that belongs to this key"
    )]
    Mismatch,
    /// The certificate cannot be parsed.
    #[error("the certificate cannot be read ({0}); have it issued again")]
    NotCertificate(&'static str),
    /// The certificate has expired.
    #[error("the certificate expired on {0}; have it renewed, or let one be generated (tls.generate = true)")]
    Expired(String),
    /// The certificate is not valid yet.
    #[error("the certificate is valid only from {0} on; wait until then, or correct this machine's clock")]
    NotYetValid(String),
    /// rustls refused for another reason.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[source] rustls::Error),
    /// No certificate could be generated.
    #[error("a certificate cannot be generated: {0}")]
    NotGenerated(String),
}
