//! A cast with FEC from the stored parity rows beside the same cast without.

use super::cast_rig::{CastRig, stream};
use crate::reel;
use anyhow::{Result, ensure};
use reel_report::{Claim, CommonOptions, Report, spread};
use reel_wire::CostMeter;
use reel_wire::space::ip;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Rows of data and of parity in each matrix.
const DATA_ROWS: f64 = 4.0;
const PARITY_ROWS: f64 = 1.0;
/// What a byte of parity may cost beyond a byte of data.
const COST_MAX: f64 = 1.2;

const DEVICE: &str = "fec0";

const CASE: &str = "cast, from disk";
const SYSTEMS: [(&str, bool); 2] = [("plain", false), ("with FEC", true)];

/// What one cast cost the server.
#[derive(Clone, Copy)]
struct Cost {
    cpu_s: f64,
    disk_bytes: f64,
    disk_reads: f64,
}

pub(super) fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    let dir = arguments.make_dir()?;
    let (seconds, rate_mbps, runs) = match arguments.quick {
        true => (2, 40, 1),
        false => (arguments.seconds.unwrap_or(20), 200, arguments.runs.unwrap_or(5)),
    };
    let stream = stream(&dir, seconds, rate_mbps)?;
    let mut rig = CastRig::make(&reel::binary(arguments.reel.as_deref())?, &dir, &stream, sink)?;
    report.note(format!(
        "cast: {seconds} s of a transport stream of {rate_mbps} Mb/s from five members (plain files), L = 20, D = 4, to a group behind an ifb, \
         which drops what it is given; runs alternate, each by a server that was started for it and has nothing in memory; cpu_s is the processor time of the server's process"
    ));
    let idle = idle_cpus(&rig)?;
    report.note(format!("cast: the idle server used {idle:.4} of a processor, which is not subtracted"));
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for run in 0..runs {
        // The one that goes first changes from run to run.
        let mut order = SYSTEMS;
        order.rotate_left(run % 2);
        let mut costs = [None; 2];
        for (system, with_fec) in order {
            rig.restart()?;
            let cost = one(&rig, &format!("run-{run}-{with_fec}"), with_fec, (seconds, report, system, run))?;
            costs[usize::from(with_fec)] = Some(cost);
        }
        if let [Some(plain), Some(with_fec)] = costs {
            let pairs = [
                with_fec.cpu_s / plain.cpu_s,
                with_fec.disk_bytes / plain.disk_bytes,
                with_fec.disk_reads / plain.disk_reads,
            ];
            ratios.iter_mut().zip(pairs).for_each(|(all, ratio)| all.push(ratio));
        }
    }
    claims(report, ratios);
    Ok(())
}

/// A device that drops casts as a card would send them.
fn sink() -> Result<()> {
    ip(&["link", "add", DEVICE, "type", "ifb"])?;
    ip(&["link", "set", DEVICE, "up", "multicast", "on"])?;
    ip(&["addr", "add", "10.71.1.1/24", "dev", DEVICE])?;
    ip(&["route", "add", "224.0.0.0/4", "dev", DEVICE])
}

fn one(
    rig: &CastRig,
    name: &str,
    with_fec: bool,
    (seconds, report, system, run): (u64, &mut Report, &str, usize),
) -> Result<Cost> {
    let meter = CostMeter::of_processes(rig.processes()?);
    let (cpu_before, disk_before, from) = (meter.read()?, rig.disk_use()?, Instant::now());
    rig.begin(name, with_fec)?;
    let cast = rig.until_end(name, Duration::from_secs(seconds + 30))?;
    let memory_bytes = rig.metric("reel_arena_taken_bytes")?;
    let (cpu, disk) = (meter.read()?.since(&cpu_before), rig.disk_use()?);
    let count = |what: &str| cast[what].as_f64().unwrap_or(f64::NAN);
    ensure!(with_fec == (count("fec_packets") > 0.0), "FEC was not as it was asked for: {cast}");
    let cost = Cost {
        cpu_s: cpu.server_s,
        disk_bytes: disk.bytes - disk_before.bytes,
        disk_reads: disk.reads - disk_before.reads,
    };
    let media_gb = count("packets") * 1316.0 / 1e9;
    let values = [
        ("cpu_s", cost.cpu_s),
        ("cpu_s_per_media_gb", cost.cpu_s / media_gb),
        ("disk_mb", cost.disk_bytes / 1e6),
        ("disk_reads", cost.disk_reads),
        ("memory_mb", memory_bytes / 1e6),
        ("packets", count("packets")),
        ("fec_packets", count("fec_packets")),
        ("late_packets", count("late_packets")),
        ("lost_packets", count("lost_packets")),
        ("seconds", from.elapsed().as_secs_f64()),
    ];
    report.row(CASE, system, if with_fec { PARITY_ROWS } else { 0.0 }, run, &values);
    Ok(cost)
}

/// Of one processor, while nothing is sent.
fn idle_cpus(rig: &CastRig) -> Result<f64> {
    let meter = CostMeter::of_processes(rig.processes()?);
    let (before, from) = (meter.read()?, Instant::now());
    sleep(Duration::from_secs(3));
    Ok(meter.read()?.since(&before).server_s / from.elapsed().as_secs_f64())
}

fn claims(report: &mut Report, ratios: [Vec<f64>; 3]) {
    let more = 1.0 + PARITY_ROWS / DATA_ROWS;
    let bars = [
        ("processor time", more * COST_MAX),
        ("bytes read from disk", more * 1.01),
        ("reads from disk", more * 1.01),
    ];
    for ((what, bar), mut all) in bars.into_iter().zip(ratios) {
        let (least, median, greatest) = spread(&mut all);
        report.note(format!("cast with FEC / without, {what}: {median:.3} ({least:.3} to {greatest:.3})"));
        report.claim(Claim::at_most(format!("cast with stored FEC / without: {what}"), median, bar));
    }
}
