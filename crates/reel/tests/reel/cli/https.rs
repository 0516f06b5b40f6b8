//! Certificates that cannot be used are refused at the start, with a message that says what to do.

use std::fs;
use std::time::{Duration, SystemTime};

use reel_tls::{Generated, generate};

use crate::cli::rig::{Outcome, TestDir};

fn made(days_ago: u64) -> Generated {
    generate(&["localhost".to_owned()], SystemTime::now() - Duration::from_secs(days_ago * 86_400)).unwrap()
}

/// `reel serve` with this certificate and this key.
fn serve(dir: &TestDir, certificate: &str, key: &str) -> Outcome {
    fs::write(dir.path("certificate.pem"), certificate).unwrap();
    fs::write(dir.path("key.pem"), key).unwrap();
    let config = "listen = \"127.0.0.1:0\"\nvolume = \"volume\"\n[tls]\nlisten = \"127.0.0.1:0\"\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n";
    fs::write(dir.path("reel.toml"), config).unwrap();
    dir.reel(&["serve", "--config", "reel.toml"])
}

#[test]
fn unusable_certificates_are_named_with_what_to_do() {
    let dir = TestDir::with_volume();
    let (good, other, old) = (made(0), made(0), made(500));
    serve(&dir, &old.certificate, &old.key).refused(2, &["certificate.pem", "expired on", "have it renewed"]);
    serve(&dir, &good.certificate, &other.key)
        .refused(2, &["key.pem", "made for another key", "give the key"]);
    serve(&dir, "", &good.key).refused(2, &["there is no certificate"]);
    serve(&dir, &good.certificate, "").refused(2, &["there is no private key"]);
    serve(&dir, "-----BEGIN CERTIFICATE-----\nnonsense\n", &good.key).refused(2, &["PEM"]);
    let ahead = generate(&[], SystemTime::now() + Duration::from_secs(200_000)).unwrap();
    serve(&dir, &ahead.certificate, &ahead.key).refused(2, &["valid only from", "clock"]);
    fs::remove_file(dir.path("key.pem")).unwrap();
    dir.reel(&["serve", "--config", "reel.toml"]).refused(3, &["cannot read", "key.pem", "tls.key"]);
}
