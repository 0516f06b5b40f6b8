//! The shapes that Prism and MARS measured, in simulated time on a rotational disk.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use crate::simulated::{Client, MS, PRICE, Sim};
use reel_disk::{LastLate, Policy};
use reel_qos::limits::{ROUND_NS, SUB_PERIOD_NS};
use reel_qos::{Class, ClassSpec, ClassTable, DEADLINE_NONE_NS, DiskPrice, Kind};

const UNIT: usize = 64 << 10;

/// Sessions of three reads a round, as many as are admitted: 0.7 of a round by the price.
fn admitted(sim: &mut Sim) {
    for _ in 0..700 * MS / PRICE.read_ns(UNIT as u64) / 3 {
        sim.add(Client::Stream { class: Class::PERIODIC, reads: 3 });
    }
}

fn interactive(sim: &mut Sim, count: u32) {
    for _ in 0..count {
        sim.add(Client::Interactive { class: Class::INTERACTIVE, think_ns: 1500 * MS });
    }
}

fn flood(sim: &mut Sim, class: Class, outstanding: u32) {
    sim.add(Client::Bulk { class, outstanding, bytes: UNIT });
}

/// Lets it settle, then counts for `rounds` rounds.
fn measure(sim: &mut Sim, rounds: u64) {
    sim.run(5 * ROUND_NS);
    sim.forget();
    sim.run(rounds * ROUND_NS);
}

/// All admitted sessions, ten interactive clients, and `aperiodic` background readers with four
/// requests each, for a minute.
fn mixed(policy: Policy, aperiodic: u32) -> Sim {
    let mut sim = Sim::new(policy, &ClassTable::default(), 4);
    admitted(&mut sim);
    interactive(&mut sim, 10);
    flood(&mut sim, Class::APERIODIC, 4 * aperiodic);
    measure(&mut sim, 60);
    sim
}

#[test]
fn admitted_reads_are_not_late_whatever_else_is_requested() {
    for aperiodic in [0, 8, 16, 32, 64] {
        let sim = mixed(Policy::Rounds, aperiodic);
        let got = sim.got(Class::PERIODIC);
        assert!(got.done > 3000);
        assert_eq!(got.late, 0, "with {aperiodic} readers in the background");
        let view = sim.scheduler.view(sim.now_ns);
        assert_eq!(view.late, 0);
        assert!(view.least_slack_ns > 0, "slack was used up: {view:?}");
    }
    // The same work in an order that does not look at classes.
    for policy in [Policy::Fifo, Policy::CScan] {
        let got = mixed(policy, 64).got(Class::PERIODIC);
        assert!(got.late * 10 > got.done, "{policy}: {} of {} late", got.late, got.done);
    }
}

#[test]
fn interactive_requests_wait_no_longer_with_more_background_load() {
    let p95 = |policy, aperiodic| mixed(policy, aperiodic).got(Class::INTERACTIVE).percentile_ms(95);
    let [few, many] = [4, 64].map(|aperiodic| p95(Policy::Rounds, aperiodic));
    assert!(many < 1.25 * few && many < 100.0, "{few} ms, {many} ms");
    let [few, many] = [4, 64].map(|aperiodic| p95(Policy::CScan, aperiodic));
    assert!(many > 3.0 * few, "{few} ms, {many} ms: the load must be one that matters");
}

#[test]
fn idle_shares_are_lent_as_they_pass() {
    // Interactive clients need more than their quarter, downloads all there is, streams little.
    // Interactive clients and downloads share what is idle in small portions, so neither waits for
    // what the other may claim of a whole round.
    let classes = ClassTable::new(vec![
        ClassSpec::new("periodic", Kind::Periodic, 500),
        ClassSpec::new("interactive", Kind::Interactive, 250),
        ClassSpec::new("aperiodic", Kind::Aperiodic, 250),
    ])
    .unwrap();
    let mut sim = Sim::new(Policy::Rounds, &classes, 2);
    (0..5).for_each(|_| sim.add(Client::Stream { class: Class::PERIODIC, reads: 3 }));
    (0..10).for_each(|_| sim.add(Client::Interactive { class: Class::INTERACTIVE, think_ns: 300 * MS }));
    flood(&mut sim, Class::APERIODIC, 32);
    measure(&mut sim, 60);
    let interactive = sim.got(Class::INTERACTIVE);
    let part = interactive.device_ns as f64 / sim.busy_ns as f64;
    let p99_ms = interactive.percentile_ms(99);
    assert!(part > 0.30, "interactive requests got {part} of the device: the load must matter");
    assert!(p99_ms < 80.0, "one interactive request in a hundred waited {p99_ms} ms");
}

#[test]
fn more_interactive_clients_do_not_starve_the_background() {
    let aperiodic_with = |count| {
        let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 4);
        admitted(&mut sim);
        interactive(&mut sim, count);
        flood(&mut sim, Class::APERIODIC, 32);
        measure(&mut sim, 30);
        assert_eq!(sim.got(Class::PERIODIC).late, 0);
        sim.got(Class::APERIODIC).device_ns as f64 / sim.busy_ns as f64
    };
    let crowd = aperiodic_with(2000);
    assert!(crowd >= 0.95 * 0.15, "the background got {crowd} of the device beside a crowd");
    let alone = aperiodic_with(5);
    assert!(alone > 1.5 * crowd, "what interactive clients leave is lent: {alone} against {crowd}");
}

/// The built-in classes with a second and a third class of viewers.
fn two_tiers() -> ClassTable {
    ClassTable::new(vec![
        ClassSpec::new("periodic", Kind::Periodic, 300),
        ClassSpec::new("interactive", Kind::Interactive, 150),
        ClassSpec::new("aperiodic", Kind::Aperiodic, 50),
        ClassSpec::new("premium", Kind::Periodic, 400),
        ClassSpec::new("bulk", Kind::Aperiodic, 100),
    ])
    .unwrap()
}

/// The part of the busy device that each class got, against its share, when all of them have more
/// requests than the device can serve.
fn shares_of_a_flood(classes: &ClassTable, slowness_permille: u64, rounds: u64) {
    let mut sim = Sim::new(Policy::Rounds, classes, 2);
    sim.slowness_permille = slowness_permille;
    for (class, spec) in classes.iter() {
        match spec.kind {
            // Without admission: three times what the device can do, all of it due.
            Kind::Periodic => (0..80_000 / slowness_permille.min(1000))
                .for_each(|_| sim.add(Client::Stream { class, reads: 3 })),
            _ => flood(&mut sim, class, 64),
        }
    }
    measure(&mut sim, rounds);
    let busy = sim.busy_ns as f64 / (rounds * ROUND_NS) as f64;
    assert!(busy > 0.99, "busy {busy}");
    for (class, spec) in classes.iter() {
        let part = sim.got(class).device_ns as f64 / sim.busy_ns as f64;
        let share = f64::from(spec.share_permille) / 1000.0;
        println!("{slowness_permille} {}: {part:.4} of {share}", spec.name);
        assert!((part / share - 1.0).abs() < 0.05, "{} got {part} for a share of {share}", spec.name);
    }
}

#[test]
fn shares_are_kept_when_all_classes_are_overloaded() {
    shares_of_a_flood(&ClassTable::default(), 1000, 20);
    shares_of_a_flood(&two_tiers(), 1000, 20);
}

#[test]
fn shares_are_of_the_time_that_the_device_really_takes() {
    // The price is wrong: a device three times as slow, and one twice as fast.
    for slowness_permille in [3000, 1500, 700, 500] {
        shares_of_a_flood(&ClassTable::default(), slowness_permille, 20);
    }
}

#[test]
fn what_a_class_does_not_use_is_lent() {
    for (viewers, readers) in [(0, 64), (3, 64), (3, 2)] {
        let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 2);
        (0..viewers).for_each(|_| sim.add(Client::Stream { class: Class::PERIODIC, reads: 3 }));
        flood(&mut sim, Class::APERIODIC, readers);
        measure(&mut sim, 20);
        let busy = sim.busy_ns as f64 / (20 * ROUND_NS) as f64;
        assert!(busy >= 0.95, "busy {busy}");
    }
    // One class of viewers may use what the other leaves, and the others still get theirs.
    let mut sim = Sim::new(Policy::Rounds, &two_tiers(), 2);
    (0..80).for_each(|_| sim.add(Client::Stream { class: Class::PERIODIC, reads: 3 }));
    flood(&mut sim, Class::APERIODIC, 64);
    measure(&mut sim, 20);
    let part = |class| sim.got(class).device_ns as f64 / sim.busy_ns as f64;
    assert!(part(Class::PERIODIC) > 0.7, "{}", part(Class::PERIODIC));
    assert!(part(Class::APERIODIC) > 0.95 * 0.05, "{}", part(Class::APERIODIC));
}

#[test]
fn time_that_no_other_class_needed_is_not_charged_to_a_class() {
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 1);
    // Interactive requests have had the disk for themselves, far beyond their share of this round.
    flood(&mut sim, Class::INTERACTIVE, 40);
    sim.run(600 * MS);
    // Now reserved work comes that takes the rest of it.
    let end_ns = (sim.now_ns / ROUND_NS + 1) * ROUND_NS;
    for place in 0..24 {
        sim.ask(Class::PERIODIC, end_ns + MS, place << 30, UNIT);
    }
    sim.forget();
    sim.run(150 * MS);
    let (interactive, viewers) = (sim.got(Class::INTERACTIVE).done, sim.got(Class::PERIODIC).done);
    assert!(
        interactive >= 3 && 24 > viewers && viewers > 2 * interactive,
        "{interactive} interactive ones broke the order beside {viewers}"
    );
}

#[test]
fn interactive_requests_break_the_order_once_in_a_sub_period() {
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 1);
    // Reserved work of a round, all of it due at the end of this round.
    let round_end_ns = sim.now_ns + ROUND_NS;
    for place in 0..60 {
        sim.ask(Class::PERIODIC, round_end_ns + 10 * MS, place << 30, UNIT);
    }
    sim.run(SUB_PERIOD_NS + MS);
    for place in 0..20 {
        sim.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, place << 34, 4096);
    }
    sim.run(300 * MS);
    let periodic = sim.got(Class::PERIODIC).starts_ns;
    let starts = sim.got(Class::INTERACTIVE).starts_ns;
    let numbers: Vec<u64> = starts.iter().map(|at| at / SUB_PERIOD_NS).collect();
    assert!(numbers.len() >= 4, "{numbers:?}");
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "one in each: {numbers:?}");
    assert!(periodic.len() > 3 * starts.len(), "in between the sweep continues");
}

#[test]
fn many_interactive_requests_wait_for_tokens() {
    // A share of 2 %: one request of 12 ms in 0.6 s, although a sub-period begins every 50 ms.
    let mut specs: Vec<ClassSpec> = ClassTable::default().iter().map(|(_, spec)| spec.clone()).collect();
    (specs[1].share_permille, specs[2].share_permille) = (20, 280);
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::new(specs).unwrap(), 1);
    (0..80).for_each(|_| sim.add(Client::Stream { class: Class::PERIODIC, reads: 3 }));
    flood(&mut sim, Class::INTERACTIVE, 20);
    measure(&mut sim, 10);
    let got = sim.got(Class::INTERACTIVE);
    assert!((5..40).contains(&got.done), "{} in ten rounds", got.done);
}

#[test]
fn without_slack_only_reserved_work_is_served() {
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 1);
    sim.run(350 * MS);
    // Half a round of work, due by the end of this round, of which 650 ms are left; then 90 % of
    // what is left.
    for (reads, goes) in [(24_u64, true), (49, false)] {
        let end_ns = (sim.now_ns / ROUND_NS + 1) * ROUND_NS;
        (0..reads).for_each(|place| {
            sim.ask(Class::PERIODIC, end_ns + MS, place << 30, UNIT);
        });
        let view = sim.scheduler.view(sim.now_ns);
        let left_ns = (end_ns - sim.now_ns) as i64 - (reads * PRICE.read_ns(UNIT as u64)) as i64;
        assert_eq!(view.slack_ns, left_ns);
        let aperiodic = sim.ask(Class::APERIODIC, DEADLINE_NONE_NS, 3 << 29, UNIT);
        sim.run(60 * MS);
        assert_eq!(sim.is_answered(aperiodic), goes, "slack {left_ns}");
        sim.run(ROUND_NS - sim.now_ns % ROUND_NS + 350 * MS);
        assert!(sim.is_answered(aperiodic));
        assert_eq!(sim.got(Class::PERIODIC).late, 0);
    }
}

#[test]
fn a_promoted_read_is_in_time() {
    let late_without_and_with = [false, true].map(|promoted| {
        let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 4);
        admitted(&mut sim);
        flood(&mut sim, Class::APERIODIC, 600);
        sim.run(5 * ROUND_NS);
        // A background reader reads something, and now a viewer needs the same bytes: no second
        // read.
        let id = sim.ask_as_the_last(Class::APERIODIC, 5 << 34, UNIT);
        sim.run(MS);
        if promoted {
            sim.scheduler.promote(id, Class::PERIODIC, sim.now_ns + 2 * ROUND_NS);
            // A promotion is not undone.
            sim.scheduler.promote(id, Class::APERIODIC, DEADLINE_NONE_NS);
        }
        sim.run(2 * ROUND_NS);
        !sim.is_answered(id)
    });
    assert_eq!(late_without_and_with, [true, false]);
}

#[test]
fn late_and_short_notice_requests_are_served_by_deadline() {
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 1);
    let now_ns = sim.now_ns;
    let bucket = sim.ask(Class::PERIODIC, now_ns + ROUND_NS + MS, 1 << 20, UNIT);
    let soon = sim.ask(Class::PERIODIC, now_ns + 900 * MS, 2 << 20, UNIT);
    let sooner = sim.ask(Class::PERIODIC, now_ns + 300 * MS, 4 << 20, UNIT);
    let sooner_too = sim.ask(Class::PERIODIC, now_ns + 400 * MS, 3 << 20, UNIT);
    let late = sim.ask(Class::PERIODIC, now_ns - MS, 5 << 20, UNIT);
    let mut order = Vec::new();
    while let Some(next) = sim.scheduler.pop(now_ns) {
        order.push(next.id);
        sim.scheduler.done(next.id, now_ns);
    }
    // Near deadlines in one sweep, the sweeps by deadline.
    assert_eq!(order, [late, sooner_too, sooner, soon, bucket]);
    let view = sim.scheduler.view(now_ns);
    let last = LastLate { at_ns: now_ns, class: Class::PERIODIC };
    assert_eq!((view.late, view.last_late), (1, Some(last)));
}

#[test]
fn interactive_requests_keep_their_order_and_buckets_are_swept() {
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 1);
    let now_ns = sim.now_ns;
    let ask = |sim: &mut Sim, class, offset| sim.ask(class, now_ns + 5 * ROUND_NS, offset, 4096);
    let places = [7, 3, 9, 1, 5_u64];
    let interactive = places.map(|place| ask(&mut sim, Class::INTERACTIVE, place << 30));
    let periodic = places.map(|place| (place, ask(&mut sim, Class::PERIODIC, place << 30)));
    let order: Vec<u64> = std::iter::from_fn(|| {
        let next = sim.scheduler.pop(now_ns)?;
        sim.scheduler.done(next.id, now_ns);
        Some(next.id)
    })
    .collect();
    let mut swept = periodic.to_vec();
    swept.sort_unstable();
    assert_eq!(order[..5], interactive);
    assert_eq!(order[5..], swept.iter().map(|&(_, id)| id).collect::<Vec<u64>>());
}

#[test]
fn where_seeks_cost_nothing_a_bucket_is_served_by_deadline() {
    let price = DiskPrice {
        read_request_ns: 100_000,
        read_mib_ns: 400_000,
        write_request_ns: 100_000,
        write_mib_ns: 400_000,
        independent_limits: false,
    };
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 1);
    sim.scheduler.set_price(price);
    let now_ns = sim.now_ns;
    let ids: Vec<u64> = [900, 100, 500]
        .map(|ms| sim.ask(Class::PERIODIC, now_ns + ROUND_NS + ms * MS, ms << 20, UNIT))
        .into();
    let order: Vec<u64> = std::iter::from_fn(|| {
        let next = sim.scheduler.pop(now_ns)?;
        sim.scheduler.done(next.id, now_ns);
        Some(next.id)
    })
    .collect();
    assert_eq!(order, [ids[1], ids[2], ids[0]]);
}

#[test]
fn a_member_that_is_not_rotational_is_given_as_many_requests_as_it_was_measured_with() {
    let price = DiskPrice {
        read_request_ns: 800_000,
        read_mib_ns: 4_000_000,
        write_request_ns: 800_000,
        write_mib_ns: 4_000_000,
        independent_limits: false,
    };
    let times = |times: u64| DiskPrice { read_request_ns: 800_000 * times, ..price };
    // A member counts as a slow rotational disk until it is measured.
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 8);
    for number in 0..3 {
        match number {
            0 => sim.scheduler.set_price(price),
            // It is slower than it was; that does not make it rotational.
            1 => sim.scheduler.correct_price(times(2)),
            _ => sim.scheduler.correct_price(times(4)),
        }
        let now_ns = sim.now_ns;
        (0..8).for_each(|place| {
            sim.ask(Class::PERIODIC, now_ns + ROUND_NS, place << 30, UNIT);
        });
        let given: Vec<u64> = std::iter::from_fn(|| sim.scheduler.pop(now_ns)).map(|next| next.id).collect();
        assert_eq!(given.len(), 8);
        given.into_iter().for_each(|id| sim.scheduler.done(id, now_ns));
    }
}

#[test]
fn a_transfer_takes_as_long_beside_six_readers_as_alone() {
    // MARS, table 2: a stream of reads, each requested when the one before is answered, beside
    // sequential readers in the background.
    let rounds_for = |policy, readers| {
        let mut sim = Sim::new(policy, &ClassTable::default(), 4);
        for _ in 0..10 {
            sim.add(Client::Stream { class: Class::PERIODIC, reads: 3 });
        }
        (0..readers).for_each(|_| flood(&mut sim, Class::APERIODIC, 8));
        sim.run(30 * ROUND_NS);
        let got = sim.got(Class::PERIODIC);
        (got.done, got.late)
    };
    let alone = rounds_for(Policy::Rounds, 0);
    for readers in 1..=6 {
        let beside = rounds_for(Policy::Rounds, readers);
        assert!(beside.1 == 0 && beside.0.abs_diff(alone.0) * 20 <= alone.0, "{beside:?} against {alone:?}");
    }
}

/// The longest wait of a starting reader: one starts each second for a while. Meanwhile everything
/// admitted is read, `interactive_clients` interactive clients read without a pause, and downloads
/// take what they can get. The starting reader is due at once, or has no deadline either.
fn longest_start(interactive_clients: u32, is_due: bool) -> f64 {
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 4);
    admitted(&mut sim);
    (0..interactive_clients)
        .for_each(|_| sim.add(Client::Interactive { class: Class::INTERACTIVE, think_ns: MS }));
    flood(&mut sim, Class::APERIODIC, 32);
    sim.run(20 * ROUND_NS);
    let mut most_ns = 0;
    for number in 0..30 {
        let began_ns = sim.now_ns;
        let due_ns = if is_due { began_ns + 200 * MS } else { DEADLINE_NONE_NS };
        let id = sim.ask(Class::INTERACTIVE, due_ns, number * 7_919 % 1000 * (1 << 30), 4 * UNIT);
        while !sim.is_answered(id) {
            sim.run(10 * MS);
        }
        most_ns = most_ns.max(sim.now_ns - began_ns);
        sim.run(ROUND_NS - (sim.now_ns - began_ns) % ROUND_NS);
    }
    assert_eq!(sim.got(Class::PERIODIC).late, 0);
    most_ns as f64 / ROUND_NS as f64
}

#[test]
fn a_starting_viewer_does_not_wait_for_many_interactive_clients() {
    let [alone_s, beside_s] = [0, 100].map(|interactive_clients| longest_start(interactive_clients, true));
    let arrival_s = longest_start(100, false);
    println!("{alone_s} s alone, {beside_s} s beside many clients, {arrival_s} s in the order of arrival");
    assert!(alone_s < 0.5 && beside_s < 1.0, "{alone_s} s alone, {beside_s} s beside many clients");
    assert!(arrival_s > 2.0, "{arrival_s} s: the load must matter");
}

#[test]
fn interactive_clients_are_served_beside_viewers_that_start_repeatedly() {
    let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 4);
    admitted(&mut sim);
    flood(&mut sim, Class::APERIODIC, 32);
    let interactive = sim.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, 1 << 39, UNIT);
    // More than the disk can do.
    for number in 0..5000 {
        let due_ns = sim.now_ns + 200 * MS;
        sim.ask(Class::INTERACTIVE, due_ns, number * 7_919 % 1000 * (1 << 30), 4 * UNIT);
        sim.run(10 * MS);
    }
    assert!(sim.is_answered(interactive), "after 50 s");
    assert!(sim.scheduler.len() > 100, "the load must be one that matters: {}", sim.scheduler.len());
    assert_eq!(sim.got(Class::PERIODIC).late, 0);
}
