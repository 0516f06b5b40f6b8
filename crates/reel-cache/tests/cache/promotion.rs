//! What the disks are told of reads under way, from any core: that a more urgent reader joins, or
//! that no reader waits any more.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use proptest::prelude::*;
use reel_cache::{Due, Fetcher, Reader, Units};
use reel_disk::{
    DiskBackend, DiskDone, DiskError, DiskRequest, DiskWork, Disks, MeasuredPrice, MemberFile, MemberStats,
    RequestId, Requester, SchedulerView,
};
use reel_fixture::{ArrivalSender, ClientBehaviour, Core, Ends, STRIPE_BYTES, VolumeFixture};
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, DiskPrice};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

/// Members that answer nothing until they are released.
struct Held {
    disks: Disks,
    waiting: Mutex<Vec<DiskRequest>>,
    /// Member, token, class and deadline.
    promoted: Mutex<Vec<(usize, u64, Class, u64)>>,
}

impl Held {
    fn new(fixture: &VolumeFixture) -> (Arc<Held>, Units) {
        let disks = fixture.volume.disks().clone();
        let held = Arc::new(Held { disks, waiting: Mutex::default(), promoted: Mutex::default() });
        let backend = Arc::clone(&held) as Disks;
        (held, Units::new(fixture.volume.arena().clone(), backend, fixture.health(), 8))
    }

    fn release(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        self.disks.submit_all(&mut waiting.into_iter());
    }

    /// All members but one are released.
    fn release_all_but(&self, kept: usize) {
        let keeps = |request: &mut DiskRequest| request.member != kept;
        self.disks.submit_all(&mut self.waiting.lock().unwrap().extract_if(.., keeps));
    }

    fn waiting(&self) -> Vec<(usize, u64)> {
        self.waiting.lock().unwrap().iter().map(|request| (request.member, request.token)).collect()
    }

    /// What was promoted since the last call, in the order of the members.
    fn promoted(&self) -> Vec<(usize, u64, Class, u64)> {
        let mut promoted = std::mem::take(&mut *self.promoted.lock().unwrap());
        promoted.sort_by_key(|&(member, token, ..)| (member, token));
        promoted
    }
}

impl DiskBackend for Held {
    fn submit_all(&self, requests: &mut dyn Iterator<Item = DiskRequest>) {
        self.waiting.lock().unwrap().extend(requests);
    }

    fn promote(&self, member: usize, id: RequestId, class: Class, deadline_ns: u64) {
        let waiting = self.waiting.lock().unwrap();
        let same = |request: &&DiskRequest| (request.member, request.id) == (member, id);
        let token = waiting.iter().find(same).expect("there is no such request").token;
        self.promoted.lock().unwrap().push((member, token, class, deadline_ns));
    }

    fn withdraw(&self, member: usize, id: RequestId) {
        let mut waiting = self.waiting.lock().unwrap();
        let same = |request: &DiskRequest| (request.member, request.id) == (member, id);
        let position = waiting.iter().position(same).expect("there is no such request");
        let DiskRequest { token, reply, work, .. } = waiting.remove(position);
        let DiskWork::Read { buffer, .. } = work else { panic!("no read") };
        let result = Err(DiskError::Withdrawn);
        reply.deliver(DiskDone { token, member, result, buffer: Some(buffer), queued_ns: 0, device_ns: 0 });
    }

    fn members(&self) -> usize {
        self.disks.members()
    }

    fn is_present(&self, member: usize) -> bool {
        self.disks.is_present(member)
    }

    fn stats(&self) -> Vec<MemberStats> {
        self.disks.stats()
    }

    fn views(&self) -> Vec<SchedulerView> {
        self.disks.views()
    }

    fn classes(&self) -> Arc<ClassTable> {
        self.disks.classes()
    }

    fn set_classes(&self, classes: Arc<ClassTable>) {
        self.disks.set_classes(classes);
    }

    fn price(&self, member: usize) -> DiskPrice {
        self.disks.price(member)
    }

    fn set_price(&self, member: usize, price: MeasuredPrice) {
        self.disks.set_price(member, price);
    }

    fn replace(&self, member: usize, file: MemberFile) -> Result<(), DiskError> {
        self.disks.replace(member, file)
    }

    fn stop(&self) -> Result<(), DiskError> {
        self.disks.stop()
    }
}

/// A viewer of the whole title.
fn watch(core: &mut Core, fixture: &VolumeFixture, class: Class, due_ns: u64) {
    core.watch_in_class(fixture.whole(0), fixture.bytes[0].clone(), class, due_ns);
    core.turn(ClientBehaviour::default(), &mut Ends::default());
}

/// A client with a hundred downloads gets no more turns than one with a single download, whichever
/// cores send them.
#[test]
fn all_downloads_of_a_client_wait_for_one_turn() {
    let lengths = [STRIPE_BYTES; 4];
    let fixture = VolumeFixture::new(&lengths, 8 << 20, None);
    let (held, units) = Held::new(&fixture);
    let requester_of = |title: usize, client: Option<&str>| {
        let mut fetcher = Fetcher::new(units.clone(), Arc::new(ArrivalSender(channel().0)));
        let client = client.map(|client| Requester::client(client.parse().unwrap()));
        let due = Due::After(DEADLINE_NONE_NS);
        let reader = Reader::new(fixture.whole(title), Class::APERIODIC, due, 7).on_behalf_of(client);
        reader.promised(None).fill(&mut fetcher, 0);
        let requesters: HashSet<Requester> =
            held.waiting.lock().unwrap().iter().map(|request| request.requester).collect();
        assert_eq!(requesters.len(), 1);
        requesters.into_iter().next().unwrap()
    };
    let one = requester_of(0, Some("192.0.2.1"));
    assert_eq!(requester_of(1, Some("192.0.2.1")), one);
    assert_ne!(requester_of(2, Some("192.0.2.2")), one);
    assert_ne!(requester_of(3, None), one, "a connection that has no client has turns of its own");
    let client = |address: &str| Requester::client(address.parse().unwrap());
    assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:2"), "one network");
    assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
    assert!(!client("2001:db8::1").is_maintenance());
}

#[test]
fn a_read_becomes_as_urgent_as_the_readers_that_join_it() {
    let fixture = VolumeFixture::new(&[STRIPE_BYTES], 8 << 20, None);
    let (held, units) = Held::new(&fixture);
    let (mut first, mut second) = (Core::new(&units, 1), Core::new(&units, 2));
    watch(&mut first, &fixture, Class::APERIODIC, DEADLINE_NONE_NS);
    let under_way = held.waiting();
    assert_eq!(under_way.len(), 3);
    // Joined from another core: with a more urgent class, then with an earlier deadline, then with
    // neither.
    watch(&mut second, &fixture, Class::PERIODIC, 5_000);
    let promoted = held.promoted();
    assert_eq!(promoted.len(), 3);
    for (member, token, class, deadline_ns) in promoted {
        assert!(under_way.contains(&(member, token)));
        assert_eq!((class, deadline_ns), (Class::PERIODIC, 5_000));
    }
    watch(&mut first, &fixture, Class::PERIODIC, 4_000);
    assert!(held.promoted().iter().all(|&(.., class, due_ns)| (class, due_ns) == (Class::PERIODIC, 4_000)));
    watch(&mut second, &fixture, Class::PERIODIC, 9_000);
    // Its deadline counts. Its class does not lower the urgency.
    watch(&mut second, &fixture, Class::INTERACTIVE, 4_500);
    assert_eq!(held.promoted(), []);
    assert_eq!(units.counters().promotions.load(Ordering::Relaxed), 6);
    // The read is read around by the deadline that its viewers have now, on the core that made it.
    first.turn(ClientBehaviour::default(), &mut Ends::default());
    assert_eq!(first.fetcher.next_due_ns(), Some(2_000));
    held.release();
    assert_eq!(first.play(ClientBehaviour::default()).complete, 2);
    assert_eq!(second.play(ClientBehaviour::default()).complete, 3);
    drop((first, second, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Readers join a read on any core: the disks know the most urgent class of all readers
    /// and the nearest of their deadlines, and no reader lowers them (Prism, section 6: a read of a
    /// high class must not wait as one of a low class).
    #[test]
    fn a_unit_is_read_in_the_most_urgent_class_that_awaits_it(
        readers in proptest::collection::vec((0_usize..3, 1_000_u64..1_000_000, any::<bool>()), 1..7),
    ) {
        let fixture = VolumeFixture::new(&[STRIPE_BYTES], 8 << 20, None);
        let (held, units) = Held::new(&fixture);
        let classes = held.classes();
        let mut cores = [Core::new(&units, 1), Core::new(&units, 2)];
        let mut told: BTreeMap<(usize, u64), (Class, u64)> = BTreeMap::new();
        let (mut wanted, begins): (Option<(Class, u64)>, bool) = (None, readers[0].2);
        for (class, due_ns, second) in readers {
            let class = [Class::PERIODIC, Class::INTERACTIVE, Class::APERIODIC][class];
            watch(&mut cores[usize::from(second)], &fixture, class, due_ns);
            for request in held.waiting.lock().unwrap().iter() {
                told.entry((request.member, request.token)).or_insert((request.class, request.deadline_ns));
            }
            for (member, token, class, deadline_ns) in held.promoted() {
                told.insert((member, token), (class, deadline_ns));
            }
            wanted = Some(wanted.map_or((class, due_ns), |(before, before_ns)| {
                let is_higher = classes.kind(class) < classes.kind(before);
                (if is_higher { class } else { before }, before_ns.min(due_ns))
            }));
            prop_assert_eq!(told.len(), 3, "each row is read once");
            prop_assert!(told.values().all(|told| Some(*told) == wanted), "{told:?}, not {wanted:?}");
        }
        held.release();
        // The core that began the reads takes their answers.
        for second in [begins, !begins] {
            cores[usize::from(second)].play(ClientBehaviour::default());
        }
    }
}

#[test]
fn the_sources_of_a_unit_become_as_urgent_as_the_unit() {
    let fixture = VolumeFixture::new(&[STRIPE_BYTES], 8 << 20, Some(1));
    let (held, units) = Held::new(&fixture);
    let (mut first, mut second) = (Core::new(&units, 1), Core::new(&units, 2));
    let lost = (0..3).find(|&position| fixture.objects[0].unit_at(0, position).0 == 1).unwrap();
    let body = |position: usize| {
        let from = position * 4_000;
        let part =
            reel_cache::Part::Object(Arc::clone(&fixture.objects[0]), from as u64..from as u64 + 4_000);
        (reel_cache::Body::new([part]), fixture.bytes[0][from..from + 4_000].to_vec())
    };
    let (wanted, expected) = body(lost);
    first.watch_in_class(wanted, expected, Class::APERIODIC, DEADLINE_NONE_NS);
    first.turn(ClientBehaviour::default(), &mut Ends::default());
    assert_eq!(held.waiting().len(), 3, "all others of the stripe");
    let (wanted, expected) = body(lost);
    second.watch_in_class(wanted, expected, Class::INTERACTIVE, 7_000);
    second.turn(ClientBehaviour::default(), &mut Ends::default());
    let promoted = held.promoted();
    assert_eq!(promoted.len(), 3);
    assert!(promoted.iter().all(|&(.., class, due_ns)| (class, due_ns) == (Class::INTERACTIVE, 7_000)));
    held.release();
    assert_eq!(first.play(ClientBehaviour::default()).complete, 1);
    assert_eq!(second.play(ClientBehaviour::default()).complete, 1);
    drop((first, second, units));
    assert_eq!(fixture.buffers_taken(), 0);
}

#[test]
fn a_request_is_withdrawn_from_a_member_when_others_have_given_the_unit() {
    let fixture = VolumeFixture::new(&[STRIPE_BYTES], 8 << 20, None);
    let (held, units) = Held::new(&fixture);
    let mut core = Core::new(&units, 1);
    let (slow, _) = fixture.objects[0].unit_at(0, 1);
    watch(&mut core, &fixture, Class::PERIODIC, 400_000_000);
    held.release_all_but(slow);
    core.wait_until(ClientBehaviour::default(), |core| core.fetcher.in_flight() == 1);
    core.now_ns = 200_000_000;
    core.turn(ClientBehaviour::default(), &mut Ends::default());
    assert_eq!(units.counters().read_around.load(Ordering::Relaxed), 1);
    core.wait_until(ClientBehaviour::default(), |_| {
        held.release_all_but(slow);
        held.waiting().is_empty()
    });
    assert_eq!(core.play(ClientBehaviour::default()).complete, 1);
    core.wait_until(ClientBehaviour::default(), |_| units.budget().reserved() == 0);
    assert_eq!(units.counters().withdrawn.load(Ordering::Relaxed), 1, "no reader would have used the answer");
    assert_eq!(core.fetcher.next_due_ns(), None, "no request is outstanding");
    drop((core, units));
    assert_eq!(fixture.buffers_taken(), 0);
}
