//! `splitlevel`: Govindan's tables 7.1 and 7.2 and experiments E1 to E6 in today's units, beside a thread for each stream and
//! tokio.

mod live;
mod paths;

use crate::ExperimentArguments;
use crate::cores::Cores;
use crate::report::spread;
use crate::sheet::{Chart, Sheet};
use anyhow::Result;

/// Runs the experiment.
pub(crate) fn run(arguments: &ExperimentArguments) -> Result<()> {
    let mut sheet = Sheet::new("splitlevel");
    let chart = |case, at, value| Chart { case, at, value };
    sheet.charts = vec![
        chart("E1 streams", "streams", "overhead_ns"),
        chart("E2 rate", "messages/s of 1991", "overhead_ns"),
        chart("E3 low delay", "of 8 streams with low delay", "overhead_ns"),
        chart("E4 buffer", "messages in a buffer", "overhead_ns"),
        chart("E5 members", "members", "overhead_ns"),
        chart("E6 workahead", "members", "overhead_ns"),
    ];
    sheet.fill(arguments, |sheet| {
        let cores = Cores::find()?;
        let fifo = cores.fifo_permitted();
        if !fifo {
            sheet.note("SCHED_FIFO is not permitted here: only the ordinary class was measured");
        }
        let runs = arguments.runs.unwrap_or(if arguments.quick { 1 } else { 5 });
        paths::measure(arguments, sheet, &cores, fifo, runs)?;
        live::measure(arguments, sheet, &cores, fifo, runs)
    })
}

/// Who is measured, and what the measured program is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Who {
    name: &'static str,
    who: &'static str,
    fifo: u64,
}

const REEL: Who = Who { name: "reel", who: "split", fifo: 0 };
const REEL_FIFO: Who = Who { name: "reel, FIFO", who: "split", fifo: 20 };
const THREADS: Who = Who { name: "threads", who: "threads", fifo: 0 };
const THREADS_FIFO: Who = Who { name: "threads, FIFO", who: "threads", fifo: 20 };
const TOKIO: Who = Who { name: "tokio", who: "tokio", fifo: 0 };
const ALL: [Who; 5] = [REEL, THREADS, TOKIO, REEL_FIFO, THREADS_FIFO];

/// The median of a value over the runs; NaN if it was not measured.
fn median(sheet: &Sheet, case: &str, who: &str, at: f64, value: &str) -> f64 {
    let rows = sheet.rows.iter().filter(|row| row.case == case && row.who == who && row.at == at);
    let mut values: Vec<f64> = rows.filter_map(|row| row.values.get(value).copied()).collect();
    if values.is_empty() { f64::NAN } else { spread(&mut values).1 }
}
