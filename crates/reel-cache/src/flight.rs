//! A unit read under way, as other cores see it: how urgent it is, and its requests to the disks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reel_disk::{DiskRequest, DiskWork, Disks, Reply, RequestId, Requester};
use reel_qos::Class;
use reel_volume::UnitRows;

use crate::arrival::{Arrival, Inbox, Outbox};
use crate::unit::UnitKey;

/// The low bits of a disk token name the fetch within its read.
pub(crate) const FETCH_BITS: u32 = 8;

/// A unit read, shared by the core that makes it and those that join it.
pub(crate) struct Flight {
    id: u64,
    requester: Requester,
    reply: Arc<dyn Reply>,
    /// The inbox of the thread that makes the read.
    inbox: Arc<dyn Inbox>,
    state: Mutex<State>,
}

struct State {
    class: Class,
    deadline_ns: u64,
    /// Requests to the disks.
    requests: Vec<Pending>,
    /// Units of the table that it is computed from.
    sources: Vec<UnitKey>,
}

/// A request to the disks.
#[derive(Clone, Copy)]
struct Pending {
    member: usize,
    token: u64,
    id: RequestId,
}

/// Holds rows of one unit until the core that computes another unit from them takes them.
#[derive(Default)]
pub(crate) struct Source(Mutex<Option<UnitRows>>);

impl Flight {
    /// A read with the number `id` on its thread, on behalf of `requester`. Answers of the disks go
    /// to `reply`, all other arrivals to `inbox`.
    pub(crate) fn new(
        id: u64,
        requester: Requester,
        (reply, inbox): (Arc<dyn Reply>, Arc<dyn Inbox>),
        class: Class,
        deadline_ns: u64,
    ) -> Arc<Self> {
        let state = State { class, deadline_ns, requests: Vec::new(), sources: Vec::new() };
        Arc::new(Self { id, requester, reply, inbox, state: Mutex::new(state) })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The token of one fetch of it for the disks.
    pub(crate) fn token(&self, index: usize) -> u64 {
        self.id << FETCH_BITS | index as u64
    }

    /// The requester on whose behalf it was begun.
    pub(crate) fn requester(&self) -> Requester {
        self.requester
    }

    pub(crate) fn urgency(&self) -> (Class, u64) {
        let state = self.lock();
        (state.class, state.deadline_ns)
    }

    /// Gives a request to the disks, with the urgency that the read has by now.
    pub(crate) fn submit(&self, disks: &Disks, member: usize, index: usize, work: DiskWork) {
        let (id, token) = (RequestId::new(), self.token(index));
        let mut state = self.lock();
        state.requests.push(Pending { member, token, id });
        let (class, deadline_ns) = (state.class, state.deadline_ns);
        let (requester, reply) = (self.requester, Arc::clone(&self.reply));
        // Under the lock, so that a thread that promotes the read either changes the urgency before
        // it is used here, or finds the request in the list.
        disks.submit(DiskRequest { id, member, class, requester, deadline_ns, work, token, reply });
    }

    /// A request was answered.
    pub(crate) fn answered(&self, token: u64) {
        self.lock().requests.retain(|other| other.token != token);
    }

    /// Tokens of the requests that were not answered yet.
    pub(crate) fn requests(&self) -> Vec<u64> {
        self.lock().requests.iter().map(|request| request.token).collect()
    }

    /// No reader waits for its requests any more.
    pub(crate) fn withdraw(&self, disks: &Disks) {
        // Not under the lock: a simulated member answers at once.
        let requests = self.lock().requests.clone();
        for Pending { member, id, .. } in requests {
            disks.withdraw(member, id);
        }
    }

    /// The read is computed from this unit of the table.
    pub(crate) fn add_source(&self, key: UnitKey) {
        self.lock().sources.push(key);
    }

    /// Raises the urgency of the read to this one, and returns its sources. `None` if it was as
    /// urgent already.
    pub(crate) fn promote(
        &self,
        disks: &Disks,
        (class, deadline_ns): (Class, u64),
        outbox: &mut Outbox,
    ) -> Option<Vec<UnitKey>> {
        let classes = disks.classes();
        let mut state = self.lock();
        let higher = classes.kind(class) < classes.kind(state.class);
        if !higher && deadline_ns >= state.deadline_ns {
            return None;
        }
        if higher {
            state.class = class;
        }
        state.deadline_ns = state.deadline_ns.min(deadline_ns);
        for &Pending { member, id, .. } in &state.requests {
            disks.promote(member, id, state.class, state.deadline_ns);
        }
        let sources = state.sources.clone();
        drop(state);
        outbox.post(&self.inbox, Arrival::Raised { read: self.id });
        Some(sources)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic elsewhere, the worst case is a request that is promoted without need.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source {
    pub(crate) fn put(&self, rows: Option<UnitRows>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }

    pub(crate) fn take(&self) -> Option<UnitRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
