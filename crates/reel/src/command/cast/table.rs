//! The schemes beside each other, as text and as JSON.

use reel::plans::{SchemePlan, Subject};
use reel_broadcast::{CautiousHarmonic, receivers_wait_ns};
use serde_json::{Value, json};

use super::plan::Bound;
use crate::output::{clock_text, columns};
use crate::rate::Rate;

const HEAD: [&str; 11] = [
    "SCHEME",
    "SEGMENTS",
    "CHANNELS",
    "Mb/s",
    "PEAK",
    "SLOT d",
    "WAIT",
    "BEST",
    "BUFFER",
    "OF TITLE",
    "CLIENT Mb/s",
];

const NOTES: [&str; 3] = [
    "WAIT is the longest time from the start of `reel receive` to the first picture: 2 d, because it plays one slot \
     behind, and 0.5 s to join; in the paper it is d. Stock players that join a staggered channel wait for at most d",
    "BEST is the wait with as many segments as the same channels carry",
    "BUFFER is the most that any client keeps (* a bound: not all start slots were examined); PEAK is needed when all \
     channels send their largest segments",
];

/// The result of the command.
pub(super) struct Table {
    pub(super) subject: Subject,
    pub(super) bound: Bound,
    pub(super) rows: Vec<Row>,
    pub(super) harmonic: Vec<HarmonicRow>,
    pub(super) notes: Vec<String>,
}

/// A scheme of Reel.
pub(super) struct Row(pub(super) SchemePlan);

/// The scheme of the paper (INSTANCE thesis, section 4.2.2), for comparison.
pub(super) struct HarmonicRow {
    pub(super) scheme: CautiousHarmonic,
    /// With the paper's definition of the wait.
    pub(super) of_paper: bool,
}

impl Table {
    pub(super) fn text(&self) -> String {
        let stream = self.subject.stream;
        let bound = match self.bound {
            Bound::Wait(wait) => format!("a wait of at most {}", time_text(wait.ns)),
            Bound::Bandwidth(bandwidth) => format!("at most {bandwidth}"),
        };
        let what = format!(
            "{}, {} on average, for {bound}",
            clock_text(stream.duration_ns as f64 / 1e9),
            Rate(stream.rate_bps)
        );
        let what = match &self.subject.title {
            Some(title) => format!("{title}: {what}"),
            None => what,
        };
        let head = HEAD.map(str::to_owned).to_vec();
        let rows = self.rows.iter().map(Row::cells);
        let harmonic = self.harmonic.iter().map(|row| row.cells(&self.subject));
        let rows: Vec<_> = std::iter::once(head).chain(rows).chain(harmonic).collect();
        let notes = NOTES.into_iter().chain(self.notes.iter().map(String::as_str));
        let notes: Vec<_> = notes.map(|note| format!("note: {note}")).collect();
        format!("{what}\n\n{}\n\n{}", columns(&rows), notes.join("\n"))
    }

    pub(super) fn as_json(&self) -> Value {
        let stream = self.subject.stream;
        let rows = self.rows.iter().map(Row::as_json);
        let harmonic = self.harmonic.iter().map(|row| row.as_json(&self.subject));
        let (wait_s, bandwidth_bps) = match self.bound {
            Bound::Wait(wait) => (Some(seconds(wait.ns)), None),
            Bound::Bandwidth(bandwidth) => (None, Some(bandwidth.0)),
        };
        json!({
            "title": self.subject.title,
            "duration_s": seconds(stream.duration_ns),
            "rate_bps": stream.rate_bps,
            "wait_s": wait_s,
            "bandwidth_bps": bandwidth_bps,
            "plans": rows.chain(harmonic).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let Self(SchemePlan { plan, peak_bps, .. }) = self;
        let schedule = &plan.schedule;
        let bound = if plan.buffer.is_exact { "" } else { "*" };
        vec![
            schedule.scheme().to_string(),
            schedule.segments().to_string(),
            schedule.channels().len().to_string(),
            mbps(plan.bandwidth_bps() as f64),
            peak_bps.map_or("-".to_owned(), |peak| mbps(peak as f64)),
            time_text(plan.slot_ns()),
            time_text(plan.receivers_wait_ns()),
            time_text(self.0.best_wait_ns()),
            bytes_text(plan.receivers_buffer_bytes() as f64),
            format!("{:.1} %{bound}", plan.receivers_buffer_share() * 100.0),
            mbps(plan.client_bps() as f64),
        ]
    }

    fn as_json(&self) -> Value {
        let Self(SchemePlan { plan, peak_bps, .. }) = self;
        json!({
            "scheme": plan.schedule.scheme().to_string(),
            "segments": plan.schedule.segments(),
            "channels": plan.schedule.channels().len(),
            "bandwidth_bps": plan.bandwidth_bps(),
            "peak_bps": peak_bps,
            "slot_s": seconds(plan.slot_ns()),
            "wait_s": seconds(plan.receivers_wait_ns()),
            "best_wait_s": seconds(self.0.best_wait_ns()),
            "buffer_bytes": plan.receivers_buffer_bytes(),
            "buffer_share": plan.receivers_buffer_share(),
            "buffer_is_exact": plan.buffer.is_exact,
            "client_channels": plan.schedule.client_channels(),
            "client_bps": plan.client_bps(),
        })
    }
}

impl HarmonicRow {
    fn name(&self) -> &'static str {
        if self.of_paper { "harmonic (paper)" } else { "harmonic" }
    }

    fn slot_ns(&self, subject: &Subject) -> u64 {
        subject.stream.duration_ns / u64::from(self.scheme.segments())
    }

    fn bandwidth_bps(&self, subject: &Subject) -> f64 {
        self.scheme.bandwidth_units() * subject.stream.rate_bps as f64
    }

    /// The paper's wait, or that of the other rows.
    fn wait_ns(&self, subject: &Subject) -> u64 {
        let slot_ns = self.slot_ns(subject);
        if self.of_paper { slot_ns } else { receivers_wait_ns(slot_ns) }
    }

    /// Its client keeps one segment more when it plays one slot behind.
    fn buffer_share(&self) -> f64 {
        let behind = f64::from(u8::from(!self.of_paper)) / f64::from(self.scheme.segments());
        (self.scheme.buffer_share() + behind).min(1.0)
    }

    fn buffer_bytes(&self, subject: &Subject) -> f64 {
        let stream = subject.stream;
        self.buffer_share() * stream.rate_bps as f64 / 8.0 * seconds(stream.duration_ns)
    }

    fn cells(&self, subject: &Subject) -> Vec<String> {
        let slot_ns = self.slot_ns(subject);
        vec![
            self.name().to_owned(),
            self.scheme.segments().to_string(),
            self.scheme.channels().to_string(),
            mbps(self.bandwidth_bps(subject)),
            "-".to_owned(),
            time_text(slot_ns),
            time_text(self.wait_ns(subject)),
            "-".to_owned(),
            bytes_text(self.buffer_bytes(subject)),
            format!("{:.1} %", self.buffer_share() * 100.0),
            mbps(self.bandwidth_bps(subject)),
        ]
    }

    fn as_json(&self, subject: &Subject) -> Value {
        let slot_ns = self.slot_ns(subject);
        let bandwidth_bps = self.bandwidth_bps(subject).round() as u64;
        json!({
            "scheme": self.name(),
            "segments": self.scheme.segments(),
            "channels": self.scheme.channels(),
            "bandwidth_bps": bandwidth_bps,
            "peak_bps": Value::Null,
            "slot_s": seconds(slot_ns),
            "wait_s": seconds(self.wait_ns(subject)),
            "best_wait_s": Value::Null,
            "buffer_bytes": self.buffer_bytes(subject).round() as u64,
            "buffer_share": self.buffer_share(),
            "buffer_is_exact": true,
            "client_channels": self.scheme.channels(),
            "client_bps": bandwidth_bps,
        })
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn mbps(bps: f64) -> String {
    format!("{:.2}", bps / 1e6)
}

fn bytes_text(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

fn time_text(ns: u64) -> String {
    format!("{:.2} s", seconds(ns))
}
