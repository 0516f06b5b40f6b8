//! Transfers of all cores taking turns: downloads, for which nobody waits at a fixed time.
//!
//! [`Turns`] decides; here is what the cores share of it, and one transfer's side. A reader asks for its next turn when it has half
//! a run left, so that its run is read while others have theirs; who lets his run lie asks for none.

use crate::turns::{Run, RunSource, TransferId, Turns};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tells a core that it is a connection's turn; called on any thread.
pub trait Wake: Send + Sync {
    /// It is the turn of `connection`: call [`Reader::fill`](crate::Reader::fill).
    fn turn(&self, connection: u64);
}

/// The transfers of a server; cheap to clone.
#[derive(Clone, Debug)]
pub struct Transfers {
    inner: Arc<Mutex<Inner>>,
}

/// How transfers stand, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransfersView {
    /// Transfers that take turns.
    pub transfers: usize,
    /// What a turn is now.
    pub run: Run,
    /// Turns given so far.
    pub turns: u64,
}

/// One transfer among them, for as long as it lives.
pub struct Transfer {
    shared: Transfers,
    id: TransferId,
    /// Whether it waits for its turn.
    asked: bool,
    /// What is left to plan of the turn it has.
    left_bytes: u64,
    /// What it has planned of that.
    planned_bytes: u64,
    /// Its turns that are not over, the oldest first.
    under_way: VecDeque<UnderWay>,
    next_turn: u64,
}

/// The number of a turn of one transfer.
pub(crate) type Turn = u64;

struct UnderWay {
    turn: Turn,
    missing_units: usize,
    /// Whether all of it was asked for.
    whole: bool,
}

struct Inner {
    turns: Turns,
    /// How each is told, and by which connection.
    wakes: BTreeMap<TransferId, (Arc<dyn Wake>, u64)>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.turns.fmt(formatter)
    }
}

impl Default for Transfers {
    fn default() -> Self {
        let inner = Inner { turns: Turns::new(), wakes: BTreeMap::new() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }
}

impl Transfers {
    /// A transfer to `connection`, whose core is told by `wake` when it is its turn.
    pub fn join(&self, connection: u64, wake: Arc<dyn Wake>) -> Transfer {
        let mut inner = self.lock();
        let id = inner.turns.join();
        inner.wakes.insert(id, (wake, connection));
        drop(inner);
        Transfer {
            shared: self.clone(),
            id,
            asked: false,
            left_bytes: 0,
            planned_bytes: 0,
            under_way: VecDeque::new(),
            next_turn: 0,
        }
    }

    /// How they stand.
    pub fn view(&self) -> TransfersView {
        let inner = self.lock();
        TransfersView { transfers: inner.turns.len(), run: inner.turns.run(), turns: inner.turns.given() }
    }

    /// Changes something, gives the turns that may begin then, and tells all who get one but `asker`, who looks himself.
    fn change(&self, asker: Option<TransferId>, change: impl FnOnce(&mut Turns)) {
        let mut inner = self.lock();
        change(&mut inner.turns);
        let mut woken = Vec::new();
        while let Some(id) = inner.turns.next() {
            woken.extend(inner.wakes.get(&id).filter(|_| Some(id) != asker).cloned());
        }
        drop(inner);
        woken.iter().for_each(|(wake, connection)| wake.turn(*connection));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing here panics half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transfer {
    /// What it may plan now, in bytes. Who has less than half a run ahead of his client asks for the next turn, if he has none. `source` is
    /// what a run is chosen from, for so many transfers; `None` leaves runs as they are.
    pub(crate) fn may_plan(
        &mut self,
        ahead_bytes: u64,
        source: impl FnOnce(u64) -> Option<RunSource>,
    ) -> u64 {
        if self.left_bytes > 0 {
            return self.left_bytes;
        }
        if !self.asked {
            let (run, transfers) = {
                let inner = self.shared.lock();
                (inner.turns.run(), inner.turns.len())
            };
            if ahead_bytes > 0 && ahead_bytes * 2 > run.bytes {
                return 0;
            }
            let run = source(transfers as u64).as_ref().map(Run::of);
            self.asked = true;
            self.shared.change(Some(self.id), |turns| {
                if let Some(run) = run {
                    turns.set_run(run);
                }
                turns.ask(self.id);
            });
        }
        if let Some(bytes) = self.shared.lock().turns.given_to(self.id) {
            self.asked = false;
            self.left_bytes = bytes;
            self.under_way.push_back(UnderWay { turn: self.next_turn, missing_units: 0, whole: false });
            self.next_turn += 1;
        }
        self.left_bytes
    }

    /// The turn that is being planned.
    pub(crate) fn turn(&self) -> Turn {
        self.next_turn.saturating_sub(1)
    }

    /// So many bytes of its turn were asked for, of which so many units are on their way.
    pub(crate) fn planned(&mut self, bytes: u64, missing_units: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        self.planned_bytes += bytes;
        if let Some(turn) = self.under_way.back_mut() {
            turn.missing_units += missing_units;
        }
        if self.left_bytes == 0 {
            self.close();
        }
    }

    /// Nothing more is planned of its turn, though something is left: it has no more to read, or memory is short.
    pub(crate) fn cut(&mut self) {
        if self.left_bytes > 0 {
            self.left_bytes = 0;
            self.close();
        }
    }

    /// A unit of this turn has come.
    pub(crate) fn came(&mut self, turn: Turn) {
        if let Some(turn) = self.under_way.iter_mut().find(|one| one.turn == turn) {
            turn.missing_units = turn.missing_units.saturating_sub(1);
        }
        self.end();
    }

    /// Whether it has asked for a turn and not got it.
    pub(crate) fn waits(&self) -> bool {
        self.asked
    }

    fn close(&mut self) {
        let bytes = std::mem::take(&mut self.planned_bytes);
        if let Some(turn) = self.under_way.back_mut() {
            turn.whole = true;
        }
        self.shared.change(None, |turns| turns.began(self.id, bytes));
        self.end();
    }

    /// Ends the turns of which all has come.
    fn end(&mut self) {
        while self.under_way.pop_front_if(|turn| turn.whole && turn.missing_units == 0).is_some() {
            self.shared.change(None, |turns| turns.ended(self.id));
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.shared.lock().wakes.remove(&self.id);
        self.shared.change(None, |turns| turns.leave(self.id));
    }
}
