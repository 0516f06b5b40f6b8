//! TLS as a state machine: handshakes by rustls, records sealed from lent bytes into lent bytes.
//!
//! A [`Connection`] is given the bytes that came from a socket and gives back those that go to it; it does no I/O and knows no clock.
//! rustls makes the handshake (its unbuffered interface) and then hands over the keys, as it does for TLS in the kernel
//! ([`rustls::kernel`]); from there on [`Connection::seal`] writes records straight from the caller's bytes into the caller's buffer.
//!
//! rustls' own way to seal copies twice on the way (into a new vector, and from it into the caller's buffer). What is done here instead,
//! and why it is safe, is told in `docs/design/tls.md`.
#![forbid(unsafe_code)]

// The client of the tests speaks of this crate by its name.
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
