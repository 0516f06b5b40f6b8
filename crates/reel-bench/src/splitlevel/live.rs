//! Experiments E1 to E6, live: what taking messages costs beyond the work that they are.

use super::{ALL, REEL, REEL_FIFO, THREADS, THREADS_FIFO, Who, median};
use crate::ExperimentArguments;
use crate::cores::Cores;
use crate::report::Claim;
use crate::sheet::Sheet;
use anyhow::Result;

/// What 0.9 ms of work per message were in 1991, against a system call of 34 us, are 2.5 us against one of about 95 ns.
const WORK_NS: f64 = 2_500.0;
const WORK_1991_NS: f64 = 900_000.0;
/// Today's time for one of 1991 where system calls are what decides.
const BY_CALLS: f64 = WORK_NS / WORK_1991_NS;
/// The same where the processor changes hands: a switch between processes took 180 to 297 us, and takes 3 to 5. Divided like system
/// calls, two switches would take longer than the work of a message, and nobody could ever get ahead of his time.
const BY_SWITCHES: f64 = 1.0 / 60.0;

/// One workload: streams, and the work of one message.
struct Load {
    case: &'static str,
    at: f64,
    streams: Vec<Stream>,
    work_1991_ns: f64,
    /// Today's time for one of 1991.
    scale: f64,
    members: u64,
    /// Only what shares a processor among members is measured, with this workahead policy.
    workahead: Option<&'static str>,
}

/// In the thesis' units.
#[derive(Clone, Copy)]
struct Stream {
    per_second: f64,
    delay_ms: f64,
    buffer: u64,
}

pub(super) fn measure(
    arguments: &ExperimentArguments,
    sheet: &mut Sheet,
    cores: &Cores,
    fifo: bool,
    runs: usize,
) -> Result<()> {
    sheet.note(format!(
        "E1 to E4: all times of the thesis divided by {:.0}, so that the work of a message is to a system call what it was; E5 and E6 by \
         {:.0}, so that it is to a switch between processes what it was; a device on processor {} fills the buffers; overhead is the \
         takers' processor time less that of the work itself, and less `floor_ns`: what the machine takes of a thread that does such \
         work and waits for nothing; messages of one byte, by pipes for threads, by a channel for tokio",
        1.0 / BY_CALLS,
        1.0 / BY_SWITCHES,
        cores.other_cpu
    ));
    sheet.note("members of E5 and E6 are threads of one process: what a change of address space costs is in `processes` above");
    let ms = if arguments.quick { 20 } else { 200 };
    let loads = loads(arguments.quick);
    for run in 0..runs {
        for load in &loads {
            for who in ALL.into_iter().filter(|who| fifo || who.fifo == 0) {
                if load.workahead.is_some() && who != REEL {
                    continue;
                }
                one(sheet, cores, load, who, (run, ms))?;
            }
        }
    }
    claim(sheet, fifo, arguments.quick);
    Ok(())
}

fn one(sheet: &mut Sheet, cores: &Cores, load: &Load, who: Who, (run, ms): (usize, u64)) -> Result<()> {
    let scale = load.scale;
    let stream = |stream: &Stream| {
        let (period_ns, delay_ns) = (1e9 / stream.per_second * scale, stream.delay_ms * 1e6 * scale);
        format!("{period_ns:.0}:{delay_ns:.0}:{}", stream.buffer)
    };
    let told = |calls: u64, ms: u64| {
        cores.measure(
            "streams",
            &[
                format!("who={}", who.who),
                format!("fifo={}", who.fifo),
                format!("streams={}", load.streams.iter().map(stream).collect::<Vec<_>>().join(",")),
                format!("work={:.0}", load.work_1991_ns * scale),
                format!("members={}", load.members),
                format!("workahead={}", load.workahead.unwrap_or_default()),
                format!("ms={ms}"),
                format!("calls={calls}"),
            ],
        )
    };
    let timed = told(0, ms)?;
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
    if let Some(calls) = told(1, ms / 2)?["calls"].as_f64() {
        // Of the takers and of the device.
        values.push(("calls", calls));
    }
    let name = match load.workahead {
        Some(policy) => format!("{}, {policy}", who.name),
        None => who.name.to_owned(),
    };
    sheet.row(load.case, &name, load.at, run, &values);
    Ok(())
}

fn loads(quick: bool) -> Vec<Load> {
    let high = Stream { per_second: 50.0, delay_ms: 250.0, buffer: 12 };
    let low = Stream { per_second: 50.0, delay_ms: 5.0, buffer: 1 };
    let load = |case, at: f64, streams: Vec<Stream>| Load {
        case,
        at,
        streams,
        work_1991_ns: WORK_1991_NS,
        scale: BY_CALLS,
        members: 1,
        workahead: None,
    };
    let mut loads = Vec::new();
    for count in [2, 6, 10, 14, 18] {
        loads.push(load("E1 streams", f64::from(count), vec![high; count as usize]));
    }
    for (per_second, delay_ms) in [(50.0, 200.0), (100.0, 100.0), (150.0, 67.0), (200.0, 50.0)] {
        let stream = Stream { per_second, delay_ms, buffer: 10 };
        loads.push(load("E2 rate", per_second, vec![stream; 5]));
    }
    for lows in [0, 1, 3, 5] {
        let streams = [vec![low; lows], vec![high; 8 - lows]].concat();
        loads.push(load("E3 low delay", lows as f64, streams));
    }
    for buffer in [1, 2, 3, 4, 8, 16] {
        let stream = Stream { per_second: 50.0, delay_ms: 500.0, buffer };
        let load = load("E4 buffer", buffer as f64, vec![stream; 8]);
        loads.push(Load { work_1991_ns: 1_500_000.0, ..load });
    }
    for members in [1, 2, 3] {
        let far = Stream { delay_ms: 200.0, buffer: 10, ..high };
        let near = [vec![low; members as usize], vec![far; 12 - members as usize]].concat();
        for (policy, streams) in [("low delay", near), ("high delay", vec![far; 12])] {
            let load = load("E5 members", members as f64, streams);
            loads.push(Load { members, scale: BY_SWITCHES, workahead: Some(policy), ..load });
        }
    }
    for members in [1, 2, 4, 8] {
        let stream = Stream { delay_ms: 200.0, buffer: 10, ..high };
        for policy in ["within", "global"] {
            let load = load("E6 workahead", members as f64, vec![stream; 8]);
            loads.push(Load { members, scale: BY_SWITCHES, workahead: Some(policy), ..load });
        }
    }
    if quick {
        // The first of each case, and the last.
        let ends: Vec<f64> = vec![2.0, 50.0, 0.0, 1.0];
        loads.retain(|load| ends.contains(&load.at) || load.workahead.is_some() && load.at == 2.0);
    }
    loads
}

fn claim(sheet: &mut Sheet, fifo: bool, quick: bool) {
    if quick {
        return;
    }
    let pairs: &[(Who, Who)] =
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
            let ns = |who: &Who| median(sheet, case, who.name, at, "overhead_ns");
            let (our_ns, their_ns) = (ns(ours), ns(theirs));
            let claim = format!(
                "{case}, {at}: overhead, {} ({our_ns:.0} ns) / {} ({their_ns:.0})",
                ours.name, theirs.name
            );
            sheet.claim(Claim::at_most(claim, our_ns / their_ns, 0.25));
        }
    }
    // The thesis' anchors: staying within the member halves the cost, and with one member there is no difference.
    for (members, bar) in [(1.0, 1.1), (4.0, 0.5)] {
        let of =
            |policy: &str| median(sheet, "E6 workahead", &format!("reel, {policy}"), members, "overhead_ns");
        let (within_ns, global_ns) = (of("within"), of("global"));
        let claim = format!(
            "E6, {members} members: overhead, stay within the member ({within_ns:.0} ns) / globally earliest ({global_ns:.0})"
        );
        sheet.claim(Claim::at_most(claim, within_ns / global_ns, bar));
    }
}
