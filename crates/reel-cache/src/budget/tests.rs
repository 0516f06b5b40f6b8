//! What the budget guarantees, as cases and as properties.

use super::*;
use proptest::prelude::*;

/// A budget of ten buffers, two of which cannot be promised.
fn ten() -> Budget {
    Budget::new(10, 2)
}

/// Reserves a reader's first stripe.
fn first(
    budget: &Budget,
    promised: Option<&PromisedBuffers>,
    waiting: &mut Option<Waiting>,
    buffers: usize,
) -> Option<Reservation> {
    budget.reserve_first(promised, waiting, buffers)
}

#[test]
fn no_more_buffers_are_reserved_than_exist() {
    let budget = ten();
    let first = budget.reserve(9).unwrap();
    first.give_back(2);
    assert!(budget.reserve(4).is_none());
    let second = budget.reserve(3).unwrap();
    assert_eq!(budget.reserved(), 10);
    drop(first);
    assert!(budget.reserve(7).is_some());
    drop(second);
    assert_eq!(budget.reserved(), 0);
}

#[test]
fn a_reader_does_not_take_what_earlier_readers_wait_for() {
    let budget = Budget::new(8, 2);
    let held = budget.reserve(5).unwrap();
    let (mut large, mut small) = (None, None);
    assert!(first(&budget, None, &mut large, 8).is_none() && first(&budget, None, &mut small, 2).is_none());
    assert_eq!(
        (budget.waiting_readers(), budget.missing()),
        (2, 0),
        "the large reader must wait until others give buffers back"
    );
    assert!(budget.is_left_over_short());
    assert!(budget.reserve(1).is_none());
    drop(held);
    assert_eq!(budget.missing(), 0);
    assert!(budget.reserve(1).is_none() && first(&budget, None, &mut small, 2).is_none());
    let got = first(&budget, None, &mut large, 8).unwrap();
    assert!(large.is_none());
    drop(got);
    let got = first(&budget, None, &mut small, 2).unwrap();
    assert!(budget.reserve(6).is_some() && budget.reserve(7).is_none());
    drop(got);
    assert_eq!((budget.waiting_readers(), budget.reserved(), budget.missing()), (0, 0, 0));
}

#[test]
fn buffers_that_are_enough_for_all_are_given_in_any_order() {
    let budget = Budget::new(8, 2);
    let held = budget.reserve(8).unwrap();
    let (mut one, mut other) = (None, None);
    assert!(first(&budget, None, &mut one, 5).is_none() && first(&budget, None, &mut other, 3).is_none());
    drop(held);
    let later = first(&budget, None, &mut other, 3).unwrap();
    assert!(first(&budget, None, &mut one, 5).is_some());
    drop(later);
    assert!(!budget.is_plentiful(8) && budget.is_plentiful(7));
    assert!(!budget.is_ample(7) && budget.is_ample(6));
}

#[test]
fn readers_without_a_promise_share_what_is_left_over() {
    let budget = ten();
    let held = budget.reserve(4).unwrap();
    let promised = budget.promise(7);
    assert!(budget.reserve(1).is_none(), "three are left over, and more than that is held");
    let mut waiting = None;
    assert!(
        first(&budget, Some(&promised), &mut waiting, 7).is_none(),
        "what is held has to come back first"
    );
    drop(held);
    assert!(
        budget.reserve(4).is_none() && budget.lend(4).is_none(),
        "a reader waits that was promised the others"
    );
    let drawn = first(&budget, Some(&promised), &mut waiting, 7).unwrap();
    assert!(drawn.is_promised() && waiting.is_none());
    let left_over = budget.reserve(3).unwrap();
    assert!(budget.reserve(1).is_none());
    drop(drawn);
    assert!(budget.reserve(1).is_none(), "promised and unused buffers are not left over");
    assert!(budget.lend(5).is_some() && budget.draw_all(&promised).is_some());
    drop(promised);
    assert_eq!((budget.promised(), budget.reserved()), (0, 3));
    assert!(budget.reserve(7).is_some());
    drop(left_over);
}

#[test]
fn a_promised_reader_comes_before_readers_that_have_waited_longer() {
    let budget = ten();
    let held = budget.reserve(10).unwrap();
    let (mut download, mut viewer) = (None, None);
    assert!(first(&budget, None, &mut download, 4).is_none());
    let promised = budget.promise(5);
    assert!(first(&budget, Some(&promised), &mut viewer, 5).is_none());
    assert!(viewer.as_ref().unwrap().position() < download.as_ref().unwrap().position());
    held.give_back(5);
    assert!(first(&budget, None, &mut download, 4).is_none());
    let drawn = first(&budget, Some(&promised), &mut viewer, 5).unwrap();
    assert!(
        first(&budget, None, &mut download, 4).is_none(),
        "five are left over, and all of those are held"
    );
    assert_eq!((budget.missing(), budget.is_left_over_short()), (0, true));
    drop(held);
    assert!(first(&budget, None, &mut download, 4).is_some());
    drop(drawn);
}

#[test]
fn a_reader_that_needs_more_than_its_promise_waits_with_the_unpromised() {
    let budget = ten();
    let promised = budget.promise(5);
    let mut waiting = None;
    let mine = first(&budget, Some(&promised), &mut waiting, 5).unwrap();
    let more = first(&budget, Some(&promised), &mut waiting, 5).unwrap();
    assert!(mine.is_promised() && !more.is_promised());
    assert!(first(&budget, Some(&promised), &mut waiting, 5).is_none());
    assert!(waiting.as_ref().unwrap().position().is_unpromised);
    drop(mine);
    assert!(
        first(&budget, Some(&promised), &mut waiting, 5).unwrap().is_promised(),
        "the reader moves to the front when its promise is enough"
    );
    assert_eq!(budget.waiting_readers(), 0);
}

#[test]
fn a_part_is_left_for_readers_without_a_promise() {
    let budget = ten();
    let promises: Vec<PromisedBuffers> = (0..4).map(|_| budget.promise(4)).collect();
    let drawn: Vec<_> = promises.iter().filter_map(|promised| promised.draw(4)).collect();
    assert_eq!((budget.promisable(), drawn.len()), (8, 2));
    assert!(budget.reserve(3).is_none() && budget.reserve(2).is_some());
}

#[test]
fn kept_buffers_cannot_be_reserved() {
    let budget = ten();
    let held = budget.reserve(4).unwrap();
    assert!(budget.keep(7).is_none());
    let mut kept = budget.keep(5).unwrap();
    assert!(budget.reserve(2).is_none() && budget.lend(2).is_none() && budget.promise(2).draw(2).is_none());
    assert!(!kept.set(7) && kept.set(6) && budget.reserve(1).is_none());
    drop(held);
    assert!(budget.reserve(5).is_none() && budget.reserve(4).is_some());
    assert!(kept.set(1) && budget.reserve(9).is_some());
    drop(kept);
    assert_eq!((budget.kept(), budget.is_plentiful(9)), (0, true));
}

#[test]
fn buffers_that_come_back_after_the_viewer_has_gone_are_counted() {
    let budget = ten();
    let promised = budget.promise(5);
    let drawn = promised.draw(5).unwrap();
    drop(promised);
    assert_eq!((budget.promised(), budget.reserved()), (0, 5));
    assert!(budget.reserve(6).is_none());
    drop(drawn);
    assert!(budget.reserve(10).is_some());
    assert!(budget.inner.lock().promises.is_empty());
}

#[test]
fn buffers_with_outstanding_requests_stay_reserved_outside_the_promise() {
    let budget = ten();
    let promised = budget.promise(5);
    let seen = Arc::new(promised.draw(5).unwrap());
    let reads: Vec<Arc<Reservation>> = (0..2).map(|_| Arc::clone(&seen)).collect();
    // Three of five have come when the viewer seeks.
    seen.lend_until_answered(2);
    drop(seen);
    assert_eq!((budget.reserved(), budget.unpromised()), (2, 0));
    assert!(promised.draw(5).is_some(), "the whole promise can be drawn again");
    assert!(budget.reserve(9).is_none());
    drop(reads);
    assert_eq!(budget.reserved(), 0);
}

#[test]
fn a_part_of_a_reservation_is_on_the_same_account() {
    let budget = ten();
    let promised = budget.promise(5);
    let whole = promised.draw(5).unwrap();
    let part = whole.split(3);
    assert_eq!((whole.buffers(), part.buffers(), part.is_promised()), (2, 3, true));
    drop(whole);
    assert!(promised.draw(3).is_none() && promised.draw(2).is_some());
    drop(part);
    assert!(promised.draw(5).is_some());
}

impl Budget {
    fn draw_all(&self, promised: &PromisedBuffers) -> Option<Reservation> {
        promised.draw(promised.buffers())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Promise(usize),
    Change(usize, usize),
    Leave(usize),
    Keep(usize),
    Begin(usize, usize),
    BeginUnpromised(usize),
    Try(usize),
    Lend(usize),
    Reserve(usize),
    Done(usize),
    GiveUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..8usize).prop_map(Step::Promise),
        (0..99usize, 0..8usize).prop_map(|(of, buffers)| Step::Change(of, buffers)),
        (0..99usize).prop_map(Step::Leave),
        (0..12usize).prop_map(Step::Keep),
        (0..99usize, 1..6usize).prop_map(|(of, buffers)| Step::Begin(of, buffers)),
        (1..6usize).prop_map(Step::BeginUnpromised),
        (0..99usize).prop_map(Step::Try),
        (1..6usize).prop_map(Step::Lend),
        (1..6usize).prop_map(Step::Reserve),
        (0..99usize).prop_map(Step::Done),
        (0..99usize).prop_map(Step::GiveUp),
    ]
}

/// A reader at the start of a stripe: its viewer, its position in the queue, and how many buffers
/// it needs.
struct StartingReader {
    viewer: Option<usize>,
    waiting: Option<Waiting>,
    buffers: usize,
}

const TOTAL: usize = 40;
const LEFT_OVER: usize = 6;

/// Viewers as a ledger admits them, so that no more is promised than can be, beside readers without
/// a promise, in any order.
struct BudgetModel {
    budget: Budget,
    viewers: Vec<Option<PromisedBuffers>>,
    kept: Option<KeptBuffers>,
    starting: Vec<StartingReader>,
    held: Vec<Reservation>,
}

impl BudgetModel {
    fn new() -> Self {
        let budget = Budget::new(TOTAL, LEFT_OVER);
        Self { budget, viewers: Vec::new(), kept: None, starting: Vec::new(), held: Vec::new() }
    }

    fn is_admitted(&self, more: usize) -> bool {
        self.budget.promised() + self.budget.kept() + more <= self.budget.promisable()
    }

    fn viewer(&self, of: usize) -> Option<usize> {
        let present: Vec<usize> =
            (0..self.viewers.len()).filter(|viewer| self.viewers[*viewer].is_some()).collect();
        present.get(of % present.len().max(1)).copied()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Promise(buffers) if self.is_admitted(buffers) => {
                let promised = self.budget.promise(buffers);
                self.viewers.push(Some(promised));
            }
            Step::Change(of, buffers) => {
                if let Some(promised) = self.viewer(of).and_then(|viewer| self.viewers[viewer].as_ref())
                    && self.is_admitted(buffers.saturating_sub(promised.buffers()))
                {
                    promised.set(buffers);
                }
            }
            Step::Leave(of) => {
                if let Some(viewer) = self.viewer(of) {
                    self.viewers[viewer] = None;
                    self.starting.retain(|reader| reader.viewer != Some(viewer));
                }
            }
            Step::Keep(buffers) if self.is_admitted(buffers) => {
                let kept = self.budget.keep(buffers);
                if kept.is_some() {
                    self.kept = kept;
                }
            }
            Step::Begin(of, buffers) => {
                if let Some(viewer) = self.viewer(of)
                    && self.starting.iter().all(|reader| reader.viewer != Some(viewer))
                {
                    self.begin(Some(viewer), buffers);
                }
            }
            Step::BeginUnpromised(buffers) => self.begin(None, buffers),
            Step::Try(of) if !self.starting.is_empty() => self.proceed(of % self.starting.len()),
            Step::Lend(buffers) => self.held.extend(self.budget.lend(buffers)),
            Step::Reserve(buffers) => self.held.extend(self.budget.reserve(buffers)),
            Step::Done(of) if !self.held.is_empty() => drop(self.held.swap_remove(of % self.held.len())),
            Step::GiveUp(of) if !self.starting.is_empty() => {
                drop(self.starting.swap_remove(of % self.starting.len()));
            }
            _ => {}
        }
    }

    fn begin(&mut self, viewer: Option<usize>, buffers: usize) {
        self.starting.push(StartingReader { viewer, waiting: None, buffers });
        self.proceed(self.starting.len() - 1);
    }

    /// The property that every grant has, checked when it is requested.
    fn proceed(&mut self, number: usize) {
        let (promised, borrowed, is_within) = {
            let state = self.budget.inner.lock();
            let left_over = (TOTAL - state.kept - state.promised.max(state.drawn)).max(LEFT_OVER);
            let borrowed = state.lent + state.unpromised > left_over;
            let stands = |reader: &StartingReader| match (&reader.waiting, reader.viewer) {
                (Some(waiting), Some(viewer)) if !waiting.position.is_unpromised => {
                    let id = self.viewers[viewer].as_ref().map_or(0, |promised| promised.id);
                    state.promises.get(&id).is_some_and(|of| of.covers(reader.buffers))
                }
                _ => true,
            };
            // A promise was reduced. What was drawn beyond it has to come back, and a waiting
            // reader of that viewer gets another position in the queue when it next tries.
            let within =
                state.promises.values().all(|of| of.drawn <= of.buffers) && self.starting.iter().all(stands);
            let reader = &self.starting[number];
            let promised = reader.viewer.and_then(|viewer| self.viewers[viewer].as_ref());
            (promised, borrowed, within)
        };
        let StartingReader { waiting, buffers, .. } = &mut self.starting[number];
        let is_promised = promised.is_some_and(|promised| promised.covers(*buffers));
        let unpromised = self.budget.unpromised();
        match self.budget.reserve_first(promised, waiting, *buffers) {
            Some(reservation) => {
                assert_eq!(reservation.is_promised(), is_promised);
                if !is_promised {
                    let left_over = (TOTAL - self.budget.kept() - self.budget.promised()).max(LEFT_OVER);
                    assert!(
                        unpromised + *buffers <= left_over,
                        "readers without a promise hold promised buffers"
                    );
                }
                self.held.push(reservation);
                self.starting.swap_remove(number);
            }
            None => {
                assert!(!is_promised || borrowed || !is_within, "a viewer waits for promised buffers");
            }
        }
    }

    fn check(&self) {
        let state = self.budget.inner.lock();
        assert!(state.kept + state.reserved() <= TOTAL, "more buffers than exist");
        assert_eq!(state.promised, state.promises.values().map(|of| of.buffers).sum::<usize>());
        assert_eq!(state.drawn, state.promises.values().map(|of| of.drawn).sum::<usize>());
        assert_eq!(state.reserved(), self.held.iter().map(Reservation::buffers).sum::<usize>());
        assert_eq!(state.queue.len(), self.starting.iter().filter(|reader| reader.waiting.is_some()).count());
    }
}

proptest! {
    /// There are never more buffers than exist. Readers without a promise never take what is
    /// promised. A viewer waits for promised buffers only while some of them are lent, or are held
    /// since before the promise. No reader waits for ever, although viewers hold all they may.
    #[test]
    fn promises_are_kept_and_no_reader_waits_for_ever(steps in proptest::collection::vec(step(), 1..200)) {
        let mut model = BudgetModel::new();
        for step in steps {
            model.take(step);
            model.check();
        }
        // What is lent, and what readers without a promise hold, comes back one after another. What
        // viewers draw does not, unless their promises were reduced.
        let within = model.budget.inner.lock().promises.values().all(|of| of.drawn <= of.buffers);
        model.held.retain(|held| held.is_promised() && within);
        // A reader whose promise was reduced in the meantime finds its position among the others.
        for number in (0..model.starting.len()).rev() {
            model.proceed(number);
        }
        for _ in 0..model.starting.len() {
            model.held.retain(|held| held.is_promised() && within);
            model.starting.sort_by_key(|reader| reader.waiting.as_ref().map(Waiting::position));
            let before = model.starting.len();
            model.proceed(0);
            model.check();
            prop_assert!(model.starting.len() < before, "the first reader in the queue waits for ever");
        }
        drop((model.held, model.viewers, model.kept));
        prop_assert_eq!((model.budget.reserved(), model.budget.promised(), model.budget.kept()), (0, 0, 0));
        prop_assert!(model.budget.inner.lock().promises.is_empty());
    }
}
