//! HTTP front end: media on the data plane, everything else handed to axum.
//!
//! One port serves all. `data` accepts every connection and answers what is media; anything else goes, with its socket, to `control`.
#![forbid(unsafe_code)]

mod admission_service;
mod arena_parts;
mod certificates;
pub mod control;
mod data;
mod data_metrics;
pub mod limits;
mod server;
mod session_service;
mod volume_jobs;

pub use arena_parts::{ArenaParts, ArenaUse};
pub use certificates::{CertificateError, CertificateFiles, Certificates};
pub use data::{DataCounters, core_mib_ns, title_demand};
pub use server::{PromiseConfig, ServeConfig, ServeError, Server, TlsConfig};
