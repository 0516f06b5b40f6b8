//! `siege`: ordinary viewers, newcomers and answers about health while attackers do what they can,
//! and the end of the server in the middle of it.
//!
//! Server and clients are in two network name spaces with a cable between them, and each client has
//! an address of its own. The attackers are one process with a quota of processor time.

mod attack;
mod attackers;
mod busy;
mod cable;
mod ending;
mod ordinary;
mod rivals;
mod site;
mod sockets;
mod verdict;
mod watch;

pub(crate) use attack::{AttackArguments, attack};

use crate::api;
use crate::reel;
use crate::rival::Against;
use crate::server::Server;
use anyhow::{Context, Result};
use attack::Attack;
use attackers::{Attackers, Orders};
use busy::Busy;
use ordinary::{Begin, Newcomers};
use reel_load::Outcome;
use reel_report::{CommonOptions, Report};
use serde_json::json;
use site::{Frozen, Site, SiteSpec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{available_parallelism, scope, sleep, spawn};
use std::time::Duration;
use watch::Health;

/// The options of `siege`.
#[derive(clap::Args)]
pub(crate) struct SiegeArguments {
    /// `--seconds` is the length of the siege (300).
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    against: Against,
    /// Ordinary viewers at 1 Mb/s (200).
    #[arg(long)]
    viewers: Option<usize>,
    /// Only these attacks, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Attack::ALL)]
    attacks: Vec<Attack>,
    /// The network's rate, in Mb/s [1.6 for each viewer].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    network: Option<u64>,
    /// The server is not told that rate, and learns it.
    #[arg(long)]
    learnt: bool,
    /// A busy loop on each processor, from the start of the server on.
    #[arg(long)]
    busy: bool,
    /// Processor time of the attackers, in hundredths of one processor.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=6400))]
    quota: u32,
}

/// The rate of the films.
const RATE_BPS: u64 = 1_000_000;
/// The network is so much larger than what ordinary viewers and those who fetch films are sent at
/// the rate of the films. Viewers may have 85 % of it,
/// and a reservation is larger in the seconds in which segments are sent. The room that is left is
/// what newcomers and hoarders compete for; the report says how much it is.
const NETWORK_PER_VIEWER: f64 = 1.6;
/// In the quick form, in which viewers come in a shorter time and start together.
const NETWORK_PER_VIEWER_QUICK: f64 = 2.4;
/// Titles that are hoarded.
const HOARDED: usize = 3;
/// The attackers continue for so long after SIGTERM.
const BEYOND_S: u64 = 3;

/// How long and how large a siege is.
struct Scale {
    viewers: usize,
    titles: usize,
    /// Over which viewers come.
    arrive: Duration,
    /// Until all of them play.
    settle: Duration,
    siege: Duration,
    /// The last part of it, with a frozen member.
    frozen: Duration,
    /// How long a newcomer stays.
    stay: Duration,
}

/// What was seen.
struct Seen {
    outcome: Outcome,
    newcomers: Newcomers,
    health: Health,
    memory_bytes: u64,
    /// Viewers at this rate that the server says it carries in the long run.
    carries: u64,
    /// What the server wrote to its log until then.
    log: String,
}

/// Runs it.
pub(crate) fn run(arguments: &SiegeArguments) -> Result<()> {
    let common = &arguments.common;
    Report::new("siege").fill(common, |report| {
        if !rustix::process::geteuid().is_root() {
            report.note("skipped: name spaces, a quota and a mount need root");
            return Ok(());
        }
        measure(arguments, &scale(common, arguments.viewers), report)
    })
}

fn scale(common: &CommonOptions, viewers: Option<usize>) -> Scale {
    let second = Duration::from_secs;
    let (viewers, siege_s) =
        (viewers.unwrap_or(if common.quick { 40 } else { 200 }), if common.quick { 6 } else { 300 });
    let siege = second(common.seconds.unwrap_or(siege_s));
    let frozen = (siege / 4).min(second(60));
    if common.quick {
        let (arrive, settle, stay) = (second(6), second(1), second(4));
        return Scale { viewers, titles: 3, arrive, settle, siege, frozen, stay };
    }
    let (arrive, settle, stay) = (second(20), second(10), second(15));
    Scale { viewers, titles: 12, arrive, settle, siege, frozen, stay }
}

fn measure(arguments: &SiegeArguments, scale: &Scale, report: &mut Report) -> Result<()> {
    let common = &arguments.common;
    let lasts = scale.arrive + scale.settle + scale.siege;
    let per_viewer = if common.quick { NETWORK_PER_VIEWER_QUICK } else { NETWORK_PER_VIEWER };
    let viewers = scale.viewers + arguments.attacks.iter().map(|attack| attack.viewers()).sum::<usize>();
    let by_viewers = viewers as f64 * RATE_BPS as f64 * per_viewer;
    let spec = SiteSpec {
        titles: scale.titles,
        hoarded: HOARDED,
        // No viewer sees the end of a film: a second one would have to be admitted.
        film_s: lasts.as_secs() + 20,
        rate_bps: RATE_BPS,
        network_bps: arguments.network.map_or(by_viewers as u64, |mbps| mbps * 1_000_000),
        is_told: !arguments.learnt,
        freezes: arguments.attacks.contains(&Attack::Frozen),
    };
    arguments.against.rivals.installed()?;
    let reel = reel::binary(common.reel.as_deref())?;
    let site = Site::make(&common.make_dir()?, &reel, &spec)?;
    verdict::describe(report, arguments, scale, &spec);
    let server = site.serve()?;
    // Not before: the server measures its members when it starts for the first time.
    let _busy = arguments.busy.then(|| Busy::start(available_parallelism()?.get())).transpose()?;
    let bound = told_bound(&site)?;
    let www = (!arguments.against.rivals.is_empty()).then(|| rivals::save(&site, scale)).transpose()?;
    let (seen, attackers, frozen) = besiege(&site, &server, arguments, scale)?;
    verdict::kept(report, &seen)?;
    let ended = ending::end(&site, &server)?;
    let attacked = attackers.finish()?;
    verdict::attacked(report, arguments, &attacked);
    // The first one's volume is locked as long as the kernel keeps its process.
    let another = site.serve_another();
    verdict::ended(report, &ended, another.map(drop), &site.log()?);
    drop(frozen);
    drop(server);
    www.map_or(Ok(()), |www| rivals::run(report, &site, arguments, scale, bound, &www))
}

/// From the start until `SIGTERM`.
fn besiege<'a>(
    site: &'a Site,
    server: &Server,
    arguments: &SiegeArguments,
    scale: &Scale,
) -> Result<(Seen, Attackers, Option<Frozen<'a>>)> {
    let urls = ordinary::playlists(scale.titles);
    let lasts = scale.arrive + scale.settle + scale.siege;
    let fleet = ordinary::viewers(&site.cable, urls.clone(), scale.viewers, scale.arrive, lasts)?;
    let titles: Vec<_> = (0..HOARDED).map(|title| format!("/watch/bulk-{title:03}/master.m3u8")).collect();
    let seconds = scale.siege.as_secs() + BEYOND_S;
    let orders = Orders { attacks: &arguments.attacks, titles: &titles, seconds, percent: arguments.quota };
    let stop = AtomicBool::new(false);
    scope(|scope| {
        let fleet = scope.spawn(|| fleet.wait(|_| {}));
        sleep(scale.arrive + scale.settle);
        let health = scope.spawn(|| watch::health(&site.cable, &stop));
        let newcomers =
            scope.spawn(|| ordinary::newcomers(&site.cable, &urls, (scale.stay, Begin::Told), &stop));
        let carries = site.cable.near.inside(|| reel::capacity(server, RATE_BPS));
        let attacked = attack_and_freeze(site, scale, &orders);
        stop.store(true, Ordering::Relaxed);
        let outcome = fleet.join().expect("the fleet does not panic")?;
        let newcomers = newcomers.join().expect("newcomers do not panic")?;
        let health = health.join().expect("the watcher does not panic")?;
        let pid = server.processes()?.first().copied().context("a server is a process")?;
        let memory_bytes = watch::memory_bytes(pid)?;
        let (attackers, frozen) = attacked?;
        let (carries, log) = (carries?.0, site.log()?);
        Ok((Seen { outcome, newcomers, health, memory_bytes, carries, log }, attackers, frozen))
    })
}

/// The time of the siege, with a frozen member in its last part. Attackers continue after it.
fn attack_and_freeze<'a>(
    site: &'a Site,
    scale: &Scale,
    orders: &Orders<'_>,
) -> Result<(Attackers, Option<Frozen<'a>>)> {
    let attackers = Attackers::start(site, orders)?;
    sleep(scale.siege.saturating_sub(scale.frozen));
    let frozen = site.freezes().then(|| site.freeze()).transpose()?;
    if frozen.is_some() {
        site.cable.far.inside(|| {
            // Its commit hangs, and is not waited for.
            spawn(|| api::delete(cable::http(), "/api/v1/titles/bulk-000"));
            Ok(())
        })?;
    }
    sleep(scale.frozen);
    Ok((attackers, frozen))
}

/// What the server says that a start takes at most.
fn told_bound(site: &Site) -> Result<Duration> {
    site.cable.far.inside(|| {
        let session = api::post(cable::http(), "/api/v1/sessions", &json!({ "title": "film-000" }))?;
        let told = |name: &str| session[name].as_u64().with_context(|| format!("a session without {name}"));
        let key = session["key"].as_str().context("a session without its key")?;
        api::delete(cable::http(), &format!("/api/v1/sessions/{key}"))?;
        Ok(Duration::from_secs(told("start_bound_s")? + told("starts_in_s")?))
    })
}
