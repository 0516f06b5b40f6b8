//! The server's identity: a chain of certificates and its key, checked before a client sees it.

use crate::error::IdentityError;
use crate::limits::CHAIN_MAX;
use crate::validity::Validity;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// A certificate with its key, both usable now.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    validity: Validity,
}

impl Identity {
    /// Reads a chain (the server's own certificate first) and its key, both as PEM, and checks that
    /// they belong together.
    ///
    /// # Errors
    /// If the chain or the key is missing, cannot be parsed or is not supported, or they do not
    /// belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let mut certificates = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(chain) {
            if certificates.len() == CHAIN_MAX {
                return Err(IdentityError::ChainTooLong);
            }
            certificates.push(certificate.map_err(not_pem)?);
        }
        let Some(own) = certificates.first() else { return Err(IdentityError::NoCertificate) };
        let validity = Validity::of_der(own)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => IdentityError::NoKey,
            other => not_pem(other),
        })?;
        let key = any_supported_type(&key).map_err(|error| IdentityError::KeyNotUsable(error.to_string()))?;
        let certified = CertifiedKey::new(certificates, key);
        match certified.keys_match() {
            Ok(()) => Ok(Self { key: Arc::new(certified), validity }),
            Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
                Err(IdentityError::Mismatch)
            }
            Err(_) => Err(IdentityError::NotCertificate("its public key is not understood")),
        }
    }

    /// The period in which the server's own certificate is valid.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The SHA-256 of the server's own certificate, in the form that browsers show.
    pub fn fingerprint(&self) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, self.certificate());
        digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
    }

    /// The server's own certificate, as DER.
    pub fn certificate(&self) -> &[u8] {
        self.key.cert.first().map_or(&[], |certificate| certificate.as_ref())
    }
}

fn not_pem(error: pem::Error) -> IdentityError {
    IdentityError::NotPem(error.to_string())
}
