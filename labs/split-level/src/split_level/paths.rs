//! Tables 7.1 and 7.2: the cost of single steps.

use super::{ALL, REEL, REEL_FIFO, System, THREADS, THREADS_FIFO, TOKIO};
use crate::cores::Cores;
use anyhow::Result;
use reel_report::{Claim, CommonOptions, Report};

/// A row of the tables: what it is called there, and by the measured program for us and for
/// threads.
struct Path {
    case: &'static str,
    ours: &'static str,
    threads: &'static str,
    tokio: bool,
    between_processes: bool,
    /// Steps of one measurement, a hundredth of it for a quick look.
    count: u64,
}

const fn path(case: &'static str, name: &'static str, tokio: bool, count: u64) -> Path {
    Path { case, ours: name, threads: name, tokio, between_processes: false, count }
}

const fn between(
    case: &'static str,
    ours: &'static str,
    threads: &'static str,
    tokio: bool,
    count: u64,
) -> Path {
    Path { case, ours, threads, tokio, between_processes: true, count }
}

const PATHS: [Path; 8] = [
    path("7.1 deadline change", "deadline", true, 300_000),
    path("7.1 switch", "switch", true, 300_000),
    path("7.1 preemption", "preempt", false, 5_000),
    between("7.1 switch, processes", "process-switch", "process-futex", false, 30_000),
    between("7.1 preemption, proc.", "process-preempt", "process-preempt", false, 3_000),
    path("7.2 transfer", "transfer", true, 300_000),
    path("7.2 + switch", "message", true, 300_000),
    between("7.2 + switch, processes", "process-message", "process-message", true, 30_000),
];

/// In-process steps may cost this part of what they cost threads; steps between processes as much.
const PART: f64 = 0.25;
/// System calls of 100,000 messages that are not counted: those for the way in and out of the
/// measured loop.
const CALLS: f64 = 0.001;

pub(super) fn measure(
    arguments: &CommonOptions,
    report: &mut Report,
    cores: &Cores,
    fifo: bool,
    runs: usize,
) -> Result<()> {
    report.note(format!("all on processor {}; ns of one step, system calls of one step", cores.cpu));
    report.note(
        "system calls are counted in runs of their own by the kernel's tracepoint raw_syscalls:sys_enter, with threads started \
         meanwhile; between processes, those of one side per step of that side. What watches over a shared core (20 looks a \
         second) is counted where it falls",
    );
    report.note(
        "reel gives way at yield points, threads are preempted: `preemption` is from the time at which the other is due until it \
         runs; threads hand over by futex between processes, and by sched_yield under FIFO within one; tokio has no deadlines: its \
         `deadline change` is a yield to itself",
    );
    for run in 0..runs {
        for path in &PATHS {
            for system in ALL {
                let name = if system.program == "split" { path.ours } else { path.threads };
                if (system.fifo > 0 && !fifo) || (system == TOKIO && !path.tokio) {
                    continue;
                }
                one(arguments, report, cores, (path.case, name, path.count), system, run)?;
            }
        }
        // Not a way to wait for a message, but the cheapest way of all from one process to another.
        if fifo {
            let yields = System { name: "sched_yield, FIFO", ..THREADS_FIFO };
            let case = "7.1 switch, processes";
            one(arguments, report, cores, (case, "process-switch", 30_000), yields, run)?;
        }
    }
    claim(report, fifo, arguments.quick);
    Ok(())
}

fn one(
    arguments: &CommonOptions,
    report: &mut Report,
    cores: &Cores,
    (case, name, count): (&str, &str, u64),
    system: System,
    run: usize,
) -> Result<()> {
    let count = if arguments.quick { count / 100 } else { count };
    let measured = |calls: u64| {
        let fields = [format!("system={}", system.program), format!("path={name}"), format!("count={count}")];
        cores.measure(
            "path",
            &[&fields[..], &[format!("fifo={}", system.fifo), format!("calls={calls}")]].concat(),
        )
    };
    let timed = measured(0)?;
    let mut values = vec![("ns", timed["ns"].as_f64().unwrap_or(f64::NAN))];
    if let Some(calls) = measured(1)?["calls"].as_f64() {
        values.push(("calls", calls));
    }
    report.row(case, system.name, 0.0, run, &values);
    Ok(())
}

fn claim(report: &mut Report, fifo: bool, quick: bool) {
    let pairs: &[(System, System)] =
        if fifo { &[(REEL, THREADS), (REEL_FIFO, THREADS_FIFO)] } else { &[(REEL, THREADS)] };
    for path in &PATHS {
        let bar = if path.between_processes { 1.0 } else { PART };
        for (ours, theirs) in pairs {
            let ns = |system: &System| report.median_or_nan(path.case, system.name, 0.0, "ns");
            let (our_ns, their_ns) = (ns(ours), ns(theirs));
            let claim =
                format!("{}: {} ({our_ns:.0} ns) / {} ({their_ns:.0})", path.case, ours.name, theirs.name);
            report.claim(Claim::at_most(claim, our_ns / their_ns, bar));
        }
    }
    if quick {
        // Too few steps for the way in and out not to count.
        return;
    }
    for path in PATHS.iter().filter(|path| !path.between_processes && path.ours != "preempt") {
        let calls = report.median_or_nan(path.case, REEL.name, 0.0, "calls");
        // Without the kernel's count there is no claim, rather than one that holds.
        if calls.is_finite() {
            report.claim(Claim::at_most(format!("{}: system calls of a step", path.case), calls, CALLS));
        }
    }
}
