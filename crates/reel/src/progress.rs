//! Progress of long work on standard error: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::logging::say;
use crate::size::Size;

/// Without a terminal a line is printed at least this often, so that a log shows progress without
/// being filled.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes, shown with their rate.
    Bytes,
    /// Milliseconds of film.
    FilmMs,
    /// Milliseconds of measuring.
    Ms,
}

/// The progress of one piece of work.
pub(crate) struct Meter {
    label: String,
    unit: Unit,
    begun: Instant,
    show: Show,
}

enum Show {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

impl Meter {
    /// Begins to show `label`; shows nothing if `quiet`.
    pub(crate) fn new(label: impl Into<String>, unit: Unit, quiet: bool) -> Self {
        let label = label.into();
        let begun = Instant::now();
        let show = if quiet {
            Show::Nothing
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(0).with_style(style(unit)).with_message(label.clone());
            bar.enable_steady_tick(Duration::from_millis(200));
            Show::Bar(bar)
        } else {
            Show::Lines { last: begun }
        };
        Self { label, unit, begun, show }
    }

    /// Sets the progress; both values may be corrected at any time.
    pub(crate) fn set(&mut self, done: u64, total: u64) {
        match &mut self.show {
            Show::Bar(bar) => {
                bar.set_length(total);
                bar.set_position(done.min(total));
            }
            Show::Lines { last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                say(line(&self.label, self.unit, done, total, self.begun.elapsed()));
            }
            Show::Lines { .. } | Show::Nothing => {}
        }
    }

    /// Prints a message beside the progress.
    pub(crate) fn note(&self, text: &str) {
        match &self.show {
            Show::Bar(bar) => bar.suspend(|| say(text)),
            Show::Lines { .. } | Show::Nothing => say(text),
        }
    }

    /// Replaces the progress by one line.
    pub(crate) fn finish(self, text: &str) {
        match &self.show {
            Show::Bar(bar) => {
                bar.finish_and_clear();
                say(text);
            }
            Show::Lines { .. } => say(text),
            Show::Nothing => {}
        }
    }
}

/// Work that ends early leaves no partial bar behind.
impl Drop for Meter {
    fn drop(&mut self) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
    }
}

/// The rate of `bytes` in a time: `12.5 MiB in 0.5 s, 25.0 MiB/s`.
pub(crate) fn rate_text(bytes: u64, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    let rate = if seconds > 0.0 { (bytes as f64 / seconds) as u64 } else { bytes };
    format!("{} in {seconds:.1} s, {}/s", Size(bytes), Size(rate))
}

fn style(unit: Unit) -> ProgressStyle {
    let template = match unit {
        Unit::Bytes => "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        Unit::FilmMs | Unit::Ms => "{msg} [{bar:30}] {percent} %, {eta} left",
    };
    // Both templates are literals; an invalid one shows as the default bar.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

fn line(label: &str, unit: Unit, done: u64, total: u64, took: Duration) -> String {
    let percent = if total > 0 { done.min(total) as f64 * 100.0 / total as f64 } else { 0.0 };
    let seconds = took.as_secs_f64();
    let rate = done as f64 / seconds.max(0.001);
    let left = if rate > 0.0 { total.saturating_sub(done) as f64 / rate } else { 0.0 };
    match unit {
        Unit::Bytes => {
            format!("{label}: {percent:.0} % of {}, {}/s, {left:.0} s left", Size(total), Size(rate as u64))
        }
        Unit::FilmMs | Unit::Ms => format!("{label}: {percent:.0} %, {left:.0} s left"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_show_share_rate_and_time_left() {
        let text = line("film.mp4", Unit::Bytes, 25 << 20, 100 << 20, Duration::from_secs(5));
        assert_eq!(text, "film.mp4: 25 % of 100.0 MiB, 5.0 MiB/s, 15 s left");
        let text = line("film", Unit::FilmMs, 0, 0, Duration::ZERO);
        assert_eq!(text, "film: 0 %, 0 s left");
    }

    #[test]
    fn a_rate_over_no_time_is_not_a_division_by_zero() {
        assert_eq!(rate_text(1 << 20, Duration::ZERO), "1.0 MiB in 0.0 s, 1.0 MiB/s");
        assert_eq!(rate_text(50 << 20, Duration::from_secs(2)), "50.0 MiB in 2.0 s, 25.0 MiB/s");
    }

    #[test]
    fn styles_are_well_formed() {
        for unit in [Unit::Bytes, Unit::FilmMs, Unit::Ms] {
            let _ = style(unit);
        }
    }
}
