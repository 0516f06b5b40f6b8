//! Reads behind one another cost a rotational disk one seek, so they are made in one run.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use reel_disk::{DepthBound, Policy, Queued, Requester, Scheduler};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, DiskPrice};

const MS: u64 = 1_000_000;
const PRICE: DiskPrice = DiskPrice {
    read_request_ns: 12 * MS,
    read_mib_ns: 10 * MS,
    write_request_ns: 12 * MS,
    write_mib_ns: 10 * MS,
    independent_limits: false,
};
const UNIT: u64 = 64 << 10;
const FAR: u64 = 1 << 30;

/// One request in the device at a time, from the start of a round on.
struct Rig {
    scheduler: Box<dyn Scheduler>,
    now_ns: u64,
    next: u64,
}

impl Rig {
    fn new() -> Self {
        Self::of_depth(1)
    }

    fn of_depth(requests: usize) -> Self {
        let bound = DepthBound { requests, ..DepthBound::default() };
        let scheduler = Policy::Rounds.scheduler(&ClassTable::default(), PRICE, bound);
        Self { scheduler, now_ns: 10 * ROUND_NS, next: 0 }
    }

    fn ask(&mut self, class: Class, deadline_ns: u64, offset: u64) {
        self.ask_for(Requester::default(), class, deadline_ns, offset);
    }

    fn ask_for(&mut self, requester: Requester, class: Class, deadline_ns: u64, offset: u64) {
        let (id, bytes) = (self.next, UNIT as usize);
        self.next += 1;
        self.scheduler
            .push(Queued { id, class, requester, deadline_ns, offset, bytes, write: false }, self.now_ns);
    }

    fn periodic(&mut self, rounds: u64, offset: u64) {
        self.ask(Class::PERIODIC, self.now_ns / ROUND_NS * ROUND_NS + rounds * ROUND_NS, offset);
    }

    /// The offset that is served next, in `took_ns`.
    fn serve(&mut self, took_ns: u64) -> Option<u64> {
        let next = self.scheduler.pop(self.now_ns)?;
        self.now_ns += took_ns;
        self.scheduler.done(next.id, self.now_ns);
        Some(next.offset)
    }

    fn slack_ns(&self) -> i64 {
        self.scheduler.view(self.now_ns).slack_ns
    }
}

#[test]
fn a_window_is_read_in_one_go_though_its_parts_are_due_one_after_another() {
    let mut rig = Rig::new();
    for (rounds, place) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
        rig.periodic(rounds, 5 * FAR + place * UNIT);
    }
    rig.periodic(1, 9 * FAR);
    let order: Vec<u64> = std::iter::from_fn(|| rig.serve(MS)).collect();
    let window = [0, 1, 2, 3].map(|place| 5 * FAR + place * UNIT);
    assert_eq!(order[..4], window);
    assert_eq!(order[4], 9 * FAR);
}

#[test]
fn a_unit_of_parity_between_two_reads_is_passed_over() {
    let mut rig = Rig::new();
    rig.periodic(1, 5 * FAR);
    rig.periodic(9, 5 * FAR + 3 * UNIT);
    rig.periodic(9, 6 * FAR);
    rig.periodic(1, 7 * FAR);
    let order: Vec<u64> = std::iter::from_fn(|| rig.serve(MS)).collect();
    assert_eq!(order, [5 * FAR, 5 * FAR + 3 * UNIT, 7 * FAR, 6 * FAR]);
}

#[test]
fn neighbours_count_as_one_seek_in_reserved_work() {
    let mut rig = Rig::new();
    (0..8).for_each(|place| rig.periodic(1, place * UNIT));
    let one_way_ns = PRICE.read_ns(UNIT) + 7 * PRICE.transfer_ns(UNIT);
    assert_eq!(rig.slack_ns(), (ROUND_NS - one_way_ns) as i64);
    // Promoted, repriced and withdrawn: the sum stays the same.
    rig.scheduler.set_price(PRICE);
    assert_eq!(rig.slack_ns(), (ROUND_NS - one_way_ns) as i64);
    while rig.serve(MS).is_some() {}
    assert_eq!(rig.slack_ns(), ROUND_NS as i64);
}

#[test]
fn a_withdrawn_read_leaves_its_seek_to_the_read_behind_it() {
    let mut rig = Rig::new();
    (0..4).for_each(|place| rig.periodic(1, place * UNIT));
    // One in the middle is passed over; the first is where the head would have gone.
    assert!(rig.scheduler.withdraw(2));
    let passed_over_ns = PRICE.read_ns(UNIT) + PRICE.transfer_ns(UNIT) + PRICE.transfer_ns(2 * UNIT);
    assert_eq!(rig.slack_ns(), (ROUND_NS - passed_over_ns) as i64);
    assert!(rig.scheduler.withdraw(0) && rig.scheduler.withdraw(1));
    assert_eq!(rig.slack_ns(), (ROUND_NS - PRICE.read_ns(UNIT)) as i64);
    assert!(rig.scheduler.withdraw(3));
    assert_eq!(rig.slack_ns(), ROUND_NS as i64);
}

#[test]
fn a_read_before_its_time_makes_no_other_late() {
    let mut rig = Rig::new();
    // So much is due in this round that there is no slack for work that is due later, wherever it
    // is.
    let share = 700 * MS / PRICE.read_ns(UNIT);
    for number in 0..share {
        rig.periodic(1, number * FAR);
    }
    rig.periodic(40, UNIT);
    rig.now_ns += ROUND_NS - share * PRICE.read_ns(UNIT);
    let mut served = Vec::new();
    while rig.now_ns < 11 * ROUND_NS {
        served.push(rig.serve(PRICE.read_ns(UNIT)).unwrap());
    }
    assert_eq!(served.len() as u64, share);
    assert!(!served.contains(&UNIT), "{served:?}");
}

#[test]
fn an_interactive_request_breaks_a_run_and_the_run_is_continued() {
    let mut rig = Rig::new();
    (0..4).for_each(|place| rig.periodic(1 + place, 5 * FAR + place * UNIT));
    rig.periodic(1, 6 * FAR);
    assert_eq!(rig.serve(MS), Some(5 * FAR));
    rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, FAR);
    assert_eq!(rig.serve(MS), Some(FAR));
    assert_eq!(rig.serve(MS), Some(5 * FAR + UNIT));
}

#[test]
fn a_run_ends_somewhere() {
    let mut rig = Rig::new();
    let most = reel_disk::limits::RUN_NS_MAX / PRICE.transfer_ns(UNIT) + 1;
    (0..8 * most).for_each(|place| rig.periodic(1 + place / 32, place * UNIT));
    rig.periodic(1, 10 * FAR);
    let before = std::iter::from_fn(|| rig.serve(MS / 4)).position(|offset| offset == 10 * FAR).unwrap();
    assert!(before as u64 <= most + 32, "{before} reads came first");
}

#[test]
fn an_aperiodic_request_does_not_delay_an_interactive_one_that_comes_meanwhile() {
    let mut rig = Rig::of_depth(4);
    for place in [FAR, FAR + UNIT, 3 * FAR] {
        rig.ask(Class::APERIODIC, DEADLINE_NONE_NS, place);
    }
    let pop = |rig: &mut Rig| rig.scheduler.pop(rig.now_ns).map(|next| (next.id, next.offset));
    assert_eq!(pop(&mut rig), Some((0, FAR)));
    assert_eq!(pop(&mut rig), Some((1, FAR + UNIT)), "a neighbour needs no seek");
    assert_eq!(pop(&mut rig), None);
    rig.scheduler.done(0, rig.now_ns);
    assert_eq!(pop(&mut rig), None, "another seek, behind the read in service");
    rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, 9 * FAR);
    assert_eq!(pop(&mut rig), Some((3, 9 * FAR)), "an interactive request is next");
    rig.scheduler.done(1, rig.now_ns);
    rig.scheduler.done(3, rig.now_ns);
    rig.now_ns += PRICE.read_request_ns;
    assert_eq!(pop(&mut rig), Some((2, 3 * FAR)), "when the interactive reader has requested nothing more");
}

#[test]
fn aperiodic_reads_keep_the_runs_in_which_they_were_requested() {
    let mut rig = Rig::of_depth(2);
    // Several rounds of them, if each request were a seek.
    let (downloads, run) = (6, 64);
    for place in 0..run {
        for download in 0..downloads {
            let requester = Requester::default().of(download);
            rig.ask_for(requester, Class::APERIODIC, DEADLINE_NONE_NS, (download + 1) * FAR + place * UNIT);
        }
    }
    let order: Vec<u64> = std::iter::from_fn(|| rig.serve(MS)).collect();
    assert_eq!(order.len() as u64, downloads * run);
    let seeks = order.windows(2).filter(|pair| pair[1] != pair[0] + UNIT).count() as u64 + 1;
    assert_eq!(seeks, downloads);
}

#[test]
fn the_windows_of_two_interactive_readers_do_not_alternate() {
    let mut rig = Rig::new();
    for place in 0..4 {
        rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, 7 * FAR + place * UNIT);
        rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, 3 * FAR + place * UNIT);
    }
    let order: Vec<u64> = std::iter::from_fn(|| rig.serve(MS)).collect();
    let window = |far: u64| (0..4).map(move |place| far * FAR + place * UNIT);
    assert_eq!(order, window(7).chain(window(3)).collect::<Vec<_>>());
}

#[test]
fn a_run_of_one_interactive_reader_delays_another_by_a_seek_at_most() {
    let mut rig = Rig::new();
    for place in 0..1000 {
        rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, 7 * FAR + place * UNIT);
    }
    assert_eq!(rig.serve(MS), Some(7 * FAR));
    rig.ask(Class::INTERACTIVE, rig.now_ns + 200 * MS, 3 * FAR);
    let before = std::iter::from_fn(|| rig.serve(MS)).take_while(|&place| place != 3 * FAR).count() as u64;
    let unit_ns = PRICE.transfer_ns(UNIT);
    assert!(before > 0 && before * unit_ns <= PRICE.read_request_ns, "{before} units of {unit_ns} ns");
}

#[test]
fn an_interactive_window_breaks_a_run_once() {
    let mut rig = Rig::new();
    (0..10).for_each(|place| rig.periodic(1, 5 * FAR + 2 * place * FAR));
    (0..4).for_each(|place| rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, 3 * FAR + place * UNIT));
    let order: Vec<u64> = std::iter::from_fn(|| rig.serve(MS)).collect();
    let cut_in = order.iter().position(|&place| place == 3 * FAR).expect("it is served");
    assert!(cut_in < 2, "{order:?}");
    assert_eq!(order[cut_in..cut_in + 4], [0, 1, 2, 3].map(|place| 3 * FAR + place * UNIT));
}

/// An interactive window of four units was read, and a download waits.
fn after_a_window() -> Rig {
    let mut rig = Rig::of_depth(2);
    (0..4).for_each(|place| rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, 7 * FAR + place * UNIT));
    assert_eq!((0..4).filter_map(|_| rig.serve(MS)).count(), 4);
    rig.ask(Class::APERIODIC, DEADLINE_NONE_NS, 3 * FAR);
    rig
}

#[test]
fn a_rotational_disk_waits_as_long_as_a_seek_for_the_next_window() {
    let mut rig = after_a_window();
    assert_eq!(rig.serve(MS), None, "a download costs the next window two seeks");
    let until_ns = rig.scheduler.kept_until_ns().expect("it is kept for the reader");
    assert_eq!(until_ns - rig.now_ns, PRICE.read_request_ns);
    rig.now_ns += 3 * MS;
    rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, 7 * FAR + 4 * UNIT);
    assert_eq!(rig.serve(MS), Some(7 * FAR + 4 * UNIT));
    assert_eq!((rig.serve(MS), rig.scheduler.kept_until_ns()), (None, Some(rig.now_ns + 12 * MS)));
    rig.now_ns += 12 * MS;
    assert_eq!(rig.serve(MS), Some(3 * FAR), "the reader has finished");
    assert_eq!(rig.scheduler.kept_until_ns(), None);
}

#[test]
fn a_rotational_disk_does_not_wait_with_reserved_work_or_without_a_claim() {
    let mut rig = after_a_window();
    rig.periodic(3, FAR);
    assert_eq!(rig.serve(MS), Some(FAR), "what is promised is read at once, though it is early");
    assert_eq!(rig.serve(MS), Some(3 * FAR), "and after that no reader is expected");
    // A class that has used up what it may claim.
    let mut rig = Rig::of_depth(2);
    rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, 7 * FAR);
    rig.ask(Class::APERIODIC, DEADLINE_NONE_NS, 3 * FAR);
    assert_eq!(rig.serve(400 * MS), Some(7 * FAR));
    assert_eq!(rig.serve(MS), Some(3 * FAR));
}

#[test]
fn a_rotational_disk_is_not_kept_when_the_waiting_request_is_withdrawn() {
    let mut rig = after_a_window();
    assert_eq!(rig.serve(MS), None);
    let waits = rig.next - 1;
    assert!(rig.scheduler.kept_until_ns().is_some() && rig.scheduler.withdraw(waits));
    assert_eq!(rig.scheduler.kept_until_ns(), None);
}

#[test]
fn a_disk_does_not_wait_in_vain_repeatedly() {
    let mut rig = Rig::of_depth(2);
    let (mut idle_ns, begun_ns) = (0, rig.now_ns);
    for number in 0..2000 {
        rig.ask(Class::INTERACTIVE, DEADLINE_NONE_NS, (7 + number % 5) * FAR);
        rig.ask(Class::APERIODIC, DEADLINE_NONE_NS, 20 * FAR + number * FAR);
        for _ in 0..2 {
            while rig.serve(10 * MS).is_none() {
                idle_ns += rig.scheduler.kept_until_ns().unwrap() - rig.now_ns;
                rig.now_ns = rig.scheduler.kept_until_ns().unwrap();
            }
        }
    }
    let most_ns =
        (rig.now_ns - begun_ns) / reel_disk::limits::EXPECTED_PART + reel_disk::limits::EXPECTED_CREDIT_NS;
    assert!(idle_ns > 0 && idle_ns <= most_ns, "{idle_ns} ns of {most_ns}");
}
