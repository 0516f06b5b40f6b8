//! Members whose disks sleep, and such that never wake.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_disk::MemberActivity;
use reel_disk::limits::WAKE_MAX_NS;
use reel_volume::{MemberState, MemberUse, Volume};

use crate::volumes::immediate::ImmediateDisks;
use crate::volumes::{Scratch, assert_all_right, publish, title_of};

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
