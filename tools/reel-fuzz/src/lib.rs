//! What holds for any bytes that a stranger may hand to Reel.
//!
//! `fuzz/` runs these functions with a fuzzer. A test runs them with the seeds of the fuzzer and
//! with changed seeds. The catalogue has a target of its own, `fuzz/fuzz_targets/catalogue.rs`.
#![forbid(unsafe_code)]

mod broadcast;
mod chain;
pub mod cost;
mod dav;
mod demux;
mod http_head;
mod nfs;
mod proxied;
mod receive;
mod repair;
mod rtp;
mod sap;
mod sdp;
mod sidecar;
mod superblock;
mod title_index;
mod tls;

pub use broadcast::broadcast;
pub use chain::chain;
pub use dav::dav_question;
pub use demux::{demux, demux_mkv, demux_mp4, demux_ts};
pub use http_head::http_head;
pub use nfs::{nfs_calls, nfs_handles, nfs_records};
pub use proxied::proxied;
pub use receive::receive;
pub use repair::repair;
pub use rtp::{fec, rtcp, rtp};
pub use sap::sap;
pub use sdp::sdp;
pub use sidecar::sidecar;
pub use superblock::superblock;
pub use title_index::title_index;
pub use tls::tls;
