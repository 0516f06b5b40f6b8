//! TLS as a state machine: handshakes by rustls, records sealed from lent bytes into lent bytes.
//!
//! A [`Connection`] takes the bytes that come from a socket and returns those that go to it. It
//! does no I/O and reads no clock. rustls makes the handshake (its unbuffered interface) and then
//! hands over the keys, as it does for TLS in the kernel ([`rustls::kernel`]). From there on
//! [`Connection::seal`] writes records straight from the caller's bytes into the caller's buffer.
//!
//! rustls' own way to seal copies twice (into a new vector, and from it into the caller's buffer).
//! `docs/design/tls.md` explains what is done here instead, and why it is safe.
#![forbid(unsafe_code)]

// The client of the tests refers to this crate by its name.
#[cfg(test)]
extern crate self as reel_tls;
#[cfg(test)]
#[path = "../tests/tls/client/mod.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the other tests use the rest of it")]
mod client;

mod acceptor;
mod connection;
mod error;
mod generate;
mod identity;
pub mod limits;
mod records;
mod validity;

pub use acceptor::{Acceptor, Protocol};
pub use connection::Connection;
pub use error::{IdentityError, TlsError};
pub use generate::{Generated, generate};
pub use identity::Identity;
pub use validity::Validity;
