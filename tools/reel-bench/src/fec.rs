//! `fec`: what parity costs a server that reads it from its disks and sends it as FEC, and what a
//! receiver gets back with it. The claims are those of integrated error management (Halvorsen's
//! thesis, sections 4.1 and 5.2): no encoder runs while a title is sent, and a damaged packet is
//! one that was lost.
//!
//! It needs root, for network name spaces of its own.

mod cast_rig;
mod cost;
mod flipped;

use anyhow::Result;
use reel_report::{CommonOptions, Report};
use rustix::process::geteuid;

/// Runs the experiment.
///
/// # Errors
/// A server or a device that cannot be started, and those of publishing the report.
pub(crate) fn run(arguments: &CommonOptions) -> Result<()> {
    let report = Report::new("fec");
    report.fill(arguments, |report| measure(arguments, report))
}

fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    let runs = if arguments.quick { 1 } else { arguments.runs.unwrap_or(3) };
    lab_packets::repair(report, arguments.quick, runs)?;
    lab_packets::parity(report, &arguments.make_dir()?, arguments.quick, runs)?;
    if !geteuid().is_root() && arguments.quick {
        report.note("skipped: casts of a server, in a name space of its own, which needs root");
        return Ok(());
    }
    flipped::measure(arguments, report)?;
    cost::measure(arguments, report)
}
