//! Connections and identities, judged by the client of rustls.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod client;
mod connections;
mod identities;
