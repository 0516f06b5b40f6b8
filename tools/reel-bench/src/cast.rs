//! `cast`: what it costs to send a stream to a group, how punctual its packets are, and how many
//! channels a core sends, compared with ffmpeg and GStreamer.
//!
//! Packets leave by an `ifb` in a network name space of the experiment's own. It takes trains whole
//! and drops them, as a card would send them, so no receiver's work is counted.

mod arrivals;
mod beside;
mod capture;
mod channels;
mod cost;
mod flow;
mod receivers;
mod rivals;
mod site;
mod stream;
mod times;

use anyhow::Result;
use reel_report::{CommonOptions, Report};
use rustix::process::geteuid;
use std::path::PathBuf;

/// The options of `cast`.
#[derive(clap::Args)]
pub(crate) struct CastArguments {
    #[command(flatten)]
    common: CommonOptions,
    /// The parts to measure, separated by commas; all of them if none is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// The most packets of a train that are tried for one fast flow, separated by commas; 0 for
    /// trains as a server sends them.
    #[arg(long, value_delimiter = ',', default_values_t = flow::TRAINS)]
    trains: Vec<usize>,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// One fast flow.
    Flow,
    /// Many channels.
    Channels,
    /// Real receivers.
    Receivers,
    /// Simulated arrivals.
    Arrivals,
    /// As many unicast viewers as are admitted.
    Beside,
}

/// Measures a part.
type Measure = fn(&Size, &mut Report) -> Result<()>;

const PARTS: [(Part, Measure); 5] = [
    (Part::Arrivals, arrivals::run),
    (Part::Flow, flow::run),
    (Part::Channels, channels::run),
    (Part::Receivers, receivers::run),
    (Part::Beside, beside::run),
];

/// How much is measured.
pub(super) struct Size {
    reel: PathBuf,
    dir: PathBuf,
    quick: bool,
    runs: usize,
    /// The length of each measurement.
    seconds: u64,
    /// The most packets of a train that are tried for one fast flow.
    trains: Vec<usize>,
}

/// Runs the experiment.
///
/// # Errors
/// Without the programs that it measures, and those of publishing the report.
pub(crate) fn run(arguments: &CastArguments) -> Result<()> {
    let report = Report::new("cast");
    report.fill(&arguments.common, |report| measure(arguments, report))
}

fn measure(
    CastArguments { common: arguments, parts, trains }: &CastArguments,
    report: &mut Report,
) -> Result<()> {
    if !geteuid().is_root() && arguments.quick {
        report.note("skipped: it makes network devices in a name space of its own, which needs root");
        return Ok(());
    }
    let (runs, seconds) = if arguments.quick { (1, 3) } else { (3, 10) };
    let size = Size {
        reel: crate::reel::binary(arguments.reel.as_deref())?,
        dir: arguments.make_dir()?,
        quick: arguments.quick,
        runs: arguments.runs.unwrap_or(runs),
        seconds: arguments.seconds.unwrap_or(seconds),
        trains: trains.clone(),
    };
    for (part, run) in PARTS {
        if parts.is_empty() || parts.contains(&part) {
            run(&size, report)?;
        }
    }
    Ok(())
}
