//! What sealing costs. It compares rustls' own way, where the bytes go through two vectors, with
//! the way of this crate, where they go straight to their place.
//!
//! `cargo run --release -p reel-tls --example seal [MIB]` prints GB/s of plaintext on one core, TLS
//! 1.3 with AES-128-GCM, from an area larger than the caches into a place of 264 KiB.

use reel_tls::{Acceptor, Connection, Identity, generate};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

const ROW_BYTES: usize = 45_056;
const PLACE_BYTES: usize = 6 * ROW_BYTES;

fn main() -> Result<(), Box<dyn StdError>> {
    let mib: usize = std::env::args().nth(1).map_or(Ok(256), |text| text.parse())?;
    let film: Vec<u8> = (0..mib << 20).map(|at| (at / 7) as u8).collect();
    let made = generate(&["localhost".into()], SystemTime::now())?;
    let mut place = vec![0; PLACE_BYTES];
    for round in 0..3 {
        let mut ours = our_connection(&made)?;
        let started = Instant::now();
        let mut bytes = 0;
        for rows in film.chunks(5 * ROW_BYTES) {
            let mut at = 0;
            for row in rows.chunks(ROW_BYTES) {
                let mut rest = row;
                while !rest.is_empty() {
                    let (taken, written) = ours.seal(rest, &mut place[at..])?;
                    rest = &rest[taken..];
                    at += written;
                }
            }
            bytes += rows.len();
        }
        let ours_gb_s = bytes as f64 / 1e9 / started.elapsed().as_secs_f64();

        let mut theirs = their_connection(&made)?;
        let started = Instant::now();
        let mut bytes = 0;
        for rows in film.chunks(5 * ROW_BYTES) {
            let UnbufferedStatus { state, .. } = theirs.process_tls_records(&mut []);
            let ConnectionState::WriteTraffic(mut traffic) = state? else {
                return Err("the connection is not established".into());
            };
            let mut at = 0;
            for row in rows.chunks(ROW_BYTES) {
                at += traffic.encrypt(row, &mut place[at..])?;
            }
            bytes += rows.len();
        }
        let theirs_gb_s = bytes as f64 / 1e9 / started.elapsed().as_secs_f64();
        println!(
            "round {round}: straight {ours_gb_s:.2} GB/s, through rustls {theirs_gb_s:.2} GB/s, {:.2} times; {:.3} and {:.3} s/GB",
            ours_gb_s / theirs_gb_s,
            1.0 / ours_gb_s,
            1.0 / theirs_gb_s
        );
    }
    Ok(())
}

fn our_connection(made: &reel_tls::Generated) -> Result<Connection, Box<dyn StdError>> {
    let identity = Identity::from_pem(made.certificate.as_bytes(), made.key.as_bytes())?;
    let mut server = Connection::new(&Acceptor::new(identity, false)?)?;
    let mut client = client(made)?;
    while !server.is_established() {
        let mut incoming = server.take_incoming();
        client.write_tls(&mut incoming)?;
        server.receive(incoming, &mut Vec::new())?;
        let answer = server.take_outgoing();
        client.read_tls(&mut &answer[..])?;
        client.process_new_packets()?;
    }
    Ok(server)
}

fn their_connection(made: &reel_tls::Generated) -> Result<UnbufferedServerConnection, Box<dyn StdError>> {
    let certificate = CertificateDer::from_pem_slice(made.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes())?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    let mut server = UnbufferedServerConnection::new(Arc::new(config))?;
    let mut client = client(made)?;
    let mut incoming = Vec::new();
    loop {
        let UnbufferedStatus { discard, state, .. } = server.process_tls_records(&mut incoming);
        let mut established = false;
        match state? {
            ConnectionState::EncodeTlsData(mut message) => {
                let mut out = vec![0; 1 << 16];
                let bytes = message.encode(&mut out)?;
                client.read_tls(&mut &out[..bytes])?;
                client.process_new_packets()?;
            }
            ConnectionState::TransmitTlsData(message) => message.done(),
            ConnectionState::WriteTraffic(_) => established = true,
            ConnectionState::BlockedHandshake => {}
            _ => return Err("an unexpected state".into()),
        }
        incoming.drain(..discard);
        if established {
            return Ok(server);
        }
        if client.wants_write() {
            client.write_tls(&mut incoming)?;
        }
    }
}

fn client(made: &reel_tls::Generated) -> Result<ClientConnection, Box<dyn StdError>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(made.certificate.as_bytes())?)?;
    let provider = CryptoProvider { cipher_suites: vec![TLS13_AES_128_GCM_SHA256], ..default_provider() };
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(ClientConnection::new(Arc::new(config), "localhost".try_into()?)?)
}
