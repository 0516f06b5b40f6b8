//! `mms`: handing messages to another process, by memory-mapped stream, pipe, Unix socket and
//! iceoryx2.
//!
//! The measured programs are an example of `reel-arena` and a small program of its own workspace;
//! see their heads for what they do. Here they are run in turn, and the medians of their runs are
//! compared.
#![forbid(unsafe_code)]

mod pairs;

use anyhow::{Context, Result};
use pairs::{Distance, Pairs};
use reel_report::{Chart, Claim, CommonOptions, Report, example, output_json, spread};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lengths of messages.
const SIZES: [usize; 3] = [1 << 10, 4 << 10, 64 << 10];

/// Memory-mapped streams.
const MAPPED: &str = "mapped";
/// What they are held against.
const OTHERS: [&str; 5] = ["pipe", "pipe-64k", "vmsplice", "unix-stream", "unix-seqpacket"];

/// Where claims are made about.
const DISTANCES: [(Distance, &str); 2] = [(Distance::Near, "one cache"), (Distance::Far, "two caches")];

const READY: &str = "messages that lie in memory";
const MADE: &str = "messages written one by one";
const GLANCE: &str = "messages of which the first word is read";
const POLL: &str = "latency, both look all the time";
const SLEEP: &str = "latency, both sleep";

/// How much is measured, and where.
struct Extent {
    runs: usize,
    seconds: f64,
    rounds: usize,
    pairs: Pairs,
}

/// What was measured of one way, and how far apart its processors were.
type Readings = Vec<(Distance, f64)>;

/// Runs the experiment.
///
/// # Errors
/// A measured program that was not built or fails, and those of publishing the report.
pub fn run(arguments: &CommonOptions) -> Result<()> {
    let mut report = Report::new("mms");
    report.charts = vec![
        Chart { case: READY, at: "bytes", value: "messages_per_s" },
        Chart { case: POLL, at: "bytes", value: "p99_ns" },
        Chart { case: SLEEP, at: "bytes", value: "p99_ns" },
    ];
    report.fill(arguments, |report| measure(arguments, report))
}

fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    let beside = std::env::current_exe()?;
    let dir = beside.parent().context("this program lies in no directory")?;
    let rates = example("reel-arena", "mms-rates")?;
    let iceoryx2 = rival(dir);
    let quick = arguments.quick;
    let mut extent = Extent {
        // Each pair of four processors once.
        runs: arguments.runs.unwrap_or(if quick { 1 } else { 6 }),
        seconds: if quick { 0.02 } else { arguments.seconds.map_or(0.25, |seconds| seconds as f64) },
        rounds: if quick { 200 } else { 50_000 },
        pairs: Pairs::new()?,
    };
    report.note(
        "one process hands messages to another, one by one; about 1 MiB is in flight at most, in every way; the reader sums up every byte, and \
         the sums are compared; readers of pipe and stream take up to 128 KiB with one call; pipe and sockets are blocking, of 1 MiB where \
         allowed (pipe-64k: as made); the two programs are kept to a pair of processors, another one with each run, the same for all ways; claims \
         are made of runs on processors that share a cache, and of runs on such that do not, by the time a cache line took from one to the \
         other before and after (line_ns)",
    );
    throughput(&rates, &mut extent, report)?;
    latency(&rates, iceoryx2.as_deref(), &mut extent, report)
}

/// The program that does the same over iceoryx2, if it was built.
fn rival(dir: &Path) -> Option<PathBuf> {
    let program = dir.parent()?.join("rivals/release/reel-rival-iceoryx2");
    program.exists().then_some(program)
}

fn throughput(rates: &Path, extent: &mut Extent, report: &mut Report) -> Result<()> {
    for bytes in SIZES {
        let mut rates_of: Vec<(&str, Readings)> =
            [MAPPED].into_iter().chain(OTHERS).map(|way| (way, Vec::new())).collect();
        for run in 0..extent.runs {
            extent.pairs.next()?;
            for (way, all) in &mut rates_of {
                all.push(rate(rates, way, bytes, READY, run, extent, report)?);
            }
        }
        for (distance, place) in DISTANCES {
            let medians: Vec<(&str, f64)> =
                rates_of.iter().filter_map(|(way, all)| Some((*way, median_at(distance, all)?))).collect();
            if medians.len() < rates_of.len() {
                // Not all of them were measured there.
                continue;
            }
            let best = |counts: fn(&str) -> bool| {
                medians.iter().filter(|(way, _)| counts(way)).map(|(_, median)| *median).fold(0.0, f64::max)
            };
            let mapped = best(|way| way == MAPPED);
            let kib = bytes / 1024;
            let claim = |what: &str, other: f64| {
                let claim = format!("{kib} KiB, {place}: messages a second, mapped / best of {what}");
                Claim::at_least(claim, mapped / other, 5.0)
            };
            report.claim(claim("pipe and Unix socket", best(|way| way != MAPPED && way != "vmsplice")));
            report.claim(claim("those and vmsplice into a pipe", best(|way| way != MAPPED)));
        }
    }
    // What handing over costs by itself: the reader looks at the first word of each message.
    for bytes in SIZES {
        for run in 0..extent.runs.div_ceil(2) {
            extent.pairs.next()?;
            for way in [MAPPED].into_iter().chain(OTHERS) {
                rate(rates, way, bytes, GLANCE, run, extent, report)?;
            }
        }
    }
    for bytes in SIZES {
        for run in 0..extent.runs.div_ceil(3) {
            extent.pairs.next()?;
            // Pages that are given to a pipe must not be written again, so vmsplice has no part in
            // this.
            for way in [MAPPED, "pipe", "pipe-64k", "unix-stream", "unix-seqpacket"] {
                rate(rates, way, bytes, MADE, run, extent, report)?;
            }
        }
    }
    Ok(())
}

/// The median of what was measured at this distance.
fn median_at(distance: Distance, all: &Readings) -> Option<f64> {
    let mut there: Vec<f64> =
        all.iter().filter(|(place, _)| *place == distance).map(|(_, value)| *value).collect();
    (!there.is_empty()).then(|| spread(&mut there).1)
}

/// Messages a second.
fn rate(
    rates: &Path,
    way: &str,
    bytes: usize,
    case: &'static str,
    run: usize,
    extent: &Extent,
    report: &mut Report,
) -> Result<(Distance, f64)> {
    let kind = match case {
        MADE => "made",
        GLANCE => "glance",
        _ => "ready",
    };
    let words = ["rate", way, &bytes.to_string(), &extent.seconds.to_string(), kind];
    let (output, line_ns) = measure_between(rates, &words, &extent.pairs)?;
    let number = |name: &str| output[name].as_f64().with_context(|| format!("no {name}"));
    let messages = number("messages")?;
    let per_s = messages / number("seconds")?;
    let calls = (number("producer_calls")? + number("consumer_calls")?) / messages;
    let values = [
        ("messages_per_s", per_s),
        ("mib_per_s", per_s * bytes as f64 / 1048576.0),
        ("kernel_calls_per_message", calls),
        ("line_ns", line_ns[1]),
    ];
    report.row(case, way, bytes as f64, run, &values);
    Ok((Distance::of(line_ns), per_s))
}

fn latency(rates: &Path, iceoryx2: Option<&Path>, extent: &mut Extent, report: &mut Report) -> Result<()> {
    report.note(
        "latency: there and back, halved; both sides sum up every byte of each message before they answer",
    );
    if iceoryx2.is_none() {
        report.note(
            "iceoryx2 is left out, and with it the claims about it: build it with `cargo build --release --manifest-path \
             crates/reel-arena/rivals/iceoryx2/Cargo.toml --target-dir target/rivals` (it needs libclang)",
        );
    }
    for (case, wait) in [(POLL, "poll"), (SLEEP, "sleep")] {
        for bytes in SIZES {
            let (mut mapped_ns, mut other_ns) = (Vec::new(), Vec::new());
            for run in 0..extent.runs {
                extent.pairs.next()?;
                let (size, rounds) = (bytes.to_string(), extent.rounds.to_string());
                let mut measure = |program: &Path, words: &[&str], system: &str| {
                    let output = measure_between(program, words, &extent.pairs)?;
                    percentiles(&output, case, system, bytes, run, report)
                };
                mapped_ns.push(measure(rates, &["latency", MAPPED, &size, &rounds, wait], MAPPED)?);
                if wait == "sleep" {
                    let socket = "unix-stream";
                    measure(rates, &["latency", socket, &size, &rounds, wait], socket)?;
                }
                if let Some(program) = iceoryx2 {
                    other_ns.push(measure(program, &["latency", &size, &rounds, wait], "iceoryx2")?);
                }
            }
            for (distance, place) in DISTANCES {
                let medians = (median_at(distance, &mapped_ns), median_at(distance, &other_ns));
                if let (Some(mapped), Some(other)) = medians {
                    let claim = format!("{} KiB, {place}: p99 {case}, mapped / iceoryx2", bytes / 1024);
                    report.claim(Claim::at_most(claim, mapped / other, 1.5));
                }
            }
        }
    }
    Ok(())
}

/// Keeps the percentiles; the 99th.
fn percentiles(
    (output, line_ns): &(Value, [f64; 2]),
    case: &str,
    system: &str,
    bytes: usize,
    run: usize,
    report: &mut Report,
) -> Result<(Distance, f64)> {
    let number = |name: &str| output[name].as_f64().with_context(|| format!("no {name}"));
    let p99_ns = number("p99_ns")?;
    let values = [("p50_ns", number("p50_ns")?), ("p99_ns", p99_ns), ("p999_ns", number("p999_ns")?)];
    let values = [&values[..], &[("line_ns", line_ns[1])]].concat();
    report.row(case, system, bytes as f64, run, &values);
    Ok((Distance::of(*line_ns), p99_ns))
}

/// What a measured program says, and how long a cache line took before and after it.
fn measure_between(program: &Path, words: &[&str], pairs: &Pairs) -> Result<(Value, [f64; 2])> {
    let before_ns = pairs.line_ns()?;
    let output = output_json(Command::new(program).args(words))?;
    Ok((output, [before_ns, pairs.line_ns()?]))
}
