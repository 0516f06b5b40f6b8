use super::*;
use proptest::prelude::*;

const MEGABYTE: u64 = 1_000_000;
const MS: u64 = 1_000_000;

fn share(class: Class, permille: u32) -> LaneShare {
    LaneShare { class, permille }
}

const VIEWERS: LaneShare = LaneShare { class: Class::PERIODIC, permille: 700 };
const BROWSERS: LaneShare = LaneShare { class: Class::INTERACTIVE, permille: 100 };
const DOWNLOADS: LaneShare = LaneShare { class: Class::APERIODIC, permille: 200 };

fn client(number: u64) -> IpAddr {
    IpAddr::from((number as u32).to_be_bytes())
}

fn ask(share: LaneShare, delivery: u64) -> Ask {
    let client = client(delivery);
    Ask { flow: Flow { thread: 0, delivery }, share, bytes: 100 * MEGABYTE, due_ns: DEADLINE_NONE_NS, client }
}

/// Runs a link for a time, on which each delivery asks again as soon as it was granted something;
/// the bytes that each was granted.
fn run(link: &mut LinkSchedule, from_ns: u64, for_ns: u64, deliveries: usize) -> Vec<u64> {
    let mut granted = vec![0; deliveries];
    for now_ns in (from_ns..from_ns + for_ns).step_by(MS as usize) {
        while let Some((ask, bytes)) = link.grant(now_ns) {
            granted[ask.flow.delivery as usize] += bytes;
            link.ask(ask);
        }
    }
    granted
}

#[test]
fn classes_get_their_shares_and_what_is_idle_is_lent() {
    let mut link = LinkSchedule::new(10 * MEGABYTE);
    let all = [VIEWERS, BROWSERS, DOWNLOADS];
    for (delivery, share) in all.into_iter().enumerate() {
        link.ask(ask(share, delivery as u64));
    }
    let granted = run(&mut link, 0, 2_000 * MS, 3);
    let sum: u64 = granted.iter().sum();
    assert!((19 * MEGABYTE..=20 * MEGABYTE + 100_000).contains(&sum), "{sum}");
    for (bytes, share) in granted.iter().zip(all) {
        let permille = bytes * 1000 / sum;
        assert!(permille.abs_diff(u64::from(share.permille)) <= 20, "{permille} of {share:?}");
    }
    let mut link = LinkSchedule::new(10 * MEGABYTE);
    link.ask(ask(DOWNLOADS, 0));
    assert!(run(&mut link, 0, 1_000 * MS, 1)[0] > 95 * MEGABYTE / 10, "alone, it gets all");
}

#[test]
fn a_class_that_comes_back_gets_its_share_at_once_and_no_more() {
    let mut link = LinkSchedule::new(10 * MEGABYTE);
    link.ask(ask(DOWNLOADS, 0));
    run(&mut link, 0, 10_000 * MS, 1);
    link.ask(ask(VIEWERS, 1));
    let granted = run(&mut link, 10_000 * MS, 100 * MS, 2);
    let permille = granted[1] * 1000 / (granted[0] + granted[1]);
    assert!((720..=830).contains(&permille), "7 of 9 parts, not {permille} of 1000");
}

#[test]
fn deliveries_of_one_class_take_turns() {
    let mut link = LinkSchedule::new(10 * MEGABYTE);
    for delivery in 0..20 {
        link.ask(ask(DOWNLOADS, delivery));
    }
    let granted = run(&mut link, 0, 4_000 * MS, 20);
    let (least, most) = (granted.iter().min().unwrap(), granted.iter().max().unwrap());
    assert!(most - least <= LINK_GRANT_BYTES_MIN.max(link.grant_bytes()), "{least} to {most}");
}

/// A client with many downloads gets as much as one with a single download, also while some of them
/// end and others begin.
#[test]
fn clients_of_one_class_take_turns_whatever_the_number_of_their_deliveries() {
    let mut link = LinkSchedule::new(10 * MEGABYTE);
    let of = |delivery: u64| if delivery < 50 { client(0) } else { client(delivery) };
    for delivery in 0..53 {
        link.ask(Ask { client: of(delivery), ..ask(DOWNLOADS, delivery) });
    }
    let granted = run(&mut link, 0, 4_000 * MS, 53);
    let sums = [granted[..50].iter().sum(), granted[50], granted[51], granted[52]];
    let (least, most) = (sums.iter().min().unwrap(), sums.iter().max().unwrap());
    assert!(most - least <= 2 * link.grant_bytes(), "{sums:?}");
    // A client that comes back has saved nothing up, and owes nothing.
    link.ask(Ask { client: client(99), ..ask(DOWNLOADS, 0) });
    let granted = run(&mut link, 4_000 * MS, 1_000 * MS, 53);
    assert!(granted[0].abs_diff(2 * MEGABYTE) < MEGABYTE / 5, "a fifth: {}", granted[0]);
}

/// A new client comes whenever the link is free, and each asks once.
#[test]
fn newcomers_without_end_leave_a_client_its_turn() {
    let mut link = LinkSchedule::new(10 * MEGABYTE);
    link.ask(ask(DOWNLOADS, 0));
    let (mut granted, mut newcomers) = (0, 1);
    for now_ns in (0..2_000 * MS).step_by(MS as usize) {
        while link.waiting() < 4 {
            newcomers += 1;
            link.ask(ask(DOWNLOADS, newcomers));
        }
        while let Some((ask, bytes)) = link.grant(now_ns) {
            if ask.flow.delivery == 0 {
                granted += bytes;
                link.ask(ask);
            }
        }
    }
    assert!(granted > 4 * MEGABYTE, "a fifth of 20 MB: {granted}");
}

#[test]
fn clients_that_are_gone_are_forgotten() {
    let mut link = LinkSchedule::new(10 * MEGABYTE);
    for number in 0..10_000 {
        link.ask(Ask { bytes: 1, client: client(number), ..ask(DOWNLOADS, number) });
        while link.grant(number * MS).is_some() {}
    }
    assert!(link.lanes[Class::APERIODIC.index()].turns.len() <= TURNS_KEPT + 1);
}

#[test]
fn what_is_due_first_goes_first_in_its_class() {
    let mut link = LinkSchedule::new(10 * MEGABYTE);
    for (delivery, due_ns) in [(0, 30), (1, 10), (2, 20), (3, 10)] {
        link.ask(Ask { due_ns, ..ask(VIEWERS, delivery) });
    }
    let order = (0..100).filter_map(|ms| link.grant(ms * MS)).map(|(ask, _)| ask.flow.delivery);
    assert_eq!(order.collect::<Vec<_>>(), [1, 3, 2, 0]);
}

#[test]
fn urgent_bytes_go_first_and_the_others_get_what_is_left() {
    let mut link = LinkSchedule::new(10 * MEGABYTE);
    link.ask(ask(DOWNLOADS, 0));
    let (mut urgent, mut granted) = (0, 0);
    for now_ns in (0..2_000 * MS).step_by(MS as usize) {
        if now_ns % (5 * MS) == 0 {
            // 4 MB a second, whatever else wants the link.
            let bytes = link.take_urgent(VIEWERS, 20_000, now_ns);
            assert_eq!(bytes, 20_000);
            urgent += bytes;
        }
        while let Some((ask, bytes)) = link.grant(now_ns) {
            granted += bytes;
            link.ask(ask);
        }
    }
    assert_eq!(urgent, 8 * MEGABYTE);
    assert!(granted.abs_diff(12 * MEGABYTE) < MEGABYTE / 5, "{granted}");
}

#[test]
fn a_flood_of_urgent_bytes_holds_the_others_up_for_a_bounded_time() {
    let mut link = LinkSchedule::new(MEGABYTE);
    link.ask(ask(DOWNLOADS, 0));
    for _ in 0..1_000 {
        link.take_urgent(VIEWERS, MEGABYTE, 0);
    }
    assert_eq!(link.next_ns(), Some(LINK_DEBT_NS_MAX as u64 + 1));
    assert!(link.grant(LINK_DEBT_NS_MAX as u64 + 1).is_some());
}

#[test]
fn what_is_given_back_is_granted_to_others() {
    let mut link = LinkSchedule::new(MEGABYTE);
    link.ask(ask(DOWNLOADS, 0));
    link.ask(ask(DOWNLOADS, 1));
    let (first, bytes) = link.grant(MS).expect("credit");
    assert!(link.grant(MS).is_none(), "the link is busy");
    link.give_back(first.share, bytes);
    assert_eq!(link.grant(MS).map(|(ask, _)| ask.flow.delivery), Some(1));
}

#[derive(Clone, Debug)]
enum Step {
    Ask { class: u8, bytes: u64 },
    Urgent { bytes: u64 },
    Forget { which: usize },
    Grant,
    GiveBack { part: u64 },
    Pass { ns: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..31u8, 1..3 * MEGABYTE).prop_map(|(class, bytes)| Step::Ask { class, bytes }),
        (1..100_000u64).prop_map(|bytes| Step::Urgent { bytes }),
        (0..50usize).prop_map(|which| Step::Forget { which }),
        Just(Step::Grant),
        (1..4u64).prop_map(|part| Step::GiveBack { part }),
        (0..20 * MS).prop_map(|ns| Step::Pass { ns }),
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    /// Never more than the link carries, whatever is asked, forgotten and given back; and what
    /// was forgotten is never granted.
    #[test]
    fn what_is_granted_fits_on_the_link(steps in steps(), mb_per_s in 1..2_000u64) {
        let mut link = LinkSchedule::new(mb_per_s * MEGABYTE);
        let (mut now_ns, mut sent) = (0, 0u64);
        let mut tickets = Vec::new();
        let mut gone = std::collections::HashSet::new();
        let mut last: Option<(LaneShare, u64)> = None;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Ask { class, bytes } => {
                    let share = share(Class::new(usize::from(class)).unwrap(), 1 + u32::from(class) * 30);
                    let flow = Flow { thread: 0, delivery: number as u64 };
                    let (client, due_ns) = (client(bytes % 5), [0, DEADLINE_NONE_NS][number % 2]);
                    tickets.push((link.ask(Ask { flow, share, bytes, due_ns, client }), number as u64));
                }
                Step::Urgent { bytes } => {
                    let granted = link.take_urgent(VIEWERS, bytes, now_ns);
                    prop_assert!(0 < granted && granted <= bytes);
                }
                Step::Forget { which } if which < tickets.len() => {
                    let (ticket, delivery) = tickets.swap_remove(which);
                    if link.forget(ticket) {
                        gone.insert(delivery);
                    }
                }
                Step::Grant => {
                    if let Some((ask, bytes)) = link.grant(now_ns) {
                        prop_assert!(!gone.contains(&ask.flow.delivery));
                        prop_assert!(0 < bytes && bytes <= ask.bytes.min(link.grant_bytes()));
                        sent += bytes;
                        last = Some((ask.share, bytes));
                    }
                }
                Step::GiveBack { part } => {
                    if let Some((share, bytes)) = last.take() {
                        link.give_back(share, bytes / part);
                        sent -= bytes / part;
                    }
                }
                Step::Pass { ns } => now_ns += ns,
                Step::Forget { .. } => {}
            }
            // One grant may begin with the last bit of credit, and what was given back too late to
            // be used is lost.
            let carried = u128::from(mb_per_s * MEGABYTE) * u128::from(now_ns + LINK_BURST_NS as u64) / SECOND_NS;
            prop_assert!(u128::from(sent) <= carried + u128::from(link.grant_bytes()));
        }
    }
}
