//! What the disks are told of reads under way, from any core: that a more urgent reader joins, or
//! that no reader waits any more.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

use reel_cache::Units;
use reel_disk::{
    DiskBackend, DiskDone, DiskError, DiskRequest, DiskWork, Disks, MemberFile, MemberStats, RequestId,
    SchedulerView,
};
use reel_fixture::{ClientBehaviour, Core, Ends, STRIPE_BYTES, VolumeFixture};
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, DiskPrice};
use std::sync::atomic::Ordering;
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

    fn set_price(&self, member: usize, price: DiskPrice) {
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
