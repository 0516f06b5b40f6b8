//! A certificate for operators who have none. It is signed by itself, so browsers warn about it.

use crate::error::IdentityError;
use crate::limits::GENERATED_DAYS;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use std::time::{Duration, SystemTime};

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The certificate.
    pub certificate: String,
    /// Its key, which must be kept secret.
    pub key: String,
}

/// Makes a certificate (ECDSA P-256) for `names`, host names and addresses. It is valid from an
/// hour before `now`, because clocks differ.
///
/// # Errors
/// If a name is invalid, or no key can be made.
pub fn generate(names: &[String], now: SystemTime) -> Result<Generated, IdentityError> {
    let failed = |error: rcgen::Error| IdentityError::NotGenerated(error.to_string());
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Reel, self-signed");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = (now - Duration::from_secs(3600)).into();
    params.not_after = (now + Duration::from_secs(GENERATED_DAYS as u64 * 86_400)).into();
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(Generated { certificate: certificate.pem(), key: key.serialize_pem() })
}
