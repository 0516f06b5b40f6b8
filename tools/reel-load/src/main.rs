//! `reel load`: runs a fleet and prints its outcome.
#![forbid(unsafe_code)]

mod arguments;
mod summary;

use anyhow::Result;
use arguments::LoadArguments;
use clap::Parser;
use reel_load::{Fleet, Outcome, Plan, Sample, Stopper};
use std::io::{IsTerminal, Write, stderr};

fn main() {
    let arguments = LoadArguments::parse();
    let plan = match arguments.plan() {
        Ok(plan) => plan,
        Err(error) => fail(2, &format!("{error:#}")),
    };
    match watch(&arguments, plan) {
        Ok(None) => {}
        Ok(Some(unexpected)) => fail(1, &unexpected),
        Err(error) => fail(1, &format!("{error:#}")),
    }
}

/// Exit codes are those of all commands of `reel`: 2 is for wrong usage.
fn fail(code: i32, what: &str) -> ! {
    eprintln!("error: {what}");
    std::process::exit(code);
}

/// Runs the fleet and prints its outcome; returns what fails the run.
fn watch(arguments: &LoadArguments, plan: Plan) -> Result<Option<String>> {
    let fleet = Fleet::start(plan.clone())?;
    stop_by_signal(fleet.stopper());
    let shown = stderr().is_terminal();
    let mut before = Sample::default();
    let outcome = fleet.wait(|now| {
        if shown {
            // A terminal that has gone away is no reason to stop.
            let _ = write!(stderr(), "\r\x1b[K{}", summary::line(now, &before));
        }
        before = now.clone();
    })?;
    if shown {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary::json(&plan, &outcome)?)?);
    } else {
        print!("{}", summary::table(&plan, &outcome));
    }
    Ok(unexpected(&outcome, arguments.expect_no_late))
}

/// What fails the run: no viewer that could play anything, and late bytes where none were expected.
fn unexpected(outcome: &Outcome, expect_no_late: bool) -> Option<String> {
    let Outcome { viewers, paced, .. } = outcome;
    let shown = viewers.started + paced.as_ref().map_or(0, |paced| paced.reads);
    if viewers.came > 0 && viewers.admitted == 0 && viewers.failed > 0 {
        let reason = viewers.failures.first().map_or("", |failure| &failure.reason);
        return Some(format!("no viewer could play anything: {reason}"));
    }
    match outcome.late_bytes() {
        _ if !expect_no_late => None,
        0 if viewers.came > 0 && shown == 0 => {
            Some("nothing was shown, so --expect-no-late proves nothing".to_owned())
        }
        0 => None,
        late_bytes => Some(format!("{late_bytes} bytes were late, and --expect-no-late was given")),
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
    use super::*;
    use reel_load::{PacedReads, Reason, Viewers};

    fn outcome(viewers: Viewers) -> Outcome {
        Outcome { viewers, ..Outcome::default() }
    }

    #[test]
    fn late_bytes_fail_a_run_that_expects_none() {
        let late = outcome(Viewers { came: 1, admitted: 1, started: 1, late_bytes: 7, ..Viewers::default() });
        assert_eq!(unexpected(&late, false), None);
        assert!(unexpected(&late, true).unwrap().starts_with("7 bytes were late"));
        let mut paced = outcome(Viewers { came: 1, admitted: 1, ..Viewers::default() });
        paced.paced = Some(PacedReads { reads: 9, late_bytes: 8, ..PacedReads::default() });
        assert!(unexpected(&paced, true).unwrap().starts_with("8 bytes were late"));
    }

    #[test]
    fn a_run_without_any_player_is_no_success() {
        let refused = outcome(Viewers { came: 3, refused: 3, ..Viewers::default() });
        assert_eq!(unexpected(&refused, false), None);
        assert!(unexpected(&refused, true).unwrap().contains("nothing was shown"));
        let failures = vec![Reason { reason: "status 404".into(), count: 3, grantable_bps: None }];
        let failed = outcome(Viewers { came: 3, failed: 3, failures, ..Viewers::default() });
        assert_eq!(unexpected(&failed, false).unwrap(), "no viewer could play anything: status 404");
    }
}
