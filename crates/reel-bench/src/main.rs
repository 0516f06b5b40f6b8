//! Experiments: each prints a table, JSON and an SVG.
//!
//! Rules: same work, same machine, alternating runs, medians and spreads, ratios first; measured at the receiver.
#![forbid(unsafe_code)]

mod api;
mod bay;
mod capacity;
mod classes;
mod client;
mod cores;
mod cpu;
mod degraded;
mod device;
mod devices;
mod film;
mod fleet;
mod load;
mod machine;
mod mms;
mod path;
mod priority;
mod reel;
mod report;
mod rival;
mod server;
mod sheet;
mod splitlevel;
mod stage;
mod upcalls;
mod write;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Reel's experiments. Every figure in docs/benchmarks.md comes from one of these commands.
#[derive(Parser)]
#[command(name = "reel bench")]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Disk to network: one cold title to a loopback client, Reel beside nginx sendfile; ingest beside a plain write.
    Path(PathArguments),
    /// Streams, browsers and downloads on the same disks, beside nginx on ext4 as shipped and tuned (root).
    Classes(ClassesArguments),
    /// One transfer of 400 MB beside readers of a lower class.
    Priority(ExperimentArguments),
    /// A disk pulled and rebuilt, a disk that stalls, under full load (root).
    Degraded(ExperimentArguments),
    /// Predicted viewers against the number at which the first byte is late.
    Capacity(ExperimentArguments),
    /// Whether the modelled disks that other experiments use behave as modelled (root, fio).
    Devices(ExperimentArguments),
    /// Functions called every 1, 5 and 20 ms by a core beside busy processes, with SCHED_FIFO and without.
    Upcalls(ExperimentArguments),
    /// What it costs to schedule messages by deadline: Reel's cores beside a thread for each stream and tokio.
    Splitlevel(ExperimentArguments),
    /// Messages to another process: memory-mapped streams beside pipe, Unix socket and iceoryx2.
    Mms(ExperimentArguments),
    /// A fleet of players against any HLS server: start-up, stalls, late bytes (`reel load`).
    Load(Box<load::LoadArguments>),
    /// Makes devices for an experiment and takes them away when its input ends; started by experiments.
    #[command(hide = true)]
    Keep,
}

/// What experiments on modelled disks have in common.
#[derive(clap::Args)]
pub(crate) struct ExperimentArguments {
    /// Where films, members and results lie.
    #[arg(long, default_value = "bench-out")]
    dir: PathBuf,
    /// The reel binary to measure; default: beside this one.
    #[arg(long)]
    reel: Option<PathBuf>,
    /// A few seconds, to see that the experiment itself works; its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Seconds of each measurement; each experiment has its own default.
    #[arg(long)]
    seconds: Option<u64>,
    /// Runs of each measurement.
    #[arg(long)]
    runs: Option<usize>,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// `classes`.
#[derive(clap::Args)]
pub(crate) struct ClassesArguments {
    #[command(flatten)]
    common: ExperimentArguments,
    /// Only these parts of it.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [classes::Part::Held, classes::Part::Admitted, classes::Part::Growth, classes::Part::Shares])]
    parts: Vec<classes::Part>,
    /// Only Reel, without its rival.
    #[arg(long)]
    alone: bool,
    /// The most streams that are tried: each has a film of its own.
    #[arg(long, default_value_t = 400)]
    streams_max: usize,
    /// Where the search for the number of streams held begins.
    #[arg(long, default_value_t = 64)]
    streams_from: usize,
    /// Seconds at full admission.
    #[arg(long, default_value_t = 600)]
    admitted_seconds: u64,
}

/// How large and how often.
#[derive(clap::Args)]
pub(crate) struct PathArguments {
    /// Size of the film in MiB (it is made with ffmpeg).
    #[arg(long, default_value_t = 2048)]
    film_mib: u64,
    /// Runs of each server at each number of connections.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Numbers of connections; each connection fetches its share of the film.
    #[arg(long, value_delimiter = ',', default_value = "1,64")]
    connections: Vec<usize>,
    /// Where films and volumes are made: the file system that is measured. About four times the film is needed.
    #[arg(long, default_value = "bench-out")]
    dir: PathBuf,
    /// The reel binary to measure; default: beside this one.
    #[arg(long)]
    reel: Option<PathBuf>,
    /// A few seconds on a small film, to see that the experiment itself works; its figures mean nothing.
    #[arg(long)]
    smoke: bool,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    match Arguments::parse().experiment {
        Experiment::Path(mut arguments) => {
            if arguments.smoke {
                (arguments.film_mib, arguments.runs, arguments.connections) = (48, 1, vec![1, 8]);
            }
            path::run(&arguments)
        }
        Experiment::Classes(arguments) => classes::run(&arguments),
        Experiment::Priority(arguments) => priority::run(&arguments),
        Experiment::Degraded(arguments) => degraded::run(&arguments),
        Experiment::Capacity(arguments) => capacity::run(&arguments),
        Experiment::Devices(arguments) => devices::run(&arguments),
        Experiment::Upcalls(arguments) => upcalls::run(&arguments),
        Experiment::Splitlevel(arguments) => splitlevel::run(&arguments),
        Experiment::Mms(arguments) => mms::run(&arguments),
        Experiment::Keep => device::keep(),
        Experiment::Load(arguments) => load::command(&arguments),
    }
}
