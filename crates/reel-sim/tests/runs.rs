//! Whole runs: that they can be repeated, that promises are kept in them, and that broken ones are
//! seen.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use reel_disk::Policy;
use reel_sim::device::{DeviceSpec, HddSpec};
use reel_sim::fault::FaultKinds;
use reel_sim::{Broken, Report, Scenario, Simulation};

const MINUTE_NS: u64 = 60_000_000_000;

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

fn broken(scenario: Scenario) -> Broken {
    *run(scenario).expect_err("the run should have been seen to be broken")
}

#[test]
fn one_seed_is_one_run() {
    let digest = |seed| {
        run(Scenario::drawn(seed, 3 * MINUTE_NS, 40)).unwrap_or_else(|broken| panic!("{broken}")).digest
    };
    assert_eq!(digest(5), digest(5));
    assert_ne!(digest(5), digest(6));
}

#[test]
fn promises_are_kept_with_one_member_at_a_time_at_fault() {
    let (mut faults, mut decoded, mut segments) = (0, 0, 0);
    for seed in 1..=8 {
        let scenario = Scenario { fault_rest_ns: MINUTE_NS / 4, ..Scenario::drawn(seed, 8 * MINUTE_NS, 40) };
        let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
        assert_eq!((report.stalls, report.late_units), (0, 0), "seed {seed}");
        faults += report.faults;
        decoded += report.rows_decoded;
        segments += report.segments;
    }
    assert!(
        faults > 10 && decoded > 0 && segments > 5_000,
        "{faults} faults, {decoded} rows, {segments} segments"
    );
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

#[test]
fn what_is_stored_changes_beside_viewers_and_would_outlive_any_crash() {
    let report = run(changing(1)).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!((report.stalls, report.late_units), (0, 0), "{report}");
    assert!(report.ingested > 20 && report.removed > 0 && report.read_back > 0, "{report}");
    assert!(report.rebuilt > 1 && report.rebuilt_units > 0, "{report}");
    assert!(report.scrubbed > 0 && report.repaired_rows > 0, "{report}");
    assert!(report.crashes > 20 && report.rebuilt_after_crash == 1, "{report}");
}

#[test]
fn changes_of_what_is_stored_repeat_with_their_seed() {
    let digest = |seed| {
        let scenario = Scenario { duration_ns: 5 * MINUTE_NS, ..changing(seed) };
        run(scenario).unwrap_or_else(|broken| panic!("{broken}")).digest
    };
    assert_eq!(digest(2), digest(2));
}

#[test]
fn a_member_is_replaced_and_rebuilt_at_capacity() {
    let mut scenario = Scenario { viewers: 180, duration_ns: 20 * MINUTE_NS, ..busy_disks(2) };
    (scenario.titles.titles, scenario.titles.segments) = (20, (60, 120));
    (scenario.buffers, scenario.bulks) = (6_000, 2);
    scenario.faults = FaultKinds { replaced: true, ..FaultKinds::default() };
    scenario.fault_rest_ns = MINUTE_NS;
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.refused > 0 && report.promised_most_permille > 800, "{report}");
    assert!(report.replaced > 0 && report.rebuilt > 0, "{report}");
    assert_eq!((report.stalls, report.late_units), (0, 0));
}

#[test]
fn a_scrub_goes_on_beside_crowds_that_browse_and_download() {
    // It begins after eight minutes, and reads checksums before anything else.
    let report = run(Scenario::drawn(30, 10 * MINUTE_NS, 200)).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.shares_looked_at > 1000, "nobody wanted more than there is: {report}");
}

#[test]
fn reservations_at_capacity_are_kept_beside_downloads() {
    let report = run(Scenario { viewers: 180, ..busy_disks(2) }).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.refused > 0 && report.promised_most_permille > 800, "{report}");
    assert_eq!((report.stalls, report.deadline_misses), (0, 0));
}

/// Hard disks, and more people on three titles than those carry one by one.
fn crowd(seed: u64) -> Scenario {
    let mut scenario = Scenario::plain(seed, 4 * MINUTE_NS, 300);
    scenario.device = DeviceSpec::Hdd(HddSpec::default());
    (scenario.titles.titles, scenario.bulks, scenario.buffers) = (3, 2, 40_000);
    scenario
}

#[test]
fn sharing_admits_a_crowd_beyond_what_disks_carry_and_no_viewer_is_late() {
    let report = run(crowd(3)).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!((report.stalls, report.late_units), (0, 0), "{report}");
    assert!(report.followers_most > 200, "{report}");
    let alone = run(Scenario { follows: false, ..crowd(3) }).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!((alone.stalls, alone.followers_most), (0, 0), "{alone}");
    assert!(report.viewing_most > 2 * alone.viewing_most, "{report}\n{alone}");
}

#[test]
fn a_slow_member_is_left_alone_before_buffers_run_dry() {
    // Seeds in which a viewer seeks to the segment that it would have requested next, or skips
    // within its buffer, while a member is slow.
    let mut rows_decoded = 0;
    for seed in [2, 18] {
        let mut scenario = Scenario::drawn(seed, 18 * MINUTE_NS, 200);
        scenario.faults = FaultKinds { slow: true, ..FaultKinds::default() };
        let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(report.faults > 0, "{report}");
        rows_decoded += report.rows_decoded;
    }
    assert!(rows_decoded > 0, "nobody was left alone");
}

#[test]
fn shares_are_kept_while_they_change() {
    let scenario = Scenario {
        change_rest_ns: Some(MINUTE_NS / 3),
        browsers: 70,
        browse_ns: MINUTE_NS / 600,
        duration_ns: 5 * MINUTE_NS,
        ..busy_disks(5)
    };
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.changes > 5 && report.shares_looked_at > 20, "{report}");
}

#[test]
fn an_admitted_session_starts_soon_beside_a_crowd_of_interactive_clients() {
    let mut scenario = Scenario { browsers: 100, browse_ns: MINUTE_NS / 600, ..busy_disks(5) };
    // Viewers that seek and change titles.
    scenario.player.restless_ns = MINUTE_NS / 2;
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.starts > 200 && report.browse_most_ns > MINUTE_NS / 20, "{report}");
    assert!(report.start_p50_ns < MINUTE_NS / 60 && report.start_p99_ns < MINUTE_NS / 30, "{report}");
}

#[test]
fn viewers_of_ladders_step_down_and_up_at_capacity() {
    let mut scenario = Scenario { viewers: 180, duration_ns: 5 * MINUTE_NS, ..busy_disks(6) };
    scenario.titles.renditions = 4;
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.rendition_steps > 50 && report.rendition_steps_refused > 0, "{report}");
    assert_eq!(report.stalls, 0);
}

#[test]
fn sound_keeps_beside_its_pictures_wherever_people_seek() {
    // Seeds in which viewers that played on after a seek were refused, because sound and pictures
    // each moved the schedule.
    for seed in [2, 3, 6, 14] {
        let mut scenario = Scenario::drawn(seed, 12 * MINUTE_NS, 200);
        scenario.faults = FaultKinds::default();
        run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn devices_slower_than_they_were_measured_cost_no_promise_that_can_be_kept() {
    let (mut changes, mut refused) = (0, 0);
    for seed in 1..=3 {
        let mut scenario = Scenario::drawn(seed, 8 * MINUTE_NS, 120);
        (scenario.change_rest_ns, scenario.faults) = (Some(MINUTE_NS / 2), FaultKinds::default());
        let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
        (changes, refused) = (changes + report.changes, refused + report.refused);
    }
    assert!(changes > 20 && refused > 0, "{changes} changes, {refused} refused");
}

#[test]
fn a_price_learnt_in_a_slow_minute_does_not_refuse_viewers_for_long() {
    // A seed in which a member stayed too dear for a quarter of an hour.
    let report = run(Scenario::drawn(3, 18 * MINUTE_NS, 200)).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.dear_most_ns < MINUTE_NS, "{report}");
}

#[test]
fn every_policy_runs_and_each_in_its_own_way() {
    let mut digests: Vec<u64> = Policy::ALL
        .into_iter()
        .map(|policy| {
            let unpromised = Scenario { policy, admission: false, duration_ns: MINUTE_NS, ..busy_disks(3) };
            run(unpromised).unwrap_or_else(|broken| panic!("{policy}: {broken}")).digest
        })
        .collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), Policy::ALL.len());
}

#[test]
fn letting_everybody_in_is_seen_to_break() {
    let broken = broken(Scenario { admission: false, strict: true, viewers: 800, ..busy_disks(4) });
    assert!(["late", "due", "deadline"].iter().any(|word| broken.what.contains(word)), "{broken}");
}

#[test]
fn a_policy_blind_to_deadlines_is_seen_to_break() {
    let broken = broken(Scenario { policy: Policy::Fifo, ..busy_disks(2) });
    let story = broken.to_string();
    assert!(story.starts_with("seed 2, after ") && story.contains("what happened last"), "{story}");
    assert!(!broken.story.is_empty());
}

#[test]
fn more_than_parity_covers_is_seen_to_break() {
    let mut scenario = Scenario::plain(1, 30 * MINUTE_NS, 20);
    scenario.faults = FaultKinds { pulled: true, ..FaultKinds::default() };
    (scenario.fault_rest_ns, scenario.members_at_fault) = (MINUTE_NS / 4, 2);
    assert!(broken(scenario).what.contains("cannot be given what is stored"));
}
