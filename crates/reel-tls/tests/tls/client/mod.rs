//! A client built from rustls' ordinary interface: independent code opens what this crate seals,
//! and seals what it opens.

use reel_tls::{Acceptor, Connection, Generated, Identity, generate};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, default_provider};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedCipherSuite};
use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

pub(crate) static OWN: LazyLock<Generated> =
    LazyLock::new(|| generate(&["localhost".into()], SystemTime::now()).unwrap());

/// The certificate for tests that replace the identity.
pub(crate) static OTHER: LazyLock<Generated> =
    LazyLock::new(|| generate(&["localhost".into()], SystemTime::now()).unwrap());

pub(crate) fn acceptor() -> Acceptor {
    let identity = Identity::from_pem(OWN.certificate.as_bytes(), OWN.key.as_bytes()).unwrap();
    Acceptor::new(identity, true).unwrap()
}

pub(crate) fn suites() -> &'static [SupportedCipherSuite] {
    ALL_CIPHER_SUITES
}

/// A client and its server, connected only by vectors.
pub(crate) struct Pair {
    pub(crate) client: ClientConnection,
    pub(crate) server: Connection,
    /// Data that the server has received.
    pub(crate) received: Vec<u8>,
}

impl Pair {
    pub(crate) fn new(acceptor: &Acceptor, suite: SupportedCipherSuite, alpn: &[&[u8]]) -> Self {
        let provider = CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[suite.version()])
            .unwrap()
            .with_root_certificates(roots())
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        Self { client, server: Connection::new(acceptor).unwrap(), received: Vec::new() }
    }

    /// A pair after its handshake.
    pub(crate) fn established(acceptor: &Acceptor, suite: SupportedCipherSuite) -> Self {
        let mut pair = Self::new(acceptor, suite, &[]);
        pair.shake_hands(usize::MAX);
        pair
    }

    /// Lets both sides send, in pieces of `piece` bytes, until neither has anything to send.
    pub(crate) fn shake_hands(&mut self, piece: usize) {
        loop {
            let sent = self.client_bytes();
            for part in sent.chunks(piece) {
                self.server_takes(part).unwrap();
            }
            let answer = self.server.take_outgoing();
            if sent.is_empty() && answer.is_empty() {
                return;
            }
            self.client_takes(&answer);
        }
    }

    /// What the client has to send.
    pub(crate) fn client_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    pub(crate) fn server_takes(&mut self, bytes: &[u8]) -> Result<(), reel_tls::TlsError> {
        let mut incoming = self.server.take_incoming();
        incoming.extend_from_slice(bytes);
        self.server.receive(incoming, &mut self.received)
    }

    /// The client takes bytes of the server; returns the data in them.
    pub(crate) fn client_takes(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut data = Vec::new();
        while !bytes.is_empty() {
            self.client.read_tls(&mut bytes).unwrap();
            self.client.process_new_packets().unwrap();
            let mut buffer = vec![0; 1 << 17];
            while let Ok(count @ 1..) = self.client.reader().read(&mut buffer) {
                data.extend_from_slice(&buffer[..count]);
            }
        }
        data
    }

    pub(crate) fn client_says(&mut self, data: &[u8]) -> Vec<u8> {
        self.client.writer().write_all(data).unwrap();
        self.client_bytes()
    }

    /// All of `data`, sealed into buffers of `room` bytes.
    pub(crate) fn server_says(&mut self, mut data: &[u8], room: usize) -> Vec<u8> {
        let mut bytes = self.server.take_outgoing();
        let mut buffer = vec![0; room];
        while !data.is_empty() {
            let (taken, written) = self.server.seal(data, &mut buffer).unwrap();
            assert!(taken > 0, "a room of {room} bytes is enough for a record");
            bytes.extend_from_slice(&buffer[..written]);
            data = &data[taken..];
        }
        bytes
    }
}

/// Generated certificates are their own authorities.
fn roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for made in [&OWN, &OTHER] {
        roots.add(CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap()).unwrap();
    }
    roots
}
