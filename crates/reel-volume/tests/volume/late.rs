//! Members that are missing at some openings and come back: what they lack is written, whatever was
//! published, removed and published again meanwhile.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_testkit::Rng;
use reel_volume::{RepairOptions, Volume};

use crate::volumes::{Scratch, assert_all_right, publish};

const MEMBERS: usize = 4;

/// Publishes and removes titles. Titles of few sizes take each other's slots, and one that comes
/// back has the bytes that it had.
fn change(volume: &Volume, rng: &mut Rng) {
    for _ in 0..1 + rng.below(4) {
        let (id, length) = (format!("t{}", rng.below(5)), 60_000);
        match volume.title(&id) {
            Some(_) if rng.below(3) == 0 => volume.rename(&id, "another name").unwrap(),
            Some(_) => volume.remove(&id).unwrap(),
            None => publish(volume, &id, &[length, 100]),
        }
    }
}

/// Fills the members that are late, or begins to.
fn bring_back(volume: &Volume, rng: &mut Rng) {
    for member in volume.late() {
        let mut calls = if rng.below(3) == 0 { rng.below(3) } else { u64::MAX };
        let done = volume.catch_up(member, RepairOptions::default(), &mut |_| {
            calls = calls.saturating_sub(1);
            calls > 0
        });
        done.unwrap();
    }
}

#[test]
fn late_members_hold_everything_once_they_are_in_use() {
    for seed in 0..40 {
        let scratch = Scratch::new(MEMBERS);
        let mut rng = Rng::new(seed);
        change(&scratch.open(), &mut rng);
        let mut away: Option<usize> = None;
        for _ in 0..6 {
            let aside = scratch.path().join("aside");
            if let Some(member) = away.filter(|_| rng.below(2) == 0) {
                std::fs::rename(&aside, scratch.member(member)).unwrap();
                away = None;
            }
            let volume = scratch.open();
            bring_back(&volume, &mut rng);
            change(&volume, &mut rng);
            let everything_in_use = volume
                .findings()
                .iter()
                .all(|finding| finding.state.in_use() || volume.health().readable(finding.member));
            drop(volume);
            if away.is_none() && everything_in_use {
                let member = rng.below(MEMBERS as u64) as usize;
                std::fs::rename(scratch.member(member), &aside).unwrap();
                away = Some(member);
            }
        }
        if let Some(member) = away {
            std::fs::rename(scratch.path().join("aside"), scratch.member(member)).unwrap();
        }
        let volume = scratch.open();
        for member in volume.late() {
            assert!(volume.catch_up(member, RepairOptions::default(), &mut |_| true).unwrap().complete);
        }
        assert_all_right(&volume);
        let report = volume.check(&mut |_| true);
        assert!(report.is_clean(), "seed {seed}: {report:?}");
    }
}
