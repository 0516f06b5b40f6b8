//! Downloads grow from 0 to 64 beside streams and browsers (Prism figures 6 and 8).

use super::held::values;
use super::{BESIDE, RATE_BPS, Set};
use crate::fleet::{Mix, paced};
use crate::reel::{Settings, capacity};
use crate::testbed::{Films, Testbed, Tuning};
use anyhow::Result;
use reel_report::{Claim, Report};

const CASE: &str = "downloads grow";
/// Downloads; the first is what the others are held against.
const DOWNLOADS: [usize; 5] = [0, 8, 16, 32, 64];
/// Prism's split: ten browsers that think 70 ms ask for more than the default of 150 thousandths.
const SPLIT: [u32; 3] = [500, 250, 250];
/// Streams of the rival, and of Reel at most: Reel admits them, the rival is only asked to carry as
/// many.
const STREAMS: usize = 24;

/// Reel with admission.
pub(super) fn reel(set: &Set, testbed: &Testbed, films: &Films, report: &mut Report) -> Result<()> {
    report.note(format!(
        "shares of streams, people and downloads while downloads grow, in thousandths, as in Prism section 5: {SPLIT:?}"
    ));
    let mut late: f64 = 0.0;
    let mut p99s = Vec::new();
    for &aperiodic in downloads(set) {
        let playing = testbed.start_reel(&Settings::with_admission().shared(SPLIT))?;
        let streams = (capacity(&playing.server, RATE_BPS)?.0 as usize * 3 / 4).clamp(1, streams(set));
        let (outcome, disks) =
            testbed.disk_set.watched(|| paced(&playing, films, mix(set, streams, aperiodic)))?;
        report.row(CASE, "reel", aperiodic as f64, 0, &[values(&outcome), disks].concat());
        late = late.max(outcome.paced.as_ref().map_or(100.0, |paced| paced.late_reads_percent));
        p99s.push(outcome.browsers.as_ref().map_or(0.0, |browsers| browsers.response_ms.p99));
    }
    report.claim(Claim::at_most("per cent of reads late, 0 to 64 downloads, reel".into(), late, 0.1));
    let most = p99s.iter().copied().fold(0.0, f64::max);
    let claim = "interactive p99, the worst of 0 to 64 downloads / without downloads, reel".to_owned();
    report.claim(Claim::at_most(claim, most / p99s[0].max(1e-3), 1.25));
    Ok(())
}

/// The rival's figures, to look at: nothing is claimed of them.
pub(super) fn rival(
    set: &Set,
    testbed: &Testbed,
    films: &Films,
    report: &mut Report,
    (system, tuning): (&str, Tuning),
) -> Result<()> {
    for &aperiodic in downloads(set) {
        let playing = testbed.start_rival(tuning)?;
        let (outcome, disks) =
            testbed.disk_set.watched(|| paced(&playing, films, mix(set, streams(set), aperiodic)))?;
        report.row(CASE, system, aperiodic as f64, 0, &[values(&outcome), disks].concat());
    }
    Ok(())
}

fn mix(set: &Set, streams: usize, aperiodic: usize) -> Mix {
    Mix { streams, aperiodic, interactive: BESIDE, rate_bps: RATE_BPS, seconds: set.seconds }
}

fn downloads(set: &Set) -> &'static [usize] {
    if set.quick { &DOWNLOADS[..2] } else { &DOWNLOADS }
}

fn streams(set: &Set) -> usize {
    STREAMS.min(set.streams_max)
}
