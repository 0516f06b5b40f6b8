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
    fleet::{Fleet, Stopper, run},
    outcome::{Outcome, Sample},
    plan::{ArrivalShape, Arrivals, Hls, Paced, Plan, Reading, Rendition, Viewing},
};
pub(crate) use arguments::LoadArguments;

/// `reel load`.
pub(crate) fn command(arguments: &LoadArguments) -> Result<()> {
    let plan = arguments.plan()?;
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
    if arguments.expect_no_late
        && let Some(disappointment) = disappointment(&plan, &outcome)
    {
        eprintln!("error: {disappointment}");
        std::process::exit(1);
    }
    Ok(())
}

/// What `--expect-no-late` finds wrong.
fn disappointment(plan: &Plan, outcome: &Outcome) -> Option<String> {
    let shown = outcome.viewers.started + outcome.paced.as_ref().map_or(0, |paced| paced.reads);
    match outcome.late_bytes() {
        0 if plan.viewers > 0 && shown == 0 => Some("nothing was shown, so nothing could be late".to_owned()),
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
