//! A TLS server, and a client of it that deviates from the protocol after some bytes.

use reel_tls::{Acceptor, Connection, Generated, Identity, generate};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

static OWN: LazyLock<Generated> =
    LazyLock::new(|| generate(&["localhost".into()], SystemTime::now()).expect("made"));

static ACCEPTOR: LazyLock<Acceptor> = LazyLock::new(|| {
    let identity = Identity::from_pem(OWN.certificate.as_bytes(), OWN.key.as_bytes()).expect("usable");
    Acceptor::new(identity, true).expect("an acceptor")
});

static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    // The generated certificate is its own authority.
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(OWN.certificate.as_bytes()).expect("made")).expect("a root");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
});

/// The first byte says how far an honest client gets and the second how large the pieces are; what
/// follows is sent as it is, or over what the client would have sent.
pub fn tls(bytes: &[u8]) {
    let &[plan, piece, ref wild @ ..] = bytes else { return };
    let piece = usize::from(piece) + 1;
    let mut server = Connection::new(&ACCEPTOR).expect("a connection");
    let mut client = ClientConnection::new(Arc::clone(&CONFIG), "localhost".try_into().expect("a name"))
        .expect("a client");
    let mut received = Vec::new();
    for flight in 0..plan % 4 {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("to memory");
        }
        // Bytes of one flight are changed, where the plan says so.
        if plan & 0x80 != 0 && flight == (plan >> 2) % 4 {
            sent.iter_mut().zip(wild).for_each(|(byte, change)| *byte ^= change);
        }
        if !feed(&mut server, &sent, piece, &mut received) {
            return;
        }
        let answer = server.take_outgoing();
        let mut answer = &answer[..];
        while !answer.is_empty() {
            client.read_tls(&mut answer).expect("from memory");
            if client.process_new_packets().is_err() {
                return;
            }
        }
    }
    let before = received.len();
    feed(&mut server, wild, piece, &mut received);
    assert_eq!(received.len(), before, "no key, no data");
    let mut out = [0; 300];
    if let Ok((taken, written)) = server.seal(b"a response", &mut out) {
        assert!(taken == 10 && written > taken);
    }
    assert!(server.close(&mut out) == 0 || server.is_established());
}

/// What became of bytes in pieces; an error ends the connection for good.
fn feed(server: &mut Connection, bytes: &[u8], piece: usize, received: &mut Vec<u8>) -> bool {
    for part in bytes.chunks(piece) {
        let mut incoming = server.take_incoming();
        assert!(incoming.len() <= 64 * 1024, "what waits has a bound");
        incoming.extend_from_slice(part);
        if server.receive(incoming, received).is_err() {
            assert!(server.receive(Vec::new(), received).is_ok() && !server.is_established());
            assert!(server.seal(b"x", &mut [0; 99]).is_err());
            return false;
        }
    }
    true
}
