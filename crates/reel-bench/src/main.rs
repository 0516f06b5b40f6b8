//! Experiments: each prints a table, JSON and an SVG.
//!
//! Rules: same work, same machine, alternating runs, medians and spreads, ratios first; measured at the receiver.
#![forbid(unsafe_code)]

mod api;
mod arriving;
mod bay;
mod bpf;
mod capacity;
mod classes;
mod client;
mod cores;
mod cost;
mod cpu;
mod degraded;
mod device;
mod devices;
mod film;
mod fleet;
mod interrupts;
mod load;
mod machine;
mod mms;
mod onecopy;
mod pairs;
mod path;
mod path_tls;
mod peers;
mod priority;
mod pump;
mod reel;
mod report;
mod rival;
mod secured;
mod segments;
mod server;
mod sheet;
mod splitlevel;
mod stage;
mod transfers;
mod udp;
mod upcalls;
mod viewers;
mod window;
mod wire;
mod wired;
mod write;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Reel's experiments. Every figure in docs/benchmarks.md comes from one of these commands.
#[derive(Parser)]
#[command(name = "reel bench")]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Disk to network: one cold title to a loopback client, Reel beside nginx sendfile; ingest beside a plain write.
    Path(PathArguments),
    /// Processor time per GB of HLS viewers, Reel beside its peers, on loopback and on the wire (root, clang, nginx).
    Peers(PeersArguments),
    /// The highest number of viewers of 5 Mb/s to whom nothing is late, Reel beside its peers (root, clang, nginx).
    Viewers(ViewersArguments),
    /// Streams, browsers and downloads on the same disks, beside nginx on ext4 as shipped and tuned (root).
    Classes(ClassesArguments),
    /// One transfer of 400 MB beside readers of a lower class.
    Priority(PriorityArguments),
    /// A disk pulled and rebuilt, a disk that stalls, under full load (root).
    Degraded(ExperimentArguments),
    /// Predicted viewers against the number at which the first byte is late.
    Capacity(CapacityArguments),
    /// Whether the modelled disks that other experiments use behave as modelled (root, fio).
    Devices(ExperimentArguments),
    /// Parallel downloads on disks with arms, beside a read/write loop and nginx (root).
    Transfers(TransfersArguments),
    /// Functions called every 1, 5 and 20 ms by a core beside busy processes, with SCHED_FIFO and without.
    Upcalls(ExperimentArguments),
    /// What it costs to schedule messages by deadline: Reel's cores beside a thread for each stream and tokio.
    Splitlevel(ExperimentArguments),
    /// Whether the wire, on which others measure, sends what it should and copies nothing (root, clang).
    Wire(WireArguments),
    /// UDP packets as trains that are lent to the device, beside ways to have them copied, on ifb, loopback and veth (root).
    Udp(ExperimentArguments),
    /// Messages to another process: memory-mapped streams beside pipe, Unix socket and iceoryx2.
    Mms(ExperimentArguments),
    /// Disk bytes and memory of a crowd that watches one title, beside those of one viewer.
    Onecopy(OneCopyArguments),
    /// A fleet of players against any HLS server: start-up, stalls, late bytes (`reel load`).
    Load(Box<load::LoadArguments>),
    /// Makes devices for an experiment and takes them away when its input ends; started by experiments.
    #[command(hide = true)]
    Keep,
    /// Sends files by a read/write loop; started by experiments.
    #[command(hide = true)]
    Pump(pump::PumpArguments),
}

/// What experiments on modelled disks have in common.
#[derive(clap::Args)]
pub(crate) struct ExperimentArguments {
    /// Where films, members and results lie.
    #[arg(long, default_value = "bench-out")]
    dir: PathBuf,
    /// The reel binary to measure; default: beside this one.
    #[arg(long)]
    reel: Option<PathBuf>,
    /// A few seconds, to see that the experiment itself works; its figures mean nothing.
    #[arg(long, visible_alias = "smoke")]
    quick: bool,
    /// Seconds of each measurement; each experiment has its own default.
    #[arg(long)]
    seconds: Option<u64>,
    /// Runs of each measurement.
    #[arg(long)]
    runs: Option<usize>,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// `capacity`.
#[derive(clap::Args)]
pub(crate) struct CapacityArguments {
    #[command(flatten)]
    common: ExperimentArguments,
    /// The kinds of member that are measured.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [capacity::Members::Arms, capacity::Members::Flash, capacity::Members::Throttled])]
    members: Vec<capacity::Members>,
    /// Seconds of `reel probe` before anything else, as an operator would.
    #[arg(long, default_value_t = 60)]
    probe_seconds: u64,
    /// The search ends when what is open is no more than one part in so many of what was carried.
    #[arg(long, default_value_t = 50)]
    fineness: usize,
    /// Only these numbers of players, instead of a search.
    #[arg(long, value_delimiter = ',')]
    players: Vec<usize>,
}

/// `classes`.
#[derive(clap::Args)]
pub(crate) struct ClassesArguments {
    #[command(flatten)]
    common: ExperimentArguments,
    /// Only these parts of it.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [classes::Part::Held, classes::Part::Admitted, classes::Part::Growth, classes::Part::Shares])]
    parts: Vec<classes::Part>,
    /// Only Reel, without its rival.
    #[arg(long)]
    alone: bool,
    /// The most streams that are tried: each has a film of its own.
    #[arg(long, default_value_t = 400)]
    streams_max: usize,
    /// Where the search for the number of streams held begins.
    #[arg(long, default_value_t = 64)]
    streams_from: usize,
    /// Seconds at full admission.
    #[arg(long, default_value_t = 600)]
    admitted_seconds: u64,
}

/// `priority`.
#[derive(clap::Args)]
pub(crate) struct PriorityArguments {
    #[command(flatten)]
    common: ExperimentArguments,
    /// Only Reel, without its rival.
    #[arg(long)]
    alone: bool,
    /// Over how many connections the transfer comes; as many as there were stream-reads in the table.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 32])]
    connections: Vec<usize>,
    /// Readers beside it.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2, 3, 4, 5, 6])]
    readers: Vec<usize>,
}

/// `onecopy`.
#[derive(clap::Args)]
pub(crate) struct OneCopyArguments {
    /// `--seconds` is the length of the film.
    #[command(flatten)]
    common: ExperimentArguments,
    /// Only these parts of it.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [onecopy::Part::Crowd, onecopy::Part::Beside])]
    parts: Vec<onecopy::Part>,
    /// Viewers of the title.
    #[arg(long, default_value_t = 1000)]
    viewers: usize,
    /// Seconds over which they come.
    #[arg(long, default_value_t = 60)]
    arrive_seconds: u64,
    /// Seconds that players fetch ahead of the picture.
    #[arg(long, default_value_t = 8)]
    buffer_seconds: u64,
    /// Rate of the film, in Mb/s.
    #[arg(long, default_value_t = 4.0)]
    rate_mbps: f64,
    /// Downloads beside the crowd.
    #[arg(long, default_value_t = 4)]
    downloads: usize,
}

/// `transfers`.
#[derive(clap::Args)]
pub(crate) struct TransfersArguments {
    #[command(flatten)]
    common: ExperimentArguments,
    /// Only these parts of it.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [transfers::Part::Reel, transfers::Part::Viewers, transfers::Part::Loop, transfers::Part::Nginx])]
    parts: Vec<transfers::Part>,
}

/// `wire`.
#[derive(clap::Args)]
pub(crate) struct WireArguments {
    #[command(flatten)]
    common: ExperimentArguments,
    /// The bare server, the example `floor` of reel-ring; default: in `examples` beside this program.
    #[arg(long)]
    floor: Option<PathBuf>,
}

/// `peers`.
#[derive(clap::Args)]
pub(crate) struct PeersArguments {
    #[command(flatten)]
    common: ExperimentArguments,
    /// Over what.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [peers::Net::Wire, peers::Net::Loopback])]
    nets: Vec<peers::Net>,
    /// Whether the titles are in memory.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [peers::Titles::Cold, peers::Titles::Hot])]
    titles: Vec<peers::Titles>,
    /// Who is measured.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [peers::Who::Reel, peers::Who::Sendfile, peers::Who::Threads, peers::Who::Direct])]
    who: Vec<peers::Who>,
    /// Viewers at once.
    #[arg(long, default_value_t = 32)]
    viewers: usize,
    /// Size of a title in MiB.
    #[arg(long, default_value_t = 64)]
    title_mib: u64,
    /// How many titles are made, on Reel's volume and as files; cold viewers share them; default: one for each viewer.
    #[arg(long)]
    title_count: Option<usize>,
    /// The congestion control on the wire, whoever serves, one of tcp_available_congestion_control; default: the machine's.
    #[arg(long)]
    congestion: Option<String>,
    /// Memory of a server in MiB: Reel's arena, a peer's page cache and all.
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
    /// The chance that a segment is lost on the wire.
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// The bare server, the example `floor` of reel-ring; default: in `examples` beside this program.
    #[arg(long)]
    floor: Option<PathBuf>,
    /// Tell where each server's time goes, by function (perf). It costs a little itself.
    #[arg(long)]
    profile: bool,
}

/// `viewers`.
#[derive(clap::Args)]
pub(crate) struct ViewersArguments {
    #[command(flatten)]
    common: ExperimentArguments,
    /// Over what.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [peers::Net::Wire, peers::Net::Loopback])]
    nets: Vec<peers::Net>,
    /// Who else is there: nobody, or ten downloads and films that arrive.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [viewers::Beside::Nobody, viewers::Beside::Bulk])]
    beside: Vec<viewers::Beside>,
    /// Who is measured; `reel-open` lets everybody in.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [peers::Who::Reel, peers::Who::ReelOpen, peers::Who::Sendfile, peers::Who::Threads, peers::Who::Direct])]
    who: Vec<peers::Who>,
    /// Where the search begins.
    #[arg(long, default_value_t = 512)]
    viewers_from: usize,
    /// The most viewers that are tried.
    #[arg(long, default_value_t = 8192)]
    viewers_max: usize,
    /// Titles that are watched; two more are only downloaded.
    #[arg(long, default_value_t = 30)]
    titles: usize,
    /// Size of a title in MiB.
    #[arg(long, default_value_t = 256)]
    title_mib: u64,
    /// Memory of a server in MiB: Reel's arena, a peer's page cache and all. Less than all titles.
    #[arg(long, default_value_t = 4096)]
    memory_mib: u64,
    /// Thousandths of the disks' time that are for streams with Reel; people and downloads share the rest. Default: as delivered.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=998))]
    streams_permille: Option<u32>,
    /// Rate at which films arrive, in Mb/s.
    #[arg(long, default_value_t = 800)]
    ingest_mbps: u64,
    /// Round trip between the server and a viewer on the wire, in milliseconds.
    #[arg(long, default_value_t = 20)]
    rtt_ms: u64,
    /// Window of a viewer on the wire, in KiB.
    #[arg(long, default_value_t = 1024)]
    window_kib: u32,
    /// Seconds of `reel probe` before anything else, as an operator would; 0: what is known of the disks is good enough.
    #[arg(long, default_value_t = 10)]
    probe_seconds: u64,
    /// Nothing is begun that would not be over after so many seconds. A search that was not over says so.
    #[arg(long, default_value_t = 3600)]
    budget_seconds: u64,
    /// Only make the titles.
    #[arg(long)]
    prepare: bool,
}

/// How large and how often.
#[derive(clap::Args)]
pub(crate) struct PathArguments {
    /// Size of the film in MiB (it is made with ffmpeg).
    #[arg(long, default_value_t = 2048)]
    film_mib: u64,
    /// Runs of each server at each number of connections.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Numbers of connections; each connection fetches its share of the film.
    #[arg(long, value_delimiter = ',', default_value = "1,64")]
    connections: Vec<usize>,
    /// Where films and volumes are made: the file system that is measured. About four times the film is needed.
    #[arg(long, default_value = "bench-out")]
    dir: PathBuf,
    /// Over HTTPS on both sides, with TLS 1.3 and AES-128-GCM: processor time for each GB, cold and hot; nothing else.
    #[arg(long)]
    tls: bool,
    /// The reel binary to measure; default: beside this one.
    #[arg(long)]
    reel: Option<PathBuf>,
    /// Measure serving on the wire instead of loopback, where nothing that was sent is copied (root, clang).
    #[arg(long)]
    wire: bool,
    /// A few seconds on a small film, to see that the experiment itself works; its figures mean nothing.
    #[arg(long)]
    smoke: bool,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    match Arguments::parse().experiment {
        Experiment::Path(mut arguments) => {
            if arguments.smoke {
                (arguments.film_mib, arguments.runs, arguments.connections) = (48, 1, vec![1, 8]);
            }
            if arguments.tls { path_tls::run(&arguments) } else { path::run(&arguments) }
        }
        Experiment::Peers(arguments) => peers::run(&arguments),
        Experiment::Viewers(arguments) => viewers::run(&arguments),
        Experiment::Classes(arguments) => classes::run(&arguments),
        Experiment::Priority(arguments) => priority::run(&arguments),
        Experiment::Degraded(arguments) => degraded::run(&arguments),
        Experiment::Capacity(arguments) => capacity::run(&arguments),
        Experiment::Devices(arguments) => devices::run(&arguments),
        Experiment::Upcalls(arguments) => upcalls::run(&arguments),
        Experiment::Splitlevel(arguments) => splitlevel::run(&arguments),
        Experiment::Wire(arguments) => wired::run(&arguments),
        Experiment::Udp(arguments) => udp::run(&arguments),
        Experiment::Mms(arguments) => mms::run(&arguments),
        Experiment::Transfers(arguments) => transfers::run(&arguments),
        Experiment::Onecopy(arguments) => onecopy::run(&arguments),
        Experiment::Keep => device::keep(),
        Experiment::Pump(arguments) => pump::pump(&arguments),
        Experiment::Load(arguments) => load::command(&arguments),
    }
}
