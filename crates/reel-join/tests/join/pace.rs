//! When datagrams leave: steadily, in time, and without a flood after whatever held them up.

use proptest::prelude::*;
use reel_join::limits::{DATAGRAM_AHEAD_NS, DATAGRAM_HURRY, DATAGRAM_TRAIN_NS};
use reel_join::{Datagram, Pace};

const MS: u64 = 1_000_000;
const NEVER_NS: u64 = u64::MAX;

/// Datagrams that leave, and what holds them up.
#[derive(Debug)]
struct Sender {
    pace: Pace,
    datagrams: Vec<Datagram>,
    /// When each one is there to be sent.
    there_ns: Vec<u64>,
    /// How late the thread looks, in turn.
    late_ms: Vec<u64>,
    /// When each one has left.
    left_ns: Vec<u64>,
}

impl Sender {
    /// Datagrams that follow each other after these times of the stream, the first one of which is
    /// due then.
    fn new(steps_ns: impl IntoIterator<Item = u64>, due_ns: Option<u64>) -> Sender {
        let mut media_ns = 0;
        let datagram = |step_ns: u64| {
            media_ns += step_ns;
            Datagram { media_ns, due_ns: due_ns.map_or(NEVER_NS, |due_ns| due_ns + media_ns) }
        };
        let datagrams: Vec<_> = steps_ns.into_iter().map(datagram).collect();
        let there_ns = vec![0; datagrams.len()];
        Sender { pace: Pace::default(), datagrams, there_ns, late_ms: vec![0], left_ns: Vec::new() }
    }

    /// Sends all of them.
    fn run(&mut self) {
        let (mut now_ns, mut looks) = (0, 0);
        while let Some(there_ns) = self.there_ns.get(self.left_ns.len()) {
            now_ns = now_ns.max(*there_ns);
            let sent = self.left_ns.len();
            let there = self.there_ns[sent..].iter().take_while(|there_ns| **there_ns <= now_ns).count();
            let datagrams = self.datagrams[sent..sent + there].iter().copied();
            match self.pace.train(datagrams, now_ns) {
                Ok((count, pace)) => {
                    assert!(count > 0, "what may leave does");
                    self.left_ns.extend(vec![now_ns; count]);
                    self.pace = pace;
                }
                Err(at_ns) => {
                    assert!(at_ns > now_ns);
                    now_ns = at_ns + self.late_ms[looks % self.late_ms.len()] * MS;
                    looks += 1;
                }
            }
        }
    }

    /// No time, however short, has more of the stream than a quarter above its clock, but for what
    /// one train and one that was held up by less than a train bring.
    fn is_steady(&self) -> bool {
        let (numerator, denominator) = DATAGRAM_HURRY;
        let is_within = |from: usize, to: usize| {
            let media_ns = self.datagrams[to].media_ns - self.datagrams[from].media_ns;
            let time_ns = self.left_ns[to] - self.left_ns[from] + 2 * DATAGRAM_TRAIN_NS;
            // Each step is rounded down by less than a nanosecond.
            media_ns * denominator <= (time_ns + (to - from) as u64) * numerator
        };
        let all = 0..self.datagrams.len();
        all.clone().all(|from| (from..all.end).all(|to| is_within(from, to)))
    }

    /// The most that leave within a time.
    fn most_within(&self, time_ns: u64) -> usize {
        let within = |from: &u64| {
            self.left_ns.iter().filter(|left_ns| (*from..*from + time_ns).contains(left_ns)).count()
        };
        self.left_ns.iter().map(within).max().unwrap_or(0)
    }

    /// How much later than a second before it is due each one has left.
    fn behind_ns(&self) -> impl Iterator<Item = u64> {
        self.datagrams
            .iter()
            .zip(&self.left_ns)
            .map(|(datagram, left_ns)| (left_ns + DATAGRAM_AHEAD_NS).saturating_sub(datagram.due_ns))
    }
}

/// Four megabits a second.
const STEP_NS: u64 = 2_632_000;

#[test]
fn what_is_there_at_once_leaves_at_the_pace_of_the_stream() {
    // The first one is due at once, so all of the first second is behind.
    let mut sender = Sender::new(vec![STEP_NS; 3000], Some(0));
    sender.run();
    // A tenth of a second of the stream is 38 datagrams; with the quarter and two trains, 57.
    assert!(sender.most_within(100 * MS) <= 57, "{}", sender.most_within(100 * MS));
    assert!(sender.most_within(1) <= 8, "{} at once", sender.most_within(1));
    let last = sender.behind_ns().last().expect("all have left");
    assert!(last <= DATAGRAM_TRAIN_NS, "after four seconds it has caught up; {last} ns behind");
    let most = sender.behind_ns().max().expect("all have left");
    assert!(most <= DATAGRAM_AHEAD_NS, "nothing leaves after it is due; {most} ns");
}

#[test]
fn a_stream_that_stood_still_catches_up_without_a_flood() {
    let mut sender = Sender::new(vec![STEP_NS; 6000], Some(3000 * MS));
    // The disks give nothing for 800 ms.
    let held = 1000;
    let holds_ns = 2000 * MS + held as u64 * STEP_NS + 800 * MS;
    sender.there_ns[held..].fill(holds_ns);
    sender.run();
    assert!(sender.is_steady());
    assert!(sender.most_within(100 * MS) <= 57);
    assert!(sender.behind_ns().max().expect("all have left") <= DATAGRAM_AHEAD_NS, "nothing is late");
    let caught_up = held + 4000 * MS as usize / STEP_NS as usize + 500;
    assert!(sender.behind_ns().skip(caught_up).all(|behind_ns| behind_ns <= DATAGRAM_TRAIN_NS));
}

#[test]
fn without_deadlines_the_stream_keeps_its_own_clock() {
    let mut sender = Sender::new(vec![STEP_NS; 3000], None);
    sender.late_ms = vec![0, 3, 1];
    sender.run();
    let took_ns = sender.left_ns[2999] - sender.left_ns[0];
    let clock_ns = 2999 * STEP_NS;
    assert!(took_ns.abs_diff(clock_ns) <= 2 * DATAGRAM_TRAIN_NS, "{took_ns} ns");
    // After a pause of three seconds it continues where it was: nothing is late or hurries.
    let mut sender = Sender::new(vec![STEP_NS; 3000], None);
    sender.there_ns[1000..].fill(1000 * STEP_NS + 3000 * MS);
    sender.run();
    let took_ns = sender.left_ns[2999] - sender.left_ns[1000];
    assert!(took_ns.abs_diff(1999 * STEP_NS) <= 2 * DATAGRAM_TRAIN_NS, "{took_ns} ns");
}

#[test]
fn a_class_without_deadlines_continues_the_pace() {
    let mut sender = Sender::new(vec![STEP_NS; 2000], Some(1000 * MS));
    sender.datagrams[1000..].iter_mut().for_each(|datagram| datagram.due_ns = NEVER_NS);
    sender.run();
    let took_ns = sender.left_ns[1999] - sender.left_ns[0];
    assert!(took_ns.abs_diff(1999 * STEP_NS) <= 2 * DATAGRAM_TRAIN_NS, "{took_ns} ns");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever the rates of the stream are, and whatever holds it up.
    #[test]
    fn a_stream_leaves_steadily_and_not_early(
        steps_us in proptest::collection::vec(prop_oneof![0..200u64, 500..4000u64, 10_000..60_000u64], 1..400),
        stalls in proptest::collection::vec((0..400usize, 1..3000u64), 0..4),
        late_ms in proptest::collection::vec(prop_oneof![3 => 0..3u64, 1 => 0..400u64], 1..20),
        due_ms in prop_oneof![Just(None), (0..3000u64).prop_map(Some)],
    ) {
        let steps_ns = steps_us.into_iter().map(|step_us| step_us * 1000);
        let mut sender = Sender::new(steps_ns, due_ms.map(|due_ms| due_ms * MS));
        for (at, stall_ms) in stalls {
            let Some(datagram) = sender.datagrams.get(at) else { continue };
            let there_ns = datagram.media_ns + stall_ms * MS;
            sender.there_ns[at..].iter_mut().for_each(|ns| *ns = there_ns.max(*ns));
        }
        sender.late_ms = late_ms;
        sender.run();
        prop_assert!(sender.is_steady());
        for (datagram, left_ns) in sender.datagrams.iter().zip(&sender.left_ns) {
            let soonest_ns = datagram.due_ns.saturating_sub(DATAGRAM_AHEAD_NS + DATAGRAM_TRAIN_NS);
            prop_assert!(datagram.due_ns == NEVER_NS || *left_ns >= soonest_ns, "too early");
        }
    }
}
