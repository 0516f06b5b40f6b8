//! `reel sim`: runs seeds and says what happened.
#![forbid(unsafe_code)]

mod args;
mod output;

use anyhow::Result;
use args::Arguments;
use clap::Parser;
use output::{OutputReader, write_out};
use reel_sim::{Broken, Report, Simulation};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What came of one seed.
#[derive(Serialize)]
struct Outcome<'a> {
    seed: u64,
    /// How many times faster than real time.
    times_real_time: f64,
    report: Option<&'a Report>,
    broken: Option<String>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let broken = if arguments.seeds > 1 { many(&arguments)? } else { u64::from(!one(&arguments)?) };
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one seed and tells all of it; whether everything held.
fn one(arguments: &Arguments) -> Result<bool> {
    let (result, took) = run(arguments, arguments.seed)?;
    let text = match &result {
        _ if arguments.json => json(arguments.seed, &result, took)?,
        Ok(report) => {
            let (seconds, ratio) = (report.simulated_ns / 1_000_000_000, ratio(report.simulated_ns, took));
            format!(
                "{report}\n{seconds} simulated seconds in {took:.2?}: {ratio:.0} times faster than real time\n"
            )
        }
        Err(broken) => format!("{broken}{}", again(arguments, broken.seed)),
    };
    // The exit code also says whether all invariants held.
    write_out(&text)?;
    Ok(result.is_ok())
}

/// Runs many seeds side by side, each on one thread, reports the seeds that break an invariant, and
/// returns their number. Ends early when the reader of the output is gone.
fn many(arguments: &Arguments) -> Result<u64> {
    let (next, bad) = (AtomicU64::new(arguments.seed), AtomicU64::new(0));
    let end = arguments.seed.saturating_add(arguments.seeds);
    let work = || -> Result<()> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return Ok(());
            }
            let (result, took) = run(arguments, seed)?;
            if result.is_err() {
                bad.fetch_add(1, Ordering::Relaxed);
            }
            let text = match &result {
                _ if arguments.json => json(seed, &result, took)?,
                Ok(report) => format!("seed {seed}: all held; {}\n", report.summary()),
                Err(broken) => format!("{broken}{}", again(arguments, seed)),
            };
            if write_out(&text)? == OutputReader::Gone {
                next.store(end, Ordering::Relaxed);
            }
        }
    };
    let jobs = match arguments.jobs {
        0 => thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a simulation panicked")))
        })
    })?;
    let bad = bad.into_inner();
    if !arguments.json {
        write_out(&format!("{} seeds, {bad} of them broke an invariant\n", arguments.seeds))?;
    }
    Ok(bad)
}

fn run(arguments: &Arguments, seed: u64) -> Result<(Result<Report, Box<Broken>>, Duration)> {
    let simulation = Simulation::new(arguments.scenario(seed)?)?;
    let began = Instant::now();
    let result = simulation.run();
    Ok((result, began.elapsed()))
}

fn json(seed: u64, result: &Result<Report, Box<Broken>>, took: Duration) -> Result<String> {
    let simulated_ns = match result {
        Ok(report) => report.simulated_ns,
        Err(broken) => broken.at_ns - broken.start_ns,
    };
    let broken = result.as_ref().err().map(|broken| broken.to_string());
    let times_real_time = ratio(simulated_ns, took);
    let outcome = Outcome { seed, times_real_time, report: result.as_ref().ok(), broken };
    Ok(serde_json::to_string(&outcome)? + "\n")
}

fn ratio(simulated_ns: u64, took: Duration) -> f64 {
    simulated_ns as f64 / 1e9 / took.as_secs_f64().max(1e-9)
}

/// The command that repeats the run.
fn again(arguments: &Arguments, seed: u64) -> String {
    format!("to repeat it: reel sim {}\n", arguments.of_seed(seed))
}
