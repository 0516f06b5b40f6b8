//! Members whose disks sleep, and such that never wake.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_disk::MemberActivity;
use reel_disk::limits::WAKE_MAX_NS;
use reel_volume::limits::WAKE_LOOK_NS;
use reel_volume::{MemberState, MemberUse, Volume, WakeOccasion};

use crate::volumes::immediate::ImmediateDisks;
use crate::volumes::{Scratch, assert_all_right, publish, title_of};

mod night;

const SECOND_NS: u64 = 1_000_000_000;

/// Far less than a disk takes to spin up.
const PATIENCE_NS: u64 = SECOND_NS;

fn open(scratch: &Scratch) -> (Volume, std::sync::Arc<ImmediateDisks>) {
    ImmediateDisks::open_with(scratch, |options| options.write_patience_ns = Some(PATIENCE_NS))
}

#[test]
fn a_member_that_has_to_spin_up_is_written_and_not_dropped() {
    let scratch = Scratch::new(4);
    let (volume, disks) = open(&scratch);
    publish(&volume, "before", &[300_000]);
    let title = title_of(&volume, "film", &[100_000]);
    let begun_ns = disks.now_ns();
    disks.sleep(2, Some(WAKE_MAX_NS - SECOND_NS));
    assert_eq!(volume.disks().activity(2), MemberActivity::Idle);
    volume.publish(title).unwrap();
    assert!(disks.now_ns() >= begun_ns + WAKE_MAX_NS - SECOND_NS, "it waited for the disk");
    assert_eq!(volume.disks().activity(2), MemberActivity::Active);
    assert_eq!((volume.health().lost(), volume.counters().members_dropped.get()), (0, 0));
    assert_all_right(&volume);
}

#[test]
fn a_member_that_never_wakes_is_dropped_in_bounded_time() {
    let scratch = Scratch::new(4);
    let (volume, disks) = open(&scratch);
    publish(&volume, "before", &[300_000]);
    let title = title_of(&volume, "film", &[100_000]);
    let begun_ns = disks.now_ns();
    disks.sleep(2, None);
    volume.publish(title).unwrap();
    let waited_ns = disks.now_ns() - begun_ns;
    assert!((WAKE_MAX_NS..=WAKE_MAX_NS + PATIENCE_NS).contains(&waited_ns), "{waited_ns}");
    assert_eq!(volume.disks().activity(2), MemberActivity::Silent);
    assert_eq!(volume.health().member(2), MemberUse::Out);
    assert_eq!(volume.status().members[2].state, MemberState::Failed);
    assert_all_right(&volume);
}

#[test]
fn reads_do_not_wait_for_a_member_that_spins_up() {
    let scratch = Scratch::new(4);
    let (volume, disks) = open(&scratch);
    publish(&volume, "film", &[900_000]);
    let begun_ns = disks.now_ns();
    disks.sleep(1, Some(20 * SECOND_NS));
    assert_all_right(&volume);
    let waited_ns = disks.now_ns() - begun_ns;
    assert!(waited_ns < 10 * SECOND_NS, "{waited_ns}");
    assert_eq!(volume.disks().activity(1), MemberActivity::Waking);
    assert_eq!(volume.health().lost(), 0);
}

#[test]
fn an_idle_member_is_sent_one_read_that_wakes_it_and_others_none() {
    let scratch = Scratch::new(4);
    let (volume, disks) = open(&scratch);
    publish(&volume, "film", &[300_000]);
    assert!(!volume.may_sleep());
    disks.sleep(1, Some(20 * SECOND_NS));
    let answers: Vec<u64> = (0..4).map(|member| volume.health().answers(member)).collect();
    assert!(volume.may_sleep());
    volume.wake(WakeOccasion::Look);
    (0..5).for_each(|_| volume.wake(WakeOccasion::Open));
    assert_eq!((volume.waking(), disks.waiting()), (vec![1], 1));
    assert!(!volume.waits_for_disks(), "the others are enough");
    disks.pass(20 * SECOND_NS - 1);
    volume.wake(WakeOccasion::Open);
    assert_eq!((volume.waking(), disks.waiting()), (vec![1], 1));
    disks.pass(1);
    assert_eq!((volume.waking(), volume.may_sleep()), (vec![], false));
    volume.wake(WakeOccasion::Open);
    let after: Vec<u64> = (0..4).map(|member| volume.health().answers(member)).collect();
    assert_eq!(after, [answers[0], answers[1] + 1, answers[2], answers[3]]);
}

#[test]
fn a_start_waits_for_disks_that_are_needed_and_not_for_one_that_hangs() {
    let scratch = Scratch::new(4);
    let (volume, disks) = open(&scratch);
    publish(&volume, "film", &[300_000]);
    // Another member is out, so this one is needed.
    volume.health().begin_to_rebuild(3, "it is new");
    disks.sleep(1, Some(20 * SECOND_NS));
    let begun_ns = disks.now_ns();
    volume.wake(WakeOccasion::Open);
    assert!(volume.waits_for_disks());
    volume.await_awake();
    let woke_ns = disks.now_ns();
    assert!((20 * SECOND_NS..=20 * SECOND_NS + WAKE_LOOK_NS).contains(&(woke_ns - begun_ns)));
    disks.sleep(1, None);
    volume.wake(WakeOccasion::Open);
    volume.await_awake();
    assert_eq!(disks.now_ns() - woke_ns, WAKE_MAX_NS);
    assert!(!volume.waits_for_disks());
}
