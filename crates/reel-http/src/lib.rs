//! HTTP/1.1 and TLS front end.
//!
//! Each serve thread accepts, parses, asks its engine (`reel-play`) and sends. A request that is
//! not for media is handed to the control plane with its socket, so that one port serves all
//! requests.
#![forbid(unsafe_code)]

mod access_log;
mod certificates;
mod connection;
mod counters;
mod download_name;
#[cfg(feature = "faults")]
pub mod faults;
mod file_reader;
mod file_readers;
mod files;
mod front_end;
pub mod limits;
mod live;
mod metrics;
mod peer;
pub mod range;
pub mod request;
mod response;
mod route;
mod scratch;
mod secure;
mod service;
mod zero_copy;

pub use certificates::{CertificateError, CertificateFiles, Certificates};
pub use counters::HttpCounters;
pub use front_end::{Handover, HandoverTo, HttpConfig, HttpFrontEnd, HttpParts, Transport, is_media};
pub use metrics::HttpMetrics;
use reel_serve::{normal_path, seconds_of_http_date};
