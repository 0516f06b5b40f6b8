//! Members whose disks may sleep are woken together, before a viewer needs them one after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use reel_disk::limits::{IDLE_NS, WAKE_MAX_NS};
use reel_disk::{DiskDone, DiskRequest, DiskWork, MemberActivity, Reply, RequestId, Requester};
use reel_qos::{Class, DEADLINE_NONE_NS};

use crate::access::Access;
use crate::health::Health;
use crate::limits::{BLOCK_BYTES, WAKE_EVERY_NS, WAKE_LOOK_NS};
use crate::superblock::Superblock;

/// Why members are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeOccasion {
    /// A title is opened: its reads follow.
    Open,
    /// A person looks at the list of titles, and may open one soon. A page that asks for the list
    /// repeatedly counts once: it may stay open for days.
    Look,
}

/// When members are woken.
#[derive(Clone, Copy, Debug, Default)]
struct Occasions {
    looked_ns: Option<u64>,
    woke_ns: Option<u64>,
}

/// Wakes the members of a volume.
pub(crate) struct Waker {
    occasions: Mutex<Occasions>,
    /// When each member was sent the read that wakes it; 0 if there is no such read under way.
    waiting: Arc<Vec<AtomicU64>>,
}

/// Takes the answer to the read that wakes a member.
struct Woken {
    waiting: Arc<Vec<AtomicU64>>,
    health: Health,
}

impl Occasions {
    /// Whether idle members are to be woken now.
    fn take(&mut self, occasion: WakeOccasion, now_ns: u64) -> bool {
        let is_within = |since_ns: Option<u64>, ns| since_ns.is_some_and(|at_ns| now_ns < at_ns + ns);
        let is_repeated = occasion == WakeOccasion::Look && is_within(self.looked_ns, IDLE_NS);
        if occasion == WakeOccasion::Look {
            self.looked_ns = Some(now_ns);
        }
        if is_repeated || is_within(self.woke_ns, WAKE_EVERY_NS) {
            return false;
        }
        self.woke_ns = Some(now_ns);
        true
    }
}

impl Waker {
    pub(crate) fn new(members: usize) -> Waker {
        let waiting = (0..members).map(|_| AtomicU64::new(0)).collect();
        Waker { occasions: Mutex::default(), waiting: Arc::new(waiting) }
    }

    /// Sends a small read to every idle member that is in use.
    pub(crate) fn wake(&self, access: &Access, superblock: &Superblock, occasion: WakeOccasion) {
        let idle = |member: &usize| access.disks.activity(*member) == MemberActivity::Idle;
        let in_use = (0..self.waiting.len()).filter(|member| access.health.readable(*member));
        let idle: Vec<usize> = in_use.filter(idle).collect();
        let now_ns = access.waits.now_ns();
        let mut occasions = self.occasions.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked in any case: a list that is looked at while members are awake was looked at.
        if !occasions.take(occasion, now_ns) || idle.is_empty() {
            return;
        }
        drop(occasions);
        let requester = Requester::new();
        for member in idle {
            self.wake_one(access, superblock, (member, requester), now_ns);
        }
    }

    fn wake_one(
        &self,
        access: &Access,
        superblock: &Superblock,
        (member, requester): (usize, Requester),
        now_ns: u64,
    ) {
        // Without free memory, reads are under way that wake the member.
        let Some(buffer) = access.arena.take(BLOCK_BYTES) else { return };
        let waiting = &self.waiting[member];
        if waiting.compare_exchange(0, now_ns.max(1), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        let offset = place(superblock, now_ns.wrapping_add(member as u64));
        access.disks.submit(DiskRequest {
            id: RequestId::new(),
            member,
            class: Class::INTERACTIVE,
            requester,
            deadline_ns: DEADLINE_NONE_NS,
            work: DiskWork::Read { offset, bytes: BLOCK_BYTES, buffer },
            token: 0,
            reply: Arc::new(Woken { waiting: Arc::clone(&self.waiting), health: access.health.clone() }),
        });
    }

    /// Members in use that have been woken and may still spin up.
    pub(crate) fn waking(&self, access: &Access) -> Vec<usize> {
        let now_ns = access.waits.now_ns();
        let spins_up = |member: &usize| {
            let since_ns = self.waiting[*member].load(Ordering::Acquire);
            let is_woken = since_ns > 0 && now_ns < since_ns.saturating_add(WAKE_MAX_NS);
            is_woken || access.disks.activity(*member) == MemberActivity::Waking
        };
        let in_use = (0..self.waiting.len()).filter(|member| access.health.readable(*member));
        in_use.filter(spins_up).collect()
    }

    /// Waits until no more members spin up than the others can be read without.
    pub(crate) fn await_awake(&self, access: &Access) {
        let until_ns = access.waits.now_ns().saturating_add(WAKE_MAX_NS);
        while self.waking(access).len() > spared(&access.health)
            && access.waits.now_ns() < until_ns
            && access.waits.sleep_ns(WAKE_LOOK_NS)
        {}
    }
}

/// How many more members the others can be read without.
pub(crate) fn spared(health: &Health) -> usize {
    health.tolerated().saturating_sub(health.lost())
}

/// A block that a disk does not have in its own memory: a sleeping disk would answer that without
/// waking.
fn place(superblock: &Superblock, seed: u64) -> u64 {
    // Fibonacci hashing: the upper bits depend on all bits of the seed.
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    superblock.data_offset + mixed % superblock.units().max(1) * superblock.geometry.unit_bytes() as u64
}

impl Reply for Woken {
    fn deliver(&self, done: DiskDone) {
        self.health.answered(done.member);
        if let Some(waiting) = self.waiting.get(done.member) {
            waiting.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_stays_open_wakes_members_once() {
        let mut occasions = Occasions::default();
        let looks = |occasions: &mut Occasions, at_ns| occasions.take(WakeOccasion::Look, at_ns);
        assert!(looks(&mut occasions, 10));
        for minute in 1..1000 {
            assert!(!looks(&mut occasions, 10 + minute * IDLE_NS / 2), "it asks each minute");
        }
        assert!(looks(&mut occasions, 10 + 999 * IDLE_NS / 2 + IDLE_NS), "another look");
    }

    #[test]
    fn opening_a_title_wakes_members_at_once_and_of_a_crowd_one_does() {
        let mut occasions = Occasions::default();
        assert!(occasions.take(WakeOccasion::Look, 5));
        assert!(!occasions.take(WakeOccasion::Open, 4 + WAKE_EVERY_NS));
        assert!(occasions.take(WakeOccasion::Open, 5 + WAKE_EVERY_NS));
        assert!(!occasions.take(WakeOccasion::Open, 6 + WAKE_EVERY_NS));
        assert!(occasions.take(WakeOccasion::Open, 5 + 2 * WAKE_EVERY_NS));
    }
}
