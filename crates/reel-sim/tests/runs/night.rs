//! Scenarios for the night, with optimised code.

use crate::*;

#[test]
#[ignore = "night"]
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

#[test]
#[ignore = "night"]
fn what_is_stored_changes_beside_viewers_and_would_outlive_any_crash() {
    let report = run(changing(1)).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!((report.stalls, report.late_units), (0, 0), "{report}");
    assert!(report.ingested > 20 && report.removed > 0 && report.read_back > 0, "{report}");
    assert!(report.rebuilt > 1 && report.rebuilt_units > 0, "{report}");
    assert!(report.scrubbed > 0 && report.repaired_rows > 0, "{report}");
    assert!(report.crashes > 20 && report.rebuilt_after_crash == 1, "{report}");
}

#[test]
#[ignore = "night"]
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
#[ignore = "night"]
fn a_scrub_continues_beside_crowds_that_browse_and_download() {
    // It begins after eight minutes, and reads checksums before anything else.
    let report = run(Scenario::drawn(30, 10 * MINUTE_NS, 200)).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.shares_looked_at > 1000, "no client wanted more than there is: {report}");
}

#[test]
#[ignore = "night"]
fn sharing_admits_a_crowd_beyond_what_disks_carry_and_no_viewer_is_late() {
    let report = run(crowd(3)).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!((report.stalls, report.late_units), (0, 0), "{report}");
    assert!(report.followers_most > 200, "{report}");
    let mut alone = crowd(3);
    alone.titles.shared = false;
    let alone = run(alone).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!((alone.stalls, alone.followers_most), (0, 0), "{alone}");
    assert!(report.viewing_most > 2 * alone.viewing_most, "{report}\n{alone}");
}

#[test]
#[ignore = "night"]
fn disks_with_heavy_tails_make_no_admitted_viewer_late() {
    // One read in so many takes up to so long: on hard disks at least 10 ms more, on others 1 ms.
    let tails = [
        (false, 1000, 5 * SECOND_NS),
        (false, 50, SECOND_NS),
        (true, 1000, 5 * SECOND_NS),
        (true, 200, SECOND_NS),
    ];
    let (mut misses, mut units) = (0, 0);
    for seed in 1..=6 {
        for (is_rotational, one_in, most_ns) in tails {
            let report = run(heavy_tailed(seed, is_rotational, one_in, most_ns))
                .unwrap_or_else(|broken| panic!("one in {one_in}: {broken}"));
            assert!(report.refused > 0 && report.segments > 5_000, "{report}");
            // For some that jump there is no room; only those may stall.
            assert_eq!(report.stalls, report.stalls_exempt.displaced, "one in {one_in}: {report}");
            assert_eq!(report.late_units, 0, "one in {one_in}: {report}");
            // Reads of two members at a time, of which parity makes up for one.
            misses += report.deadline_misses;
            units += report.units_read;
        }
    }
    assert!(misses * 10_000 < units, "{misses} of {units}");
}

#[test]
#[ignore = "night"]
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
    assert!(rows_decoded > 0, "no member was left alone");
}

#[test]
#[ignore = "night"]
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
#[ignore = "night"]
fn an_admitted_session_starts_soon_beside_a_crowd_of_interactive_clients() {
    let mut scenario = Scenario { browsers: 100, browse_ns: MINUTE_NS / 600, ..busy_disks(5) };
    // Viewers that seek and change titles.
    scenario.player.restless_ns = MINUTE_NS / 2;
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.starts > 200 && report.browse_most_ns > MINUTE_NS / 20, "{report}");
    assert!(report.start_p50_ns < MINUTE_NS / 60 && report.start_p99_ns < MINUTE_NS / 30, "{report}");
}

#[test]
#[ignore = "night"]
fn viewers_of_ladders_step_down_and_up_at_capacity() {
    let mut scenario = Scenario { viewers: 180, duration_ns: 5 * MINUTE_NS, ..busy_disks(6) };
    scenario.titles.renditions = 4;
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.rendition_steps > 50 && report.rendition_steps_unreserved > 0, "{report}");
    assert_eq!(report.stalls, 0);
}

#[test]
#[ignore = "night"]
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
#[ignore = "night"]
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
#[ignore = "night"]
fn a_price_learnt_in_a_slow_minute_does_not_refuse_viewers_for_long() {
    // A seed in which a member stayed too dear for a quarter of an hour.
    let report = run(Scenario::drawn(3, 18 * MINUTE_NS, 200)).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.dear_most_ns < MINUTE_NS, "{report}");
}

#[test]
#[ignore = "night"]
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
#[ignore = "night"]
fn letting_everybody_in_is_seen_to_break() {
    let broken = broken(Scenario { admission: false, strict: true, viewers: 800, ..busy_disks(4) });
    assert!(["late", "due", "deadline"].iter().any(|word| broken.what.contains(word)), "{broken}");
}

#[test]
#[ignore = "night"]
fn full_links_of_any_rate_make_no_viewer_late() {
    let mut all = Report::default();
    for seed in 1..=200 {
        // Few of the largest, which take longest.
        let mbps = match seed % 20 {
            0 => 1_000,
            other => [20, 50, 100][other as usize % 3],
        };
        let report = run(full_link(seed, mbps, 15 * MINUTE_NS)).unwrap_or_else(|broken| panic!("{broken}"));
        keeps_promises(&report);
        assert!(report.refused > 0, "the link was not full: {report}");
        println!("seed {seed}, {mbps} Mb/s: {}", report.summary());
        let (sum, exempt) = (&mut all.stalls_exempt, report.stalls_exempt);
        sum.displaced += exempt.displaced;
        sum.began_late += exempt.began_late;
        sum.unseen += exempt.unseen;
        all.segments += report.segments;
        all.starts += report.starts;
        all.waited_starts += report.waited_starts;
        all.waits_after_pauses += report.waits_after_pauses;
    }
    let Report { segments, starts, waited_starts, waits_after_pauses, stalls_exempt, .. } = all;
    println!(
        "{segments} segments, {starts} starts, {waited_starts} waited for room; exempt stalls: {stalls_exempt}; {waits_after_pauses} waits after pauses"
    );
}

#[test]
#[ignore = "night"]
fn casts_beside_viewers_at_capacity_are_never_late_with_any_seed() {
    for seed in 1..=8 {
        casts_are_punctual(&Scenario { duration_ns: 15 * MINUTE_NS, ..with_casts(seed) });
    }
}

#[test]
#[ignore = "night"]
fn programs_that_pour_make_no_viewer_late_on_links_of_any_rate() {
    let (mut viewers, mut segments) = (0, 0);
    for seed in 1..=12 {
        let mbps = 20 << (seed % 5);
        let report = writers_disturb_no_viewer(&with_writers(seed, mbps, 3 * MINUTE_NS));
        (viewers, segments) = (viewers + report.pours.viewers, segments + report.segments);
    }
    assert!(viewers > 1_000 && segments > 1_000, "{viewers} viewers, {segments} segments");
}

#[test]
#[ignore = "night"]
fn programs_that_pour_beside_all_faults_of_members_make_no_viewer_late() {
    for seed in 1..=6 {
        let pours = PourSpec { writers: 12, viewers: 40, ..PourSpec::default() };
        let scenario = Scenario { pours, ..Scenario::drawn(seed, 3 * MINUTE_NS, 40) };
        let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
        assert_eq!(
            (report.stalls, report.late_units, report.pours.late_bytes),
            (0, 0, 0),
            "seed {seed}: {report}"
        );
    }
}
