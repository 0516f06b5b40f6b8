//! The options that all experiments share.

use anyhow::{Context, Result};
use std::fs;
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
    /// A few seconds, to check that the experiment works; the figures mean nothing.
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

impl CommonOptions {
    /// Makes the directory, if it is not there; its absolute path.
    ///
    /// # Errors
    /// A directory that cannot be made.
    pub fn make_dir(&self) -> Result<PathBuf> {
        let made = fs::create_dir_all(&self.dir).and_then(|()| fs::canonicalize(&self.dir));
        made.with_context(|| format!("making {}", self.dir.display()))
    }
}
