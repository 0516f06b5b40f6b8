//! `framing`: what it costs to make a packet, and what stored parts of it save: headers, checksums,
//! boundaries. The claims are those of network level framing (Halvorsen's thesis, section 4.3),
//! which stores the checksum of each payload beside it.

mod datagram;
mod making;
mod raw;
mod sending;
mod verified;

pub use datagram::Flow;
pub(crate) use datagram::{HEADERS_BYTES, Template};
pub use raw::RawSocket;
pub use verified::rejected;

use anyhow::Result;
use reel_report::{Chart, CommonOptions, Report};
use rustix::process::geteuid;

/// What a payload is: seven packets of a transport stream.
pub(crate) const PAYLOAD_BYTES: usize = 1316;
/// Packets of one call.
pub(crate) const BATCH: usize = 46;
/// Payloads in the cache of a processor, and payloads that are not, in MiB.
pub(crate) const MEMORIES: [(&str, usize); 2] = [("hot", 2), ("cold", 384)];

/// Runs the experiment.
///
/// # Errors
/// A measured program that was not built or fails, and those of publishing the report.
pub fn framing(arguments: &CommonOptions) -> Result<()> {
    let mut report = Report::new("framing");
    report.charts = vec![Chart { case: making::CASE, at: "MiB of payloads", value: "ns_per_packet" }];
    report.fill(arguments, |report| measure(arguments, report))
}

fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    let runs = if arguments.quick { 1 } else { arguments.runs.unwrap_or(5) };
    making::measure(report, arguments.quick, runs)?;
    if !geteuid().is_root() && arguments.quick {
        report.note("skipped: packets that are sent, in a name space of its own, which needs root");
        return Ok(());
    }
    sending::measure(report, arguments.quick, runs)?;
    verified::measure(report, arguments.quick)
}
