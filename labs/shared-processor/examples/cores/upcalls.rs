//! Upcalls of a core beside busy processes (MARS, experiment 3), and beside the core's own work.

use crate::Arguments;
use crate::meter::{Measured, percentile, rounds_of, work};
use reel_ring::{Done, DriverChoice, RingConfig};
use reel_rt::{
    Core, CoreConfig, Next, Scheduling, Service, TaskId, TaskKind, UpcallSpec, now_ns, real_time, spawn,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The time of one call, and its budget.
const CALL_NS: u64 = 20_000;
const BUDGET_NS: u64 = 100_000;

/// Three upcalls and, if asked for, work of the core's own that never ends.
struct PeriodicUpcalls {
    periods: HashMap<TaskId, (u64, Vec<u64>)>,
    call_rounds: u64,
    section_rounds: u64,
    /// The last section, in wall-clock time and in the thread's processor time.
    last: Section,
    /// Upper bound of the part of each upcall's delay that the core itself caused.
    own_delays: Vec<u64>,
    sections: Vec<u64>,
    report: Sender<Value>,
    scheduling: Scheduling,
}

#[derive(Clone, Copy, Default)]
struct Section {
    from_ns: u64,
    to_ns: u64,
    cpu_ns: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Measured {
    let periods: Vec<u64> = arguments.text("periods").split(',').filter_map(|ms| ms.parse().ok()).collect();
    let (seconds, priority) = (arguments.number("seconds", 10), arguments.number("fifo", 0));
    let section_ns = arguments.number("section_us", 0) * 1000;
    let ring = RingConfig { entries: 64, driver: DriverChoice::Auto };
    let cpu = Some(arguments.number("cpu", 1) as usize);
    let config = CoreConfig { name: "upcalls".to_owned(), cpu, ring, arena: None };
    let (report, reported) = channel();
    let core = spawn(config, move |core, _| {
        let call_rounds = rounds_of(CALL_NS);
        let section_rounds = rounds_of(section_ns);
        // After the rounds are measured: with the same clock, but before the thread can starve
        // others.
        let scheduling =
            if priority > 0 { real_time("upcalls", priority as u8) } else { Scheduling::Ordinary };
        let begun_ns = now_ns() + 10_000_000;
        let mut all = HashMap::new();
        for ms in periods {
            let period_ns = ms * 1_000_000;
            let spec = UpcallSpec { period_ns, budget_ns: BUDGET_NS, delay_ns: period_ns };
            if let Some(task) = core.tasks.add_upcall(spec, begun_ns) {
                all.insert(task, (ms, Vec::new()));
            }
        }
        if section_ns > 0 {
            core.tasks.add(TaskKind::Background, begun_ns);
        }
        let ends_ns = begun_ns + seconds * 1_000_000_000;
        core.at(ends_ns, 0);
        PeriodicUpcalls {
            periods: all,
            call_rounds,
            section_rounds,
            last: Section::default(),
            own_delays: Vec::new(),
            sections: Vec::new(),
            report,
            scheduling,
        }
    });
    let core = core.map_err(|error| error.to_string())?;
    let report =
        reported.recv_timeout(Duration::from_secs(seconds + 30)).map_err(|error| error.to_string())?;
    core.join().map_err(|error| error.to_string())?;
    Ok(report)
}

impl Service for PeriodicUpcalls {
    type Message = ();

    fn message(&mut self, _core: &mut Core, (): ()) {}

    fn done(&mut self, _core: &mut Core, _done: Done) {}

    fn timer(&mut self, core: &mut Core, _token: u64) {
        self.publish(core);
        core.stop();
    }

    fn task(&mut self, core: &mut Core, task: TaskId) -> Next {
        let (from_ns, cpu_ns) = (now_ns(), crate::meter::thread_cpu_ns());
        let due_ns = core.tasks.upcall_due_ns(task);
        let next = match self.periods.get_mut(&task) {
            Some((_, late)) => {
                let due_ns = due_ns.unwrap_or(from_ns);
                late.push(from_ns - due_ns);
                // Only the processor time of the section that ran when the call was due can be its
                // share of the delay.
                let Section { from_ns, to_ns, cpu_ns } = self.last;
                let own_ns = if from_ns < due_ns && due_ns < to_ns { cpu_ns.min(to_ns - due_ns) } else { 0 };
                self.own_delays.push(own_ns);
                work(self.call_rounds);
                Next::Done
            }
            None => {
                work(self.section_rounds);
                // A quarter is left idle: a thread with SCHED_FIFO that never sleeps is stopped for
                // 5 % of each second.
                let now_ns = now_ns();
                Next::Sleep { until_ns: now_ns + (now_ns - from_ns) / 3 }
            }
        };
        let cpu_ns = crate::meter::thread_cpu_ns() - cpu_ns;
        self.last = Section { from_ns, to_ns: now_ns(), cpu_ns };
        self.sections.push(cpu_ns);
        next
    }
}

impl PeriodicUpcalls {
    fn publish(&mut self, core: &Core) {
        let upcalls: Vec<Value> = self
            .periods
            .iter_mut()
            .map(|(task, (ms, late))| {
                late.sort_unstable();
                let counts = core.tasks.upcall_counts(*task).unwrap_or_default();
                let us = |part| percentile(late, part) as f64 / 1e3;
                json!({
                    "period_ms": *ms, "calls": counts.calls, "late": counts.late, "skipped": counts.skipped,
                    "overruns": counts.overruns, "p50_us": us(0.5), "p99_us": us(0.99), "p999_us": us(0.999),
                    "max_us": us(1.0)
                })
            })
            .collect();
        self.sections.sort_unstable();
        self.own_delays.sort_unstable();
        let _ = self.report.send(json!({
            "scheduling": self.scheduling.to_string(),
            "upcalls": upcalls,
            "own_delay_us_p999": percentile(&self.own_delays, 0.999) as f64 / 1e3,
            "own_delay_us_max": percentile(&self.own_delays, 1.0) as f64 / 1e3,
            "section_us_p50": percentile(&self.sections, 0.5) as f64 / 1e3,
            "section_us_max": percentile(&self.sections, 1.0) as f64 / 1e3,
        }));
    }
}
