//! How many channels of 5 Mb/s a core sends in time, with trains of 10 ms.
//!
//! A server has at most 64 casts, of up to 64 channels. So the casts are broadcasts that send one
//! title to 60 groups, each at another place of the title.

use super::capture::{Groups, capture};
use super::rivals::{Rival, Running};
use super::site::{Casting, PORT, Setup, Site, title_of};
use super::times::{Due, late_trains_ms, percentile};
use super::{Size, stream};
use crate::api::Unsuccessful;
use anyhow::{Context, Result, ensure};
use reel_broadcast::receivers_wait_ns;
use reel_report::{Claim, Report};
use reel_rtp::sdp::Session;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const CASE: &str = "channels of 5 Mb/s";
const RATE_BPS: u64 = 5_000_000;
/// Channels of a cast: the title is twice as many seconds long, and sent every two seconds.
const CHANNELS: usize = 60;
const SLOT_S: u64 = 2;
/// Casts that are tried, one number after another, until one is late.
const CASTS: [usize; 6] = [1, 2, 4, 6, 8, 12];
/// Trains leave within this time of their schedule, 99 in a hundred of them.
const LATE_MS_MAX: f64 = 2.0;
/// With trains so late, more channels are not tried: packets are counted as late from then on.
const OVERLOADED_MS: f64 = 20.0;
/// The server as delivered, and with priority over ordinary threads: other programs of a busy
/// machine then delay no train.
const SYSTEMS: [(&str, usize); 2] = [("reel", 0), ("reel, SCHED_FIFO", 10)];
/// Processes of a rival at once.
const PROCESSES: usize = 4;
/// Groups of each cast whose packets are captured: the next power of two below.
const CAPTURED: usize = 4;
/// Time until all channels of a broadcast send: the title is read two seconds before.
const SETTLE: Duration = Duration::from_secs(5);

/// What a number of casts came to.
struct Tried {
    channels: usize,
    is_in_time: bool,
    /// Whether more channels are not worth a trial.
    is_overloaded: bool,
    cores: f64,
}

/// Runs it.
pub(super) fn run(size: &Size, report: &mut Report) -> Result<()> {
    let stream = stream::make(&size.dir, CHANNELS as u64 * SLOT_S, RATE_BPS)?;
    let site = Site::make(size, "channels", std::slice::from_ref(&stream))?;
    report.note(format!(
        "{CASE}: broadcasts of one title of {} s to {CHANNELS} groups each (staggered), without FEC; of each, {CAPTURED} groups are captured; \
         rivals: {PROCESSES} processes at once, which send the same file",
        CHANNELS as u64 * SLOT_S
    ));
    let casts = if size.quick { &CASTS[..1] } else { &CASTS[..] };
    let mut most: BTreeMap<&str, Tried> = BTreeMap::new();
    for run in 0..size.runs {
        for (system, priority) in SYSTEMS {
            for &count in casts {
                let tried = match reel(size, &site, &stream, (system, priority, count, run), report) {
                    Err(error) if is_refusal(&error) => {
                        let channels = count * CHANNELS;
                        report.note(format!("{CASE}, {system}: {channels} are refused: {error}"));
                        break;
                    }
                    tried => tried?,
                };
                if tried.is_overloaded {
                    break;
                }
                if tried.is_in_time && most.get(system).is_none_or(|most| most.channels < tried.channels) {
                    most.insert(system, tried);
                }
            }
        }
        for rival in Rival::ALL.into_iter().filter(|rival| !rival.sends_fec()) {
            processes(size, &site, &stream, (rival, run), report)?;
        }
    }
    SYSTEMS.into_iter().for_each(|(system, _)| claim(system, most.get(system), report));
    Ok(())
}

fn claim(system: &str, most: Option<&Tried>, report: &mut Report) {
    let late_ms = report.median_or_nan(CASE, system, CHANNELS as f64, "train_late_p99_ms");
    let claim = format!("{CASE}, {system}, {CHANNELS} of them: ms from schedule to train, p99");
    report.claim(Claim::at_most(claim, late_ms, LATE_MS_MAX));
    let Some(most) = most else {
        return report.note(format!("{CASE}, {system}: no number of them was in time"));
    };
    let cores = most.cores;
    report.note(format!(
        "{CASE}, {system}: {} were in time, the most that were tried or held, with {cores:.3} of a core; so {:.0} for each core that is busy",
        most.channels,
        most.channels as f64 / cores
    ));
    for rival in ["ffmpeg", "gstreamer"] {
        let theirs = report.median_or_nan(CASE, rival, PROCESSES as f64, "cores_per_channel");
        let ratio = most.channels as f64 / cores * theirs;
        let claim = format!("{CASE}: channels for a busy core, {system} / {rival}");
        report.claim(Claim::at_least(claim, ratio, 10.0));
    }
}

/// Whether the server could not promise so much.
fn is_refusal(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Unsuccessful>().is_some_and(|response| response.status == 503)
}

/// Sends so many broadcasts.
fn reel(
    size: &Size,
    site: &Site,
    stream: &Path,
    (system, priority, count, run): (&str, usize, usize, usize),
    report: &mut Report,
) -> Result<Tried> {
    let casting = site.serve(&Setup { priority, ..Setup::default() })?;
    // The longest wait of a receiver that plays one slot behind.
    let wait_s = receivers_wait_ns(SLOT_S * 1_000_000_000) as f64 / 1e9;
    for number in 0..count {
        let more = json!({
            "name": format!("cast-{number}"), "fec": "off", "scheme": "staggered", "wait_s": wait_s, "loop": false,
        });
        casting.add(&title_of(stream), &format!("239.2.{number}.0:{PORT}"), &more)?;
    }
    casting.await_all()?;
    sleep(SETTLE);
    let before = casting.meter()?;
    sleep(Duration::from_secs(size.seconds));
    let spent = casting.meter()?.since(&before);
    let networks: Vec<String> = (0..count).map(|number| format!("239.2.{number}.0/30")).collect();
    let groups = capture(site, &networks, PORT, Duration::from_secs(size.seconds))?;
    let casts = casting.casts()?;
    let sum = |name: &str| casts.iter().filter_map(|cast| cast[name].as_f64()).sum::<f64>();
    let mut late_ms = late_ms(&casting, &groups)?;
    ensure!(groups.len() == count * CAPTURED, "{} groups of {count} casts were sent to", groups.len());
    let late_p99_ms = percentile(&mut late_ms, 99.0).unwrap_or(f64::NAN);
    let (channels, lost) = (count * CHANNELS, sum("lost_packets"));
    let cores = spent.cpu_s / spent.seconds;
    let values = [
        ("train_late_p1_ms", percentile(&mut late_ms, 1.0).unwrap_or(f64::NAN)),
        ("train_late_p50_ms", percentile(&mut late_ms, 50.0).unwrap_or(f64::NAN)),
        ("train_late_p99_ms", late_p99_ms),
        ("cores", cores),
        ("cores_per_channel", cores / channels as f64),
        ("cpu_s_per_gbit", spent.cpu_s_per_gbit()),
        ("mbit_per_s", spent.mbit_per_s()),
        ("late_packets", sum("late_packets")),
        ("lost_packets", lost),
    ];
    report.row(CASE, system, channels as f64, run, &values);
    let is_in_time = late_p99_ms <= LATE_MS_MAX && lost == 0.0;
    let is_overloaded = late_p99_ms > OVERLOADED_MS || lost > 0.0;
    Ok(Tried { channels, is_in_time, is_overloaded, cores })
}

/// How late the trains of all captured groups were, by the times of their casts' descriptions.
fn late_ms(casting: &Casting<'_>, groups: &Groups) -> Result<Vec<f64>> {
    let mut all_ms = Vec::new();
    for (group, packets) in groups {
        let [_, _, cast, channel] = group.octets();
        let session = Session::parse(&casting.description(&format!("cast-{cast}"))?)?;
        let told = session.schedule.context("a broadcast without its schedule")?;
        let stamp = told.time_stamps.get(usize::from(channel)).copied();
        let stamp = stamp.context("a channel that is not described")?;
        let due = Due { unix_ns: told.epoch.to_unix_ns(), stamp };
        all_ms.extend(late_trains_ms(packets, due));
    }
    Ok(all_ms)
}

/// Measures some processes of a rival, each of which sends the file to a group.
fn processes(
    size: &Size,
    site: &Site,
    stream: &Path,
    (rival, run): (Rival, usize),
    report: &mut Report,
) -> Result<()> {
    let start = |number| rival.start(site, stream, &format!("239.3.1.{number}"));
    let running = (1..=PROCESSES).map(start).collect::<Result<Vec<Running>>>()?;
    sleep(SETTLE);
    let meters = || running.iter().map(|process| process.meter(site)).collect::<Result<Vec<_>>>();
    let before = meters()?;
    sleep(Duration::from_secs(size.seconds));
    let spent: Vec<_> = meters()?.iter().zip(&before).map(|(after, before)| after.since(before)).collect();
    let cores: f64 = spent.iter().map(|spent| spent.cpu_s / spent.seconds).sum();
    let rate = spent.first().map_or(f64::NAN, |spent| spent.mbit_per_s());
    let values = [("cores", cores), ("cores_per_channel", cores / PROCESSES as f64), ("mbit_per_s", rate)];
    report.row(CASE, rival.name(), PROCESSES as f64, run, &values);
    Ok(())
}
