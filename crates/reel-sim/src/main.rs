//! `reel sim`: runs one seed and says what happened.
#![forbid(unsafe_code)]

use clap::Parser;
use reel_disk::Policy;
use reel_sim::fault::FaultMenu;
use reel_sim::{Scenario, World};
use std::process::ExitCode;
use std::time::Instant;

/// The server on simulated disks, clients and time. The same seed gives the same run.
#[derive(Parser)]
#[command(name = "reel sim")]
struct Arguments {
    /// Decides everything that is left to chance.
    #[arg(long)]
    seed: u64,
    /// Virtual hours.
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
    /// People who want to watch.
    #[arg(long, default_value_t = 200)]
    viewers: usize,
    /// Five solid state disks without faults and other traffic: for the speed of the simulation itself.
    #[arg(long)]
    plain: bool,
    /// Who decides what a device gets next: rounds, fifo, cscan, drr, edf.
    #[arg(long, default_value = "rounds")]
    policy: Policy,
    /// No faults.
    #[arg(long)]
    healthy: bool,
    /// Lets everybody in.
    #[arg(long)]
    unadmitted: bool,
    /// Only these faults: pulled, replaced, stalls, slow, read-errors, lies.
    #[arg(long, value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let duration_ns = (arguments.hours * 3600e9) as u64;
    let make = if arguments.plain { Scenario::plain } else { Scenario::drawn };
    let mut scenario = make(arguments.seed, duration_ns, arguments.viewers);
    scenario.policy = arguments.policy;
    if arguments.healthy {
        scenario.faults = FaultMenu::default();
    }
    if let Some(names) = &arguments.faults {
        scenario.faults = FaultMenu::of(names)?;
    }
    scenario.admission = !arguments.unadmitted;
    let began = Instant::now();
    let world = World::new(scenario)?;
    let made = began.elapsed();
    match world.run() {
        Ok(report) => {
            let took = began.elapsed();
            println!("{report:#?}");
            let ratio = report.simulated_ns as f64 / 1e9 / (took - made).as_secs_f64();
            println!("made in {made:.2?}, ran in {:.2?}: {ratio:.0} times real time", took - made);
            Ok(ExitCode::SUCCESS)
        }
        Err(broken) => {
            print!("{broken}");
            println!(
                "again: reel sim --seed {} --hours {} --viewers {}",
                arguments.seed, arguments.hours, arguments.viewers
            );
            Ok(ExitCode::FAILURE)
        }
    }
}
