//! Front end for NFS version 3 (RFC 1813), read-only, over TCP: titles as files, for clients that
//! know nothing of Reel.
//!
//! Nothing is kept for a client. A handle says what it stands for, and a cookie from where a
//! directory continues. So both are as good after a restart of the server.
#![forbid(unsafe_code)]

mod answer;
#[cfg(test)]
mod answer_laws;
mod connection;
mod counters;
mod front_end;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod handle;
pub mod limits;
mod listing;
mod mount;
mod nfs;
mod owed;
mod portmap;
mod reader;
mod readers;
mod record;
mod rpc;
mod service;
mod times;
mod tree;
mod wrong_port;
mod xdr;

pub use counters::{NfsCounters, NfsMetrics};
pub use front_end::NfsFrontEnd;
pub use reader::{Reader, Reading};
pub use wrong_port::HttpPorts;
