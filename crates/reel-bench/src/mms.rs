//! `mms`: handing messages to another process, by memory-mapped stream, pipe, Unix socket and iceoryx2.
//!
//! The measured programs are an example of `reel-arena` and a small program of its own workspace; see their heads for what they do. Here they
//! are run in turn, on the same two processors, and compared run by run.

use crate::ExperimentArguments;
use crate::report::{Claim, spread};
use crate::sheet::{Chart, Sheet};
use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
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
    on_two_processors(sheet)?;
    sheet.note(
        "one process hands messages to another, one by one; about 1 MiB is in flight at most, in every way; the reader sums up every byte, and \
         the sums are compared; readers of pipe and stream take up to 128 KiB with one call; pipe and sockets are blocking, of 1 MiB where \
         allowed (pipe-64k: as made); mapped streams look 2000 times before they sleep",
    );
    throughput(&rates, &extent, sheet)?;
    latency(&rates, iceoryx2.as_deref(), &extent, sheet)
}

/// Keeps this program, and what it starts, to two processors: two that are far apart in one run and near in the next would be compared
/// otherwise.
fn on_two_processors(sheet: &mut Sheet) -> Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut two = CpuSet::new();
    let numbers: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let last = &numbers[numbers.len().saturating_sub(2)..];
    last.iter().for_each(|cpu| two.set(*cpu));
    sched_setaffinity(None, &two)?;
    sheet.note(format!("all on processors {last:?}"));
    Ok(())
}

/// The program that does the same over iceoryx2, if it was built.
fn rival(dir: &Path) -> Option<PathBuf> {
    let program = dir.parent()?.join("rivals/release/reel-rival-iceoryx2");
    program.exists().then_some(program)
}

fn throughput(rates: &Path, extent: &Extent, sheet: &mut Sheet) -> Result<()> {
    for bytes in SIZES {
        let mut ratios = Vec::new();
        let mut without_vmsplice = Vec::new();
        for run in 0..extent.runs {
            let mapped = rate(rates, MAPPED, bytes, READY, run, extent, sheet)?;
            let (mut best, mut best_copying) = (0.0_f64, 0.0_f64);
            for way in OTHERS {
                let other = rate(rates, way, bytes, READY, run, extent, sheet)?;
                best = best.max(other);
                if way != "vmsplice" {
                    best_copying = best_copying.max(other);
                }
            }
            ratios.push(mapped / best);
            without_vmsplice.push(mapped / best_copying);
        }
        let kib = bytes / 1024;
        let claim = |what: &str, ratios: &mut [f64]| {
            Claim::at_least(
                format!("{kib} KiB: messages a second, mapped / best of {what}"),
                spread(ratios).1,
                5.0,
            )
        };
        sheet.claim(claim("pipe, vmsplice into a pipe and Unix socket", &mut ratios));
        sheet.claim(claim("pipe and Unix socket as programs use them", &mut without_vmsplice));
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
    let kind = if case == MADE { "made" } else { "ready" };
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
            let mut ratios = Vec::new();
            for run in 0..extent.runs {
                let (size, rounds) = (bytes.to_string(), extent.rounds.to_string());
                let mapped = said(rates, &["latency", MAPPED, &size, &rounds, wait])?;
                let mapped = percentiles(&mapped, case, MAPPED, bytes, run, sheet)?;
                if wait == "sleep" {
                    let socket = said(rates, &["latency", "unix-stream", &size, &rounds, wait])?;
                    percentiles(&socket, case, "unix-stream", bytes, run, sheet)?;
                }
                if let Some(program) = iceoryx2 {
                    let other = said(program, &["latency", &size, &rounds, wait])?;
                    ratios.push(mapped / percentiles(&other, case, "iceoryx2", bytes, run, sheet)?);
                }
            }
            if !ratios.is_empty() {
                let claim = format!("{} KiB: p99 {case}, mapped / iceoryx2", bytes / 1024);
                sheet.claim(Claim::at_most(claim, spread(&mut ratios).1, 1.5));
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
