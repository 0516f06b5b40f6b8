//! `udp`: what it costs a processor to send packets, lent to the device in trains, beside the ways
//! to have them copied; then 200 flows at their rates, and how far from its time each train leaves.
//!
//! No server is measured, but what front ends send packets with: the measured programs are examples
//! of `reel-ring` (trains as fast as they go) and `reel-udp` (flows at their rates). They are built
//! with `cargo build --release -p reel-ring --example trains` and `cargo build --release -p
//! reel-udp --example paced`. The claim is that of the zero-copy papers (MARS; Halvorsen's thesis)
//! for packets. It needs root, for devices in a network name space of its own.

mod network;

use anyhow::Result;
use network::{Net, TestNetwork};
use reel_report::{Chart, Claim, CommonOptions, Report, example};
use rustix::process::geteuid;
use serde_json::Value;
use std::path::PathBuf;

/// 12 bytes of header, 1316 of payload.
const PACKET_BYTES: usize = 1328;
/// The longest train, 61 kB.
const LONG: usize = 46;
/// Flows of the paced runs, and the rate of each.
const FLOWS: usize = 200;
const RATE_BPS: u64 = 8_000_000;

/// Payload that stays in the processor's cache, and payload that does not, in MiB. What a disk has
/// just read is not in the cache, or in a part of it at best.
const MEMORIES: [(&str, usize); 2] = [("hot", 2), ("cold", 512)];

const LENT: &str = "lent";
const COPIED: &str = "copied";
const SENDMSG: &str = "sendmsg";
const SENDMMSG: &str = "sendmmsg";
const SENDTO: &str = "sendto";

/// Ways and lengths of trains on the ifb. A call for each packet has no trains.
const ON_IFB: [(&str, &[usize]); 8] = [
    (LENT, &[1, 6, 20, LONG]),
    (COPIED, &[1, 6, 20, LONG]),
    (SENDMSG, &[6, 20, LONG]),
    (SENDMMSG, &[LONG]),
    (SENDTO, &[1]),
    ("lent-unregistered", &[LONG]),
    ("lent-apart", &[6]),
    ("copied-apart", &[6, LONG]),
];
const ELSEWHERE: [(&str, &[usize]); 4] =
    [(LENT, &[LONG]), (COPIED, &[LONG]), (SENDMSG, &[LONG]), (SENDTO, &[1])];

struct Programs {
    trains: PathBuf,
    paced: PathBuf,
}

/// Runs the experiment.
///
/// # Errors
/// A measured program that was not built or fails, and those of publishing the report.
pub(crate) fn run(arguments: &CommonOptions) -> Result<()> {
    let mut report = Report::new("udp");
    let chart = |case| Chart { case, at: "bytes of a train", value: "mb_per_cpu_s" };
    report.charts = ["ifb, cold", "ifb, hot", "loopback, hot", "veth, hot"].map(chart).to_vec();
    report.fill(arguments, |report| measure(arguments, report))
}

fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    if !geteuid().is_root() && arguments.quick {
        report.note("skipped: it makes network devices in a name space of its own, which needs root");
        return Ok(());
    }
    let programs = Programs::find()?;
    let network = TestNetwork::make()?;
    let (runs, seconds) = match arguments.quick {
        true => (1, 0.02),
        false => (arguments.runs.unwrap_or(3), arguments.seconds.map_or(0.25, |seconds| seconds as f64)),
    };
    notes(report);
    for run in 0..runs {
        for (memory, mib) in MEMORIES {
            let mib = if arguments.quick { mib.min(16) } else { mib };
            for net in Net::ALL {
                // What has a receiver copies, and the receiver reads what is copied: cold memory
                // would show nothing more.
                if net != Net::Ifb && memory == "cold" {
                    continue;
                }
                let ways: &[_] = if net == Net::Ifb { &ON_IFB } else { &ELSEWHERE };
                for (way, packets) in
                    ways.iter().flat_map(|(way, all)| all.iter().map(move |packets| (*way, *packets)))
                {
                    let words = [
                        "send".to_owned(),
                        format!("way={way}"),
                        format!("packets={packets}"),
                        format!("seconds={seconds}"),
                        format!("memory={mib}"),
                    ];
                    let output = network.send(net, (&programs.trains, &programs.trains), &words)?;
                    let case = format!("{}, {memory}", net.name());
                    report.row(&case, way, (packets * PACKET_BYTES) as f64, run, &values(&output));
                }
            }
        }
        paced(arguments, report, (&network, &programs), run)?;
    }
    claim(report);
    Ok(())
}

fn notes(report: &mut Report) {
    report.note(
        "packets of 1328 bytes, each with a header of its own that is written before it is sent; mb_per_cpu_s is bytes (10^6) for a second of the \
         sending process, with all that the kernel did in its name; one thread; not paced",
    );
    report.note(
        "lent: the ring sends trains from registered memory, zero-copy; copied: the ring, the same trains, copied by the kernel; sendmsg: a blocking \
         call for each train (GSO), copied; sendmmsg: one call for 46 packets, each copied and sent for itself; sendto: a call for each packet; \
         -apart: headers in another place than payloads; -unregistered: the ring looks up pages for each train",
    );
    report.note("hot: 2 MiB of payload over and over, in the cache; cold: 512 MiB, from memory, as what a disk has read");
    report.note(
        "ifb drops trains whole where a card would send them, and cards without UDP segmentation add the cost of cutting; on loopback and veth \
         the receiver's side of the kernel runs in the sender's time, until its socket's buffer is full",
    );
    report.note(format!(
        "paced: {FLOWS} flows of {} Mb/s from one thread over one socket by the sender of reel-udp, headers apart, all from one payload; how it sends is its own choice",
        RATE_BPS / 1_000_000
    ));
}

fn values(output: &Value) -> Vec<(&'static str, f64)> {
    let of = |name: &str| output[name].as_f64().unwrap_or(f64::NAN);
    let mut values = vec![
        ("mb_per_cpu_s", of("bytes") / of("cpu_s") / 1e6),
        ("packets_per_cpu_s", of("packets") / of("cpu_s")),
        ("packets_per_s", of("packets") / of("seconds")),
        ("refused", of("refused")),
    ];
    let reported = of("lent_bytes") + of("copied_bytes");
    if reported > 0.0 {
        values.push(("copied_share", of("copied_bytes") / reported));
    }
    values
}

fn paced(
    arguments: &CommonOptions,
    report: &mut Report,
    (network, programs): (&TestNetwork, &Programs),
    run: usize,
) -> Result<()> {
    let seconds = if arguments.quick { 0.2 } else { 3.0 };
    for net in Net::ALL {
        let words = [format!("flows={FLOWS}"), format!("rate={RATE_BPS}"), format!("seconds={seconds}")];
        let output = network.send(net, (&programs.paced, &programs.trains), &words)?;
        let of = |name: &str| output[name].as_f64().unwrap_or(f64::NAN);
        let nominal = FLOWS as f64 * RATE_BPS as f64 / 8.0 * of("seconds");
        let reported = of("lent_bytes") + of("copied_after_all_bytes");
        let mut values = vec![
            ("rate_share", of("bytes") / nominal),
            ("packets_of_a_train", of("packets") / of("trains")),
            ("mb_per_cpu_s", of("bytes") / of("cpu_s") / 1e6),
            ("late_p50_us", of("late_p50_us")),
            ("late_p99_us", of("late_p99_us")),
            ("late_p999_us", of("late_p999_us")),
            ("refused", of("refused_packets")),
            ("lent_share", of("lent_bytes") / of("bytes")),
        ];
        if reported > 0.0 {
            values.push(("copied_share", of("copied_after_all_bytes") / reported));
        }
        report.row("paced", net.name(), FLOWS as f64, run, &values);
    }
    Ok(())
}

fn claim(report: &mut Report) {
    let long = (LONG * PACKET_BYTES) as f64;
    for (memory, _) in MEMORIES {
        let case = format!("ifb, {memory}");
        let rate = |system: &str, at: f64| report.median_or_nan(&case, system, at, "mb_per_cpu_s");
        let lent = rate(LENT, long);
        let claims = [
            (
                "trains of 61 kB, copied (better of ring and sendmsg)",
                rate(COPIED, long).max(rate(SENDMSG, long)),
            ),
            ("single packets by sendmmsg, copied", rate(SENDMMSG, long)),
            ("single packets by sendto, copied", rate(SENDTO, PACKET_BYTES as f64)),
        ]
        .map(|(what, copied)| {
            let claim = format!("{case}: bytes per CPU second, trains of 61 kB lent / {what}");
            Claim::at_least(claim, lent / copied, 4.0)
        });
        claims.into_iter().for_each(|claim| report.claim(claim));
    }
    let copied = |case: &str| report.median_or_nan(case, LENT, long, "copied_share");
    let claims = [
        Claim::at_most(
            "ifb: share of lent bytes that the kernel copied".to_owned(),
            copied("ifb, cold"),
            0.0,
        ),
        Claim::at_least(
            "paced on ifb: share of the rate that was sent".to_owned(),
            report.median_or_nan("paced", "ifb", FLOWS as f64, "rate_share"),
            0.99,
        ),
    ];
    claims.into_iter().for_each(|claim| report.claim(claim));
}

impl Programs {
    fn find() -> Result<Programs> {
        Ok(Programs { trains: example("reel-ring", "trains")?, paced: example("reel-udp", "paced")? })
    }
}
