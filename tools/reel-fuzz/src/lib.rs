//! What holds for any bytes that a stranger may hand to Reel.
//!
//! `fuzz/` runs these functions with a fuzzer. A test runs them with the seeds of the fuzzer and
//! with changed seeds. The catalogue has a target of its own, `fuzz/fuzz_targets/catalogue.rs`.
#![forbid(unsafe_code)]

// The parser of request heads by itself: its crate would bring the whole server along, and does not
// publish it. It reads them with this.
use httparse as _;
// Their tests use this. They run where they belong, and compile here as well.
#[cfg(test)]
use proptest as _;
#[allow(dead_code, reason = "answers are dated, too")]
#[path = "../../../crates/reel-http/src/date.rs"]
mod date;
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
mod demux;
mod http_head;
mod superblock;
mod title_index;
mod tls;

pub use chain::chain;
pub use demux::{demux, demux_mkv, demux_mp4, demux_ts};
pub use http_head::http_head;
pub use superblock::superblock;
pub use title_index::title_index;
pub use tls::tls;
