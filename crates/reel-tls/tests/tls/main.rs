//! Connections and identities, judged by the client of rustls.

mod client;
mod connections;
mod identities;
