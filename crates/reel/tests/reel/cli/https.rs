//! Certificates that cannot be used are refused at the start, with a message that says what to do.

use std::fs;
use std::time::{Duration, SystemTime};

use reel_tls::{Generated, generate};

use crate::cli::rig::{Outcome, Place};

fn made(days_ago: u64) -> Generated {
    generate(&["localhost".to_owned()], SystemTime::now() - Duration::from_secs(days_ago * 86_400)).unwrap()
}

/// `reel serve` with this certificate and this key.
fn serve(place: &Place, certificate: &str, key: &str) -> Outcome {
    fs::write(place.path("certificate.pem"), certificate).unwrap();
    fs::write(place.path("key.pem"), key).unwrap();
    let config = "listen = \"127.0.0.1:0\"\nvolume = \"volume\"\n[tls]\nlisten = \"127.0.0.1:0\"\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n";
    fs::write(place.path("reel.toml"), config).unwrap();
    place.reel(&["serve", "--config", "reel.toml"])
}

#[test]
fn unusable_certificates_are_named_with_what_to_do() {
    let place = Place::with_volume();
    let (good, other, old) = (made(0), made(0), made(500));
    serve(&place, &old.certificate, &old.key)
        .refused(2, &["certificate.pem", "expired on", "have it renewed"]);
    serve(&place, &good.certificate, &other.key)
        .refused(2, &["key.pem", "made for another key", "give the key"]);
    serve(&place, "", &good.key).refused(2, &["there is no certificate"]);
    serve(&place, &good.certificate, "").refused(2, &["there is no private key"]);
    serve(&place, "-----BEGIN CERTIFICATE-----\nnonsense\n", &good.key).refused(2, &["PEM"]);
    let ahead = generate(&[], SystemTime::now() + Duration::from_secs(200_000)).unwrap();
    serve(&place, &ahead.certificate, &ahead.key).refused(2, &["valid only from", "clock"]);
    fs::remove_file(place.path("key.pem")).unwrap();
    place.reel(&["serve", "--config", "reel.toml"]).refused(3, &["cannot read", "key.pem", "tls.key"]);
}
