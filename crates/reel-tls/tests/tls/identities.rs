//! Certificates and keys that can be used, and those that cannot.
#![allow(clippy::unwrap_used, reason = "tests")]

use reel_tls::limits::{CHAIN_MAX, GENERATED_DAYS};
use reel_tls::{Generated, Identity, IdentityError, generate};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 86_400;

fn at(day: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(day * DAY_S)
}

fn made(day: u64) -> Generated {
    generate(&["reel.example".into(), "192.0.2.1".into(), "::1".into()], at(day)).unwrap()
}

fn read(chain: &str, key: &str) -> Result<Identity, IdentityError> {
    Identity::from_pem(chain.as_bytes(), key.as_bytes())
}

#[test]
fn a_generated_certificate_is_valid_only_in_its_period() {
    let Generated { certificate, key } = made(20_000);
    let identity = read(&certificate, &key).unwrap();
    let valid = |day: i64| identity.validity().check(day * DAY_S as i64);
    assert!(matches!(valid(19_999), Err(IdentityError::NotYetValid(date)) if date == "2024-10-03"));
    assert!(valid(20_000).is_ok() && valid(20_000 + GENERATED_DAYS).is_ok());
    assert!(
        matches!(valid(20_001 + GENERATED_DAYS), Err(IdentityError::Expired(date)) if date == "2025-11-05")
    );
}

#[test]
fn dates_beyond_2049_are_read() {
    let Generated { certificate, key } = made(30_000);
    let identity = read(&certificate, &key).unwrap();
    assert_eq!(identity.validity().not_before_s, 30_000 * DAY_S as i64 - 3600);
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (one, other) = (made(20_000), made(20_000));
    assert!(matches!(read(&one.certificate, &other.key), Err(IdentityError::Mismatch)));
    // The chain's first certificate is the server's own.
    let swapped = format!("{}{}", other.certificate, one.certificate);
    assert!(matches!(read(&swapped, &one.key), Err(IdentityError::Mismatch)));
    assert!(read(&format!("{}{}", one.certificate, other.certificate), &one.key).is_ok());
}

#[test]
fn missing_or_invalid_parts_are_named() {
    let Generated { certificate, key } = made(20_000);
    assert!(matches!(read("", &key), Err(IdentityError::NoCertificate)));
    assert!(matches!(read(&key, &key), Err(IdentityError::NoCertificate)));
    assert!(matches!(read(&certificate, ""), Err(IdentityError::NoKey)));
    assert!(matches!(read(&certificate, &certificate), Err(IdentityError::NoKey)));
    let cut = &certificate[..certificate.len() / 2];
    assert!(matches!(read(cut, &key), Err(IdentityError::NotPem(_))));
    let empty = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    assert!(matches!(read(empty, &key), Err(IdentityError::NotCertificate(_))));
    let bad_key = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
    assert!(matches!(read(&certificate, bad_key), Err(IdentityError::KeyNotUsable(_))));
    assert!(matches!(read(&certificate.repeat(CHAIN_MAX + 1), &key), Err(IdentityError::ChainTooLong)));
}

#[test]
fn every_message_says_what_to_do() {
    for error in [
        IdentityError::NoCertificate,
        IdentityError::NotPem("x".into()),
        IdentityError::NoKey,
        IdentityError::KeyNotUsable("x".into()),
        IdentityError::Mismatch,
        IdentityError::Expired("2026-01-01".into()),
        IdentityError::NotYetValid("2026-01-01".into()),
        IdentityError::ChainTooLong,
    ] {
        assert!(error.to_string().contains("; "), "{error}");
    }
}
