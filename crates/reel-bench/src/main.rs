//! Experiments: each prints a table, JSON and an SVG.
//!
//! Rules: same work, same machine, alternating runs, medians and spreads, ratios first; measured at the receiver.
#![forbid(unsafe_code)]

mod client;
mod cpu;
mod film;
mod load;
mod machine;
mod path;
mod report;
mod rival;
mod server;
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
    /// A fleet of players against any HLS server: start-up, stalls, late bytes (`reel load`).
    Load(Box<load::LoadArguments>),
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
        Experiment::Load(arguments) => load::command(&arguments),
    }
}
