//! `upcalls`: functions that a core calls every 1, 5 and 20 ms, beside busy processes (MARS, third
//! experiment).

use crate::cores::Cores;
use anyhow::Result;
use reel_report::{Chart, Claim, CommonOptions, Report};
use serde_json::Value;

const PERIODS_MS: [u64; 3] = [1, 5, 20];
/// Processes that do nothing but work.
const HOGS: usize = 4;
/// A section of the core's own work, and the longest that one may be (`SECTION_NS_MAX` of reel-rt).
const SECTION_US: u64 = 50;
const SECTION_US_MAX: f64 = 200.0;
const FIFO: &str = "SCHED_FIFO";
const ORDINARY: &str = "ordinary";
const BUSY: &str = "beside busy processes";
const OWN: &str = "and beside own work";

/// Runs the experiment.
///
/// # Errors
/// A measured program that was not built or fails, and those of publishing the report.
pub fn run(arguments: &CommonOptions) -> Result<()> {
    let mut report = Report::new("upcalls");
    report.charts = [BUSY, OWN].map(|case| Chart { case, at: "period, ms", value: "p999_us" }).to_vec();
    report.fill(arguments, |report| measure(arguments, report))
}

fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    let cores = Cores::find()?;
    let seconds = arguments.seconds.unwrap_or(if arguments.quick { 1 } else { 20 });
    let runs = arguments.runs.unwrap_or(if arguments.quick { 1 } else { 3 });
    let fifo = cores.fifo_permitted();
    report.note(format!(
        "one core on processor {}, upcalls every {PERIODS_MS:?} ms of 20 us each, deadline at the end of the period; {HOGS} busy \
         processes on all processors; {runs} runs of {seconds} s",
        cores.cpu
    ));
    report.note(format!(
        "own work: background sections of about {SECTION_US} us, three quarters of the time; what one delays an upcall by is its processor time \
         after the upcall was due (a clock that counts what the hypervisor takes, too)"
    ));
    if !fifo {
        report.note("SCHED_FIFO is not permitted here: only the ordinary class was measured");
    }
    let hogs = (0..HOGS).map(|_| cores.hog()).collect::<Result<Vec<_>>>()?;
    for run in 0..runs {
        for (system, priority) in
            [(FIFO, 50), (ORDINARY, 0)].into_iter().filter(|(system, _)| fifo || *system != FIFO)
        {
            for (case, section_us) in [(BUSY, 0), (OWN, SECTION_US)] {
                let measured = cores.measure(
                    "upcalls",
                    &[
                        format!("periods={}", PERIODS_MS.map(|ms| ms.to_string()).join(",")),
                        format!("seconds={seconds}"),
                        format!("fifo={priority}"),
                        format!("section_us={section_us}"),
                    ],
                )?;
                rows(report, (case, system, run), &measured);
            }
        }
    }
    drop(hogs);
    if fifo {
        claim(report);
    }
    Ok(())
}

fn rows(report: &mut Report, (case, system, run): (&str, &str, usize), measured: &Value) {
    let number = |value: &Value, name: &str| value[name].as_f64().unwrap_or(f64::NAN);
    let mut upcalls: Vec<&Value> = measured["upcalls"].as_array().into_iter().flatten().collect();
    upcalls.sort_by_key(|upcall| upcall["period_ms"].as_u64());
    for upcall in upcalls {
        let of = |name: &str| number(upcall, name);
        let mut values = vec![
            ("calls", of("calls")),
            ("missed", of("late") + of("skipped")),
            ("overruns", of("overruns")),
            ("p50_us", of("p50_us")),
            ("p99_us", of("p99_us")),
            ("p999_us", of("p999_us")),
            ("max_us", of("max_us")),
        ];
        if case == OWN {
            let own = ["own_delay_us_max", "own_delay_us_p999", "section_us_p50", "section_us_max"];
            values.extend(own.map(|name| (name, number(measured, name))));
        }
        report.row(case, system, of("period_ms"), run, &values);
    }
}

fn claim(report: &mut Report) {
    let all = |case: &str, name: &'static str, period_ms: Option<u64>| -> Vec<f64> {
        let rows = report.rows.iter().filter(|row| row.case == case && row.system == FIFO);
        let rows = rows.filter(|row| period_ms.is_none_or(|ms| row.at == ms as f64));
        rows.filter_map(|row| row.values.get(name).copied()).collect()
    };
    let mut claims = Vec::new();
    for ms in PERIODS_MS {
        let share = |case| {
            let missed: f64 = all(case, "missed", Some(ms)).iter().sum();
            missed / (missed + all(case, "calls", Some(ms)).iter().sum::<f64>()).max(1.0)
        };
        for case in [BUSY, OWN] {
            claims.push(Claim::at_most(
                format!("{FIFO}, {case}: missed share of periods of {ms} ms"),
                share(case),
                0.0,
            ));
        }
    }
    let most = |name| all(OWN, name, None).into_iter().fold(0.0, f64::max);
    let own = [("longest", "own_delay_us_max"), ("99.9 %", "own_delay_us_p999")];
    claims.extend(own.map(|(which, name)| {
        let claim = format!("{FIFO}: own work delays an upcall by at most one longest section, us ({which})");
        Claim::at_most(claim, most(name), SECTION_US_MAX)
    }));
    claims.into_iter().for_each(|claim| report.claim(claim));
}
