//! The same viewers and the attacks that make sense against servers that people run today. They
//! serve the same playlists and segments as files, and admit every client.

use super::attack::Attack;
use super::attackers::{Attackers, Orders};
use super::cable::http;
use super::ordinary::{self, Begin, Newcomers};
use super::site::Site;
use super::{HOARDED, Scale, SiegeArguments};
use crate::rival::{self, Rival};
use crate::segments;
use anyhow::Result;
use reel_load::Outcome;
use reel_report::Report;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

/// The others are for what a server of files does not have.
const ATTACKS: [Attack; 5] =
    [Attack::Hoard, Attack::Slowloris, Attack::SlowPosts, Attack::Crawl, Attack::Flood];

/// Keeps the titles of a running Reel as files; where they are.
pub(super) fn save(site: &Site, scale: &Scale) -> Result<PathBuf> {
    let www = site.dir().join("www");
    let saved = site.dir().join("saved");
    site.cable.far.inside(|| segments::save(http(), "/watch/film-000/master.m3u8", &saved))?;
    fs::create_dir_all(&www)?;
    for title in 0..scale.titles {
        symlink(&saved, www.join(format!("film-{title:03}")))?;
    }
    for title in 0..HOARDED {
        symlink(&saved, www.join(format!("bulk-{title:03}")))?;
    }
    Ok(www)
}

/// Besieges each rival in turn.
pub(super) fn run(
    report: &mut Report,
    site: &Site,
    arguments: &SiegeArguments,
    scale: &Scale,
    bound: Duration,
    www: &PathBuf,
) -> Result<()> {
    for rival in arguments.against.rivals.iter() {
        let run = site.dir().join(rival.name());
        let (outcome, newcomers) = besiege(site, arguments, scale, bound, (rival, www, &run))?;
        let viewers = &outcome.viewers;
        report.row(
            "siege",
            rival.name(),
            viewers.came as f64,
            0,
            &[
                ("failed", viewers.failed as f64),
                ("segments", viewers.segments as f64),
                ("late_segments", (viewers.late_segments + newcomers.late_segments) as f64),
                ("latest_s", viewers.latest_s),
                ("newcomers", newcomers.came as f64),
                ("newcomers_in_time", newcomers.in_time as f64),
                ("newcomers_longest_start_s", newcomers.longest_start_s),
                ("client_p99_ms", outcome.client.tick_late_ms.p99),
            ],
        );
        for failure in &viewers.failures {
            report.note(format!("{}: {} x {}", rival.name(), failure.count, failure.reason));
        }
    }
    Ok(())
}

fn besiege(
    site: &Site,
    arguments: &SiegeArguments,
    scale: &Scale,
    bound: Duration,
    (rival, www, run): (Rival, &PathBuf, &PathBuf),
) -> Result<(Outcome, Newcomers)> {
    let _server = site.cable.near.inside(|| rival::Site::new(www, run).start_at(http(), rival.shipped()))?;
    let attacks: Vec<_> =
        arguments.attacks.iter().copied().filter(|attack| ATTACKS.contains(attack)).collect();
    let titles: Vec<_> = (0..HOARDED).map(|title| format!("/bulk-{title:03}/master.m3u8")).collect();
    let seconds = scale.siege.as_secs();
    let orders = Orders { attacks: &attacks, titles: &titles, seconds, percent: arguments.quota };
    let urls: Vec<_> =
        (0..scale.titles).map(|title| format!("http://{}/film-{title:03}/master.m3u8", http())).collect();
    let lasts = scale.arrive + scale.settle + scale.siege;
    let fleet = ordinary::viewers(&site.cable, urls.clone(), scale.viewers, scale.arrive, lasts)?;
    let stop = AtomicBool::new(false);
    scope(|scope| {
        let fleet = scope.spawn(|| fleet.wait(|_| {}));
        sleep(scale.arrive + scale.settle);
        let newcomers = scope
            .spawn(|| ordinary::newcomers(&site.cable, &urls, (scale.stay, Begin::Plainly(bound)), &stop));
        let attackers = (!attacks.is_empty()).then(|| Attackers::start(site, &orders));
        sleep(scale.siege);
        stop.store(true, Ordering::Relaxed);
        let outcome = fleet.join().expect("the fleet does not panic")?;
        let newcomers = newcomers.join().expect("newcomers do not panic")?;
        if let Some(attackers) = attackers {
            attackers?.finish()?;
        }
        Ok((outcome, newcomers))
    })
}
