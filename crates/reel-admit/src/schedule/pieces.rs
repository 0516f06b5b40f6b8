//! The schedule of a client that reads its title as one file, in pieces.

use super::*;

const SECOND_NS: u64 = 1_000_000_000;
/// A clock that is not at the border of a round.
const NOW_NS: u64 = 1_000 * SECOND_NS + SECOND_NS / 2;

#[test]
fn a_client_that_reads_a_file_in_bursts_has_what_it_read() {
    let point = TrackSpan { kind: MediaKind::Video, from_ns: 40 * SECOND_NS, until_ns: 40 * SECOND_NS };
    let mut schedule = Schedule::default();
    schedule.anchor(point.from_ns, NOW_NS);
    schedule.requested(&point, NOW_NS);
    assert_eq!(schedule.dry_ns(), Some(1_000 * SECOND_NS));
    assert_eq!(schedule.grace_ns(), PAUSE_GRACE_NS);
    schedule.reads_until(56 * SECOND_NS);
    assert_eq!(schedule.grace_ns(), BUFFER_UNSEEN_NS);
    schedule.reads_until(48 * SECOND_NS);
    assert_eq!(schedule.dry_ns(), Some(1_016 * SECOND_NS));
    // The next burst begins where the last one ended.
    let next = TrackSpan { from_ns: 55 * SECOND_NS, until_ns: 55 * SECOND_NS, ..point };
    assert_eq!(schedule.continuity(&next, NOW_NS + 15 * SECOND_NS), Continuity::OnSchedule);
    let beyond = TrackSpan { from_ns: 57 * SECOND_NS, until_ns: 57 * SECOND_NS, ..point };
    assert!(matches!(schedule.continuity(&beyond, NOW_NS), Continuity::Moves { .. }));
    schedule.shift(44 * SECOND_NS, NOW_NS);
    assert_eq!(schedule.dry_ns(), Some(1_012 * SECOND_NS));
    // What was read elsewhere does not count.
    schedule.anchor(10 * SECOND_NS, NOW_NS);
    schedule.requested(&TrackSpan { from_ns: 10 * SECOND_NS, until_ns: 10 * SECOND_NS, ..point }, NOW_NS);
    assert_eq!(schedule.dry_ns(), Some(1_000 * SECOND_NS));
}

#[test]
fn a_file_that_is_read_again_in_pieces_costs_its_length_once() {
    let point = |second| TrackSpan {
        kind: MediaKind::Video,
        from_ns: second * SECOND_NS,
        until_ns: second * SECOND_NS,
    };
    let mut schedule = Schedule::default();
    schedule.anchor(0, NOW_NS);
    let mut cost_ns = 0;
    for second in [0, 4, 8, 12, 16, 4, 4, 5, 6, 7, 8, 12, 16, 20] {
        let continuity = schedule.continuity(&point(second), NOW_NS);
        assert_eq!(continuity, Continuity::OnSchedule, "{second}");
        cost_ns += schedule.beyond_ns(&point(second), continuity);
        schedule.requested(&point(second), NOW_NS);
    }
    assert_eq!(cost_ns, 12 * SECOND_NS);
}
