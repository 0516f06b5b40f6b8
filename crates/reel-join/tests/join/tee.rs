//! The branches of a chain: every byte in order, memory bounded, and slow branches cut.

use proptest::prelude::*;
use reel_arena::{Arena, ArenaConfig, Lease};
use reel_join::limits::{BRANCH_BYTE_MAX_NS, BRANCH_HOLD_MAX_NS, JOIN_LEAD_NS, JOIN_TICK_NS, LINK_AHEAD_NS};
use reel_join::{KeptBy, Tee};
use reel_ring::Chunk;
use reel_serve::streams::{Offer, Outlet};
use std::collections::{BTreeMap, VecDeque};

/// What the simulated chain may hold.
const CHAIN_BYTES: u64 = 1000;
const MS: u64 = 1_000_000;

/// The byte at a position of the stream.
fn byte_at(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn bytes_of(from: u64, bytes: u64) -> Vec<u8> {
    (from..from + bytes).map(byte_at).collect()
}

/// The chain that a tee is the outlet of.
struct Chain {
    tee: Tee,
    offered: u64,
    released: u64,
}

impl Chain {
    fn new() -> Chain {
        Chain { tee: Tee::new(0, 0), offered: 0, released: 0 }
    }

    /// Offers so many bytes, as far as there is room. Returns how many were taken.
    fn offer(&mut self, bytes: u64, due_ns: u64) -> u64 {
        self.released += self.tee.done_bytes().expect("it never fails");
        let bytes = bytes.min(CHAIN_BYTES - (self.offered - self.released));
        if bytes == 0 {
            return 0;
        }
        let chunk = Chunk::from(bytes_of(self.offered, bytes));
        let taken = self.tee.offer(&Offer { chunk: &chunk, position: self.offered, due_ns });
        self.offered += taken;
        taken
    }
}

/// A branch as its destination sees it.
#[derive(Default)]
struct Seen {
    from: u64,
    got: Vec<u8>,
    in_flight: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Step {
    Offer(u64),
    Join,
    Leave(usize),
    Take(usize),
    Sent(usize, f64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..400u64).prop_map(Step::Offer),
        1 => Just(Step::Join),
        1 => (0..8usize).prop_map(Step::Leave),
        4 => (0..8usize).prop_map(Step::Take),
        4 => (0..8usize, 0.0..=1.0f64).prop_map(|(branch, part)| Step::Sent(branch, part)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever branches do, each one gets every byte from where it joined, in order, and the chain
    /// holds no more than it may.
    #[test]
    fn branches_get_every_byte_in_order(steps in proptest::collection::vec(step(), 1..300)) {
        let mut chain = Chain::new();
        let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
        let mut next = 0;
        for step in steps {
            let pick = |place: usize| seen.keys().nth(place % seen.len().max(1)).copied();
            match step {
                Step::Offer(bytes) => {
                    chain.offer(bytes, u64::MAX);
                }
                Step::Join => {
                    let from = chain.tee.join(next);
                    prop_assert_eq!(from, chain.offered);
                    seen.insert(next, Seen { from, ..Seen::default() });
                    next += 1;
                }
                Step::Leave(place) => {
                    if let Some(number) = pick(place) {
                        chain.tee.leave(number);
                        seen.remove(&number);
                    }
                }
                Step::Take(place) => {
                    if let Some(number) = pick(place) {
                        let chunks = chain.tee.take(number, usize::MAX);
                        let branch = seen.get_mut(&number).expect("picked");
                        prop_assert!(branch.in_flight.is_empty() || chunks.is_empty(), "one at a time");
                        branch.in_flight.extend(chunks.iter().flat_map(|chunk| chunk.to_vec()));
                    }
                }
                Step::Sent(place, part) => {
                    if let Some(number) = pick(place) {
                        let branch = seen.get_mut(&number).expect("picked");
                        let sent = (branch.in_flight.len() as f64 * part) as usize;
                        branch.got.extend_from_slice(&branch.in_flight[..sent]);
                        branch.in_flight.clear();
                        chain.tee.sent(number, sent);
                    }
                }
            }
            prop_assert!(chain.offered - chain.released <= CHAIN_BYTES);
        }
        for (number, branch) in &mut seen {
            chain.tee.sent(*number, 0);
            let rest = chain.tee.take(*number, usize::MAX);
            branch.got.extend(rest.iter().flat_map(|chunk| chunk.to_vec()));
            let expected = bytes_of(branch.from, chain.offered - branch.from);
            prop_assert!(branch.got == expected, "branch {} from {}", number, branch.from);
        }
    }

    /// Without deadlines a branch waits for another one for a second at most, and then that one is
    /// gone.
    #[test]
    fn a_branch_waits_no_longer_than_another_may_take(
        pauses_ms in proptest::collection::vec(1..3000u64, 1..30),
    ) {
        let (mut chain, mut slow) = (Chain::new(), SlowBranch::new(pauses_ms));
        chain.tee.join(0);
        chain.tee.join(1);
        let (mut waits_since_ns, mut is_cut) = (0, false);
        for now_ns in (0..30_000 * MS).step_by(JOIN_TICK_NS as usize) {
            chain.tee.set_now(now_ns);
            slow.turn(&mut chain.tee, now_ns);
            // What disks read within a tick.
            for _ in 0..20 {
                if chain.offer(100, u64::MAX) == 0 {
                    break;
                }
                waits_since_ns = now_ns;
                fast(&mut chain.tee);
            }
            for (number, kept_by) in chain.tee.too_slow(false) {
                prop_assert_eq!((number, kept_by), (1, KeptBy::Destination), "the fast one is never cut");
                is_cut = true;
                chain.tee.leave(number);
            }
            prop_assert!(now_ns - waits_since_ns <= BRANCH_BYTE_MAX_NS + 2 * JOIN_TICK_NS);
        }
        prop_assert!(is_cut || slow.longest_ns <= BRANCH_BYTE_MAX_NS + 2 * JOIN_TICK_NS);
    }

    /// With deadlines no byte of a branch is late because of another one, whatever that does.
    #[test]
    fn nothing_is_late_because_of_a_slow_branch(
        pauses_ms in proptest::collection::vec(1..3000u64, 1..40),
        rate in 200..20_000u64,
    ) {
        let (mut chain, mut slow) = (Chain::new(), SlowBranch::new(pauses_ms));
        chain.tee.join(0);
        chain.tee.join(1);
        let mut late = 0;
        for now_ns in (0..60_000 * MS).step_by(JOIN_TICK_NS as usize) {
            chain.tee.set_now(now_ns);
            slow.turn(&mut chain.tee, now_ns);
            loop {
                // A viewer begins to play two seconds after the first byte was read.
                let due_ns = JOIN_LEAD_NS + chain.offered * 1000 * MS / rate;
                if chain.offer(rate.min(100), due_ns) == 0 {
                    break;
                }
                prop_assert!(due_ns <= now_ns + JOIN_LEAD_NS, "too early");
                late += fast(&mut chain.tee);
            }
            for (number, kept_by) in chain.tee.too_slow(false) {
                prop_assert_eq!((number, kept_by), (1, KeptBy::Destination), "the fast one is never cut");
                chain.tee.leave(number);
            }
        }
        prop_assert_eq!(late, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// On a full link what was promised leaves a second before it is due. That disturbs no other
    /// branch, however long it waits in sum.
    #[test]
    fn a_promised_branch_is_not_cut_because_the_link_is_full(rate in 200..20_000u64) {
        let mut chain = Chain::new();
        chain.tee.join(0);
        chain.tee.join(1);
        let (mut late, mut on_link) = (0, 0);
        for now_ns in (0..60_000 * MS).step_by(JOIN_TICK_NS as usize) {
            chain.tee.set_now(now_ns);
            late += fill(&mut chain, rate);
            while chain.tee.waiting_bytes(1) > 0 {
                if chain.tee.due_ns(1) > now_ns + LINK_AHEAD_NS {
                    chain.tee.awaits_link(1);
                    break;
                }
                let bytes = chain.tee.take(1, 70).iter().map(|chunk| chunk.len()).sum();
                on_link += bytes as u64;
                late += chain.tee.sent(1, bytes) + fill(&mut chain, rate);
            }
            prop_assert!(chain.tee.too_slow(false).is_empty(), "{} ms", now_ns / MS);
        }
        prop_assert_eq!(late, 0);
        prop_assert!(on_link >= 55 * rate, "{} bytes", on_link);
    }

    /// Whatever the link does to a branch, nothing of another one is late because of it.
    #[test]
    fn nothing_is_late_because_of_a_branch_that_waits_for_the_link(
        waits_ms in proptest::collection::vec(1..4000u64, 1..40),
        rate in 200..10_000u64,
    ) {
        let mut chain = Chain::new();
        chain.tee.join(0);
        chain.tee.join(1);
        let (mut late, mut until_ns, mut turns) = (0, 0, 0);
        for now_ns in (0..60_000 * MS).step_by(JOIN_TICK_NS as usize) {
            chain.tee.set_now(now_ns);
            late += fill(&mut chain, rate);
            if chain.tee.waiting_bytes(1) > 0 && now_ns < until_ns {
                chain.tee.awaits_link(1);
            } else if chain.tee.waiting_bytes(1) > 0 {
                let bytes = chain.tee.take(1, usize::MAX).iter().map(|chunk| chunk.len()).sum();
                chain.tee.sent(1, bytes);
                until_ns = now_ns + waits_ms[turns % waits_ms.len()] * MS;
                turns += 1;
            }
            for cut in chain.tee.too_slow(false) {
                prop_assert_eq!(cut, (1, KeptBy::Link));
                chain.tee.leave(1);
            }
        }
        prop_assert_eq!(late, 0);
    }
}

/// Offers what may be offered of a film of so many bytes a second to branch 0, which takes all at
/// once; the bytes that were late there. A viewer begins to play two seconds after the first byte
/// was read.
fn fill(chain: &mut Chain, rate: u64) -> u64 {
    let mut late = 0;
    loop {
        let due_ns = JOIN_LEAD_NS + chain.offered * 1000 * MS / rate;
        if chain.offer(rate.min(100), due_ns) == 0 {
            return late;
        }
        late += fast(&mut chain.tee);
    }
}

/// Two branches without deadlines take turns on the link: each waits for the other one, and both
/// stay. One that the link gives nothing is cut for that, and not for its destination.
#[test]
fn branches_that_take_turns_on_the_link_stay_and_one_without_a_turn_is_cut() {
    let mut chain = Chain::new();
    chain.tee.join(0);
    while chain.offer(100, u64::MAX) > 0 {}
    chain.tee.join(1);
    let turn = |chain: &mut Chain, number: u64, now_ns: u64| {
        chain.tee.set_now(now_ns);
        while chain.offer(100, u64::MAX) > 0 {}
        let bytes = chain.tee.take(number, 50).iter().map(|chunk| chunk.len()).sum();
        chain.tee.sent(number, bytes);
        for number in 0..2 {
            if chain.tee.waiting_bytes(number) > 0 {
                chain.tee.awaits_link(number);
            }
        }
        (bytes, chain.tee.too_slow(false))
    };
    let mut sent = [0_usize; 2];
    // Branch 0 is behind by all that the chain holds, which takes it 20 s: each byte is old when it
    // is sent, and branch 1 has always sent all.
    for now_ns in (0..600_000 * MS).step_by(500 * MS as usize) {
        let number = now_ns / (500 * MS) % 2;
        let (bytes, slow) = turn(&mut chain, number, now_ns);
        assert!(slow.is_empty(), "{slow:?} after {} ms", now_ns / MS);
        sent[number as usize] += bytes;
    }
    assert!(sent[0] > 25_000 && sent[0].abs_diff(sent[1]) <= 50, "{sent:?}");
    let begun_ns = 600_000 * MS;
    let times = (begun_ns..begun_ns + 60_000 * MS).step_by(JOIN_TICK_NS as usize);
    let cut = times.map(|now_ns| (now_ns, turn(&mut chain, 0, now_ns).1)).find(|(_, slow)| !slow.is_empty());
    let (cut_ns, slow) = cut.expect("it is cut");
    assert_eq!(slow, [(1, KeptBy::Link)]);
    // Branch 0 first gets what the chain holds.
    assert!(cut_ns - begun_ns <= BRANCH_HOLD_MAX_NS + 30 * JOIN_TICK_NS, "{} ms", (cut_ns - begun_ns) / MS);
}

/// A destination that takes everything at once; the bytes that were late.
fn fast(tee: &mut Tee) -> u64 {
    let bytes = tee.take(0, usize::MAX).iter().map(|chunk| chunk.len()).sum();
    tee.sent(0, bytes)
}

/// A destination that needs such times for what it takes.
struct SlowBranch {
    pauses_ms: VecDeque<u64>,
    until_ns: u64,
    in_flight: usize,
    longest_ns: u64,
}

impl SlowBranch {
    fn new(pauses_ms: Vec<u64>) -> SlowBranch {
        SlowBranch { pauses_ms: pauses_ms.into(), until_ns: 0, in_flight: 0, longest_ns: 0 }
    }

    fn turn(&mut self, tee: &mut Tee, now_ns: u64) {
        if now_ns < self.until_ns {
            return;
        }
        tee.sent(1, std::mem::take(&mut self.in_flight));
        self.in_flight = tee.take(1, usize::MAX).iter().map(|chunk| chunk.len()).sum();
        if self.in_flight > 0 {
            let pause_ns = self.pauses_ms.front().copied().unwrap_or(1) * MS;
            self.pauses_ms.rotate_left(1);
            self.until_ns = now_ns + pause_ns;
            self.longest_ns = self.longest_ns.max(pause_ns);
        }
    }
}

/// A branch that takes nothing is cut, and one that is alone never is, since no other one waits.
#[test]
fn only_a_branch_that_others_wait_for_is_cut() {
    let mut chain = Chain::new();
    chain.tee.join(1);
    while chain.offer(100, u64::MAX) > 0 {}
    for now_ns in (0..20_000 * MS).step_by(JOIN_TICK_NS as usize) {
        chain.tee.set_now(now_ns);
        assert!(chain.tee.too_slow(false).is_empty(), "no other branch waits");
    }
    assert_eq!(chain.tee.too_slow(true), [(1, KeptBy::Destination)], "others wait for memory");
    chain.tee.join(0);
    let begun_ns = 20_000 * MS;
    let cut_ns = (begun_ns..).step_by(JOIN_TICK_NS as usize).find(|now_ns| {
        chain.tee.set_now(*now_ns);
        chain.tee.too_slow(false) == [(1, KeptBy::Destination)]
    });
    assert!(cut_ns.expect("it is cut") - begun_ns <= BRANCH_HOLD_MAX_NS + 2 * JOIN_TICK_NS);
}

/// Bytes that were offered before the session had deadlines go before those that have one, so they
/// are as urgent.
#[test]
fn what_was_offered_without_a_deadline_is_due_with_what_follows() {
    let mut chain = Chain::new();
    chain.tee.join(0);
    assert_eq!(chain.offer(100, u64::MAX), 100);
    assert_eq!(chain.tee.due_ns(0), u64::MAX);
    let due_ns = JOIN_LEAD_NS + 500 * MS;
    chain.tee.set_now(600 * MS);
    assert_eq!(chain.offer(100, due_ns), 100);
    assert_eq!(chain.tee.due_ns(0), due_ns);
    // Where nothing more can be offered, it is as what would be next.
    assert_eq!(chain.tee.take(0, usize::MAX).len(), 2);
    chain.tee.sent(0, 200);
    assert_eq!(chain.offer(100, due_ns + JOIN_LEAD_NS), 0, "it is too early");
    assert_eq!(chain.tee.due_ns(0), due_ns + JOIN_LEAD_NS);
}

/// A session may be given deadlines: then branches are not cut for what they might do before.
#[test]
fn what_branches_did_without_deadlines_is_forgotten_with_them() {
    for is_on_link in [false, true] {
        let mut chain = Chain::new();
        chain.tee.join(0);
        chain.tee.join(1);
        let mut in_flight = 0;
        // Branch 1 needs half a second for all that there is, and branch 0 waits for that.
        for now_ns in (0..20_000 * MS).step_by(JOIN_TICK_NS as usize) {
            chain.tee.set_now(now_ns);
            if now_ns % (500 * MS) == 0 {
                in_flight += chain.tee.take(1, usize::MAX).iter().map(|chunk| chunk.len()).sum::<usize>();
                chain.tee.sent(1, std::mem::take(&mut in_flight));
                while chain.offer(100, u64::MAX) > 0 {}
            }
            if is_on_link {
                chain.tee.awaits_link(1);
            } else if in_flight == 0 {
                in_flight = chain.tee.take(1, usize::MAX).iter().map(|chunk| chunk.len()).sum();
            }
            fast(&mut chain.tee);
            assert!(chain.tee.too_slow(false).is_empty(), "{} ms", now_ns / MS);
        }
        chain.tee.set_now(20_000 * MS);
        chain.tee.sent(1, in_flight);
        let rest = chain.tee.take(1, usize::MAX).iter().map(|chunk| chunk.len()).sum();
        chain.tee.sent(1, rest);
        assert_eq!(chain.offer(100, 20_500 * MS), 100);
        fast(&mut chain.tee);
        chain.tee.set_now(20_000 * MS + JOIN_TICK_NS);
        assert!(chain.tee.too_slow(false).is_empty(), "link: {is_on_link}");
    }
}

/// A viewer of the late bytes is told how many they are.
#[test]
fn late_bytes_are_counted() {
    let mut chain = Chain::new();
    chain.tee.join(0);
    let begins_ns = JOIN_LEAD_NS;
    // Due at once, as the beginning is; due when the viewer begins; and later.
    assert_eq!(chain.offer(100, 0), 100);
    assert_eq!(chain.tee.due_ns(0), begins_ns, "the link may take its time until then");
    assert_eq!(chain.offer(100, begins_ns), 100);
    let in_flight = |tee: &mut Tee| tee.take(0, usize::MAX).iter().map(|chunk| chunk.len()).sum::<usize>();
    assert_eq!(in_flight(&mut chain.tee), 200);
    chain.tee.set_now(begins_ns);
    assert_eq!(chain.tee.sent(0, 50), 0, "the viewer has not begun");
    assert_eq!(chain.offer(100, begins_ns + 50 * MS), 100);
    assert_eq!(in_flight(&mut chain.tee), 250);
    chain.tee.set_now(begins_ns + 10 * MS);
    assert_eq!(chain.tee.sent(0, 200), 150);
    assert_eq!(in_flight(&mut chain.tee), 50);
    chain.tee.set_now(begins_ns + 60 * MS);
    assert_eq!(chain.tee.sent(0, 50), 50);
    assert!(!chain.tee.is_complete(0), "more may come");
    chain.tee.settle(false);
    assert!(chain.tee.is_complete(0));
}

/// All branches are given the memory that the chain has read into, and none a copy.
#[test]
fn branches_are_given_the_same_memory() {
    const ROW_BYTES: usize = 64 << 10;
    const BRANCHES: u64 = 8;
    let config =
        ArenaConfig { buffer_bytes: ROW_BYTES, buffer_count: 2, cells_per_buffer: 1, huge_pages: false };
    let arena = Arena::new(config).expect("an arena of two rows");
    let rows: Vec<Lease> = (0..2).map(|_| arena.take(ROW_BYTES).expect("a free buffer").freeze()).collect();
    let taken = arena.usage().bytes_taken;
    let mut tee = Tee::new(0, 0);
    (0..BRANCHES).for_each(|number| assert_eq!(tee.join(number), 0));
    for (at, row) in rows.iter().enumerate() {
        let chunk = Chunk::Lease(row.clone());
        let offer = Offer { chunk: &chunk, position: (at * ROW_BYTES) as u64, due_ns: u64::MAX };
        assert_eq!(tee.offer(&offer), ROW_BYTES as u64);
    }
    let memory = |chunks: &[Chunk]| -> Vec<(*const u8, usize)> {
        assert!(chunks.iter().all(|chunk| matches!(chunk, Chunk::Lease(_))), "not of the arena");
        chunks.iter().map(|chunk| (chunk.as_ptr(), chunk.len())).collect()
    };
    let whole: Vec<(*const u8, usize)> = rows.iter().map(|row| (row.as_ptr(), ROW_BYTES)).collect();
    let in_flight: Vec<Vec<Chunk>> = (0..BRANCHES).map(|number| tee.take(number, usize::MAX)).collect();
    for (number, chunks) in in_flight.iter().enumerate() {
        assert_eq!(memory(chunks), whole, "branch {number}");
    }
    // What was sent in part is taken again from within the same memory.
    tee.sent(3, 1000);
    let rest = tee.take(3, usize::MAX);
    let second = (whole[0].0.wrapping_add(1000), ROW_BYTES - 1000);
    assert_eq!(memory(&rest), [second, whole[1]]);
    assert_eq!(arena.usage().bytes_taken, taken, "eight branches need no more memory");
    // The one that sends last keeps it, and nothing does after that.
    drop((rows, in_flight, rest));
    (0..BRANCHES - 1).for_each(|number| {
        tee.sent(number, if number == 3 { 2 * ROW_BYTES - 1000 } else { 2 * ROW_BYTES });
    });
    assert_eq!(arena.usage().bytes_taken, taken);
    tee.sent(BRANCHES - 1, 2 * ROW_BYTES);
    drop(tee);
    assert_eq!(arena.usage().bytes_taken, 0);
}
