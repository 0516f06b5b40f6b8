//! The arguments of `reel cast`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use reel_broadcast::Scheme;

use super::parse_rate;
use crate::rate::Rate;
use crate::span::Span;

/// `reel cast ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum CastCommand {
    /// Have a title sent to a group: RTP with MPEG-TS, and FEC from the parity of the disks
    Add(CastAddArguments),

    /// List the casts of a server
    List(CastListArguments),

    /// End a cast
    Stop(CastStopArguments),

    /// Print what receivers need to know of a cast (SDP)
    Sdp(CastSdpArguments),

    /// Show what it costs to broadcast a title so that clients wait for at most some time, or how
    /// long they wait for some bandwidth
    Plan(CastPlanArguments),
}

/// `reel cast plan`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("subject").required(true).args(["title", "duration"])))]
#[command(group(ArgGroup::new("bound").required(true).args(["wait", "bandwidth"])))]
pub(crate) struct CastPlanArguments {
    /// Id of a title of a running server, as `reel titles` lists it
    pub(crate) title: Option<String>,

    /// The directory of the title's volume, if no server has it open
    #[arg(long, value_name = "DIR", requires = "title", conflicts_with = "server")]
    pub(crate) volume: Option<PathBuf>,

    /// For a title of this length: 180s, 90min, 2h
    #[arg(long, value_name = "TIME", requires = "rate")]
    pub(crate) duration: Option<Span>,

    /// For a title of this mean rate: 8M, 2.5M (bits per second, powers of 1000)
    #[arg(long, value_name = "RATE", requires = "duration", value_parser = parse_rate)]
    pub(crate) rate: Option<Rate>,

    /// The longest time from joining to the first picture: 5s, 1min
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<Span>,

    /// The most that all channels together send: 17.5M. For a stored title, it is what the network
    /// carries in the busiest slot, with FEC and headers
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) bandwidth: Option<Rate>,

    /// Only this scheme: staggered, fast, rfs, skyscraper, skyscraper-12
    #[arg(long, value_name = "NAME")]
    pub(crate) scheme: Option<Scheme>,

    /// Draw the schedule of the scheme, or of rfs, with the path of one client
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(long, requires = "svg")]
    pub(crate) force: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Address of the server
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) server: String,
}

/// `reel cast add`.
#[derive(Debug, Args)]
pub(crate) struct CastAddArguments {
    /// Ids of the title, and of titles that follow it without a gap; they must have the form ts
    /// (`reel form add`)
    #[arg(required = true)]
    pub(crate) titles: Vec<String>,

    /// Group and port, such as 239.1.1.1:5000 or [ff15::1]:5000; the port is even
    #[arg(long, value_name = "GROUP:PORT", value_parser = parse_group)]
    pub(crate) group: SocketAddr,

    /// Name of the cast [default: the first title's id]
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Begin again at the end
    #[arg(long = "loop")]
    pub(crate) is_looped: bool,

    /// Refuse unless the volume's matrices are allowed by SMPTE ST 2022-1
    #[arg(long, conflicts_with = "no_fec")]
    pub(crate) strict: bool,

    /// Send no FEC
    #[arg(long)]
    pub(crate) no_fec: bool,

    /// Do not announce it to receivers that look for casts (SAP)
    #[arg(long)]
    pub(crate) no_announce: bool,

    /// How many networks packets may cross; 1 is this network only
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) ttl: u8,

    /// Mark of the packets for switches and routers (DSCP), 0 to 63
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..64))]
    pub(crate) dscp: u8,

    /// Network interface [default: that of the routing table]
    #[arg(long)]
    pub(crate) interface: Option<String>,

    /// Send to several groups, one address after another, by a schedule: rfs, fast, skyscraper,
    /// skyscraper-12 or staggered; `reel cast plan` compares them [default: linear, to one group]
    #[arg(long, value_name = "NAME")]
    pub(crate) scheme: Option<Scheme>,

    /// With --scheme: the longest time from joining to the first picture: 5s, 1min
    #[arg(long, value_name = "TIME", requires = "scheme", conflicts_with = "bandwidth")]
    pub(crate) wait: Option<Span>,

    /// With --scheme: the most that the network carries for all groups, with FEC and headers, in
    /// the busiest slot: 17.5M
    #[arg(long, value_name = "RATE", requires = "scheme", value_parser = parse_rate)]
    pub(crate) bandwidth: Option<Rate>,

    /// Address of the server
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) server: String,
}

/// `reel cast list`.
#[derive(Debug, Args)]
pub(crate) struct CastListArguments {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Address of the server
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) server: String,
}

/// `reel cast stop`.
#[derive(Debug, Args)]
pub(crate) struct CastStopArguments {
    /// Name of the cast
    pub(crate) name: String,

    /// Address of the server
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) server: String,
}

/// `reel cast sdp`.
#[derive(Debug, Args)]
pub(crate) struct CastSdpArguments {
    /// Name of the cast
    pub(crate) name: String,

    /// Address of the server
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) server: String,
}

/// A group with its port.
fn parse_group(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    text.parse().map_err(|_| match bare.parse::<IpAddr>() {
        Ok(group) => format!("the port is missing; name one, for example {}", SocketAddr::new(group, 5000)),
        Err(_) => {
            "it is no group with a port; name one, for example 239.1.1.1:5000 or [ff15::1]:5000".to_owned()
        }
    })
}

/// Where `reel serve` listens if nothing else is configured.
pub(super) const SERVER: &str = "http://127.0.0.1:8080";
