//! Finds the rival's best settings, as an expert would: short runs, one thing after the other.

use super::{BESIDE, RATE_BPS, Set};
use crate::fleet::{Mix, paced, players};
use crate::rival::Rival;
use crate::testbed::{Films, Playing, Testbed, Tuning};
use anyhow::Result;
use reel_report::Report;

const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "bfq", "kyber"];
const READ_AHEADS_KIB: [u64; 3] = [128, 1024, 4096];
/// Seconds of a run, and its streams: enough that settings differ.
const SECONDS: u64 = 10;
const STREAMS: usize = 64;

/// How films are streamed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Streams {
    /// Read as files.
    Files,
    /// Played by segments.
    Segments,
}

impl Streams {
    /// Per cent of what is late, and among equals how soon it comes.
    fn score(self, playing: &Playing, films: &Films, mix: Mix) -> Result<f64> {
        Ok(match self {
            Self::Files => paced(playing, films, mix)?
                .paced
                .map_or(f64::MAX, |paced| paced.late_reads_percent + paced.response_ms.p99 / 1e6),
            Self::Segments => {
                let viewers = players(playing, films, mix)?.viewers;
                let late_percent = viewers.late_segments as f64 * 100.0 / viewers.segments.max(1) as f64;
                late_percent + viewers.startup_ms.p99 / 1e6
            }
        })
    }
}

/// The settings with the fewest late reads: every way of reading with every read-ahead, then every
/// scheduler with the best of them.
pub(super) fn best(
    set: &Set,
    testbed: &Testbed,
    films: &Films,
    report: &mut Report,
    (kind, rival): (Streams, Rival),
) -> Result<Tuning> {
    let mut try_all = |all: Vec<Tuning>| -> Result<Tuning> {
        let mut best = (f64::MAX, all[0]);
        for tuning in all {
            let playing = testbed.start_rival(tuning)?;
            let mix = Mix {
                streams: STREAMS.min(set.streams_max),
                aperiodic: BESIDE,
                interactive: BESIDE,
                rate_bps: RATE_BPS,
                seconds: SECONDS.min(set.seconds),
            };
            let score = kind.score(&playing, films, mix)?;
            report.note(format!("calibration: {tuning}: {score:.4} % late with {} streams", mix.streams));
            if score < best.0 {
                best = (score, tuning);
            }
        }
        Ok(best.1)
    };
    if set.quick {
        // The one that is most often the best.
        let setup = *rival.expert().get(1).unwrap_or(&rival.shipped());
        return try_all(vec![Tuning { scheduler: "mq-deadline", read_ahead_kib: 1024, setup }]);
    }
    let setups = rival.expert().iter().flat_map(|&setup| {
        READ_AHEADS_KIB.map(|read_ahead_kib| Tuning { scheduler: "mq-deadline", read_ahead_kib, setup })
    });
    let best = try_all(setups.collect())?;
    try_all(SCHEDULERS.map(|scheduler| Tuning { scheduler, ..best }).to_vec())
}
