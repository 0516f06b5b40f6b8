//! The options that all experiments share.

use std::path::PathBuf;

/// The options that all experiments share.
#[derive(Clone, Debug, clap::Args)]
pub struct CommonOptions {
    /// The directory for films, members and results.
    #[arg(long, default_value = "bench-out")]
    pub dir: PathBuf,
    /// The reel binary to measure; default: beside this one.
    #[arg(long)]
    pub reel: Option<PathBuf>,
    /// A few seconds, to see that the experiment itself works; its figures mean nothing.
    #[arg(long, visible_alias = "smoke")]
    pub quick: bool,
    /// Seconds of each measurement; each experiment has its own default.
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Runs of each measurement.
    #[arg(long)]
    pub runs: Option<usize>,
    /// Print JSON instead of the table.
    #[arg(long)]
    pub json: bool,
}
