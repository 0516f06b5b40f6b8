//! What is printed: a line while it runs, a table and JSON at the end.

use anyhow::Result;
use reel_load::{Outcome, PacedReads, Plan, Reads, Reason, Sample, Viewers, Viewing};
use reel_report::{Claim, Machine};
use reel_testkit::Percentiles;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The line that is overwritten every second.
pub(crate) fn line(now: &Sample, before: &Sample) -> String {
    let seconds = (now.at_s - before.at_s).max(1e-3);
    let received = |sample: &Sample| sample.bytes + sample.download_bytes;
    let mbit_per_s = (received(now) - received(before)) as f64 * 8.0 / 1e6 / seconds;
    let Sample { at_s, starting, playing, stalled, paused, refused, failed, late_bytes, .. } = now;
    let mut line = format!("{at_s:5.0} s  {playing} playing, {stalled} stalled");
    for (count, what) in
        [(starting, "starting"), (paused, "paused"), (refused, "refused"), (failed, "failed")]
    {
        if *count > 0 {
            let _ = write!(line, ", {count} {what}");
        }
    }
    let _ = write!(line, ", {late_bytes} late bytes, {mbit_per_s:.0} Mb/s");
    line
}

/// The table at the end.
pub(crate) fn table(plan: &Plan, outcome: &Outcome) -> String {
    let mut table = Table(String::new());
    let ended = if outcome.interrupted { " (interrupted)" } else { "" };
    table.row("run", format!("{:.1} s{ended}, seed {}: {}", outcome.took_s, plan.seed, plan.urls.join(" ")));
    match (&plan.viewing, &outcome.paced) {
        _ if plan.viewers == 0 => {}
        (Viewing::Paced(_), paced) => table.paced(&outcome.viewers, &paced.clone().unwrap_or_default()),
        (Viewing::Hls(_), _) => table.viewers(&outcome.viewers),
    }
    for (name, reads) in [("downloads", &outcome.downloads), ("browsers", &outcome.browsers)] {
        if let Some(reads) = reads {
            table.reads(name, reads);
        }
    }
    let client = &outcome.client;
    table.row(
        "fleet",
        format!("{} threads; their own lateness {}", client.threads, spread(&client.tick_late_ms)),
    );
    table.0
}

/// The same for programs: one row, the outcome.
pub(crate) fn json(plan: &Plan, outcome: &Outcome) -> Result<Value> {
    let claim = |claim: &str, count: u64| Claim::at_most(claim.to_owned(), count as f64, 0.0);
    let claims = [claim("late bytes", outcome.late_bytes()), claim("stalls", outcome.viewers.stalls)];
    Ok(json!({
        "bench": "load",
        "machine": serde_json::to_value(Machine::here())?,
        "plan": serde_json::to_value(plan)?,
        "rows": [serde_json::to_value(outcome)?],
        "claims": serde_json::to_value(claims)?,
    }))
}

struct Table(String);

impl Table {
    fn row(&mut self, name: &str, text: String) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{name:<11} {text}");
    }

    fn viewers(&mut self, all: &Viewers) {
        let Viewers { came, sessions, admitted, started, refused, failed, retries, .. } = all;
        self.row(
            "viewers",
            format!("{came} came, {sessions} sessions: {admitted} admitted, {started} started, {refused} refused, {failed} failed"),
        );
        self.reasons("refused", &all.refusals);
        self.reasons("failed", &all.failures);
        if *retries > 0 {
            self.row("retries", format!("{retries} requests"));
        }
        self.row("start-up", spread(&all.startup_ms));
        if all.pauses + all.seeks > 0 {
            let to_picture = spread(&all.seek_ms);
            self.row(
                "remote",
                format!("{} pauses, {} seeks; seek to picture {to_picture}", all.pauses, all.seeks),
            );
        }
        let Viewers { stalls, stalled_sessions, stalled_s, longest_stall_s, .. } = all;
        self.row(
            "stalls",
            format!("{stalls} in {stalled_sessions} sessions, {stalled_s:.3} s, the longest {longest_stall_s:.3} s"),
        );
        let Viewers { bytes, late_bytes, segments, late_segments, latest_s, .. } = all;
        let first = all.first_late_s.map_or(String::new(), |s| format!(", the first at {s:.1} s"));
        self.row(
            "late",
            format!(
                "{late_bytes} of {bytes} bytes ({:.4} %), in {late_segments} of {segments} segments, at most {latest_s:.3} s late{first}",
                *late_bytes as f64 * 100.0 / (*bytes).max(1) as f64
            ),
        );
        let switches = match all.switches {
            0 => String::new(),
            count => format!(", {count} changes of rendition"),
        };
        self.row(
            "received",
            format!("{:.1} Mb/s, {:.1} s of film shown{switches}", all.mbit_per_s, all.played_s),
        );
    }

    fn paced(&mut self, viewers: &Viewers, paced: &PacedReads) {
        let Viewers { came, admitted, refused, failed, .. } = viewers;
        self.row(
            "readers",
            format!("{came} came, {admitted} admitted, {refused} refused, {failed} failed requests"),
        );
        self.reasons("refused", &viewers.refusals);
        self.reasons("failed", &viewers.failures);
        let PacedReads { reads, late_reads, late_reads_percent, latest_s, unread, .. } = paced;
        self.row(
            "late reads",
            format!("{late_reads} of {reads} ({late_reads_percent:.3} %), at most {latest_s:.3} s late, {unread} never came"),
        );
        let PacedReads { bytes, late_bytes, late_bytes_percent, .. } = paced;
        self.row("late bytes", format!("{late_bytes} of {bytes} ({late_bytes_percent:.3} %)"));
        self.row("response", spread(&paced.response_ms));
    }

    fn reads(&mut self, name: &str, reads: &Reads) {
        let Reads { clients, requests, mbit_per_s, failed, .. } = reads;
        self.row(
            name,
            format!("{clients} clients, {requests} requests, {mbit_per_s:.1} Mb/s, {failed} failed"),
        );
        self.reasons("failed", &reads.failures);
        self.row("  first", spread(&reads.first_byte_ms));
        self.row("  response", spread(&reads.response_ms));
    }

    fn reasons(&mut self, name: &str, reasons: &[Reason]) {
        for Reason { reason, count, grantable_bps } in reasons {
            let granted = match grantable_bps {
                Some((least, most)) => {
                    format!(
                        " (would have granted {:.2} to {:.2} Mb/s)",
                        *least as f64 / 1e6,
                        *most as f64 / 1e6
                    )
                }
                None => String::new(),
            };
            self.row(&format!("  {name}"), format!("{count} x {reason}{granted}"));
        }
    }
}

fn spread(of: &Percentiles) -> String {
    if of.count == 0 {
        return "-".to_owned();
    }
    let Percentiles { p50, p90, p99, p999, max, .. } = of;
    format!("p50 {p50:.1}, p90 {p90:.1}, p99 {p99:.1}, p99.9 {p999:.1}, most {max:.1} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_survives_its_json() {
        let outcome = Outcome { took_s: 1.5, ..Outcome::default() };
        let plan = Plan::players(vec!["http://h/".into()], 3);
        let value = json(&plan, &outcome).unwrap();
        assert_eq!(value["claims"][0]["holds"], true);
        let back: Outcome = serde_json::from_value(value["rows"][0].clone()).unwrap();
        assert_eq!(back.took_s, 1.5);
        let back: Plan = serde_json::from_value(value["plan"].clone()).unwrap();
        assert_eq!(back, plan);
    }

    #[test]
    fn the_line_shows_what_there_is() {
        let before = Sample { at_s: 1.0, bytes: 1_000_000, ..Sample::default() };
        let now = Sample { at_s: 2.0, bytes: 2_000_000, playing: 3, refused: 1, ..Sample::default() };
        assert_eq!(line(&now, &before), "    2 s  3 playing, 0 stalled, 1 refused, 0 late bytes, 8 Mb/s");
    }
}
