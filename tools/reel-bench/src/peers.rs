//! `peers`: what it costs to send films, Reel beside what people run today.
//!
//! Parts: HLS viewers (`hls`), one title as one file (`file`), the same over HTTPS (`tls`), and
//! ingest beside a plain write of the same bytes (`ingest`). All servers send the same bytes.

mod file;
mod hls;
mod ingest;
pub(crate) mod material;
pub(crate) mod path;
mod plain_write;
mod profile;
pub(crate) mod system;

use crate::reel;
use crate::rival::Against;
use anyhow::{Context, Result};
use clap::ValueEnum;
use file::{FileOptions, FileTitle};
use reel_report::{Chart, CommonOptions, Report};
use reel_wire::Wire;
use std::fs;
use std::io;
use std::path::PathBuf;

pub(crate) use system::{OwnServer, System};

/// The options of `peers`.
#[derive(clap::Args)]
pub(crate) struct PeersArguments {
    #[command(flatten)]
    common: CommonOptions,
    /// The parts that are measured.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Hls])]
    parts: Vec<Part>,
    /// The networks that servers send over.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Net::Wire, Net::Loopback])]
    nets: Vec<Net>,
    /// Whether the titles are in memory.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Titles::Cold, Titles::Hot])]
    titles: Vec<Titles>,
    /// What is measured beside the rivals.
    #[arg(long, value_enum, value_delimiter = ',', alias = "who", default_values_t = [OwnServer::Reel])]
    servers: Vec<OwnServer>,
    #[command(flatten)]
    against: Against,
    #[command(flatten)]
    file: FileOptions,
    /// Viewers at once.
    #[arg(long, default_value_t = 32)]
    viewers: usize,
    /// Size of a viewer's title in MiB.
    #[arg(long, default_value_t = 64)]
    title_mib: u64,
    /// How many titles are made, on Reel's volume and as files; cold viewers share them; default:
    /// one for each viewer.
    #[arg(long)]
    title_count: Option<usize>,
    /// The congestion control on the wire, one of tcp_available_congestion_control; default: the
    /// machine's.
    #[arg(long)]
    congestion: Option<String>,
    /// Memory of a server in MiB: Reel's arena; for a rival, page cache and all.
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// Round trip between the server and a viewer on the wire, in milliseconds.
    #[arg(long, default_value_t = 20)]
    rtt_ms: u64,
    /// Rate of a viewer's line on the wire, in Mb/s; 0: as fast as the window allows.
    #[arg(long, default_value_t = 0)]
    line_mbps: u64,
    /// Window of a viewer on the wire, in KiB.
    #[arg(long, default_value_t = 1024)]
    window_kib: u32,
    /// The probability that a segment is lost on the wire.
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// The bare server, the example `floor` of reel-ring; default: in `examples` beside this
    /// program.
    #[arg(long)]
    floor: Option<PathBuf>,
    /// Show each server's processor time by function (perf). This costs some time itself.
    #[arg(long)]
    profile: bool,
}

/// The parts of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// HLS viewers that take one segment after another.
    Hls,
    /// One cold title as one file, over one connection and many.
    File,
    /// The same over HTTPS with TLS 1.3 and AES-128-GCM, cold and hot, on loopback.
    Tls,
    /// Ingest, beside a plain write of the same bytes.
    Ingest,
}

/// The network between servers and viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Net {
    /// Nothing that was sent is copied (root, clang).
    Wire,
    /// The receiver copies every byte.
    Loopback,
}

/// Whether titles are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Titles {
    /// No server has anything in memory.
    Cold,
    /// The title was fetched right before.
    Hot,
}

/// Runs the experiment.
pub(crate) fn run(arguments: &PeersArguments) -> Result<()> {
    let mut report = Report::new("peers");
    report.charts = hls::CASES
        .iter()
        .map(|case| Chart { case: case.name, at: "viewers", value: "cpu_s_per_gb" })
        .collect();
    report.fill(&arguments.common, |report| {
        let wire = if arguments.needs_wire() { wire(arguments.common.quick, report)? } else { None };
        measure(arguments, wire, report)
    })
}

impl PeersArguments {
    /// HLS viewers on loopback are measured beside the wire too: its meter tells whose work an
    /// interrupt is.
    fn needs_wire(&self) -> bool {
        let has_file = self.parts.contains(&Part::File) && self.nets.contains(&Net::Wire);
        self.parts.contains(&Part::Hls) || has_file
    }
}

/// The wire; `None` in a quick run that may not make one.
pub(crate) fn wire(quick: bool, report: &mut Report) -> Result<Option<Wire>> {
    match Wire::make() {
        Ok(wire) => Ok(Some(wire)),
        Err(error) if quick => {
            report.note(format!("skipped what needs the wire: {error:#}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn measure(arguments: &PeersArguments, mut wire: Option<Wire>, report: &mut Report) -> Result<()> {
    let PeersArguments { common, parts, nets, file, against, .. } = arguments;
    if parts.contains(&Part::Hls)
        && let Some(wire) = &mut wire
    {
        hls::measure(arguments, wire, report)?;
    }
    if parts.iter().all(|&part| part == Part::Hls) {
        return Ok(());
    }
    FileParts { common, file, against, parts, nets }.measure(wire.as_mut(), report)
}

/// The parts that serve one file; other parts are left out.
struct FileParts<'a> {
    common: &'a CommonOptions,
    file: &'a FileOptions,
    against: &'a Against,
    parts: &'a [Part],
    nets: &'a [Net],
}

impl FileParts<'_> {
    fn measure(&self, mut wire: Option<&mut Wire>, report: &mut Report) -> Result<()> {
        let rivals = &self.against.rivals;
        rivals.installed()?;
        let reel = reel::binary(self.common.reel.as_deref())?;
        let dir = self.common.make_dir()?;
        let title = FileTitle::make(&dir, reel, self.file, self.common)?;
        let with_ingest = self.parts.contains(&Part::Ingest);
        if with_ingest {
            ingest::measure(&title, report)?;
        }
        title.put_in_place(with_ingest)?;
        for net in self.nets.iter().filter(|_| self.parts.contains(&Part::File)) {
            match (net, &mut wire) {
                (Net::Loopback, _) => file::measure(&title, rivals, None, report)?,
                (Net::Wire, Some(wire)) => file::measure(&title, rivals, Some(wire), report)?,
                // A note says why.
                (Net::Wire, None) => {}
            }
        }
        if self.parts.contains(&Part::Tls) {
            file::measure_tls(&title, rivals, report)?;
        }
        Ok(())
    }
}

/// Empties the page cache, so that nothing of what was played before is in memory. A quick run
/// continues without the right to, because its figures mean nothing.
pub(crate) fn drop_caches(quick: bool) -> Result<()> {
    rustix::fs::sync();
    match fs::write("/proc/sys/vm/drop_caches", "1") {
        Err(error) if quick && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done.context("emptying the page cache needs root"),
    }
}
