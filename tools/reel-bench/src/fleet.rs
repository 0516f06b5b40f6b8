//! The clients of an experiment: a mix of the three kinds, played by the same fleet for every
//! server.

use crate::testbed::{Films, Playing};
use anyhow::{Result, ensure};
use reel_load::{ArrivalShape, Arrivals, Hls, Outcome, Paced, Plan, Reading, Viewing};
use std::time::Duration;

/// A stream reads a second of its film at a time (Prism section 5 reads frame by frame, from a
/// local disk; over HTTP this is what a segment of a low-latency player is).
fn block_bytes(rate_bps: u64) -> u64 {
    rate_bps / 8
}

/// A second is asked for so long before it is due, and the first is due so long after a stream
/// begins: the buffer of a client.
const AHEAD: Duration = Duration::from_secs(3);
/// What a browser asks for, and how long it thinks: Prism's interactive clients read 4 to 12 KB and
/// pause for 70 ms on average.
const BROWSE_BYTES: u64 = 12 << 10;
const THINK: Duration = Duration::from_millis(70);
/// Players keep two segments; with more, an overload shows only after minutes.
const PLAYER_BUFFER: Duration = Duration::from_secs(8);

/// Who plays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Readers with deadlines.
    pub(crate) streams: usize,
    /// Downloads as fast as they come.
    pub(crate) aperiodic: usize,
    /// Browsers.
    pub(crate) interactive: usize,
    pub(crate) rate_bps: u64,
    pub(crate) seconds: u64,
}

/// Readers of a constant rate.
pub(crate) fn pace(rate_bps: u64) -> Viewing {
    Viewing::Paced(Paced {
        rate_bps,
        block_bytes: block_bytes(rate_bps),
        startup: Some(AHEAD),
        ahead: Some(AHEAD),
    })
}

/// Plays paced readers with downloads and browsers beside.
pub(crate) fn paced(playing: &Playing, films: &Films, mix: Mix) -> Result<Outcome> {
    let urls = playing.streams(films, mix.streams);
    run(&plan(playing, films, mix, pace(mix.rate_bps), urls)?)
}

/// Plays HLS players with downloads and browsers beside.
pub(crate) fn players(playing: &Playing, films: &Films, mix: Mix) -> Result<Outcome> {
    run(&players_plan(playing, films, mix)?)
}

/// The plan of [`players`]. They come over 20 s: a scene of each kind.
pub(crate) fn players_plan(playing: &Playing, films: &Films, mix: Mix) -> Result<Plan> {
    let hls = Hls { buffer: PLAYER_BUFFER, retry: false, ..Hls::default() };
    plan(playing, films, mix, Viewing::Hls(hls), playing.playlists(films))
}

fn plan(playing: &Playing, films: &Films, mix: Mix, viewing: Viewing, urls: Vec<String>) -> Result<Plan> {
    // Browsers look at other films than downloads bring into memory.
    let all = films.bulk.len();
    let browsed = if mix.interactive == 0 { all..all } else { all - all / 4..all };
    let mut urls_of_downloads = playing.downloads(films);
    urls_of_downloads.truncate(browsed.start);
    let downloads = Reading { clients: mix.aperiodic, urls: urls_of_downloads, ..Reading::default() };
    let browsers = Reading {
        clients: mix.interactive,
        urls: playing.sessions(films, browsed, "interactive")?,
        range_bytes: Some(BROWSE_BYTES),
        think: THINK,
    };
    // Starts are spread, because what a rush of starts costs is another question.
    let over = Duration::from_secs(mix.seconds.min(if matches!(viewing, Viewing::Hls(_)) { 20 } else { 10 }));
    Ok(Plan {
        viewing,
        downloads,
        browsers,
        arrivals: Arrivals { over, shape: ArrivalShape::Uniform },
        duration: Some(Duration::from_secs(mix.seconds) + over),
        ..Plan::players(urls, mix.streams)
    })
}

/// Plays a plan.
pub(crate) fn run(plan: &Plan) -> Result<Outcome> {
    let outcome = reel_load::run(plan.clone())?;
    ensure!(!outcome.interrupted, "interrupted");
    Ok(outcome)
}
