//! The arguments of `reel mount`.

use std::path::PathBuf;

use clap::Args;
use reel_files::limits::ANSWER_TIME_MAX;

use super::cast::SERVER;
use super::parse_rate;
use crate::rate::Rate;
use crate::span::Span;

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

    /// How long a file waits for the server, at most 60s. No signal but SIGKILL ends a process that
    /// waits so
    #[arg(long, value_name = "TIME", default_value = "900ms", value_parser = parse_timeout)]
    pub(crate) timeout: Span,

    /// Let all users of this machine read the files; users other than root need the line
    /// user_allow_other in /etc/fuse.conf
    #[arg(long)]
    pub(crate) allow_other: bool,
}

/// A time for an answer.
fn parse_timeout(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    match span.ns {
        1_000_000.. if u128::from(span.ns) <= ANSWER_TIME_MAX.as_nanos() => Ok(span),
        _ => Err(format!("it must be 1ms to {}s", ANSWER_TIME_MAX.as_secs())),
    }
}
