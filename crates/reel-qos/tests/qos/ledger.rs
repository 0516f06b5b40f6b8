//! The ledger at work: what a session, an operator and a dashboard see.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_qos::{
    AdmitError, Capacities, Class, ClassSpec, ClassTable, Demand, DiskDemand, DiskPrice, Kind, Ledger,
    MemberCapacity, Resource, Sender, Starts, UNLIMITED, limits,
};
use reel_testkit::mix;
use std::sync::Arc;

const PRICE: DiskPrice = DiskPrice {
    read_request_ns: 100_000,
    read_mib_ns: 400_000,
    write_request_ns: 100_000,
    write_mib_ns: 400_000,
    independent_limits: false,
};
const DAY: usize = 86_400;
const HOUR: usize = 3600;
const UNIT_BYTES: u64 = 264 << 10;

fn capacities() -> Capacities {
    Capacities {
        members: vec![MemberCapacity { price: PRICE, round_ns: limits::ROUND_NS }; 5],
        network_bytes: UNLIMITED,
        core_ns: 4 * limits::ROUND_NS,
        core_mib_ns: vec![1_000_000],
        local_front_ends: Vec::new(),
        arena_bytes: 4 << 30,
    }
}

/// Sends these bytes in each round and needs nothing else.
fn sends(bytes: impl IntoIterator<Item = u64>) -> Arc<Demand> {
    Arc::new(Demand::new(Vec::new(), bytes.into_iter().collect(), 0))
}

/// A network of 1000 bytes a round, of which 700 may be reserved; everything else is plenty.
fn narrow() -> Ledger {
    narrow_for(100)
}

fn narrow_for(rounds: usize) -> Ledger {
    let mut ledger = Ledger::new(Capacities { network_bytes: 1000, ..capacities() }, rounds);
    let same = |(_, spec): (Class, &ClassSpec)| ClassSpec::new(&spec.name, spec.kind, spec.share_permille);
    ledger.set_classes(ClassTable::new(ClassTable::default().iter().map(same).collect()).unwrap());
    ledger
}

fn refused(result: Result<impl std::fmt::Debug, AdmitError>) -> reel_qos::Refusal {
    match result {
        Err(AdmitError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn table(shares: [u32; 4]) -> ClassTable {
    let names = [
        ("periodic", Kind::Periodic),
        ("interactive", Kind::Interactive),
        ("aperiodic", Kind::Aperiodic),
        ("gold", Kind::Periodic),
    ];
    let spec =
        |((name, kind), share_permille): ((&str, Kind), u32)| ClassSpec::new(name, kind, share_permille);
    ClassTable::new(names.into_iter().zip(shares).map(spec).collect()).unwrap()
}

#[test]
fn a_title_of_variable_rate_is_counted_round_by_round() {
    let mut ledger = narrow();
    // Peaks of 600 in even rounds and 100 in odd ones: two fit if their peaks alternate, though the
    // sum of peaks would not.
    let title = sends([600, 100].repeat(20));
    ledger.admit(Class::PERIODIC, &title, 0, 0, "one").unwrap();
    let refusal = refused(ledger.admit(Class::PERIODIC, &title, 0, 0, "two"));
    assert_eq!((refusal.resource, refusal.asked, refusal.available), (Resource::Network, 600, 100));
    assert_eq!(refusal.retry_after_s, Some(1));
    ledger.admit(Class::PERIODIC, &title, 0, 1, "two").unwrap();
}

#[test]
fn a_refusal_names_the_rate_that_would_fit_and_when_to_try_again() {
    let mut ledger = narrow();
    ledger.admit(Class::PERIODIC, &sends([500; 30]), 0, 0, "").unwrap();
    let refusal = refused(ledger.admit(Class::PERIODIC, &sends([400; 50]), 0, 5, ""));
    assert_eq!((refusal.round, refusal.asked, refusal.available), (5, 400, 200));
    assert_eq!(refusal.grantable_bps, 1600);
    assert_eq!(refusal.retry_after_s, Some(25));
    let never = refused(ledger.admit(Class::PERIODIC, &sends([701]), 0, 5, ""));
    assert_eq!(never.retry_after_s, None);
}

#[test]
fn a_demand_longer_than_the_timeline_is_refused_with_that_reason() {
    let mut ledger = narrow();
    ledger.advance(1_000_000);
    let long = sends(vec![1; 101]);
    let error = ledger.admit(Class::PERIODIC, &long, 0, 1_000_000, "").unwrap_err();
    assert_eq!(error, AdmitError::TooLong { ends_in_s: 101, timeline_s: 100 });
    assert!(error.to_string().contains("100 s at most"));
    ledger.admit(Class::PERIODIC, &long, 1, 1_000_000, "its end").unwrap();
    assert!(ledger.admit(Class::PERIODIC, &sends([1]), 0, 1_000_100, "too far ahead").is_err());

    let endless = Arc::new(Demand::constant(0, 8, 1, usize::MAX, 0));
    let start = ledger.admit(Class::PERIODIC, &endless, limits::DEMAND_ROUNDS_MAX - 5, 1_000_000, "");
    assert!(matches!(start, Err(AdmitError::TooLong { .. })), "{start:?}");
}

#[test]
fn reservations_end_with_their_titles_and_by_hand() {
    let mut ledger = narrow();
    let ten = ledger.admit(Class::PERIODIC, &sends([600; 10]), 0, 0, "").unwrap();
    let later = ledger.admit(Class::PERIODIC, &sends([600; 10]), 0, 10, "").unwrap();
    ledger.advance(9);
    assert_eq!(ledger.reservations().count(), 2);
    ledger.advance(10);
    assert_eq!(ledger.reservations().map(|view| view.id).collect::<Vec<_>>(), [later]);
    assert!(!ledger.release(ten));
    assert_eq!(ledger.change(ten, &sends([1]), 0, 10), Err(AdmitError::Ended(ten)));
    assert!(ledger.release(later));
    assert_eq!(ledger.used(None, Resource::Network, 12), 0);
    ledger.admit(Class::PERIODIC, &sends([700; 100]), 0, 10, "all of it").unwrap();
}

#[test]
fn a_demand_of_no_rounds_is_granted_and_ends() {
    let mut ledger = narrow();
    let nothing = Arc::new(Demand::new(vec![Vec::new(); 5], Vec::new(), 1 << 40));
    let id = ledger.admit(Class::PERIODIC, &nothing, 0, u64::MAX, "").unwrap();
    let over = ledger.admit(Class::PERIODIC, &sends([9; 9]), 9, 50, "at its end").unwrap();
    ledger.change(id, &nothing, 7, 3).unwrap();
    assert!(ledger.usage(0).iter().all(|usage| usage.peak_used == 0));
    ledger.advance(1);
    assert!(!ledger.release(id) && !ledger.release(over));
}

#[test]
fn a_seek_that_does_not_fit_leaves_the_reservation_as_it_was() {
    let mut ledger = narrow();
    let title = sends((0..40).map(|round| if round < 20 { 300 } else { 600 }));
    let viewer = ledger.admit(Class::PERIODIC, &title, 0, 0, "").unwrap();
    ledger.admit(Class::PERIODIC, &sends([200; 20]), 0, 0, "").unwrap();
    refused(ledger.change(viewer, &title, 20, 0));
    assert!(ledger.adds_up());
    assert_eq!(ledger.used(None, Resource::Network, 0), 500);
    ledger.change(viewer, &title, 10, 10).unwrap();
    assert_eq!(ledger.used(None, Resource::Network, 5), 200);
    assert_eq!(ledger.used(None, Resource::Network, 15), 500);
    assert_eq!(ledger.used(None, Resource::Network, 39), 600);
}

#[test]
fn a_smaller_demand_is_granted_even_where_resources_are_overcommitted() {
    let mut ledger = narrow();
    let viewer = ledger.admit(Class::PERIODIC, &sends([600; 20]), 0, 0, "").unwrap();
    let over = ledger.set_capacities(Capacities { network_bytes: 500, ..capacities() });
    assert_eq!(over.len(), 1);
    assert_eq!(
        (over[0].resource, over[0].rounds, over[0].used, over[0].capacity),
        (Resource::Network, 20, 600, 350)
    );
    ledger.advance(5);
    refused(ledger.change(viewer, &sends([601; 10]), 0, 5));
    refused(ledger.change(viewer, &sends([500; 16]), 0, 5));
    ledger.change(viewer, &sends([500; 10]), 0, 5).unwrap();
    ledger.change(viewer, &sends([300; 10]), 0, 5).unwrap();
    assert_eq!(ledger.over_committed(), []);
}

#[test]
fn the_network_has_shares_of_its_own() {
    let mut ledger = Ledger::new(Capacities { network_bytes: 1000, ..capacities() }, 100);
    let capacity = |ledger: &Ledger, resource| {
        let usage = ledger.usage_of(Class::PERIODIC, 0);
        usage.iter().find(|usage| usage.resource == resource).unwrap().capacity
    };
    assert_eq!([Resource::Network, Resource::Core].map(|of| capacity(&ledger, of)), [850, 2_800_000_000]);
    ledger.admit(Class::PERIODIC, &sends([850; 10]), 0, 0, "").unwrap();
    refused(ledger.admit(Class::PERIODIC, &sends([1; 10]), 0, 0, ""));
    let over = ledger.set_classes(narrow().classes().clone());
    assert_eq!((over.len(), over[0].used, over[0].capacity), (1, 850, 700));
}

#[test]
fn every_periodic_class_has_its_own_share_and_no_other() {
    let mut ledger = narrow();
    assert_eq!(ledger.set_classes(table([400, 150, 150, 300])), []);
    let gold = ledger.classes().by_name("gold").unwrap();
    ledger.admit(Class::PERIODIC, &sends([400; 10]), 0, 0, "").unwrap();
    refused(ledger.admit(Class::PERIODIC, &sends([1; 10]), 0, 0, "gold is idle, and stays gold's"));
    ledger.admit(gold, &sends([300; 10]), 0, 0, "").unwrap();
    refused(ledger.admit(gold, &sends([1; 10]), 0, 0, ""));
    let used = |class| ledger.used(class, Resource::Network, 3);
    assert_eq!((used(None), used(Some(gold)), used(Some(Class::PERIODIC))), (700, 300, 400));
    let usage = ledger.usage_of(gold, 0);
    let network = usage.iter().find(|usage| usage.resource == Resource::Network).unwrap();
    assert_eq!((network.used, network.capacity, network.peak_used), (300, 300, 300));

    let unpromised = ledger.admit(Class::INTERACTIVE, &sends([1]), 0, 0, "");
    assert_eq!(unpromised, Err(AdmitError::NotPeriodic { class: 1 }));

    let over = ledger.set_classes(table([600, 150, 150, 100]));
    assert_eq!(over.len(), 1);
    assert_eq!((over[0].class, over[0].used, over[0].capacity), (Some(gold), 300, 100));
    ledger.admit(Class::PERIODIC, &sends([200; 10]), 0, 0, "").unwrap();
}

#[test]
fn media_memory_is_one_pot() {
    let mut ledger = Ledger::new(Capacities { arena_bytes: 100, ..capacities() }, 50);
    ledger.set_classes(table([400, 150, 150, 300]));
    let gold = ledger.classes().by_name("gold").unwrap();
    let holds = |bytes| Arc::new(Demand::new(Vec::new(), vec![0; 10], bytes));
    ledger.admit(gold, &holds(80), 0, 0, "").unwrap();
    let refusal = refused(ledger.admit(Class::PERIODIC, &holds(21), 0, 0, ""));
    assert_eq!((refusal.resource, refusal.available), (Resource::Arena, 20));
    assert_eq!(refusal.retry_after_s, Some(10));
}

#[test]
fn a_new_price_counts_for_earlier_reservations_too() {
    let mut ledger = Ledger::new(capacities(), 100);
    let read = DiskDemand::scattered(1000, 100 << 20);
    let demand = Arc::new(Demand::new(vec![vec![read; 10]; 5], vec![1; 10], 0));
    ledger.admit(Class::PERIODIC, &demand, 0, 0, "").unwrap();
    let member = Resource::Member(2);
    assert_eq!(ledger.used(None, member, 4), 140_000_000);
    let mut dearer = capacities();
    dearer.members[2].price.read_request_ns = 1_000_000;
    let over = ledger.set_capacities(dearer);
    assert_eq!(ledger.used(None, member, 4), 1_040_000_000);
    assert_eq!(over.iter().map(|over| over.resource).collect::<Vec<_>>(), [member]);
    assert_eq!(ledger.used(None, Resource::Member(1), 4), 140_000_000);
    let id = ledger.reservations().next().unwrap().id;
    assert!(ledger.release(id));
    assert!(ledger.adds_up());
}

#[test]
fn less_is_reserved_of_a_member_that_is_not_rotational_when_it_becomes_slower() {
    let measured = DiskPrice { read_request_ns: 800_000, read_mib_ns: 4_000_000, ..PRICE };
    let times = |times: u64| DiskPrice {
        read_request_ns: 800_000 * times,
        read_mib_ns: 4_000_000 * times,
        ..measured
    };
    // Four units in one run: a rotational disk would seek once.
    let reads = DiskDemand { reads: 4, seeks: 1, bytes: 4 * UNIT_BYTES };
    let demand = Arc::new(Demand::new(vec![vec![reads; 10]; 5], vec![1; 10], 0));
    let viewers = |found: DiskPrice| {
        let mut capacities = capacities();
        capacities.members.fill(MemberCapacity::found(measured, found));
        Ledger::new(capacities, 100).how_many(Class::PERIODIC, &demand, Starts::Together).unwrap().viewers
    };
    // 3.2 ms for requests and 4.1 ms for bytes, of 700 ms.
    assert_eq!([1, 2, 3, 4].map(|slower| viewers(times(slower))), [95, 47, 31, 23]);
    let quicker = DiskPrice { read_request_ns: 1, ..measured };
    assert_eq!(MemberCapacity::found(measured, quicker).price, measured);
    assert_eq!(
        MemberCapacity::found(times(2), times(3)).price,
        times(3),
        "a rotational disk is a slower rotational disk"
    );
}

#[test]
fn a_throttle_is_full_when_either_of_its_budgets_is() {
    // 100 requests or 20 MiB in a round; a sum of both would be full at half of each.
    let throttle =
        DiskPrice { read_request_ns: 10_000_000, read_mib_ns: 50_000_000, independent_limits: true, ..PRICE };
    let mut capacities = capacities();
    capacities.members.iter_mut().for_each(|member| member.price = throttle);
    let mut ledger = Ledger::new(capacities.clone(), 100);
    let needs = |reads, bytes| {
        Arc::new(Demand::new(vec![vec![DiskDemand::scattered(reads, bytes); 10]; 5], vec![1; 10], 0))
    };
    let [requests, bytes] = [Resource::Member(3), Resource::MemberBytes(3)];
    // 70 requests of small reads leave all the bytes to large ones, but no request.
    let small = ledger.admit(Class::PERIODIC, &needs(60, 60 << 12), 0, 0, "").unwrap();
    let large = ledger.admit(Class::PERIODIC, &needs(10, 13 << 20), 0, 0, "").unwrap();
    assert_eq!([requests, bytes].map(|part| ledger.used(None, part, 5)), [700_000_000, 661_718_750]);
    let refusal = refused(ledger.check(Class::PERIODIC, &needs(1, 4096), 0, 0));
    assert_eq!((refusal.resource, refusal.available), (Resource::Member(0), 0));
    assert!(ledger.release(small));
    let refusal = refused(ledger.check(Class::PERIODIC, &needs(4, 2 << 20), 0, 0));
    assert_eq!((refusal.resource, refusal.asked), (Resource::MemberBytes(0), 100_000_000));
    assert_eq!(refusal.resource.to_string(), "the bytes of member 0");
    let answer = |demand: &Demand| ledger.how_many(Class::PERIODIC, demand, Starts::Spread).unwrap();
    assert_eq!((answer(&needs(1, 1 << 12)).viewers, answer(&needs(1, 1 << 18)).viewers), (60, 4));
    assert_eq!(answer(&needs(1, 1 << 18)).stopped_by, Some(Resource::MemberBytes(0)));
    // Measured again, and found to add up: reservations stay, and are counted so. Its bytes have no
    // limit of their own any more.
    capacities.members[3].price.independent_limits = false;
    ledger.set_capacities(capacities);
    assert_eq!([requests, bytes].map(|part| ledger.used(None, part, 5)), [750_000_000, 0]);
    let reported: Vec<Resource> = ledger.usage(0).iter().map(|usage| usage.resource).collect();
    assert!(reported.contains(&Resource::MemberBytes(2)) && !reported.contains(&bytes), "{reported:?}");
    assert!(ledger.release(large) && ledger.adds_up());
    assert_eq!(ledger.used(None, requests, 5), 0);
}

#[test]
fn members_may_come_and_go() {
    let mut ledger =
        Ledger::new(Capacities { members: capacities().members[..2].to_vec(), ..capacities() }, 100);
    let demand = Arc::new(Demand::constant(3, 8_000_000, UNIT_BYTES, 10, 0));
    let error = ledger.admit(Class::PERIODIC, &demand, 0, 0, "").unwrap_err();
    assert_eq!(error, AdmitError::OtherVolume { asked: 3, members: 2 });
    ledger.set_capacities(capacities());
    ledger.admit(Class::PERIODIC, &demand, 0, 0, "").unwrap();
    let over = ledger.set_capacities(Capacities { members: Vec::new(), ..capacities() });
    assert_eq!(over.len(), 3, "{over:?}");
    assert!(over.iter().all(|over| over.capacity == 0));
    assert!(ledger.adds_up());
}

#[test]
fn an_unknown_capacity_refuses_no_stream() {
    let mut ledger = narrow();
    ledger.set_capacities(Capacities { core_ns: UNLIMITED, ..capacities() });
    ledger.admit(Class::PERIODIC, &sends([u64::MAX; 10]), 0, 0, "").unwrap();
    let known = limits::ROUND_COST_MAX * 2;
    ledger.set_capacities(Capacities { core_ns: UNLIMITED, network_bytes: known, ..capacities() });
    refused(ledger.admit(Class::PERIODIC, &sends([u64::MAX; 10]), 0, 20, "more than any known network"));
}

#[test]
fn labels_are_cut_at_a_letter() {
    let mut ledger = narrow();
    ledger.admit(Class::PERIODIC, &sends([1]), 0, 0, &"\u{e9}\u{1f3ac}".repeat(50)).unwrap();
    let label = ledger.reservations().next().unwrap().label.to_owned();
    assert!(label.len() <= limits::LABEL_BYTES_MAX && label.len() > limits::LABEL_BYTES_MAX - 4);
}

#[test]
fn one_wrong_reading_of_the_clock_has_no_lasting_effect() {
    let mut ledger = narrow();
    ledger.advance(50);
    ledger.admit(Class::PERIODIC, &sends([700; 10]), 0, 50, "").unwrap();
    ledger.advance(40);
    assert_eq!(ledger.now_round(), 50);
    refused(ledger.admit(Class::PERIODIC, &sends([1]), 0, 50, ""));
    ledger.advance(u64::MAX);
    assert_eq!(ledger.reservations().count(), 0);
    ledger.advance(52);
    assert_eq!(ledger.now_round(), 52);
    ledger.admit(Class::PERIODIC, &sends([700; 10]), 0, 52, "").unwrap();
    refused(ledger.admit(Class::PERIODIC, &sends([1]), 0, 55, ""));
}

#[test]
fn how_many_viewers_of_a_constant_rate() {
    let ledger = Ledger::new(capacities(), DAY);
    // 8 Mb/s are 1,000,000 bytes a second: 0.9248 stripes of 4 x 264 KiB, a read of 203,125 ns on
    // each member.
    let demand = Demand::constant(5, 8_000_000, UNIT_BYTES, 3 * HOUR, 2 << 20);
    assert_eq!(demand.average_bps(), 8_000_000);
    let reads: u64 = demand.reads(4).iter().map(|read| u64::from(read.reads)).sum();
    assert_eq!(reads, (10_800 * 1_000_000_u64).div_ceil(4 * UNIT_BYTES));
    let together = ledger.how_many(Class::PERIODIC, &demand, Starts::Together).unwrap();
    assert_eq!((together.viewers, together.stopped_by), (2048, Some(Resource::Arena)));
    let lean = Demand::constant(5, 8_000_000, UNIT_BYTES, 3 * HOUR, 0);
    let together = ledger.how_many(Class::PERIODIC, &lean, Starts::Together).unwrap();
    assert_eq!((together.viewers, together.stopped_by), (2936, Some(Resource::Core)));
    let mut slow = capacities();
    slow.members[3].round_ns /= 2;
    let ledger = Ledger::new(slow, DAY);
    let together = ledger.how_many(Class::PERIODIC, &lean, Starts::Together).unwrap();
    assert_eq!((together.viewers, together.stopped_by), (1723, Some(Resource::Member(3))));
    let spread = ledger.how_many(Class::PERIODIC, &lean, Starts::Spread).unwrap();
    assert_eq!((spread.viewers, spread.stopped_by), (1863, Some(Resource::Member(3))));
}

#[test]
fn as_many_viewers_are_admitted_one_by_one_as_predicted() {
    let mut slow = capacities();
    slow.members[3].round_ns = 60_000_000;
    let mut ledger = Ledger::new(slow, 2 * HOUR);
    let title = Arc::new(Demand::constant(5, 5_000_000, UNIT_BYTES, HOUR, 0));
    let predicted = ledger.how_many(Class::PERIODIC, &title, Starts::Spread).unwrap().viewers;
    let starts = (0..HOUR as u64).step_by(7);
    let admitted =
        starts.filter(|&start| ledger.admit(Class::PERIODIC, &title, 0, start, "").is_ok()).count() as u64;
    assert!(
        admitted <= predicted + predicted / 50 && admitted * 10 >= predicted * 9,
        "{admitted} of {predicted}"
    );
}

#[test]
fn a_search_for_a_later_start_is_bounded_and_never_says_too_much() {
    // A hard case in every round: what is available and what is needed change from round to round.
    let mut ledger = narrow_for(DAY);
    let noise = |seed: u64, round: u64| mix(seed << 32 | round) >> 60;
    let most = sends((0..DAY as u64 / 2).map(|round| 660 + noise(1, round)));
    ledger.admit(Class::PERIODIC, &most, 0, 0, "").unwrap();
    let needs = sends((0..DAY as u64 / 2).map(|round| 20 + noise(2, round)));
    let wait_s = refused(ledger.check(Class::PERIODIC, &needs, 0, 0)).retry_after_s.unwrap();
    assert!((1..=DAY as u64 / 2).contains(&wait_s));
    for start in 1..wait_s.min(200) {
        assert!(ledger.check(Class::PERIODIC, &needs, 0, start).is_err(), "{start}");
    }
}

#[test]
fn a_stream_that_stays_on_this_machine_costs_nothing_of_the_network_and_the_same_of_the_processors() {
    let narrow = Capacities { network_bytes: 1000, local_front_ends: vec![1], ..capacities() };
    let mut ledger = Ledger::new(narrow, 100);
    let through = |front_end| Sender { class: Class::PERIODIC, front_end };
    let used = |ledger: &Ledger, resource| ledger.used(None, resource, 0);
    let (small, large) = (sends([600; 10]), sends([600 << 10; 10]));
    let viewer = ledger.admit(through(0), &small, 0, 0, "").unwrap();
    let core_ns = used(&ledger, Resource::Core);
    assert_eq!(used(&ledger, Resource::Network), 600);
    // In the share of its client it counts so, too.
    let all_local = Capacities { local_front_ends: vec![0, 1], ..ledger.capacities().clone() };
    let all_local = Ledger::new(all_local, 100).mean_costs(&small, 0);
    assert_eq!(ledger.mean_costs(&small, 1), all_local);
    assert_ne!(ledger.mean_costs(&small, 0), all_local);
    ledger.admit(through(1), &small, 0, 0, "").unwrap();
    assert_eq!((used(&ledger, Resource::Network), used(&ledger, Resource::Core)), (600, 2 * core_ns));
    let refusal = refused(ledger.admit(through(0), &small, 0, 0, ""));
    assert_eq!((refusal.resource, refusal.available), (Resource::Network, 250));

    // Only the processors refuse it, and what they say can be granted is.
    let mut held = Vec::new();
    let refusal = loop {
        match ledger.admit(through(1), &large, 0, 0, "") {
            Ok(id) => held.push(id),
            Err(error) => break refused(Err::<(), _>(error)),
        }
    };
    assert_eq!((refusal.resource, used(&ledger, Resource::Network)), (Resource::Core, 600));
    let rest = sends([refusal.grantable_bps / 8; 10]);
    assert!(refusal.grantable_bps > 0 && ledger.admit(through(1), &rest, 0, 0, "").is_ok());
    assert!(ledger.release(viewer) && ledger.admit(through(0), &small, 0, 0, "").is_ok());

    // If its clients leave this machine, all that it sends is counted.
    ledger.set_capacities(Capacities { local_front_ends: Vec::new(), ..ledger.capacities().clone() });
    assert!(used(&ledger, Resource::Network) > 600 << 10 && ledger.adds_up());
}

#[test]
fn a_stream_is_charged_with_the_price_of_the_front_end_that_sends_it() {
    // Programs on this machine share memory: a MiB costs an eighth of what HTTP takes.
    let prices = vec![1_000_000, 125_000];
    let mut ledger =
        Ledger::new(Capacities { core_ns: limits::ROUND_NS, core_mib_ns: prices, ..capacities() }, DAY);
    let film = sends([70 << 20; 60]);
    let through = |front_end| Sender { class: Class::PERIODIC, front_end };
    let used = |ledger: &Ledger| ledger.used(None, Resource::Core, 0);
    let admitted = |ledger: &mut Ledger, front_end| {
        let all = std::iter::repeat_with(|| ledger.admit(through(front_end), &film, 0, 0, "").ok());
        all.map_while(|id| id).take(100).collect::<Vec<_>>()
    };
    // Seven tenths of a second. Both front ends are charged to the same processors.
    let programs = admitted(&mut ledger, 1);
    assert_eq!((programs.len(), used(&ledger)), (80, 700_000_000));
    assert!(ledger.check(Class::PERIODIC, &film, 0, 0).is_err(), "nothing is left to HTTP");
    assert!(programs.into_iter().take(40).all(|id| ledger.release(id)));
    assert_eq!(admitted(&mut ledger, 0).len(), 5);
    assert_eq!(used(&ledger), 700_000_000);
    // One that is not listed costs as much as the first.
    assert!(ledger.check(through(9), &film, 0, 0).is_err());

    // At another price, all that is sent by that front end is counted again.
    let prices = vec![500_000, 125_000];
    let capacities = Capacities { core_mib_ns: prices, ..ledger.capacities().clone() };
    ledger.set_capacities(capacities);
    assert_eq!(used(&ledger), 525_000_000);
    assert!(ledger.adds_up());
}
