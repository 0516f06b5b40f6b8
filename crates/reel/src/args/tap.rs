//! The arguments of `reel tap`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// `reel tap`.
#[derive(Debug, Args)]
pub(crate) struct TapArguments {
    /// Id of a title, as `reel titles` lists it, or live/NAME for a stream that is being poured;
    /// several with --mapped
    #[arg(required = true, value_name = "TITLE")]
    pub(crate) titles: Vec<String>,

    /// The server's socket for programs (`reel serve --programs-socket`)
    #[arg(long, value_name = "PATH", default_value = "reel.sock")]
    pub(crate) socket: PathBuf,

    /// Begin at this byte of the title's MP4 file
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) from: u64,

    /// Class of the stream. Without it, the stream has deadlines; `aperiodic` has none
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) class: String,

    /// At the end, print the number of messages and of system calls to wait and to wake
    #[arg(long, conflicts_with = "mapped")]
    pub(crate) stats: bool,

    /// Run FILTER in place of this command, which reads the titles in the server's memory: a
    /// program that uses reel_client or reel_mms.h
    #[arg(long)]
    pub(crate) mapped: bool,

    /// The program that reads the titles, and its arguments
    #[arg(last = true, value_name = "FILTER", requires = "mapped")]
    pub(crate) filter: Vec<OsString>,
}
