//! A transfer beside readers of a lower class (MARS, table 2), in simulated time on a rotational
//! disk.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use crate::simulated::{Client, MS, Sim};
use reel_disk::Policy;
use reel_disk::limits::{EXPECTED_CREDIT_NS, EXPECTED_PART};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassSpec, ClassTable, Kind};

/// Nearly all for the transfer, as in `reel bench priority`.
fn classes() -> ClassTable {
    ClassTable::new(vec![
        ClassSpec::new("periodic", Kind::Periodic, 10),
        ClassSpec::new("interactive", Kind::Interactive, 985),
        ClassSpec::new("aperiodic", Kind::Aperiodic, 5),
    ])
    .unwrap()
}

/// The time of a transfer of sixteen windows, in seconds, beside this many readers that ran for two
/// seconds before it came.
fn took_s(policy: Policy, readers: u32, pause_ns: u64) -> f64 {
    let mut sim = Sim::new(policy, &classes(), 4);
    (0..readers)
        .for_each(|_| sim.add(Client::Bulk { class: Class::APERIODIC, outstanding: 4, bytes: 256 << 10 }));
    sim.run(2 * ROUND_NS);
    let begun_ns = sim.now_ns;
    sim.add(Client::Transfer { class: Class::INTERACTIVE, windows: 16, units: 16, pause_ns });
    sim.run(60 * ROUND_NS);
    (sim.ended_ns(readers as usize).unwrap() - begun_ns) as f64 / ROUND_NS as f64
}

#[test]
fn a_transfer_that_pauses_between_its_windows_takes_as_long_beside_six_readers() {
    for pause_ms in [0, 1, 3, 5] {
        let alone = took_s(Policy::Rounds, 0, pause_ms * MS);
        for readers in 1..=6 {
            let beside = took_s(Policy::Rounds, readers, pause_ms * MS);
            println!("pauses of {pause_ms} ms: {alone:.3} s alone, {beside:.3} s beside {readers}");
            assert!(
                beside <= 1.05 * alone,
                "{alone} s alone, {beside} s beside {readers}, pauses of {pause_ms} ms"
            );
        }
        // The order matters in this setting.
        let blind = took_s(Policy::CScan, 6, pause_ms * MS);
        assert!(blind > 2.0 * alone, "{alone} s alone, {blind} s among six in the order of places");
    }
    // And so does the wait: a reader that pauses for longer than a seek is not waited for.
    let [alone, beside] = [0, 6].map(|readers| took_s(Policy::Rounds, readers, 13 * MS));
    assert!(beside > 1.05 * alone, "{alone} s alone, {beside} s beside six, pauses of 13 ms");
}

#[test]
fn a_transfer_that_is_too_slow_to_be_waited_for_costs_others_little() {
    let read = |interactive: u32, transfer: bool| {
        let mut sim = Sim::new(Policy::Rounds, &ClassTable::default(), 2);
        sim.add(Client::Bulk { class: Class::APERIODIC, outstanding: 16, bytes: 256 << 10 });
        if transfer {
            let pause_ns = 40 * MS;
            sim.add(Client::Transfer { class: Class::INTERACTIVE, windows: u32::MAX, units: 4, pause_ns });
        }
        (0..interactive)
            .for_each(|_| sim.add(Client::Interactive { class: Class::INTERACTIVE, think_ns: 200 * MS }));
        sim.run(5 * ROUND_NS);
        sim.forget();
        sim.run(60 * ROUND_NS);
        sim.busy_ns as f64 / (60 * ROUND_NS) as f64
    };
    assert!(read(0, false) > 0.999);
    let least = 1.0 - 1.0 / EXPECTED_PART as f64 - EXPECTED_CREDIT_NS as f64 / (60 * ROUND_NS) as f64;
    for (interactive, transfer) in [(0, true), (10, false), (10, true)] {
        let busy = read(interactive, transfer);
        println!(
            "beside {interactive} interactive clients and a transfer ({transfer}) the head moved for {busy:.4} of the time"
        );
        assert!(
            busy > least - 0.001,
            "{interactive} interactive clients and a transfer ({transfer}): the head moved for {busy} of the time"
        );
    }
}
