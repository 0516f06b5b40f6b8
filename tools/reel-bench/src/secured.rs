//! How experiments speak TLS: one version and one cipher, the same for every server.

use anyhow::{Context, Result};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// Where a server is, and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

/// A connection in the clear or not.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Endpoint {
    /// To a server that shows this certificate and no other. The one cipher is what browsers on
    /// machines with AES ask for first.
    pub(crate) fn secured(address: SocketAddr, certificate: &Path) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(
            CertificateDer::from_pem_file(certificate)
                .context("reading the certificate of the experiment")?,
        )?;
        let provider = CryptoProvider { cipher_suites: vec![TLS13_AES_128_GCM_SHA256], ..default_provider() };
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, tls: Some(Arc::new(config)) })
    }

    pub(crate) fn connect(&self) -> Result<Stream> {
        let socket = TcpStream::connect(self.address)?;
        let Some(config) = &self.tls else { return Ok(Stream::Plain(socket)) };
        let name = self.address.ip().into();
        let session = ClientConnection::new(Arc::clone(config), name)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, socket))))
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }
}

impl Stream {
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(out),
            Self::Tls(stream) => stream.read(out),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
