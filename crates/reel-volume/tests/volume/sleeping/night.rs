//! What takes as long as a tenure of the real clock, by which the owner record is renewed.

use std::time::Duration;

use reel_volume::limits::TENURE_NS;
use reel_volume::{OpenOptions, Volume};

use super::SECOND_NS;
use crate::volumes::{Scratch, assert_all_right, open_options, publish};

#[test]
#[ignore = "night"]
fn an_owner_that_rests_leaves_disks_alone_and_writes_again_when_it_is_to() {
    let scratch = Scratch::new(4);
    let volume = Volume::open(scratch.path(), OpenOptions { rests_after_ns: Some(1), ..open_options() });
    let volume = volume.unwrap();
    publish(&volume, "before", &[300_000]);
    let requests = || volume.disks().stats().iter().map(|member| member.reads + member.writes).sum::<u64>();
    // For longer than a tenure, nothing is requested of any member.
    let rests = |_: &u32| {
        let before = requests();
        std::thread::sleep(Duration::from_nanos(TENURE_NS + SECOND_NS));
        requests() == before
    };
    assert!((0..20).any(|attempt| rests(&attempt)), "it renews its record all the time");
    assert_eq!(volume.status().read_only, None, "it can write when it is to");
    publish(&volume, "film", &[300_000]);
    assert_all_right(&volume);
}
