//! Whole runs: that they can be repeated, that promises are kept in them, and that broken ones are
//! seen. By day a few scenarios run, at night all of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_disk::Policy;
use reel_sim::device::{DeviceSpec, HddSpec, SleepSpec, SsdSpec, Tail};
use reel_sim::fault::FaultKinds;
use reel_sim::{Broken, CastSpec, PourSpec, PoursReport, Report, Scenario, Simulation};

mod day;
mod night;

const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60 * SECOND_NS;

fn run(scenario: Scenario) -> Result<Report, Box<Broken>> {
    Simulation::new(scenario).unwrap().run()
}

/// Hard disks, viewers and more downloads than there is time for.
fn busy_disks(seed: u64) -> Scenario {
    let mut scenario = Scenario::plain(seed, 3 * MINUTE_NS, 120);
    scenario.device = DeviceSpec::Hdd(HddSpec::default());
    // More than fits into memory; otherwise no viewer would need the disks.
    scenario.titles.titles = 30;
    scenario.buffers = 8_000;
    (scenario.bulks, scenario.bulk_bps) = (40, 1_000_000_000);
    scenario
}

/// Ten minutes of solid state disks that are given a wrong price.
fn mispriced(permille: u64) -> Scenario {
    let mut scenario = Scenario::plain(2, 10 * MINUTE_NS, 150);
    scenario.given_price_permille = permille;
    scenario
}

/// Hard disks with as many players of files as those carry, some viewers of segments, and more
/// downloads than there is time for.
fn busy_with_files(seed: u64) -> Scenario {
    Scenario { mounted: 150, viewers: 30, duration_ns: 2 * MINUTE_NS, ..busy_disks(seed) }
}

/// Disks of which some reads take far longer, up to this: more viewers than these disks carry.
fn heavy_tailed(seed: u64, is_rotational: bool, one_in: u64, most_ns: u64) -> Scenario {
    let mut scenario = Scenario { viewers: 180, duration_ns: 3 * MINUTE_NS, ..busy_disks(seed) };
    let tail = |least_ns| Some(Tail { one_in, least_ns, most_ns });
    scenario.device = match is_rotational {
        true => DeviceSpec::Hdd(HddSpec { tail: tail(10_000_000), ..HddSpec::default() }),
        false => DeviceSpec::Ssd(SsdSpec {
            tail: tail(1_000_000),
            link_bytes_per_s: 30_000_000,
            ..SsdSpec::default()
        }),
    };
    scenario
}

fn broken(scenario: Scenario) -> Broken {
    *run(scenario).expect_err("the run should have been seen to be broken")
}

/// A small library on solid state disks, and everything that changes it.
fn changing(seed: u64) -> Scenario {
    let mut scenario = Scenario::plain(seed, 20 * MINUTE_NS, 60);
    (scenario.titles.titles, scenario.titles.segments) = (12, (60, 120));
    (scenario.ingest_stripes_per_s, scenario.scrubs, scenario.crashes) = (10, true, true);
    scenario.faults =
        FaultKinds { pulled: true, replaced: true, lies: true, rot: true, ..FaultKinds::default() };
    scenario.fault_rest_ns = MINUTE_NS / 2;
    scenario
}

/// Hard disks, and more people on three titles than those carry one by one.
fn crowd(seed: u64) -> Scenario {
    let mut scenario = Scenario::plain(seed, 4 * MINUTE_NS, 300);
    scenario.device = DeviceSpec::Hdd(HddSpec::default());
    (scenario.titles.titles, scenario.bulks, scenario.buffers) = (3, 2, 40_000);
    scenario
}

/// A link of so many Mb/s that is full of viewers who seek and change titles, and of downloads.
fn full_link(seed: u64, mbps: u64, duration_ns: u64) -> Scenario {
    // Twice as many as the link carries.
    let mut scenario = Scenario::plain(seed, duration_ns, (mbps / 2).min(400) as usize);
    (scenario.uplink_bps, scenario.bulks) = (Some(mbps * 1_000_000), 4);
    (scenario.titles.titles, scenario.titles.segments) = (6, (75, 300));
    scenario
}

/// Hard disks that sleep until viewers come, and take 5 to 20 s to spin up.
fn asleep(seed: u64) -> Scenario {
    let mut scenario = Scenario::plain(seed, 5 * MINUTE_NS, 40);
    scenario.device = DeviceSpec::Hdd(HddSpec::default());
    let second_ns = MINUTE_NS / 60;
    scenario.sleep = Some(SleepSpec { idle_ns: 10 * MINUTE_NS, spin_up_ns: (5 * second_ns, 20 * second_ns) });
    scenario.buffers = 8_000;
    scenario
}

/// Viewers and casts for which the disks have no time left: two titles to one group each, and one
/// by a schedule. Members are lost one after another, and come back.
fn with_casts(seed: u64) -> Scenario {
    let mut scenario = Scenario { viewers: 180, duration_ns: 3 * MINUTE_NS, ..busy_disks(seed) };
    scenario.casts = CastSpec { plain: 2, schedules: 1, wait_ns: MINUTE_NS };
    (scenario.faults, scenario.fault_rest_ns) =
        (FaultKinds { pulled: true, ..FaultKinds::default() }, MINUTE_NS / 6);
    scenario
}

/// Beside as many viewers as are admitted, and while a member is lost, no packet of a cast is late
/// and no viewer is.
fn casts_are_punctual(scenario: &Scenario) {
    let report = run(scenario.clone()).unwrap_or_else(|broken| panic!("{broken}"));
    println!("figures: seed {}: {}", scenario.seed, report.casts);
    assert!(report.refused > 0 && report.promised_most_permille > 800, "{report}");
    assert!(report.faults > 0 && report.rows_decoded > 100, "{report}");
    assert!(report.casts.packets > 100_000 && report.casts.fec_packets > 25_000, "{report}");
    assert_eq!(report.casts.late_packets, 0, "{report}");
    keeps_promises(&report);
}

/// A link that is full of viewers of films, and programs of each manner that pour to more viewers
/// than there is room for.
fn with_writers(seed: u64, mbps: u64, duration_ns: u64) -> Scenario {
    let pours = PourSpec { writers: 12, viewers: 40, ..PourSpec::default() };
    Scenario { pours, ..full_link(seed, mbps, duration_ns) }
}

/// Beside as many viewers as are admitted, no admitted viewer of a poured stream is late once it
/// has caught up, and no viewer of a film is late, whatever programs do.
fn writers_disturb_no_viewer(scenario: &Scenario) -> Report {
    let report = run(scenario.clone()).unwrap_or_else(|broken| panic!("{broken}"));
    println!("figures: seed {}: {}", scenario.seed, report.pours);
    assert!(report.refused > 0, "{report}");
    assert_eq!(report.pours.late_bytes, 0, "{report}");
    keeps_promises(&report);
    report
}

/// No viewer stands still whose start or seek was promised and came in time.
fn keeps_promises(report: &Report) {
    let Report { stalls, stalls_exempt, late_units, .. } = *report;
    assert_eq!((stalls - stalls_exempt.total(), late_units), (0, 0), "{report}");
}
