//! Scenarios that take seconds: one for each kind of what can go wrong.

use crate::*;

#[test]
fn one_seed_is_one_run() {
    let digest =
        |seed| run(Scenario::drawn(seed, MINUTE_NS, 40)).unwrap_or_else(|broken| panic!("{broken}")).digest;
    assert_eq!(digest(5), digest(5));
    assert_ne!(digest(5), digest(6));
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
fn reservations_at_capacity_are_kept_beside_downloads() {
    let report = run(Scenario { viewers: 180, duration_ns: 2 * MINUTE_NS, ..busy_disks(2) })
        .unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.refused > 0 && report.promised_most_permille > 800, "{report}");
    assert_eq!((report.stalls, report.deadline_misses), (0, 0));
}

#[test]
fn a_price_two_hundred_times_too_high_is_right_after_ten_minutes_of_load() {
    let report = run(mispriced(200_000)).unwrap_or_else(|broken| panic!("{broken}"));
    let (least, most) = report.priced_permille;
    // Reads that do not wait for one another take a little longer than their share of a full disk.
    assert!(least > 1_000 && most < 1_500, "{least} to {most}: {report}");
    assert!(report.refused > 100, "the price mattered: {report}");
    assert_eq!((report.late_units, report.stalls, report.deadline_misses), (0, 0, 0), "{report}");
}

#[test]
fn a_price_five_times_too_low_makes_no_viewer_late() {
    let mut scenario = mispriced(200);
    scenario.device = DeviceSpec::Ssd(SsdSpec { link_bytes_per_s: 6_000_000, ..SsdSpec::default() });
    scenario.buffers = 8_000;
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    // At its own price, each of these viewers would be admitted.
    assert!(report.refused > 1_000 && report.opened < 100, "{report}");
    assert!(report.priced_permille.0 > 700, "nearly what it is: {:?} of {report}", report.priced_permille);
    assert_eq!((report.late_units, report.stalls), (0, 0), "{report}");
    // Units that were read after their deadline, while it was learnt. Buffers cover them.
    assert!(report.deadline_misses < 20, "{} of {report}", report.deadline_misses);
}

#[test]
fn disks_of_which_some_reads_take_a_second_make_no_admitted_viewer_late() {
    let scenario = Scenario { duration_ns: MINUTE_NS, ..heavy_tailed(2, false, 50, SECOND_NS) };
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.refused > 0 && report.rows_decoded > 100, "parity in their place: {report}");
    assert_eq!((report.late_units, report.stalls, report.deadline_misses), (0, 0, 0), "{report}");
}

#[test]
fn players_of_files_at_capacity_are_kept_what_they_were_promised_beside_downloads() {
    let report = run(busy_with_files(2)).unwrap_or_else(|broken| panic!("{broken}"));
    let mounted = report.mounted;
    assert!(mounted.refused > 0 && report.promised_most_permille > 800, "{report}");
    assert!(mounted.admitted > 50 && mounted.reads > 10_000, "{report}");
    assert_eq!(mounted.stalls - mounted.stalls_exempt.not_admitted, 0, "{report}");
    assert_eq!((mounted.late_units, report.deadline_misses), (0, 0), "{report}");
}

/// A seed in which a player jumps forward by less than its kernel may have under way.
#[test]
fn a_player_of_a_file_that_jumps_a_little_keeps_its_promise() {
    let scenario = Scenario { mounted: 100, ..Scenario::plain(38, 3 * MINUTE_NS / 4, 1) };
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.mounted.admitted > 50 && report.mounted.looks > 0, "{report}");
}

#[test]
fn players_of_files_are_seen_to_be_late_where_deadlines_are_not_looked_at() {
    let scenario = Scenario { policy: Policy::Fifo, viewers: 0, ..busy_with_files(2) };
    let broken = broken(scenario);
    assert!(broken.what.contains("file") || broken.what.contains("deadline"), "{broken}");
}

#[test]
fn disks_that_sleep_are_waited_for_before_the_first_viewer_is_admitted_and_no_viewer_is_late() {
    for seed in 1..=3 {
        let report = run(asleep(seed)).unwrap_or_else(|broken| panic!("{broken}"));
        assert_eq!((report.woken, report.members_lost), (5, 0), "{report}");
        // A viewer looks twenty times a second, and waits until all disks but one are awake.
        assert!((100..4_000).contains(&report.waits_for_disks), "{} of {report}", report.waits_for_disks);
        assert!(report.opened > 30 && report.starts > 30, "{report}");
        assert_eq!((report.late_units, report.stalls, report.deadline_misses), (0, 0, 0), "{report}");
        assert!(report.start_most_ns < MINUTE_NS / 30, "{report}");
        assert!(report.priced_permille.1 < 1_300, "spinning up costs no price: {report}");
    }
}

#[test]
fn casts_beside_viewers_at_capacity_are_never_late_and_disturb_no_viewer_when_a_member_is_lost() {
    casts_are_punctual(&with_casts(11));
}

#[test]
fn casts_are_seen_to_be_late_where_deadlines_are_not_looked_at() {
    let scenario = Scenario { policy: Policy::Fifo, viewers: 0, ..with_casts(2) };
    let broken = broken(scenario);
    assert!(broken.what.contains("cast") || broken.what.contains("deadline"), "{broken}");
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

#[test]
fn a_crowd_in_two_languages_shares_pictures_and_no_viewer_is_late() {
    let mut scenario = crowd(5);
    scenario.duration_ns = 2 * MINUTE_NS;
    scenario.viewers = 150;
    scenario.titles.languages = 2;
    let report = run(scenario).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!((report.stalls, report.late_units), (0, 0), "{report}");
    assert!(report.followers_most > 50, "{report}");
}

#[test]
fn starts_and_seeks_on_a_full_link_make_no_viewer_late() {
    let (mut waited, mut refused) = (0, 0);
    for (seed, mbps) in [(1, 20), (2, 50), (3, 100), (4, 100)] {
        let report = run(full_link(seed, mbps, 3 * MINUTE_NS)).unwrap_or_else(|broken| panic!("{broken}"));
        keeps_promises(&report);
        (waited, refused) = (waited + report.waited_starts, refused + report.refused);
    }
    assert!(waited > 5 && refused > 100, "{waited} waited, {refused} refused");
}

#[test]
fn more_viewers_than_a_link_carries_are_seen_to_break() {
    let broken = broken(Scenario { admission: false, strict: true, ..full_link(1, 20, 3 * MINUTE_NS) });
    assert!(broken.what.contains("stood still") || broken.what.contains("picture"), "{broken}");
}

#[test]
fn players_of_more_files_than_a_link_carries_are_seen_to_stand_still() {
    let scenario = Scenario { viewers: 0, mounted: 30, ..full_link(1, 50, 3 * MINUTE_NS) };
    let report = run(Scenario { admission: false, ..scenario }).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.mounted.stalls > 10, "{report}");
}

#[test]
fn programs_that_pour_on_a_full_link_make_no_viewer_late() {
    let (mut all, mut refused, mut segments) = ([0; 6], 0, 0);
    for (seed, mbps) in [(1, 50), (2, 100), (3, 100)] {
        let run = writers_disturb_no_viewer(&with_writers(seed, mbps, 2 * MINUTE_NS / 3));
        let report = run.pours;
        let PoursReport { begun, completed, died, cut, broken, finished, .. } = report;
        for (sum, more) in all.iter_mut().zip([begun, completed, died, cut, broken, finished]) {
            *sum += more;
        }
        refused += report.viewers_refused;
        segments += run.segments;
        assert!(report.viewers > 20 && report.messages > 1_000 && report.held_back > 0, "{report}");
    }
    assert!(all.iter().all(|some| *some > 0) && refused > 10, "{all:?}, {refused} refused");
    assert!(segments > 200, "{segments} segments of films");
}

#[test]
fn programs_that_pour_more_than_there_is_memory_for_are_refused_and_repeat_with_their_seed() {
    let scenario = || Scenario {
        pours: PourSpec { writers: 60, viewers: 10, ..PourSpec::default() },
        uplink_bps: None,
        ..with_writers(4, 100, MINUTE_NS / 4)
    };
    let report = run(scenario()).unwrap_or_else(|broken| panic!("{broken}")).pours;
    assert!(report.refused > 5 && report.memory_most_bytes > 60 << 20, "{report}");
    assert_eq!(report, run(scenario()).unwrap_or_else(|broken| panic!("{broken}")).pours);
}

/// The laws of the run: no more is admitted than the processors carry, and none is refused for
/// which there is room.
#[test]
fn programs_that_pour_more_than_the_processors_carry_are_refused() {
    let scenario = with_writers(5, 100, MINUTE_NS);
    let pours = PourSpec { written_bytes_per_s: Some(3_000_000), ..scenario.pours };
    let report = run(Scenario { pours, ..scenario }).unwrap_or_else(|broken| panic!("{broken}")).pours;
    assert!(report.not_admitted > 10 && report.begun > 10, "{report}");
    assert!(report.completed > 0 && report.died > 0 && report.finished > 0, "{report}");
    assert_eq!(report.late_bytes, 0, "{report}");
}

#[test]
fn viewers_of_poured_streams_are_seen_to_be_late_where_none_is_refused() {
    let pours = PourSpec { writers: 12, viewers: 80, ..PourSpec::default() };
    let scenario =
        Scenario { pours, viewers: 0, admission: false, strict: true, ..with_writers(1, 20, MINUTE_NS) };
    let broken = broken(scenario);
    assert!(broken.what.contains("poured stream"), "{broken}");
}
