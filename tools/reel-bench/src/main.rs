//! Experiments: each prints a table, JSON and an SVG.
//!
//! Rules: same work, same machine, alternating runs, medians and spreads, ratios first; measured at
//! the receiver.
#![forbid(unsafe_code)]

mod all;
mod api;
mod arriving;
mod capacity;
mod cast;
mod classes;
mod client;
mod degraded;
mod device;
mod device_check;
mod disk_set;
mod fec;
mod film;
mod fleet;
mod nfs;
mod onecopy;
mod peers;
mod priority;
mod programs;
mod pump;
mod reel;
mod rival;
mod scaling;
mod search;
mod secured;
mod segments;
mod server;
mod siege;
mod testbed;
mod transfers;
mod viewers;
mod window;
mod wire_check;

use anyhow::Result;
use clap::{Parser, Subcommand};
use reel_report::CommonOptions;

/// Run an experiment. Every figure in docs/benchmarks.md comes from one of these commands.
#[derive(Parser)]
#[command(name = "reel bench")]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Every experiment in turn, and one table of all claims.
    All(all::AllArguments),
    /// Processor time per GB and throughput of Reel and its rivals: HLS viewers, one file, HTTPS,
    /// ingest (root, clang).
    Peers(peers::PeersArguments),
    /// One title as one file, and ingest: `peers --parts ingest,file`, by default on loopback.
    Path(peers::path::PathArguments),
    /// One title as one file from one to four disks of data, compared with nginx on one disk
    /// (root).
    Scaling(CommonOptions),
    /// The highest number of viewers at 5 Mb/s with nothing late, of Reel and its rivals (root,
    /// clang).
    Viewers(viewers::ViewersArguments),
    /// Streams, interactive clients and downloads on the same disks, compared with rivals on ext4,
    /// as shipped and tuned (root).
    Classes(classes::ClassesArguments),
    /// One transfer of 400 MB while readers of a lower class are active.
    Priority(priority::PriorityArguments),
    /// At capacity: a disk that is removed and rebuilt, and a disk that stalls (root).
    Degraded(CommonOptions),
    /// The predicted number of viewers, compared with the number at which the first byte is late.
    Capacity(capacity::CapacityArguments),
    /// Whether the modelled disks that other experiments use behave as modelled (root, fio).
    Devices(CommonOptions),
    /// Parallel downloads on rotational disks, compared with a read/write loop and rivals (root).
    Transfers(transfers::TransfersArguments),
    /// Whether the network of other experiments (the wire) sends what it should and copies nothing
    /// (root, clang).
    Wire(wire_check::WireArguments),
    /// A cast with the stored parity as FEC compared with one without, and what receivers repair
    /// (root).
    Fec(CommonOptions),
    /// Laboratory: headers, checksums and boundaries of packets, stored compared with made for each
    /// packet (root, ethtool).
    Framing(CommonOptions),
    /// Casts, compared with ffmpeg and GStreamer: processor time for a Gbit, and how punctual
    /// packets are (root).
    Cast(cast::CastArguments),
    /// A player by NFS beside other readers, of Reel and of nfs-ganesha (root).
    Nfs(nfs::NfsArguments),
    /// Disk bytes and memory of many viewers of one title, compared with one viewer.
    Onecopy(onecopy::OneCopyArguments),
    /// What a message to another program costs and takes, compared with pipes, Unix sockets and
    /// iceoryx2; and viewers beside such programs.
    Programs(programs::ProgramsArguments),
    /// Ordinary viewers, newcomers and answers about health while attackers do what they can
    /// (root).
    Siege(siege::SiegeArguments),
    /// Makes devices for an experiment and removes them when its input ends; started by
    /// experiments.
    #[command(hide = true)]
    OwnDevices,
    /// One program of `programs`; started by experiments.
    #[command(hide = true)]
    Program(programs::ProgramArguments),
    /// Sends files by a read/write loop; started by experiments.
    #[command(hide = true)]
    Pump(pump::PumpArguments),
    /// Attacks a server; started by experiments.
    #[command(hide = true)]
    SiegeAttack(siege::AttackArguments),
}

fn main() -> Result<()> {
    match Arguments::parse().experiment {
        Experiment::All(arguments) => all::run(&arguments),
        Experiment::Peers(arguments) => peers::run(&arguments),
        Experiment::Path(arguments) => peers::path::run(&arguments),
        Experiment::Scaling(arguments) => scaling::run(&arguments),
        Experiment::Viewers(arguments) => viewers::run(&arguments),
        Experiment::Classes(arguments) => classes::run(&arguments),
        Experiment::Priority(arguments) => priority::run(&arguments),
        Experiment::Degraded(arguments) => degraded::run(&arguments),
        Experiment::Capacity(arguments) => capacity::run(&arguments),
        Experiment::Devices(arguments) => device_check::run(&arguments),
        Experiment::Wire(arguments) => wire_check::run(&arguments),
        Experiment::Cast(arguments) => cast::run(&arguments),
        Experiment::Fec(arguments) => fec::run(&arguments),
        Experiment::Framing(arguments) => lab_packets::framing(&arguments),
        Experiment::Nfs(arguments) => nfs::run(&arguments),
        Experiment::Transfers(arguments) => transfers::run(&arguments),
        Experiment::Onecopy(arguments) => onecopy::run(&arguments),
        Experiment::Programs(arguments) => programs::run(&arguments),
        Experiment::Program(arguments) => programs::program(&arguments),
        Experiment::Siege(arguments) => siege::run(&arguments),
        Experiment::OwnDevices => device::own(),
        Experiment::Pump(arguments) => pump::pump(&arguments),
        Experiment::SiegeAttack(arguments) => siege::attack(&arguments),
    }
}
