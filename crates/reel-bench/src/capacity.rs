//! `capacity`: what Reel says a healthy volume can carry, against the number of players at which the first byte is late.

use crate::ExperimentArguments;
use crate::bay::{Bay, Kind, modelled};
use crate::classes::DISKS;
use crate::film;
use crate::fleet::{Mix, players};
use crate::reel::{self, Settings};
use crate::report::Claim;
use crate::sheet::{Chart, Sheet};
use crate::stage::{Films, Stage};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// A kind of member, its films and how many players could be needed.
struct Trial {
    name: &'static str,
    kind: Kind,
    rate_bps: u64,
    films: usize,
}

/// Nearly all of the disks' time is for streams: what others leave idle is lent, and would be measured, but is not promised.
const SHARES: [u32; 3] = [980, 10, 10];

/// Seconds a film lasts beyond a measurement, so that nobody comes to its end.
const BEYOND_S: u64 = 25;

/// Runs the experiment.
pub(crate) fn run(arguments: &ExperimentArguments) -> Result<()> {
    let mut sheet = Sheet::new("capacity");
    sheet.charts = vec![
        Chart { case: "modelled disks", at: "players", value: "late_bytes" },
        Chart { case: "throttled", at: "players", value: "late_bytes" },
        Chart { case: "plain files", at: "players", value: "late_bytes" },
    ];
    let throttled = Kind::Throttled { read_bps: 40_000_000, read_iops: 300 };
    // Films of high rate where members are quick: players, too, need processors.
    let mut trials = vec![
        Trial { name: "plain files", kind: Kind::Plain, rate_bps: 40_000_000, films: 24 },
        Trial { name: "modelled disks", kind: Kind::Modelled, rate_bps: 6_000_000, films: 200 },
        Trial { name: "throttled", kind: throttled, rate_bps: 6_000_000, films: 200 },
    ];
    if arguments.quick {
        trials.iter_mut().for_each(|trial| trial.films = 4);
        trials.truncate(2);
    }
    sheet.fill(arguments, |sheet| {
        let possible = modelled(arguments, sheet)?;
        let trials = trials.iter().filter(|trial| trial.kind == Kind::Plain || possible == Kind::Modelled);
        trials.into_iter().try_for_each(|trial| measure(arguments, trial, sheet))
    })
}

fn measure(arguments: &ExperimentArguments, trial: &Trial, sheet: &mut Sheet) -> Result<()> {
    let reel = reel::binary(arguments.reel.as_deref())?;
    fs::create_dir_all(&arguments.dir)?;
    let dir = fs::canonicalize(&arguments.dir)?;
    let quick = arguments.quick;
    let seconds = arguments.seconds.unwrap_or(if quick { 1 } else { 40 });
    let length = if quick { 5 } else { seconds + BEYOND_S };
    let (stage, films) = stage(&dir, &reel, trial, length)?;
    let volume = stage.volume().context("a stage of Reel has a volume")?;
    volume.probe(if quick { 1 } else { 60 })?;
    let (predicted, stopped_by) = {
        let answer = volume.capacity(&Settings::promised().shared(SHARES), trial.rate_bps)?;
        let healthy =
            answer["viewers_healthy"].as_u64().context("no viewers of a healthy volume in the answer")?;
        sheet.note(format!(
            "{}: with any one member lost Reel says {}, which is what it promises; the disks here are all there",
            trial.name, answer["viewers"]
        ));
        (healthy, answer["stopped_by"].as_str().unwrap_or("nothing").to_owned())
    };
    sheet.note(format!(
        "{}: {DISKS} {}, films of {} Mb/s; Reel says {predicted} viewers, then {stopped_by} is used up",
        trial.name,
        trial.kind.words(),
        trial.rate_bps / 1_000_000
    ));
    let predicted = predicted.min(if quick { 4 } else { 4000 });
    let measured = first_late(predicted as usize, quick, |viewers| {
        let playing = stage.start_reel(&Settings::open().shared(SHARES))?;
        let mix = Mix { streams: viewers, aperiodic: 0, interactive: 0, rate_bps: trial.rate_bps, seconds };
        let outcome = players(&playing, &films, mix)?;
        let values = [
            ("late_bytes", outcome.viewers.late_bytes as f64),
            ("late_segments", outcome.viewers.late_segments as f64),
            ("segments", outcome.viewers.segments as f64),
            ("failed", outcome.viewers.failed as f64),
            ("client_p99_ms", outcome.client.tick_late_ms.p99),
        ];
        sheet.row(trial.name, "reel", viewers as f64, 0, &values);
        Ok(outcome.viewers.late_bytes > 0 || outcome.viewers.failed > 0)
    })?;
    let ratio = predicted as f64 / measured.max(1) as f64;
    let claim = format!("{}: predicted {predicted} / measured {measured}", trial.name);
    sheet.claim(Claim::at_least(claim.clone(), ratio, 0.9));
    sheet.claim(Claim::at_most(format!("{claim}, never optimistic"), ratio, 1.0));
    Ok(())
}

fn stage(dir: &Path, reel: &Path, trial: &Trial, length: u64) -> Result<(Stage, Films)> {
    let film = film::varying(dir, length, trial.rate_bps)?;
    let bytes = fs::metadata(&film)?.len() * (trial.films as u64 + 1);
    let bay = Bay::make(dir, trial.kind, DISKS, Films::disk_bytes(bytes, DISKS))?;
    let films = Films::make(&bay.dir().join("films"), (&film, trial.films), (&film, 1))?;
    Ok((Stage::reel(reel, bay, &films)?, films))
}

/// The most players without a late byte, to a fiftieth: up from the prediction while all is well, down while not, then between.
fn first_late(predicted: usize, quick: bool, mut late: impl FnMut(usize) -> Result<bool>) -> Result<usize> {
    let (mut well, mut fails) = (0, usize::MAX);
    let mut next = predicted.max(1);
    loop {
        if late(next)? {
            fails = next;
        } else {
            well = next;
        }
        if quick || (fails != usize::MAX && fails - well <= (well / 50).max(1)) {
            return Ok(well);
        }
        next = match (well, fails) {
            (_, usize::MAX) => well + (well / 5).max(1),
            (0, _) => fails / 2,
            _ => well.midpoint(fails),
        };
        if next == 0 {
            return Ok(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_border_is_found_from_below_and_from_above() {
        for border in [0, 1, 40, 99, 100, 101, 130, 400] {
            let mut asked = 0;
            let found = first_late(100, false, |viewers| {
                asked += 1;
                Ok(viewers > border)
            });
            let found = found.expect("nothing fails");
            assert!(found <= border && border - found <= (border / 50).max(1), "{found} for {border}");
            assert!(asked <= 16, "{asked} runs for {border}");
        }
    }
}
