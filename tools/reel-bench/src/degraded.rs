//! `degraded`: a disk is removed, replaced and rebuilt at capacity; a disk that stalls
//! repeatedly. No viewer may notice.

use crate::api::{get, post};
use crate::classes::{DISKS, RATE_BPS};
use crate::device::Change;
use crate::disk_set::{DiskSet, Kind, modelled};
use crate::film;
use crate::fleet::{Mix, players, players_plan};
use crate::reel::{self, Settings, capacity, job};
use crate::server::Server;
use crate::testbed::{Films, Playing, Testbed};
use anyhow::Result;
use reel_load::{Fleet, Outcome, Plan};
use reel_report::{Chart, Claim, CommonOptions, Report};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// The disk that stalls and is removed.
const FAULTY_DISK: usize = 2;
/// A stall of 2 s in every 10 s.
const STALLS: Change = Change::Stalls { stall_ms: 2000, every_ms: 10_000 };
/// Downloads beside, which take what viewers leave.
const DOWNLOADS: usize = 2;
/// Players come over 20 s; what happens to disks happens after that.
const SETTLED: Duration = Duration::from_secs(25);
/// The longest that a rebuild may take.
const REBUILD_MAX: Duration = Duration::from_secs(3600);

/// Runs both.
pub(crate) fn run(arguments: &CommonOptions) -> Result<()> {
    let mut report = Report::new("degraded");
    report.charts = vec![Chart { case: "disk removed", at: "players", value: "late_bytes" }];
    report.fill(arguments, |report| match modelled(arguments, report)? {
        Kind::Modelled => measure(arguments, report),
        _ => {
            report.note("skipped: only modelled disks can be removed");
            Ok(())
        }
    })
}

fn measure(arguments: &CommonOptions, report: &mut Report) -> Result<()> {
    let reel = reel::binary(arguments.reel.as_deref())?;
    let dir = arguments.make_dir()?;
    let quick = arguments.quick;
    let seconds = arguments.seconds.unwrap_or(if quick { 4 } else { 180 });
    let (count, length) = if quick { (4, 10) } else { (60, 120) };
    let film = film::varying(&dir, length, RATE_BPS)?;
    let bytes = fs::metadata(&film)?.len() * (count as u64 + 2);
    let disk_set = DiskSet::make(&dir, Kind::Modelled, DISKS, Films::disk_bytes(bytes, DISKS))?;
    report.note(format!(
        "{DISKS} {} and a spare; {:.1} GB of films; more players than are admitted, {DOWNLOADS} downloads beside; \
         disk {FAULTY_DISK} is the faulty one",
        disk_set.kind.words(),
        bytes as f64 / 1e9
    ));
    let films = Films::make(&disk_set.dir().join("films"), (&film, count), (&film, 2))?;
    let testbed = Testbed::reel(&reel, disk_set, &films)?;
    testbed.probe(if quick { 1 } else { 60 })?;
    let settled = if quick { Duration::from_secs(1) } else { SETTLED };
    let set = Set { testbed, films, seconds, settled };
    set.stalls(report)?;
    set.removed(report)
}

/// What both parts are measured on.
struct Set {
    testbed: Testbed,
    films: Films,
    seconds: u64,
    /// From the start until all players are there.
    settled: Duration,
}

impl Set {
    /// One disk stands still for 2 s of every 10 s, from the moment when all players are there.
    fn stalls(&self, report: &mut Report) -> Result<()> {
        let Self { testbed, films, settled, .. } = self;
        let playing = testbed.start_reel(&Settings::with_admission())?;
        let mix = full(&playing, films, self.seconds)?;
        let outcome = scope(|scope| -> Result<Outcome> {
            let fleet = scope.spawn(|| players(&playing, films, mix));
            sleep(*settled);
            testbed.disk_set.change(FAULTY_DISK, STALLS)?;
            fleet.join().expect("the fleet panicked")
        })?;
        testbed.disk_set.change(FAULTY_DISK, Change::Modelled)?;
        keep(report, "disk stalls", &mix, &outcome, &[]);
        Ok(())
    }

    /// One disk fails, another takes its place and is filled while all viewers watch.
    fn removed(&self, report: &mut Report) -> Result<()> {
        let Self { testbed, films, settled, .. } = self;
        let playing = testbed.start_reel(&Settings::with_admission())?;
        let mix = full(&playing, films, self.seconds)?;
        // They play as long as the rebuild takes, and for their time at least.
        let plan = Plan { duration: Some(REBUILD_MAX), ..players_plan(&playing, films, mix)? };
        let fleet = Fleet::start(plan)?;
        let stopper = fleet.stopper();
        let begun = Instant::now();
        let (outcome, rebuilt) = scope(|scope| -> Result<(Outcome, Result<f64>)> {
            let fleet = scope.spawn(|| fleet.wait(|_| {}));
            sleep(*settled);
            testbed.disk_set.change(FAULTY_DISK, Change::Removed)?;
            // Time to notice that it is gone.
            sleep(*settled / 2);
            let rebuilt = replace(&playing.server, &testbed.disk_set.spare);
            sleep(Duration::from_secs(self.seconds).saturating_sub(begun.elapsed()));
            stopper.stop();
            Ok((fleet.join().expect("the fleet panicked")?, rebuilt))
        })?;
        // What the players saw counts even if the rebuild failed.
        let rebuilt_s = match &rebuilt {
            Ok(took_s) => *took_s,
            Err(error) => {
                report.note(format!("the rebuild: {error:#}"));
                f64::INFINITY
            }
        };
        let volume = get(playing.server.address, "/api/v1/volume")?;
        report.note(format!("after the rebuild: {}", volume["members"]));
        keep(report, "disk removed", &mix, &outcome, &[("rebuilt_s", rebuilt_s)]);
        report.claim(Claim::at_most(
            "the replacement was filled, in seconds".into(),
            rebuilt_s,
            REBUILD_MAX.as_secs_f64(),
        ));
        Ok(())
    }
}

/// Puts the spare in the faulty disk's place and waits until it holds all; how long that took.
fn replace(server: &Server, spare: &Path) -> Result<f64> {
    let begun = Instant::now();
    let replacement = json!({ "member": FAULTY_DISK, "path": spare, "create": true });
    let started = post(server.address, "/api/v1/volume/replace", &replacement)?;
    // The replacement is filled at once.
    job(server, &started, REBUILD_MAX.as_secs())?;
    Ok(begun.elapsed().as_secs_f64())
}

/// More players than are admitted.
fn full(playing: &Playing, films: &Films, seconds: u64) -> Result<Mix> {
    let can = capacity(&playing.server, RATE_BPS)?.0 as usize;
    let most = films.streams.len() * 4;
    Ok(Mix {
        streams: (can * 5 / 4 + 2).min(most),
        aperiodic: DOWNLOADS,
        interactive: 0,
        rate_bps: RATE_BPS,
        seconds,
    })
}

fn keep(report: &mut Report, case: &'static str, mix: &Mix, outcome: &Outcome, more: &[(&'static str, f64)]) {
    let viewers = &outcome.viewers;
    let mut values = vec![
        ("admitted", viewers.admitted as f64),
        ("refused", viewers.refused as f64),
        ("failed", viewers.failed as f64),
        ("segments", viewers.segments as f64),
        ("late_segments", viewers.late_segments as f64),
        ("late_bytes", viewers.late_bytes as f64),
        ("latest_s", viewers.latest_s),
        ("client_p99_ms", outcome.client.tick_late_ms.p99),
    ];
    values.extend(more);
    report.row(case, "reel", mix.streams as f64, 0, &values);
    let claim = format!(
        "{case} at full admission: late segments of {} ({} sessions admitted, {} refused)",
        viewers.segments, viewers.admitted, viewers.refused
    );
    report.claim(Claim::at_most(claim, (viewers.late_segments + viewers.failed) as f64, 0.0));
}
