//! How many buffers of the arena each reader may hold. Readers never wait for each other in a
//! cycle, and a reader with promised memory never waits for a reader without.
//!
//! ```text
//!   total  |== kept ==|======== promised ========|==== left over ====|
//!                     |drawn by readers|  lent   |  the unpromised   |
//! ```
//! - A reader that starts a stripe first reserves every buffer it may need for it, in one step. The
//!   sum of all reservations is at most the number of buffers. Buffers that only the table of
//!   shared units holds can be taken back at any time. So a reader with a reservation always gets
//!   its buffers.
//! - **Promised** ([`PromisedBuffers`]): what the ledger promised a session. Its readers draw from
//!   that, and come before all others.
//! - **Left over**: readers without a promise share what is beyond all promises. At least a fixed
//!   part is not promised to any session, so promises keep no reader waiting for ever.
//! - **Lent**: what is promised and not drawn is lent to readers that read ahead for viewers, or
//!   around a slow member. They read by deadline, and give the buffers back when the session needs
//!   them. Nothing is lent to readers without a promise: a download may wait long for a disk, and a
//!   buffer with an outstanding disk request cannot be given back.
//! - **Kept** ([`KeptBuffers`]): memory that no reader gets, whatever it was promised. It holds
//!   what stays in the table for sessions that follow another one.
//!
//! A reader that finds too few buffers waits in the queue, and no reader takes what the readers
//! before it wait for. Otherwise a reader that needs much would wait for ever beside readers that
//! give a stripe back and take the next one at once.

use crate::limits::{LEFT_OVER_PART, RUNS_FREE_PART};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The buffers that all readers together may hold.
#[derive(Clone, Debug)]
pub struct Budget {
    inner: Arc<Inner>,
}

/// A number of buffers that is promised to one viewer, until dropped. Reservations made through it
/// come before all others.
#[derive(Debug)]
pub struct PromisedBuffers {
    inner: Arc<Inner>,
    id: u64,
}

/// A number of buffers that no reader can reserve, until dropped.
#[derive(Debug)]
pub struct KeptBuffers {
    inner: Arc<Inner>,
    buffers: usize,
}

/// A right to a number of buffers. It is given back when dropped.
///
/// Reads that were begun with it share it until they are answered
/// (`Reservation::lend_until_answered`). A buffer with an outstanding disk request cannot be used
/// for anything else, even if no reader waits for it any more.
#[derive(Debug)]
pub struct Reservation {
    inner: Arc<Inner>,
    held: Mutex<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    holder: Holder,
    buffers: usize,
}

/// A position in the queue of readers that wait for memory. Readers with a promise come first.
/// Among equals the order is that of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    is_unpromised: bool,
    number: u64,
}

/// A position in the queue, until dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    inner: Arc<Inner>,
    position: QueuePosition,
}

#[derive(Debug)]
struct Inner {
    total: usize,
    left_over_min: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: usize,
    /// The sum of all promises.
    promised: usize,
    promises: HashMap<u64, Promise>,
    drawn: usize,
    lent: usize,
    unpromised: usize,
    /// How many buffers each waiting reader needs.
    queue: BTreeMap<QueuePosition, usize>,
    next: u64,
}

#[derive(Debug)]
struct Promise {
    buffers: usize,
    drawn: usize,
    /// The viewer is gone. What was drawn still has to come back.
    is_over: bool,
}

/// The account that a reservation belongs to.
#[derive(Clone, Copy, Debug)]
enum Holder {
    Promise(u64),
    Lent,
    Unpromised,
}

impl Budget {
    /// A budget of `total` buffers. At least `left_over_min` of them are not promised to any
    /// viewer: as many as one reader may need at once.
    pub fn new(total: usize, left_over_min: usize) -> Self {
        let left_over_min = left_over_min.max(total / LEFT_OVER_PART).min(total / 2);
        Self { inner: Arc::new(Inner { total, left_over_min, state: Mutex::default() }) }
    }

    /// Whether a thread panicked while it changed the budget.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.inner.state.is_poisoned()
    }

    /// Promises `buffers` to a viewer. The ledger makes sure that so many exist
    /// ([`Budget::promisable`]). The budget makes sure that they can be drawn.
    pub fn promise(&self, buffers: usize) -> PromisedBuffers {
        let mut state = self.inner.lock();
        let id = state.next();
        state.promises.insert(id, Promise { buffers: 0, drawn: 0, is_over: false });
        drop(state);
        let promised = PromisedBuffers { inner: Arc::clone(&self.inner), id };
        promised.set(buffers);
        promised
    }

    /// Keeps `buffers` from all readers from now on. `None` if readers hold so much that they are
    /// not free now.
    ///
    /// This is for memory that stays in the table of shared units because a follower's reservation
    /// depends on it. What is kept counts like what is promised: both together are at most
    /// [`Budget::promisable`].
    pub fn keep(&self, buffers: usize) -> Option<KeptBuffers> {
        let mut kept = KeptBuffers { inner: Arc::clone(&self.inner), buffers: 0 };
        kept.set(buffers).then_some(kept)
    }

    /// `buffers` for a reader without a promise: all of them, or `None` if too few are left over or
    /// other readers wait for them.
    pub fn reserve(&self, buffers: usize) -> Option<Reservation> {
        let mut state = self.inner.lock();
        self.inner.grant(&mut state, Holder::Unpromised, None, buffers)
    }

    /// `buffers` that are free and that no reader waits for, to read ahead for a viewer or around a
    /// member. They are to be given back when other readers need them.
    pub(crate) fn lend(&self, buffers: usize) -> Option<Reservation> {
        let mut state = self.inner.lock();
        self.inner.grant(&mut state, Holder::Lent, None, buffers)
    }

    /// `buffers` for the first stripe of a reader: from the promise to its viewer, or else from
    /// what is left over. If there are too few now, the reader waits in the queue, in `waiting`,
    /// and calls this again.
    pub(crate) fn reserve_first(
        &self,
        promised: Option<&PromisedBuffers>,
        waiting: &mut Option<Waiting>,
        buffers: usize,
    ) -> Option<Reservation> {
        let promised = promised.filter(|promised| promised.covers(buffers));
        if waiting.as_ref().is_some_and(|waiting| waiting.position.is_unpromised != promised.is_none()) {
            // The promise has grown or shrunk in the meantime.
            *waiting = None;
        }
        let holder = promised.map_or(Holder::Unpromised, |promised| Holder::Promise(promised.id));
        let mut state = self.inner.lock();
        let position = waiting.as_ref().map(|waiting| waiting.position);
        let reservation = self.inner.grant(&mut state, holder, position, buffers);
        if reservation.is_none() {
            let is_unpromised = promised.is_none();
            let position = position.unwrap_or_else(|| QueuePosition { is_unpromised, number: state.next() });
            state.queue.insert(position, buffers);
            waiting.get_or_insert_with(|| Waiting { inner: Arc::clone(&self.inner), position });
        }
        drop(state);
        if reservation.is_some() {
            *waiting = None;
        }
        reservation
    }

    /// Buffers that are reserved now.
    pub fn reserved(&self) -> usize {
        self.inner.lock().reserved()
    }

    /// Buffers that are kept from all readers now.
    pub fn kept(&self) -> usize {
        self.inner.lock().kept
    }

    /// Buffers that are promised now, drawn or not.
    pub fn promised(&self) -> usize {
        self.inner.lock().promised
    }

    /// Buffers that readers without a promise hold now.
    pub fn unpromised(&self) -> usize {
        self.inner.lock().unpromised
    }

    /// Buffers that can be reserved in all.
    pub fn total(&self) -> usize {
        self.inner.total
    }

    /// Buffers that may be promised and kept together. The others are for readers without a
    /// promise.
    pub fn promisable(&self) -> usize {
        self.inner.total - self.inner.left_over_min
    }

    /// Readers that wait for memory now.
    pub fn waiting_readers(&self) -> usize {
        self.inner.lock().queue.len()
    }

    /// Buffers that the waiting readers could have if they were free.
    pub fn missing(&self) -> usize {
        let state = self.inner.lock();
        self.inner.wanted(&state).saturating_sub(self.inner.free(&state))
    }

    /// Whether a waiting reader is helped if this reader gives memory back that it holds only
    /// early, or for a client that takes nothing. A reader with a promise does not help readers
    /// that wait until others without a promise give buffers back.
    pub fn is_helped_by(&self, is_promised: bool) -> bool {
        self.missing() > 0 || !is_promised && self.is_left_over_short()
    }

    /// Whether readers without a promise wait for buffers that others without a promise hold.
    fn is_left_over_short(&self) -> bool {
        let state = self.inner.lock();
        let first = state.queue.iter().find(|(position, _)| position.is_unpromised);
        first.is_some_and(|(_, buffers)| !self.inner.is_left_over(&state, *buffers))
    }

    /// Whether `buffers` more leave enough for readers that have to start. Reading ahead must not
    /// take memory from those.
    pub(crate) fn is_plentiful(&self, buffers: usize) -> bool {
        let state = self.inner.lock();
        let total = self.inner.total;
        self.inner.wanted(&state) == 0 && (state.kept + state.reserved() + buffers) * 16 <= total * 15
    }

    /// Whether `buffers` more leave as much free as long runs have to leave.
    pub(crate) fn is_ample(&self, buffers: usize) -> bool {
        let state = self.inner.lock();
        let most = self.inner.total - self.inner.total / RUNS_FREE_PART;
        self.inner.wanted(&state) == 0 && state.kept + state.reserved() + buffers <= most
    }
}

impl PromisedBuffers {
    /// Changes the promise to `buffers` from now on. What was drawn beyond that comes back when its
    /// readers are done.
    pub fn set(&self, buffers: usize) {
        // More than `total` can never be drawn, and sums must not overflow.
        let buffers = buffers.min(self.inner.total);
        let mut state = self.inner.lock();
        let Some(promise) = state.promises.get_mut(&self.id) else { return };
        let before = std::mem::replace(&mut promise.buffers, buffers);
        state.promised = state.promised - before + buffers;
    }

    /// How many buffers are promised.
    pub fn buffers(&self) -> usize {
        self.inner.lock().promises.get(&self.id).map_or(0, |promise| promise.buffers)
    }

    /// `buffers` of the promise now. `None` if that is more than is left of it, or if readers
    /// before this one wait for buffers that were lent.
    pub(crate) fn draw(&self, buffers: usize) -> Option<Reservation> {
        let mut state = self.inner.lock();
        self.inner.grant(&mut state, Holder::Promise(self.id), None, buffers)
    }

    fn covers(&self, buffers: usize) -> bool {
        self.inner.lock().promises.get(&self.id).is_some_and(|promise| promise.covers(buffers))
    }
}

impl KeptBuffers {
    /// Keeps `buffers` from now on. Keeping fewer always works. Keeping more fails while readers
    /// hold them: then nothing changes, and the result is `false`.
    pub fn set(&mut self, buffers: usize) -> bool {
        let mut state = self.inner.lock();
        let more = buffers.saturating_sub(self.buffers);
        if more > 0 && more > self.inner.free(&state) {
            return false;
        }
        state.kept = state.kept - self.buffers + buffers;
        self.buffers = buffers;
        true
    }

    /// How many buffers are kept.
    pub fn buffers(&self) -> usize {
        self.buffers
    }
}

impl Waiting {
    pub(crate) fn position(&self) -> QueuePosition {
        self.position
    }
}

impl Inner {
    /// `buffers` on that account, if there are so many beyond what earlier readers wait for: those
    /// before `position`, or all that wait now.
    fn grant(
        self: &Arc<Self>,
        state: &mut State,
        holder: Holder,
        position: Option<QueuePosition>,
        buffers: usize,
    ) -> Option<Reservation> {
        let (before, is_allowed) = match holder {
            Holder::Promise(id) => {
                let position = position.unwrap_or(QueuePosition { is_unpromised: true, number: 0 });
                let is_promised = state.promises.get(&id).is_some_and(|promise| promise.covers(buffers));
                // Readers without a promise keep their part even if more was promised than there
                // is.
                let most = self.total.saturating_sub(state.kept + self.left_over_min);
                (state.waits_before(position), is_promised && state.drawn + buffers <= most)
            }
            Holder::Lent => (self.wanted(state), true),
            Holder::Unpromised => {
                let position = position.unwrap_or(QueuePosition { is_unpromised: true, number: u64::MAX });
                let first = QueuePosition { is_unpromised: true, number: 0 };
                let earlier: usize = state.queue.range(first..position).map(|(_, buffers)| buffers).sum();
                (state.waits_before(position), self.is_left_over(state, earlier + buffers))
            }
        };
        if !is_allowed || before + buffers > self.free(state) {
            return None;
        }
        *state.account(holder) += buffers;
        if let Holder::Promise(id) = holder
            && let Some(promise) = state.promises.get_mut(&id)
        {
            promise.drawn += buffers;
        }
        Some(Reservation { inner: Arc::clone(self), held: Mutex::new(Held { holder, buffers }) })
    }

    fn free(&self, state: &State) -> usize {
        self.total.saturating_sub(state.kept + state.reserved())
    }

    /// Whether readers without a promise may hold `buffers` more.
    fn is_left_over(&self, state: &State, buffers: usize) -> bool {
        let beyond = self.total.saturating_sub(state.kept + state.promised.max(state.drawn));
        state.unpromised + buffers <= beyond.max(self.left_over_min)
    }

    /// What the waiting readers may have as soon as it is free: all readers with a promise, and as
    /// many of the others as fit into what is left over.
    fn wanted(&self, state: &State) -> usize {
        let (mut wanted, mut unpromised) = (0, 0);
        for (position, buffers) in &state.queue {
            if position.is_unpromised {
                unpromised += buffers;
                if !self.is_left_over(state, unpromised) {
                    break;
                }
            }
            wanted += buffers;
        }
        wanted
    }

    fn give_back(&self, holder: Holder, buffers: usize) {
        self.lock().take_back(holder, buffers);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under this lock panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn reserved(&self) -> usize {
        self.drawn + self.lent + self.unpromised
    }

    fn account(&mut self, holder: Holder) -> &mut usize {
        match holder {
            Holder::Promise(_) => &mut self.drawn,
            Holder::Lent => &mut self.lent,
            Holder::Unpromised => &mut self.unpromised,
        }
    }

    fn take_back(&mut self, holder: Holder, buffers: usize) {
        *self.account(holder) -= buffers;
        if let Holder::Promise(id) = holder
            && let Some(promise) = self.promises.get_mut(&id)
        {
            promise.drawn -= buffers;
            if promise.is_over && promise.drawn == 0 {
                self.promises.remove(&id);
            }
        }
    }

    fn waits_before(&self, position: QueuePosition) -> usize {
        self.queue.range(..position).map(|(_, buffers)| buffers).sum()
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Promise {
    fn covers(&self, buffers: usize) -> bool {
        !self.is_over && self.drawn + buffers <= self.buffers
    }
}

impl Reservation {
    /// How many buffers the reservation gives the right to.
    pub(crate) fn buffers(&self) -> usize {
        self.held().buffers
    }

    /// Whether it belongs to a promise to a viewer.
    pub(crate) fn is_promised(&self) -> bool {
        matches!(self.held().holder, Holder::Promise(_))
    }

    /// Gives some of the buffers back before the rest.
    pub fn give_back(&self, buffers: usize) {
        let mut held = self.held();
        let buffers = buffers.min(held.buffers);
        held.buffers -= buffers;
        self.inner.give_back(held.holder, buffers);
    }

    /// The reader that made it does not need the buffers any more. Disk requests for `owed` of them
    /// are outstanding. Those buffers stay reserved until the reads are answered and have dropped
    /// it, too. They do not stay on the account of a promise: its viewer is about to request other
    /// bytes.
    pub(crate) fn lend_until_answered(&self, owed: usize) {
        self.give_back(self.buffers().saturating_sub(owed));
        let mut held = self.held();
        if let Holder::Promise(_) = held.holder {
            let mut state = self.inner.lock();
            state.take_back(held.holder, held.buffers);
            state.lent += held.buffers;
            held.holder = Holder::Lent;
        }
    }

    /// A part of it as a reservation of its own, on the same account.
    pub(crate) fn split(&self, buffers: usize) -> Reservation {
        let mut held = self.held();
        let buffers = buffers.min(held.buffers);
        held.buffers -= buffers;
        let part = Held { buffers, ..*held };
        Reservation { inner: Arc::clone(&self.inner), held: Mutex::new(part) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // No code under this lock panics half-way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back(usize::MAX);
    }
}

impl Drop for PromisedBuffers {
    fn drop(&mut self) {
        self.set(0);
        let mut state = self.inner.lock();
        if let Some(promise) = state.promises.get_mut(&self.id) {
            promise.is_over = true;
            if promise.drawn == 0 {
                state.promises.remove(&self.id);
            }
        }
    }
}

impl Drop for KeptBuffers {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.inner.lock().queue.remove(&self.position);
    }
}

#[cfg(test)]
mod tests;
