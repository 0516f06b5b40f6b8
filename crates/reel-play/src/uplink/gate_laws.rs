use super::*;
use crate::uplink::UplinkRate;
use crate::uplink::schedule::LaneShare;
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// A slow line, on which every grant is noticed.
const LINK_BPS: u64 = 20_000_000;
/// What of that is granted in a second.
const GRANTED: u64 = LINK_BPS / 8 * 940 / 1000;

/// Counts how often it is called.
#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn client(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number])
}

/// The terms of an answer to a client.
fn to(number: u8) -> SendTerms {
    SendTerms::interactive(client(number))
}

/// The terms of what was promised to a client and is due then.
fn promised(number: u8, due_ns: u64) -> SendTerms {
    SendTerms { class: Class::PERIODIC, due_ns, is_promised: true, ..to(number) }
}

fn limited() -> (Arc<Uplink>, Arc<UplinkGate>) {
    let uplink = Uplink::of(UplinkRate::Known(LINK_BPS));
    let gate = UplinkGate::new(&uplink, |_| 100);
    (uplink, gate)
}

/// Connections of clients, each of which sends without end, or a number of bytes.
struct Senders {
    gate: Arc<UplinkGate>,
    senders: Vec<(IpAddr, UplinkSender, u64)>,
    look_ns: Option<u64>,
}

impl Senders {
    fn new(gate: &Arc<UplinkGate>) -> Self {
        Self { gate: Arc::clone(gate), senders: Vec::new(), look_ns: None }
    }

    fn add(&mut self, client: IpAddr, bytes: u64) {
        self.senders.push((client, self.gate.sender(), bytes));
    }

    /// Sends what may be sent now; how many bytes each client was sent.
    fn send(&mut self, now_ns: u64) -> Vec<(IpAddr, u64)> {
        if self.look_ns.is_some_and(|look_ns| now_ns >= look_ns) {
            self.look_ns = self.gate.collect(now_ns);
        }
        let mut sent = Vec::new();
        for (client, sender, left) in &mut self.senders {
            while *left > 0 {
                match sender.may_send(*left, &SendTerms::interactive(*client), Waker::noop(), now_ns) {
                    MaySend::Bytes(bytes) => {
                        sender.sent(bytes);
                        *left -= bytes;
                        sent.push((*client, bytes));
                    }
                    MaySend::Later { is_first } => {
                        if is_first {
                            assert_eq!(self.look_ns, None, "one task collects");
                            self.look_ns = Some(now_ns);
                        }
                        break;
                    }
                }
            }
        }
        sent
    }
}

/// A thread whose viewers take all that they are granted, in the class of playing.
struct Viewers {
    port: UplinkPort,
    sent: u64,
}

impl Viewers {
    const SHARE: LaneShare = LaneShare { class: Class::PERIODIC, permille: 850 };

    fn on(uplink: &Arc<Uplink>) -> Self {
        let port = uplink.port();
        for viewer in 0..6 {
            port.ask(viewer, client(200 + viewer as u8), Self::SHARE, SECOND, viewer);
        }
        Self { port, sent: 0 }
    }

    fn send(&mut self, now_ns: u64) {
        for Grant { delivery, share, bytes } in self.port.granted(now_ns).0 {
            self.sent += bytes;
            self.port.ask(delivery, client(200 + delivery as u8), share, SECOND, now_ns);
        }
    }
}

#[test]
fn nothing_is_asked_while_the_link_is_not_limited() {
    let uplink = Uplink::of(UplinkRate::Learnt);
    let mut sender = UplinkGate::new(&uplink, |_| 100).sender();
    assert_eq!(sender.may_send(1 << 30, &to(1), Waker::noop(), 0), MaySend::Bytes(1 << 30));
    sender.sent(1 << 30);
    assert_eq!((sender.has_turn(), uplink.waiting()), (false, 0));
}

#[test]
fn a_small_answer_is_granted_at_once_while_there_is_credit() {
    let (uplink, gate) = limited();
    let mut sender = gate.sender();
    let calls = Arc::new(Calls::default());
    let waker = Waker::from(Arc::clone(&calls));
    assert_eq!(sender.may_send(300, &to(1), &waker, SECOND), MaySend::Bytes(300));
    sender.sent(300);
    assert_eq!((uplink.waiting(), calls.0.load(Ordering::Relaxed)), (0, 0), "told, and not called");
}

/// A flood by one address takes no more than the share of its class from viewers, and the server's
/// health is answered beside it.
#[test]
fn a_flood_by_one_client_leaves_viewers_their_share_and_health_its_turn() {
    let (uplink, gate) = limited();
    let (mut viewers, mut flood) = (Viewers::on(&uplink), Senders::new(&gate));
    for _ in 0..30 {
        flood.add(client(1), u64::MAX);
    }
    let (mut flooded, mut slowest) = (0, 0);
    let mut asked_ns = None;
    for now_ns in (0..20 * SECOND).step_by(MS as usize) {
        viewers.send(now_ns);
        // Another client asks for the metrics, the largest of what shows the server's state.
        if asked_ns.is_none() {
            asked_ns = Some(now_ns);
            flood.add(client(2), 60_000);
        }
        flooded +=
            flood.send(now_ns).iter().filter(|(who, _)| *who == client(1)).map(|(_, n)| n).sum::<u64>();
        if flood.senders.last().is_some_and(|(_, _, left)| *left == 0) {
            flood.senders.pop();
            slowest = slowest.max(now_ns - asked_ns.take().expect("it was asked"));
        }
    }
    assert!(viewers.sent >= 20 * GRANTED * 85 / 100, "{} of {}", viewers.sent, 20 * GRANTED);
    assert!(flooded + viewers.sent <= 20 * GRANTED + 100_000, "never more than the link carries");
    assert!(flooded > 0, "the flood has its turns, too");
    assert!(slowest < SECOND, "{} ms", slowest / MS);
}

#[test]
fn an_idle_link_is_lent_and_clients_share_it_whatever_their_connections() {
    let (_, gate) = limited();
    let mut senders = Senders::new(&gate);
    for number in 0..31 {
        senders.add(client(if number < 30 { 1 } else { 2 }), u64::MAX);
    }
    let mut sums = [0; 3];
    for now_ns in (0..10 * SECOND).step_by(MS as usize) {
        for (who, bytes) in senders.send(now_ns) {
            sums[usize::from(who == client(2))] += bytes;
            sums[2] += bytes;
        }
    }
    assert!(sums[2] > 10 * GRANTED * 99 / 100, "all of it: {sums:?}");
    assert!(sums[0].abs_diff(sums[1]) <= 2 * (16 << 10), "{sums:?}");
}

#[test]
fn what_the_socket_does_not_take_is_given_back() {
    let (uplink, gate) = limited();
    let (mut blocked, mut other) = (gate.sender(), gate.sender());
    assert_eq!(blocked.may_send(16 << 10, &to(1), Waker::noop(), SECOND), MaySend::Bytes(16 << 10));
    assert!(matches!(other.may_send(300, &to(2), Waker::noop(), SECOND), MaySend::Later { is_first: true }));
    blocked.sent(0);
    assert_eq!(gate.collect(SECOND), None, "nothing waits any more");
    assert_eq!(other.may_send(300, &to(2), Waker::noop(), SECOND), MaySend::Bytes(300));
    assert_eq!(uplink.waiting(), 0);
}

#[test]
fn a_waker_is_called_once_its_sender_may_send() {
    let (_, gate) = limited();
    let (mut first, mut second) = (gate.sender(), gate.sender());
    let calls = Arc::new(Calls::default());
    let waker = Waker::from(Arc::clone(&calls));
    assert!(matches!(first.may_send(1 << 20, &to(1), Waker::noop(), SECOND), MaySend::Bytes(_)));
    first.sent(1 << 20);
    assert!(matches!(second.may_send(1 << 20, &to(2), &waker, SECOND), MaySend::Later { is_first: true }));
    let look_ns = gate.collect(SECOND).expect("it waits");
    assert_eq!(calls.0.load(Ordering::Relaxed), 0);
    let now_ns = look_ns + 10 * MS;
    assert_eq!(gate.collect(now_ns), None, "granted");
    assert_eq!(calls.0.load(Ordering::Relaxed), 1);
    assert!(matches!(second.may_send(1 << 20, &to(2), &waker, now_ns), MaySend::Bytes(_)));
}

#[test]
fn a_sender_that_is_dropped_forgets_its_turn_and_gives_back_its_grant() {
    let (uplink, gate) = limited();
    let mut first = gate.sender();
    assert!(matches!(first.may_send(16 << 10, &to(1), Waker::noop(), SECOND), MaySend::Bytes(_)));
    first.sent(16 << 10);
    let mut waits = gate.sender();
    assert!(matches!(waits.may_send(99, &to(1), Waker::noop(), SECOND), MaySend::Later { .. }));
    drop(waits);
    assert_eq!((uplink.waiting(), gate.collect(SECOND)), (0, None));
    // Granted, and not taken.
    let (mut waits, mut other) = (gate.sender(), gate.sender());
    assert!(matches!(waits.may_send(16 << 10, &to(1), Waker::noop(), SECOND), MaySend::Later { .. }));
    let now_ns = SECOND + 8 * MS;
    assert_eq!(gate.collect(now_ns), None);
    drop(waits);
    assert!(matches!(other.may_send(99, &to(2), Waker::noop(), now_ns), MaySend::Bytes(99)));
}

#[test]
fn senders_that_wait_are_free_once_the_rate_is_forgotten() {
    let (uplink, gate) = limited();
    let (mut first, mut waits) = (gate.sender(), gate.sender());
    assert!(matches!(first.may_send(1 << 20, &to(1), Waker::noop(), SECOND), MaySend::Bytes(_)));
    first.sent(1 << 20);
    assert!(matches!(waits.may_send(1 << 20, &to(1), Waker::noop(), SECOND), MaySend::Later { .. }));
    uplink.is_limited.store(false, Ordering::Relaxed);
    assert_eq!(waits.may_send(1 << 20, &to(1), Waker::noop(), SECOND), MaySend::Bytes(1 << 20));
    assert_eq!((uplink.waiting(), waits.has_turn()), (0, false));
}

/// Viewers in danger and a flood fill a link whose rate is not known.
#[test]
fn what_a_flood_is_sent_counts_in_the_rate_that_is_learnt() {
    let uplink = Uplink::of(UplinkRate::Learnt);
    let (gate, port) = (UplinkGate::new(&uplink, |_| 100), uplink.port());
    assert!(gate.learns() && !gate.is_limited());
    let standing = |bytes_per_s: u64| FlowSample {
        acknowledged_bytes: bytes_per_s / 10,
        round_trip_ns: 60 * MS,
        round_trip_min_ns: 10 * MS,
        is_backlogged: true,
        ..FlowSample::default()
    };
    for now_ns in (10 * SECOND..12 * SECOND).step_by(100 * MS as usize) {
        for viewer in [1, 2] {
            port.observe(client(viewer), standing(300_000), true, now_ns);
        }
        gate.observe(&to(3), standing(1_900_000), now_ns);
    }
    let learnt = uplink.view().bytes_per_s.expect("the link is full");
    assert!(gate.is_limited() && learnt.abs_diff(2_500_000 * 95 / 100) < 130_000, "{learnt}");
}

#[test]
fn what_was_promised_and_is_due_soon_is_sent_before_all_others() {
    let (uplink, gate) = limited();
    let (mut other, mut sender) = (gate.sender(), gate.sender());
    assert!(matches!(other.may_send(1 << 20, &to(1), Waker::noop(), SECOND), MaySend::Bytes(_)));
    other.sent(1 << 20);
    let due_ns = 3 * SECOND;
    let terms = promised(2, due_ns);
    assert!(matches!(sender.may_send(10_000, &terms, Waker::noop(), SECOND), MaySend::Later { .. }));
    assert_eq!(uplink.waiting(), 1);
    // The link is never free meanwhile.
    let now_ns = due_ns - LINK_URGENT_NS;
    assert!(matches!(other.may_send(1 << 30, &to(1), Waker::noop(), now_ns), MaySend::Later { .. }));
    assert_eq!(sender.may_send(10_000, &terms, Waker::noop(), now_ns), MaySend::Bytes(10_000));
    sender.sent(10_000);
    assert!(!sender.has_turn());
    // As soon, and not promised: it waits.
    let terms = SendTerms { is_promised: false, ..terms };
    assert!(matches!(sender.may_send(10_000, &terms, Waker::noop(), now_ns), MaySend::Later { .. }));
}

#[test]
fn a_sender_whose_class_changes_waits_in_the_new_one() {
    let (uplink, gate) = limited();
    let (mut other, mut sender) = (gate.sender(), gate.sender());
    assert!(matches!(other.may_send(1 << 20, &to(1), Waker::noop(), SECOND), MaySend::Bytes(_)));
    other.sent(1 << 20);
    let was = promised(2, 100 * SECOND);
    assert!(matches!(sender.may_send(99, &was, Waker::noop(), SECOND), MaySend::Later { is_first: true }));
    let is = SendTerms { class: Class::APERIODIC, due_ns: DEADLINE_NONE_NS, is_promised: false, ..was };
    assert!(matches!(sender.may_send(99, &is, Waker::noop(), SECOND), MaySend::Later { is_first: false }));
    assert_eq!((uplink.waiting(), gate.turns().waiting), (1, 1));
    let turns = gate.turns();
    let waits = turns.by_number.values().next();
    assert!(matches!(waits, Some(Turn::Waits(ticket, _)) if ticket.class() == Class::APERIODIC));
}

#[derive(Clone, Debug)]
enum Step {
    Send { which: usize, bytes: u64, taken: u64, due_ms: Option<u64> },
    Drop { which: usize },
    Forget { which: usize },
    Collect,
    Pass { ns: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..8usize, 1..100_000u64, 0..100_000u64, proptest::option::of(1001..9000u64))
            .prop_map(|(which, bytes, taken, due_ms)| Step::Send { which, bytes, taken, due_ms }),
        1 => (0..8usize).prop_map(|which| Step::Drop { which }),
        1 => (0..8usize).prop_map(|which| Step::Forget { which }),
        2 => Just(Step::Collect),
        3 => (0..20 * MS).prop_map(|ns| Step::Pass { ns }),
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    /// Whatever is sent, kept, dropped and forgotten: never more than the link carries, never more
    /// than was asked, and nothing is left in the end.
    #[test]
    fn what_senders_are_granted_fits_on_the_link(steps in steps()) {
        let (uplink, gate) = limited();
        let mut senders: Vec<_> = (0..8).map(|_| gate.sender()).collect();
        let (mut now_ns, mut sent, mut is_collected) = (0, 0, false);
        for step in steps {
            match step {
                Step::Send { which, bytes, taken, due_ms } => {
                    let number = which as u8 / 3;
                    // Nothing is due soon, which may be sent although the link is busy.
                    let who = due_ms.map_or(to(number), |ms| promised(number, now_ns + ms * MS));
                    match senders[which].may_send(bytes, &who, Waker::noop(), now_ns) {
                        MaySend::Bytes(granted) => {
                            prop_assert!(0 < granted && granted <= bytes);
                            senders[which].sent(taken.min(granted));
                            sent += taken.min(granted);
                        }
                        MaySend::Later { is_first } => {
                            prop_assert_ne!(is_first, is_collected, "one task collects");
                            is_collected = true;
                        }
                    }
                }
                Step::Drop { which } => senders[which] = gate.sender(),
                Step::Forget { which } => senders[which].forget_turn(),
                Step::Collect if is_collected => is_collected = gate.collect(now_ns).is_some(),
                Step::Collect => {}
                Step::Pass { ns } => now_ns += ns,
            }
            let carried = u128::from(GRANTED) * u128::from(now_ns + 2 * MS) / u128::from(SECOND);
            prop_assert!(u128::from(sent) <= carried + (16 << 10));
            let turns = gate.turns();
            let waiting = turns.by_number.values().filter(|turn| matches!(turn, Turn::Waits(..))).count();
            prop_assert_eq!(turns.waiting, waiting);
            prop_assert!(turns.by_number.len() <= senders.len());
        }
        drop(senders);
        let turns = gate.turns();
        prop_assert!(turns.by_number.is_empty() && turns.waiting == 0 && uplink.waiting() == 0);
    }
}
