//! The arguments of `reel mount`.

use std::path::PathBuf;

use clap::Args;

use super::cast::SERVER;
use super::parse_rate;
use crate::rate::Rate;

/// `reel mount`.
#[derive(Debug, Args)]
pub(crate) struct MountArguments {
    /// An empty directory
    pub(crate) dir: PathBuf,

    /// Address of the server
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) of: String,

    /// The file `capacity` counts viewers of a stream of this constant rate: 8M, 2.5M (bits per
    /// second, powers of 1000)
    #[arg(long, value_name = "RATE", default_value = "5M", value_parser = parse_rate)]
    pub(crate) rate: Rate,

    /// Let all users of this machine read the files; users other than root need the line
    /// user_allow_other in /etc/fuse.conf
    #[arg(long)]
    pub(crate) allow_other: bool,
}
