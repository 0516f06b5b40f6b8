//! The arguments of `reel receive`.

use std::path::PathBuf;

use clap::Args;

use crate::span::Span;

/// `reel receive`.
#[derive(Debug, Args)]
pub(crate) struct ReceiveArguments {
    /// The description (SDP) of the cast: a file, or its address such as
    /// http://host:8080/casts/NAME.sdp. Or its announced name: sap://NAME. Or only the group:
    /// rtp://239.1.1.1:5000, then without FEC
    #[arg(value_name = "SDP|URL", required_unless_present = "list")]
    pub(crate) cast: Option<String>,

    /// List the casts that are announced on the network, listening for 6 s or for --duration
    #[arg(long, conflicts_with_all = ["cast", "output"])]
    pub(crate) list: bool,

    /// The file to write, or `-` for standard output [default: -]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Replace FILE if it exists; never a part of a volume
    #[arg(long, requires = "output")]
    pub(crate) force: bool,

    /// Network interface to receive by [default: that of the routing table]
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,

    /// End this long after the first packet: 30s, 2h [default: at the end of the cast]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Span>,

    /// Fail if no packet arrives in this time, at the beginning or later
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) timeout: Span,
}
