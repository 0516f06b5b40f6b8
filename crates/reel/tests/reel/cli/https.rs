//! Certificates that cannot be used are refused at the start, with a message that says what to do.

use std::fs;
use std::time::{Duration, SystemTime};

use reel_tls::{Generated, generate};

use rustix::process::Signal;

use crate::cli::rig::{Outcome, TestDir};
use crate::cli::serving::Running;

fn made(days_ago: u64) -> Generated {
    generate(&["localhost".to_owned()], SystemTime::now() - Duration::from_secs(days_ago * 86_400)).unwrap()
}

/// `reel serve` with this certificate and this key.
fn serve(dir: &TestDir, certificate: &str, key: &str) -> Outcome {
    configure(dir, certificate, key);
    dir.reel(&["serve", "--config", "reel.toml"])
}

fn configure(dir: &TestDir, certificate: &str, key: &str) {
    fs::write(dir.path("certificate.pem"), certificate).unwrap();
    fs::write(dir.path("key.pem"), key).unwrap();
    let config = "listen = \"127.0.0.1:0\"\nvolume = \"volume\"\narena_bytes = \"128M\"\n[tls]\nlisten = \"127.0.0.1:0\"\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n";
    fs::write(dir.path("reel.toml"), config).unwrap();
}

/// The clock may be wrong, too: that is found out when it is right again.
#[test]
fn a_server_starts_with_an_expired_certificate() {
    let dir = TestDir::with_volume();
    let ahead = generate(&[], SystemTime::now() + Duration::from_secs(200_000)).unwrap();
    for (wrong, words) in [(made(500), "expired on"), (ahead, "valid only from")] {
        configure(&dir, &wrong.certificate, &wrong.key);
        let mut server = Running::start(&dir, &["serve", "--config", "reel.toml"]);
        assert_eq!(server.get("/readyz").head.status, 200);
        assert_eq!(server.signal(Signal::TERM), Some(0));
        let said = server.said();
        assert!(said.contains(words) && said.contains("clients refuse it"), "{said}");
    }
}

#[test]
fn unusable_certificates_are_named_with_what_to_do() {
    let dir = TestDir::with_volume();
    let (good, other) = (made(0), made(0));
    serve(&dir, &good.certificate, &other.key)
        .refused(2, &["key.pem", "made for another key", "give the key"]);
    serve(&dir, "", &good.key).refused(2, &["there is no certificate"]);
    serve(&dir, &good.certificate, "").refused(2, &["there is no private key"]);
    serve(&dir, "-----BEGIN CERTIFICATE-----\nnonsense\n", &good.key).refused(2, &["PEM"]);
    fs::remove_file(dir.path("key.pem")).unwrap();
    dir.reel(&["serve", "--config", "reel.toml"]).refused(3, &["cannot read", "key.pem", "tls.key"]);
}
