//! `mms`: handing messages to another process, by memory-mapped stream, pipe, Unix socket and iceoryx2.
//!
//! The measured programs are an example of `reel-arena` and a small program of its own workspace; see their heads for what they do. Here they
//! are run in turn, and the medians of their runs are compared.

use crate::ExperimentArguments;
use crate::report::{Claim, spread};
use crate::sheet::{Chart, Sheet};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Lengths of messages.
const SIZES: [usize; 3] = [1 << 10, 4 << 10, 64 << 10];

/// Memory-mapped streams.
const MAPPED: &str = "mapped";
/// What they are held against.
const OTHERS: [&str; 5] = ["pipe", "pipe-64k", "vmsplice", "unix-stream", "unix-seqpacket"];

const READY: &str = "messages that lie in memory";
const MADE: &str = "messages written one by one";
const GLANCE: &str = "messages of which the first word is read";
const POLL: &str = "latency, both look all the time";
const SLEEP: &str = "latency, both sleep";

/// How much is measured.
struct Extent {
    runs: usize,
    seconds: f64,
    rounds: usize,
}

/// Runs the experiment.
pub(crate) fn run(arguments: &ExperimentArguments) -> Result<()> {
    let mut sheet = Sheet::new("mms");
    sheet.charts = vec![
        Chart { case: READY, at: "bytes", value: "messages_per_s" },
        Chart { case: POLL, at: "bytes", value: "p99_ns" },
        Chart { case: SLEEP, at: "bytes", value: "p99_ns" },
    ];
    sheet.fill(arguments, |sheet| measure(arguments, sheet))
}

fn measure(arguments: &ExperimentArguments, sheet: &mut Sheet) -> Result<()> {
    let beside = std::env::current_exe()?;
    let dir = beside.parent().context("this program lies in no directory")?;
    let rates = dir.join("examples/mms-rates");
    if !rates.exists() {
        bail!(
            "{} is not there; build it as this program was: cargo build --release -p reel-arena --example mms-rates",
            rates.display()
        );
    }
    let iceoryx2 = rival(dir);
    let quick = arguments.quick;
    let extent = Extent {
        runs: arguments.runs.unwrap_or(if quick { 1 } else { 5 }),
        seconds: if quick { 0.02 } else { arguments.seconds.map_or(0.25, |seconds| seconds as f64) },
        rounds: if quick { 200 } else { 50_000 },
    };
    sheet.note(
        "one process hands messages to another, one by one; about 1 MiB is in flight at most, in every way; the reader sums up every byte, and \
         the sums are compared; readers of pipe and stream take up to 128 KiB with one call; pipe and sockets are blocking, of 1 MiB where \
         allowed (pipe-64k: as made); mapped streams look 300 times before they sleep; nothing is kept to any processor",
    );
    throughput(&rates, &extent, sheet)?;
    latency(&rates, iceoryx2.as_deref(), &extent, sheet)
}

/// The program that does the same over iceoryx2, if it was built.
fn rival(dir: &Path) -> Option<PathBuf> {
    let program = dir.parent()?.join("rivals/release/reel-rival-iceoryx2");
    program.exists().then_some(program)
}

fn throughput(rates: &Path, extent: &Extent, sheet: &mut Sheet) -> Result<()> {
    for bytes in SIZES {
        let mut rates_of: Vec<(&str, Vec<f64>)> =
            [MAPPED].into_iter().chain(OTHERS).map(|way| (way, Vec::new())).collect();
        for run in 0..extent.runs {
            for (way, all) in &mut rates_of {
                all.push(rate(rates, way, bytes, READY, run, extent, sheet)?);
            }
        }
        let medians: Vec<(&str, f64)> = rates_of.iter_mut().map(|(way, all)| (*way, spread(all).1)).collect();
        let best = |counts: fn(&str) -> bool| {
            medians.iter().filter(|(way, _)| counts(way)).map(|(_, median)| *median).fold(0.0, f64::max)
        };
        let mapped = best(|way| way == MAPPED);
        let kib = bytes / 1024;
        let claim = |what: &str, other: f64| {
            let claim = format!("{kib} KiB: messages a second, mapped / best of {what}");
            Claim::at_least(claim, mapped / other, 5.0)
        };
        sheet.claim(claim("pipe and Unix socket", best(|way| way != MAPPED && way != "vmsplice")));
        sheet.claim(claim("those and vmsplice into a pipe", best(|way| way != MAPPED)));
    }
    // What handing over costs by itself: the reader looks at the first word of each message.
    for bytes in SIZES {
        for run in 0..extent.runs.div_ceil(2) {
            for way in [MAPPED].into_iter().chain(OTHERS) {
                rate(rates, way, bytes, GLANCE, run, extent, sheet)?;
            }
        }
    }
    for bytes in SIZES {
        for run in 0..extent.runs.div_ceil(3) {
            // Pages that are given to a pipe must not be written again, so vmsplice has no part in this.
            for way in [MAPPED, "pipe", "pipe-64k", "unix-stream", "unix-seqpacket"] {
                rate(rates, way, bytes, MADE, run, extent, sheet)?;
            }
        }
    }
    Ok(())
}

/// Messages a second.
fn rate(
    rates: &Path,
    way: &str,
    bytes: usize,
    case: &'static str,
    run: usize,
    extent: &Extent,
    sheet: &mut Sheet,
) -> Result<f64> {
    let kind = match case {
        MADE => "made",
        GLANCE => "glance",
        _ => "ready",
    };
    let words = ["rate", way, &bytes.to_string(), &extent.seconds.to_string(), kind];
    let said = said(rates, &words)?;
    let number = |name: &str| said[name].as_f64().with_context(|| format!("no {name}"));
    let messages = number("messages")?;
    let per_s = messages / number("seconds")?;
    let calls = (number("producer_calls")? + number("consumer_calls")?) / messages;
    let values = [
        ("messages_per_s", per_s),
        ("mib_per_s", per_s * bytes as f64 / 1048576.0),
        ("kernel_calls_per_message", calls),
    ];
    sheet.row(case, way, bytes as f64, run, &values);
    Ok(per_s)
}

fn latency(rates: &Path, iceoryx2: Option<&Path>, extent: &Extent, sheet: &mut Sheet) -> Result<()> {
    sheet.note(
        "latency: there and back, halved; both sides sum up every byte of each message before they answer",
    );
    if iceoryx2.is_none() {
        sheet.note(
            "iceoryx2 is left out, and with it the claims about it: build it with `cargo build --release --manifest-path \
             crates/reel-arena/rivals/iceoryx2/Cargo.toml --target-dir target/rivals` (it needs libclang)",
        );
    }
    for (case, wait) in [(POLL, "poll"), (SLEEP, "sleep")] {
        for bytes in SIZES {
            let (mut mapped_ns, mut other_ns) = (Vec::new(), Vec::new());
            for run in 0..extent.runs {
                let (size, rounds) = (bytes.to_string(), extent.rounds.to_string());
                let mapped = said(rates, &["latency", MAPPED, &size, &rounds, wait])?;
                let mapped = percentiles(&mapped, case, MAPPED, bytes, run, sheet)?;
                if wait == "sleep" {
                    let socket = said(rates, &["latency", "unix-stream", &size, &rounds, wait])?;
                    percentiles(&socket, case, "unix-stream", bytes, run, sheet)?;
                }
                mapped_ns.push(mapped);
                if let Some(program) = iceoryx2 {
                    let other = said(program, &["latency", &size, &rounds, wait])?;
                    other_ns.push(percentiles(&other, case, "iceoryx2", bytes, run, sheet)?);
                }
            }
            if !other_ns.is_empty() {
                let claim = format!("{} KiB: p99 {case}, mapped / iceoryx2", bytes / 1024);
                sheet.claim(Claim::at_most(claim, spread(&mut mapped_ns).1 / spread(&mut other_ns).1, 1.5));
            }
        }
    }
    Ok(())
}

/// Keeps the percentiles; the 99th.
fn percentiles(
    said: &Value,
    case: &str,
    who: &str,
    bytes: usize,
    run: usize,
    sheet: &mut Sheet,
) -> Result<f64> {
    let number = |name: &str| said[name].as_f64().with_context(|| format!("no {name}"));
    let p99_ns = number("p99_ns")?;
    let values = [("p50_ns", number("p50_ns")?), ("p99_ns", p99_ns), ("p999_ns", number("p999_ns")?)];
    sheet.row(case, who, bytes as f64, run, &values);
    Ok(p99_ns)
}

/// What a measured program says.
fn said(program: &Path, words: &[&str]) -> Result<Value> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    if !output.status.success() {
        bail!("{} {words:?} failed: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("the output of {}", program.display()))
}
