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
