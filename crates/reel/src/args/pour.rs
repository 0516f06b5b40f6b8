//! The arguments of `reel pour`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::parse_rate;
use crate::rate::Rate;
use crate::size::Size;
use crate::span::Span;

/// `reel pour`.
#[derive(Debug, Args)]
pub(crate) struct PourArguments {
    /// The name under which others play it: http://SERVER:8080/live/NAME
    pub(crate) name: String,

    /// How fast it is played: 5M, 1536k (bits per second, powers of 1000). What comes faster waits
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) rate: Rate,

    /// Bytes that may come before their time; half a second of the rate if not given
    #[arg(long, value_name = "SIZE")]
    pub(crate) workahead: Option<Size>,

    /// How long after its time a byte is due at a viewer: 100ms to 10s
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(crate) delay: Span,

    /// Media type: video/..., audio/... or application/octet-stream. Of video/mp2t, viewers begin
    /// with a whole packet
    #[arg(long = "type", value_name = "TYPE", default_value = "video/mp2t")]
    pub(crate) content_type: String,

    /// The server's socket for programs (`reel serve --programs-socket`)
    #[arg(long, value_name = "PATH", default_value = "reel.sock")]
    pub(crate) socket: PathBuf,

    /// At the end, print the number of bytes and of system calls to wait and to wake
    #[arg(long, conflicts_with = "mapped")]
    pub(crate) stats: bool,

    /// Run FILTER in place of this command, which pours the stream from memory that it shares with
    /// the server: a program that uses reel_client or reel_mms.h
    #[arg(long)]
    pub(crate) mapped: bool,

    /// The program that pours the stream, and its arguments
    #[arg(last = true, value_name = "FILTER", requires = "mapped")]
    pub(crate) filter: Vec<OsString>,
}
