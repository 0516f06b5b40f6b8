//! `reel load`: a fleet of clients against any HLS server, and the face that experiments run fleets by.
//!
//! A [`Plan`] says who comes; [`run`] lets them come and returns the [`Outcome`], [`Fleet`] does it while its owner does something else.
//! What happens to a viewer is decided by `player`, which is pure; `session` drives it over sockets.

mod arguments;
mod body;
mod catalogue;
mod counters;
mod dice;
mod fleet;
mod histogram;
mod http;
mod limits;
mod loader;
mod origin;
mod outcome;
mod paced;
mod plan;
mod player;
#[cfg(test)]
mod player_laws;
mod playlist;
mod reader;
mod rendition;
mod segment;
mod session;
mod sheet;
mod tallies;
#[cfg(test)]
mod tests;
mod thread;
mod trouble;
mod url;
mod viewer;

use anyhow::Result;
use std::io::{IsTerminal, Write, stderr};

#[allow(unused_imports, reason = "the face for experiments that run fleets")]
pub(crate) use self::{
    dice::{Dice, Purpose},
    fleet::{Fleet, Stopper, run},
    outcome::{Outcome, Sample},
    plan::{ArrivalShape, Arrivals, Hls, Paced, Plan, Reading, Rendition, Viewing},
    playlist::{Media, Playlist},
    url::Url,
};
pub(crate) use arguments::LoadArguments;

/// `reel load`.
pub(crate) fn command(arguments: &LoadArguments) -> Result<()> {
    let plan = match arguments.plan() {
        Ok(plan) => plan,
        Err(error) => fail(2, &format!("{error:#}")),
    };
    match look_on(arguments, plan) {
        Ok(None) => Ok(()),
        Ok(Some(disappointment)) => fail(1, &disappointment),
        Err(error) => fail(1, &format!("{error:#}")),
    }
}

/// As every other command of `reel` fails: 2 is for wrong usage.
fn fail(code: i32, what: &str) -> ! {
    eprintln!("error: {what}");
    std::process::exit(code);
}

/// Runs the fleet and prints what came of it; returns what should have been otherwise.
fn look_on(arguments: &LoadArguments, plan: Plan) -> Result<Option<String>> {
    let fleet = Fleet::start(plan.clone())?;
    stop_by_signal(fleet.stopper());
    let shown = stderr().is_terminal();
    let mut before = Sample::default();
    let outcome = fleet.wait(|now| {
        if shown {
            // A terminal that has gone away is no reason to stop.
            let _ = write!(stderr(), "\r\x1b[K{}", sheet::line(now, &before));
        }
        before = now.clone();
    })?;
    if shown {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&sheet::json(&plan, &outcome)?)?);
    } else {
        print!("{}", sheet::table(&plan, &outcome));
    }
    Ok(disappointment(&outcome, arguments.expect_no_late))
}

/// What a fleet must not find: nobody to play anything, and late bytes where none were expected.
fn disappointment(outcome: &Outcome, expect_no_late: bool) -> Option<String> {
    let Outcome { viewers, paced, .. } = outcome;
    let shown = viewers.started + paced.as_ref().map_or(0, |paced| paced.reads);
    if viewers.came > 0 && viewers.admitted == 0 && viewers.failed > 0 {
        let reason = viewers.failures.first().map_or("", |failure| &failure.reason);
        return Some(format!("no viewer could watch anything: {reason}"));
    }
    match outcome.late_bytes() {
        _ if !expect_no_late => None,
        0 if viewers.came > 0 && shown == 0 => Some("nothing was shown, so nothing could be late".to_owned()),
        0 => None,
        late_bytes => Some(format!("{late_bytes} bytes were late, and none were expected to be")),
    }
}

/// SIGINT and SIGTERM end the fleet with its results; a second one ends it at once.
fn stop_by_signal(stopper: Stopper) {
    use tokio::signal::unix::{SignalKind, signal};
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
            let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
            for again in [false, true] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if again {
                    std::process::exit(130);
                }
                stopper.stop();
            }
        });
    });
}

#[cfg(test)]
mod verdicts {
    use super::outcome::{PacedReads, Reason, Viewers};
    use super::*;

    fn outcome(viewers: Viewers) -> Outcome {
        Outcome { viewers, ..Outcome::default() }
    }

    #[test]
    fn late_bytes_disappoint_who_expected_none() {
        let late = outcome(Viewers { came: 1, admitted: 1, started: 1, late_bytes: 7, ..Viewers::default() });
        assert_eq!(disappointment(&late, false), None);
        assert!(disappointment(&late, true).unwrap().starts_with("7 bytes were late"));
        let mut paced = outcome(Viewers { came: 1, admitted: 1, ..Viewers::default() });
        paced.paced = Some(PacedReads { reads: 9, late_bytes: 8, ..PacedReads::default() });
        assert!(disappointment(&paced, true).unwrap().starts_with("8 bytes were late"));
    }

    #[test]
    fn nobody_who_plays_is_no_success() {
        let refused = outcome(Viewers { came: 3, refused: 3, ..Viewers::default() });
        assert_eq!(disappointment(&refused, false), None);
        assert!(disappointment(&refused, true).unwrap().contains("nothing was shown"));
        let failures = vec![Reason { reason: "status 404".into(), count: 3, grantable_bps: None }];
        let failed = outcome(Viewers { came: 3, failed: 3, failures, ..Viewers::default() });
        assert_eq!(disappointment(&failed, false).unwrap(), "no viewer could watch anything: status 404");
    }
}
