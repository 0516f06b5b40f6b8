//! What holds for any bytes that a stranger may hand to Reel.
//!
//! `fuzz/` runs these functions with a fuzzer. A test runs them with the seeds of the fuzzer and
//! with changed seeds. The catalogue has a target of its own, `fuzz/fuzz_targets/catalogue.rs`.
#![forbid(unsafe_code)]

// The parsers of request heads and of questions of WebDAV by themselves: their crates would bring
// the whole server along, and do not publish them. One reads heads with this.
use httparse as _;
// Their tests use this. They run where they belong, and compile here as well.
#[cfg(test)]
use proptest as _;
#[allow(dead_code, unreachable_pub, reason = "answers are dated, too")]
#[path = "../../../crates/reel-serve/src/http_date.rs"]
mod http_date;
use http_date::seconds_of_http_date;
#[allow(dead_code, unreachable_pub, reason = "other bounds of the crate")]
#[path = "../../../crates/reel-http/src/limits.rs"]
mod limits;
#[allow(unreachable_pub, reason = "public in its crate")]
#[path = "../../../crates/reel-serve/src/path.rs"]
mod path;
use path::normal_path;
#[allow(dead_code, reason = "what the data plane reads of a request")]
#[path = "../../../crates/reel-http/src/range.rs"]
mod range;
#[path = "../../../crates/reel-http/src/request.rs"]
mod request;

mod chain;
mod dav;
mod demux;
mod http_head;
mod receive;
mod repair;
mod rtp;
mod sap;
mod sdp;
mod sidecar;
mod superblock;
mod title_index;
mod tls;

pub use chain::chain;
pub use dav::dav_question;
pub use demux::{demux, demux_mkv, demux_mp4, demux_ts};
pub use http_head::http_head;
pub use receive::receive;
pub use reel_nfs::fuzz::{call as nfs_calls, handle as nfs_handles, records as nfs_records};
pub use repair::repair;
pub use rtp::{fec, rtcp, rtp};
pub use sap::sap;
pub use sdp::sdp;
pub use sidecar::sidecar;
pub use superblock::superblock;
pub use title_index::title_index;
pub use tls::tls;
