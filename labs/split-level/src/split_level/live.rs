//! Experiments E1 to E6, live: what taking messages costs beyond the work that they are.

use super::workloads::{BY_CALLS, BY_SWITCHES, Stream, WORKLOADS, Workload};
use super::{ALL, REEL, REEL_FIFO, System, THREADS, THREADS_FIFO};
use crate::cores::Cores;
use anyhow::Result;
use reel_report::{Claim, CommonOptions, Report};

pub(super) fn measure(
    arguments: &CommonOptions,
    report: &mut Report,
    cores: &Cores,
    fifo: bool,
    runs: usize,
) -> Result<()> {
    report.note(format!(
        "E1 to E4: all times of the thesis divided by {:.0}, so that the work of a message is to a system call what it was; E5 and E6 by \
         {:.0}, so that it is to a switch between processes what it was; a device on processor {} fills the buffers; overhead is the \
         takers' processor time less that of the work itself, and less `floor_ns`: what the machine takes of a thread that does such \
         work and waits for nothing; messages of one byte, by pipes for threads, by a channel for tokio",
        1.0 / BY_CALLS,
        1.0 / BY_SWITCHES,
        cores.other_cpu
    ));
    report.note("members of E5 and E6 are threads of one process: what a change of address space costs is in `processes` above");
    let ms = if arguments.quick { 20 } else { 200 };
    for run in 0..runs {
        for load in WORKLOADS.iter().filter(|load| load.is_quick || !arguments.quick) {
            for system in ALL.into_iter().filter(|system| fifo || system.fifo == 0) {
                if load.workahead.is_some() && system != REEL {
                    continue;
                }
                one(report, cores, load, system, (run, ms))?;
            }
        }
    }
    claim(report, fifo, arguments.quick);
    Ok(())
}

fn one(
    report: &mut Report,
    cores: &Cores,
    load: &Workload,
    system: System,
    (run, ms): (usize, u64),
) -> Result<()> {
    let scale = load.scale;
    let stream = |stream: Stream| {
        let (period_ns, delay_ns) = (1e9 / stream.per_second * scale, stream.delay_ms * 1e6 * scale);
        format!("{period_ns:.0}:{delay_ns:.0}:{}", stream.buffer)
    };
    let measured = |calls: u64, ms: u64| {
        cores.measure(
            "streams",
            &[
                format!("system={}", system.program),
                format!("fifo={}", system.fifo),
                format!("streams={}", load.streams().map(stream).collect::<Vec<_>>().join(",")),
                format!("work={:.0}", load.work_1991_ns * scale),
                format!("members={}", load.members),
                format!("workahead={}", load.workahead.unwrap_or_default()),
                format!("ms={ms}"),
                format!("calls={calls}"),
            ],
        )
    };
    let timed = measured(0, ms)?;
    let number = |name: &str| timed[name].as_f64().unwrap_or(f64::NAN);
    let names = [
        "overhead_ns",
        "overhead_percent",
        "work_percent",
        "floor_ns",
        "late_share",
        "device_ns",
        "hand_overs",
    ];
    let mut values = names.map(|name| (name, number(name))).to_vec();
    if let Some(calls) = measured(1, ms / 2)?["calls"].as_f64() {
        // Of the takers and of the device.
        values.push(("calls", calls));
    }
    let name = match load.workahead {
        Some(policy) => format!("{}, {policy}", system.name),
        None => system.name.to_owned(),
    };
    report.row(load.case, &name, load.at, run, &values);
    Ok(())
}

fn claim(report: &mut Report, fifo: bool, quick: bool) {
    if quick {
        return;
    }
    let pairs: &[(System, System)] =
        if fifo { &[(REEL, THREADS), (REEL_FIFO, THREADS_FIFO)] } else { &[(REEL, THREADS)] };
    let places = [
        ("E1 streams", 6.0),
        ("E1 streams", 18.0),
        ("E2 rate", 50.0),
        ("E2 rate", 200.0),
        ("E3 low delay", 3.0),
    ];
    for (case, at) in places.into_iter().chain([("E4 buffer", 4.0), ("E4 buffer", 16.0)]) {
        for (ours, theirs) in pairs {
            let ns = |system: &System| report.median_or_nan(case, system.name, at, "overhead_ns");
            let (our_ns, their_ns) = (ns(ours), ns(theirs));
            let claim = format!(
                "{case}, {at}: overhead, {} ({our_ns:.0} ns) / {} ({their_ns:.0})",
                ours.name, theirs.name
            );
            report.claim(Claim::at_most(claim, our_ns / their_ns, 0.25));
        }
    }
    // The thesis' anchors: staying within the member halves the cost, and with one member there is
    // no difference.
    for (members, bar) in [(1.0, 1.1), (4.0, 0.5)] {
        let of = |policy: &str| {
            report.median_or_nan("E6 workahead", &format!("reel, {policy}"), members, "overhead_ns")
        };
        let (within_ns, global_ns) = (of("within"), of("global"));
        let claim = format!(
            "E6, {members} members: overhead, stay within the member ({within_ns:.0} ns) / globally earliest ({global_ns:.0})"
        );
        report.claim(Claim::at_most(claim, within_ns / global_ns, bar));
    }
}
