//! `splitlevel`: Govindan's tables 7.1 and 7.2 and experiments E1 to E6 in today's units, beside a
//! thread for each stream and tokio.

mod live;
mod paths;
mod workloads;

use crate::cores::Cores;
use anyhow::Result;
use reel_report::{Chart, CommonOptions, Report};

/// Runs the experiment.
///
/// # Errors
/// A measured program that was not built or fails, and those of publishing the report.
pub fn run(arguments: &CommonOptions) -> Result<()> {
    let mut report = Report::new("splitlevel");
    let chart = |case, at, value| Chart { case, at, value };
    report.charts = vec![
        chart("E1 streams", "streams", "overhead_ns"),
        chart("E2 rate", "messages/s of 1991", "overhead_ns"),
        chart("E3 low delay", "of 8 streams with low delay", "overhead_ns"),
        chart("E4 buffer", "messages in a buffer", "overhead_ns"),
        chart("E5 members", "members", "overhead_ns"),
        chart("E6 workahead", "members", "overhead_ns"),
    ];
    report.fill(arguments, |report| {
        let cores = Cores::find()?;
        let fifo = cores.fifo_permitted();
        if !fifo {
            report.note("SCHED_FIFO is not permitted here: only the ordinary class was measured");
        }
        let runs = arguments.runs.unwrap_or(if arguments.quick { 1 } else { 5 });
        paths::measure(arguments, report, &cores, fifo, runs)?;
        live::measure(arguments, report, &cores, fifo, runs)
    })
}

/// What is measured, and how its program is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct System {
    name: &'static str,
    /// The measured program.
    program: &'static str,
    fifo: u64,
}

const REEL: System = System { name: "reel", program: "split", fifo: 0 };
const REEL_FIFO: System = System { name: "reel, FIFO", program: "split", fifo: 20 };
const THREADS: System = System { name: "threads", program: "threads", fifo: 0 };
const THREADS_FIFO: System = System { name: "threads, FIFO", program: "threads", fifo: 20 };
const TOKIO: System = System { name: "tokio", program: "tokio", fifo: 0 };
const ALL: [System; 5] = [REEL, THREADS, TOKIO, REEL_FIFO, THREADS_FIFO];
