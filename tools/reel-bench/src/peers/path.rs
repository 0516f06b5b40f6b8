//! `path`: another name for the parts of `peers` that serve one file.

use super::file::FileOptions;
use super::{FileParts, Net, Part};
use crate::rival::Against;
use anyhow::Result;
use reel_report::{CommonOptions, Report};
use reel_wire::Wire;

/// The options of `path`.
#[derive(clap::Args)]
pub(crate) struct PathArguments {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    file: FileOptions,
    #[command(flatten)]
    against: Against,
    /// Over HTTPS on both sides: processor time per GB, cold and hot; nothing else.
    #[arg(long, conflicts_with = "wire")]
    tls: bool,
    /// Measure serving on the wire instead of loopback, where nothing that was sent is copied
    /// (root, clang).
    #[arg(long)]
    wire: bool,
}

/// Runs those parts.
pub(crate) fn run(arguments: &PathArguments) -> Result<()> {
    let name = if arguments.tls { "path-tls" } else { "path" };
    let parts: &[Part] = if arguments.tls { &[Part::Tls] } else { &[Part::Ingest, Part::File] };
    let nets = [if arguments.wire { Net::Wire } else { Net::Loopback }];
    let PathArguments { common, file, against, .. } = arguments;
    Report::new(name).fill(common, |report| {
        let mut wire = if arguments.wire { Some(Wire::make()?) } else { None };
        FileParts { common, file, against, parts, nets: &nets }.measure(wire.as_mut(), report)
    })
}
