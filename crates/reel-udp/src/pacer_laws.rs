//! Properties of a [`Pacer`] for any rates, trains, delays, stalls and clocks.

use super::pacer::Pacer;
use crate::limits::{UDP_BEHIND_NS_MAX, UDP_HURRY};
use proptest::prelude::*;
use std::num::NonZeroU64;

/// A train, and how late its sender wakes for it.
#[derive(Clone, Debug)]
struct PlannedTrain {
    bytes: usize,
    late_ns: u64,
}

/// A train that was sent.
struct SentTrain {
    at_ns: u64,
    bytes: u64,
}

fn rates() -> impl Strategy<Value = u64> {
    // From 64 kb/s of sound to a link of 40 Gb/s.
    (16f64..35.2).prop_map(|power| 2f64.powf(power) as u64)
}

/// Sometimes late because of a timer, seldom because of a stall.
fn planned_trains(stall_ns_max: u64) -> impl Strategy<Value = Vec<PlannedTrain>> {
    let late = prop_oneof![8 => Just(0u64), 8 => 0..100_000u64, 1 => 0..=stall_ns_max];
    let planned = (1usize..65_508, late).prop_map(|(bytes, late_ns)| PlannedTrain { bytes, late_ns });
    proptest::collection::vec(planned, 1..300)
}

fn pacer(rate_bps: u64, now_ns: u64) -> Pacer {
    Pacer::new(NonZeroU64::new(rate_bps).expect("a rate"), now_ns)
}

fn run(pacer: &mut Pacer, start_ns: u64, planned_trains: &[PlannedTrain]) -> Vec<SentTrain> {
    let mut now_ns = start_ns;
    let went = planned_trains.iter().map(|planned| {
        now_ns = pacer.due_ns(now_ns).max(now_ns) + planned.late_ns;
        assert!(pacer.due_ns(now_ns) <= now_ns);
        pacer.sent(now_ns, planned.bytes);
        SentTrain { at_ns: now_ns, bytes: planned.bytes as u64 }
    });
    went.collect()
}

/// Nanoseconds that bytes take at a rate, rounded down.
fn time_ns(rate_bps: u64, bytes: u64) -> u64 {
    (u128::from(bytes) * 8_000_000_000 / u128::from(rate_bps)) as u64
}

proptest! {
    #[test]
    fn nothing_is_ever_ahead_of_the_rate_by_more_than_a_train(rate in rates(), start in 0..u64::MAX / 4, planned_trains in planned_trains(2_000_000_000)) {
        let mut before = 0;
        for went in run(&mut pacer(rate, start), start, &planned_trains) {
            prop_assert!(start + time_ns(rate, before) <= went.at_ns);
            before += went.bytes;
        }
    }

    #[test]
    fn any_period_has_at_most_the_catch_up_rate_and_two_trains(rate in rates(), planned_trains in planned_trains(2_000_000_000)) {
        let all = run(&mut pacer(rate, 0), 0, &planned_trains);
        let (numerator, denominator) = UDP_HURRY;
        let hurried_ns = |bytes| time_ns(rate, bytes) / numerator * denominator;
        for (first, from) in all.iter().enumerate() {
            let mut between = 0;
            for (count, to) in all[first + 1..].iter().enumerate() {
                let rounding_ns = numerator * (count as u64 + 1);
                // Between these two trains are `between` bytes. Of the first train itself a fifth
                // may be missing.
                let bound_ns = hurried_ns(between).saturating_sub(time_ns(rate, from.bytes) / 5 + rounding_ns);
                prop_assert!(to.at_ns - from.at_ns >= bound_ns);
                between += to.bytes;
            }
        }
    }

    #[test]
    fn small_delays_never_add_up(rate in rates(), planned_trains in planned_trains(100_000)) {
        let mut pacer = pacer(rate, 0);
        let all = run(&mut pacer, 0, &planned_trains);
        prop_assert_eq!(pacer.counts().waits, 0);
        // On time again, the pacer still sends faster as long as it must. Then it is exactly where
        // the rate requires, to the nanosecond.
        let mut sent: u64 = all.iter().map(|went| went.bytes).sum();
        let mut now_ns = all[all.len() - 1].at_ns;
        for _ in 0..100_000 {
            now_ns = pacer.due_ns(now_ns).max(now_ns);
            let schedule_ns = (u128::from(sent) * 8_000_000_000).div_ceil(u128::from(rate)) as u64;
            if now_ns == schedule_ns {
                return Ok(());
            }
            prop_assert!(now_ns > schedule_ns);
            pacer.sent(now_ns, 65_507);
            sent += 65_507;
        }
        prop_assert!(false, "still behind");
    }

    #[test]
    fn a_timer_that_is_always_late_by_less_than_a_train_costs_no_rate(rate in 100_000_000..20_000_000_000u64, late_share in 0.0..0.95f64) {
        let mut pacer = pacer(rate, 0);
        let own_ns = time_ns(rate, 61_088);
        let late_ns = (own_ns as f64 * late_share) as u64;
        let planned_trains = vec![PlannedTrain { bytes: 61_088, late_ns }; 1000];
        let all = run(&mut pacer, 0, &planned_trains);
        let elapsed_ns = all[999].at_ns;
        prop_assert!(elapsed_ns <= time_ns(rate, 999 * 61_088) + late_ns + 1);
    }

    #[test]
    fn a_stall_is_caught_up_with_up_to_the_bound_and_no_further(rate in rates(), stall in 0..100_000_000_000u64, bytes in 1usize..65_508) {
        let mut pacer = pacer(rate, 0);
        pacer.sent(0, bytes);
        let own_ns = time_ns(rate, bytes as u64);
        // The next train is due at the first whole nanosecond after its time.
        let due_ns = (bytes as u128 * 8_000_000_000).div_ceil(u128::from(rate)) as u64;
        let (mut now_ns, mut sent) = (due_ns + stall, bytes as u64);
        let behind_ns = stall.min(UDP_BEHIND_NS_MAX);
        // The pacer sends faster until it is on time again. That takes four times as long as it was
        // behind. Then it keeps the rate.
        let trains = 6 * behind_ns / own_ns.max(1) + 10;
        for _ in 0..trains.min(200_000) {
            pacer.sent(now_ns, bytes);
            sent += bytes as u64;
            now_ns = pacer.due_ns(now_ns).max(now_ns);
        }
        let counts = pacer.counts();
        prop_assert_eq!(counts.waited_ns, stall - behind_ns);
        prop_assert_eq!(counts.behind_ns_max, behind_ns);
        if trains <= 200_000 && own_ns > 1000 {
            let schedule_ns = stall - behind_ns + time_ns(rate, sent);
            prop_assert!(now_ns.abs_diff(schedule_ns) <= 2, "{now_ns} {schedule_ns}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_neither_stops_nor_speeds_up_a_stream(rate in rates(), planned_trains in planned_trains(100_000), back in 1..1_000_000_000_000u64) {
        let start = 2_000_000_000_000_000;
        let mut pacer = pacer(rate, start);
        let all = run(&mut pacer, start, &planned_trains);
        let last = &all[all.len() - 1];
        let wait_ns = pacer.due_ns(last.at_ns).saturating_sub(last.at_ns);
        let now_ns = last.at_ns - back;
        let after_ns = pacer.due_ns(now_ns).saturating_sub(now_ns);
        prop_assert_eq!(wait_ns, after_ns);
        prop_assert_eq!(pacer.counts().clock_set_back, 1);
    }

    #[test]
    fn another_rate_begins_where_the_old_one_was(old in rates(), new in rates(), bytes in 1usize..65_508, at_share in 0.0..1.5f64) {
        let mut pacer = pacer(old, 0);
        pacer.sent(0, bytes);
        let now_ns = (time_ns(old, bytes as u64) as f64 * at_share) as u64;
        let ahead = (time_ns(old, bytes as u64) + 1).saturating_sub(now_ns);
        pacer.set_rate(now_ns, NonZeroU64::new(new).expect("a rate"));
        let due_ns = pacer.due_ns(now_ns);
        // Bytes that were ahead are waited for at the new rate.
        let ahead_bytes = u128::from(ahead) * u128::from(old) / 8_000_000_000;
        prop_assert!(due_ns.saturating_sub(now_ns) <= time_ns(new, ahead_bytes as u64) + 2);
        prop_assert!(due_ns.saturating_sub(now_ns) + 2 >= time_ns(new, (ahead_bytes as u64).saturating_sub(1)) || at_share >= 1.0);
    }
}
